"""An order of execution as a sequence of cuts: each divides an axis into pieces, which are visited in order.

Column-based iteration is one cut: the columns, then row by row inside each. The positions of a 3 x 5 box in columns of
two; the last column is narrower, and no element is left out or visited twice:

    cut axis 2 by 2      0 1 | 6 7 | 12
                         2 3 | 8 9 | 13
                         4 5 |10 11| 14

>>> columns = Cuts([3, 5], [(2, 2)])
>>> [[columns.apply(y, x) for x in range(5)] for y in range(3)]
[[0, 1, 6, 7, 12], [2, 3, 8, 9, 13], [4, 5, 10, 11, 14]]

More cuts make tiles, tiles of tiles, and columns of tiles; after the last one the box is visited row by row. A cut
marked "odd" or "even" visits its pieces from the last to the first within the odd or the even pieces of the cut before:
a zigzag.

Why it is a bijection, for any sizes. Cut an axis of n into pieces of s, and let a slice of the axis have A elements.
Piece c has k = min(s, n - cs) slices, thus k A elements, which get the positions from c s A on. Those intervals are
disjoint and cover 0 .. n A - 1, and since k <= s, a position's piece is its quotient by s A. Visited backwards, piece c
is preceded by the n - cs - k slices after it, and the same holds for n A - 1 - position. Each cut leaves a smaller box,
whose elements are numbered from 0, and the last box has one element. `check` proves the four claims of the second and
third sentence for each cut, with n and A arbitrary.

>>> from lego_mlir.expr.sizes import size
>>> Cuts([size("H"), size("W")], [(2, size("w"))]).check()
Proved(by='each cut partitions an interval, whatever its size (intervals, cases, arithmetic)')
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Final, Literal, TypeAlias, cast

from lego_mlir.aliases import IndexLike
from lego_mlir.errors import LayoutError
from lego_mlir.expr.index import Index, as_condition, index_symbol, is_symbolic, minimum, where
from lego_mlir.expr.ranges import Range
from lego_mlir.expr.sizes import size
from lego_mlir.expr.verdict import Proved, Unknown, Verdict
from lego_mlir.layout.base import all_of
from lego_mlir.layout.canonical import Size, SizeLike, as_sizes
from lego_mlir.layout.permutations import Constructor, GenP
from lego_mlir.layout.values import show
from lego_mlir.schedule.extents import Extent, is_single, piece, quotient, remainder, times, value

Backwards = Literal["odd", "even"]
Cut: TypeAlias = tuple[int, Size] | tuple[int, Size, Backwards]
"""An axis, 1-based, and the size of its pieces; the pieces of the cut before in which it is visited backwards."""
CutLike: TypeAlias = Sequence[Any]
STARTS: Final = {"odd": 1, "even": 0}


class Cuts(GenP):
    """The elements of a box in the order of its pieces, cut by cut. Raises LayoutError for an invalid cut."""

    __slots__ = ("cuts",)
    cuts: tuple[Cut, ...]

    def __init__(
        self,
        dims: Sequence[SizeLike],
        cuts: Sequence[CutLike],
        *,
        text: str | None = None,
        made: Constructor | None = None,
    ) -> None:
        sizes = as_sizes("schedule", dims)
        steps = tuple(_as_cut(sizes, cut) for cut in cuts)
        if steps and len(steps[0]) == 3:
            raise LayoutError(f"schedule: the first cut {steps[0]} has no cut before it to alternate with")
        self._set(cuts=steps)
        super().__init__(
            sizes,
            lambda *index: _position(sizes, steps, index),
            lambda p: _index(sizes, steps, p),
            text=text or f"schedule.Cuts({show(sizes)}, {show(list(steps))})",
            identity=("cuts", tuple(map(str, steps))),
            made=made or (Cuts, (sizes, steps)),
        )

    def check(self) -> Verdict:
        """Proved for all sizes, by one proof for each cut; Unknown without a prover."""
        if self._verdict is None:
            verdict = all_of([_partitions(cut[1]) for cut in self.cuts])
            if isinstance(verdict, Proved):
                verdict = Proved(f"each cut partitions an interval, whatever its size ({verdict.by})")
            self._set(_verdict=verdict)
        return cast(Verdict, self._verdict)


def _as_cut(sizes: tuple[Size, ...], cut: CutLike) -> Cut:
    if not isinstance(cut, (tuple, list)) or len(cut) not in (2, 3):
        raise LayoutError(
            f'schedule: a cut is (axis, size), with "odd" or "even" to alternate, such as (2, 32, "odd"); got {cut!r}'
        )
    axis = cut[0]
    if isinstance(axis, bool) or not isinstance(axis, int) or not 1 <= axis <= len(sizes):
        raise LayoutError(f"schedule: {cut!r} cuts axis {axis!r}; {show(sizes)} has the axes 1 .. {len(sizes)}")
    if len(cut) == 3 and cut[2] not in STARTS:
        raise LayoutError(f'schedule: a cut alternates on "odd" or "even" pieces of the cut before it, got {cut[2]!r}')
    (pieces,) = as_sizes("schedule", [cut[1]])
    return cast(Cut, (axis, pieces, *cut[2:]))


@lru_cache(maxsize=256)
def _partitions(s: Size) -> Verdict:
    """Whether pieces of s partition an axis of any size n, whose slices have any number A of elements.

    The quotient x // s is the piece of x, k its extent, and r a position inside it.
    """
    from lego_mlir.expr.prove import prove

    n, slices = size("n_"), size("A_")
    x, r = index_symbol("x"), index_symbol("r")
    c = x // s
    k = minimum(n - c * s, s)
    whole, inside = {x.expr: Range(0, Index(n).expr)}, {r.expr: Range(0, Index(k * slices).expr)}
    claims = [
        (c * s <= x, {}),
        (x < c * s + k, {}),
        (c * s * slices + r < n * slices, inside),
        (r < s * slices, inside),
        ((c * (s * slices) + r) // (s * slices) == c, {r.expr: Range(0, Index(s * slices).expr)}),
    ]
    verdicts = [prove(as_condition(claim), {**whole, **ranges}) for claim, ranges in claims]
    found = all_of(verdicts)
    if isinstance(found, Proved):
        return Proved(", ".join(found.by.split("; ")))
    return found if isinstance(s, Index) else Unknown(f"the prover did not decide pieces of {s}: {found}")


def _steps(sizes: Sequence[Size], cuts: Sequence[Cut]) -> Iterator[tuple[int, Size, str | None]]:
    """The cuts as (0-based axis, size, alternation), with those of the last box, row by row."""
    for cut in cuts:
        yield cut[0] - 1, cut[1], cut[2] if len(cut) == 3 else None
    yield from ((axis, 1, None) for axis in range(len(sizes)))


def _backwards(previous: IndexLike, mark: str | None) -> Any:
    """The condition under which the pieces are visited backwards; None if they never are."""
    return None if mark is None else previous % 2 == STARTS[mark]


def _position(sizes: Sequence[Size], cuts: Sequence[Cut], index: Sequence[IndexLike]) -> IndexLike:
    """Index -> position: each cut adds the elements of the pieces before."""
    at, extents = list(index), list[Extent](sizes)
    position: IndexLike = 0
    c: IndexLike = 0
    for axis, s, mark in _steps(sizes, cuts):
        n = extents[axis]
        if is_single(n, s):
            c = 0
            continue
        backwards = _backwards(c, mark)
        c = at[axis] // s
        at[axis] = at[axis] - c * s
        start = c * s
        if backwards is not None:
            start = where(backwards, value(n) - minimum(start + s, value(n)), start)
        position = position + start * value(_slice(extents, axis))
        extents[axis] = piece(n, s, c)
    return position


def _index(sizes: Sequence[Size], cuts: Sequence[Cut], position: IndexLike) -> tuple[IndexLike, ...]:
    """Position -> index: each cut divides by the elements of a piece."""
    at, extents = list[IndexLike]([0] * len(sizes)), list[Extent](sizes)
    left, c = position, cast(IndexLike, 0)
    for axis, s, mark in _steps(sizes, cuts):
        n = extents[axis]
        if is_single(n, s):
            c = 0
            continue
        backwards, in_slice = _backwards(c, mark), _slice(extents, axis)
        c, left = _divided(left, n, s, in_slice, backwards)
        at[axis] = at[axis] + c * s
        extents[axis] = piece(n, s, c)
    return tuple(_like(i, position) for i in at)


def _divided(left: IndexLike, n: Extent, s: Size, in_slice: Extent, backwards: Any) -> tuple[IndexLike, IndexLike]:
    """The piece of a position and the position inside it."""
    elements = times(in_slice, s)
    if backwards is None or (isinstance(s, int) and s == 1):
        c, inside = quotient(left, elements), remainder(left, elements)
        return (c if backwards is None else where(backwards, value(n) - 1 - c, c)), inside
    from_end = value(n) * value(in_slice) - 1 - left
    c = quotient(where(backwards, from_end, left), elements)
    start = where(backwards, value(n) - minimum(c * s + s, value(n)), c * s)
    return c, left - start * value(in_slice)


def _slice(extents: Sequence[Extent], axis: int) -> Extent:
    """The number of elements of one slice of an axis."""
    product: Extent = 1
    for other, extent in enumerate(extents):
        if other != axis:
            product = times(product, extent)
    return product


def _like(i: IndexLike, position: IndexLike) -> IndexLike:
    """A coordinate with the shape of the position: an axis of one element has the constant 0."""
    return i if is_symbolic(position) or not hasattr(position, "shape") else i + 0 * position
