"""Read barriers of a module's kernel, and asynchronous copies with their groups and waits."""

from __future__ import annotations

from lego_mlir.aliases import Op
from lego_mlir.proofs.footprints import COMMIT, WAIT, WARP_BARRIER
from lego_mlir.proofs.module_kernel import ModuleKernel, reads
from lego_mlir.tracing.trace.trace import AsyncCopy, Barrier, MlirOperation


@reads("gpu.barrier", "nvvm.barrier0")
def _barrier(kernel: ModuleKernel, op: Op) -> None:
    text = str(op.attributes["address_spaces"]) if "address_spaces" in op.attributes else ""
    if op.operands or (text and "workgroup" not in text):
        kernel.opaque = kernel.opaque or f"{kernel.source(op)}: this barrier is not read"
    kernel.body.append(Barrier(kernel.source(op)))


@reads("nvvm.bar.warp.sync")
def _warp_barrier(kernel: ModuleKernel, op: Op) -> None:
    kernel.body.append(MlirOperation((), WARP_BARRIER, (), (), kernel.source(op)))


@reads("nvgpu.device_async_create_group", "nvvm.cp.async.commit.group")
def _commit(kernel: ModuleKernel, op: Op) -> None:
    kernel.body.append(MlirOperation((), COMMIT, (), (), kernel.source(op)))


@reads("nvgpu.device_async_wait", "nvvm.cp.async.wait.group")
def _wait(kernel: ModuleKernel, op: Op) -> None:
    named = next((name for name in ("numGroups", "n") if name in op.attributes), None)
    groups = 0 if named is None else int(op.attributes[named].value)
    kernel.body.append(MlirOperation((), WAIT, (), (("n", f"{groups} : i32"),), kernel.source(op)))


@reads("nvgpu.device_async_copy")
def _copied(kernel: ModuleKernel, op: Op) -> None:
    """`nvgpu.device_async_copy`: a copy of `dstElements` contiguous elements."""
    target, at, source, start, *_ = kernel.operand_groups(op)
    width = int(op.attributes["dstElements"].value)
    to = kernel.access(op, target[0], [kernel.value(v) for v in at], width)
    origin = kernel.access(op, source[0], [kernel.value(v) for v in start], width)
    if to is not None and origin is not None:
        kernel.body.append(AsyncCopy(origin, to, kernel.source(op)))
