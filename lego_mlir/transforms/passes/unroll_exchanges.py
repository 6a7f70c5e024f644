"""Unroll loops of known trip counts whose turns exchange values within warps and wait for no other warp.

A shuffle takes some 25 clocks, and those of a reduction wait for each other. Turns that do not depend on each other
fill these clocks if they are in one body:

    for r = 0 to 16:  x = row r; 5 shuffles; store      ->      for r = 0 to 16 step 4:  4 rows; 4 shuffles at a time ..

LLVM unrolls a loop that is not unrolled completely to at most 75 of its instructions, for NVPTX, which such a body with
its shuffles exceeds; raising that for all loops would also unroll the main loops of products. The loop is marked with
the number of turns, a divisor of the trip count, and LLVM unrolls it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lego_mlir import bindings
from lego_mlir.aliases import Op
from lego_mlir.transforms.modules import walk
from lego_mlir.transforms.passes.base import FunctionPass
from lego_mlir.transforms.passes.lower_shuffles import SHUFFLE
from lego_mlir.transforms.passes.subgroup_reduce import REDUCE
from lego_mlir.transforms.passes.trip_counts import constant_of

ANNOTATION: Final = "llvm.loop_annotation"
MOST_OPERATIONS: Final = 256
"""Operations of an unrolled body: beyond, values of several turns would take the registers of other warps."""
TURNS: Final = (8, 4, 2)
_MOVES: Final = (SHUFFLE, REDUCE)
_REDUCTION: Final = 10
"""Shuffles and combinations of a warp's reduction."""
_LOCAL: Final = (
    "arith.",
    "math.",
    "vector.",
    "index.",
    "affine.",
    "memref.load",
    "memref.store",
    "scf.if",
    "scf.yield",
)
"""Operations of a turn that waits for nobody; loops and barriers are none of them."""


@dataclass(frozen=True, slots=True)
class UnrollExchanges(FunctionPass):
    """Marks the loops."""

    name = "lego-unroll-exchanges"

    def run_on(self, function: Op) -> None:
        attribute = bindings.load().ir.Attribute.parse
        for loop in [op for op in walk(function) if op.name == "scf.for"]:
            if turns := _turns(loop):
                unroll = f"#llvm.loop_unroll<disable = false, count = {turns} : i32>"
                loop.attributes[ANNOTATION] = attribute(f"#llvm.loop_annotation<unroll = {unroll}>")


def _turns(loop: Op) -> int:
    """How many turns are put into one; 0 for a loop that stays."""
    low, high, step = map(constant_of, list(loop.operands)[:3])
    names = [op.name for op in walk(loop)]
    if low is None or high is None or not step or not any(name in _MOVES for name in names):
        return 0
    if not all(name in _MOVES or name.startswith(_LOCAL) for name in names):
        return 0
    size, trips = len(names) + _REDUCTION * names.count(REDUCE), -((low - high) // step)
    return next((n for n in TURNS if trips % n == 0 and n * size <= MOST_OPERATIONS), 0)
