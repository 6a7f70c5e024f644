"""Costs of scans, sorts and gathers in a layout, in issue slots of one warp, by where the bits of the axis are.

A scan combines a thread's neighbours one after another, joins lanes in doubling distances and warps by one exchange; a
sort compares elements whose indices differ in one bit, once for each level above it; a gather has a plan,
`f2.gathers`. An axis whose bits are shared by several places is moved to others and back.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from lego_mlir.errors import LayoutError
from lego_mlir.f2 import gathers
from lego_mlir.f2.axis_bits import AxisBits, axis_bits, blocked_along
from lego_mlir.f2.banks import WORD_BITS
from lego_mlir.f2.conversion import BARRIER_SLOTS
from lego_mlir.f2.linear import LinearLayout
from lego_mlir.hardware.devices import reference

COMPARE_SLOTS: Final = 2.0
"""A comparison and a selection."""
SHUFFLE_SLOTS: Final[float] = reference("layouts")["shuffle"]
"""A shuffle of a reduction, a scan or a sort."""
EXCHANGE_SLOTS: Final = {"register": 0.0, "lane": SHUFFLE_SLOTS, "warp": 6.0}
"""What brings the other element of a pair: nothing, a shuffle, a store and a load."""


def crosses_warps(layout: LinearLayout, axis: int) -> bool:
    """Whether warps exchange elements along an axis."""
    bits = axis_bits(layout, axis)
    return bits is None or any(bit.place == "warp" for bit in bits.each)


@lru_cache(maxsize=16384)
def scan_slots(layout: LinearLayout, axis: int, values: int, bits: int) -> float:
    """The slots of a scan of `values` tiles together, `bits` the width of an element."""
    found, words = axis_bits(layout, axis), values * max(1, bits // WORD_BITS)
    n = 1 << len(layout.columns_of("register"))
    if found is None:
        return 3 * n * words + 2 * _moved(n * words)
    low = 0
    while low < len(found.each) and found.each[low].place == "register":
        low += 1
    runs = n >> low
    steps = {place: sum(bit.place == place for bit in found.each[low:]) for place in EXCHANGE_SLOTS}
    slots = 2.0 * n * words + runs * steps["register"] * words
    if steps["lane"]:
        slots += runs * words * ((2 + SHUFFLE_SLOTS) * steps["lane"] + 1 + SHUFFLE_SLOTS)
    if steps["warp"]:
        slots += runs * words * (1 + 2 * (1 << steps["warp"])) + BARRIER_SLOTS
    return slots


@lru_cache(maxsize=16384)
def sort_slots(layout: LinearLayout, axis: int, values: int, bits: int) -> float:
    """The slots of a bitonic sort of `values` tiles together."""
    found, words = axis_bits(layout, axis), values * max(1, bits // WORD_BITS)
    n = 1 << len(layout.columns_of("register"))
    extra = 0.0
    if found is None:
        found, extra = _in_lanes(layout, axis), 2 * _moved(n * words)
    slots = extra
    for bit in found.each:
        steps = len(found.each) - bit.level
        slots += steps * n * words * (COMPARE_SLOTS + EXCHANGE_SLOTS[bit.place])
        slots += steps * BARRIER_SLOTS if bit.place == "warp" else 0.0
    return slots


def flip_slots(layout: LinearLayout, axis: int, bits: int) -> float:
    """The slots of a tile reversed along an axis."""
    found, n = axis_bits(layout, axis), (1 << len(layout.columns_of("register"))) * max(1, bits // WORD_BITS)
    if found is None:
        return 3 * _moved(n)
    places = {bit.place for bit in found.each}
    return _moved(n) if "warp" in places else n * EXCHANGE_SLOTS["lane"] if "lane" in places else 0.0


@lru_cache(maxsize=16384)
def gather_slots(value: LinearLayout, index: LinearLayout, axis: int, bits: int) -> tuple[float, bool]:
    """The slots of a gather, and whether its elements leave their warps."""
    name, bits = f"dim{axis}", max(8, bits)
    plan = gathers.gather_plan(value, index, name, bits)
    if plan.by_shuffles:
        return gathers.shuffle_slots(plan), False
    return gathers.memory_slots(plan, gathers.stored_plan(plan, value, index, name)), not plan.local


def _in_lanes(layout: LinearLayout, axis: int) -> AxisBits:
    """The bits of the axis in a layout that has none of them shared."""
    found = axis_bits(blocked_along(layout, axis), axis)
    if found is None:
        raise LayoutError(f"a blocked layout shares no bits of axis {axis}: {layout!r}")
    return found


def _moved(words: float) -> float:
    """About the slots of a conversion through shared memory."""
    return 4 * words + BARRIER_SLOTS
