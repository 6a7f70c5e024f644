"""Small linear algebra on structured matrices: LL programs, isl statements, and CPU code through MLIR.

>>> import numpy as np
>>> from lego_mlir import structured
>>> n = 4
>>> kernel = structured.compile("A = L*U + S", A=structured.Matrix(n, n), L=structured.LowerTriangular(n),
...     U=structured.UpperTriangular(n), S=structured.Symmetric("L", n), cache=None)
>>> A, L, U, S = np.empty((n, n)), np.tril(np.ones((n, n))), np.triu(np.ones((n, n))), np.eye(n)
>>> kernel(A, L, U, S)
>>> bool(np.array_equal(A, L @ U + S))
True

LL's types are functions that make operands. Names are loaded lazily, on first use.
"""

from __future__ import annotations

import importlib
from typing import Any, Final

_MODULES: Final = {
    "lego_mlir.structured.embedding": (
        "Banded Blocked Diagonal Identity LowerTriangular Matrix Pentadiagonal Scalar Symmetric SymmetricBanded "
        "Tridiagonal UnitLower UnitUpper UpperTriangular Vector Zero"
    ),
    "lego_mlir.structured.vector.generate": "Variant",
    "lego_mlir.structured.vector.lanes": "interleave separate",
    "lego_mlir.structured.language": "parse",
    "lego_mlir.structured.structures": "Access Structure",
    "lego_mlir.structured.syntax": (
        "LLError Operand Program Statement assign chol inv lu program solve symmetric tril triu unit_tril unit_triu"
    ),
    # Compiling needs the runtime: docs/decisions/0005-structured-matrices.md.
    "lego_mlir.structured.build": "ArgumentError Kernel compile source_of",
    "lego_mlir.structured.tuning": "tune",
}
_NAMES: Final = {name: module for module, names in _MODULES.items() for name in names.split()}

__all__ = sorted(_NAMES)


def __getattr__(name: str) -> Any:
    """A public name, from its module (PEP 562)."""
    if name not in _NAMES:
        raise AttributeError(f"module 'lego_mlir.structured' has no attribute {name!r}")
    value = getattr(importlib.import_module(_NAMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_NAMES})
