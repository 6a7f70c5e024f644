"""LL types as Python functions that create operands.

>>> L, B = LowerTriangular(4, name="L"), Matrix(4, 2, name="B", storage="column_major")
>>> from lego_mlir.structured.syntax import assign, solve
>>> print(assign(B, solve(L, B)))
B = L \\ B
>>> Blocked([Matrix(2, 2), Zero(2, 1)], name="K").shape
(2, 3)
"""

from __future__ import annotations

import operator
from collections.abc import Callable

from lego_mlir.structured.language import TYPES
from lego_mlir.structured.storage import as_storage
from lego_mlir.structured.structures import MOST_ELEMENTS, Structure
from lego_mlir.structured.syntax import LLError, Operand


def _structure(part: object) -> object:
    return part.structure if isinstance(part, Operand) else part


def _argument(kind: str, given: object) -> object:
    """A structure, a word or a size, as Python's int. Raises LLError for another number."""
    if isinstance(given, (list, Operand, str, Structure)):
        return list(map(_structure, given)) if isinstance(given, list) else given
    if isinstance(given, bool) or not hasattr(given, "__index__"):
        raise LLError(f"{kind}: a size is an int >= 1, got {given!r}")
    size = operator.index(given)
    if abs(size) > MOST_ELEMENTS:
        raise LLError(f"{kind}: a size of {size.bit_length()} bits; an operand has at most {MOST_ELEMENTS} elements")
    return size


def _maker(kind: str) -> Callable[..., Operand]:
    usage, make = TYPES[kind]

    def made(*arguments: object, name: str = "", storage: object = "full") -> Operand:
        plain = [_argument(kind, given) for given in arguments]
        try:
            return Operand(name, make(*plain), as_storage(storage))
        except TypeError as error:
            raise LLError(f"{kind}({usage}) does not take {arguments}") from error

    made.__name__ = made.__qualname__ = kind
    made.__doc__ = f"An operand {kind}({usage}); if unnamed, `compile` uses its keyword as the name."
    return made


Matrix, Vector, Scalar = _maker("Matrix"), _maker("Vector"), _maker("Scalar")
LowerTriangular, UpperTriangular = _maker("LowerTriangular"), _maker("UpperTriangular")
UnitLower, UnitUpper = _maker("UnitLower"), _maker("UnitUpper")
Symmetric, SymmetricBanded = _maker("Symmetric"), _maker("SymmetricBanded")
Zero, Diagonal, Identity = _maker("Zero"), _maker("Diagonal"), _maker("Identity")
Banded, Tridiagonal, Pentadiagonal = _maker("Banded"), _maker("Tridiagonal"), _maker("Pentadiagonal")
Blocked = _maker("Blocked")
