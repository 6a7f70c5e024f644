"""A structure at tile granularity: which tiles are general, triangular, symmetric or zero, and where each is read from.

The tiled dictionaries are derived from the element dictionaries, so user-defined structures can be tiled too.
Tags: G, Z, L, U, D (diagonal), S (symmetric, one half stored), I (identity), B (anything else):

>>> from lego_mlir.structured.structures import symmetric
>>> tiled = tile(symmetric(4, "L"), 2)
>>> {tag: region.points() for tag, region in tiled.regions.items()}
{'S': [(0, 0), (2, 2)], 'G': [(0, 2), (2, 0)]}
>>> [(region.points(), access.gather, access.permutation) for region, access in tiled.accesses]
[([(0, 0), (2, 0), (2, 2)], '{ [i, j] -> [i, j] }', 'id'), ([(0, 2)], '{ [i, j] -> [j, i] }', 'T')]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lego_mlir.structured import structures
from lego_mlir.structured.sets import of_points
from lego_mlir.structured.structures import ONE, STORED, Access, Structure

if TYPE_CHECKING:
    from numpy.typing import NDArray


def tile(structure: Structure, size: int) -> Structure:
    """The structure of `size` x `size` tiles; boundary tiles may be smaller."""
    tags: dict[str, list[tuple[int, int]]] = {}
    reads: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for i in range(0, structure.rows, size):
        for j in range(0, structure.columns, size):
            where = (slice(i, min(i + size, structure.rows)), slice(j, min(j + size, structure.columns)))
            kinds = structure.kinds[where]
            access = _access(structure, where)
            tags.setdefault(_tag(kinds, access is None), []).append((i, j))
            if (kinds == STORED).any():
                reads.setdefault(access or (structures.SAME, "id"), []).append((i, j))
    sinfo = tuple((tag, str(of_points(points, "ij"))) for tag, points in tags.items())
    ainfo = tuple(Access(str(of_points(points, "ij")), *read) for read, points in reads.items())
    return Structure(f"[{structure.name}]{size}", structure.rows, structure.columns, sinfo, ainfo, size)


def _access(structure: Structure, where: tuple[slice, slice]) -> tuple[str, str] | None:
    """The single gather and permutation that read all stored elements of a tile; None if there is none."""
    stored = structure.kinds[where] == STORED
    rows, columns = (axis[where][stored] for axis in structure.sources)
    i, j = (axis[stored] for axis in np.mgrid[where])
    for first, second, gather, permutation in ((i, j, "[i{}, j{}]", "id"), (j, i, "[j{}, i{}]", "T")):
        down, across = set((rows - first).tolist()), set((columns - second).tolist())
        if len(down) <= 1 and len(across) <= 1:
            shifts = (f" + {d}" if d else "" for d in (next(iter(down), 0), next(iter(across), 0)))
            return f"{{ [i, j] -> {gather.format(*shifts)} }}", permutation
    return None


def _tag(kinds: NDArray[np.int8], mixed: bool) -> str:
    nonzero = kinds != structures.ZERO
    rows, columns = kinds.shape
    if not nonzero.any():
        return "Z"
    if nonzero.all() and not (kinds == ONE).any():
        return "S" if mixed else "G"
    if rows == columns:
        if np.array_equal(nonzero, np.eye(rows, dtype=bool)):
            return "I" if (kinds[nonzero] == ONE).all() else "D"
        if np.array_equal(nonzero, np.tri(rows, dtype=bool)):
            return "L"
        if np.array_equal(nonzero, np.tri(rows, dtype=bool).T):
            return "U"
    return "B"
