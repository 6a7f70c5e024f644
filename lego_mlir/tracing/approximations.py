"""`lego.exp2(x, approximate=True)`: the hardware's instruction for 2 to the power x, of f32.

Exact to 2 ulp; numbers too small to be normal become 0 (PTX ISA, "ex2.approx.ftz"). `lego.exp2(x)` keeps them, with
about ten instructions. The operation is `math.exp2` with the flag afn, which a pass lowers (`approximate_exp2`); the
interpreter and the CPU compute it exactly.
"""

from __future__ import annotations

from lego_mlir.aliases import Operand
from lego_mlir.expr.index import PerElement
from lego_mlir.tracing.dtypes import f32
from lego_mlir.tracing.scalar import Scalar
from lego_mlir.tracing.trace import MlirOperation
from lego_mlir.tracing.tracer import current


def approximate_exp2(x: Operand) -> Operand:
    """2 to the power x, for f32."""
    if isinstance(x, PerElement):
        return x.map(approximate_exp2, x)
    tracer = current("lego.exp2(.., approximate=True)")
    if not isinstance(x, Scalar) or x.dtype != f32:
        raise tracer.error(
            f"lego.exp2(.., approximate=True) is an instruction on f32, got {x!r}; convert it with lego.f32(..), or "
            "leave out approximate"
        )
    value = tracer.use(x.value)
    result = tracer.value(f32, value.width)
    flags = (("fastmath", "#arith.fastmath<afn>"),)
    tracer.append(MlirOperation((result,), "math.exp2", (value,), flags, tracer.here()))
    return Scalar(result)
