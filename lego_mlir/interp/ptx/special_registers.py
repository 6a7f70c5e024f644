"""Special registers: the identity of threads, blocks and clusters. PTX ISA, "Special Registers"."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from lego_mlir.aliases import Array, IntArray
from lego_mlir.hardware.devices import REFERENCE_SMS
from lego_mlir.hardware.limits import WARP
from lego_mlir.interp.ptx.gangs import Gang
from lego_mlir.interp.ptx.ptx_machine import PtxMachine

AXES: Final = {"x": 0, "y": 1, "z": 2}
LANES: Final = np.arange(WARP, dtype=np.uint32)
LANE_MASKS: Final = {
    "eq": 1 << LANES.astype(np.uint64),
    "lt": (1 << LANES.astype(np.uint64)) - 1,
    "le": (2 << LANES.astype(np.uint64)) - 1,
    "gt": 0xFFFFFFFF - ((2 << LANES.astype(np.uint64)) - 1),
    "ge": 0xFFFFFFFF - ((1 << LANES.astype(np.uint64)) - 1),
}


def special_register(machine: PtxMachine, name: str) -> Callable[[Gang], Array] | None:
    """A reader of a special register, u32 or u64; None for one that is not modelled."""
    word, _, axis = name[1:].partition(".")
    at = AXES.get(axis, 0)
    shape = machine.shape
    uniform = {
        "ntid": shape.block[at],
        "nctaid": shape.grid[at],
        "cluster_nctaid": shape.cluster[at],
        "nclusterid": shape.grid[at] // shape.cluster[at],
        "cluster_nctarank": shape.cluster_blocks,
        "is_explicit_cluster": int(shape.cluster_blocks > 1),
        "dynamic_smem_size": shape.dynamic_shared,
        "nwarpid": shape.warps,
        "nsmid": REFERENCE_SMS,
        "gridid": 1,
    }
    if word.startswith("pm"):
        uniform[word] = 0
    if word.startswith("envreg"):  # 1 and 2: the workspace of a cooperative launch, its upper and lower half
        address = machine.globals.grid_workspace
        uniform[word] = {"envreg1": address >> 32, "envreg2": address & 0xFFFFFFFF}.get(word, 0)
    if word in uniform:
        value = np.array([uniform[word]], np.uint32)
        return lambda gang: value
    if word == "tid":
        return lambda gang: machine.tid[at][gang.warps].reshape(-1)
    if word == "laneid":
        return lambda gang: np.tile(LANES, len(gang.warps))
    if word == "warpid":
        return lambda gang: (gang.lane_warp % shape.warps).astype(np.uint32)
    if word.startswith("lanemask_"):
        mask = LANE_MASKS[word.removeprefix("lanemask_")].astype(np.uint32)
        return lambda gang: np.tile(mask, len(gang.warps))
    if word.startswith(("clock", "globaltimer")):
        return lambda gang: np.array([machine.later()], np.uint64)
    return _of_block(machine, word, at)


def _of_block(machine: PtxMachine, word: str, axis: int) -> Callable[[Gang], Array] | None:
    """A register whose value depends on the block."""
    shape = machine.shape
    extent = shape.cluster[axis]
    found: dict[str, Callable[[IntArray], IntArray]] = {
        "ctaid": lambda slots: machine.blocks[slots, axis],
        "clusterid": lambda slots: machine.blocks[slots, axis] // extent,
        "cluster_ctaid": lambda slots: machine.blocks[slots, axis] % extent,
        "cluster_ctarank": lambda slots: slots % shape.cluster_blocks,
        "smid": lambda slots: slots,
    }
    of_slots = found.get(word)
    return None if of_slots is None else lambda gang: of_slots(machine.slots(gang)).astype(np.uint32)
