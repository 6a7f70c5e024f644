"""The exclusive-or swizzle of shared memory: each row permuted so that a column spans different banks.

The scheme of Triton's shared encoding (vec, perPhase, maxPhase): groups of `vec` consecutive elements remain
contiguous, and the group's number within its row is exclusive-ored with the row's phase, so the permutation is its own
inverse. Every element remains in its row, and no space is wasted.

>>> [[xor_swizzle(4, 4).apply(i, j) % 4 for j in range(4)] for i in range(4)]
[[0, 1, 2, 3], [1, 0, 3, 2], [2, 3, 0, 1], [3, 2, 1, 0]]
"""

from __future__ import annotations

from lego_mlir.aliases import IndexLike
from lego_mlir.errors import LayoutError
from lego_mlir.layout.canonical import SizeLike, as_count, as_sizes
from lego_mlir.layout.permutations import GenP


def xor_swizzle(rows: SizeLike, columns: int, vec: int = 1, per_phase: int = 1, max_phase: int | None = None) -> GenP:
    """A rows x columns tile with each row's groups of `vec` elements exclusive-ored with the row's phase.

    Row r has phase `(r // per_phase) % max_phase`. Without `max_phase` it is the largest power of two that divides the
    number of groups in a row. Raises LayoutError if a group would move to another row.
    """
    (rows,) = as_sizes("xor_swizzle", [rows])
    columns, vec = as_count("xor_swizzle", columns=columns), as_count("xor_swizzle", vec=vec)
    per_phase = as_count("xor_swizzle", per_phase=per_phase)
    if columns % vec:
        raise LayoutError(f"xor_swizzle: {vec=} must divide {columns=}")
    groups = columns // vec
    phases = groups & -groups if max_phase is None else as_count("xor_swizzle", max_phase=max_phase)
    if phases & (phases - 1) or groups % phases:
        raise LayoutError(
            f"xor_swizzle: {max_phase=} must be a power of two that divides the {groups} groups of {vec} in a row of "
            f"{columns}; {groups & -groups} is the largest"
        )
    bounded = isinstance(rows, int) and rows <= phases * per_phase

    def column(i: IndexLike, j: IndexLike) -> IndexLike:
        row_phase = i // per_phase if bounded else i // per_phase % phases
        # vec divides every exclusive-ored term, so the order within a group is unchanged: if vec is a power of
        # two, (j // vec ^ phase) * vec + j % vec is one exclusive or.
        return j ^ row_phase * vec if vec & (vec - 1) == 0 else (j // vec ^ row_phase) * vec + j % vec

    def f(i: IndexLike, j: IndexLike) -> IndexLike:
        return i * columns + column(i, j)

    def f_inv(p: IndexLike) -> tuple[IndexLike, IndexLike]:
        i, j = p // columns, p % columns
        return i, column(i, j)

    given = [rows, columns, *(f"{k}={v}" for k, v, d in (("vec", vec, 1), ("per_phase", per_phase, 1)) if v != d)]
    if max_phase is not None:
        given.append(f"max_phase={max_phase}")
    text = f"gallery.xor_swizzle({', '.join(map(str, given))})"
    return GenP([rows, columns], f, f_inv, text=text, made=(xor_swizzle, (rows, columns, vec, per_phase, max_phase)))
