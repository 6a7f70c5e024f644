"""Proxy fences of tile copies: what threads wrote to shared memory is made visible to the copy unit.

The copy unit reads and writes shared memory by another path (PTX ISA, "Async proxy"). A thread fences its writes before
a barrier, and before an arrival that comes after writes to a tile which the unit stores, by `transforms.proxy_writes`;
and barriers in memory after their initialisation.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from lego_mlir import bindings
from lego_mlir.aliases import Block, Op, Value
from lego_mlir.transforms.modules import walk
from lego_mlir.transforms.passes.operations import create, is_pure, is_shared, operations, producer
from lego_mlir.transforms.proxy_writes import Arrival, Fence, Paths, ProxyWrite, Repeated, Role, Step, after_writes

ROLE: Final = "lego.warps"
INIT: Final = "nvgpu.mbarrier.init"
_ARRIVE: Final = "nvgpu.mbarrier.arrive"
_BARRIERS: Final = ("gpu.barrier", "nvvm.barrier")
_FENCE: Final = "nvvm.fence.proxy"
_LOOPS: Final = ("scf.for", "scf.while", "scf.parallel")
_WRITES: Final = (
    "memref.store", "vector.store", "vector.transfer_write", "memref.atomic_rmw", "memref.generic_atomic_rmw",
    "nvgpu.device_async_copy", "func.call",
)  # fmt: skip
_MATRICES: Final = "nvvm.stmatrix"
"""A write by a number, which tells no tile."""


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
    arrivals = after_writes(_steps(function.regions[0].blocks[0], stored))
    for operation in list(walk(function)):
        point = ir.InsertionPoint(operation)
        if operation.name in _BARRIERS or operation in arrivals:
            if not _is_fenced(operation):
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


def _is_fenced(barrier: Op) -> bool:
    """Whether a fence precedes a barrier."""
    block = operations(barrier.block)
    before = next((op for op in reversed(block[: block.index(barrier)]) if not is_pure(op)), None)
    return before is not None and before.name == _FENCE


def _steps(block: Block, stored: Collection[Value]) -> list[Step]:
    found: list[Step] = []
    for op in operations(block):
        inside = [_steps(b, stored) for region in op.regions for b in region.blocks]
        if ROLE in op.attributes:
            first, end = bindings.load().ir.DenseI32ArrayAttr(op.attributes[ROLE])
            found.append(Role(first, end, inside[0]))
        elif op.name in _LOOPS:
            found.append(Repeated([step for body in inside for step in body]))
        elif inside:
            found.append(Paths(inside if len(inside) > 1 else [*inside, []]))
        elif op.name == _ARRIVE:
            found.append(Arrival(op))
        elif op.name in (*_BARRIERS, _FENCE):
            found.append(Fence())
        elif op.name == _MATRICES or (op.name in _WRITES and any(root_of(v) in stored for v in op.operands)):
            found.append(ProxyWrite())
    return found


def root_of(value: Value) -> Value:
    """The tile of which a shared memref is a part or another form; any other value is its own."""
    if not is_shared(value.type):
        return value
    source = producer(value)
    inner = next((v for v in source.operands if is_shared(v.type)), None) if source is not None else None
    return value if inner is None or source.name == "memref.view" else root_of(inner)
