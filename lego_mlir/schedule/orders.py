"""Orders of execution of a box: columns, zigzag, groups, tiles. Each is a layout whose `inv` maps a task to its index.

A task is a thread, a block, a tile, an iteration of a loop. Tasks that run at the same time, or soon after each other,
should use the same data. Row by row, the next row of a wide image comes when the previous one has left the cache;
`columns` of `width` come back to the next row sooner. The last column is as wide as what remains, so no task is idle
(N. Prasetya, "Improving Cache Performance in Structured GPGPU Workloads via Specialized Thread Schedules", 2022,
section 4.1; its equation 4.3 is mended here: the index within a column is i mod (height * width), not (height * w')).

>>> [columns(2, 3, width=2).inv(i) for i in range(6)]
[(0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (1, 2)]
>>> [grouped(3, 2, rows=2).inv(i) for i in range(6)]
[(0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (2, 1)]
>>> [columns(3, 2, width=2, zigzag=True).inv(i) for i in range(6)]
[(0, 1), (0, 0), (1, 0), (1, 1), (2, 1), (2, 0)]
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from lego_mlir.aliases import IndexLike
from lego_mlir.errors import LayoutError
from lego_mlir.expr.verdict import Verdict
from lego_mlir.layout.base import Layout, all_of
from lego_mlir.layout.canonical import Size, SizeLike, as_sizes, flatten, product, unflatten
from lego_mlir.layout.chain import OrderBy
from lego_mlir.layout.gallery.plain import reverse
from lego_mlir.layout.padded import Padded
from lego_mlir.layout.permutations import Constructor, GenP
from lego_mlir.layout.values import show
from lego_mlir.schedule.cuts import Cut, Cuts

FOLDED = 2
"""Axes of a column: more are folded into its height."""


def columns(*sizes: SizeLike, width: SizeLike, zigzag: bool = False, up_down: bool = False) -> GenP:
    """Columns of `width` along the last axis, one after the other, each row by row; the last may be narrower.

    With more than two sizes all axes but the last are the rows of a column (section 4.1.2). With `zigzag` the even
    rows of a column are visited from right to left (equation 4.7, mended to w' - 1 - x), so that successive tasks of a
    column are neighbours; with `up_down` the odd columns are visited from the bottom row to the top one.
    Raises LayoutError for fewer than two sizes, or a width below 1.
    """
    dims = as_sizes("schedule.columns", sizes)
    if len(dims) < FOLDED:
        raise LayoutError(f"schedule.columns takes two or more sizes, the last one along a row; got {show(dims)}")
    (wide,) = _counts("columns", width=width)
    return _columns(dims, wide, zigzag, up_down)


def _columns(dims: tuple[Size, ...], width: Size, zigzag: bool, up_down: bool) -> GenP:
    """`columns`, with the arguments of `subs` and pickles."""
    box = (product(dims[:-1]), dims[-1])
    cuts: list[Cut] = [(2, width)]
    if up_down or zigzag:
        cuts.append((1, 1, "odd") if up_down else (1, 1))
    if zigzag:
        cuts.append((2, 1, "even"))
    marks = "".join(f", {name}=True" for name, on in (("zigzag", zigzag), ("up_down", up_down)) if on)
    text = f"schedule.columns({_listed(dims)}, width={width}{marks})"
    made: Constructor = (_columns, (dims, width, zigzag, up_down))
    if not marks and isinstance(width, int):
        made = (partial(columns, width=width), dims)  # the form that the notation of layouts in MLIR names
    return Cuts(box, cuts, text=text, made=made) if len(dims) == FOLDED else Folded(box, dims, cuts, text, made)


class Folded(GenP):
    """An order of a two-dimensional box whose rows are the elements of more axes, in row-major order."""

    __slots__ = ("order",)
    order: Cuts

    def __init__(
        self, box: Sequence[SizeLike], dims: tuple[Size, ...], cuts: Sequence[Cut], text: str, made: Constructor
    ) -> None:
        order = Cuts(box, cuts)
        self._set(order=order)

        def position(*index: IndexLike) -> IndexLike:
            return order._apply((flatten(index[:-1], dims[:-1]), index[-1]))

        def element(p: IndexLike) -> tuple[IndexLike, ...]:
            row, x = order._inv(p)
            return *unflatten(row, dims[:-1]), x

        super().__init__(dims, position, element, text=text, made=made)

    def check(self) -> Verdict:
        return self.order.check()


def grouped(m: SizeLike, n: SizeLike, *, rows: SizeLike, columns: SizeLike = 1, snake: bool = False) -> GenP:
    """Groups of `rows` rows, each column by column; the last group may have fewer (GROUP_M of Triton's matmul).

    With `columns`, as many columns of a group at once, row by row: tasks that follow each other then have a row in
    common, where they otherwise have a column. With `snake` the odd groups are visited from the last column to the
    first: a group begins with the columns that the previous one ended with.

    >>> list(map(grouped(4, 2, rows=2, snake=True).inv, range(8)))
    [(0, 0), (1, 0), (0, 1), (1, 1), (2, 1), (3, 1), (2, 0), (3, 0)]
    >>> list(map(grouped(2, 4, rows=2, columns=2).inv, range(8)))
    [(0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (0, 3), (1, 2), (1, 3)]
    """
    (dims, (group,), (wide,)) = (
        as_sizes("schedule.grouped", (m, n)), _counts("grouped", rows=rows), _counts("grouped", columns=columns),
    )  # fmt: skip
    return _grouped(dims, group, snake, wide)


def _grouped(dims: tuple[Size, ...], rows: Size, snake: bool = False, columns: Size = 1) -> GenP:
    several = f", columns={columns}" if columns != 1 else ""
    text = f"schedule.grouped({_listed(dims)}, rows={rows}{several}{', snake=True' if snake else ''})"
    plain = isinstance(rows, int) and not (snake or several)
    made: Constructor = (partial(grouped, rows=rows), dims) if plain else (_grouped, (dims, rows, snake, columns))
    return Cuts(dims, [(1, rows), (2, columns, "odd") if snake else (2, columns)], text=text, made=made)


def by_length(rows: SizeLike, parts: SizeLike, *, together: SizeLike) -> Layout:
    """Parts of rows, of which each takes longer than the part before it in its row, next to parts of like length.

    Sections of `together` rows are visited part by part: the last section from the longest parts to the shortest, the
    one before it in the other direction, and so on. So lengths have no jump, and the shortest parts come at the end.
    Blocks that take parts in turns of alternating direction (`kernels.visiting.in_turns`) get like shares where a
    section is several turns.

    >>> list(map(by_length(3, 2, together=2).inv, range(6)))
    [(2, 0), (2, 1), (1, 1), (0, 1), (1, 0), (0, 0)]
    """
    order = grouped(rows, parts, rows=together, snake=True)
    return OrderBy(reverse(product(order.dims()))).OrderBy(order).GroupBy(order.dims())


def tiles(*sizes: SizeLike, tile: Sequence[SizeLike], inner: Sequence[SizeLike] | None = None) -> GenP:
    """Tiles in row-major order, each row by row; those at the end of an axis may be smaller.

    `inner` divides each tile again, for example a block's tile into those of its warps. Raises LayoutError unless a
    tile has a size for each axis.
    """
    dims = as_sizes("schedule.tiles", sizes)
    levels = [as_sizes("schedule.tiles", level) for level in (tile, inner) if level is not None]
    for level in levels:
        if len(level) != len(dims):
            raise LayoutError(f"schedule.tiles: the tile {show(level)} needs a size for each of the axes {show(dims)}")
    return _tiles(dims, tuple(levels))


def _tiles(dims: tuple[Size, ...], levels: tuple[tuple[Size, ...], ...]) -> GenP:
    cuts = [(axis + 1, size) for level in levels for axis, size in enumerate(level)]
    options = "".join(f", {name}={show(level)}" for name, level in zip(("tile", "inner"), levels, strict=False))
    return Cuts(dims, cuts, text=f"schedule.tiles({_listed(dims)}{options})", made=(_tiles, (dims, levels)))


def nested(*levels: Layout, of: Sequence[SizeLike] | None = None) -> Layout:
    """Orders inside each other, outermost first: of blocks, of the warps in a block, of the threads in a warp.

    Each level is a layout with as many axes; the sizes multiply. `of` are the sizes of the box if they are smaller: the
    positions without an element are skipped by `holds`. Raises LayoutError for levels of different ranks.

    >>> from lego_mlir import Row, gallery
    >>> order = nested(columns(2, 4, width=2), Row(1, 2), gallery.morton(4))
    >>> order.dims(), order.inv(33)
    ((8, 32), (0, 9))
    """
    if not levels or not all(isinstance(level, GenP) or hasattr(level, "sigma") for level in levels):
        raise LayoutError(
            "schedule.nested takes permutations such as Row(4, 4) or schedule.columns(8, 8, width=2), got "
            f"{show(levels)}"
        )
    if len({len(level.dims()) for level in levels}) > 1:
        raise LayoutError(
            f"schedule.nested: all levels must have the same number of sizes, got "
            f"{', '.join(str(show(level.dims())) for level in levels)}"
        )
    order = Nested(levels)
    return order if of is None or list(of) == list(order.dims()) else Padded(order, of)


class Nested(GenP):
    """Orders inside each other: digits of the position are those of the levels, and so are digits of each index."""

    __slots__ = ("levels",)
    levels: tuple[Layout, ...]

    def __init__(self, levels: Sequence[Layout]) -> None:
        self._set(levels=tuple(levels))
        extents = list(zip(*(level.dims() for level in levels), strict=True))

        def position(*index: IndexLike) -> IndexLike:
            digits = [unflatten(i, along) for i, along in zip(index, extents, strict=True)]
            own = zip(levels, zip(*digits, strict=True), strict=True)
            return flatten([level._apply(digit) for level, digit in own], self._counts())

        def element(p: IndexLike) -> tuple[IndexLike, ...]:
            offsets = unflatten(p, self._counts())
            found = [level._inv(offset) for level, offset in zip(levels, offsets, strict=True)]
            return tuple(
                flatten(digits, along) for digits, along in zip(zip(*found, strict=True), extents, strict=True)
            )

        text = f"schedule.nested({', '.join(map(repr, levels))})"
        super().__init__(
            [product(along) for along in extents], position, element, text=text, made=(nested, self.levels)
        )

    def _counts(self) -> list[Size]:
        return [level.numel() for level in self.levels]

    def check(self) -> Verdict:
        return all_of([level.check() for level in self.levels])


def _counts(owner: str, **given: SizeLike) -> tuple[Size, ...]:
    """Validate keyword arguments as sizes, naming the argument."""
    ((name, value),) = given.items()
    try:
        return as_sizes("", [value])
    except LayoutError:
        raise LayoutError(f"schedule.{owner}: {name}={value!r} must be an int >= 1 or lego.size(...)") from None


def _listed(dims: Sequence[Size]) -> str:
    return ", ".join(map(str, dims))
