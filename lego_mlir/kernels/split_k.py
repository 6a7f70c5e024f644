"""C = A B by several blocks per tile: each sums a part of K, and the last one adds the parts in a fixed order.

A product of few tiles leaves most of a device idle while K is long: 16 x 4096 x 4096 has 64 tiles of 16 x 64. With
`parts` blocks for a tile, each sums a part of K and writes its sums to `partial`. The block that arrives last
at the tile's counter adds all parts, 0, 1, 2, .., its own among them, so the result does not depend on the order in
which blocks run:

    part 0   sums -> partial[tile, 0]   fence   counter 0 -> 1
    part 2   sums -> partial[tile, 2]   fence   counter 1 -> 2
    part 1   sums -> partial[tile, 1]   fence   counter 2 -> 3: the last   fence   [0] + [1] + [2] -> C   counter = 0

The last block resets the counter, so that the next launch finds zeros. `partial` and `counters` are the workspace of
one launch at a time: of one stream. Blocks are numbered with tiles first, so that those which begin together read the
same part of K. In one row of tiles, where no two have columns of B in common, parts are first, and blocks read
neighbouring parts of the same columns (docs/decisions/0041-parts-of-k-in-the-text.md has the times of both).

Where blocks for all parts do not fit a device at once, the last of them leave multiprocessors idle. With `blocks`,
as many persistent blocks share the parts of all tiles as stream-K does: each takes a contiguous range of them, equal
but for one part. The sums do not depend on the number of blocks.

    tile    0     1     2     3          parts = 3, blocks = 5:
    part    0 1 2 0 1 2 0 1 2 0 1 2      12 parts, of which a block takes 2 or 3
    block   0 0 1 1 2 2 2 3 3 4 4 4

>>> from lego_mlir import f16
>>> from lego_mlir.kernels import matmul
>>> kernel = matmul.build(16, 128, 512, f16, tiling=matmul.ProductTile(16, 64, 64, (1, 2)), split=SplitK(4))
>>> kernel.grid, [parameter.name for parameter in kernel.params]
((8,), ['a', 'b', 'c', 'partial', 'counters'])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import lego_mlir as lego
from lego_mlir import Row
from lego_mlir.aliases import Array, Given, IndexLike, Operand, Traced
from lego_mlir.choices.warp_tiles import MOST_PARTS
from lego_mlir.errors import UsageError
from lego_mlir.kernels.added_parts import LOADS, VECTOR, SharedVectors, store_added
from lego_mlir.kernels.matmul import steps_of
from lego_mlir.kernels.visiting import visit
from lego_mlir.tracing.trace.dtypes import DType, i32

if TYPE_CHECKING:
    from lego_mlir.tracing.words.tensor import View


@dataclass(frozen=True, slots=True)
class SplitK:
    """K in equal parts, each summed by a block. Raises UsageError unless there are 2 to MOST_PARTS parts."""

    parts: int
    blocks: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.parts, int) or not 2 <= self.parts <= MOST_PARTS:
            raise UsageError(
                f"matmul: the parts of K must be an int from 2 to {MOST_PARTS}, got {self.parts!r}; for 1 leave out "
                "split"
            )
        if self.blocks is not None and self.blocks < 1:
            raise UsageError(f"matmul: the blocks that share the parts of K must be at least 1, got {self.blocks}")

    def grid(self, tiles: int) -> int:
        """The number of blocks: one for each part of each tile, or the persistent ones."""
        units = tiles * self.parts
        return units if self.blocks is None else min(self.blocks, units)

    @property
    def last(self) -> int:
        """What the last block of a tile finds in the counter."""
        return self.parts - 1

    @property
    def cluster(self) -> None:
        """Blocks that divide K run in any order."""

    def workspace(self, tiles: int, tile: tuple[int, int], dtype: DType) -> dict[str, Traced]:
        """The further parameters: the sums of each tile's parts, and a counter for each tile, which begins as 0."""
        return {
            "partial": lego.Tensor(dtype, Row(tiles, self.parts, prod(tile))),
            "counters": lego.Tensor(i32, Row(tiles)),
        }

    @staticmethod
    def inputs(tiles: int) -> Callable[..., Given]:
        """The input of a run: counters of 0."""

        def counters(rng: Given) -> dict[str, Array]:
            import numpy as np

            return {"counters": np.zeros(tiles, np.int32)}

        return counters

    def left(self, plan: Traced, a: Array, b: Array) -> tuple[Array, Array]:
        """The workspace after a run, in NumPy: the parts' sums of each tile, as its shared tile has them, and zeros."""
        import numpy as np

        t, tiles = plan.tiling, plan.order.physical_size()
        depth = t.k * steps_of(plan.depth, t.k, self.parts)
        (rows, columns), k = plan.order.dims(), depth * self.parts
        exact = plan.through.numpy
        left, right = np.zeros((rows * t.m, k), exact), np.zeros((k, columns * t.n), exact)
        left[: a.shape[0], : a.shape[1]], right[: b.shape[0], : b.shape[1]] = a, b
        height, width = plan.summed
        partial = np.zeros((tiles, self.parts, height * width), exact)
        for number in range(tiles):
            if tiles > rows * columns and not plan.order.holds(number):
                continue
            i, j = map(int, plan.order.inv(number))
            for part in range(self.parts):
                inside = slice(part * depth, (part + 1) * depth)
                sums = left[i * t.m : (i + 1) * t.m, inside] @ right[inside, j * t.n : (j + 1) * t.n]
                partial[number, part] = (sums if plan.axis == 1 else sums.T)[:height].reshape(-1)
        return partial, np.zeros(tiles, np.int32)

    def share(
        self, plan: Traced, matrices: tuple[View, View, View], staged: Sequence[View], out: View,
        operands: tuple[Operand, ...],
    ) -> None:  # fmt: skip
        """A block's parts of its tiles, and a whole tile in the block that arrives last."""
        *given, partial, counters = operands
        arrived = lego.shared(i32, Row(1))

        def unit(tile: IndexLike, part: IndexLike) -> None:
            def work(at: IndexLike) -> None:
                c, own = plan.multiply(matrices, staged, out, at, part, self.parts)
                self._publish(plan, out, partial, counters, arrived, tile, part)
                with lego.when(arrived[0] == self.last):
                    with lego.when(lego.thread_id.x < 1):
                        counters.atomic_store(0, tile)
                    self._combine(plan, c, tuple(given), own, partial, tile)

            visit(plan.order, tile, work)

        tiles, block = plan.order.physical_size(), lego.block_id.x
        units, blocks = tiles * self.parts, self.grid(tiles)
        if blocks == units and (1 not in plan.order.dims() or plan.tiling.sharing > 1):
            unit(block % tiles, block // tiles)
            return
        if blocks == units:
            unit(block // self.parts, block % self.parts)
            return
        for number in lego.range(block * units // blocks, (block + 1) * units // blocks):
            unit(number // self.parts, number % self.parts)

    def _publish(
        self, plan: Traced, out: View, partial: View, counters: View, arrived: View, number: IndexLike, part: IndexLike
    ) -> None:
        """Write the sums where other blocks read them, and draw this block's place among the arrivals."""
        vectors = self._vectors(plan, VECTOR)

        def write(numbers: list[IndexLike]) -> None:
            found = [out.load(*vectors.place(n), width=VECTOR) for n in numbers]
            for n, sums in zip(numbers, found, strict=True):
                partial.atomic_store(sums, number, part, n * VECTOR)

        vectors.visit(write, LOADS)
        lego.barrier()
        with lego.when(lego.thread_id.x < 1):
            lego.fence()  # for the whole block: the barrier orders its stores before it
            arrived[0] = counters.atomic_add(1, number)
            lego.fence()
        lego.barrier()

    def _combine(
        self, plan: Traced, c: View, operands: tuple[Operand, ...], at: tuple[IndexLike, IndexLike], partial: View,
        number: IndexLike,
    ) -> None:  # fmt: skip
        """Add the parts of each element in their order, and store the tile through the epilogue."""
        width = plan.width(plan.target(c), at, plan.shape[1])
        together = width if width > 1 else None

        def read(part: int, vector: IndexLike) -> Operand:
            return partial.atomic_load(number, part, vector * width, width=together)

        store_added(plan, c, operands, at, self._vectors(plan, width), self.parts, read)

    @staticmethod
    def _vectors(plan: Traced, width: int) -> SharedVectors:
        return SharedVectors(plan.summed, width, plan.tiling.threads)
