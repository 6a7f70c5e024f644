"""Read the statements of a module's kernel: loops, the indices that they carry, branches, barriers, asynchronous
copies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sympy

from lego_mlir import bindings
from lego_mlir.aliases import Attribute, Block, Expr, Op, Symbol
from lego_mlir.aliases import Value as Operand
from lego_mlir.expr.index import Index, as_expr
from lego_mlir.expr.intervals import bounds
from lego_mlir.expr.nodes import Size
from lego_mlir.expr.ranges import Range
from lego_mlir.expr.simplify import simplify
from lego_mlir.printers.affine import affine_function
from lego_mlir.proofs.footprints import COMMIT, WAIT, WARP_BARRIER
from lego_mlir.proofs.module_kernel import ModuleKernel, reads
from lego_mlir.proofs.module_values import map_of
from lego_mlir.tracing.trace.trace import AsyncCopy, Barrier, For, If, MlirOperation, Statement


@reads("scf.for", "affine.for")
def _loop(kernel: ModuleKernel, op: Op) -> None:
    """`scf.for` and `affine.for`; values that it carries are not read."""
    if op.name == "affine.for":
        low_map, high_map = (map_of(op.attributes[name]) for name in ("lowerBoundMap", "upperBoundMap"))
        given, first = list(op.operands), low_map.n_inputs
        ends = [
            _bound(kernel, low_map, given[:first]),
            _bound(kernel, high_map, given[first : first + high_map.n_inputs]),
        ]
        step: Expr | None = sympy.Integer(int(op.attributes["step"].value))
    else:
        *ends, step = (kernel.value(v) for v in list(op.operands)[:3])
    block = next(iter(op.regions[0].blocks))
    symbol = sympy.Symbol(f"k{kernel.fresh('loop')}", integer=True)
    if None in (*ends, step):
        kernel.opaque = kernel.opaque or f"{kernel.source(op)}: the bounds of this loop are not read"
        ends, step = [sympy.Integer(0), sympy.Integer(1)], sympy.Integer(1)
    low, high = (e for e in ends if e is not None)
    known = [bounds(e, {s: kernel.ranges[s] for s in e.free_symbols if s in kernel.ranges}) for e in (low, high)]
    if all(isinstance(s, Size) for e in (low, high) for s in e.free_symbols):
        kernel.ranges[symbol] = Range(low, high)
    elif known[0].lo is not None and known[1].hi is not None:
        kernel.ranges[symbol] = Range(known[0].lo, known[1].hi + 1)
    induction, *carried = block.arguments
    kernel.values[induction] = symbol
    before = dict(kernel.unread), kernel.opaque, list(kernel.buffers)
    inside = _round(kernel, op, block, carried, {})
    starts = [kernel.value(v) for v in list(op.operands)[len(op.operands) - len(carried) :]]
    counted = _counted(kernel, block, carried, starts, (symbol, low, step))
    if counted:  # read again, with what the loop carries
        kernel.unread, kernel.opaque, kernel.buffers = before
        inside = _round(kernel, op, block, carried, counted)
    kernel.body.append(For(symbol, low, high, step, inside, kernel.source(op)))
    for result in op.results:
        _carried(kernel, op, result)


def _round(
    kernel: ModuleKernel, op: Op, block: Block, carried: Sequence[Operand], counted: Mapping[Operand, Expr]
) -> tuple[Statement, ...]:
    """The statements of a loop's body; `counted` has the values that it carries, as far as they are known."""
    outer, kernel.body = kernel.body, []
    for argument in carried:
        if argument in counted:
            kernel.values[argument] = counted[argument]
        else:
            _carried(kernel, op, argument)
    kernel.read_block(block)
    inside, kernel.body = tuple(kernel.body), outer
    return inside


def _counted(
    kernel: ModuleKernel,
    block: Block,
    carried: Sequence[Operand],
    starts: Sequence[Expr | None],
    loop: tuple[Symbol, Expr, Expr],
) -> dict[Operand, Expr]:
    """Carried indices that are functions of the loop's variable: the slot of a ring, and those that it shifts on.

    What round k yields is the value in round k + 1, and that of the first round is the one before the loop.
    """
    symbol, low, step = loop
    yielded = list(list(block.operations)[-1].operation.operands)
    unknown = {kernel.values[a]: a for a in carried if kernel.values.get(a) is not None}
    found: dict[Operand, Expr] = {}
    for _ in carried:
        for argument, start, end in zip(carried, starts, yielded, strict=True):
            after = kernel.value(end)
            if argument in found or start is None or after is None or argument not in unknown.values():
                continue
            after = after.xreplace({u: found[a] for u, a in unknown.items() if a in found})
            here = after.xreplace({symbol: symbol - step})
            first = here.xreplace({symbol: low}) - start
            if not after.free_symbols & kernel.data.symbols.keys() and simplify(first, kernel.ranges).expr == 0:
                found[argument] = here
    return found


def _bound(kernel: ModuleKernel, map_: Attribute, operands: Sequence[Operand]) -> Expr | None:
    values = [kernel.value(v) for v in operands]
    if None in values or len(map_.results) != 1:
        return None
    return as_expr(affine_function(map_.results[0], map_.n_dims, Index)([Index(v) for v in values]))


def _carried(kernel: ModuleKernel, op: Op, value: Operand) -> None:
    """A value that a loop or branch passes on, which is not read."""
    ir = bindings.load().ir
    text = str(value.type)
    if isinstance(value.type, ir.MemRefType):
        kernel.views[value] = None
        kernel.opaque = kernel.opaque or f"{kernel.source(op)}: the memref that {op.name} carries is not read"
    elif text == "index" or (text.startswith("i") and text[1:].isdigit()):
        kernel.unknown(op, value)


@reads("scf.if")
def _branch(kernel: ModuleKernel, op: Op) -> None:
    condition = kernel.conditions.get(op.operands[0])
    if condition is None:
        kernel.opaque = kernel.opaque or f"{kernel.source(op)}: the condition of this branch is not read"
        condition = sympy.true
    sides = [kernel.inside(next(iter(r.blocks))) if list(r.blocks) else () for r in op.regions]
    kernel.body.append(If(condition, sides[0], sides[1] if len(sides) > 1 else (), kernel.source(op)))
    for result in op.results:
        _carried(kernel, op, result)


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
