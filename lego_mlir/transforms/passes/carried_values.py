"""Loops that carry values from the iteration before: a part of each iteration, its head, is repeated ahead of its end.

for k: head; rest        ->        first = head(k0);  for k, carried = first: rest; next = head(k + 1); yield next
"""

from __future__ import annotations

from lego_mlir import bindings
from lego_mlir.aliases import Op, Value
from lego_mlir.transforms.passes.operations import clone, operations


def repeat(head: list[Op], mapping: dict[Value, Value]) -> dict[Value, Value]:
    """Copies of operations at the insertion point, each using the copies before it; the mapping of their results."""
    for operation in head:
        copy = clone(operation, mapping)
        mapping.update(zip(operation.results, copy.results, strict=True))
    return mapping


def carrying(loop: Op, initial: list[Value]) -> tuple[Op, list[Value]]:
    """A loop at the insertion point with the body of `loop`, and the arguments that carry further values.

    The new body still ends in the yield of the old one: see `yielding`.
    """
    ir = bindings.load().ir
    body = loop.regions[0].blocks[0]
    made = ir.Operation.create(
        "scf.for",
        results=[r.type for r in (*loop.results, *initial)],
        operands=[*loop.operands, *initial],
        attributes={name: loop.attributes[name] for name in loop.attributes},
        regions=1,
    )
    types = [a.type for a in body.arguments] + [value.type for value in initial]
    after = made.regions[0].blocks.append(*types, arg_locs=[loop.location] * len(types))
    carried = list(after.arguments)[len(body.arguments) :]
    for operation in operations(body):
        after.append(operation)
    for old, new in zip(body.arguments, after.arguments, strict=False):
        old.replace_all_uses_with(new)
    return made, carried


def yielding(made: Op, values: list[Value], head: list[Op], loop: Op) -> None:
    """End the new loop with further values, and put it in the place of `loop`; a head that nothing uses is erased."""
    ir = bindings.load().ir
    end = operations(made.regions[0].blocks[0])[-1]
    with loop.location, ir.InsertionPoint(end):
        ir.Operation.create("scf.yield", operands=[*end.operands, *values])
    end.erase()
    for operation in reversed(head):
        if not any(list(result.uses) for result in operation.results):
            operation.erase()
    for old, new in zip(loop.results, made.results, strict=False):
        old.replace_all_uses_with(new)
    loop.erase()
