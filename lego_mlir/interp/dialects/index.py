"""`index`: the integer arithmetic of `arith` on 64-bit indices."""

# ruff: noqa: D103  (a function here is named after its operation, which the dialect documents)
from __future__ import annotations

from typing import Final

import numpy as np

from lego_mlir.interp.dialects.arith import COMPARE, DIVISIONS, division, shift_left, shift_right_unsigned
from lego_mlir.interp.program import Operation, Step, implements
from lego_mlir.interp.values import unsigned

PLAIN: Final = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "shl": shift_left,
    "shrs": np.right_shift,
    "shru": shift_right_unsigned,
    "maxs": np.maximum,
    "mins": np.minimum,
    "maxu": lambda a, b: np.maximum(unsigned(a), unsigned(b)).view(a.dtype),
    "minu": lambda a, b: np.minimum(unsigned(a), unsigned(b)).view(a.dtype),
}
PREDICATES: Final = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")

for _name, _compute in PLAIN.items():
    implements(f"index.{_name}")(lambda op, _compute=_compute: op.elementwise(_compute))  # type: ignore[misc]
for _name, _divide in DIVISIONS.items():
    implements(f"index.{_name}")(lambda op, _divide=_divide: division(op, _divide))  # type: ignore[misc]


@implements("index.cmp")
def compare(op: Operation) -> Step:
    return op.elementwise(COMPARE[PREDICATES.index(op.keyword("pred"))])
