"""Products of types that units multiply along K only, from operands in any order, as one plan.

    a: in columns ── along_k ──► wide_a ┐
    b: in rows    ── along_k ──► wide_b ┴► product with its epilogue ──► c        one block of memory, freed behind it

The copies transpose an operand into rows of K, of whole 16-byte words, with zeros where K has none. An operand that has
K contiguous already is padded if K needs it. Where rows of C are not multiples of 16 bytes, the product is one of more
columns, which are cropped (`wide_operands`). All launches are on one stream, and the host waits for none of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from lego_mlir.hardware.tensor_maps import CHUNK
from lego_mlir.kernels import rows_along_k
from lego_mlir.kernels.aligned_products import ALIGNED
from lego_mlir.runtime import product_steps, wide_operands
from lego_mlir.runtime.arrays import ArrayFacts
from lego_mlir.runtime.manifest import Argument, KernelEntry
from lego_mlir.runtime.product_steps import BackendOf, ProductStep
from lego_mlir.runtime.products import order_of
from lego_mlir.runtime.wide_operands import Named

if TYPE_CHECKING:
    from lego_mlir.runtime.plans import Backend

WANTED: Final = ("N", "T")
"""The orders of a and b with K contiguous."""


def depth_of(facts: Sequence[ArrayFacts]) -> int:
    """K of the product on copies of a and b: theirs where no copy is needed."""
    return rows_along_k.pitch(facts[0].shape[1], facts[0].itemsize)


def columns_of(facts: Sequence[ArrayFacts], element: int) -> int:
    """N of the product on copies, for results with elements of that many bytes: rows of multiples of 16 bytes."""
    n, unit = facts[1].shape[1], max(ALIGNED, CHUNK // element)
    return n if n * element % CHUNK == 0 else -(-n // unit) * unit


def needs_copies(facts: Sequence[ArrayFacts], columns: int) -> bool:
    """Whether a or b has to be copied first. Both are in rows or in columns, and aligned."""
    return columns != facts[1].shape[1] or depth_of(facts) != facts[0].shape[1] or any(map(_is_turned, facts, WANTED))


def _is_turned(facts: ArrayFacts, wanted: str) -> bool:
    """Whether the other dimension than K is contiguous; with one element along a dimension, both are."""
    return order_of(facts) != wanted and 1 not in facts.shape


def steps_of(
    facts: Sequence[ArrayFacts], product: Backend, more: Named, columns: int, result: str, copy_of: BackendOf
) -> list[ProductStep]:
    """The launches: copies of a, b and `more`, the product's further arguments, the product, and the crop of its rows.

    A transposing copy leaves rows past those of its operand as they were in memory; columns of C that are cropped come
    of them. For a maximum over all columns they are zeros.
    """
    (m, k), (_, n), depth = facts[0].shape, facts[1].shape, depth_of(facts)
    steps, operands = [], []
    counted = any(argument.name == "amax" for argument, _ in more)
    for name, found, wanted, rows, wide_rows in zip("ab", facts, WANTED, (m, n), (m, columns), strict=True):
        element, wide = found.itemsize, f"wide_{name}"
        turned, source, width = _is_turned(found, wanted), name, k
        apart = turned and counted and wide_rows != rows
        if turned:
            called = rows_along_k.name_of(element, rows_along_k.width_for(k, rows, element))
            source, width = f"turned_{name}" if apart else wide, depth
            steps.append(ProductStep(copy_of(called), (name, source), {"K": k, "R": rows, "P": depth}))
        if apart or (not turned and (rows, k) != (wide_rows, depth)):
            called = product_steps.copy_name("pad", rows_along_k.TYPES[element].name)
            sizes = {"M": rows, "N": width, "Q": wide_rows, "P": depth}
            steps.append(ProductStep(copy_of(called), (source, wide), sizes))
            source = wide
        operands.append(source)
    pads, names = wide_operands.widened(more, (m, n), (m, columns), copy_of)
    workspace = product_steps.workspace_of(product.entry)
    tensors = (*operands, "c" if columns == n else "wide_c", *names, *workspace)
    crop = wide_operands.cropped((m, n), (m, columns), result, copy_of)
    return [*steps, *pads, ProductStep(product, tensors, {"M": m, "N": columns, "K": depth}), *crop]


def entry_of(name: str, facts: Sequence[ArrayFacts], dtype: str, result: str, more: Named) -> KernelEntry:
    """The call as one kernel with the arguments a, b, c and `more`, those of the product's kernel with their arrays."""
    (m, k), (_, n) = facts[0].shape, facts[1].shape
    layouts = "".join(order_of(found) or wanted for found, wanted in zip(facts, WANTED, strict=True))
    plain = product_steps.entry_of(name, m, n, k, dtype, result, layouts)
    others = tuple(
        Argument(a.name, "tensor", a.dtype, f.shape, f.size, None, a.read, a.written, a.alignment, f.strides)
        for a, f in more
    )
    return replace(plain, arguments=(*plain.arguments, *others))
