"""Epilogues of a product: functions of each element of A B, applied before it is stored.

    gelu()                        of the product
    bias(n).then(relu())          a number for each column added, then max(x, 0)
    scales(m, n).then(residual(m, n, f16))
    gelu().then(amax())           and the largest absolute value of what is stored

An epilogue sees vectors of f32 along C's contiguous axis, and where they are: what else it loads is a number of each
column, of each row, or an element of a matrix of C's shape. One written by hand is the same two functions.
"""

# mypy: disable-error-code="valid-type"

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import lego_mlir as lego
from lego_mlir.aliases import Array, Given, Operand
from lego_mlir.errors import UsageError
from lego_mlir.layout import Row
from lego_mlir.tracing.trace.dtypes import DType, f32
from lego_mlir.tracing.words.element_functions import VectorPlace

if TYPE_CHECKING:
    from lego_mlir.layout.base import Layout
    from lego_mlir.layout.canonical import SizeLike

ROOT_HALF: Final = 0.7071067811865476
LOG2_E: Final = 1.4426950408889634
ERFC_SCALE: Final = 0.3275911
ERFC: Final = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)
"""erfc(x) = (ERFC . (t, t^2, .., t^5)) e^(-x^2) with t = 1 / (1 + ERFC_SCALE x), for x >= 0."""


@dataclass(frozen=True, slots=True)
class EpiloguePlace(VectorPlace):
    """The place of a vector of C, and the largest values so far of a tile."""

    largest: tuple[LargestOfTile, ...] = ()

    def include(self, value: Operand, in_largest: Operand) -> None:
        """Count the vector's absolute values in the largest one of an operand among `Epilogue.largest`."""
        size = abs(value)
        for kept in self.largest:
            if kept.operand is in_largest:
                for lane in range(self.width):
                    kept.cell.set(lego.maximum(kept.cell, size[lane] if self.width > 1 else size))


@dataclass(frozen=True, slots=True)
class LargestOfTile:
    """The largest absolute value among a thread's elements of a tile, a variable, and the operand that it goes to."""

    operand: Operand
    cell: Operand

    @classmethod
    def begin(cls, operand: Operand) -> LargestOfTile:
        """Before the first element: 0."""
        return cls(operand, lego.register(f32, 0.0))

    def end(self) -> None:
        """After the last element: one lane of each warp updates the operand."""
        total = lego.warp_reduce(self.cell, "max")
        with lego.when(lego.lane_id < 1):
            self.operand.atomic_max(total, 0)


@dataclass(frozen=True, slots=True)
class Epilogue:
    """A function applied to each value of A B before it is stored.

    `function(value, place, *operands)` gets a vector of f32, its `EpiloguePlace`, and the arguments for `operands`;
    `reference(product, *operands)` is the same on whole arrays, in NumPy. `largest` names the operands, tensors of one
    f32, that become the larger of themselves and the absolute values that `EpiloguePlace.include` counts; the reference
    updates them in place.
    """

    function: Callable[..., Any]
    reference: Callable[..., Any]
    operands: Mapping[str, Any] = field(default_factory=dict)
    largest: tuple[str, ...] = ()

    def then(self, after: Epilogue) -> Epilogue:
        """This epilogue, and another one of its result. Raises UsageError where both have an operand of one name."""
        if common := self.operands.keys() & after.operands.keys():
            raise UsageError(
                f"epilogues with two operands named {', '.join(sorted(common))}; name one of them otherwise"
            )
        count = len(self.operands)

        def function(value: Operand, place: EpiloguePlace, *operands: Operand) -> Operand:
            return after.function(self.function(value, place, *operands[:count]), place, *operands[count:])

        def reference(product: Array, *operands: Given, **named: Given) -> Array:
            given = [*operands, *(named[name] for name in [*self.operands, *after.operands][len(operands) :])]
            found: Array = after.reference(self.reference(product, *given[:count]), *given[count:])
            return found

        return Epilogue(function, reference, {**self.operands, **after.operands}, (*self.largest, *after.largest))


def relu() -> Epilogue:
    """max(x, 0)."""

    def reference(product: Array) -> Array:
        import numpy as np

        return np.maximum(product, 0)

    return Epilogue(lambda value, place: lego.maximum(value, 0.0), reference)


def gelu() -> Epilogue:
    """x Phi(x), with the distribution function of the standard normal distribution; Hendrycks and Gimpel, 2016.

    Phi by a formula without branches, to 1e-7: max(x, 0) - |x|/2 erfc(|x|/sqrt 2); Abramowitz and Stegun, 7.1.26.
    """

    def reference(product: Array) -> Array:
        from math import erf as erf_of

        import numpy as np

        erf = np.vectorize(erf_of, otypes=[product.dtype])
        return product * (0.5 + 0.5 * erf(product * ROOT_HALF))

    def function(value: Operand, place: EpiloguePlace) -> Operand:
        size = abs(value)
        t = lego.divide(1.0, lego.fma(size, ERFC_SCALE * ROOT_HALF, 1.0), fast=True)
        series = lego.fma(t, ERFC[-1], ERFC[-2])
        for coefficient in ERFC[-3::-1]:
            series = lego.fma(series, t, coefficient)
        beyond = series * t * lego.exp2(value * value * (-0.5 * LOG2_E), fast=True)
        return lego.fma(size * -0.5, beyond, lego.maximum(value, 0.0))

    return Epilogue(function, reference)


def silu_gate(m: SizeLike, n: SizeLike, dtype: DType, *, layout: Layout | None = None) -> Epilogue:
    """silu(x) times the element of an m x n matrix, the argument `up`: SwiGLU's gate; Shazeer, 2020."""

    def function(value: Operand, place: EpiloguePlace, up: Operand) -> Operand:
        return silu().function(value, place) * place.of(up).to(f32)

    def reference(product: Array, up: Array) -> Array:
        found: Array = silu().reference(product) * up.astype(product.dtype)
        return found

    return Epilogue(function, reference, {"up": lego.Tensor(dtype, _matrix(m, n, layout))})


def scale() -> Epilogue:
    """The product with a number, the kernel's argument `alpha`."""
    return Epilogue(lambda value, place, alpha: value * alpha, lambda product, alpha: product * alpha, {"alpha": f32})


def bias(n: SizeLike, dtype: DType = f32) -> Epilogue:
    """The sum with a number for each of the n columns, the kernel's argument `bias`."""
    return Epilogue(
        lambda value, place, bias: value + (place.by_column(bias) if dtype == f32 else place.by_column(bias).to(f32)),
        lambda product, bias: product + bias.astype(product.dtype),
        {"bias": lego.Tensor(dtype, Row(n))},
    )


def silu() -> Epilogue:
    """x / (1 + e^-x); Hendrycks and Gimpel, 2016."""

    def reference(product: Array) -> Array:
        import numpy as np

        with np.errstate(over="ignore"):
            found: Array = product / (1 + np.exp(-product))
        return found

    def function(value: Operand, place: EpiloguePlace) -> Operand:
        return value * lego.divide(1.0, lego.exp2(value * -LOG2_E, fast=True) + 1.0, fast=True)

    return Epilogue(function, reference)


def factors(count: SizeLike, name: str, *, rows: bool) -> Epilogue:
    """The product with a number for each row, or column, or one for all where `count` is the int 1."""
    one = isinstance(count, int) and count == 1

    def function(value: Operand, place: EpiloguePlace, numbers: Operand) -> Operand:
        if one:
            return value * numbers[0]
        return value * (place.by_row(numbers) if rows else place.by_column(numbers))

    def reference(product: Array, *given: Array, **named: Array) -> Array:
        (numbers,) = (*given, *named.values())
        found: Array = product * (numbers[:, None] if rows and not one else numbers)
        return found

    return Epilogue(function, reference, {name: lego.Tensor(f32, Row(count))})


def amax(name: str = "amax") -> Epilogue:
    """The value as it is; the argument `amax`, one f32, becomes the larger of itself and the largest absolute value.

    A maximum does not depend on the order of blocks. NaN is larger than every number. Delayed scaling of 8-bit types
    takes the next scale from it (Micikevicius et al., "FP8 Formats for Deep Learning", 2022).
    """

    def function(value: Operand, place: EpiloguePlace, amax: Operand) -> Operand:
        place.include(value, amax)
        return value

    def reference(product: Array, *given: Array, **named: Array) -> Array:
        import numpy as np

        (found,) = (*given, *named.values())
        np.maximum(found, np.abs(product).max(initial=0), out=found, casting="same_kind")
        return product

    return Epilogue(function, reference, {name: lego.Tensor(f32, Row(1))}, (name,))


def scales(m: SizeLike, n: SizeLike) -> Epilogue:
    """The product with a number for each of the m rows and one for each of the n columns: `row_scale`, `column_scale`.

    Those of quantised operands, one for each row of A and each column of B.
    """
    return Epilogue(
        lambda value, place, rows, columns: value * place.by_row(rows) * place.by_column(columns),
        lambda product, row_scale, column_scale: product * row_scale[:, None] * column_scale,
        {"row_scale": lego.Tensor(f32, Row(m)), "column_scale": lego.Tensor(f32, Row(n))},
    )


def residual(m: SizeLike, n: SizeLike, dtype: DType, *, layout: Layout | None = None) -> Epilogue:
    """The sum with an m x n matrix, the argument `residual`, in rows if no layout is given."""
    return Epilogue(
        lambda value, place, added: value + place.of(added).to(f32),
        lambda product, residual: product + residual.astype(product.dtype),
        {"residual": lego.Tensor(dtype, _matrix(m, n, layout))},
    )


def _matrix(m: SizeLike, n: SizeLike, layout: Layout | None) -> Layout:
    return Row(m, n) if layout is None else lego.as_layout(layout)
