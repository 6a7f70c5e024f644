"""The layouts of `stencil.cu.jinja`: row-major, or bricks, small cubes that lie in memory in one piece.

A stencil reads neighbours in three directions. Row-major, the ones above lie n*n elements away, each in a cache line
and a page of its own; in bricks of 8 x 8 x 8 floats most of them lie within the same 2 KiB.

>>> [bricks(16).apply(z, y, x) for z, y, x in ((0, 0, 1), (0, 1, 0), (1, 0, 0), (0, 0, 8))]
[1, 8, 64, 512]
>>> {name: len(points) for name, points in STENCILS.items()}
{'7-point': 7, '13-point': 13, '27-point': 27}
"""

from __future__ import annotations

from itertools import product
from typing import Final

from lego_mlir.errors import TemplateError
from lego_mlir.layout import GenP, Layout, RegP, Row, TileOrderBy, as_layout
from lego_mlir.templates.template import Template

Point = tuple[int, int, int, float]


def star(radius: int) -> tuple[Point, ...]:
    """The centre and the neighbours along each axis up to a distance."""
    ends = [d for d in range(-radius, radius + 1) if d]
    arms = [tuple(d if axis == along else 0 for axis in range(3)) for along in range(3) for d in ends]
    return ((0, 0, 0, 0.5), *((dz, dy, dx, 0.5 / (len(arms) * max(map(abs, (dz, dy, dx))))) for dz, dy, dx in arms))


def box(radius: int) -> tuple[Point, ...]:
    """The whole cube around a point."""
    return tuple(
        (dz, dy, dx, 1 / (2 + abs(dz) + abs(dy) + abs(dx)))
        for dz, dy, dx in product(range(-radius, radius + 1), repeat=3)
    )


STENCILS: Final[dict[str, tuple[Point, ...]]] = {"7-point": star(1), "13-point": star(2), "27-point": box(1)}


def bricks(n: int, side: int = 8, order: RegP | GenP | None = None) -> Layout:
    """An n x n x n cube in bricks of side^3 elements, the bricks row-major or in another order."""
    if n % side:
        raise TemplateError(f"bricks: {n=} must be a multiple of {side=}")
    return TileOrderBy(order or Row(*[n // side] * 3), Row(side, side, side)).GroupBy([n, n, n])


def row_major(n: int) -> Layout:
    """The plain layout."""
    return as_layout(Row(n, n, n))


def stencil(n: int, name: str, layout: Layout, *, block: tuple[int, int, int] = (8, 8, 8)) -> Template:
    """One of STENCILS over an n^3 cube: kernel `stencil(in, out)`, one thread an element, `block` threads (z, y, x).

    The outermost elements, as many as the stencil reaches, are left as they are. Both arrays have this layout.
    """
    if name not in STENCILS:
        raise TemplateError(f"stencil: one of {', '.join(STENCILS)} is needed, got {name!r}")
    points = STENCILS[name]
    return Template.shipped(
        "stencil.cu.jinja",
        A=layout,
        B=layout,
        n=n,
        radius=max(abs(d) for p in points for d in p[:3]),
        points=[(*p[:3], repr(p[3])) for p in points],
        block=list(block),
        signed=lambda d: f" {'+' if d > 0 else '-'} {abs(d)}" if d else "",
    )
