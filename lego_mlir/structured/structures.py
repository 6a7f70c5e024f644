"""Matrix structures: where a matrix is zero or one, and where each element is read from.

A structure consists of two dictionaries (section 3 of the LGen paper). `SInfo` maps each tag to its region: `G`
general, `Z` zero, `I` equal to one. `AInfo` lists regions with the gather that gives the element read there:

>>> s = symmetric(3, "L")
>>> print(s.read_from(0, 2))    # above the diagonal, the element below is read
(2, 0)
>>> s.kinds.tolist(), lower(3).kinds.tolist()
([[1, 1, 1], [1, 1, 1], [1, 1, 1]], [[1, 0, 0], [1, 1, 0], [1, 1, 1]])

A user-defined structure needs only these; the generator derives everything else from them:

>>> arrow = Structure("Arrow", 4, 4,
...     (("G", "{ [i, j] : 0 <= i, j < 4 and (i = j or i = 3 or j = 3) }"),
...      ("Z", "{ [i, j] : 0 <= i, j < 3 and i != j }")),
...     (Access("{ [i, j] : 0 <= i, j < 4 and (i = j or i = 3 or j = 3) }"),))
>>> int(arrow.kinds.sum())
10
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from lego_mlir.errors import LegoError
from lego_mlir.structured import sets
from lego_mlir.structured.sets import Region

if TYPE_CHECKING:
    from numpy.typing import NDArray

ZERO, STORED, ONE = 0, 1, 2
_KIND_OF_TAG: Final = {"Z": ZERO, "I": ONE}
MOST_ELEMENTS: Final = 2**24
"""Elements of an operand; the kind of each is listed while a program is read."""
SAME: Final = "{ [i, j] -> [i, j] }"
SWAPPED: Final = "{ [i, j] -> [j, i] }"


class StructureError(LegoError, ValueError):
    """Inconsistent dictionaries, or sizes that a structure cannot have."""


@dataclass(frozen=True, slots=True)
class Access:
    """In `region`, element (i, j) is read at `gather(i, j)`; a block read there is permuted: `id` or `T`."""

    region: str
    gather: str = SAME


@dataclass(frozen=True)
class Structure:
    """Name, sizes, SInfo and AInfo of a matrix. `symmetric` is derived, not declared."""

    name: str
    rows: int
    columns: int
    sinfo: tuple[tuple[str, str], ...]
    ainfo: tuple[Access, ...]

    def __post_init__(self) -> None:
        if self.rows < 1 or self.columns < 1:
            raise StructureError(f"{self.name}: sizes must be at least 1, got {self.rows} x {self.columns}")
        if self.rows * self.columns > MOST_ELEMENTS:
            raise StructureError(
                f"{self.name}: {self.rows} x {self.columns} elements; an operand has at most {MOST_ELEMENTS}: split it "
                "into blocks"
            )

    def __str__(self) -> str:
        return self.name

    def __getstate__(self) -> dict[str, object]:
        """Only the fields: cached properties hold isl sets, which cannot be pickled."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @cached_property
    def regions(self) -> dict[str, Region]:
        """SInfo as sets."""
        return {tag: Region(text) for tag, text in self.sinfo}

    @cached_property
    def accesses(self) -> tuple[tuple[Region, Access], ...]:
        """AInfo as sets."""
        return tuple((Region(access.region), access) for access in self.ainfo)

    @cached_property
    def nonzero(self) -> Region:
        """Where the matrix is not zero by structure."""
        parts = [region for tag, region in self.regions.items() if _KIND_OF_TAG.get(tag) != ZERO]
        if not parts:
            return Region("{ [i, j] : false }")
        whole = parts[0]
        for part in parts[1:]:
            whole = whole | part
        return whole

    @cached_property
    def kinds(self) -> NDArray[np.int8]:
        """ZERO, STORED or ONE for each element. Raises StructureError where SInfo overlaps or has gaps."""
        kinds = np.full((self.rows, self.columns), -1, np.int8)
        for tag, region in self.regions.items():
            mask = region.mask(self.rows, self.columns)
            if (kinds[mask] >= 0).any():
                i, j = np.argwhere(mask & (kinds >= 0))[0]
                raise StructureError(f"{self.name}: SInfo gives element ({i}, {j}) two tags; make its regions disjoint")
            kinds[mask] = _KIND_OF_TAG.get(tag, STORED)
        if (kinds < 0).any():
            i, j = np.argwhere(kinds < 0)[0]
            raise StructureError(
                f"{self.name}: SInfo gives element ({i}, {j}) of {self.rows} x {self.columns} no tag; add it to Z or G"
            )
        return kinds

    @cached_property
    def sources(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Row and column that each stored element is read from, -1 elsewhere. Raises StructureError on a gap."""
        found = np.full((2, self.rows, self.columns), -1, np.int64)
        for region, access in self.accesses:
            mask = region.mask(self.rows, self.columns) & (self.kinds == STORED)
            for axis, values in enumerate(sets.gather_arrays(access.gather, self.rows, self.columns)):
                found[axis][mask] = values[mask]
        gaps = (self.kinds == STORED) & (found[0] < 0)
        if gaps.any():
            i, j = np.argwhere(gaps)[0]
            raise StructureError(f"{self.name}: AInfo has no access for element ({i}, {j}); add its region")
        return found[0], found[1]

    @cached_property
    def stored(self) -> NDArray[np.bool_]:
        """True for the array elements that some access touches; the others may hold anything."""
        touched = np.zeros((self.rows, self.columns), bool)
        rows, columns = self.sources
        there = self.kinds == STORED
        touched[rows[there], columns[there]] = True
        return touched

    def read_from(self, i: int, j: int) -> tuple[int, int]:
        """The element that is read for (i, j)."""
        rows, columns = self.sources
        return int(rows[i, j]), int(columns[i, j])

    @cached_property
    def symmetric(self) -> bool:
        """Whether the matrix equals its transpose for any array contents."""
        if self.rows != self.columns or not np.array_equal(self.kinds, self.kinds.T):
            return False
        return all(np.array_equal(axis, axis.T) for axis in self.sources) or self.nonzero <= Region(
            "{ [i, j] : i = j }"
        )


def _box(rows: int, columns: int, condition: str = "") -> str:
    extra = f" and {condition}" if condition else ""
    return f"{{ [i, j] : 0 <= i < {rows} and 0 <= j < {columns}{extra} }}"


def _where(name: str, rows: int, columns: int, general: str, zero: str, one: str = "") -> Structure:
    sinfo = [("G", general), ("Z", zero), ("I", one)]
    present = tuple((tag, _box(rows, columns, condition)) for tag, condition in sinfo if condition)
    return Structure(name, rows, columns, present, (Access(_box(rows, columns, general)),) if general else ())


def general(rows: int, columns: int) -> Structure:
    """Every element stored."""
    box = _box(rows, columns)
    return Structure(f"Matrix({rows}, {columns})", rows, columns, (("G", box),), (Access(box),))


def zero(rows: int, columns: int) -> Structure:
    """Every element zero, none stored."""
    return Structure(f"Zero({rows}, {columns})", rows, columns, (("Z", _box(rows, columns)),), ())


def lower(n: int) -> Structure:
    """Lower triangular."""
    return _where(f"LowerTriangular({n})", n, n, "j <= i", "j > i")


def upper(n: int) -> Structure:
    """Upper triangular."""
    return _where(f"UpperTriangular({n})", n, n, "j >= i", "j < i")


def unit_lower(n: int) -> Structure:
    """Lower triangular with ones, not stored, on the diagonal."""
    return _where(f"UnitLower({n})", n, n, "j < i", "j > i", "j = i")


def unit_upper(n: int) -> Structure:
    """Upper triangular with ones, not stored, on the diagonal."""
    return _where(f"UnitUpper({n})", n, n, "j > i", "j < i", "j = i")


def diagonal(n: int) -> Structure:
    """Zero off the diagonal."""
    return _where(f"Diagonal({n})", n, n, "j = i", "j != i")


def identity(n: int) -> Structure:
    """The identity: nothing stored."""
    return _where(f"Identity({n})", n, n, "", "j != i", "j = i")


def banded(rows: int, columns: int, below: int, above: int) -> Structure:
    """Zero beyond `below` diagonals under and `above` diagonals over the main one."""
    if below < 0 or above < 0:
        raise StructureError(f"Banded: the numbers of diagonals must not be negative, got {below} and {above}")
    inside = f"-{below} <= j - i <= {above}"
    name = f"Banded({rows}, {columns}, {below}, {above})"
    return _where(name, rows, columns, inside, f"(j - i < -{below} or j - i > {above})")


def symmetric(n: int, half: str) -> Structure:
    """Symmetric with its lower (`L`) or upper (`U`) half stored."""
    return _mirrored(f"Symmetric({half}, {n})", n, half, "")


def symmetric_banded(n: int, width: int, half: str) -> Structure:
    """Symmetric and zero beyond `width` diagonals on each side; one half stored."""
    if width < 0:
        raise StructureError(f"SymmetricBanded: the number of diagonals must not be negative, got {width}")
    return _mirrored(f"SymmetricBanded({half}, {n}, {width})", n, half, f"-{width} <= j - i <= {width}")


def _mirrored(name: str, n: int, half: str, band: str) -> Structure:
    if half not in ("L", "U"):
        raise StructureError(f"{name}: the stored half must be L or U, got {half!r}")
    held, mirrored = ("j <= i", "j > i") if half == "L" else ("j >= i", "j < i")
    also = f" and {band}" if band else ""
    sinfo: tuple[tuple[str, str], ...] = (("G", _box(n, n, band)),)
    if band:
        sinfo += (("Z", str(Region(_box(n, n)) - Region(_box(n, n, band)))),)
    accesses = (Access(_box(n, n, held + also)), Access(_box(n, n, mirrored + also), SWAPPED))
    return Structure(name, n, n, sinfo, accesses)


def blocked(blocks: Sequence[Sequence[Structure]]) -> Structure:
    """A matrix of blocks, each with its structure, at any nesting depth: their dictionaries, shifted and merged.

    Raises StructureError unless all blocks of a row have its height and all blocks of a column its width.
    """
    heights = [row[0].rows for row in blocks]
    widths = [block.columns for block in blocks[0]]
    sinfo: dict[str, Region] = {}
    ainfo: list[Access] = []
    for r, row in enumerate(blocks):
        for c, block in enumerate(row):
            if len(row) != len(widths) or (block.rows, block.columns) != (heights[r], widths[c]):
                raise StructureError(
                    f"Blocked: block ({r}, {c}) is {block.rows} x {block.columns}, its row is {heights[r]} high and "
                    f"its column {widths[c] if c < len(widths) else 'missing'} wide; give every row the same widths"
                )
            top, left = sum(heights[:r]), sum(widths[:c])
            shift = f"{{ [i, j] -> [i + {top}, j + {left}] }}"
            back = f"{{ [i, j] -> [i - {top}, j - {left}] }}"
            for tag, region in block.regions.items():
                moved = region.along(shift)
                sinfo[tag] = sinfo[tag] | moved if tag in sinfo else moved
            for region, access in block.accesses:
                gather = sets.compose(sets.compose(back, access.gather), shift)
                ainfo.append(Access(str(region.along(shift)), gather))
    name = f"Blocked({', '.join('[' + ', '.join(block.name for block in row) + ']' for row in blocks)})"
    tags = tuple((tag, str(region)) for tag, region in sinfo.items())
    return Structure(name, sum(heights), sum(widths), tags, tuple(ainfo))


def part(function: str, structure: Structure) -> Structure:
    """The triangle of a square matrix taken by tril, triu, unit_tril or unit_triu, or the symmetric matrix with its
    lower half; each element is read in place, or mirrored.

    >>> part("unit_triu", general(2, 2)).kinds.tolist(), part("symmetric", upper(2)).kinds.tolist()
    ([[2, 1], [0, 2]], [[1, 0], [0, 1]])
    """
    n = structure.rows
    unit = function.startswith("unit_")
    triangle = "j >= i" if function.endswith("triu") else "j <= i"
    triangle = triangle.replace("=", "") if unit else triangle
    own = Region(_box(n, n, triangle))
    tags: dict[str, Region] = {}
    if unit:
        tags["I"] = Region(_box(n, n, "j = i"))
    for tag, region in structure.regions.items():
        inside = region & own
        if function == "symmetric":
            inside = inside | inside.along("{ [i, j] -> [j, i] }")
        if _KIND_OF_TAG.get(tag) != ZERO and not inside.empty:
            tags[tag] = tags[tag] | inside if tag in tags else inside
    stored = [region for tag, region in tags.items() if tag not in _KIND_OF_TAG]
    outside = Region(_box(n, n))
    for region in tags.values():
        outside = outside - region
    if not outside.empty:
        tags["Z"] = outside
    ainfo = [Access(str(region & own)) for region in stored]
    if function == "symmetric":
        above = [region & Region(_box(n, n, "j > i")) for region in stored]
        ainfo += [Access(str(region), SWAPPED) for region in above if not region.empty]
    sinfo = tuple((tag, str(region)) for tag, region in tags.items())
    return Structure(f"{function}({structure.name})", n, n, sinfo, tuple(ainfo))


def from_region(name: str, rows: int, columns: int, region: Region, mirrored: bool) -> Structure:
    """The structure of a computed matrix: general in a region, zero elsewhere, the lower half stored if mirrored."""
    box = Region(_box(rows, columns))
    inside = region & box
    outside = box - inside
    sinfo = tuple((tag, str(part)) for tag, part in (("G", inside), ("Z", outside)) if not part.empty)
    if not mirrored:
        return Structure(name, rows, columns, sinfo, () if inside.empty else (Access(str(inside)),))
    held, other = inside & Region("{ [i, j] : j <= i }"), inside & Region("{ [i, j] : j > i }")
    pieces = ((held, SAME), (other, SWAPPED))
    ainfo = tuple(Access(str(part), gather) for part, gather in pieces if not part.empty)
    return Structure(name, rows, columns, sinfo, ainfo)
