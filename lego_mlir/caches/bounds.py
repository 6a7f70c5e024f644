"""Upper bounds on the lines that an order of execution fetches, and the cache that each bound needs.

The orders and equations are those of N. Prasetya, "Improving Cache Performance in Structured GPGPU Workloads via
Specialized Thread Schedules" (2022): a stencil reads a window of S_w x S_h elements for each of I_w x I_h tasks, a
matrix product C = A B has I_w x I_h results of depth D. One thread runs the tasks in order; the cache is fully
associative and evicts the least recently used line. Lengths are in elements, caches and fetches in lines of L elements.

A contiguous segment of n elements at any alignment touches at most floor((n - 2) / L) + 2 lines. The thesis counts
ceil(n / L), which holds only for aligned segments; most of its bounds fail without this correction, and several lack
the condition on the cache. The functions below are the corrected bounds; each names its equation. They hold for all
base addresses. `aligned` restricts a stencil's bound to pitches that are multiples of L, which saves one line of the
cache. docs/reference/cache-bounds.md has the proofs.

>>> bound = stencil_rows(4096, 4096, Stencil(9, 9), line=32)
>>> bound.cache_lines, bound.fetches
(1171, 533520)
>>> narrow = stencil_columns(4096, 4096, 32, Stencil(9, 9), line=32)
>>> narrow.cache_lines, narrow.fetches
(28, 1575936)
>>> aligned = stencil_columns(4096, 4096, 32, Stencil(9, 9), line=32, aligned=True)
>>> aligned.cache_lines, aligned.fetches, aligned.holds(pitch=4100)
(27, 1575936, False)
"""

from __future__ import annotations

from dataclasses import dataclass

from lego_mlir.errors import UsageError


@dataclass(frozen=True, slots=True)
class Stencil:
    """The window of a task: `width` x `height` elements around it."""

    width: int
    height: int

    def __post_init__(self) -> None:
        _require_positive("Stencil", width=self.width, height=self.height)


@dataclass(frozen=True, slots=True)
class FetchBound:
    """A cache of at least `cache_lines` lines fetches at most `fetches` lines. `equation` is the thesis's number.

    The bound holds for arrays whose row pitch is a multiple of `pitch_multiple` elements, at any base address.
    """

    cache_lines: int
    fetches: int
    equation: str
    pitch_multiple: int = 1

    def holds(self, pitch: int) -> bool:
        """Whether the bound applies to arrays with rows `pitch` elements apart."""
        return pitch % self.pitch_multiple == 0


def most_lines(elements: int, line: int) -> int:
    """The most lines of `line` elements that a contiguous segment touches, over all alignments.

    >>> [most_lines(n, 4) for n in (1, 2, 5, 6)]
    [1, 2, 2, 3]
    """
    _require_positive("most_lines", elements=elements, line=line)
    return 1 if elements == 1 else (elements - 2) // line + 2


def _parts(extent: int, part: int) -> tuple[int, ...]:
    """The widths of columns or tiles: `part`, and a narrower last one."""
    return (*(part for _ in range(extent // part)), *((extent % part,) if extent % part else ()))


def stencil_rows(width: int, height: int, stencil: Stencil, line: int, *, aligned: bool = False) -> FetchBound:
    """Rows in order, S_h rows of the input in the cache: each input row is fetched once (3.2, corrected)."""
    _require_positive("stencil_rows", width=width, height=height)
    lines = most_lines(width + stencil.width - 1, line)
    return _rows_kept(width, lines * (height + stencil.height - 1), stencil, line, aligned, "3.2")


def _rows_kept(part: int, fetches: int, stencil: Stencil, line: int, aligned: bool, equation: str) -> FetchBound:
    """A bound for columns or tiles of at most `part` tasks a row whose S_h input rows stay in the cache.

    Until the second use of a line, the cache takes S_h - 1 whole rows, the end of the row above them and the beginning
    of the row below. End and beginning have the length of one row; where the two rows are aligned differently, they
    touch one line more.
    """
    lines = most_lines(part + stencil.width - 1, line) * stencil.height
    return FetchBound(lines, fetches, equation, line) if aligned else FetchBound(lines + 1, fetches, equation)


def stencil_worst(width: int, height: int, stencil: Stencil, line: int) -> FetchBound:
    """Rows in order, only the window of a task in the cache: each input row is fetched S_h times (3.2, otherwise)."""
    _require_positive("stencil_worst", width=width, height=height)
    lines = most_lines(width + stencil.width - 1, line)
    return FetchBound(most_lines(stencil.width, line) * stencil.height, lines * stencil.height * height, "3.2")


def stencil_tiles(
    width: int, height: int, tile: int, stencil: Stencil, line: int, *, aligned: bool = False
) -> FetchBound:
    """Square tiles, ragged at the ends; rows in order inside a tile (3.3, 3.5, corrected)."""
    _require_positive("stencil_tiles", width=width, height=height, tile=tile)
    across = sum(most_lines(part + stencil.width - 1, line) for part in _parts(width, tile))
    down = sum(part + stencil.height - 1 for part in _parts(height, tile))
    return _rows_kept(min(tile, width), across * down, stencil, line, aligned, "3.5")


def stencil_columns(
    width: int, height: int, column: int, stencil: Stencil, line: int, *, aligned: bool = False
) -> FetchBound:
    """Columns with a narrower last one, rows in order inside a column (4.8, corrected)."""
    _require_positive("stencil_columns", width=width, height=height, column=column)
    across = sum(most_lines(part + stencil.width - 1, line) for part in _parts(width, column))
    fetches = across * (height + stencil.height - 1)
    return _rows_kept(min(column, width), fetches, stencil, line, aligned, "4.8")


def widest_tile(cache_lines: int, stencil: Stencil, line: int, *, aligned: bool = False) -> int:
    """The widest column or tile whose S_h rows fit into the cache, 0 if none does (3.4, corrected).

    >>> widest_tile(24, Stencil(7, 7), 4), stencil_columns(16, 16, 3, Stencil(7, 7), 4).cache_lines
    (3, 22)
    >>> stencil_columns(16, 16, 4, Stencil(7, 7), 4).cache_lines
    29
    >>> [widest_tile(28, Stencil(7, 7), 4, aligned=aligned) for aligned in (False, True)]
    [3, 7]
    """
    _require_positive("widest_tile", cache_lines=cache_lines, line=line)
    lines = (cache_lines if aligned else cache_lines - 1) // stencil.height
    run = (lines - 1) * line + 1 if lines >= 2 else lines  # the longest segment that never touches more lines
    return max(run - stencil.width + 1, 0)


def product_rows(width: int, height: int, depth: int, line: int) -> FetchBound:
    """Rows in order, a row of A and a column of B in the cache; a line of B serves L results (3.6, 3.7, corrected)."""
    _require_positive("product_rows", width=width, height=height, depth=depth)
    a = most_lines(depth, line)
    return FetchBound(a + depth, a * height + depth * most_lines(width, line) * height, "3.7")


def product_worst(width: int, height: int, depth: int, line: int) -> FetchBound:
    """Rows in order, one line of A and one of B in the cache: no line of B is used twice (3.8, as an upper bound)."""
    _require_positive("product_worst", width=width, height=height, depth=depth)
    return FetchBound(2, (most_lines(depth, line) + depth) * width * height, "3.8")


def product_whole(width: int, height: int, depth: int, line: int) -> FetchBound:
    """Rows in order, all of B and two rows of A in the cache: each line is fetched once per row of A (3.9, 3.10)."""
    return product_columns(width, height, depth, width, line, equation="3.10")


def product_columns(
    width: int, height: int, depth: int, column: int, line: int, *, equation: str = "4.4"
) -> FetchBound:
    """Columns of results: the columns of B in the cache with two rows of A (section 4.4, corrected)."""
    _require_positive("product_columns", width=width, height=height, depth=depth, column=column)
    parts, a = _parts(width, column), most_lines(depth, line)
    b = sum(most_lines(part, line) for part in parts)
    widest = most_lines(min(column, width), line)
    return FetchBound(2 * a + depth * widest, len(parts) * a * height + depth * b, equation)


def advised_stencil_column(cache_bytes: int, element_bytes: int, stencil: Stencil, threads: int) -> int:
    """The column width of section 4.3 in elements: c = (M - u (S_h S_w + t)) / (S_h u), at least 1.

    `threads` is the number of tasks in flight. The formula assumes that neighbouring tasks share a cache; the blocks
    of an SM are not neighbours, and the best widths measured are far below it (32 on two chips).

    >>> advised_stencil_column(64 * 1024, 4, Stencil(9, 9), 1024)
    1697
    """
    _require_positive("advised_stencil_column", cache_bytes=cache_bytes, element_bytes=element_bytes, threads=threads)
    left = cache_bytes - element_bytes * (stencil.height * stencil.width + threads)
    return max(left // (stencil.height * element_bytes), 1)


def advised_product_column(cache_bytes: int, element_bytes: int, depth: int) -> int:
    """The column width of section 4.4 in elements: c = M / (u D), at least 1: c columns of B fill the cache.

    >>> advised_product_column(256 * 1024, 4, 1024)
    64
    """
    _require_positive("advised_product_column", cache_bytes=cache_bytes, element_bytes=element_bytes, depth=depth)
    return max(cache_bytes // (element_bytes * depth), 1)


def _require_positive(what: str, **values: int) -> None:
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise UsageError(f"{what}: {name} must be a positive integer, got {value!r}")
