"""Proxy fences of tile copies: what threads wrote to shared memory is made visible to the copy unit.

The copy unit reads and writes shared memory by another path (PTX ISA, "Async proxy"). A thread fences its writes before
a barrier, and before an arrival that comes after writes to a tile which the unit stores; and barriers in memory after
their initialisation.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from lego_mlir import bindings
from lego_mlir.aliases import Op, Value
from lego_mlir.hardware.limits import THREADS_PER_BLOCK, WARP
from lego_mlir.transforms.modules import walk
from lego_mlir.transforms.passes.operations import create, is_pure, is_shared, operations, producer

ROLE: Final = "lego.warps"
INIT: Final = "nvgpu.mbarrier.init"
_ARRIVE: Final = "nvgpu.mbarrier.arrive"
_BARRIERS: Final = ("gpu.barrier", "nvvm.barrier", _ARRIVE)
_FENCE: Final = "nvvm.fence.proxy"
_FUNCTIONS: Final = ("gpu.func", "func.func", "llvm.func")
_LOOPS: Final = ("scf.for", "scf.while", "scf.parallel")
_WRITES: Final = (
    "memref.store", "vector.store", "vector.transfer_write", "memref.atomic_rmw", "memref.generic_atomic_rmw",
    "nvgpu.device_async_copy",
)  # fmt: skip
ALL_WARPS: Final = range(THREADS_PER_BLOCK // WARP)


def _fence_shared() -> None:
    """What threads wrote to shared memory is visible to the copy unit."""
    kind = {"kind": "#nvvm.proxy_kind<async.shared>", "space": "#nvvm.shared_space<cta>"}
    create("nvvm.fence.proxy", [], attributes=kind)


def fence_initialisation(function: Op) -> None:
    """Barriers are visible to the copy unit after their initialisation."""
    ir = bindings.load().ir
    inits = [op for op in walk(function) if op.name == INIT]
    for init in inits:
        following = operations(init.block)
        after = following[following.index(init) + 1]
        if after.name == INIT or (after.name.startswith("arith.") and _later(following, init)):
            continue
        with init.location, ir.InsertionPoint(after):
            create("nvvm.fence.mbarrier.init", [])
            _fence_shared()


def _later(block: list[Op], init: Op) -> bool:
    """Whether another initialisation follows in the block."""
    return any(op.name == init.name for op in block[block.index(init) + 1 :])


def group_stores(function: Op, stored: Collection[Value]) -> None:
    """Groups of copies are groups of the copy unit's stores as well, complete when a store has read its tile.

    `stored` are the tiles that the unit reads.
    """
    ir, nvvm = bindings.load().ir, bindings.load().dialect("nvvm")
    for operation in list(walk(function)):
        point = ir.InsertionPoint(operation)
        if operation.name in _BARRIERS:
            if not _is_fenced(operation, stored):
                with operation.location, point:
                    _fence_shared()
        elif operation.name == "nvvm.cp.async.commit.group":
            with operation.location, point:
                nvvm.CpAsyncBulkCommitGroupOp()
        elif operation.name == "nvvm.cp.async.wait.group":
            pending = int(ir.IntegerAttr(operation.attributes["n"]).value)
            with operation.location, point:
                nvvm.CpAsyncBulkWaitGroupOp(pending, read=True)
        elif operation.name == "gpu.return":
            with operation.location, point:  # shared memory lives until all stores have read it
                nvvm.CpAsyncBulkCommitGroupOp()
                nvvm.CpAsyncBulkWaitGroupOp(0, read=True)


def _is_fenced(barrier: Op, stored: Collection[Value]) -> bool:
    """Whether a fence precedes a barrier, or an arrival orders no write to a tile since the last barrier."""
    block = operations(barrier.block)
    before = next((op for op in reversed(block[: block.index(barrier)]) if not is_pure(op)), None)
    if before is not None and before.name == _FENCE:
        return True
    return barrier.name == _ARRIVE and not _follows_writes(barrier, stored)


def _follows_writes(operation: Op, stored: Collection[Value]) -> bool:
    """Whether a thread may come to an operation with writes to these tiles that no barrier of its threads follows."""
    warps = ALL_WARPS
    while operation.name not in _FUNCTIONS:
        block = operations(operation.block)
        here = block.index(operation)
        warps = _warps_of(operation) if ROLE in operation.attributes else warps
        found = _ends_with_writes(block[:here], warps, stored)
        if found is not None:
            return found
        parent = operation.parent.operation
        if parent.name in _LOOPS and _ends_with_writes(block[here:], warps, stored):
            return True
        operation = parent
    return False


def _warps_of(role: Op) -> range:
    first, end = bindings.load().ir.DenseI32ArrayAttr(role.attributes[ROLE])
    return range(first, end)


def _ends_with_writes(block: Sequence[Op], warps: range, stored: Collection[Value]) -> bool | None:
    """Whether a write of these warps to a tile comes after their last barrier; None if there is neither."""
    for operation in reversed(block):
        if ROLE in operation.attributes and not range(
            max(warps.start, _warps_of(operation).start), min(warps.stop, _warps_of(operation).stop)
        ):
            continue
        if operation.name in _BARRIERS and operation.name != _ARRIVE:
            return False
        inside = (operation, *walk(operation))
        if any(op.name in _WRITES and any(root_of(v) in stored for v in op.operands) for op in inside):
            return True
    return None


def root_of(value: Value) -> Value:
    """The tile of which a shared memref is a part or another form; any other value is its own."""
    if not is_shared(value.type):
        return value
    source = producer(value)
    inner = next((v for v in source.operands if is_shared(v.type)), None) if source is not None else None
    return value if inner is None or source.name == "memref.view" else root_of(inner)
