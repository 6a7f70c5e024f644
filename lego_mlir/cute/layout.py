"""CuTe's layouts: nested shape:stride, with a swizzle of the offset.

A layout maps a natural coordinate, one int for each leaf of its shape, to the sum of coordinate times stride. It also
takes a flat index, counted colexicographically (the first mode is the fastest), and beyond the size the last mode
counts on. A `Swizzle` permutes the offset afterwards.

>>> L = CuteLayout(((2, 2), 4), ((1, 8), 2))
>>> L, L.size(), L.cosize(), L(5), L((1, 1), 2)
(CuteLayout('((2,2),4):((1,8),2)'), 16, 16, 3, 13)

The text is CuTe's: `((2,2),8):((1,4),16)`, `Sw<3,4,3> o _0 o (8,64):(64,1)`. Static ints may be written `_8`, as CuTe
prints them.

>>> parse("(_4,(_2,3)):(_1,(4,8))")
((4, (2, 3)), (1, (4, 8)), None)
>>> parse("Sw<3,4,3> o _0 o 8:1")
(8, 1, Sw<3,4,3>)
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterator, Sequence
from math import prod
from typing import Final, SupportsIndex, TypeAlias

from lego_mlir.aliases import Array, IndexLike, IntArray
from lego_mlir.errors import LayoutError
from lego_mlir.expr.frozen import Frozen
from lego_mlir.expr.index import is_array
from lego_mlir.layout.canonical import require_bits
from lego_mlir.layout.enumeration_limit import ENUMERATED
from lego_mlir.layout.values import ARRAY_LIMIT, coerce_index, coerce_indices, flat_index, restore_kind

IntTuple: TypeAlias = int | tuple["IntTuple", ...]
"""An int or a nested tuple of ints: a profile of modes."""
OFFSET_BITS: Final = 63
"""Bits of an offset: those of a non-negative int64."""
DEEPEST: Final = 64
"""Levels of tuples in a shape; operations on layouts recurse once a level."""


class CuteSwizzle(Frozen):
    """`Swizzle<B, M, S>`: B bits of the offset from bit M + S on, exclusive-ored into the bits from M on.

    Raises LayoutError unless 0 <= B <= |S| and M >= 0; for a negative S the shift goes the other way.
    """

    __slots__ = ("base", "bits", "shift")
    bits: int
    base: int
    shift: int

    def __init__(self, bits: int, base: int, shift: int) -> None:
        bits, base, shift = (as_int("CuteSwizzle: a parameter", v) for v in (bits, base, shift))
        what = f"Swizzle<{bits},{base},{shift}>"
        if bits < 0 or base < 0 or abs(shift) < bits:
            raise LayoutError(f"{what}: needs 0 <= B <= |S| and M >= 0")
        if bits + base + abs(shift) > OFFSET_BITS:
            raise LayoutError(f"{what}: reaches past bit {OFFSET_BITS - 1} of the offset, the last one; lower M or S")
        self._set(bits=bits, base=base, shift=shift)

    def _arguments(self) -> tuple[int, ...]:
        return self.bits, self.base, self.shift

    def __call__(self, offset: IndexLike) -> IndexLike:
        """The permuted offset: an int, an array or a symbol. A swizzle is its own inverse."""
        given, offset = offset, coerce_index(offset)
        return restore_kind(self.at(offset), (given,))

    def at(self, offset: IndexLike) -> IndexLike:
        """The permuted offset of an int, an int64 array or an `Index`."""
        mask = (1 << self.bits) - 1 << self.base + max(0, self.shift)
        moved = offset & mask if self.shift >= 0 else offset & ((1 << self.bits) - 1 << self.base)
        if self.shift < 0:
            return offset ^ (moved << -self.shift)
        return offset ^ (moved >> self.shift)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CuteSwizzle) and self._arguments() == other._arguments()

    def __hash__(self) -> int:
        return hash(self._arguments())

    def __repr__(self) -> str:
        return f"Sw<{self.bits},{self.base},{self.shift}>"


class CuteLayout(Frozen):
    """A nested shape:stride, by shape and stride or by CuTe's text, with an optional swizzle. Immutable.

    Without strides the layout is compact, the first mode fastest. Raises LayoutError for a shape and strides that nest
    differently, a size below 1 or a stride below 0.
    """

    __slots__ = ("shape", "stride", "swizzle")
    shape: IntTuple
    stride: IntTuple
    swizzle: CuteSwizzle | None

    def __init__(
        self, shape: IntTuple | str, stride: IntTuple | None = None, swizzle: CuteSwizzle | None = None
    ) -> None:
        if isinstance(shape, str):
            shape, stride, swizzle = parse(shape)
        if not (swizzle is None or isinstance(swizzle, CuteSwizzle)):
            raise LayoutError(f"CuteLayout: the swizzle must be a CuteSwizzle, got {swizzle!r}")
        shape = _as_tuple(shape)
        stride = _compact(shape)[0] if stride is None else _as_tuple(stride)
        if profile(shape) != profile(stride):
            raise LayoutError(f"CuteLayout: shape {text(shape)} and stride {text(stride)} must nest alike")
        for size, step in zip(leaves(shape), leaves(stride), strict=True):
            if size < 1 or step < 0:
                raise LayoutError(f"CuteLayout: {text(shape)}:{text(stride)} needs sizes >= 1 and strides >= 0")
        self._set(shape=shape, stride=stride, swizzle=swizzle if swizzle is not None and swizzle.bits else None)

    def _arguments(self) -> tuple[object, ...]:
        return self.shape, self.stride, self.swizzle

    @classmethod
    def of(cls, modes: Sequence[CuteLayout]) -> CuteLayout:
        """The layout of some layouts as its modes. Raises LayoutError for a mode with a swizzle."""
        if any(mode.swizzle for mode in modes):
            raise LayoutError("CuteLayout: a mode of a layout cannot have a swizzle; swizzle the whole")
        return cls(tuple(m.shape for m in modes), tuple(m.stride for m in modes))

    def modes(self) -> tuple[CuteLayout, ...]:
        """The top-level modes, each the layout with the other coordinates at 0; one if the shape is an int."""
        if isinstance(self.shape, int) or isinstance(self.stride, int):
            return (self,)
        return tuple(CuteLayout(s, d, self.swizzle) for s, d in zip(self.shape, self.stride, strict=True))

    def leaves(self) -> tuple[tuple[int, int], ...]:
        """(size, stride) of each leaf, the fastest first."""
        return tuple(zip(leaves(self.shape), leaves(self.stride), strict=True))

    def size(self) -> int:
        """The number of coordinates."""
        return prod(leaves(self.shape))

    def cosize(self) -> int:
        """One more than the largest offset."""
        if self.swizzle is not None:
            return int(self.offsets().max()) + 1
        return 1 + sum((n - 1) * d for n, d in self.leaves())

    def __call__(self, *coordinate: IndexLike | tuple[IndexLike, ...]) -> IndexLike:
        """The offset of a flat index, or of one coordinate per mode, each flat or nested: ints, arrays or symbols."""
        given = flat_index(coordinate)
        values = iter(coerce_indices(given, 1))
        nested = _nested(coordinate[0] if len(coordinate) == 1 else coordinate, values)
        return restore_kind(self.at(nested), given)

    def at(self, coordinate: IndexLike | tuple[IndexLike, ...]) -> IndexLike:
        """The offset of a coordinate of ints, int64 arrays or `Index`, flat or nested in tuples.

        Raises LayoutError for arrays whose offsets are beyond int64.
        """
        arrays = [c for c in flat_index((coordinate,)) if is_array(c) and c.size]
        exact = any(c.dtype == object for c in arrays)
        if exact or (arrays and self._reach(arrays) > ARRAY_LIMIT):
            offset = _offset(_as_objects(coordinate), self.shape, self.stride)
            if not exact and max(offset.max(), -offset.min()) >= ARRAY_LIMIT:
                raise LayoutError(
                    f"{self!r} has offsets beyond the 64 bits of arrays; use Python's ints, one coordinate at a time"
                )
            offset = offset if exact else offset.astype("int64")
        else:
            offset = _offset(coordinate, self.shape, self.stride)
        return offset if self.swizzle is None else self.swizzle.at(offset)

    def _reach(self, arrays: Sequence[Array]) -> int:
        """A bound of the offsets of these coordinates, whose last digits are not reduced."""
        largest = max(max(int(a.max()), -int(a.min())) for a in arrays)
        return sum(max(n, largest + 1) * d for n, d in self.leaves())

    def offsets(self) -> IntArray:
        """The offsets of all flat indices. Raises LayoutError above 2**24 elements."""
        import numpy as np

        if self.size() > ENUMERATED:
            raise LayoutError(f"{self!r} has {self.size()} elements; operations are proved for up to {ENUMERATED}")
        found = np.asarray(self.at(np.arange(self.size())))
        return np.broadcast_to(found, (self.size(),))

    def without_swizzle(self) -> CuteLayout:
        """The shape:stride alone."""
        return CuteLayout(self.shape, self.stride)

    def swizzled(self, swizzle: CuteSwizzle | None) -> CuteLayout:
        """The shape:stride with this swizzle in place of any other."""
        return CuteLayout(self.shape, self.stride, swizzle)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CuteLayout) and self._arguments() == other._arguments()

    def __hash__(self) -> int:
        return hash(self._arguments())

    def __str__(self) -> str:
        plain = f"{text(self.shape)}:{text(self.stride)}"
        return plain if self.swizzle is None else f"{self.swizzle!r} o _0 o {plain}"

    def __repr__(self) -> str:
        return f"CuteLayout('{self}')"


def require_layouts(operation: str, *given: object) -> None:
    """Raise LayoutError, naming the operation, for an argument that is not a CuteLayout."""
    for value in given:
        if not isinstance(value, CuteLayout):
            raise LayoutError(
                f"{operation}: a CuteLayout is needed, got {value!r}; CuteLayout('(4,8):(8,1)') reads a text"
            )


def leaves(value: IntTuple) -> tuple[int, ...]:
    """The ints of a nested tuple, in order."""
    return (value,) if isinstance(value, int) else tuple(_walk(value))


def _walk(value: tuple[IntTuple, ...]) -> Iterator[int]:
    for part in value:
        yield from leaves(part)


def profile(value: IntTuple) -> object:
    """The nesting of a tuple, without its values."""
    return 0 if isinstance(value, int) else tuple(profile(part) for part in value)


def text(value: IntTuple) -> str:
    """CuTe's text of a nested tuple: `((2,2),4)`."""
    return str(value) if isinstance(value, int) else f"({','.join(map(text, value))})"


def as_int(what: str, value: object, least: int | None = None) -> int:
    """An int of Python, NumPy or SymPy, not a bool, as Python's. Raises LayoutError, naming `what`, for others."""
    found = None if isinstance(value, bool) or not hasattr(value, "__index__") else _index(value)
    if found is None or (least is not None and found < least):
        bound = "" if least is None else f" >= {least}"
        raise LayoutError(f"{what} must be an int{bound}, got {value!r}")
    return found


def _index(value: SupportsIndex) -> int | None:
    try:
        found = operator.index(value)
    except TypeError:  # an array of several elements, or of another type
        return None
    require_bits("CuteLayout: an int", found)
    return found


def _as_tuple(value: object, depth: int = 0) -> IntTuple:
    if depth > DEEPEST:
        raise LayoutError(f"CuteLayout: a shape or stride of more than {DEEPEST} levels of tuples; flatten it")
    if isinstance(value, (tuple, list)) and value:
        return tuple(_as_tuple(part, depth + 1) for part in value)
    found = None if isinstance(value, bool) or not hasattr(value, "__index__") else _index(value)
    if found is None:
        raise LayoutError(f"CuteLayout: a shape or stride is an int or a nested tuple of ints, got {value!r}")
    return found


def _nested(coordinate: object, values: Iterator[IndexLike]) -> IndexLike | tuple[IndexLike, ...]:
    """A coordinate with its values replaced, its lists as tuples."""
    if isinstance(coordinate, (tuple, list)):
        return tuple(_nested(part, values) for part in coordinate)
    return next(values)


def _as_objects(coordinate: IndexLike | tuple[IndexLike, ...]) -> IndexLike | tuple[IndexLike, ...]:
    """A coordinate with arrays of Python's ints, which are unbounded."""
    if isinstance(coordinate, tuple):
        return tuple(map(_as_objects, coordinate))
    return coordinate.astype(object) if is_array(coordinate) else coordinate


def _compact(shape: IntTuple, step: int = 1) -> tuple[IntTuple, int]:
    """Compact strides, the first leaf fastest, and the next stride."""
    if isinstance(shape, int):
        return step, step * shape
    strides = []
    for part in shape:
        stride, step = _compact(part, step)
        strides.append(stride)
    return tuple(strides), step


def _offset(
    coordinate: IndexLike | tuple[IndexLike, ...], shape: IntTuple, stride: IntTuple, last: bool = True
) -> IndexLike:
    """The offset of a coordinate; a flat one is taken apart, and the last leaf of the whole layout is not reduced."""
    if isinstance(shape, int):
        if isinstance(coordinate, tuple):
            raise LayoutError(f"CuteLayout: coordinate {coordinate} for the mode {shape}")
        return coordinate * stride
    if isinstance(stride, int):
        raise LayoutError(f"CuteLayout: stride {stride} for the mode {text(shape)}")
    if isinstance(coordinate, tuple):
        if len(coordinate) != len(shape):
            raise LayoutError(f"CuteLayout: {len(coordinate)} coordinates for the {len(shape)} modes of {text(shape)}")
        return sum(_offset(c, s, d, last) for c, s, d in zip(coordinate, shape, stride, strict=True))
    total: IndexLike = 0
    for k, (s, d) in enumerate(zip(shape, stride, strict=True)):
        final = last and k == len(shape) - 1
        size = prod(leaves(s))
        total = total + _offset(coordinate if final else coordinate % size, s, d, final)
        coordinate = coordinate // size
    return total


_SWIZZLE = re.compile(
    r"(?:Sw|Swizzle|S)<\s*(-?\d+)\s*,\s*(-?\d+)\s*,\s*(-?\d+)\s*>\s*o\s*(?:_?0\s*o\s*)?(.*)", re.DOTALL
)
_TOKEN = re.compile(r"\s*(?:_?(\d+)|([(),]))")
LONGEST = 4_000
"""Characters of a text that are read, fewer than the digits of an int that Python converts."""


def parse(text: str) -> tuple[IntTuple, IntTuple | None, CuteSwizzle | None]:
    """Shape, stride (None if the text has none) and swizzle. Raises LayoutError, quoting the rest, for other text."""
    if len(text) > LONGEST:
        raise LayoutError(f"CuteLayout: a text of {len(text)} characters; {LONGEST} are read")
    swizzled = _SWIZZLE.fullmatch(text.strip())
    swizzle = CuteSwizzle(*map(int, swizzled.groups()[:3])) if swizzled else None
    shape, colon, stride = (swizzled[4] if swizzled else text).partition(":")
    return _tuple(shape), _tuple(stride) if colon else None, swizzle


def _tuple(text: str) -> IntTuple:
    """A nested tuple of ints."""
    open_tuples: list[list[IntTuple]] = [[]]
    at, expects_value = 0, True
    while text[at:].strip():
        token = _TOKEN.match(text, at)
        if token is None:
            raise _unreadable(text, at)
        at, (number, mark) = token.end(), token.groups()
        if (number is not None or mark == "(") != expects_value:
            raise _unreadable(text, token.start())
        if number is not None:
            open_tuples[-1].append(int(number))
        elif mark == "(":
            if len(open_tuples) > DEEPEST:
                raise LayoutError(f"CuteLayout: a text of more than {DEEPEST} levels of parentheses")
            open_tuples.append([])
        elif mark == ")" and len(open_tuples) > 1:
            closed = tuple(open_tuples.pop())
            open_tuples[-1].append(closed)
        elif mark == ")" or len(open_tuples) == 1:
            raise _unreadable(text, token.start())
        expects_value = mark in ("(", ",")
    if len(open_tuples) != 1 or len(open_tuples[0]) != 1 or expects_value:
        raise _unreadable(text, len(text))
    return open_tuples[0][0]


def _unreadable(text: str, at: int) -> LayoutError:
    return LayoutError(
        f"CuteLayout: cannot read {text.strip()!r} at {text[at:].strip()!r}; a layout is written ((2,2),4):((1,8),2)"
    )
