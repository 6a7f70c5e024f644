"""Storage: the memory positions of the stored elements. A structure selects the elements, a storage places them.

A storage gives the shape of the array that the caller passes and the position of each stored element in it, so one
expression can mix a packed triangle, a LAPACK band and a matrix tiled or Morton-ordered by a LEGO layout:

>>> from lego_mlir.structured.structures import banded, lower
>>> Packed().positions(lower(3)).tolist()    # -1: not stored
[[0, -1, -1], [1, 2, -1], [3, 4, 5]]
>>> Band().shape(banded(4, 4, 1, 1)), Full("F").positions(lower(2)).tolist()
((3, 4), [[0, -1], [1, 3]])
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

import numpy as np

from lego_mlir.errors import LegoError, did_you_mean
from lego_mlir.structured.structures import Structure

if TYPE_CHECKING:
    from numpy.typing import NDArray


class StorageError(LegoError, ValueError):
    """A storage that cannot hold a matrix of this structure."""


class Storage(Protocol):
    """The interface of a storage."""

    def shape(self, structure: Structure) -> tuple[int, ...]:
        """The shape of the C-contiguous array that holds the matrix."""

    def positions(self, structure: Structure) -> NDArray[np.int64]:
        """The flat position of each stored element, -1 elsewhere."""


@dataclass(frozen=True, slots=True)
class Full:
    """All rows x columns elements, `C` row-major or `F` column-major; only the stored ones are accessed."""

    order: str = "C"

    def shape(self, structure: Structure) -> tuple[int, ...]:
        sizes = (structure.rows, structure.columns)
        return sizes if self.order == "C" else sizes[::-1]

    def positions(self, structure: Structure) -> NDArray[np.int64]:
        i, j = np.indices((structure.rows, structure.columns))
        flat = i * structure.columns + j if self.order == "C" else j * structure.rows + i
        return np.where(structure.stored, flat, -1)


@dataclass(frozen=True, slots=True)
class PitchedRows:
    """Row-major with a row stride: the storage of temporaries."""

    stride: int

    def shape(self, structure: Structure) -> tuple[int, ...]:
        return (structure.rows, self.stride)

    def positions(self, structure: Structure) -> NDArray[np.int64]:
        i, j = np.indices((structure.rows, structure.columns))
        return np.where(structure.stored, i * self.stride + j, -1)


@dataclass(frozen=True, slots=True)
class Packed:
    """Only the stored elements, `C` row-major or `F` column-major (LAPACK's packed triangle)."""

    order: str = "C"

    def shape(self, structure: Structure) -> tuple[int, ...]:
        return (max(int(structure.stored.sum()), 1),)

    def positions(self, structure: Structure) -> NDArray[np.int64]:
        held = structure.stored if self.order == "C" else structure.stored.T
        flat = np.where(held, np.cumsum(held).reshape(held.shape) - 1, -1)
        return flat if self.order == "C" else flat.T


@dataclass(frozen=True, slots=True)
class Band:
    """LAPACK's band: element (i, j) at row ku + i - j of column j; `C` as SciPy's `ab`, `F` in Fortran order."""

    order: str = "C"

    @staticmethod
    def _diagonals(structure: Structure) -> tuple[int, int]:
        i, j = np.nonzero(structure.stored)
        if not len(i):
            raise StorageError(f"storage band: {structure} stores no element; use full storage")
        return max(int((i - j).max()), 0), max(int((j - i).max()), 0)

    def shape(self, structure: Structure) -> tuple[int, ...]:
        below, above = self._diagonals(structure)
        sizes = (below + above + 1, structure.columns)
        return sizes if self.order == "C" else sizes[::-1]

    def positions(self, structure: Structure) -> NDArray[np.int64]:
        below, above = self._diagonals(structure)
        i, j = np.indices((structure.rows, structure.columns))
        row = above + i - j
        flat = row * structure.columns + j if self.order == "C" else j * (below + above + 1) + row
        return np.where(structure.stored, flat, -1)


@dataclass(frozen=True, slots=True)
class ByLayout:
    """Positions from a LEGO layout: `apply(i, j)` on index arrays."""

    layout: Any

    def shape(self, structure: Structure) -> tuple[int, ...]:
        size = getattr(self.layout, "physical_size", self.layout.numel)  # a padded layout is larger than its elements
        return (max(int(size()), int(self.positions(structure).max()) + 1),)

    def positions(self, structure: Structure) -> NDArray[np.int64]:
        dims = tuple(self.layout.dims())
        if dims != (structure.rows, structure.columns):
            raise StorageError(
                f"storage: the layout is over {dims}, the matrix {structure} is "
                f"{structure.rows} x {structure.columns}; give a layout of that size"
            )
        i, j = np.indices(dims)
        return np.where(structure.stored, np.asarray(self.layout.apply(i, j), np.int64), -1)


FULL: Final = Full()
NAMED: Final[dict[str, Storage]] = {
    "full": FULL,
    "row_major": FULL,
    "column_major": Full("F"),
    "packed": Packed(),
    "packed_columns": Packed("F"),
    "band": Band(),
    "band_columns": Band("F"),
}


def as_storage(given: object) -> Storage:
    """Coerce a name, a storage or a LEGO layout to a storage. Raises StorageError for anything else."""
    if isinstance(given, str):
        if given not in NAMED:
            meant = did_you_mean(given, NAMED)
            raise StorageError(f"unknown storage {given!r}; available: {', '.join(NAMED)}, or any LEGO layout{meant}")
        return NAMED[given]
    if hasattr(given, "positions") and hasattr(given, "shape"):
        return cast(Storage, given)
    if hasattr(given, "apply") and hasattr(given, "dims"):
        return ByLayout(given)
    raise StorageError(f"a storage is a name ({', '.join(NAMED)}) or a LEGO layout, got {given!r}")
