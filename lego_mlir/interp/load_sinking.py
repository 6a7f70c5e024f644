"""Loads that the compiler sinks into a branch and that are counted there.

A partial tile is often loaded whole and stored under a condition:

    %v = memref.load %tile[%i]
    scf.if %inside { memref.store %v, %y[%j] }

LLVM sinks such a load into the branch (InstCombine sinks an instruction whose users are all in one successor block),
so only the lanes that take the branch issue a request. The interpreter computes the value at the original position,
with all checks, and counts the request under the branch's condition. A load is sunk if

- all uses of its value are in the block of one side of an `scf.if`, or are pure operations that are sunk with it;
- between the load and the `scf.if` no operation writes to memory, waits, or has a region.

Measured with `bench/counters.py` on transposes and products of sizes that the tiles do not divide.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from lego_mlir.aliases import Op
from lego_mlir.transforms.passes.operations import is_pure, operations, users

LOADS: Final = frozenset({"memref.load", "vector.load", "affine.load"})
_PURE: Final = ("math.", "vector.broadcast", "vector.shape_cast", "vector.insert", "vector.from_elements")


def sunk_loads(block: Sequence[Op]) -> Mapping[Op, tuple[Op, int]]:
    """The loads of a block that are sunk, each with its `scf.if` and the number of the region, 0 or 1."""
    found: dict[Any, tuple[Any, int]] = {}
    for position, branch in enumerate(block):
        if branch.name == "scf.if":
            for region in range(len(branch.regions)):
                moved = _moved_into(branch, region, block[:position])
                found.update((operation, (branch, region)) for operation in moved if operation.name in LOADS)
    return found


def _moved_into(branch: Op, region: int, before: Sequence[Op]) -> list[Op]:
    """The operations directly before a branch that sink into one side of it, last one first."""
    blocks = list(branch.regions[region].blocks)
    inside = set(operations(blocks[0])) if blocks else set()
    moved: list[Any] = []
    for operation in reversed(before):
        if not (operation.name in LOADS or operation.name.startswith(_PURE) or is_pure(operation)):
            break
        used = [user for result in operation.results for user in users(result)]
        if used and all(user in inside for user in used):
            inside.add(operation)
            moved.append(operation)
    return moved
