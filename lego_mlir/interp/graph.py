"""Execute regions of several basic blocks (dialect `cf`) in lockstep: the earliest block with waiting lanes runs first.

Each lane is at one block. Blocks are numbered in reverse postorder, so a block precedes its successors except along
back edges. The first block at which lanes wait runs under their mask, and its terminator moves them to its successors.
Lanes that diverged at a branch therefore reconverge where its sides join, and lanes that have left a loop wait for
those still inside.

A value defined in one block and used in another must survive the execution of its block for other lanes; such values,
and block arguments, are merged lane by lane.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lego_mlir.aliases import Block, Op, Region, Value
from lego_mlir.interp import values
from lego_mlir.interp.machine import Machine, merge
from lego_mlir.interp.values import Array, SlotValue

if TYPE_CHECKING:
    from lego_mlir.interp.program import Compiler, Step

RETURN = -1
Edge = tuple[Array | None, int, tuple[int, ...]]
"""The lanes that take the edge (None: all), the target block, and the slots of its arguments."""
Exits = Callable[["Machine"], list[Edge]]


@dataclass(frozen=True, slots=True)
class BasicBlock:
    """One basic block; `escaping` are the slots of values used in other blocks, `exits` gives its outgoing edges."""

    arguments: tuple[int, ...]
    steps: tuple[Step, ...]
    escaping: tuple[int, ...]
    exits: Exits


@dataclass(frozen=True, slots=True)
class Graph:
    """A compiled region of several blocks, the entry block first; a `CompiledRegion` like `SingleBlock`."""

    blocks: tuple[BasicBlock, ...]
    results: tuple[int, ...]

    @property
    def arguments(self) -> tuple[int, ...]:
        return self.blocks[0].arguments

    def run(self, machine: Machine) -> None:
        outer = machine.mask
        all_lanes = values.uniform(True, np.bool_) if outer is None else outer
        stale = [slot for block in self.blocks[1:] for slot in (*block.arguments, *block.escaping)]
        for slot in (*self.results, *stale):
            machine.values[slot] = None
        waiting: dict[int, Array] = {0: all_lanes}
        try:
            while waiting:
                number = min(waiting)
                lanes = waiting.pop(number)
                machine.mask = None if outer is None and lanes.all() else lanes
                self._visit(machine, self.blocks[number], lanes, waiting)
        finally:
            machine.mask = outer

    def _visit(self, machine: Machine, block: BasicBlock, lanes: Array, waiting: dict[int, Array]) -> None:
        found = machine.values
        before = [found[slot] for slot in block.escaping]
        for step in block.steps:
            step(machine)
        if machine.mask is not None:
            for slot, old in zip(block.escaping, before, strict=True):
                found[slot] = found[slot] if old is None else merge(lanes, found[slot], old)
        edges = block.exits(machine)
        sent = [[found[slot] for slot in sources] for _, _, sources in edges]
        for (condition, target, _), arriving in zip(edges, sent, strict=True):
            taking = lanes if condition is None else lanes & condition
            if not taking.any():
                continue
            slots = self.results if target == RETURN else self.blocks[target].arguments
            for slot, new in zip(slots, arriving, strict=True):
                found[slot] = new if found[slot] is None or taking.all() else merge(taking, new, found[slot])
            if target != RETURN:
                waiting[target] = taking if target not in waiting else waiting[target] | taking

    def results_in(self, machine: Machine) -> list[SlotValue]:
        return [machine.values[slot] for slot in self.results]


def compile_graph(compiler: Compiler, region: Region, exits_of: Callable[[Op, dict[Block, int]], Exits]) -> Graph:
    """Compile the blocks of a region in reverse postorder; `leave_of(terminator, number_of)` reads a terminator."""
    blocks = reverse_postorder(list(region.blocks))
    operations = [[o.operation for o in block.operations] for block in blocks]
    number_of = {block: i for i, block in enumerate(blocks)}
    used_in: dict[Any, set[int]] = {}
    for i, inside in enumerate(operations):
        for operation in inside:
            _note_uses(operation, i, used_in)
    compiled = []
    for i, (block, inside) in enumerate(zip(blocks, operations, strict=True)):
        defined = [value for operation in inside for value in operation.results]
        escaping = tuple(compiler.slot(v) for v in defined if used_in.get(v, set()) - {i})
        steps = tuple(compiler.step(o) for o in inside[:-1])
        arguments = tuple(compiler.slot(a) for a in block.arguments)
        compiled.append(BasicBlock(arguments, steps, escaping, exits_of(inside[-1], number_of)))
    last = next(inside[-1] for inside in operations if not list(inside[-1].successors))
    results = tuple(compiler.fresh_slot(v.type) for v in last.operands)
    return Graph(tuple(compiled), results)


def reverse_postorder(blocks: Sequence[Block]) -> list[Block]:
    """The reachable blocks, each before its successors except along back edges."""
    order: list[Any] = []
    seen = {blocks[0]}
    stack = [(blocks[0], iter(_successors(blocks[0])))]
    while stack:
        block, following = stack[-1]
        after = next((b for b in following if b not in seen), None)
        if after is None:
            order.append(block)
            stack.pop()
        else:
            seen.add(after)
            stack.append((after, iter(_successors(after))))
    return order[::-1]


def _successors(block: Block) -> list[Block]:
    """The successors in reverse, so that the resulting order has the first successor first."""
    return list(list(block.operations)[-1].operation.successors)[::-1]


def _note_uses(operation: Op, block: int, used_in: dict[Value, set[int]]) -> None:
    for value in operation.operands:
        used_in.setdefault(value, set()).add(block)
    for region in operation.regions:
        for inner in region.blocks:
            for nested in inner.operations:
                _note_uses(nested.operation, block, used_in)
