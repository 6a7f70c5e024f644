"""What a launch may be at most, the same on every GPU that is compiled for, in one place and with one message.

>>> refusal("grid", (1, 70000))
'grid y = 70000: a launch takes at most 65535 blocks along y, and 2147483647 along x; put the long axis there, or let \
each block do several in a loop'
>>> refusal("block", (32, 64, 1))
'block (32, 64, 1) has 2048 threads: a block has at most 1024 threads; give each of them more to do, and launch more \
blocks'
>>> refusal("grid", (70000, 1, 65535))
''
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any, Final

# CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"; x, y, z.
THREADS_PER_BLOCK: Final = 1024
STATIC_SHARED_BYTES: Final = 48 * 1024  # what a block may declare; more is dynamic, and a transform script's work
LARGEST_SHARED_BYTES: Final = 227 * 1024  # of a block of the largest target, sm_90; dynamic
LARGEST_BLOCK: Final = (1024, 1024, 64)
LARGEST_GRID: Final = (2**31 - 1, 65535, 65535)


def refusal(what: str, extents: Sequence[int]) -> str:
    """Why no GPU launches a `"grid"` or `"block"` of these sizes, and what to do; nothing where it may."""
    if what == "block" and prod(extents) > THREADS_PER_BLOCK:
        return (
            f"block {tuple(extents)} has {prod(extents)} threads: a block has at most {THREADS_PER_BLOCK} threads; "
            "give each of them more to do, and launch more blocks"
        )
    largest, of = (LARGEST_GRID, "blocks") if what == "grid" else (LARGEST_BLOCK, "threads")
    for axis, n, limit in zip("xyz", extents, largest, strict=False):
        if n < 1:
            return f"{what} {axis} = {n}: a launch takes at least 1; where there is nothing to do, launch nothing"
        if n > limit:
            elsewhere = "" if axis == "x" else f", and {largest[0]} along x; put the long axis there"
            instead = f"let each {of[:-1]} do several in a loop"
            return f"{what} {axis} = {n}: a launch takes at most {limit} {of} along {axis}" + (
                f"{elsewhere}, or {instead}" if elsewhere else f"; {instead}"
            )
    return ""


def greatest(size: Any, grid: Sequence[Any], block: Sequence[Any]) -> int | None:
    """The largest value of a size: what it was declared with, or less where a launch's extent follows from it alone.

    Extents of the form `a * ((size + b) // c) + d` are seen through; of others the launch itself must tell.

    >>> from lego_mlir.expr.index import as_expr, cdiv, size
    >>> n = size("n")
    >>> [greatest(as_expr(n), grid, (64,)) for grid in ((1, cdiv(n, 32)), (n, 4), (1,), (1, n * n))]
    [2097120, 2147483647, None, None]
    """
    found = [size.max] if size.max is not None else []
    found += _solutions(size, grid, LARGEST_GRID)
    found += _solutions(size, block, LARGEST_BLOCK)
    return min(found, default=None)


def _solutions(size: Any, extents: Sequence[Any], largest: Sequence[int]) -> Iterable[int]:
    from lego_mlir.expr.index import as_expr
    from lego_mlir.expr.nodes import FloorDiv

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
