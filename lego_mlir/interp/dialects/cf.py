"""`cf`: branches between basic blocks. A terminator gives the outgoing edges and their lanes; `graph.py` follows them.

Branches end blocks, so they are edges rather than steps; `exits_of` compiles them.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from lego_mlir.aliases import Block, Op, Region
from lego_mlir.errors import InterpreterError
from lego_mlir.interp.dialects.arith import report_lanes
from lego_mlir.interp.graph import RETURN, Edge, Exits, Graph, compile_graph
from lego_mlir.interp.machine import Machine
from lego_mlir.interp.program import Compiler, Operation, Step, implements
from lego_mlir.interp.report import Kind

BRANCHES: Final = "cf.br, cf.cond_br, cf.switch, and returns"


def exits_of(compiler: Compiler, terminator: Op, number_of: dict[Block, int]) -> Exits:
    """The outgoing edges of a terminator."""
    op = Operation(compiler, terminator)
    targets = [number_of[block] for block in terminator.successors]
    if not targets:
        return _always((None, RETURN, op.operands))
    match terminator.name:
        case "cf.br":
            return _always((None, targets[0], op.operands))
        case "cf.cond_br":
            return _conditional(op, targets)
        case "cf.switch":
            return _switch(op, targets)
        case other:
            raise InterpreterError(f"{op.place}: unsupported terminator {other}; supported: {BRANCHES}")


def compile_blocks(compiler: Compiler, region: Region) -> Graph:
    """Compile a region of several blocks."""
    return compile_graph(compiler, region, partial(exits_of, compiler))


def _always(edge: Edge) -> Exits:
    edges = [edge]
    return lambda m: edges


def _conditional(op: Operation, targets: list[int]) -> Exits:
    (condition,), yes, no = op.segments()

    def leave(m: Machine) -> list[Edge]:
        taken = m.values[condition]
        return [(taken, targets[0], yes), (~taken, targets[1], no)]

    return leave


def _switch(op: Operation, targets: list[int]) -> Exits:
    (flag,), default, cases = op.segments()
    values = [int(v) for v in op.attribute("case_values")] if op.has("case_values") else []
    sizes = op.integers("case_operand_segments")
    given: list[tuple[int, ...]] = []
    for size in sizes:
        given.append(cases[:size])
        cases = cases[size:]

    def leave(m: Machine) -> list[Edge]:
        chosen = m.values[flag]
        edges: list[Edge] = []
        rest = chosen == chosen
        for value, target, operands in zip(values, targets[1:], given, strict=True):
            edges.append((chosen == value, target, operands))
            rest = rest & (chosen != value)
        return [*edges, (rest, targets[0], default)]

    return leave


@implements("cf.assert")
def assert_(op: Operation) -> Step:
    """An assertion of the program: a failing lane is a fault with the program's message."""
    (condition,) = op.operands
    message, place = str(op.attribute("msg").value), op.place

    def step(m: Machine) -> None:
        report_lanes(m, ~m.values[condition], place, f"assertion failed: {message}", Kind.ASSERTION)

    return step
