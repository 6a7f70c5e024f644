"""Copies between matrices whose rows begin anywhere and matrices whose rows are aligned, with zeros after each row.

Tensor copies and wide asynchronous copies need rows that begin at multiples of 16 bytes. A product of odd sizes is
therefore computed on aligned copies of its operands, which take M K + K N elements of traffic next to M N K products:

    pad     A: M x K, rows of K      ->  Q x P, zeros from row M and from column K on
    crop    C: Q x P                 ->  M x N, the first rows and columns

Memory is aligned even where rows are not. A thread loads the two vectors of memory that contain its w elements, and
shifts them into place in log2 w steps, each a selection by one bit of the row's offset q:

    vectors    a b c d | e f g h          w = 4, q = 3: the elements d e f g
    by 2       c d e f g h                q & 2
    by 1       d e f g                    q & 1
"""

# mypy: disable-error-code="valid-type"
# (A kernel's annotations are declarations of tensors, evaluated when it is built, and are not types.)

from functools import cache
from typing import Final

import lego_mlir as lego
from lego_mlir import Col, Kernel, Row
from lego_mlir.aliases import Array, IndexLike, Operand
from lego_mlir.kernels.aligned_products import ALIGNED
from lego_mlir.tracing.trace.dtypes import DType
from lego_mlir.tracing.words.tensor import View

WIDTH: Final = 4
"""Elements of a thread's vector, 8 bytes: a warp covers 256 bytes of a row."""
WARPS: Final = 8
ROWS: Final = 4
"""Rows of a thread, for loads in flight."""
LANES: Final = 32
SPAN: Final = LANES * WIDTH
"""Columns of a block's tile."""
HEIGHT: Final = WARPS * ROWS
"""Rows of a block's tile."""


@cache
def pad(dtype: DType, transposed: bool = False) -> Kernel:
    """The kernel that copies a matrix into aligned rows: source into wide. Sizes are those of the arrays at launch.

    The result has at least the rows and columns of the source; what the source does not have is 0. With `transposed`,
    both are stored by columns, and the columns are aligned.
    """
    Q, P = lego.size("Q"), lego.size("P", multiple_of=ALIGNED)
    M, N = lego.size("M", max=Q), lego.size("N", max=P)

    narrow, lined = (Col(N, M), Col(P, Q)) if transposed else (Row(M, N), Row(Q, P))

    def pad(source: lego.Tensor(dtype, narrow), wide: lego.Tensor(dtype, lined)):  # type: ignore[no-untyped-def]
        if transposed:
            source, wide = source.T, wide.T
        for row, lane in _places():
            with lego.when((row < Q) & (lane * WIDTH < P)):
                _pad_vector(source, wide, row, lane * WIDTH)

    pad.__name__ = "pad_columns" if transposed else "pad_rows"
    made = lego.kernel(grid=(lego.cdiv(P, SPAN), lego.cdiv(Q, HEIGHT)), block=(LANES, WARPS))(pad)

    @made.reference
    def padded(source: Array, wide: Array) -> Array:
        wide[...] = 0
        wide[: source.shape[0], : source.shape[1]] = source  # by rows or by columns
        return wide

    return made


@cache
def crop(dtype: DType) -> Kernel:
    """The kernel that copies the first rows and columns of an aligned matrix: wide into c."""
    Q, P = lego.size("Q"), lego.size("P", multiple_of=ALIGNED)
    M, N = lego.size("M", max=Q), lego.size("N", max=P)

    @lego.kernel(grid=(lego.cdiv(N + WIDTH, SPAN), lego.cdiv(M, HEIGHT)), block=(LANES, WARPS))
    def crop(wide: lego.Tensor(dtype, Row(Q, P)), c: lego.Tensor(dtype, Row(M, N))):  # type: ignore[no-untyped-def]
        for row, lane in _places():
            _crop_vector(wide, c, row, lane)

    @crop.reference
    def cropped(wide: Array, c: Array) -> Array:
        c[...] = wide[: c.shape[0], : c.shape[1]]
        return c

    return crop


def _places() -> list[tuple[IndexLike, IndexLike]]:
    """The rows of a thread, and the number of its vector in each."""
    (right, down), (lane, warp) = lego.block_id[:2], lego.thread_id[:2]
    return [(down * HEIGHT + r * WARPS + warp, right * LANES + lane) for r in range(ROWS)]


def _pad_vector(source: View, result: View, row: IndexLike, column: IndexLike) -> None:
    rows, columns = source.dims()
    memory, position = source.flat(), row * columns + column
    first = position // WIDTH * WIDTH
    with lego.when((row < rows) & (first + 2 * WIDTH <= rows * columns)):
        found = _shifted(memory, first, position % WIDTH)
        kept = [lego.where(column + k < columns, value, _zero(source)) for k, value in enumerate(found)]
        result.store(lego.vector(*kept), row, column)
    with lego.otherwise():  # the end of memory, and rows of zeros
        found = [lego.register(source.dtype, _zero(source)) for _ in range(WIDTH)]
        for k, value in enumerate(found):
            with lego.when((row < rows) & (column + k < columns)):
                value.set(source[row, column + k])
        result.store(lego.vector(*found), row, column)


def _zero(source: View) -> float | int:
    return 0.0 if source.dtype.is_float else 0


def _crop_vector(wide: View, c: View, row: IndexLike, lane: IndexLike) -> None:
    """A vector of c's memory; its first column is wherever the row's first aligned position is."""
    (rows, columns), pitch = c.dims(), wide.dims()[1]
    position = ((row * columns + WIDTH - 1) // WIDTH + lane) * WIDTH
    column = position - row * columns
    first = row * pitch + column // WIDTH * WIDTH
    whole = (column + WIDTH <= columns) & (position + WIDTH <= rows * columns)
    with lego.when((row < rows) & whole & (first + 2 * WIDTH <= wide.dims()[0] * pitch)):
        c.flat().store(lego.vector(*_shifted(wide.flat(), first, column % WIDTH)), position)
    with lego.otherwise():
        for k in range(WIDTH):
            with lego.when((row < rows) & (column + k < columns)):
                c[row, column + k] = wide[row, column + k]
    for k in range(WIDTH - 1):  # the elements before it
        with lego.when((row < rows) & (lane < 1) & (k < column) & (k < columns)):
            c[row, k] = wide[row, k]


def _shifted(memory: View, first: IndexLike, offset: IndexLike) -> list[Operand]:
    """The WIDTH elements from `first + offset` on, of the two vectors that begin at `first`."""
    vectors = [memory.load(first + step, width=WIDTH) for step in (0, WIDTH)]
    found = [vector[k] for vector in vectors for k in range(WIDTH)]
    step = WIDTH // 2
    while step:
        by_step = offset // step % 2 > 0
        found = [lego.where(by_step, b, a) for a, b in zip(found, found[step:], strict=False)]
        step //= 2
    return found[:WIDTH]
