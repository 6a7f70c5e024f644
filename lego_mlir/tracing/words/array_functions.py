"""Functions of data on NumPy arrays, for what is traced into kernels and also runs in a reference: `lego.tanh(x)`.

>>> import numpy
>>> of_arrays("rsqrt", numpy.array([4.0, 16.0])).tolist()
[0.5, 0.25]
"""

from __future__ import annotations

from typing import Final

from lego_mlir.aliases import Array, Operand
from lego_mlir.errors import TraceError

_NAMED: Final = {
    "truediv": "true_divide", "round": "rint", "pow": "power", "asin": "arcsin", "acos": "arccos", "atan": "arctan",
    "atan2": "arctan2",
}  # fmt: skip
"""Functions whose names in NumPy are others."""
_SAME: Final = frozenset(
    ("floor", "ceil", "trunc", "copysign", "sign", "isnan", "isinf", "isfinite", "exp", "exp2", "expm1", "log", "log2",
     "log1p", "sqrt", "tanh", "sinh", "cosh", "sin", "cos", "tan")
)  # fmt: skip


def of_arrays(name: str, *operands: Operand) -> Array:
    """A function of kernels on arrays, in their type. Raises TraceError for one of integers alone."""
    import numpy

    found: Array
    if name == "rsqrt":
        found = 1 / numpy.sqrt(operands[0])
    elif name == "fma":
        found = operands[0] * operands[1] + operands[2]
    elif name == "erf":
        from math import erf

        found = numpy.vectorize(erf, otypes=[operands[0].dtype])(operands[0])
    elif name in _SAME or name in _NAMED:
        found = getattr(numpy, _NAMED.get(name, name))(*operands)
    else:
        raise TraceError(f"{name} takes data of a kernel, got arrays; write it in NumPy")
    return found
