"""`func`, `builtin` and `ub`: calls, casts that change only the type, and poison."""

# ruff: noqa: D103  (a function here is named after its operation, which the dialect documents)
from __future__ import annotations

import numpy as np

from lego_mlir.interp import values
from lego_mlir.interp.dialects import clusters, runner_utilities
from lego_mlir.interp.machine import Machine
from lego_mlir.interp.program import Operation, Step, copy_slots, implements


@implements("func.call")
def call(op: Operation) -> Step:
    callee = str(op.attribute("callee").value)
    if not op.compiler.has_body(callee):
        return runner_utilities.call(op, callee)
    function = op.compiler.function(callee)
    for position, type_ in enumerate(function.argument_types):
        if values.is_memref(type_):
            used = function.arguments_read, function.arguments_written
            op.touches(position, read=position in used[0], written=position in used[1])
    enter = copy_slots(op.operands, function.body.arguments)
    leave = copy_slots(function.body.results, op.results)

    def step(m: Machine) -> None:
        enter(m)
        function.body.run(m)
        leave(m)

    return step


@implements("builtin.unrealized_conversion_cast")
def conversion_cast(op: Operation) -> Step:
    if op.has(clusters.OF_BLOCK):
        return clusters.of_block(op)
    kinds = {str(op.operand_type(i)) for i in range(len(op.operands))} | {str(r.type) for r in op.operation.results}
    if len(op.operands) != len(op.results) or not kinds <= {"index", "i64"}:
        op.fail(f"cannot execute a cast between {sorted(kinds)}; finish the conversion first")
    return copy_slots(op.operands, op.results)


@implements("ub.poison")
def poison(op: Operation) -> Step:
    """Any value is valid: zeros."""
    dtype, shape = values.element_dtype(op.result_type()), values.vector_shape(op.result_type())
    return op.constant(np.zeros((1, 1, *shape), dtype))
