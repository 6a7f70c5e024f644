"""Storage formats: several stored arrays in buffers, proved to fill them without sharing a bit.

A format is a bijection of a sum of boxes, the elements of its fields, onto the bits of its buffers, less the padding
that it declares. `check` proves that each field is one-to-one, that fields of a buffer share no bit, that all are
inside, and that the bits add up; together that is the bijection.

>>> from lego_mlir.formats.stored_fields import stored
>>> sizes = {"f": 4, "k": 8}
>>> pair = [stored("gate", "f16", sizes, "f | k", "f k"), stored("up", "f16", sizes, "f | k", "f k", at=4 * 8 * 16)]
>>> StorageFormat("stacked", pair, {"data": ("f16", (8, 8))}).check()
Proved(by='each stride exceeds the reach of the smaller ones; equal sizes; sizes')
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from lego_mlir.errors import LayoutError
from lego_mlir.expr.index import as_expr, index_symbol
from lego_mlir.expr.nodes import Eq
from lego_mlir.expr.prove import prove
from lego_mlir.expr.ranges import Range
from lego_mlir.expr.verdict import Proved, Refuted, Unknown, Verdict
from lego_mlir.formats.stored_fields import BITS, StoredField, disjoint, first_collision
from lego_mlir.layout.base import all_of
from lego_mlir.layout.canonical import Size, is_static, product, unflatten
from lego_mlir.layout.chain import same_number
from lego_mlir.layout.padded import at_most
from lego_mlir.layout.values import show

if TYPE_CHECKING:
    from lego_mlir.formats.codings import Coding

ENUMERATED_BITS: Final = 2**24
"""Bits of a buffer up to which a claim without a proof is enumerated."""
Buffer = tuple[str, tuple[Size, ...]]
"""The element type and the shape that a file or an engine gives a buffer."""


@dataclass(frozen=True, slots=True)
class StorageFormat:
    """Fields in buffers. `padding` is the number of bits of each buffer that hold nothing; `coding` gives values.

    Raises LayoutError for a field in a buffer that is not listed.
    """

    name: str
    fields: Sequence[StoredField]
    buffers: Mapping[str, Buffer]
    padding: Mapping[str, Size] = field(default_factory=dict)
    coding: Coding | None = None

    def __post_init__(self) -> None:
        for one in self.fields:
            if one.buffer not in self.buffers:
                raise LayoutError(f"{self.name}: {one!r}, and its buffers are {list(self.buffers)}")

    def __getitem__(self, name: str) -> StoredField:
        """The field of this name. Raises LayoutError with the names."""
        for one in self.fields:
            if one.name == name:
                return one
        raise LayoutError(f"{self.name} has the fields {[f.name for f in self.fields]}, not {name!r}")

    def bits_of(self, buffer: str) -> Size:
        """The bits of a buffer."""
        dtype, shape = self.buffers[buffer]
        return BITS[dtype] * product(shape)

    def bytes_of(self, buffer: str) -> int:
        """The bytes of a buffer of concrete sizes."""
        return -(-int(self.bits_of(buffer)) // 8)

    def is_full(self, buffer: str) -> bool:
        """Whether the fields of a buffer of concrete sizes fill all of its bytes."""
        inside = (one.bits * product(one.shape) for one in self.fields if one.buffer == buffer)
        return sum(map(int, inside)) == 8 * self.bytes_of(buffer)

    def check(self) -> Verdict:
        """Whether elements and the bits of the buffers, less padding, are in bijection."""
        verdicts = [one.check() for one in self.fields]
        for buffer in self.buffers:
            inside = [one for one in self.fields if one.buffer == buffer]
            verdicts.append(self._filled(buffer, inside))
            verdicts += [at_most(one.at + one.reach(), self.bits_of(buffer)) for one in inside]
            for a, b in itertools.combinations(inside, 2):
                verdicts.append(disjoint(a, b) or Unknown(f"{a!r} and {b!r}: not shown to share no bit"))
        verdict = all_of(verdicts)
        if isinstance(verdict, Proved) or not is_static([n for _, shape in self.buffers.values() for n in shape]):
            return verdict
        found = self._enumerated()
        return verdict if found is None else found

    def _filled(self, buffer: str, inside: Sequence[StoredField]) -> Verdict:
        used = self.padding.get(buffer, 0) + sum(one.bits * product(one.shape) for one in inside)
        verdict = same_number(used, self.bits_of(buffer))
        if isinstance(verdict, Refuted):
            return Refuted(
                {}, f"{self.name}: {buffer} has {self.bits_of(buffer)!r} bits, its fields and padding {used!r}"
            )
        return verdict

    def _enumerated(self) -> Verdict | None:
        total = 0
        for buffer in self.buffers:
            inside, bits = [one for one in self.fields if one.buffer == buffer], int(self.bits_of(buffer))
            total += bits
            if total > ENUMERATED_BITS:
                return None
            for verdict in (self._filled(buffer, inside), first_collision(inside, bits)):
                if isinstance(verdict, Refuted):
                    return verdict
        return Proved(f"enumeration of {total} bits")

    def agrees(self, other: StorageFormat) -> Verdict:
        """Whether both store every element at the same bit; the refutation names an element and its two places."""
        if sorted(f.name for f in self.fields) != sorted(f.name for f in other.fields):
            return Refuted({}, f"{self.name} has other fields than {other.name}")
        for mine in self.fields:
            theirs = other[mine.name]
            if len(mine.shape) != len(theirs.shape) or not all(map(same_number, mine.shape, theirs.shape)):
                return Refuted(
                    {}, f"{mine.name} is {show(mine.shape)} in {self.name}, {show(theirs.shape)} in {other.name}"
                )
            verdict = _same_places(mine, theirs, self.name, other.name)
            if not isinstance(verdict, Proved):
                return verdict
        return Proved("equal places by proof")

    def element(self, buffer: str, bit: int) -> tuple[str, tuple[int, ...]] | None:
        """The field and index of the element at a bit of a buffer, None for padding."""
        for one in self.fields:
            if one.buffer == buffer and (found := one.element(bit)) is not None:
                return one.name, found
        return None


def _same_places(a: StoredField, b: StoredField, first: str, second: str) -> Verdict:
    """Whether two fields of one shape agree at every index."""
    import numpy as np

    if is_static(a.shape) and product(a.shape) <= ENUMERATED_BITS:
        shape = tuple(map(int, a.shape))
        flat = np.arange(int(product(shape)))
        bits = [np.broadcast_to(f.bit(*unflatten(flat, shape)), flat.shape) for f in (a, b)]
        wrong = bits[0] != bits[1]
        if not wrong.any() and a.buffer == b.buffer:
            return Proved(f"enumeration of {flat.size} elements")
        k = int(wrong.argmax())
        index, places = tuple(map(int, unflatten(k, shape))), (int(bits[0][k]) // a.bits, int(bits[1][k]) // b.bits)
        where = [f"{f.buffer}[{place}]" for f, place in zip((a, b), places, strict=True)]
        return Refuted(
            {"index": index, "places": places},
            f"{a.name}{show(index)} is at {where[0]} in {first} and at {where[1]} in {second}",
        )
    names = [index_symbol(f"i{axis}") for axis in range(len(a.shape))]
    ranges = {i.expr: Range(0, as_expr(n)) for i, n in zip(names, a.shape, strict=True)}
    return prove(Eq(as_expr(a.bit(*names)), as_expr(b.bit(*names))), ranges)
