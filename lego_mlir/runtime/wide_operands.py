"""Operands of an epilogue for a product that is computed wider than it is, as further steps of its plan.

A product whose rows of C are not multiples of 16 bytes is computed into wider rows, and cropped. Its epilogue then
loads numbers of columns that C does not have: vectors and matrices are padded with zeros, as A and B are, and rows and
columns of zeros stay zeros, so that a maximum over all of them is that of C.

    bias: n         ── pad ──► wide_bias         ┐
    residual: m x n ── pad ──► wide_residual     ┴► product with its epilogue ──► wide_c ── crop ──► c
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from lego_mlir.runtime import product_steps
from lego_mlir.runtime.product_steps import BackendOf, ProductStep

if TYPE_CHECKING:
    from lego_mlir.kernels.aligned_products import WideProduct
    from lego_mlir.runtime.arrays import ArrayFacts
    from lego_mlir.runtime.manifest import Argument
    from lego_mlir.runtime.plans import Backend

Named = Sequence[tuple["Argument", "ArrayFacts"]]
"""The arguments of a kernel after a, b and c, and the arrays that are passed for them."""
_DIMS: Final = {"scale_a": "m", "scale_b": "n", "bias": "n", "residual": "mn"}
"""Along which of C's dimensions an operand has an element for each."""


def widened(
    more: Named, size: tuple[int, int], wide: tuple[int, int], copy_of: BackendOf
) -> tuple[list[ProductStep], list[str]]:
    """The copies of operands of an m x n product for a wider one, and the names of the tensors that it takes."""
    steps, names = [], []
    for argument, facts in more:
        along, name = _DIMS.get(argument.name, ""), argument.name
        one = name.startswith("scale") and facts.shape == (1,)
        shape, wider = (dict(zip("mn", dims, strict=True)) for dims in (size, wide))
        if one or all(shape[d] == wider[d] for d in along):
            names.append(name)
            continue
        rows, more_rows = (dims["m"] if along == "mn" else 1 for dims in (shape, wider))
        sizes = {"M": rows, "N": shape[along[-1]], "Q": more_rows, "P": wider[along[-1]]}
        called = product_steps.copy_name("pad", argument.dtype)
        steps.append(ProductStep(copy_of(called), (name, f"wide_{name}"), sizes))
        names.append(f"wide_{name}")
    return steps, names


def cropped(size: tuple[int, int], wide: tuple[int, int], result: str, copy_of: BackendOf) -> list[ProductStep]:
    """The copy of a wider result into c; none where it has c's size."""
    if size == wide:
        return []
    values = {"M": size[0], "N": size[1], "Q": wide[0], "P": wide[1]}
    return [ProductStep(copy_of(product_steps.copy_name("crop", result)), ("wide_c", "c"), values)]


def steps_of(
    size: tuple[int, int, int], wide: WideProduct, layouts: str, types: tuple[str, str], product: Backend, more: Named,
    copy_of: BackendOf,
) -> list[ProductStep]:  # fmt: skip
    """The launches of a product of 16-bit `types`, operand and result, by a wide one, with its epilogue."""
    dtype, result = types
    (m, n, _), (wide_m, wide_n, _) = size, wide.sizes
    *copies, last = product_steps.on_copies(
        size, wide.sizes, wide.copied, False, layouts, dtype, result, product, copy_of
    )  # fmt: skip
    pads, names = widened(more, (m, n), (wide_m, wide_n), copy_of)
    tensors = (*last.tensors[:2], "wide_c" if wide.cropped else "c", *names, *product_steps.workspace_of(product.entry))
    crop = cropped((m, n), (wide_m, wide_n), result, copy_of)
    return [*copies, *pads, ProductStep(product, tensors, last.sizes), *crop]
