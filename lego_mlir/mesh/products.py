"""Products over a mesh: C = A B of matrices in any distributions, as moves to a grid of ranks, and back.

On a grid of pm x pn x pk ranks, rank (i, j, l) multiplies block (i, l) of A by block (l, j) of B, and C(i, j) is the
sum over l. Each step is a redistribution: A to its blocks, with copies along j; B with copies along i; the blocks of C,
with parts of a sum along l, to C as it is wanted. So every algorithm is a grid:

    1 x P x 1, P x 1 x 1   one operand is gathered, the other stays
    1 x 1 x P              K is divided, and the parts of C are added and scattered
    pm x pn x 1            blocks of both, of which each rank gathers a row and a column (the blocks of SUMMA)
    pm x pn x pk           the same with copies of the work along K (2.5-D)

The grid and its numbering are those that move the fewest bytes between the given distributions, of fewest matrices.

>>> from lego_mlir.distributions import Chunks, Sharded
>>> def sharded(shape, axis):
...     return Sharded(shape, {"r": 4}, [[("r", Chunks(4))] if d == axis else [] for d in (0, 1)])
>>> plan = plan_product(sharded([512, 64], 0), sharded([64, 256], 1), sharded([512, 256], 1))
>>> plan
<product of 512 x 64 and 64 x 256 on 1 x 4 x 1 ranks: A gathered, 98304 elements move>
>>> plan_product(sharded([512, 4096], 1), sharded([4096, 256], 0), sharded([512, 256], 0)).algorithm
'C scattered'
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from lego_mlir.aliases import Array
from lego_mlir.distributions.base import Distribution
from lego_mlir.distributions.sharded import Sharded
from lego_mlir.distributions.splits import Chunks
from lego_mlir.errors import LayoutError
from lego_mlir.mesh.redistribution import RedistributionPlan, redistribute

AXES: Final = ("i", "j", "l")
"""Names of the axes of a grid: blocks of M, of N and of K."""


@dataclass(frozen=True)
class ProductGrid:
    """Ranks along the blocks of M, N and K, and the order of these axes in the numbers of ranks, outermost first."""

    sizes: tuple[int, int, int]
    order: tuple[str, ...] = AXES

    def division(self, shape: Sequence[int], rows: str, columns: str, summed: str | None = None) -> Sharded:
        """A matrix in blocks along two axes, with copies along the third, or parts that are added."""
        of = dict(zip(AXES, self.sizes, strict=True))
        splits = [[(axis, Chunks(of[axis]))] for axis in (rows, columns)]
        combined = {summed: "sum"} if summed is not None and of[summed] > 1 else None
        return Sharded(shape, {axis: of[axis] for axis in self.order}, splits, combined)


@dataclass(frozen=True)
class MeshProductPlan:
    """A product on a grid: what moves of A and B before the local products, and of C after them."""

    grid: ProductGrid
    a: RedistributionPlan
    b: RedistributionPlan
    c: RedistributionPlan

    @cached_property
    def moved(self) -> int:
        """Elements that move between ranks, of all three matrices."""
        return sum(moves.summary.moved for moves in (self.a, self.b, self.c))

    def bytes_moved(self, item_bytes: tuple[int, int, int]) -> int:
        """Bytes that move between ranks, for those of an element of A, B and C."""
        moving = zip((self.a, self.b, self.c), item_bytes, strict=True)
        return sum(moves.summary.moved * size for moves, size in moving)

    @property
    def moving(self) -> int:
        """How many of the three matrices move: of one, strips arrive or are sent while others are multiplied."""
        return sum(moves.summary.moved > 0 for moves in (self.a, self.b, self.c))

    @property
    def shape(self) -> tuple[int, int, int]:
        """M, N and K."""
        return self.a.shape[0], self.b.shape[1], self.a.shape[1]

    @property
    def ranks(self) -> int:
        """How many ranks take part."""
        return self.a.source.count

    @property
    def sums(self) -> int:
        """How many parts each element of C is the sum of."""
        return self.grid.sizes[2]

    @property
    def algorithm(self) -> str:
        """What moves, in words."""
        pm, pn, pk = self.grid.sizes
        if pk > 1 and pm * pn > 1:
            return "2.5-D"
        if pm > 1 and pn > 1:
            return "2-D"
        words = ("A gathered", "B gathered", "C scattered")
        moving = [word for word, moves in zip(words, (self.a, self.b, self.c), strict=True) if moves.summary.moved]
        return ", ".join(moving) or "nothing moves"

    def __repr__(self) -> str:
        (m, n, k), grid = self.shape, " x ".join(map(str, self.grid.sizes))
        return f"<product of {m} x {k} and {k} x {n} on {grid} ranks: {self.algorithm}, {self.moved} elements move>"

    def multiply(self, a: Sequence[Array], b: Sequence[Array]) -> list[Array]:
        """The parts of C for the flat NumPy parts of A and B: the plan carried out in one process."""
        parts = []
        for rank, (left, right) in enumerate(zip(self.a.move(a), self.b.move(b), strict=True)):
            rows, columns = self.a.target.local_shape(rank), self.b.target.local_shape(rank)
            parts.append((left.reshape(rows) @ right.reshape(columns)).reshape(-1))
        return self.c.move(parts)


def plan_product(
    a: Distribution, b: Distribution, c: Distribution, grid: ProductGrid | None = None,
    item_bytes: tuple[int, int, int] = (1, 1, 1),
) -> MeshProductPlan:  # fmt: skip
    """The plan for C = A B on the ranks of A, B and C, of which there are equally many; `grid` is chosen if not given.

    The one that moves the fewest bytes is chosen; `item_bytes` are those of an element of A, B and C. Parts of
    sums are added as they arrive; A and B may hold copies. Raises LayoutError for shapes that do not fit, and for
    different numbers of ranks.
    """
    shapes = [tuple(one.shape) for one in (a, b, c)]
    if (
        any(len(shape) != 2 for shape in shapes)
        or shapes[0][1] != shapes[1][0]
        or shapes[2] != (*shapes[0][:1], *shapes[1][1:])
    ):
        raise LayoutError(f"a product takes M x K, K x N and M x N, got {', '.join(map(str, shapes))}")
    if grid is not None:
        return _planned(a, b, c, grid)
    plans = [_planned(a, b, c, grid) for grid in grids(redistribute(a, a).source.count)]
    return min(plans, key=lambda plan: (plan.bytes_moved(item_bytes), plan.moving, plan.grid.sizes[::-1]))


def grids(ranks: int) -> Iterator[ProductGrid]:
    """All grids of this many ranks, in each distinct order."""
    divisors = [n for n in range(1, ranks + 1) if ranks % n == 0]
    for pm, pn in itertools.product(divisors, divisors):
        if ranks % (pm * pn) == 0:
            sizes = pm, pn, ranks // (pm * pn)
            long = [axis for axis, n in zip(AXES, sizes, strict=True) if n > 1]
            ones = [axis for axis in AXES if axis not in long]
            for order in itertools.permutations(long):
                yield ProductGrid(sizes, (*ones, *order))


def _planned(a: Distribution, b: Distribution, c: Distribution, grid: ProductGrid) -> MeshProductPlan:
    (m, k), (_, n) = (tuple(map(int, one.shape)) for one in (a, b))
    found = MeshProductPlan(
        grid,
        redistribute(a, grid.division((m, k), "i", "l")),
        redistribute(b, grid.division((k, n), "l", "j")),
        redistribute(grid.division((m, n), "i", "j", "l"), c),
    )
    counts = {found.a.source.count, found.a.target.count, found.b.source.count, found.c.target.count}
    if len(counts) > 1:
        raise LayoutError(f"A, B, C and the grid are over equally many ranks, got {sorted(counts)}")
    return found
