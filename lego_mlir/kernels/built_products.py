"""The product that a kernel of `kernels.matmul` computes, for models of its time: sizes, layouts and tiling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from lego_mlir.choices.product_tile import ProductTile
    from lego_mlir.tracing.definition.kernel import Kernel


@dataclass(frozen=True, slots=True)
class BuiltProduct:
    """A product of 16-bit elements of static sizes. `blocks` are persistent; without them each tile has a block."""

    m: int
    n: int
    k: int
    layouts: str
    tiling: ProductTile
    blocks: int | None


BUILT: Final[WeakKeyDictionary[Kernel, BuiltProduct]] = WeakKeyDictionary()
"""The products that were built, while their kernels exist."""
