"""The shared-memory layout between two distributed layouts, without bank conflicts (sections 5.4, 9.2 of the paper).

Two layouts A and B of one tensor exchange their values through shared memory: A writes, B reads. The planner chooses a
map from offsets to elements so that both access vectors as wide as possible, and lanes of one phase never meet in a
bank with different words. Offsets are read as low bits (the vector), bank bits and index bits; lanes collide if they
differ by an element whose offset has index bits only. So the index bits are taken from a subspace that meets neither
the lanes of A nor those of B. Its dimension always suffices (lemma 9.5): no pair of layouts needs a conflict.

`ldmatrix` reads rows of 128 bits, whose elements it hands to different lanes. If registers of A hold these elements, or
words of them, A stores them together and B loads four words a lane in one instruction (`matrix_swizzle`).

Steps, in the notation of `docs/`: V, the registers that both sides hold; `low`, V and further registers of one side; R,
a complement of `low`; H, the subspace that avoids the lanes of both.

>>> from lego_mlir.f2.encodings import Blocked
>>> rows = Blocked((1, 4), (4, 8), (1, 1), order=(1, 0)).layout((32, 32))
>>> columns = Blocked((4, 1), (8, 4), (1, 1), order=(0, 1)).layout((32, 32))
>>> plan = swizzle(rows, columns, bits=32)
>>> plan.store_vector, plan.load_vector, plan.store().wavefronts(), plan.load().wavefronts()
(4, 1, 4, 1)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile

from lego_mlir.errors import LayoutError
from lego_mlir.f2.banks import ROW_BITS, VECTOR_BITS, WORD_BITS, MemoryAccesses, accesses, phase_lanes
from lego_mlir.f2.dims import log2
from lego_mlir.f2.linear import LinearLayout
from lego_mlir.f2.matrices import MatrixAccesses, matrix_accesses
from lego_mlir.f2.matrix import Echelon, combine, complement, independent, intersection, solve

REGISTER, LANE, WARP = "register", "lane", "warp"
ELEMENT_BITS = (8, 16, 32, 64)
MATRIX_BITS = (8, 16, 32)
TRANSPOSED = 16
"""Bits of the elements that `ldmatrix` transposes (PTX ISA, ldmatrix.trans.b16)."""
WARP_LANES = 32


@dataclass(frozen=True)
class SwizzlePlan:
    """A conversion through shared memory: the memory layout, and the elements of a vector on each side.

    `slice_elements`: the number of elements in the slice that a warp accesses; 0 if warps exchange elements.
    `matrices`: the target is loaded by `ldmatrix`.
    """

    source: LinearLayout
    target: LinearLayout
    memory: LinearLayout
    store_vector: int
    load_vector: int
    bits: int
    slice_elements: int = 0
    matrices: bool = False

    @cached_property
    def stored(self) -> MemoryAccesses:
        """The accesses that write the source's values."""
        return accesses(self.source, self.memory, self.store_vector, self.bits)

    @cached_property
    def loaded(self) -> MemoryAccesses:
        """The vector accesses that read the target's values."""
        return accesses(self.target, self.memory, self.load_vector, self.bits)

    @cached_property
    def loaded_matrices(self) -> MatrixAccesses:
        """The accesses by `ldmatrix` that read the target's values. Raises LayoutError where there are none."""
        found = matrix_accesses(self.target, self.memory, self.bits)
        if found is None:
            raise LayoutError("SwizzlePlan: the target cannot be loaded by ldmatrix from this memory layout")
        return found

    def store(self) -> MemoryAccesses:
        """The accesses that write the source's values."""
        return self.stored

    def load(self) -> MemoryAccesses:
        """The vector accesses that read the target's values."""
        return self.loaded

    def load_wavefronts(self) -> int:
        """The wavefronts of a warp's loads."""
        if self.matrices:
            found = self.loaded_matrices
            return len(found.each) * found.count * found.wavefronts()
        return len(self.loaded.each) * self.loaded.wavefronts()

    def store_wavefronts(self) -> int:
        """The wavefronts of a warp's stores."""
        return len(self.stored.each) * self.stored.wavefronts()

    def instructions(self) -> int:
        """The stores and loads of a lane."""
        return len(self.stored.each) + len((self.loaded_matrices if self.matrices else self.loaded).each)

    def is_widest(self) -> bool:
        """Whether both sides access vectors of 128 bits."""
        return min(self.store_vector, self.load_vector) * self.bits == VECTOR_BITS


@dataclass(frozen=True)
class _Side:
    """One distributed layout as spans of flat element numbers."""

    registers: tuple[int, ...]
    lanes: tuple[int, ...]
    warps: tuple[int, ...]

    @classmethod
    def of(cls, layout: LinearLayout) -> _Side:
        return cls(*(layout.columns_of(name) for name in (REGISTER, LANE, WARP)))

    def fixed(self) -> tuple[int, ...]:
        """The elements that lanes and warps differ by."""
        return (*self.lanes, *self.warps)

    def first_lanes(self, vector: int, bits: int) -> tuple[int, ...]:
        return tuple(phase_lanes(self.lanes, vector, bits))


def swizzle(source: LinearLayout, target: LinearLayout, bits: int, in_order: bool = False) -> SwizzlePlan:
    """The memory layout through which `target` reads what `source` wrote: widest vectors, no bank conflict.

    Both map register, lane, warp to the same tensor; `bits` is the width of an element. A load of several registers is
    of neighbours, `in_order`, where an instruction takes them together. Raises LayoutError for other outputs, a layout
    that is not surjective, or another width than 8, 16, 32 or 64.
    """
    target = _checked(source, target, bits)
    a, b, d = _Side.of(source), _Side.of(target), source.out_bits
    shared = _common_registers(a, b, log2(VECTOR_BITS // bits), in_order)
    wide_a, wide_b = _widened(a, b, shared, bits), _widened(b, a, shared, bits, in_order)
    a_wider = len(wide_a) >= len(wide_b)
    low = wide_a if a_wider else wide_b
    outer = _complement_of_shared(a, b, shared, d)
    low = (*shared, *(_projected(v, shared, outer) for v in low[len(shared) :]))
    columns = _columns(a, b, shared, low, outer, a_wider, d, bits)
    memory = LinearLayout.of((("offset", d),), source.outs, columns)
    vectors = (1 << len(low), 1 << len(shared)) if a_wider else (1 << len(shared), 1 << len(low))
    return SwizzlePlan(source, target, memory, *vectors, bits)


def matrix_swizzle(source: LinearLayout, target: LinearLayout, bits: int, in_order: bool = False) -> SwizzlePlan | None:
    """Like `swizzle`, if the source can store words of rows that `ldmatrix` hands to the target's lanes; else None.

    Plain, a row is the word of registers of lane 0 and the same of lanes 1 to 3; transposed, an element of each of 8
    lanes. The eight rows of a matrix meet in no bank. A word has the target's first registers, `in_order`, or those
    that the source has too.
    """
    if bits not in MATRIX_BITS or target.in_sizes.get(LANE) != WARP_LANES:
        return None
    target = _checked(source, target, bits)
    a, b = _Side.of(source), _Side.of(target)
    count = log2(WORD_BITS // bits)
    word = b.registers[:count] if in_order else _word(a, b, count)
    ways = [((*word, *b.lanes[:2]), b.lanes[2:], independent(b.registers, word))]
    if bits == TRANSPOSED:
        ways.append((b.lanes[2:], (*b.registers[:1], *b.lanes[:2]), b.registers[1:]))
    for row, eight, others in ways:
        side = _Side((*row, *others), eight, b.warps)
        if len(row) != log2(VECTOR_BITS // bits) or len(eight) != 3:
            continue
        stored = _stored_together(a, side, row)
        if 1 << len(stored) < WORD_BITS // bits or len(independent(row, side.fixed())) < len(row):
            continue
        d = source.out_bits
        outer = _complement_of_shared(a, side, stored, d)
        low = (*stored, *(_projected(v, stored, outer) for v in row[len(stored) :]))
        columns = _columns(a, side, stored, low, outer, len(stored) == len(row), d, bits)
        memory = LinearLayout.of((("offset", d),), source.outs, columns)
        plan = SwizzlePlan(source, target, memory, 1 << len(stored), 1, bits, matrices=True)
        found = matrix_accesses(target, memory, bits)
        if found is not None and found.wavefronts() == 1:
            return plan
    return None


def _word(a: _Side, b: _Side, count: int) -> tuple[int, ...]:
    """Registers of B that A holds too, to fill a word; the first ones of B where there are too few."""
    held = Echelon(a.registers)
    return tuple([*(r for r in b.registers if r and r in held), *b.registers][:count])


def _stored_together(a: _Side, b: _Side, elements: Sequence[int]) -> tuple[int, ...]:
    """The first of some elements that registers of a lane of A hold, apart from all lanes and warps."""
    held, apart = Echelon(a.registers), independent(elements, (*a.fixed(), *b.fixed()))
    return tuple(takewhile(lambda element: element in held and element in apart, elements))


def _checked(source: LinearLayout, target: LinearLayout, bits: int) -> LinearLayout:
    """The target with its outputs in the order of the source's. Raises LayoutError if they do not fit together."""
    if bits not in ELEMENT_BITS:
        raise LayoutError(f"swizzle: {bits=} of an element must be one of {list(ELEMENT_BITS)}")
    if source.out_sizes != target.out_sizes:
        raise LayoutError(f"swizzle: the layouts map to {source.out_sizes} and {target.out_sizes}, not to one tensor")
    for what, layout in (("source", source), ("target", target)):
        if any(b for n, b in layout.ins if n not in (REGISTER, LANE, WARP)):
            raise LayoutError(f"swizzle: the {what} has the inputs {layout.in_sizes}; blocks do not share memory")
        if not layout.is_surjective():
            layout.right_inverse()  # raises, naming an element that no place holds
    return target.with_outs(source.outs)


def _common_registers(a: _Side, b: _Side, most: int, in_order: bool) -> tuple[int, ...]:
    """V: elements that registers of both sides differ by, apart from all lanes and warps; those of A's bases first.

    In order they are B's first bases.
    """
    if in_order:
        return _stored_together(a, b, b.registers)[:most]
    both = intersection(a.registers, b.registers)
    inside = Echelon(both)
    candidates = [*(c for c in a.registers if c and c in inside), *both]
    return independent(candidates, (*a.fixed(), *b.fixed()))[:most]


def _widened(x: _Side, y: _Side, shared: Sequence[int], bits: int, in_order: bool = False) -> tuple[int, ...]:
    """`low` if X takes the wider vectors: fill a word, then registers of X that lanes of one phase of Y differ by."""
    low = list(shared)
    mine = independent(x.registers, (*x.fixed(), *low))
    word = log2(max(1, WORD_BITS // bits))
    low += mine[: max(0, word - len(low))]
    most = log2(VECTOR_BITS // bits)
    together = Echelon((*low, *y.first_lanes(1 << len(shared), bits)))
    for register in independent(x.registers, (*x.fixed(), *low)):
        if len(low) < most and len(low) >= word and register in together:
            low.append(register)
        elif in_order:
            break
    return tuple(low)


def _columns(
    a: _Side,
    b: _Side,
    shared: Sequence[int],
    low: Sequence[int],
    outer: Sequence[int],
    a_wider: bool,
    d: int,
    bits: int,
) -> list[int]:
    """The elements of the offset bits: the vector, the rest of a word, banks, index."""
    rest = independent((*(a if a_wider else b).fixed(), *outer), low)  # R
    met = []
    for side, vector in ((a, low if a_wider else shared), (b, shared if a_wider else low)):
        met.append(intersection((*low, *side.first_lanes(1 << len(vector), bits)), rest))
    common = intersection(*met)
    only = [independent(side, common) for side in met]
    free = independent(_registers_first(a, b, low, rest), (*met[0], *met[1]))
    avoiding = [*free, *(e ^ f for e, f in zip(*only, strict=False))]
    index = avoiding[: max(0, d - log2(ROW_BITS // bits))]
    fill_bits = min(d, log2(max(1, WORD_BITS // bits))) - len(low)
    fill = avoiding[len(index) :][: max(0, fill_bits)]
    taken = (*low, *fill, *index)
    bank = independent((*rest, *complement(taken, d)), taken)
    return [*low, *fill, *bank, *index]


def _complement_of_shared(a: _Side, b: _Side, shared: Sequence[int], d: int) -> tuple[int, ...]:
    """A complement of V that contains the lanes and warps of both sides: their accesses of V are aligned."""
    both = independent((*a.fixed(), *b.fixed()))
    return (*both, *complement((*shared, *both), d))


def _projected(vector: int, shared: Sequence[int], outer: Sequence[int]) -> int:
    """The part of a vector in the complement of V."""
    (found,) = solve((*shared, *outer), [vector])
    return combine(outer, (found or 0) >> len(shared))


def _registers_first(a: _Side, b: _Side, low: Sequence[int], rest: Sequence[int]) -> list[int]:
    """A spanning list of R: elements that registers of both sides differ by come first, as constant offsets."""
    both = intersection(intersection((*a.registers, *low), rest), intersection((*b.registers, *low), rest))
    return [*both, *rest]
