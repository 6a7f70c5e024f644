"""C = A B with one thread for each element of C: the order of the threads decides what the caches hold.

A warp's threads read the same elements of A, and adjacent ones of B. Along a row of C a block reads all of B before the
next row comes; in columns of `width` it needs only those columns of B, again and again:

    build(M, N, K, f32, order="row")                                       C row by row
    build(M, N, K, f32, order=schedule.columns(M, N, width=32))            columns of 32
    build(M, N, K, f32, order=schedule.tiles(M, N, tile=(8, 32)))          blocks of 8 x 32 threads

`lego_mlir.kernels.matmul` is the fast product; this one shows orders of execution, and takes any type.
"""

# mypy: disable-error-code="valid-type"
# (A kernel's annotations are declarations of tensors, evaluated when it is built, and are not types.)

from typing import Final

import lego_mlir as lego
from lego_mlir import Kernel, Row
from lego_mlir.aliases import Array, IndexLike
from lego_mlir.errors import UsageError
from lego_mlir.kernels.visiting import visit
from lego_mlir.layout.base import Layout
from lego_mlir.layout.canonical import SizeLike
from lego_mlir.schedule.named import tile_order
from lego_mlir.tracing.trace.dtypes import DType, f16, f32, f64
from lego_mlir.tracing.words.tensor import View

THREADS: Final = 256
UNROLLED: Final = 8
"""Products of an iteration where K is a multiple of it."""
TOTALS: Final = {f16: f32, f32: f32, f64: f64}
"""The element types, and the type of their sums."""


def build(
    M: SizeLike, N: SizeLike, K: SizeLike, dtype: DType, *, order: str | Layout = "row", threads: SizeLike = THREADS
) -> Kernel:
    """The kernel c = a @ b for row-major matrices of f16, f32 or f64, one thread for each element of c.

    `order` is a name in `schedule.ORDERS` or a layout of the M x N threads; `threads` of a block may be a
    `lego.size`. Raises UsageError for another type or an
    unknown order, LayoutError for a layout of another shape.
    """
    if dtype not in TOTALS:
        raise UsageError(f"dot_products: the elements are f16, f32 or f64, got {dtype}")
    layout = tile_order("dot_products", order, (M, N))
    tasks, total = layout.physical_size(), TOTALS[dtype]
    step = UNROLLED if isinstance(K, int) and K % UNROLLED == 0 else 1

    def element(a: View, b: View, c: View, at: tuple[IndexLike, ...]) -> None:
        dot = lego.register(total, 0.0)
        for first in lego.range(0, K, step):
            for k in lego.unroll(step):
                dot += a[at[0], first + k].to(total) * b[first + k, at[1]].to(total)
        c[at[0], at[1]] = dot.get().to(dtype)

    @lego.kernel(grid=lego.cdiv(tasks, threads), block=threads)
    def dot_products(  # type: ignore[no-untyped-def]
        a: lego.Tensor(dtype, Row(M, K)), b: lego.Tensor(dtype, Row(K, N)), c: lego.Tensor(dtype, Row(M, N))
    ):
        task = lego.block_id.x * threads + lego.thread_id.x
        with lego.when(task < tasks):
            visit(layout, task, lambda at: element(a, b, c, at))

    @dot_products.reference
    def product(a: Array, b: Array) -> Array:
        return (a.astype(total.numpy) @ b.astype(total.numpy)).astype(dtype.numpy)

    return dot_products
