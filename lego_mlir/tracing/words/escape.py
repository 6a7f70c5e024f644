"""`lego.mlir_op`: one MLIR operation by its name, for what the kernel language has no word for.

    y = lego.mlir_op("math.cbrt", x, result=f32)
    n = lego.mlir_op("arith.addi", a, b, result=i32, attributes={"overflowFlags": "#arith.overflow<nsw>"})

MLIR verifies the operation when it is traced: its name, operands, attributes and result types. The interpreter runs it
if it knows the operation, and refuses it by name otherwise; so do the lowering to PTX and the CPU path.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lego_mlir import bindings
from lego_mlir.aliases import Operand
from lego_mlir.errors import brief
from lego_mlir.expr.index import Condition, is_symbolic
from lego_mlir.tracing.trace.dtypes import DType, i1, index
from lego_mlir.tracing.trace.trace import FromIndex, MlirOperation, Value
from lego_mlir.tracing.trace.tracer import Tracer, current
from lego_mlir.tracing.words.scalar import Scalar, as_value


def mlir_op(
    name: str,
    *operands: Operand,
    result: DType | Sequence[DType] | None = None,
    width: int | None = None,
    attributes: Mapping[str, str] | None = None,
) -> Operand:
    """The result of an MLIR operation without regions; a tuple where `result` lists several types, None without one.

    `operands` are data, conditions (i1) and indices (index). Results are vectors of `width` elements; by default as
    wide as the operands. `attributes` are texts of MLIR: `{"fastmath": "#arith.fastmath<fast>"}`. Raises TraceError,
    with MLIR's diagnostic, where the operation does not verify.
    """
    tracer = current("lego.mlir_op")
    if not isinstance(name, str) or "." not in name:
        raise tracer.error(f"lego.mlir_op takes the full name of an operation, such as 'math.cbrt', got {name!r}")
    values = tuple(_operand(tracer, name, given) for given in operands)
    types = (result,) if isinstance(result, DType) else tuple(result or ())
    for dtype in types:
        if not isinstance(dtype, DType) or dtype.family == "index":
            raise tracer.error(f"lego.mlir_op: {name}: a result has an element type such as lego.f32, got {dtype!r}")
    if width is None:
        width = next((v.width for v in values if isinstance(v.width, int)), None)
    results = tuple(tracer.value(dtype, width) for dtype in types)
    listed = tuple((attributes or {}).items())
    operation = MlirOperation(results, name, values, listed, tracer.here())
    _verify(tracer, operation)
    tracer.append(operation)
    found = tuple(map(Scalar, results))
    if result is None:
        return None
    return found[0] if isinstance(result, DType) else found


def _operand(tracer: Tracer, name: str, given: Operand) -> Value:
    if isinstance(given, Scalar):
        return tracer.use(given.entry)
    if isinstance(given, Condition):
        return as_value(given, i1)
    if is_symbolic(given):
        result = tracer.value(index)
        tracer.append(FromIndex(result, tracer.simplified(tracer.index(given)), tracer.here()))
        return result
    raise tracer.error(
        f"lego.mlir_op: {name} takes data, conditions and indices of a kernel, got {brief(repr(given))}; give a number "
        "an element type, such as lego.f32(1.0)"
    )


def _verify(tracer: Tracer, operation: MlirOperation) -> None:
    """Build the operation in a function of its operands. Raises TraceError with MLIR's diagnostic."""
    ir = bindings.load().ir
    with bindings.context(), ir.Location.unknown():
        try:
            inputs = [ir.Type.parse(v.mlir) for v in operation.operands]
            module = ir.Module.create()
            with ir.InsertionPoint(module.body):
                type_ = ir.TypeAttr.get(ir.FunctionType.get(inputs, []))
                names = {"sym_name": ir.StringAttr.get("operation"), "function_type": type_}
                function = ir.Operation.create("func.func", attributes=names, regions=1)
            block = function.regions[0].blocks.append(*inputs, arg_locs=[function.location] * len(inputs))
            with ir.InsertionPoint(block):
                ir.Operation.create(
                    operation.name,
                    results=[ir.Type.parse(v.mlir) for v in operation.results],
                    operands=list(block.arguments),
                    attributes={key: ir.Attribute.parse(text) for key, text in operation.attributes},
                )
                ir.Operation.create("func.return")
            module.operation.verify()
        except (ir.MLIRError, ValueError, TypeError, IndexError) as error:
            raise tracer.error(f"lego.mlir_op: {operation.name} is not valid MLIR: {_diagnostic(error)}") from None


def _diagnostic(error: Exception) -> str:
    """The line of MLIR's message that tells what is wrong."""
    lines = [line.strip() for line in str(error).splitlines() if "error:" in line]
    text = lines[0] if lines else str(error)
    return text.partition("error:")[2].replace("unknown:", "").strip() if "error:" in text else text
