"""Prefetch the next tile's first copies while this tile's result is stored.

A persistent block fills its pipeline before each tile, and idles until memory answers. Instead, the copies before the
inner loop are issued one tile earlier: after the previous tile's inner loop and ahead of everything that follows it:

    for tile: fill(tile); for k: ..; wait; barrier; store
->  fill(first);  for tile: for k: ..; wait; barrier; if there is a next: fill(next); store

The wait and the barrier are those of `lego-drain-copies`: after them no thread reads what the fill overwrites.
"""

from __future__ import annotations

from dataclasses import dataclass

from lego_mlir import bindings
from lego_mlir.aliases import Module, Op
from lego_mlir.hardware.targets import Target
from lego_mlir.transforms.passes.base import Pass
from lego_mlir.transforms.passes.bypass_l1 import COPY
from lego_mlir.transforms.passes.carried_values import repeat
from lego_mlir.transforms.passes.merge_barriers import BARRIER
from lego_mlir.transforms.passes.operations import loops, named, needed, operations

GROUP = "nvgpu.device_async_create_group"
_LESS = 2  # arith.cmpi, signed


@dataclass(frozen=True, slots=True)
class PrefetchNextTile(Pass):
    """A kernel without a loop around its drained, pipelined loop is left unchanged."""

    name = "lego-next-tile-ahead"

    def run(self, module: Module, target: Target) -> None:
        for outer in loops(module):
            order = operations(outer.regions[0].blocks[0])
            inner = next((op for op in order if op.name == "scf.for" and named(op.regions[0].blocks[0], COPY)), None)
            if inner is None:
                continue
            ahead, behind = order[: order.index(inner)], order[order.index(inner) + 1 :]
            drained = next((op for op in behind if op.name == BARRIER), None)
            if drained is not None and any(op.name == COPY for op in ahead):
                _fill_ahead(outer, [op for op in ahead if op.name in (COPY, GROUP)], behind[behind.index(drained) + 1])


def _fill_ahead(outer: Op, copies: list[Op], following: Op) -> None:
    """Move copies and their groups before the loop, for its first tile, and before `following`, for the next."""
    ir = bindings.load().ir
    body = outer.regions[0].blocks[0]
    fill = needed(copies, body)
    groups = [op.results[0] for op in fill if op.name == GROUP]
    with outer.location, ir.InsertionPoint(outer):
        first = repeat(fill, {body.arguments[0]: outer.operands[0]})
        made = ir.Operation.create(
            "scf.for",
            results=[group.type for group in groups],
            operands=[*outer.operands, *(first[group] for group in groups)],
            attributes={name: outer.attributes[name] for name in outer.attributes},
            regions=1,
        )
        types = [body.arguments[0].type, *(group.type for group in groups)]
        body_after = made.regions[0].blocks.append(*types, arg_locs=[outer.location] * len(types))
    for operation in operations(body):
        body_after.append(operation)
    tile, *tokens = body_after.arguments
    body.arguments[0].replace_all_uses_with(tile)
    filled = _fill_next(made, fill, groups, following)
    end = operations(body_after)[-1]
    with outer.location, ir.InsertionPoint(end):
        ir.Operation.create("scf.yield", operands=filled)
    end.erase()
    for group, token in zip(groups, tokens, strict=True):
        group.replace_all_uses_with(token)
    for operation in reversed(fill):
        if not any(list(result.uses) for result in operation.results):
            operation.erase()
    outer.erase()


def _fill_next(loop: Op, fill: list[Op], groups: list[Op], before: Op) -> list[Op]:
    """The copies for the next tile, if there is one; the groups that are in flight then."""
    ir = bindings.load().ir
    tile, *tokens = loop.regions[0].blocks[0].arguments
    index, logical = ir.IndexType.get(), ir.IntegerType.get_signless(1)
    with loop.location, ir.InsertionPoint(before):
        after = ir.Operation.create("arith.addi", [index], [tile, loop.operands[2]]).results[0]
        less = {"predicate": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), _LESS)}
        more = ir.Operation.create("arith.cmpi", [logical], [after, loop.operands[1]], less).results[0]
        branch = ir.Operation.create("scf.if", [token.type for token in tokens], [more], regions=2)
    then, otherwise = (region.blocks.append() for region in branch.regions)
    with loop.location, ir.InsertionPoint(then):
        made = repeat(fill, {tile: after})
        ir.Operation.create("scf.yield", operands=[made[group] for group in groups])
    with loop.location, ir.InsertionPoint(otherwise):
        ir.Operation.create("scf.yield", operands=tokens)
    return list(branch.results)
