"""Stored arrays: each logical axis cut into digits, each digit with a stride in bits.

Row-major tensors, tiles, packed 4-bit elements and fields of records are one thing: the element with digits d is stored
at bit `at + sum(d * stride)`. `stored` reads the digits of each axis and their order in memory. Eight 4-bit columns in
a 32-bit word, the even ones first:

>>> f = stored("weight", "u4", {"k": 2, "n": 2, "q": 4, "odd": 2}, axes="k | n q odd", order="k n odd q")
>>> f.shape, [f.bit(0, j) // 4 for j in range(8)]
((2, 16), [0, 4, 1, 5, 2, 6, 3, 7])

A field of a record has the record's size as the stride of a digit: the 2-byte scales of 34-byte blocks are

>>> stored("scale", "f16", {"row": 2, "block": 3}, "row | block", "row block", strides={"block": 34 * 8}).bit(1, 0)
816
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lego_mlir.aliases import IndexLike
from lego_mlir.errors import LayoutError
from lego_mlir.expr.evaluate import evaluate
from lego_mlir.expr.index import Index
from lego_mlir.expr.verdict import Refuted, Verdict
from lego_mlir.layout.canonical import Size, SizeLike, as_sizes, product, unflatten
from lego_mlir.layout.chain import GroupBy, OrderBy
from lego_mlir.layout.padded import at_most
from lego_mlir.layout.permutations import RegP
from lego_mlir.layout.strided_proofs import judged
from lego_mlir.layout.values import check_range, coerce_indices, show

BITS: Final = {
    "f64": 64, "f32": 32, "i32": 32, "f16": 16, "bf16": 16, "i16": 16, "e4m3": 8, "e5m2": 8, "e8m0": 8, "i8": 8,
    "u8": 8, "u6": 6, "e2m3": 6, "e3m2": 6, "u4": 4, "e2m1": 4, "u2": 2, "u1": 1,
}  # fmt: skip
"""Bits of an element. e2m1, e2m3, e3m2 and e8m0 are those of OCP's microscaling formats; u1 to u6 are codes."""


@dataclass(frozen=True, slots=True)
class PlaceDigit:
    """One digit of an index: its size, and the bits from one value to the next."""

    size: Size
    stride: Size


@dataclass(frozen=True, slots=True)
class StoredField:
    """A logical array in a buffer: digits of each axis, outermost first, and the bit where element 0 begins."""

    name: str
    dtype: str
    axes: tuple[tuple[PlaceDigit, ...], ...]
    at: Size
    buffer: str

    @property
    def bits(self) -> int:
        """Bits of an element."""
        return BITS[self.dtype]

    @property
    def shape(self) -> tuple[Size, ...]:
        """The logical sizes."""
        return tuple(product([digit.size for digit in axis]) for axis in self.axes)

    def digits(self) -> Iterator[PlaceDigit]:
        """All digits, axis by axis."""
        return (digit for axis in self.axes for digit in axis)

    def bit(self, *index: IndexLike) -> IndexLike:
        """The first bit of an element: ints, arrays or symbols in, the same kind out."""
        shape = self.shape
        if len(index) != len(shape):
            raise LayoutError(f"{self.name} takes {len(shape)} indices for the shape {show(shape)}, got {index}")
        position: IndexLike = self.at
        for axis, (i, n, digits) in enumerate(zip(coerce_indices(index, 1), shape, self.axes, strict=True)):
            check_range(i, n, f"index {axis} of {self.name}, {show(shape)}")
            for value, digit in zip(unflatten(i, [d.size for d in digits]), digits, strict=True):
                position = position + value * digit.stride
        return position

    def element(self, bit: int) -> tuple[int, ...] | None:
        """The index of the element that a bit belongs to, None for a bit of another field. For concrete sizes."""
        rest, found = bit - int(self.at), {}
        for digit in sorted(self.digits(), key=lambda d: -int(d.stride)):
            found[digit] = min(max(rest, 0) // int(digit.stride), int(digit.size) - 1)
            rest -= found[digit] * int(digit.stride)
        if not 0 <= rest < self.bits:
            return None
        index = []
        for axis in self.axes:
            value = 0
            for digit in axis:
                value = value * int(digit.size) + found[digit]
            index.append(value)
        return tuple(index) if self.bit(*index) <= bit < self.bit(*index) + self.bits else None

    def layout(self) -> GroupBy:
        """The field as a layout of the algebra, to draw, compose or convert: positions in elements, dense from 0.

        Raises LayoutError where elements of other fields or padding lie between its own.
        """
        inside = sorted(enumerate(self.digits(), 1), key=lambda pair: -_estimate(pair[1].stride))
        dense: Size = self.bits
        for _, digit in reversed(inside):
            if not (isinstance(digit.size, int) and digit.size == 1) and not _same(digit.stride, dense):
                raise LayoutError(
                    f"{self!r} is not dense: a digit of {digit.size!r} has the stride {digit.stride!r} bits"
                )
            dense = dense * digit.size
        sizes = [digit.size for digit in self.digits()]
        return OrderBy(RegP(sizes, [axis for axis, _ in inside])).GroupBy(list(self.shape))

    def reach(self) -> Size:
        """The bits from the first one of element 0 to the last one of the last element."""
        return self.bits + sum((d.size - 1) * d.stride for d in self.digits())

    def check(self) -> Verdict:
        """Whether no two elements share a bit: the digits, with the bits of an element innermost, are one-to-one."""
        digits = sorted(
            (d for d in self.digits() if not (isinstance(d.size, int) and d.size == 1)),
            key=lambda d: -_estimate(d.stride),
        )
        _, verdict = judged((*(d.size for d in digits), self.bits), (*(d.stride for d in digits), 1))
        return verdict

    def __repr__(self) -> str:
        return f"{self.name}: {self.dtype}{show(self.shape)} in {self.buffer}"


def stored(
    name: str,
    dtype: str,
    digits: Mapping[str, SizeLike],
    axes: str,
    order: str,
    at: SizeLike = 0,
    strides: Mapping[str, SizeLike] | None = None,
    buffer: str = "data",
) -> StoredField:
    """A field by the names of its digits: `axes` lists those of each axis, `order` all of them as they are in memory.

    Both are outermost first, axes separated by `|`. Digits are dense from the innermost on, except for those with a
    stride in bits in `strides`. Raises LayoutError for an unknown element type, or digits that do not match.
    """
    if dtype not in BITS:
        raise LayoutError(f"{name}: no stored element type is {dtype!r}; there are {', '.join(BITS)}")
    groups, inside = [axis.split() for axis in axes.split("|")], order.split()
    listed = [digit for axis in groups for digit in axis]
    if sorted(listed) != sorted(inside) or set(listed) != set(digits) or len(set(listed)) < len(listed):
        raise LayoutError(f"{name}: axes {axes!r} and order {order!r} must name each digit of {list(digits)} once")
    sizes = dict(zip(digits, as_sizes(name, list(digits.values())), strict=True))
    found: dict[str, PlaceDigit] = {}
    dense: Size = BITS[dtype]
    for digit in reversed(inside):
        stride = (strides or {}).get(digit, dense)
        found[digit] = PlaceDigit(sizes[digit], stride if isinstance(stride, int) else Index(stride))
        dense = found[digit].stride * sizes[digit]
    return StoredField(name, dtype, tuple(tuple(found[d] for d in axis) for axis in groups), at, buffer)


def disjoint(a: StoredField, b: StoredField) -> Verdict | None:
    """Whether two fields of a buffer share no bit; None where neither is shown.

    They do not if one ends before the other begins, or if both repeat with the same stride and do not within it.
    """
    first, second = (sorted(f.digits(), key=lambda d: -_estimate(d.stride)) for f in (a, b))
    starts, bits = (a.at, b.at), (a.bits, b.bits)
    while True:
        ends = [
            start + width + sum((d.size - 1) * d.stride for d in digits)
            for start, width, digits in zip(starts, bits, (first, second), strict=True)
        ]
        for end, start in ((ends[0], starts[1]), (ends[1], starts[0])):
            verdict = at_most(end, start)
            if verdict:
                return verdict
        if not first or not second or not _same(first[0].stride, second[0].stride):
            return None
        stride = first[0].stride
        first, second = first[1:], second[1:]
        for start, width, digits in zip(starts, bits, (first, second), strict=True):
            if not at_most(start + width + sum((d.size - 1) * d.stride for d in digits), stride):
                return None


def _estimate(size: Size) -> int:
    """A size for comparison, its symbols at their smallest values but large."""
    if isinstance(size, int):
        return size
    values = {}
    for k, symbol in enumerate(sorted(size.expr.free_symbols, key=str)):
        step = getattr(symbol, "multiple_of", 1)
        values[symbol] = step * (1 << 20 + k)
    return int(evaluate(size.expr, values))


def _same(a: Size, b: Size) -> bool:
    return a == b if isinstance(a, int) and isinstance(b, int) else Index(a).same(b)


def first_collision(fields: Sequence[StoredField], bits: int) -> Refuted | None:
    """Two elements that share a bit, or one outside of the buffer, by enumeration; None if there are none."""
    import numpy as np

    owner = np.full(bits, -1, np.int64)
    counted = 0
    for field in fields:
        shape = tuple(map(int, field.shape))
        flat = np.arange(int(product(shape)))
        first = np.broadcast_to(np.asarray(field.bit(*unflatten(flat, shape))), flat.shape)
        if first.size and (int(first.min()) < 0 or int(first.max()) + field.bits > bits):
            index = tuple(int(i) for i in np.unravel_index(int(first.argmax()), shape))
            return Refuted({"index": index}, f"{field.name}{show(index)} is stored at bit {int(first.max())} of {bits}")
        for k in range(field.bits):
            taken = owner[first + k]
            own = counted + flat
            if (taken >= 0).any():
                mine = int((taken >= 0).argmax())
                return _collide(fields, int(taken[mine]), counted + mine, int(first[mine]) + k)
            owner[first + k] = own
            lost = owner[first + k] != own
            if lost.any():
                mine = int(lost.argmax())
                return _collide(fields, counted + mine, int(owner[first[mine] + k]), int(first[mine]) + k)
        counted += flat.size
    return None


def _collide(fields: Sequence[StoredField], one: int, other: int, bit: int) -> Refuted:
    places = []
    for number in (one, other):
        for field in fields:
            elements = int(product(field.shape))
            if number < elements:
                places.append((field.name, tuple(map(int, unflatten(number, field.shape)))))
                break
            number -= elements
    (a, i), (b, j) = places
    return Refuted({"places": places, "bit": bit}, f"{a}{show(i)} and {b}{show(j)} are both stored at bit {bit}")
