"""Read the memory of a module's kernel: memrefs as views of buffers, loads, stores and updates."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

import sympy

from lego_mlir.aliases import Expr, Op
from lego_mlir.expr.index import Index, as_expr
from lego_mlir.interp.program import Operation
from lego_mlir.printers.affine import affine_function
from lego_mlir.proofs.module_kernel import MemoryView, ModuleKernel, dtype_of, part_of, reads
from lego_mlir.proofs.module_values import map_of
from lego_mlir.tracing.trace.trace import Atomic, Load, Value
from lego_mlir.transforms import tile_names as names

SHARED: Final = "#gpu.address_space<workgroup>"
DYNAMIC: Final = -(2**63)
"""A size or offset of a subview that is an operand."""


@reads("memref.alloc", "memref.alloca")
def _alloc(kernel: ModuleKernel, op: Op) -> None:
    result = op.results[0]
    if SHARED not in str(result.type) and str(result.type.memory_space) not in ("3", "3 : i64"):
        kernel.views[result] = None  # memory of one thread
        return
    name = names.of_location(op.location) or f"the buffer of {kernel.compiler.place(op)}"
    kernel.made(result, name, kernel.source(op), False)


@reads("memref.subview")
def _subview(kernel: ModuleKernel, op: Op) -> None:
    at = Operation(kernel.compiler, op)
    groups = [[kernel.value(v) for v in group] for group in kernel.operand_groups(op)]
    view = kernel.views.get(op.operands[0])
    mixed = []
    for static, dynamic in zip(("static_offsets", "static_sizes", "static_strides"), groups[1:], strict=True):
        pending = list(dynamic)
        mixed.append([pending.pop(0) if n == DYNAMIC else sympy.Integer(n) for n in at.integers(static)])
    offsets, _, strides = mixed
    if view is None or None in offsets or None in strides:
        kernel.views[op.results[0]] = view if view is None else kernel.views[op.operands[0]]
        if view is not None:
            kernel.unread.setdefault(view.buffer.name, f"memref.subview in line {kernel.source(op).line} is not read")
        return
    kept = _kept_axes(op, at.integers("static_sizes"))
    by = [s * v for s, v in zip(strides, view.strides, strict=True)]
    kernel.views[op.results[0]] = MemoryView(view.buffer, view.at(offsets), tuple(by[k] for k in kept), view.unit)


def _kept_axes(op: Op, sizes: Sequence[int]) -> list[int]:
    """The axes of a subview that its result has: the first unit axes are dropped, as far as the shape needs it."""
    spare, wanted, kept = len(sizes) - len(op.results[0].type.shape), list(op.results[0].type.shape), list[int]()
    for axis, n in enumerate(sizes):
        left = wanted[len(kept) :]
        if spare and n == 1 and not (left and left[0] == 1 and len(left) == len(sizes) - axis):
            spare -= 1
        else:
            kept.append(axis)
    return kept


@reads("memref.cast", "memref.assume_alignment")
def _same(kernel: ModuleKernel, op: Op) -> None:
    kernel.views[op.results[0]] = kernel.views.get(op.operands[0])


@reads("gpu.dynamic_shared_memory")
def _dynamic_memory(kernel: ModuleKernel, op: Op) -> None:
    kernel.views[op.results[0]] = None


@reads("memref.view")
def _view(kernel: ModuleKernel, op: Op) -> None:
    """A part of the dynamic shared memory: a buffer if it overlaps no other."""
    result, part = op.results[0], part_of(op)
    if part is None:
        kernel.opaque = kernel.opaque or f"{kernel.source(op)}: this {op.name} is not read"
        kernel.views[result] = None
    elif kernel.dynamic is None:
        name = names.of_location(op.location) or f"the buffer of {kernel.compiler.place(op)}"
        kernel.made(result, name, kernel.source(op), False)
    else:
        granule, shape = kernel.dynamic.dtype.bytes, list(result.type.shape)
        unit = dtype_of(result.type).bytes // granule
        strides = tuple(sympy.Integer(unit * prod(shape[axis + 1 :])) for axis in range(len(shape)))
        kernel.views[result] = MemoryView(kernel.dynamic, sympy.Integer(part[0] // granule), strides, unit)


@reads("memref.load", "affine.load", "vector.load", "affine.vector_load")
def _loaded(kernel: ModuleKernel, op: Op) -> None:
    shape = list(getattr(op.results[0].type, "shape", ()))
    kernel.touch(op, op.operands[0], _indices(kernel, op, 1), False, shape)
    if not shape:
        kernel.scalar(op, op.results[0])


@reads("memref.store", "affine.store", "vector.store", "affine.vector_store")
def _stored(kernel: ModuleKernel, op: Op) -> None:
    shape = list(getattr(op.operands[0].type, "shape", ()))
    kernel.touch(op, op.operands[1], _indices(kernel, op, 2), True, shape)


def _indices(kernel: ModuleKernel, op: Op, first: int) -> list[Expr | None]:
    """The index operands from a position on, through the map of an `affine` access."""
    operands = list(op.operands)[first:]
    if op.name.startswith("vector.transfer"):
        operands = operands[: Operation(kernel.compiler, op).integers("operandSegmentSizes")[first]]
        return [kernel.value(v) for v in operands]
    values = [kernel.value(v) for v in operands]
    if not op.name.startswith("affine."):
        return values
    if None in values:
        return [None]
    map_ = map_of(op.attributes["map"])
    given = [Index(v) for v in values]
    return [as_expr(affine_function(part, map_.n_dims, Index)(given)) for part in map_.results]


@reads("vector.transfer_read", "vector.transfer_write")
def _transfer(kernel: ModuleKernel, op: Op) -> None:
    """`vector.transfer_read` and `_write` of the last axes, without a mask; a write past an end leaves elements out."""
    written = op.name == "vector.transfer_write"
    memref = op.operands[1 if written else 0]
    vector = op.operands[0].type if written else op.results[0].type
    shape, rank = list(vector.shape), len(memref.type.shape)
    map_ = map_of(op.attributes["permutation_map"])
    last = [f"d{k}" for k in range(rank - len(shape), rank)]
    masked = list(Operation(kernel.compiler, op).integers("operandSegmentSizes"))[-1] != 0
    results = [str(part) for part in map_.results]
    flipped = len(shape) == 2 and results == last[::-1] and not written
    inside = "in_bounds" in op.attributes and all(map(bool, op.attributes["in_bounds"]))
    if masked or (written and not inside) or (results != last and not flipped):
        kernel.other(op)
        return
    shape = shape[::-1] if flipped else shape
    kernel.touch(op, memref, _indices(kernel, op, 2 if written else 1), written, shape)


@reads("memref.atomic_rmw")
def _updated(kernel: ModuleKernel, op: Op) -> None:
    access = kernel.access(op, op.operands[1], [kernel.value(v) for v in list(op.operands)[2:]])
    if access is not None:
        value = Value(kernel.fresh("value"), access.buffer.dtype)
        kernel.body.append(Atomic(value, "add", access, None, None, None, "device", access.source))
    if str(op.results[0].type).startswith("i"):
        kernel.unknown(op, op.results[0])


@reads("nvgpu.ldmatrix")
def _matrices(kernel: ModuleKernel, op: Op) -> None:
    """`nvgpu.ldmatrix`: each lane addresses a row of 16 bytes."""
    view = kernel.views.get(op.operands[0])
    width = 1 if view is None else 16 // view.buffer.dtype.bytes
    index = [kernel.value(v) for v in list(op.operands)[1:]]
    access = kernel.access(op, op.operands[0], index, width)
    if access is not None:
        kernel.body.append(Load(Value(kernel.fresh("value"), access.buffer.dtype), access, None, access.source))
