"""Products of types that units multiply along K only, from operands in any order, as one plan.

    a: in columns ── along_k ──► wide_a ┐
    b: in rows    ── along_k ──► wide_b ┴► product with its epilogue ──► c        one block of memory, freed behind it

The copies transpose an operand into rows of K, of whole 16-byte words, with zeros where K has none. An operand that has
K contiguous already is padded if K needs it. All launches are on one stream, and the host waits for none of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from lego_mlir.kernels import rows_along_k
from lego_mlir.runtime import product_steps
from lego_mlir.runtime.arrays import ArrayFacts
from lego_mlir.runtime.manifest import Argument, KernelEntry
from lego_mlir.runtime.product_steps import BackendOf, ProductStep
from lego_mlir.runtime.products import order_of

if TYPE_CHECKING:
    from lego_mlir.runtime.plans import Backend

WANTED: Final = ("N", "T")
"""The orders of a and b with K contiguous."""


def depth_of(facts: Sequence[ArrayFacts]) -> int:
    """K of the product on copies of a and b: theirs where no copy is needed."""
    return rows_along_k.pitch(facts[0].shape[1], facts[0].itemsize)


def needs_copies(facts: Sequence[ArrayFacts]) -> bool:
    """Whether a or b has to be copied first. Both are in rows or in columns, and aligned."""
    return depth_of(facts) != facts[0].shape[1] or any(map(_is_turned, facts, WANTED))


def _is_turned(facts: ArrayFacts, wanted: str) -> bool:
    """Whether the other dimension than K is contiguous; with one element along a dimension, both are."""
    return order_of(facts) != wanted and 1 not in facts.shape


def steps_of(
    facts: Sequence[ArrayFacts], product: Backend, more: Sequence[str], copy_of: BackendOf
) -> list[ProductStep]:
    """The launches: copies of a and b, and the product, whose further arguments are the tensors `more`."""
    (m, k), (_, n), depth = facts[0].shape, facts[1].shape, depth_of(facts)
    steps, operands = [], []
    for name, found, wanted, rows in zip("ab", facts, WANTED, (m, n), strict=True):
        element, wide = found.itemsize, f"wide_{name}"
        turned = _is_turned(found, wanted)
        if turned:
            called = rows_along_k.name_of(element, rows_along_k.width_for(k, rows, element))
            steps.append(ProductStep(copy_of(called), (name, wide), {"K": k, "R": rows, "P": depth}))
        elif depth != k:
            called = product_steps.copy_name("pad", rows_along_k.TYPES[element].name)
            steps.append(ProductStep(copy_of(called), (name, wide), {"M": rows, "N": k, "Q": rows, "P": depth}))
        operands.append(wide if turned or depth != k else name)
    steps.append(ProductStep(product, (*operands, "c", *more), {"M": m, "N": n, "K": depth}))
    return steps


def entry_of(
    name: str, facts: Sequence[ArrayFacts], dtype: str, result: str, more: Sequence[tuple[Argument, ArrayFacts]]
) -> KernelEntry:
    """The call as one kernel with the arguments a, b, c and `more`, those of the product's kernel with their arrays."""
    (m, k), (_, n) = facts[0].shape, facts[1].shape
    layouts = "".join(order_of(found) or wanted for found, wanted in zip(facts, WANTED, strict=True))
    plain = product_steps.entry_of(name, m, n, k, dtype, result, layouts)
    others = tuple(
        Argument(a.name, "tensor", a.dtype, f.shape, f.size, None, a.read, a.written, a.alignment, f.strides)
        for a, f in more
    )
    return replace(plain, arguments=(*plain.arguments, *others))
