"""The mean of a square around each element of a matrix, in any order of execution and with any boundary.

A thread computes `down` x `across` outputs: one for the thesis's kernels, where the order of the threads decides what
the caches hold; several below and beside each other to load each element once for all of them. The order is a layout
of the threads' pieces, so naive, tiled, column and zigzag versions differ in an argument:

    build(H, W, f32, order="row")                                          one row after the other
    build(H, W, f32, order=schedule.columns(H, W, width=32))               columns of 32
    build(H, W, f32, order=schedule.tiles(H, W, tile=(8, 32)))             blocks of 8 x 32 threads
    build(H, W, f32, down=8, across=4)                                     8 x 4 outputs a thread

The sum of a box is separable: a thread adds the elements of each row once, and adds that sum to the outputs whose box
contains the row. A loop over n outputs would need n * size**2 loads; this needs (down + size - 1) rows of
(across + size - 1) elements, as vectors where the width of the matrix allows.

`build_shared` has the same box in shared memory: a block stages its tile with a halo, and each thread goes down a
column of it.
"""

# mypy: disable-error-code="valid-type"
# (A kernel's annotations are declarations of tensors, evaluated when it is built, and are not types.)

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar, cast

import lego_mlir as lego
from lego_mlir import Kernel, Row
from lego_mlir.aliases import Array, IndexLike, Operand
from lego_mlir.errors import UsageError
from lego_mlir.hardware.memory import WIDEST_ACCESS
from lego_mlir.kernels.visiting import is_multiple_of, visit
from lego_mlir.layout.base import Layout
from lego_mlir.layout.boundaries import Boundary
from lego_mlir.layout.canonical import SizeLike
from lego_mlir.schedule.named import tile_order
from lego_mlir.tracing.trace.dtypes import DType, f16, f32, f64
from lego_mlir.tracing.words.scalar import Scalar
from lego_mlir.tracing.words.tensor import View

Order: TypeAlias = str | Layout
Number = TypeVar("Number", Scalar, Array)

BOUNDARIES: Final = ("clamp", "mirror", "wrap", "constant")
THREADS: Final = 256
SUMS: Final = {f16: f32, f32: f32, f64: f64}
"""The element types, and the type of their sums."""
NUMPY_MODES: Final[dict[str, Any]] = {"clamp": "edge", "mirror": "reflect", "wrap": "wrap", "constant": "constant"}
"""The names of the boundaries in `numpy.pad`."""


def build(
    H: SizeLike,
    W: SizeLike,
    dtype: DType,
    *,
    size: int = 9,
    boundary: str = "clamp",
    constant: float = 0.0,
    order: Order = "row",
    threads: SizeLike = THREADS,
    down: int = 1,
    across: int = 1,
) -> Kernel:
    """The kernel y = mean of the `size` x `size` box around each element of an H x W matrix, of f16, f32 or f64.

    A thread computes `down` x `across` outputs; `order` is a name in `schedule.ORDERS` or a layout of the
    cdiv(H, down) x cdiv(W, across) pieces, whose position is the thread's number. `threads` of a block may be a
    `lego.size`. Outside the matrix an element is the
    nearest one (`"clamp"`), the mirrored one without repeating the edge, the one of the opposite side (`"wrap"`), or
    `constant`. Raises UsageError for an even size, an unknown boundary or order, a type that is not a float of 2 to 8
    bytes, or outputs that do not divide W evenly into vectors; LayoutError for a layout of other pieces.
    """
    plan = _Box(_validated(size, boundary, dtype), boundary, constant, dtype, down, across)
    _require_counts(down=down, across=across, **({"threads": threads} if isinstance(threads, int) else {}))
    pieces = (lego.cdiv(H, down), lego.cdiv(W, across))
    if across not in (1, 2, 4, 8) or across * dtype.bytes > WIDEST_ACCESS or not is_multiple_of(W, across):
        raise UsageError(
            f"stencil: {across=} must be a power of two that divides the width {W}, of at most {WIDEST_ACCESS} bytes, "
            f"{WIDEST_ACCESS // dtype.bytes} elements of {dtype}"
        )
    layout = tile_order("stencil", order, pieces)
    tasks = layout.physical_size()

    @lego.kernel(grid=lego.cdiv(tasks, threads), block=threads)
    def stencil(x: lego.Tensor(dtype, Row(H, W)), y: lego.Tensor(dtype, Row(H, W))):  # type: ignore[no-untyped-def]
        task = lego.block_id.x * threads + lego.thread_id.x
        with lego.when(task < tasks):
            visit(layout, task, lambda at: plan.piece(x, y, at))

    stencil.reference(reference(size, boundary, constant, dtype))
    return stencil


def build_shared(
    H: SizeLike,
    W: SizeLike,
    dtype: DType,
    *,
    size: int = 9,
    boundary: str = "clamp",
    constant: float = 0.0,
    order: Order = "row",
    tile: tuple[int, int] = (32, 64),
    threads: int = THREADS,
) -> Kernel:
    """The same means from shared memory: a block stages its tile with the halo, and a thread goes down a column of it.

    `order` is that of the blocks, a layout of the grid of tiles. Raises UsageError unless the threads are a multiple of
    the tile's columns and divide it evenly.
    """
    radius = _validated(size, boundary, dtype)
    _require_counts(threads=threads, rows=tile[0], columns=tile[1])
    if threads % tile[1] or tile[0] * tile[1] % threads:
        raise UsageError(f"stencil: {threads=} must be a multiple of the tile's {tile[1]} columns and divide {tile}")
    plan = _Box(radius, boundary, constant, dtype, tile[0] * tile[1] // threads, 1)
    grid = (lego.cdiv(H, tile[0]), lego.cdiv(W, tile[1]))
    layout = tile_order("stencil", order, grid)

    @lego.kernel(grid=layout.physical_size(), block=threads)
    def stencil_shared(  # type: ignore[no-untyped-def]
        x: lego.Tensor(dtype, Row(H, W)), y: lego.Tensor(dtype, Row(H, W))
    ):
        staged = lego.shared(dtype, Row(tile[0] + 2 * radius, tile[1] + 2 * radius))
        visit(layout, lego.block_id.x, lambda at: plan.tile(x, y, staged, tile, threads, at))

    stencil_shared.reference(reference(size, boundary, constant, dtype))
    return stencil_shared


def build_strips(
    H: SizeLike,
    W: SizeLike,
    dtype: DType,
    *,
    size: int = 9,
    boundary: str = "clamp",
    constant: float = 0.0,
    order: Order = "row",
    tile: tuple[int, int] = (8, 256),
) -> Kernel:
    """The same means, a tile of rows x columns of outputs a block: each of its threads goes down one column of it.

    `order` is that of the blocks. A whole block has a boundary or has none, so that on a CPU the loop over its threads
    is straight-line code in vectors. Raises the errors of `build`.
    """
    radius = _validated(size, boundary, dtype)
    _require_counts(rows=tile[0], columns=tile[1])
    plan = _Box(radius, boundary, constant, dtype, tile[0], 1)
    layout = tile_order("stencil", order, (lego.cdiv(H, tile[0]), lego.cdiv(W, tile[1])))

    @lego.kernel(grid=layout.physical_size(), block=tile[1])
    def stencil_strips(  # type: ignore[no-untyped-def]
        x: lego.Tensor(dtype, Row(H, W)), y: lego.Tensor(dtype, Row(H, W))
    ):
        visit(layout, lego.block_id.x, lambda at: plan.strip(x, y, tile[1], at))

    stencil_strips.reference(reference(size, boundary, constant, dtype))
    return stencil_strips


def reference(size: int, boundary: str, constant: float, dtype: DType) -> Callable[[Array], Array]:
    """The means in NumPy, summed in the type that the kernel sums in."""
    import numpy as np

    total = np.dtype(SUMS[dtype].numpy)

    def means(x: Array) -> Array:
        extra = {"constant_values": constant} if boundary == "constant" else {}
        # numpy.pad reflects and wraps repeatedly where the halo is wider than the matrix
        wide = np.pad(x.astype(total), size // 2, NUMPY_MODES[boundary], **extra)
        rows = _sum([wide[:, k : k + x.shape[1]] for k in range(size)])
        return (_sum([rows[k : k + x.shape[0]] for k in range(size)]) / (size * size)).astype(x.dtype)

    return means


@dataclass(frozen=True, slots=True)
class _Box:
    """The parameters of the kernel's function while it is traced."""

    radius: int
    boundary: str
    constant: float
    dtype: DType
    down: int
    across: int

    def piece(self, x: View, y: View, at: Sequence[IndexLike]) -> None:
        """The outputs of one thread; those whose boxes are inside the matrix need no boundary."""
        (rows, columns), r = x.dims(), self.radius
        top, left = at[0] * self.down, at[1] * self.across
        reach = -(-r // self.across) * self.across  # whole vectors
        inside = (top >= r) & (top + (self.down - 1 + r) < rows) & (left >= reach)
        inside = inside & (left + (self.across - 1 + reach) < columns)
        self.inside_or_edge(x, y, inside, (top, left), reach)

    def strip(self, x: View, y: View, width: int, at: Sequence[IndexLike]) -> None:
        """The outputs of one thread of a block that has `width` columns of `down` rows."""
        (rows, columns), r = x.dims(), self.radius
        top, first = at[0] * self.down, at[1] * width
        left = first + lego.thread_id.x
        inside = (top >= r) & (top + (self.down - 1 + r) < rows) & (first >= r) & (first + (width - 1 + r) < columns)
        self.inside_or_edge(x, y, inside, (top, left), r)

    def inside_or_edge(self, x: View, y: View, inside: Operand, at: tuple[IndexLike, IndexLike], reach: int) -> None:
        """The outputs of one thread, without a boundary where all boxes are inside the matrix."""
        top, left = at
        with lego.when(inside):
            self.outputs(y, self.sums(lambda dy: self.line(x, top + dy, left, reach)), top, left)
        with lego.otherwise():
            view = self.haloed(x)
            self.outputs(y, self.sums(lambda dy: self.edge(view, top + dy, left)), top, left)

    def haloed(self, x: View) -> View:
        """The matrix with its boundary."""
        return x.halo("zero" if self.boundary == "constant" else cast(Boundary, self.boundary))

    def line(self, x: View, row: IndexLike, left: IndexLike, reach: int) -> list[Scalar]:
        """The elements of one row that the outputs of the thread need, loaded as vectors."""
        width = self.across
        loaded = []
        for start in range(-reach, width + reach, width):
            vector = x.load(row, left + start, width=width)
            loaded += [vector] if width == 1 else [vector[k] for k in range(width)]
        first = reach - self.radius
        return self.widened(loaded[first : first + width + 2 * self.radius])

    def edge(self, view: View, row: IndexLike, left: IndexLike) -> list[Scalar]:
        """The same elements with the boundary, one by one."""
        span = range(-self.radius, self.across + self.radius)
        return self.widened([view.load(row, left + dx, other=self.constant) for dx in span])

    def widened(self, values: list[Scalar]) -> list[Scalar]:
        """The elements in the type of the sums."""
        return values if SUMS[self.dtype] is self.dtype else [v.to(SUMS[self.dtype]) for v in values]

    def sums(self, line: Callable[[int], list[Scalar]]) -> list[list[Scalar]]:
        """The sums of the boxes of a thread's outputs; `line(dy)` are the elements of the row dy below the first."""
        r = self.radius
        totals: list[list[Scalar]] = [[] for _ in range(self.down)]
        for dy in range(-r, self.down + r):
            row = _windows(line(dy), 2 * r + 1)
            for p in range(max(0, dy - r), min(self.down, dy + r + 1)):
                totals[p] = [t + s for t, s in zip(totals[p], row, strict=True)] if totals[p] else row
        return totals

    def outputs(self, y: View, totals: list[list[Scalar]], top: IndexLike, left: IndexLike) -> None:
        """Store the means; those past the end of the matrix are masked."""
        target = y.halo("zero")
        scale = 1.0 / (2 * self.radius + 1) ** 2
        for p, row in enumerate(totals):
            means = [(t * scale).to(self.dtype) for t in row]
            target.store(means[0] if self.across == 1 else lego.vector(*means), top + p, left)

    def tile(
        self, x: View, y: View, staged: View, tile: tuple[int, int], threads: int, at: Sequence[IndexLike]
    ) -> None:
        """The outputs of a block from its staged tile."""
        r, thread = self.radius, lego.thread_id.x
        rows, columns = staged.dims()
        top, left, view = at[0] * tile[0], at[1] * tile[1], self.haloed(x)
        for first in range(0, rows * columns, threads):
            place = first + thread
            i, j = Row(rows, columns).inv(place)
            with lego.when(place < rows * columns):
                staged[i, j] = view.load(top + i - r, left + j - r, other=self.constant)
        lego.barrier()
        strip, column = Row(threads // tile[1], tile[1]).inv(thread)
        start = strip * self.down

        def line(dy: int) -> list[Scalar]:
            return self.widened([staged[start + (dy + r), column + k] for k in range(2 * r + 1)])

        target, scale = y.halo("zero"), 1.0 / (2 * r + 1) ** 2
        for p, row in enumerate(self.sums(line)):
            target.store((row[0] * scale).to(self.dtype), top + start + p, left + column)


def _windows(values: list[Scalar], size: int) -> list[Scalar]:
    """The sum of each `size` successive values; what all windows contain is added once."""
    count = len(values) - size + 1
    if count == 1:
        return [_sum(values)]
    if count > size:
        return [_sum(values[k : k + size]) for k in range(count)]
    common = _sum(values[count - 1 : size])
    before, after = [common], list[Scalar | None]([None])
    for value in reversed(values[: count - 1]):
        before.append(before[-1] + value)
    for value in values[size:]:
        after.append(value if after[-1] is None else after[-1] + value)
    return [low if high is None else low + high for low, high in zip(reversed(before), after, strict=True)]


def _sum(values: Sequence[Number]) -> Number:
    total = values[0]
    for value in values[1:]:
        total = total + value
    return total


def _validated(size: int, boundary: str, dtype: DType) -> int:
    """The radius of a box."""
    if isinstance(size, bool) or not isinstance(size, int) or size < 1 or size % 2 == 0:
        raise UsageError(f"stencil: {size=} must be an odd int, so that the box has a centre")
    if boundary not in BOUNDARIES:
        raise UsageError(f"stencil has no boundary {boundary!r}; there are {', '.join(BOUNDARIES)}")
    if dtype not in SUMS:
        raise UsageError(f"stencil: the elements are f16, f32 or f64, got {dtype}")
    return size // 2


def _require_counts(**counts: int) -> None:
    for name, count in counts.items():
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise UsageError(f"stencil: {name}={count!r} must be an int >= 1")
