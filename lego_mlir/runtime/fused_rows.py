"""Fused products of arrays with leading dimensions: [.., M, K] @ [K, N] is one product of all rows.

    y = lego_mlir.matmul(x, w, bias=bias, activation="gelu")      # x [batch, tokens, K], w [K, N] -> [batch, tokens, N]

What belongs to rows has the leading dimensions too: a scale [.., M], a residual [.., M, N]. Batches of matrices b have
no fused form.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING

from lego_mlir.errors import UsageError

if TYPE_CHECKING:
    from lego_mlir.aliases import Tensor

Given = tuple[
    "Tensor | None", "Tensor | None", "Tensor | None", "Tensor | None", "Tensor | None", "Tensor | None"
]  # fmt: skip
"""scale_a, scale_b, bias, residual, amax and scale_result."""


def fused_rows(product: Callable[[Tensor, Tensor, Given], Tensor], a: Tensor, b: Tensor, given: Given) -> Tensor:
    """The fused product of the rows of a, by the one of two matrices. Raises UsageError for several matrices b."""
    (*lead, k), of_b = a.shape, tuple(b.shape)
    if prod(of_b[:-2]) != 1 or len(of_b) > len(a.shape) or len(lead) < 2:
        raise UsageError(
            f"matmul of {list(a.shape)} and {list(of_b)} with a scale, bias, activation, residual or amax, or another "
            "precision: these are for one matrix b; compute each product, or apply them to the result"
        )
    scale, scale_b, bias, residual, amax, scale_result = given
    rows, columns = prod(lead), of_b[-1]
    if scale is not None and prod(scale.shape) != 1:
        scale = _reshaped("scale_a", scale, lead, (rows,))
    if residual is not None:
        residual = _reshaped("residual", residual, [*lead, columns], (rows, columns))
    all_given = (scale, scale_b, bias, residual, amax, scale_result)
    found = product(a.reshape(rows, k), b.reshape(of_b[-2:]), all_given)
    return found.reshape(*lead, columns)


def _reshaped(name: str, x: Tensor, wanted: list[int], shape: tuple[int, ...]) -> Tensor:
    """What belongs to rows, in two dimensions. Raises UsageError for another shape."""
    if list(x.shape) != wanted:
        raise UsageError(f"matmul: {name} is {list(x.shape)}, and the rows of the product need {wanted}")
    return x.reshape(shape)
