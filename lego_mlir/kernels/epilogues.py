"""Epilogues of a product: functions of each element of A B, applied before it is stored.

    gelu()                        of the product
    bias(n).then(relu())          a number for each column added, then max(x, 0)
    scales(m, n).then(residual(m, n, f16))

An epilogue sees vectors of f32 along C's contiguous axis, and where they are: what it loads beside is a number of each
column, of each row, or an element of a matrix of C's shape. One written by hand is the same two functions.
"""

# mypy: disable-error-code="valid-type"

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import lego_mlir as lego
from lego_mlir.errors import UsageError
from lego_mlir.layout import Row
from lego_mlir.tracing.dtypes import DType, f32

if TYPE_CHECKING:
    from lego_mlir.aliases import Array, Given, IndexLike, Operand
    from lego_mlir.layout.base import Layout

ROOT_HALF: Final = 0.7071067811865476


@dataclass(frozen=True, slots=True)
class VectorPlace:
    """The first index of a contiguous vector of C, and its axis: 1 along a row, 0 down a column."""

    row: IndexLike
    column: IndexLike
    width: int
    axis: int

    def by_column(self, numbers: Operand) -> Operand:
        """The vector's elements of a tensor with a number for each column of C."""
        return numbers.load(self.column, width=self.width if self.axis == 1 else 1)

    def by_row(self, numbers: Operand) -> Operand:
        """The vector's elements of a tensor with a number for each row of C."""
        return numbers.load(self.row, width=self.width if self.axis == 0 else 1)

    def of(self, matrix: Operand) -> Operand:
        """The vector's elements of a matrix of C's shape, contiguous along the same axis."""
        if self.axis == 1:
            return matrix.load(self.row, self.column, width=self.width)
        return matrix.T.load(self.column, self.row, width=self.width)


@dataclass(frozen=True, slots=True)
class Epilogue:
    """A function applied to each value of A B before it is stored.

    `function(value, place, *operands)` gets a vector of f32, its `VectorPlace`, and the arguments for `operands`;
    `reference(product, *operands)` is the same on whole arrays, in NumPy.
    """

    function: Callable[..., Any]
    reference: Callable[..., Any]
    operands: Mapping[str, Any] = field(default_factory=dict)

    def then(self, after: Epilogue) -> Epilogue:
        """This epilogue, and another one of its result. Raises UsageError where both have an operand of one name."""
        if common := self.operands.keys() & after.operands.keys():
            raise UsageError(
                f"epilogues with two operands named {', '.join(sorted(common))}; name one of them otherwise"
            )
        count = len(self.operands)

        def function(value: Operand, place: VectorPlace, *operands: Operand) -> Operand:
            return after.function(self.function(value, place, *operands[:count]), place, *operands[count:])

        def reference(product: Array, *operands: Given, **named: Given) -> Array:
            given = [*operands, *(named[name] for name in [*self.operands, *after.operands][len(operands) :])]
            found: Array = after.reference(self.reference(product, *given[:count]), *given[count:])
            return found

        return Epilogue(function, reference, {**self.operands, **after.operands})


def relu() -> Epilogue:
    """max(x, 0)."""

    def reference(product: Array) -> Array:
        import numpy as np

        return np.maximum(product, 0)

    return Epilogue(lambda value, place: lego.maximum(value, 0.0), reference)


def gelu() -> Epilogue:
    """x Phi(x), with the distribution function of the standard normal distribution; Hendrycks and Gimpel, 2016."""

    def reference(product: Array) -> Array:
        from math import erf as erf_of

        import numpy as np

        erf = np.vectorize(erf_of, otypes=[product.dtype])
        return product * (0.5 + 0.5 * erf(product * ROOT_HALF))

    return Epilogue(lambda value, place: value * (lego.erf(value * ROOT_HALF) * 0.5 + 0.5), reference)


def silu_gate(m: int, n: int, dtype: DType, *, layout: Layout | None = None) -> Epilogue:
    """silu(x) times the element of an m x n matrix, the argument `up`: SwiGLU's gate; Shazeer, 2020."""

    def function(value: Operand, place: VectorPlace, up: Operand) -> Operand:
        return value / (lego.exp(-value) + 1.0) * place.of(up).to(f32)

    def reference(product: Array, up: Array) -> Array:
        import numpy as np

        return product / (1 + np.exp(-product)) * up.astype(product.dtype)

    return Epilogue(function, reference, {"up": lego.Tensor(dtype, _matrix(m, n, layout))})


def scale() -> Epilogue:
    """The product with a number, the kernel's argument `alpha`."""
    return Epilogue(lambda value, place, alpha: value * alpha, lambda product, alpha: product * alpha, {"alpha": f32})


def bias(n: int) -> Epilogue:
    """The sum with a number for each of the n columns, the kernel's argument `bias`."""
    return Epilogue(
        lambda value, place, bias: value + place.by_column(bias),
        lambda product, bias: product + bias,
        {"bias": lego.Tensor(f32, Row(n))},
    )


def scales(m: int, n: int) -> Epilogue:
    """The product with a number for each of the m rows and one for each of the n columns: `row_scale`, `column_scale`.

    Those of quantised operands, one for each row of A and each column of B.
    """
    return Epilogue(
        lambda value, place, rows, columns: value * place.by_row(rows) * place.by_column(columns),
        lambda product, row_scale, column_scale: product * row_scale[:, None] * column_scale,
        {"row_scale": lego.Tensor(f32, Row(m)), "column_scale": lego.Tensor(f32, Row(n))},
    )


def residual(m: int, n: int, dtype: DType, *, layout: Layout | None = None) -> Epilogue:
    """The sum with an m x n matrix, the argument `residual`, in rows if no layout is given."""
    return Epilogue(
        lambda value, place, added: value + place.of(added).to(f32),
        lambda product, residual: product + residual.astype(product.dtype),
        {"residual": lego.Tensor(dtype, _matrix(m, n, layout))},
    )


def _matrix(m: int, n: int, layout: Layout | None) -> Layout:
    return Row(m, n) if layout is None else lego.as_layout(layout)
