"""Six pairs of distributions of a square matrix over ranks, and each rank's part of both by plain indexing in PyTorch.

The parts that `held` gives are the reference of every move: they are cut out of the whole matrix by `chunk`, `view` and
`t`, and share nothing with plans.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import isqrt
from typing import Any

from lego_mlir.distributions import Chunks, Cyclic, Sharded, StridedChunks

BLOCK, LARGER = 64, 256
FACTOR = 2
"""The split factor of `_StridedShard`."""
Part = Callable[[Any, int], Any]


@dataclass(frozen=True)
class Side:
    """A division of the matrix: as a distribution, as placements of DTensor by name, and by indexing."""

    division: Sharded
    placements: tuple[str, ...] | None
    held: Part


@dataclass(frozen=True)
class Pair:
    name: str
    source: Side
    target: Side
    transposes: bool = False


def grid_of(ranks: int) -> tuple[int, int]:
    """The most square p x q = ranks with p <= q."""
    p = max(p for p in range(1, isqrt(ranks) + 1) if ranks % p == 0)
    return p, ranks // p


def sides(n: int, ranks: int) -> dict[str, Side]:
    """The divisions by name; n is a multiple of LARGER * ranks on a GPU, of BLOCK * ranks at least."""
    p, q = grid_of(ranks)

    def axis(split: Any, number: int, order: str = "C") -> Sharded:
        return Sharded([n, n], {"r": ranks}, [[("r", split)] if d == number else [] for d in (0, 1)], {}, order)

    def dealt(block: int) -> Side:
        return Side(
            axis(Cyclic(ranks, block), 1), None,
            lambda whole, rank: whole.view(n, -1, ranks, block)[:, :, rank].reshape(n, -1),
        )  # fmt: skip

    mesh = {"p": p, "q": q}
    both = [("p", Chunks(p)), ("q", Chunks(q))]
    return {
        "rows": Side(axis(Chunks(ranks), 0), ("Shard(0)",), lambda whole, rank: whole.chunk(ranks, 0)[rank]),
        "columns": Side(axis(Chunks(ranks), 1), ("Shard(1)",), lambda whole, rank: whole.chunk(ranks, 1)[rank]),
        "dealt": dealt(BLOCK),
        "dealt in larger blocks": dealt(LARGER),
        "rows of the grid": Side(
            Sharded([n, n], mesh, [both, []]), ("Shard(0)", "Shard(0)"),
            lambda whole, rank: whole.chunk(ranks, 0)[rank],
        ),
        "grid": Side(
            Sharded([n, n], mesh, [both[:1], both[1:]]), ("Shard(0)", "Shard(1)"),
            lambda whole, rank: whole.chunk(p, 0)[rank // q].chunk(q, 1)[rank % q],
        ),
        "strided": Side(
            axis(StridedChunks(ranks, FACTOR), 0), ("_StridedShard(0)",),
            lambda whole, rank: whole.view(FACTOR, ranks, -1, n)[:, rank].reshape(-1, n),
        ),
        "columns, column-major": Side(
            axis(Chunks(ranks), 1, "F"), ("Shard(0)",), lambda whole, rank: whole.chunk(ranks, 1)[rank].t()
        ),
    }  # fmt: skip


def pairs(n: int, ranks: int) -> list[Pair]:
    """The six pairs; of the last one, each rank's new part is rows of the transposed matrix."""
    s = sides(n, ranks)
    return [
        Pair("block-cyclic to blocks", s["dealt"], s["columns"]),
        Pair("two block-cyclic sizes", s["dealt"], s["dealt in larger blocks"]),
        Pair("rows to columns", s["rows"], s["columns"]),
        Pair("rows to grid", s["rows of the grid"], s["grid"]),
        Pair("_StridedShard to Shard", s["strided"], s["rows"]),
        Pair("transposed", s["rows"], s["columns, column-major"], transposes=True),
    ]


def placements_of(side: Side) -> list[Any]:
    """The placements of DTensor. Those that it has not leave the pair to the others."""
    from torch.distributed.tensor import Shard
    from torch.distributed.tensor.placement_types import _StridedShard

    made = {"Shard(0)": Shard(0), "Shard(1)": Shard(1), "_StridedShard(0)": _StridedShard(0, split_factor=FACTOR)}
    return [made[name] for name in side.placements or ()]
