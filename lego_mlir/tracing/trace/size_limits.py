"""Upper bounds of sizes, from their declarations and from the limits of a launch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lego_mlir.aliases import Symbol
from lego_mlir.expr.index import as_expr
from lego_mlir.expr.nodes import FloorDiv
from lego_mlir.hardware.limits import LARGEST_BLOCK, LARGEST_GRID
from lego_mlir.layout.canonical import SizeLike


def greatest(size: Symbol, grid: Sequence[SizeLike], block: Sequence[SizeLike]) -> int | None:
    """The largest value of a size: its declared maximum, or less where an extent of the launch depends on it alone.

    Extents of the form `a * ((size + b) // c) + d` are inverted; other extents are checked only at launch.

    >>> from lego_mlir.expr.index import as_expr, cdiv
    >>> from lego_mlir.expr.sizes import size
    >>> n = size("n")
    >>> [greatest(as_expr(n), grid, (64,)) for grid in ((1, cdiv(n, 32)), (n, 4), (1,), (1, n * n))]
    [2097120, 2147483647, None, None]
    """
    found = [size.max] if size.max is not None else []
    found += _solutions(size, grid, LARGEST_GRID)
    found += _solutions(size, block, LARGEST_BLOCK)
    return min(found, default=None)


def _solutions(size: Symbol, extents: Sequence[SizeLike], largest: Sequence[int]) -> Iterable[int]:
    for extent, limit in zip(extents, largest, strict=False):
        expr = as_expr(extent)
        if expr.free_symbols != {size}:
            continue
        atoms = expr.atoms(FloorDiv) or {size}
        atom = max(atoms, key=lambda a: a.count_ops())
        inner, divisor = atom.args if isinstance(atom, FloorDiv) else (size, as_expr(1))
        outer, shift = expr.as_coefficients_dict().get(atom, 0), inner - size
        rest = expr - outer * atom
        if rest.is_Integer and shift.is_Integer and divisor.is_Integer and outer > 0 and divisor > 0:
            yield int((limit - rest) // outer * divisor + divisor - 1 - shift)
