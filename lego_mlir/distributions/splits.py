"""One axis divided among ranks: a bijection of 0..n-1 onto a sum of boxes, (rank, local index) with uneven ranks.

A split gives rank r the `size(r, n)` elements (r, 0), (r, 1), ..; the sizes may differ and may be 0, so the places are
a disjoint union of boxes and not a box. `split` and `join` are inverse to each other for every n, which `check` proves
once for all n; so a split may divide what another split left on a rank.

>>> Chunks(4).split(8, 9), [Chunks(4).size(r, 9) for r in range(4)]
((2, 2), [3, 3, 3, 0])
>>> [Balanced(4).size(r, 9) for r in range(4)], [Cyclic(4, 2).size(r, 9) for r in range(4)]
([3, 2, 2, 2], [3, 2, 2, 2])
>>> Cyclic(4, 2).join(0, 2, 9)
8
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate

from lego_mlir.aliases import Expr, IndexLike
from lego_mlir.errors import LayoutError
from lego_mlir.expr.index import as_expr, cdiv, index_symbol, maximum, minimum, where
from lego_mlir.expr.ranges import Range
from lego_mlir.expr.sizes import size
from lego_mlir.expr.verdict import Proved, Refuted, Unknown, Verdict
from lego_mlir.layout.base import all_of
from lego_mlir.layout.canonical import Size

ENUMERATED = 2**20
"""Elements of an axis up to which a split without a proof is enumerated."""


@dataclass(frozen=True, slots=True)
class Split:
    """The division of an axis among `ranks`. Sizes, indices and ranks are ints, arrays or symbols throughout."""

    ranks: Size

    def split(self, i: IndexLike, n: IndexLike) -> tuple[IndexLike, IndexLike]:
        """The rank and the local index of element i of n."""
        raise NotImplementedError  # every subclass defines it

    def join(self, rank: IndexLike, local: IndexLike, n: IndexLike) -> IndexLike:
        """The element at a local index of a rank; inverse to `split`."""
        raise NotImplementedError  # every subclass defines it

    def size(self, rank: IndexLike, n: IndexLike) -> IndexLike:
        """The number of elements on a rank."""
        raise NotImplementedError  # every subclass defines it

    def most(self, n: Size) -> Size:
        """A number of elements that no rank exceeds, reached by one."""
        raise NotImplementedError  # every subclass defines it

    def check(self, n: Size | None) -> Verdict:
        """Whether the split of n elements is a bijection onto its sum of boxes; None for all n at once."""
        verdict = _proved_for_all(self)
        if isinstance(verdict, Proved) or not isinstance(n, int) or not isinstance(self.ranks, int):
            return verdict
        return _enumerated(self, n) if n <= ENUMERATED else verdict


@dataclass(frozen=True, slots=True)
class Chunks(Split):
    """Blocks of ceil(n / ranks) elements; the last ranks may have fewer, or none (`torch.chunk`, DTensor's Shard)."""

    def _block(self, n: IndexLike) -> IndexLike:
        return maximum(cdiv(n, self.ranks), 1)

    def split(self, i: IndexLike, n: IndexLike) -> tuple[IndexLike, IndexLike]:
        return i // self._block(n), i % self._block(n)

    def join(self, rank: IndexLike, local: IndexLike, n: IndexLike) -> IndexLike:
        return rank * self._block(n) + local

    def size(self, rank: IndexLike, n: IndexLike) -> IndexLike:
        block = self._block(n)
        return minimum(maximum(n - rank * block, 0), block)

    def most(self, n: Size) -> Size:
        return cdiv(n, self.ranks)


@dataclass(frozen=True, slots=True)
class Balanced(Split):
    """Blocks whose sizes differ by at most 1, the larger ones first (`numpy.array_split`)."""

    def split(self, i: IndexLike, n: IndexLike) -> tuple[IndexLike, IndexLike]:
        low, more = n // self.ranks, n % self.ranks
        first, rest = i < more * (low + 1), maximum(i - more * (low + 1), 0)
        block = maximum(low, 1)
        return where(first, i // (low + 1), more + rest // block), where(first, i % (low + 1), rest % block)

    def join(self, rank: IndexLike, local: IndexLike, n: IndexLike) -> IndexLike:
        return rank * (n // self.ranks) + minimum(rank, n % self.ranks) + local

    def size(self, rank: IndexLike, n: IndexLike) -> IndexLike:
        return n // self.ranks + where(rank < n % self.ranks, 1, 0)

    def most(self, n: Size) -> Size:
        return cdiv(n, self.ranks)


@dataclass(frozen=True, slots=True)
class Cyclic(Split):
    """Blocks of `block` elements dealt to the ranks in turn, the first to `source` (ScaLAPACK, CYCLIC(b) of HPF)."""

    block: Size
    source: int = 0

    def split(self, i: IndexLike, n: IndexLike) -> tuple[IndexLike, IndexLike]:
        j = i // self.block
        rank = j % self.ranks if not self.source else (j + self.source) % self.ranks
        return rank, j // self.ranks * self.block + i % self.block

    def _distance(self, rank: IndexLike) -> IndexLike:
        return rank if not self.source else (rank + self.ranks - self.source) % self.ranks

    def join(self, rank: IndexLike, local: IndexLike, n: IndexLike) -> IndexLike:
        return (local // self.block * self.ranks + self._distance(rank)) * self.block + local % self.block

    def size(self, rank: IndexLike, n: IndexLike) -> IndexLike:
        # NUMROC: whole rounds of blocks, one more block for the first ranks, the rest for the next one.
        blocks, distance = n // self.block, self._distance(rank)
        more = blocks % self.ranks
        rest = where(distance < more, self.block, where(distance < more + 1, n % self.block, 0))
        return blocks // self.ranks * self.block + rest

    def most(self, n: Size) -> Size:
        return self.size(self.source, n)


@dataclass(frozen=True, slots=True)
class StridedChunks(Split):
    """`pieces` chunks, each divided into chunks of which rank r holds the r-th (DTensor's `_StridedShard`).

    >>> tuple(StridedChunks(2, 2).split(i, 8)[0] for i in range(8))
    (0, 0, 1, 1, 0, 0, 1, 1)
    """

    pieces: int

    def _piece(self, n: IndexLike) -> tuple[IndexLike, IndexLike]:
        """The elements of a whole piece, and the number of whole pieces; the rest is one piece more."""
        block = maximum(cdiv(n, self.pieces), 1)
        return block, n // block

    def split(self, i: IndexLike, n: IndexLike) -> tuple[IndexLike, IndexLike]:
        block, whole = self._piece(n)
        chunks, piece = Chunks(self.ranks), i // block
        rank, local = chunks.split(i % block, where(piece < whole, block, n % block))
        return rank, piece * chunks.size(rank, block) + local

    def join(self, rank: IndexLike, local: IndexLike, n: IndexLike) -> IndexLike:
        block, whole = self._piece(n)
        chunks = Chunks(self.ranks)
        each = chunks.size(rank, block)
        piece = where(local < whole * each, local // maximum(each, 1), whole)
        within = where(local < whole * each, block, n % block)
        return piece * block + chunks.join(rank, local - piece * each, within)

    def size(self, rank: IndexLike, n: IndexLike) -> IndexLike:
        block, whole = self._piece(n)
        return whole * Chunks(self.ranks).size(rank, block) + Chunks(self.ranks).size(rank, n % block)

    def most(self, n: Size) -> Size:
        return self.size(0, n)


@dataclass(frozen=True, slots=True)
class Listed(Split):
    """Blocks of given sizes, which add up to n; a rank may have none."""

    sizes: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.ranks != len(self.sizes) or any(type(s) is not int or s < 0 for s in self.sizes):
            raise LayoutError(f"Listed: one size >= 0 for each of {self.ranks} ranks is needed, got {list(self.sizes)}")

    def _starts(self) -> list[int]:
        return [0, *accumulate(self.sizes)]

    def split(self, i: IndexLike, n: IndexLike) -> tuple[IndexLike, IndexLike]:
        starts, rank, first = self._starts(), 0, 0
        for r, start in enumerate(starts[1:-1], 1):
            past = i >= start
            rank, first = where(past, r, rank), where(past, start, first)
        return rank, i - first

    def join(self, rank: IndexLike, local: IndexLike, n: IndexLike) -> IndexLike:
        return _listed(self._starts()[:-1], rank) + local

    def size(self, rank: IndexLike, n: IndexLike) -> IndexLike:
        return _listed(self.sizes, rank)

    def most(self, n: Size) -> Size:
        return max(self.sizes)

    def check(self, n: Size | None) -> Verdict:
        if n is None:
            return Unknown(f"{self} divides {sum(self.sizes)} elements only, not what another split leaves")
        if n != sum(self.sizes):
            return Refuted(
                {"n": n}, f"the sizes {list(self.sizes)} add up to {sum(self.sizes)}, and the axis has {n!r}"
            )
        return _enumerated(self, sum(self.sizes))


def _listed(values: Sequence[int], rank: IndexLike) -> IndexLike:
    """The value of a rank, by selects: the ranks of a mesh are few."""
    found: IndexLike = values[0]
    for r, value in enumerate(values[1:], 1):
        found = where(rank >= r, value, found)
    return found


@cache
def _proved_for_all(split: Split) -> Verdict:
    """Both directions for every n: elements to places inside, and back; places to elements inside, and back."""
    from lego_mlir.expr.nodes import Eq, Le, Lt
    from lego_mlir.expr.prove import prove

    n, i, r, o = size("axis_elements", min=0), *(index_symbol(name) for name in ("i[]", "r[]", "l[]"))
    rank, local = split.split(i, n)
    back = split.join(r, o, n)
    elements: dict[Expr, Range] = {i.expr: Range(0, as_expr(n))}
    places: dict[Expr, Range] = {r.expr: Range(0, as_expr(split.ranks)), o.expr: Range(0, as_expr(split.size(r, n)))}
    forth, again = split.join(rank, local, n), split.split(back, n)
    claims = [
        *((claim, elements) for claim in (Lt(as_expr(rank), as_expr(split.ranks)), Eq(as_expr(forth), i.expr))),
        (Lt(as_expr(local), as_expr(split.size(rank, n))), elements),
        (Le(0, as_expr(back)), places),
        (Lt(as_expr(back), as_expr(n)), places),
        *((Eq(as_expr(a), b.expr), places) for a, b in zip(again, (r, o), strict=True)),
    ]
    verdicts: list[Verdict] = []
    for claim, ranges in claims:
        verdict = prove(claim, ranges)
        if not isinstance(verdict, Proved):
            return Unknown(f"{split}: not proved for all sizes: {claim}")
        verdicts.append(verdict)
    return all_of(verdicts)


def _enumerated(split: Split, n: int) -> Verdict:
    """The bijection for one n, element by element."""
    import numpy as np

    assert isinstance(split.ranks, int)
    sizes = [int(split.size(r, n)) for r in range(split.ranks)]
    i = np.arange(n)
    rank, local = (np.broadcast_to(x, i.shape) for x in split.split(i, n))
    if n and (rank.min() < 0 or rank.max() >= split.ranks):
        return Refuted(
            {"i": int(np.argmax(rank >= split.ranks))}, f"{split}: element on a rank outside 0..{split.ranks - 1}"
        )
    wrong = (local < 0) | (local >= np.asarray(sizes)[rank]) | (np.asarray(split.join(rank, local, n)) != i)
    if wrong.any() or sum(sizes) != n:
        k = int(np.argmax(wrong))
        return Refuted({"i": k}, f"{split}: element {k} of {n} is not where `join` finds it; sizes {sizes}")
    return Proved(f"enumeration of {n} elements")


def local_shape(splits: Sequence[tuple[Split, IndexLike]], n: IndexLike) -> IndexLike:
    """What is left of an axis of n elements on given ranks of successive splits."""
    for split, rank in splits:
        n = split.size(rank, n)
    return n
