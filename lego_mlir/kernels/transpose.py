"""The transpose of a matrix, five times the same kernel: what differs is the layout of the tile it goes through.

| variant | the tile in shared memory | what happens there |
|---|---|---|
| `naive` | none | one of the two sides of the copy jumps a whole row from thread to thread |
| `shared` | `Row(T, T)` | both sides run along rows, but a column of the tile lies in one bank: 32 waits |
| `padded` | `gallery.padded(T, T)` | a spare element a row moves each row by a bank; costs T elements |
| `swizzled` | `gallery.xor_swizzle(T, T)` | the same for nothing: row i is exclusive-ored with i |
| `vectorised` | `xor_swizzle(T, T, vec=w, per_phase=w)` | w elements, 16 bytes, at once; groups of w stay together |

In the vectorised tile 8 groups of w make a row of 128 bytes. A group of rows that one thread gathers from (w of them)
has one phase, so the 8 threads of a row read from 8 different groups, and a warp from all 32 banks.
"""

# mypy: disable-error-code="valid-type"
# (A kernel's annotations are declarations of tensors, evaluated when it is built, and are not types.)

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import lego_mlir as lego
from lego_mlir import Kernel, Row, gallery
from lego_mlir.errors import UsageError
from lego_mlir.kernel.access import VECTOR_BYTES
from lego_mlir.kernel.dtypes import DType

ROW_BYTES: Final = 128
"""A row of the vectorised tile: 32 banks of 4 bytes (CUDA C++ guide, "Shared Memory")."""


@dataclass(frozen=True, slots=True)
class Variant:
    """`stage(T, w)` is the layout of the T x T tile in shared memory, for w elements at once; None goes without."""

    stage: Callable[[int, int], Any] | None
    vectorised: bool = False


VARIANTS: Final = {
    "naive": Variant(None),
    "shared": Variant(lambda t, w: Row(t, t)),
    "padded": Variant(lambda t, w: gallery.padded(t, t)),
    "swizzled": Variant(lambda t, w: gallery.xor_swizzle(t, t)),
    "vectorised": Variant(lambda t, w: gallery.xor_swizzle(t, t, vec=w, per_phase=w), vectorised=True),
}


def build(variant: str, M: Any, N: Any, dtype: DType) -> Kernel:
    """The kernel that writes the N x M transpose of an M x N matrix; the sizes may be symbolic.

    The vectorised variant takes as many elements at once as both sizes are multiples of, up to 16 bytes.
    Raises UsageError for an unknown variant.
    """
    if variant not in VARIANTS:
        raise UsageError(f"transpose has no variant {variant!r}; there are {', '.join(VARIANTS)}")
    chosen = VARIANTS[variant]
    if not chosen.vectorised:
        return _build(M, N, dtype, chosen, T=32, w=1, rows=8)
    w = VECTOR_BYTES // dtype.bytes
    while w > 1 and not all(_multiple_of(size, w) for size in (M, N)):
        w //= 2
    return _build(M, N, dtype, chosen, T=ROW_BYTES // dtype.bytes, w=w, rows=32 * w * dtype.bytes // VECTOR_BYTES)


def _build(M: Any, N: Any, dtype: DType, variant: Variant, T: int, w: int, rows: int) -> Kernel:
    """Tiles of T x T, each by T/w x rows threads that take w elements of a row at once."""
    m, n = lego.cdiv(M, T), lego.cdiv(N, T)

    @lego.kernel(grid=(n, m), block=(T // w, rows))
    def transpose(src: lego.Tensor(dtype, Row(M, N)), dst: lego.Tensor(dtype, Row(N, M))):  # type: ignore[no-untyped-def]
        bx, by, tx, ty = *lego.block_id[:2], *lego.thread_id[:2]
        a, b = src.tile_by([m, n], [T, T]), dst.tile_by([n, m], [T, T])
        if variant.stage is None:
            for r in lego.unroll(0, T, rows):
                b[bx, by, tx, ty + r] = a[by, bx, ty + r, tx]
            return
        tile = lego.shared(dtype, variant.stage(T, w))
        for r in lego.unroll(0, T, rows):
            tile.store(a.load(by, bx, ty + r, tx * w, width=w), ty + r, tx * w)
        lego.barrier()
        for r in lego.unroll(0, T, rows):
            column = [tile[tx * w + k, ty + r] for k in range(w)]
            b.store(column[0] if w == 1 else lego.vector(*column), bx, by, ty + r, tx * w)

    @transpose.reference
    def transposed(src: Any) -> Any:
        return src.T

    return transpose


def _multiple_of(size: Any, width: int) -> bool:
    """Whether a size is a multiple of the width; a symbolic one by what is declared of it."""
    if isinstance(size, int):
        return size % width == 0
    return bool(size.expr.multiple_of % width == 0)
