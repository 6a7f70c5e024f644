"""Plans of gathers: where elements are found, and how they get there (section 5.5 of the paper).

A gather along an axis reads, for each element of the result, the source element with the same other coordinates and a
coordinate along the axis that is data. With the source placed by a linear layout, the place of that element is a linear
function of the result's place and of the index:

    register, lane, warp of the result, index  ->  register, lane, warp of the source

If the warp of both is the same, shuffles suffice: the lane of the source is known where the result is needed, but its
register is not known where the value is sent. So every register that the lane may have to send travels, and the
receiver selects one. Below 32 bits several candidates share a word.

Through shared memory each element is loaded from its address. Lanes that differ outside of the axis lie in other banks
as far as there are, and do not conflict, whatever the indices are; those with the same other coordinates share the
banks that are left, where random addresses meet (`random_wavefronts`). The axis lies in the lowest offsets instead
where that is as cheap: so it is if all that the lanes of a warp may read fits into one row of banks.

>>> from lego_mlir.f2.encodings import Blocked
>>> layout = Blocked((1, 2), (2, 16), (1, 1), order=(1, 0)).layout((2, 32))
>>> plan = gather_plan(layout, layout, "dim1", bits=32)
>>> plan.by_shuffles, plan.shuffles(), plan.candidates
(True, 4, (1,))
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from lego_mlir.f2.banks import ROW_BITS, VECTOR_BITS, WORD_BITS
from lego_mlir.f2.conversion import ACCESS_SLOTS, BARRIER_SLOTS, SELECT_SLOTS, WARP_BARRIER_SLOTS, of_every_warp
from lego_mlir.f2.dims import log2
from lego_mlir.f2.linear import LinearLayout
from lego_mlir.f2.matrix import Echelon, independent, rank, solve, units
from lego_mlir.f2.swizzle import SwizzlePlan

SAMPLES = 1000
"""Loads that are drawn for a mean."""
PLACES = ("register", "lane", "warp")


@dataclass(frozen=True)
class GatherPlan:
    """`place` maps register, lane, warp, index to register, lane, warp of the source.

    `candidates` are the source registers that a lane may have to send, as a basis of their differences; those of the
    first `packed` travel in one word. `local`: no element leaves its warp.
    """

    place: LinearLayout
    candidates: tuple[int, ...]
    packed: int
    local: bool
    by_shuffles: bool
    bits: int

    @property
    def exchanges(self) -> bool:
        """Whether lanes read other lanes."""
        parts = self.place.sublayout(list(self.place.in_sizes), ["lane"])
        own = units(len(parts.columns_of("lane")))
        return parts.columns_of("lane") != own or any(parts.columns_of("register", "warp", "index"))

    def shuffles(self) -> int:
        """The number of 32-bit shuffle instructions, for all registers of the result."""
        each = 1 << (len(self.candidates) - self.packed)
        return self.place.in_sizes["register"] * each * max(1, self.bits // WORD_BITS) if self.exchanges else 0

    def selects(self) -> int:
        """The number of select instructions, for all registers of the result."""
        return self.place.in_sizes["register"] * ((1 << len(self.candidates)) - 1) * max(1, self.bits // WORD_BITS)


def gather_plan(source: LinearLayout, target: LinearLayout, axis: str, bits: int) -> GatherPlan:
    """How values of `source` reach the places of `target`, which indices along the output `axis` select.

    The outputs but for the axis have the same sizes. Raises LayoutError if the source lacks an element.
    """
    place = _place(source, target, axis, local=True)
    local = place is not None
    if place is None:
        place = _place(source, target, axis, local=False)
        if place is None:
            source.right_inverse()  # raises, naming an element that no place holds
            raise AssertionError("a surjective source holds every element")
    differing = place.sublayout(["lane", "warp", "index"], ["register"])
    candidates = independent(differing.columns)
    packed = min(len(candidates), log2(max(1, WORD_BITS // bits)))
    plan = GatherPlan(place, candidates, packed, local, local, bits)
    if local and shuffle_slots(plan) > memory_slots(plan, stored_plan(plan, source, target, axis)):
        return replace(plan, by_shuffles=False)
    return plan


def stored_plan(plan: GatherPlan, source: LinearLayout, target: LinearLayout, axis: str) -> SwizzlePlan:
    """How a source is stored for a gather through shared memory: the cheapest of several orders of its elements.

    In the lowest offsets are the axis, or the elements that lanes of the target differ by; registers along the axis
    form vectors, or none do.
    """
    along = LinearLayout.identity(source.out_sizes[axis], "index", axis).with_outs(source.outs).columns
    lanes = target.slice(axis).with_outs(source.outs).columns_of("lane")
    if not plan.local:
        value = source.sublayout(list(PLACES), list(source.out_sizes))
        return min(_orders(value, along, lanes, plan.bits), key=lambda stored: memory_slots(plan, stored))
    basis = independent(source.columns_of("register", "lane"))

    def coordinates(columns: Sequence[int]) -> list[int]:
        return [x for x in solve(basis, columns) if x is not None]

    held = coordinates(source.columns_of("register", "lane"))
    ins = (*((name, len(source.columns_of(name))) for name in PLACES[:2]), ("warp", 0))
    value = LinearLayout.of(ins, (("element", len(basis)),), held)
    warps = source.in_sizes["warp"]
    orders = _orders(value, coordinates(along), coordinates(lanes), plan.bits)
    return min((of_every_warp(one, warps) for one in orders), key=lambda stored: memory_slots(plan, stored))


def _orders(value: LinearLayout, along: Sequence[int], lanes: Sequence[int], bits: int) -> Iterator[SwizzlePlan]:
    """The memory layouts with the axis or the lanes in the lowest bits, after vectors of registers along the axis."""
    registers, fixed = Echelon(value.columns_of("register")), value.columns_of("lane", "warp")
    vector = independent((c for c in along if c in registers), fixed)[: log2(VECTOR_BITS // bits)]
    for first, then in ((along, lanes), (lanes, along)):
        rest = (*first, *then, *fixed, *units(value.out_bits))
        for size in range(len(vector), -1, -1):
            columns = (*vector[:size], *independent(rest, vector[:size]))
            memory = LinearLayout.of((("offset", value.out_bits),), value.outs, columns)
            place = value.invert_and_compose(memory)
            if not any(c % (1 << size) for c in place.columns_of("lane", "warp")):
                yield SwizzlePlan(value, value, memory, 1 << size, 1, bits)


def shuffle_slots(plan: GatherPlan) -> float:
    """The issue slots of a gather by shuffles."""
    packing = plan.shuffles() if plan.bits == 8 and plan.packed else 0
    conditions = plan.place.in_sizes["register"] * len(plan.candidates)
    return plan.shuffles() + SELECT_SLOTS * (plan.selects() + conditions) + packing


def memory_slots(plan: GatherPlan, stored: SwizzlePlan) -> float:
    """The issue slots of a gather through shared memory, the wait for the barrier included."""
    words = max(1, plan.bits // WORD_BITS)
    loads = plan.place.in_sizes["register"] * (words * load_wavefronts(plan, stored) + ACCESS_SLOTS)
    stores = stored.store_wavefronts() + ACCESS_SLOTS * len(stored.stored.each)
    return stores + loads + (WARP_BARRIER_SLOTS if plan.local else BARRIER_SLOTS)


def offsets_of(plan: GatherPlan, stored: SwizzlePlan) -> LinearLayout:
    """register, lane, warp of the result, index -> the offset in shared memory."""
    inputs = list(stored.source.in_sizes)
    return stored.source.invert_and_compose(stored.memory).sublayout(inputs, ["offset"]) @ plan.place


def load_wavefronts(plan: GatherPlan, stored: SwizzlePlan) -> float:
    """The mean wavefronts of a load at random indices: of 64-bit elements, of each half of a warp."""
    offsets, row, word = offsets_of(plan, stored), log2(ROW_BITS // plan.bits), log2(max(1, WORD_BITS // plan.bits))
    lanes, index = ([c >> word for c in offsets.columns_of(name)] for name in ("lane", "index"))
    mask = (1 << row - word) - 1
    banks, reached = rank([c & mask for c in index]), rank([c & mask for c in (*lanes, *index)])
    rows = rank((*lanes, *index)) - reached
    return random_wavefronts(len(lanes) - (reached - banks), reached - banks, banks, rows) if rows else 1.0


@cache
def random_wavefronts(lanes: int, groups: int, banks: int, rows: int) -> float:
    """The mean wavefronts of groups of lanes, each with its own banks and random words in rows of them.

    All numbers are powers of two, given as exponents, `lanes` those of one group.

    >>> random_wavefronts(0, 5, 0, 3), round(random_wavefronts(5, 0, 5, 7), 1)
    (1.0, 3.5)
    """
    drawn = np.random.default_rng(0).integers(0, 1 << banks + rows, (SAMPLES << groups, 1 << lanes))
    drawn.sort(axis=1)
    new = np.ones_like(drawn, bool)
    new[:, 1:] = drawn[:, 1:] != drawn[:, :-1]
    counts = np.zeros((len(drawn), 1 << banks), int)
    np.add.at(counts, (np.nonzero(new)[0], drawn[new] & (1 << banks) - 1), 1)
    return float(counts.max(axis=1).reshape(SAMPLES, -1).max(axis=1).mean())


def _place(source: LinearLayout, target: LinearLayout, axis: str, local: bool) -> LinearLayout | None:
    """The place of each element in the source, in the warp that needs it if `local`; None if it is not there."""
    others = target.slice(axis).with_outs(source.outs)
    along = LinearLayout.identity(source.out_sizes[axis], "index", axis).with_outs(source.outs)
    bits = {name: len(source.columns_of(name)) for name in PLACES}
    warps = others.columns_of("warp")
    own = source.columns_of("warp") if local else (0,) * len(warps)
    if len(own) != len(warps):
        return None
    wanted = [*others.columns_of("register", "lane"), *(a ^ b for a, b in zip(warps, own, strict=True)), *along.columns]
    found = solve(source.columns_of("register", "lane") if local else source.columns_of(*PLACES), wanted)
    columns = [x for x in found if x is not None]
    if len(columns) < len(wanted):
        return None
    if local:
        first = len(others.columns_of("register", "lane"))
        for k in range(len(warps)):
            columns[first + k] |= 1 << (bits["register"] + bits["lane"] + k)
    ins = (*((name, len(target.columns_of(name))) for name in PLACES), *along.ins)
    return LinearLayout.of(ins, tuple(bits.items()), columns)
