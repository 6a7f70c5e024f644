"""Conversion of a value between distributed layouts: the cheapest of four ways (section 5.4 of the paper).

Nothing, if both are the same function; registers renamed, if no element leaves its thread; warp shuffles, if none
leaves its warp; shared memory otherwise, or where its model is cheaper. Costs are in issue slots of one warp: a shuffle
takes one, a select a half, a wavefront of shared memory one; shared memory pays the latency of a store, a barrier and a
load besides.

>>> from lego_mlir.f2.encodings import MmaOperand, MmaSync
>>> result = MmaSync((4, 1)).layout((64, 16))
>>> operand = MmaOperand(0, MmaSync((4, 1)), k_width=2).layout((64, 16))
>>> conversion_plan(result, operand, bits=16)
Unchanged()
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from lego_mlir.errors import LayoutError
from lego_mlir.f2.banks import WORD_BITS
from lego_mlir.f2.linear import LinearLayout
from lego_mlir.f2.matrix import combine, independent, solve
from lego_mlir.f2.shuffles import ShufflePlan, shuffle_plan, within_warps
from lego_mlir.f2.swizzle import LANE, REGISTER, SwizzlePlan, matrix_swizzle, swizzle
from lego_mlir.hardware.devices import reference

FITTED: Final = reference("conversions")
BARRIER_SLOTS: Final[float] = FITTED["barrier"]
"""Issue slots that other warps leave empty while a block waits."""
WARP_BARRIER_SLOTS: Final[float] = FITTED["warp_barrier"]
"""The same for a barrier of the warp."""
SELECT_SLOTS: Final[float] = FITTED["select"]
BYTE_SLOTS: Final[float] = FITTED["byte"]
"""Further issue slots of a shuffled word of 8-bit elements, which are packed and unpacked one by one."""
ACCESS_SLOTS: Final[float] = FITTED["access"]
"""Issue slots of the address of an access."""
SLICES_BYTES: Final[int] = FITTED["slices_bytes"]
"""Slices that hold copies of one element take no more memory than this: further memory would cost occupancy."""


@dataclass(frozen=True)
class Unchanged:
    """Both layouts hold each element at the same place."""


@dataclass(frozen=True)
class Renamed:
    """No element leaves its thread: register k of the target is register `sources[k]` of the source."""

    sources: tuple[int, ...]


ConversionPlan: TypeAlias = Unchanged | Renamed | ShufflePlan | SwizzlePlan


def conversion_plan(source: LinearLayout, target: LinearLayout, bits: int, in_order: bool = False) -> ConversionPlan:
    """The cheapest conversion of a value of `bits` wide elements.

    Where an instruction takes several registers of the target together, `in_order`, loads leave them next to each other
    in its order. Raises LayoutError if the layouts do not map to one tensor, or the source lacks an element.
    """
    if (renamed := renaming(source, target)) is not None:
        return renamed
    by_shuffles = shuffle_plan(source, target, bits)
    if by_shuffles is not None and shuffle_slots(by_shuffles) <= _fewest_memory_slots(source, target, bits):
        return by_shuffles
    by_memory = memory_plan(source, target, bits, in_order)
    if by_shuffles is not None and shuffle_slots(by_shuffles) <= memory_slots(by_memory):
        return by_shuffles
    return by_memory


def renaming(source: LinearLayout, target: LinearLayout) -> Unchanged | Renamed | None:
    """The conversion where no element leaves its thread; None where one does."""
    place = target.invert_and_compose(source)
    if not _only_registers(place):
        return None
    renamed = tuple(combine(place.columns_of("register"), k) for k in range(target.in_sizes["register"]))
    same = target.in_sizes == source.in_sizes and renamed == tuple(range(len(renamed)))
    return Unchanged() if same else Renamed(renamed)


def memory_plan(source: LinearLayout, target: LinearLayout, bits: int, in_order: bool = False) -> SwizzlePlan:
    """The conversion through shared memory: in slices of warps where no element leaves its warp."""
    if within_warps(target.invert_and_compose(source)):
        plan = in_slices(source, target, bits, in_order)
        elements = plan.memory.in_sizes["offset"]
        if elements == 1 << source.out_bits or elements * bits // 8 <= SLICES_BYTES:
            return plan
    return _cheapest(_without_blocks(source), _without_blocks(target), bits, in_order)


def _cheapest(source: LinearLayout, target: LinearLayout, bits: int, in_order: bool) -> SwizzlePlan:
    """The plan with vector loads, or that with `ldmatrix` where it exists and is not dearer."""
    by_vectors = swizzle(source, target, bits, in_order)
    by_matrices = None if by_vectors.is_widest() else matrix_swizzle(source, target, bits, in_order)
    if by_matrices is None or memory_slots(by_vectors) < memory_slots(by_matrices):
        return by_vectors
    return by_matrices


def in_slices(source: LinearLayout, target: LinearLayout, bits: int, in_order: bool = False) -> SwizzlePlan:
    """The plan in which each warp exchanges its elements through a slice of shared memory.

    The elements of a warp are a coset of those of warp 0: one plan is made for their coordinates in a basis, and the
    number of the warp is a further output of both layouts. Raises LayoutError if a warp reads elements that it does
    not hold.
    """
    target = target.with_outs(source.outs)
    held = source.columns_of("register", "lane")
    basis = independent(held)
    outs, warps = (("element", len(basis)),), source.in_sizes.get("warp", 1)

    def of_one_warp(layout: LinearLayout) -> LinearLayout:
        columns = [x for x in solve(basis, layout.columns_of("register", "lane")) if x is not None]
        ins = (*((n, len(layout.columns_of(n))) for n in ("register", "lane")), ("warp", 0))
        if len(columns) < sum(bits for _, bits in ins):
            raise LayoutError("in_slices: the target needs elements that its warp does not hold")
        return LinearLayout.of(ins, outs, columns)

    first, second = of_one_warp(source), of_one_warp(target)
    return of_every_warp(_cheapest(first, second, bits, in_order), warps)


def of_every_warp(plan: SwizzlePlan, warps: int) -> SwizzlePlan:
    """The plan of one warp for each of `warps`, in slices of the memory; the warp's number is a further output."""
    numbered, elements = LinearLayout.identity(warps, "warp", "number"), plan.memory.in_sizes["offset"]
    return replace(
        plan,
        source=_warpless(plan.source) * numbered,
        target=_warpless(plan.target) * numbered,
        memory=plan.memory * LinearLayout.identity(warps, "offset", "number"),
        slice_elements=elements,
    )


def _warpless(layout: LinearLayout) -> LinearLayout:
    """A layout without its warps, of which there is one."""
    return layout.sublayout([REGISTER, LANE], list(layout.out_sizes))


def shuffle_slots(plan: ShufflePlan) -> float:
    """The issue slots of a conversion by shuffles."""
    packing = BYTE_SLOTS * len(plan.rounds) if plan.bits == 8 else 0
    return plan.shuffles() + SELECT_SLOTS * plan.selects() + packing


def memory_slots(plan: SwizzlePlan) -> float:
    """The issue slots of a conversion through shared memory, the wait for the barrier included."""
    waiting = WARP_BARRIER_SLOTS if plan.slice_elements else BARRIER_SLOTS
    return waiting + plan.store_wavefronts() + plan.load_wavefronts() + ACCESS_SLOTS * plan.instructions()


def _fewest_memory_slots(source: LinearLayout, target: LinearLayout, bits: int) -> float:
    """A lower bound of `memory_slots`: every word is stored and loaded once."""
    words = [len(independent(layout.columns_of("register"))) for layout in (source, target)]
    return WARP_BARRIER_SLOTS + sum((1 << n) * bits / WORD_BITS for n in words)


def _only_registers(place: LinearLayout) -> bool:
    """Whether every lane, warp and block reads itself."""
    for name, size in place.in_sizes.items():
        if name == "register":
            continue
        if place.out_sizes.get(name) != size and size > 1:
            return False
        start = sum(b for n, b in place.outs[: list(place.out_sizes).index(name)]) if name in place.out_sizes else 0
        if place.columns_of(name) != tuple(1 << (start + k) for k in range(size.bit_length() - 1)):
            return False
    others = [n for n in place.out_sizes if n != "register"]
    return not any(place.sublayout(["register"], others).columns)


def _without_blocks(layout: LinearLayout) -> LinearLayout:
    """The layout within one block; its blocks must be trivial, which `swizzle` checks."""
    if layout.in_sizes.get("block", 1) > 1:
        return layout
    return LinearLayout({n: b for n, b in layout.bases.items() if n != "block"}, layout.out_sizes)
