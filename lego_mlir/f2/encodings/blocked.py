"""Blocked encodings, and the slice of any encoding (propositions 4.6 and 4.8).

A blocked encoding nests three boxes, each filled in the same order of dimensions: the elements of a thread, the threads
of a warp, the warps of a block.

>>> Blocked((1, 4), (8, 4), (4, 1), order=(1, 0)).layout((32, 16)).bases["lane"]
[(0, 4), (0, 8), (1, 0), (2, 0), (4, 0)]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from lego_mlir.errors import LayoutError
from lego_mlir.f2.encodings.tiles import Blocks, fitted, product_of, require_rank, require_shape, require_sizes
from lego_mlir.f2.linear import LinearLayout
from lego_mlir.f2.shape_ops import standard_dims, without_zero_registers


class Encoding(Protocol):
    """Places in hardware for the elements of a tensor of any shape."""

    @property
    def rank(self) -> int:
        """The number of dimensions of its tensors."""

    def layout(self, shape: Sequence[int]) -> LinearLayout:
        """The linear layout for one shape: register, lane, warp, block (or offset, block) to `dim0, dim1, ..`."""


@dataclass(frozen=True)
class Blocked:
    """Elements of a thread, threads of a warp, warps of a block as nested boxes; `order` has the fastest axis first.

    Raises LayoutError unless the sizes are powers of two, one for each dimension, and `order` names each axis once.
    """

    size_per_thread: tuple[int, ...]
    threads_per_warp: tuple[int, ...]
    warps: tuple[int, ...]
    order: tuple[int, ...]
    blocks: Blocks = ()

    def __post_init__(self) -> None:
        boxes = {
            "size_per_thread": self.size_per_thread,
            "threads_per_warp": self.threads_per_warp,
            "warps": self.warps,
        }
        require_sizes("Blocked", **boxes)
        require_rank("Blocked", self.rank, **boxes, order=self.order)
        require_order("Blocked", self.order)

    @property
    def rank(self) -> int:
        return len(self.size_per_thread)

    def layout(self, shape: Sequence[int]) -> LinearLayout:
        """register, lane, warp, block -> `dim0, ..`; registers that hold copies are dropped."""
        require_shape("Blocked", shape, self.rank)
        names = standard_dims(self.rank)
        tile = product_of(
            *(
                LinearLayout.identity(box[axis], place, names[axis])
                for place, box in (
                    ("register", self.size_per_thread),
                    ("lane", self.threads_per_warp),
                    ("warp", self.warps),
                )
                for axis in self.order
            )
        )
        return without_zero_registers(fitted(tile, shape, self.blocks))


@dataclass(frozen=True)
class Sliced:
    """The result of a reduction along `dim` of a tensor in the parent encoding: its dimension left out."""

    dim: int
    parent: Encoding

    def __post_init__(self) -> None:
        if not 0 <= self.dim < self.parent.rank:
            raise LayoutError(
                f"Sliced: dim={self.dim!r} must be one of the {self.parent.rank} dimensions of the parent"
            )

    @property
    def rank(self) -> int:
        return self.parent.rank - 1

    def layout(self, shape: Sequence[int]) -> LinearLayout:
        """The parent's layout with size 1 along `dim`, without that dimension and without repeated registers."""
        require_shape("Sliced", shape, self.rank)
        whole = self.parent.layout((*shape[: self.dim], 1, *shape[self.dim :]))
        rest = whole.slice(f"dim{self.dim}")
        named = LinearLayout(rest.bases, dict(zip(standard_dims(self.rank), rest.out_sizes.values(), strict=True)))
        return without_zero_registers(named)


def require_order(encoding: str, order: Sequence[int]) -> None:
    """Raise LayoutError unless the order names each axis once, counted from 0."""
    if any(type(axis) is not int for axis in order) or sorted(order) != list(range(len(order))):
        raise LayoutError(f"{encoding}: order={list(order)} must name each of the axes 0..{len(order) - 1} once")
