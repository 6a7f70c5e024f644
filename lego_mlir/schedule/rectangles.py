"""Space-filling curves over a rectangle of any size.

`morton` and `hilbert` are computed with bit operations on a box of powers of two; positions outside the rectangle have
no element, and `holds` is false there. `generalised_hilbert` visits exactly the elements of the rectangle, adjacent
ones in succession (J. Cerveny, "Generalized Hilbert space-filling curve for rectangular domains of arbitrary sizes",
2018): a table, for grids of tiles rather than of elements.

>>> [generalised_hilbert(2, 3).inv(i) for i in range(6)]
[(0, 0), (1, 0), (1, 1), (1, 2), (0, 2), (0, 1)]
>>> hilbert(3, 5).physical_size(), morton(3, 5).physical_size()
(64, 32)
"""

from __future__ import annotations

from collections.abc import Iterator

from lego_mlir.errors import LayoutError
from lego_mlir.layout.base import Layout
from lego_mlir.layout.canonical import SizeLike, as_count
from lego_mlir.layout.gallery import curves, tables
from lego_mlir.layout.padded import Padded
from lego_mlir.layout.permutations import GenP

TABLE_ELEMENTS = 2**20
"""The most entries of a generalised Hilbert curve; a larger box takes one as the order of its tiles."""

Step = tuple[int, int]


def morton(m: SizeLike, n: SizeLike) -> Layout:
    """The Z-order of an m-by-n box, padded to powers of two."""
    rows, width = _power("morton", m), _power("morton", n)
    return _cropped(curves.morton(rows, width), m, n)


def hilbert(m: SizeLike, n: SizeLike) -> Layout:
    """The Hilbert curve of an m-by-n box, padded to a square whose side is a power of two."""
    side = max(_power("hilbert", m), _power("hilbert", n))
    return _cropped(curves.hilbert(side), m, n)


def _cropped(curve: GenP, m: SizeLike, n: SizeLike) -> Layout:
    return curve if curve.dims() == (m, n) else Padded(curve, [m, n])


def _power(owner: str, n: SizeLike) -> int:
    """The next power of two."""
    return 1 << (as_count(f"schedule.{owner}", size=n) - 1).bit_length()


def generalised_hilbert(m: int, n: int) -> GenP:
    """A curve through every element of an m-by-n box whose steps are to neighbours, as a table.

    One step is diagonal if the longer side is odd and the shorter one even. Raises LayoutError for more than
    `TABLE_ELEMENTS` elements.
    """
    import numpy as np

    rows, width = (as_count("schedule.generalised_hilbert", size=size) for size in (m, n))
    if rows * width > TABLE_ELEMENTS:
        raise LayoutError(
            f"schedule.generalised_hilbert: {rows} x {width} elements are more than the table's {TABLE_ELEMENTS}; "
            "order tiles with it, schedule.nested(generalised_hilbert(..), Row(..))"
        )
    start = ((0, width), (rows, 0)) if width >= rows else ((rows, 0), (0, width))
    path = np.array(list(_curve((0, 0), *start)))
    positions = np.empty(rows * width, np.int64)
    positions[path[:, 0] * width + path[:, 1]] = np.arange(len(path))
    return tables.table([rows, width], positions, name=f"hilbert_{rows}x{width}")


def _curve(at: Step, a: Step, b: Step) -> Iterator[Step]:
    """The elements of the box with sides `a`, along which the curve runs, and `b`, from its corner `at`."""
    along, across = abs(a[0] + a[1]), abs(b[0] + b[1])
    da, db = _unit(a), _unit(b)
    if along == 1 or across == 1:
        step = da if across == 1 else db
        for k in range(max(along, across)):
            yield at[0] + k * step[0], at[1] + k * step[1]
        return
    half_a, half_b = (a[0] // 2, a[1] // 2), (b[0] // 2, b[1] // 2)
    odd_a, odd_b = abs(half_a[0] + half_a[1]) % 2, abs(half_b[0] + half_b[1]) % 2
    if 2 * along > 3 * across:  # a long box: two halves
        if odd_a and along > 2:
            half_a = _sum(half_a, da)
        yield from _curve(at, half_a, b)
        yield from _curve(_sum(at, half_a), _difference(a, half_a), b)
        return
    if odd_b and across > 2:
        half_b = _sum(half_b, db)
    yield from _curve(at, half_b, half_a)
    yield from _curve(_sum(at, half_b), a, _difference(b, half_b))
    end = _sum(at, _sum(_difference(a, da), _difference(half_b, db)))
    yield from _curve(end, _negative(half_b), _negative(_difference(a, half_a)))


def _unit(v: Step) -> Step:
    return (v[0] > 0) - (v[0] < 0), (v[1] > 0) - (v[1] < 0)


def _sum(v: Step, w: Step) -> Step:
    return v[0] + w[0], v[1] + w[1]


def _difference(v: Step, w: Step) -> Step:
    return v[0] - w[0], v[1] - w[1]


def _negative(v: Step) -> Step:
    return -v[0], -v[1]
