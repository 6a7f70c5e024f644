"""ScaLAPACK's array descriptors as distributions: block-cyclic rows and columns over a grid of processes.

A descriptor is `(dtype, context, M, N, MB, NB, RSRC, CSRC, LLD)`; process (p, q) holds its blocks as a column-major
array with leading dimension LLD (ScaLAPACK Users' Guide, section 4.3).

>>> D = from_scalapack((1, 0, 9, 4, 2, 2, 0, 0, 5), (2, 2))
>>> D.place(8, 1), D.local_shape(row=0, column=1)
({'row': 0, 'column': 0, 'offset': 9}, (5, 2))
>>> to_scalapack(D)
((1, 0, 9, 4, 2, 2, 0, 0, 5), (2, 2))
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lego_mlir.distributions.base import Distribution
from lego_mlir.distributions.sharded import Sharded
from lego_mlir.distributions.splits import Cyclic
from lego_mlir.errors import LayoutError

BLOCK_CYCLIC: Final = 1
"""The descriptor type of dense matrices, `BLOCK_CYCLIC_2D`."""
Descriptor = tuple[int, ...]


def from_scalapack(descriptor: Sequence[int], grid: tuple[int, int]) -> Sharded:
    """The distribution of a descriptor over a grid of (process rows, process columns).

    Raises LayoutError for another descriptor, or an LLD smaller than the local rows of a process.
    """
    if len(descriptor) != 9 or descriptor[0] != BLOCK_CYCLIC:
        raise LayoutError(
            f"from_scalapack: a descriptor of 9 numbers and type {BLOCK_CYCLIC} is needed, got {descriptor}"
        )
    _, _, m, n, mb, nb, first_row, first_column, lld = descriptor
    rows, columns = Cyclic(grid[0], mb, first_row), Cyclic(grid[1], nb, first_column)
    most = rows.most(m)
    if lld < max(1, most):
        raise LayoutError(f"from_scalapack: LLD = {lld} is less than {most}, the rows of process row {first_row}")
    mesh = {"row": grid[0], "column": grid[1]}
    return Sharded([m, n], mesh, [[("row", rows)], [("column", columns)]], order="F", pitch=lld)


def to_scalapack(distribution: Distribution, context: int = 0) -> tuple[Descriptor, tuple[int, int]]:
    """The descriptor and the grid. Raises LayoutError for a distribution that is not block-cyclic over a grid."""
    if isinstance(distribution, Sharded) and distribution.order == "F" and len(distribution.splits) == 2:
        match distribution.splits:
            case (((row, Cyclic() as rows),), ((column, Cyclic() as columns),)) if list(distribution.mesh) == [
                row,
                column,
            ]:
                m, n = distribution.shape
                lld = rows.most(m) if distribution.pitch is None else distribution.pitch
                numbers = (m, n, rows.block, columns.block, rows.source, columns.source, lld)
                if all(isinstance(value, int) for value in numbers):
                    found = (BLOCK_CYCLIC, context, *map(int, numbers))
                    if distribution.pitch is None and not from_scalapack(found, _grid(distribution)).equivalent(
                        distribution
                    ):
                        raise LayoutError("to_scalapack: process rows hold different numbers of rows; give a pitch")
                    return found, _grid(distribution)
    raise LayoutError(
        "to_scalapack: a Sharded matrix in order 'F' is needed, each axis dealt by Cyclic to one axis of the mesh, "
        f"got {distribution!r}"
    )


def _grid(distribution: Sharded) -> tuple[int, int]:
    rows, columns = distribution.mesh.values()
    return int(rows), int(columns)
