"""Batches of small matrices: one matrix per vector lane.

For matrices of a few elements, a vector is longer than a row, and solves and factorisations are latency-bound. With the
same element of several matrices contiguous (arrays of shape `(groups, *one matrix, lanes)`), the scalar code of one
matrix, with vectors in place of numbers, computes a whole group:

>>> from lego_mlir.structured import mlir_text
>>> from lego_mlir.structured.lower import lower
>>> from lego_mlir.structured.language import parse
>>> solve = lower(parse("x = Vector(2); L = LowerTriangular(2); x = L \\\\ x;"))
>>> text = mlir_text.text(emit(solve, "trsv", "f64", 8))
>>> text.splitlines()[0], text.count("vector.load"), text.count("vector.store")
('func.func @trsv(%x: memref<16xf64>, %L: memref<32xf64>) {', 5, 2)
"""

from __future__ import annotations

from typing import Final

import numpy as np

from lego_mlir.aliases import Array
from lego_mlir.errors import UsageError
from lego_mlir.structured.function import SSA, Function
from lego_mlir.structured.lower import Lowered
from lego_mlir.structured.vector import generate
from lego_mlir.structured.vector.generate import Variant

LARGEST: Final = 8


class LaneFunction(Function):
    """A function whose scalars are vectors over matrices."""

    def __init__(self, name: str, element: str, buffers: list[tuple[str, int]], lanes: int) -> None:
        super().__init__(name, element, [(buffer, size * lanes) for buffer, size in buffers])
        self.matrices = lanes

    def allocate(self, name: str, size: int) -> str:
        return super().allocate(name, size * self.matrices)

    def elements(self, width: int) -> int:
        return width * self.matrices

    def load(self, buffer: str, at: SSA) -> SSA:
        return self.op("load", self.place(at), width=self.matrices, buffer=buffer)

    def store(self, buffer: str, at: SSA, value: SSA) -> None:
        self.do("store", self.place(at), value, width=self.matrices, buffer=buffer)

    def place(self, at: SSA) -> SSA:
        return self.index_op("muli", at, self.index(self.matrices))


def emit(lowered: Lowered, name: str, element: str, lanes: int) -> Function:
    """The kernel of one group of matrices. Raises UsageError for matrices too large to profit."""
    size = max(n for leaf in lowered.operands for n in (leaf.structure.rows, leaf.structure.columns))
    if size > LARGEST:
        raise UsageError(
            f"by_lanes is for sizes up to {LARGEST}, this program has {size}; compile it without by_lanes, which "
            "vectorizes each matrix of a batch separately"
        )
    function = LaneFunction(name, element, [(leaf.name, leaf.size) for leaf in lowered.operands], lanes)
    generate.fill(function, lowered, Variant(1, LARGEST, LARGEST))
    return function


def interleave(batch: Array, lanes: int) -> Array:
    """Matrices (count, *shape) as groups (groups, *shape, lanes); the last group repeats the last matrix.

    >>> interleave(np.arange(6).reshape(3, 2), 2).tolist()
    [[[0, 2], [1, 3]], [[4, 4], [5, 5]]]
    """
    groups = -(-len(batch) // lanes)
    chosen = np.minimum(np.arange(groups * lanes), len(batch) - 1).reshape(groups, lanes)
    return np.ascontiguousarray(np.moveaxis(batch[chosen], 1, -1))


def separate(groups: Array, count: int) -> Array:
    """The first `count` matrices of the groups: the inverse of `interleave`."""
    apart = np.moveaxis(groups, -1, 1)
    return np.ascontiguousarray(apart.reshape(-1, *apart.shape[2:])[:count])
