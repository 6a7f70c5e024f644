"""Loads that the compiler moves into a branch, and are counted there.

A ragged tile is often loaded whole and stored under a condition:

    %v = memref.load %tile[%i]
    scf.if %inside { memref.store %v, %y[%j] }

LLVM moves such a load into the branch (InstCombine sinks an instruction whose users are all in one successor block),
so only the lanes that take the branch send a request. The interpreter computes the value where it stands, with all
checks, and counts the request under the branch's condition. A load is moved if

- all uses of its value are in the block of one side of an `scf.if`, or are pure operations that are moved with it;
- between the load and the `scf.if` no operation writes to memory, waits, or has a region.

Measured with `bench/counters.py` on transposes and products of sizes that the tiles do not divide.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from lego_mlir.transforms.passes.operations import is_pure, operations, users

LOADS: Final = frozenset({"memref.load", "vector.load", "affine.load"})
_PURE: Final = ("math.", "vector.broadcast", "vector.shape_cast", "vector.insert", "vector.from_elements")


def sunk_loads(block: Sequence[Any]) -> Mapping[Any, tuple[Any, int]]:
    """The loads of a block that are moved: each with its `scf.if` and the region, 0 or 1, that it is moved to."""
    found: dict[Any, tuple[Any, int]] = {}
    for position, branch in enumerate(block):
        if branch.name == "scf.if":
            for region in range(len(branch.regions)):
                moved = _moved_into(branch, region, block[:position])
                found.update((operation, (branch, region)) for operation in moved if operation.name in LOADS)
    return found


def _moved_into(branch: Any, region: int, before: Sequence[Any]) -> list[Any]:
    """The operations directly in front of a branch that move into one side of it, last one first."""
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
