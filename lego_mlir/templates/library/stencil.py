"""Layouts for `stencil.cu.jinja`: row-major, or bricks: small cubes stored contiguously.

A stencil reads neighbours in three directions. In row-major order those in the next plane are n*n elements away, in
different cache lines and pages; in bricks of 8 x 8 x 8 floats most are within the same 2 KiB.

>>> [bricks(16).apply(z, y, x) for z, y, x in ((0, 0, 1), (0, 1, 0), (1, 0, 0), (0, 0, 8))]
[1, 8, 64, 512]
>>> {name: len(points) for name, points in STENCILS.items()}
{'7-point': 7, '13-point': 13, '27-point': 27}
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

from lego_mlir.aliases import IndexLike
from lego_mlir.errors import TemplateError
from lego_mlir.expr.index import as_expr, index_symbol
from lego_mlir.expr.nodes import Eq
from lego_mlir.expr.prove import prove
from lego_mlir.expr.ranges import Range
from lego_mlir.expr.verdict import Proved
from lego_mlir.layout import GenP, Layout, RegP, Row, TileOrderBy, as_layout
from lego_mlir.templates.render.require import (
    require_dims,
    require_one_of,
    require_parts,
    require_positive,
    require_threads,
)
from lego_mlir.templates.render.template import Template

Point = tuple[int, int, int, float]


def star(radius: int) -> tuple[Point, ...]:
    """The centre and its neighbours along each axis, up to distance `radius`."""
    ends = [d for d in range(-radius, radius + 1) if d]
    arms = [tuple(d if axis == along else 0 for axis in range(3)) for along in range(3) for d in ends]
    return ((0, 0, 0, 0.5), *((dz, dy, dx, 0.5 / (len(arms) * max(map(abs, (dz, dy, dx))))) for dz, dy, dx in arms))


def box(radius: int) -> tuple[Point, ...]:
    """The full cube around a point."""
    return tuple(
        (dz, dy, dx, 1 / (2 + abs(dz) + abs(dy) + abs(dx)))
        for dz, dy, dx in product(range(-radius, radius + 1), repeat=3)
    )


STENCILS: Final[dict[str, tuple[Point, ...]]] = {"7-point": star(1), "13-point": star(2), "27-point": box(1)}


def bricks(n: int, side: int = 8, order: RegP | GenP | None = None) -> Layout:
    """An n x n x n cube in bricks of side^3 elements, the bricks in row-major or the given order."""
    require_positive("bricks", n=n, side=side)
    if n % side:
        raise TemplateError(f"bricks: {n=} must be a multiple of {side=}")
    return TileOrderBy(order or Row(*[n // side] * 3), Row(side, side, side)).GroupBy([n, n, n])


def row_major(n: int) -> Layout:
    """The row-major layout of a cube."""
    return as_layout(Row(n, n, n))


def stencil(
    n: int, name: str, layout: Layout, *, block: tuple[int, int, int] = (1, 8, 32), each: tuple[int, int] = (1, 1)
) -> Template:
    """One of STENCILS over an n^3 cube: kernel `stencil(in, out)`, `block` threads (z, y, x).

    `each` is (planes, width): the outputs of a thread; a row of `width` that is contiguous in the layout is accessed
    as one vector. Boundary elements within the stencil's radius are not written. Both arrays have this layout. A block
    computes block[0]*each[0] x block[1] x block[2]*each[1] outputs, which must divide n.
    """
    require_one_of("stencil", "name", name, tuple(STENCILS))
    require_dims("stencil", "layout", layout.dims(), (n, n, n))
    require_parts("stencil", "block", block, ("z", "y", "x"))
    require_parts("stencil", "each", each, ("planes", "width"))
    require_threads("stencil", block)
    planes, width = each
    outputs = (block[0] * planes, block[1], block[2] * width)
    if any(n % side for side in outputs):
        raise TemplateError(f"stencil: {n=} must be a multiple of a block's outputs, {outputs}")
    points, facts = STENCILS[name], CubeFacts.of(layout, n, planes, width)
    return Template.shipped(
        "stencil.cu.jinja",
        A=layout,
        n=n,
        radius=max(abs(d) for p in points for d in p[:3]),
        points=[(*p[:3], repr(p[3])) for p in points],
        block=list(block),
        planes=planes,
        width=width,
        rows=rows_read(points, planes, width),
        vectors=facts.vectors,
        apart=facts.apart,
        inside=facts.inside,
    )


def rows_read(points: Sequence[Point], planes: int, width: int) -> list[tuple[int, int, int, int]]:
    """What a thread reads for all its outputs, relative to its first: plane, row, first and last element.

    >>> rows_read(star(1), 1, 4)
    [(-1, 0, 0, 3), (0, -1, 0, 3), (0, 0, -1, 4), (0, 1, 0, 3), (1, 0, 0, 3)]
    """
    reach: dict[tuple[int, int], list[int]] = {}
    for (dz, dy, dx, _), plane in product(points, range(planes)):
        reach.setdefault((plane + dz, dy), []).extend((dx, dx + width - 1))
    return [(*row, min(places), max(places)) for row, places in sorted(reach.items())]


VECTORS: Final = (2, 4)  # floats of one vector access


@dataclass(frozen=True, slots=True)
class CubeFacts:
    """What is proved of a cube's layout, for threads that compute `planes` x `width` outputs.

    `vectors`: each group of `width` elements is contiguous and aligned. `apart`: a position is a sum of separate terms
    in z, y and x, so a neighbour's position recomputes only one of them. `inside`: the offsets of a thread's planes
    from its first one, where they are the same for every thread.

    >>> CubeFacts.of(bricks(16), 16, 4, 4)
    CubeFacts(vectors=True, apart=True, inside=(0, 64, 128, 192))
    >>> CubeFacts.of(bricks(12, 6), 12, 4, 4)
    CubeFacts(vectors=False, apart=True, inside=())
    """

    vectors: bool
    apart: bool
    inside: tuple[int, ...]

    @classmethod
    def of(cls, layout: Layout, n: int, planes: int, width: int) -> CubeFacts:
        z, y, x, slab, strip = (index_symbol(name) for name in ("z", "y", "x", "slab", "strip"))
        ranges = {s.expr: Range(0, n) for s in (z, y, x)}
        ranges |= {slab.expr: Range(0, n // planes), strip.expr: Range(0, n // width)}
        at = layout.apply

        def proved(value: IndexLike, expected: IndexLike) -> bool:
            return isinstance(prove(Eq(as_expr(value), as_expr(expected)), ranges), Proved)

        first = at(z, y, strip * width)
        vectors = width in VECTORS and proved(first % width, 0)
        vectors = vectors and all(proved(at(z, y, strip * width + i) - first, i) for i in range(1, width))
        apart = proved(at(z, y, x), at(z, 0, 0) + at(0, y, 0) + at(0, 0, x))
        steps = tuple(int(at(i, 0, 0)) - int(at(0, 0, 0)) for i in range(planes))
        same = apart and all(
            proved(at(slab * planes + i, 0, 0), at(slab * planes, 0, 0) + steps[i]) for i in range(planes)
        )
        return cls(vectors, apart, steps if same else ())
