"""C = A B on a matrix unit: one kernel, parametrised by layouts.

    a, b, c     the layouts of the matrices: row-major, column-major, or any other
    order       the tile order: which block computes which tile of C
    tiles       the layouts of the staged tiles of A and B in shared memory

A block computes one tile of C, or several in sequence if it is persistent. It loops along K, copies tiles of A and B to
shared memory, and each of its warps multiplies its part of them into accumulators. The tile of C then goes through
shared memory, which converts the warps' fragments to rows for wide stores; an epilogue may change each value.

The kernel contains no matrix instruction, asynchronous copy or pipeline. `transform_scripts/matmul_sm80.mlir`
introduces them.
"""

# mypy: disable-error-code="valid-type"
# (A kernel's annotations are declarations of tensors, evaluated when it is built, and are not types.)

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import lego_mlir as lego
from lego_mlir import Kernel, Row, gallery
from lego_mlir.aliases import IndexLike, Operand
from lego_mlir.choices.product_tile import LEAST_STEPS, OUT_PAD, ProductTile
from lego_mlir.errors import LayoutError, UsageError
from lego_mlir.hardware.limits import WARP
from lego_mlir.hardware.memory import WIDEST_ACCESS
from lego_mlir.kernels.built_products import BUILT, BuiltProduct
from lego_mlir.kernels.epilogues import (
    Epilogue,
    EpiloguePlace,
    LargestOfTile,
    bias,
    gelu,
    relu,
    residual,
    scale,
    scales,
    silu_gate,
)
from lego_mlir.kernels.visiting import visit
from lego_mlir.layout.base import Layout
from lego_mlir.layout.canonical import SizeLike, as_sizes, is_static
from lego_mlir.schedule.named import tile_order
from lego_mlir.tracing.definition.named_parameters import with_parameters
from lego_mlir.tracing.trace.dtypes import DType, f32, i32
from lego_mlir.tracing.words.element_functions import ElementFunction, VectorPlace, elements
from lego_mlir.tracing.words.staging import grant_width, stored_tile, thread_chunks
from lego_mlir.tracing.words.tensor import View

__all__ = ["Epilogue", "ProductTile", "VectorPlace", "bias", "build", "gelu", "relu", "residual", "scale", "scales",
           "silu_gate"]  # fmt: skip

GROUPED_ROWS: Final = 2048
"""Rows of C in a group of the grouped order: concurrent tiles of a large GPU are about square and share A and B."""
TIMED_BYTES: Final = 2
"""Bytes of an element in the time model of products."""
AT_ONCE: Final = 4
"""Stores of a thread in flight per iteration of the loop over its part of C."""


def build(
    M: SizeLike,
    N: SizeLike,
    K: SizeLike,
    dtype: DType,
    *,
    a: Any = None,
    b: Any = None,
    c: Any = None,
    result: DType = f32,
    tiling: ProductTile | None = None,
    order: Any = "grouped",
    tiles: tuple[Any, Any] | None = None,
    epilogue: Epilogue | None = None,
    blocks: int | None = None,
    split: Any = None,
) -> Kernel:
    """The kernel c = a @ b for an M x K and a K x N matrix, accumulated in f32, or in i32 for i8.

    The types are f16, bf16, f8e4m3fn, f8e5m2, i8, and f32, which matrix units multiply as tf32. Those of 8 and 32 bits
    need K contiguous in both matrices on units that read shared memory.

    A size is an int, or `lego.size(..)` for one that is known at launch: one kernel then computes all products within
    the sizes' ranges. Its copies are as wide as its declared divisors allow, and its masks are those that they leave.

    `tiling` has the sides of a block's tile and its warps; what else a tile says is the other arguments' to say.
    `a`, `b` and `c` are layouts of the matrices, row-major if not given. `order` is a name of `schedule.ORDERS` or a
    layout of the grid of tiles. `tiles` are the layouts of the shared tiles of A (m x k) and B (k x n); by default each
    has the order of its matrix. With `blocks`, that many persistent blocks share the tiles, round-robin along the
    order; otherwise there is one block per tile. With `split`, several blocks compute a tile, each a part of K: those
    of a cluster with `cluster_k.ClusterK`, any blocks with `split_k.SplitK`, and the kernel takes their workspace as
    further arguments. Raises UsageError for an unknown order, or for both `blocks`
    and `split`; LayoutError for layouts that do not fit.
    """
    M, N, K = as_sizes("matmul", (M, N, K))
    tiling = ProductTile() if tiling is None else tiling
    a, b, c = (
        _of_shape(name, Row(*dims) if given is None else given, dims)
        for name, given, dims in (("a", a, (M, K)), ("b", b, (K, N)), ("c", c, (M, N)))
    )
    grid = (lego.cdiv(M, tiling.m), lego.cdiv(N, tiling.n))
    layout = tile_order("matmul", order, grid, group=max(1, GROUPED_ROWS // tiling.m), larger=True)
    staged = _staged(tiling, a, b) if tiles is None else _given(tiling, tiles)
    function = Epilogue(lambda value, place: value, lambda product: product) if epilogue is None else epilogue
    plain = epilogue is None and split is None and dtype.is_float
    through = result if plain else sums_of(dtype)
    _require_blocks((M, N, K), blocks, split)
    positions = layout.physical_size()
    count = positions if blocks is None else lego.minimum(blocks, positions)
    stride = (None if count == positions else count) if isinstance(count, int) else blocks
    axis = _contiguous_axis(c)
    plan = _Plan(tiling, layout, staged, through, result, K, function, axis, stride, split,
                 not dtype.is_float and (epilogue is not None or result.is_float), plain, (M, N)[1 - axis])  # fmt: skip

    def matmul(a: Any, b: Any, c: Any, *operands: Any) -> None:
        plan.body(a, b, c, operands)

    declared = {"a": lego.Tensor(dtype, a), "b": lego.Tensor(dtype, b), "c": lego.Tensor(result, c)}
    workspace = {} if split is None else split.workspace(count, plan.summed, sums_of(dtype))
    _require_other_names(function, [*declared, *workspace])
    launched, cluster = (count, None) if split is None else (split.grid(count), split.cluster)
    kernel = lego.kernel(grid=launched, block=tiling.threads, cluster=cluster)(
        with_parameters(matmul, {**declared, **function.operands, **workspace})
    )
    kernel.reference(_reference(function, result, plan))
    if workspace:
        kernel.inputs(split.inputs(count))
    elif (
        split is None
        and dtype.bytes == TIMED_BYTES
        and isinstance(M, int)
        and isinstance(N, int)
        and isinstance(K, int)
    ):
        layouts = "".join("TN"[_contiguous_axis(layout)] for layout in (a, b))
        BUILT[kernel] = BuiltProduct(M, N, K, layouts, tiling, None if stride is None else blocks)
    return kernel


def _require_blocks(sizes: tuple[SizeLike, SizeLike, SizeLike], blocks: int | None, split: Any) -> None:
    """Refuse numbers of blocks, and parts of K, that a kernel cannot have."""
    if blocks is not None and blocks < 1:
        raise UsageError(f"matmul: {blocks=} must be at least 1; without it there is one block per tile")
    if blocks is not None and split is not None:
        raise UsageError(f"matmul: persistent {blocks=} compute whole tiles; leave them out with split={split}")
    if split is not None and not is_static(sizes):
        m, n, k = sizes
        raise UsageError(f"matmul: the sizes must be ints with split={split}, got {m} x {n} x {k}")


def _require_other_names(epilogue: Epilogue, taken: Sequence[str]) -> None:
    """Refuse operands of an epilogue that have names of the kernel's parameters."""
    if not set(taken).isdisjoint(epilogue.operands):
        raise UsageError(
            f"matmul: an epilogue's operands need names other than {', '.join(taken)}, got "
            f"{', '.join(epilogue.operands)}"
        )


def sums_of(dtype: DType) -> DType:
    """The type in which products of this type are summed."""
    return f32 if dtype.is_float else i32


def steps_of(depth: Any, k: int, parts: int = 1) -> Any:
    """Steps of `k` along K in each of several equal parts of a depth."""
    return lego.maximum(LEAST_STEPS, lego.cdiv(depth, k * parts))


def _pad(columns: int, element: int) -> int:
    """The padding after each row of C's shared tile, whose elements have this number of bytes.

    Lanes store pairs of 4-byte elements in 4 rows at once, which must begin 8 banks after each other, or 24.
    """
    return 2 * OUT_PAD if element == 4 and columns % 16 else max(OUT_PAD, WIDEST_ACCESS // element)


def _of_shape(name: str, given: Layout, dims: tuple[SizeLike, SizeLike]) -> Layout:
    layout = lego.as_layout(given)
    if layout.dims() != dims:
        raise LayoutError(f"matmul: {name} is {dims[0]} x {dims[1]}, and its layout is {layout!r}")
    return layout


def _given(tiling: ProductTile, tiles: tuple[Layout, Layout]) -> tuple[Layout, Layout]:
    if len(tiles) != 2:
        raise UsageError(f"matmul: tiles are two layouts, of A's and of B's shared tile, got {len(tiles)}")
    return (
        _of_shape("the shared tile of A", tiles[0], (tiling.m, tiling.k)),
        _of_shape("the shared tile of B", tiles[1], (tiling.k, tiling.n)),
    )


def _contiguous_axis(layout: Layout) -> int:
    """The axis along which memory is contiguous: 0 for columns, 1 for rows and anything else."""
    probe = layout.apply(0, 0)
    if any(size == 1 for size in layout.dims() if isinstance(size, int)):
        return 1
    along, down = (str(layout.apply(*step) - probe) == "1" for step in ((0, 1), (1, 0)))
    return int(along or not down)


def _staged(tiling: ProductTile, a: Layout, b: Layout) -> tuple[Layout, Layout]:
    """Shared tiles in the order of their matrices, so that both sides of the copy are contiguous."""
    made = [Row if _contiguous_axis(matrix) == 1 else lego.Col for matrix in (a, b)]
    return lego.as_layout(made[0](tiling.m, tiling.k)), lego.as_layout(made[1](tiling.k, tiling.n))


@dataclass(frozen=True, slots=True)
class _Plan:
    """The parameters of the kernel's function while it is traced.

    The tile of C has the element type `through` in shared memory: the result's without an epilogue, which takes less
    room, otherwise that of the sums, which are `converted` to f32 for an epilogue. `axis` is the contiguous axis of C;
    `blocks` share the tiles along `order`. `rows` are those of C, or of its transpose if it is column-major.
    """

    tiling: ProductTile
    order: Layout
    staged: tuple[Any, Any]
    through: DType
    result: DType
    depth: Any
    epilogue: Epilogue
    axis: int
    blocks: int | None
    split: Any = None
    converted: bool = False
    plain: bool = False
    rows: Any = 0

    @property
    def shape(self) -> tuple[int, int]:
        """The tile of C as it is in `out`."""
        t = self.tiling
        return (t.m, t.n) if self.axis == 1 else (t.n, t.m)

    @property
    def summed(self) -> tuple[int, int]:
        """The rows of a tile that are in C where it has one row of tiles, and the columns."""
        return min(self.shape[0], self.rows), self.shape[1]

    def body(self, a: Any, b: Any, c: Any, operands: tuple[Any, ...]) -> None:
        """The kernel: a block's share of the tiles."""
        staged = [lego.shared(view.dtype, layout) for view, layout in zip((a, b), self.staged, strict=True)]
        out = lego.shared(self.through, gallery.padded(*self.shape, _pad(self.shape[1], self.through.bytes)))
        if self.split is not None:
            self.split.share(self, (a, b, c), staged, out, operands)
            return
        if self.blocks is None:
            self.at((a, b, c), staged, out, operands, lego.block_id.x)
            return
        for position in lego.range(lego.block_id.x, self.order.physical_size(), self.blocks):
            self.at((a, b, c), staged, out, operands, position)

    def at(self, matrices: Any, staged: Any, out: Any, operands: tuple[Any, ...], position: Any) -> None:
        """The tile at a position of the order; a padded order has positions without a tile."""
        visit(self.order, position, lambda at: self.tile(matrices, staged, out, operands, self.bound(at)))

    def bound(self, at: tuple[Any, ...]) -> tuple[Any, ...]:
        """The tile's place, as values with the ranges of the grid if that is symbolic.

        The order is a bijection, so the claims hold, and no proof about an access has to find that out again.
        """
        dims = self.order.dims()
        if is_static(dims):
            return at
        return tuple(lego.index(lego.i32(i), range=(0, n)) for i, n in zip(at, dims, strict=True))

    @property
    def tiles(self) -> tuple[Any, Any]:
        """The grid of tiles as they are computed, transposed as C is."""
        rows, columns = self.order.dims()
        return (rows, columns) if self.axis == 1 else (columns, rows)

    def tile(self, matrices: Any, staged: Any, out: Any, operands: tuple[Any, ...], at: Any) -> None:
        """One tile of C. A column-major C is computed as its transpose, B^T A^T, which is row-major."""
        c, at = self.multiply(matrices, staged, out, at)
        m, n = out.dims()
        with (
            self.epilogue_with(operands) as by,
            stored_tile([out], c, (at[0] * m, at[1] * n), None if self.plain else by),
        ):
            self.store(out, c, at, by)

    @contextmanager
    def epilogue_with(self, operands: tuple[Operand, ...]) -> Iterator[ElementFunction]:
        """What becomes of sums while a tile is stored; the largest values of the tile are kept after that."""
        named = dict(zip(self.epilogue.operands, operands, strict=False))
        largest = tuple(LargestOfTile.begin(named[name]) for name in self.epilogue.largest)
        yield partial(self.computed, operands, largest)
        for kept in largest:
            kept.end()

    def computed(
        self, operands: tuple[Operand, ...], largest: tuple[LargestOfTile, ...], value: Operand, place: VectorPlace
    ) -> Operand:
        """The elements of C from a vector of sums at a place of `out`, which has the transpose of a column-major C."""
        row, column, axis = place.row, place.column, 1
        if self.axis == 0:
            row, column, axis = column, row, 0
        given = value.to(f32) if self.converted else value
        here = EpiloguePlace(row, column, place.width, axis, largest)
        return elements(self.epilogue.function(given, here, *operands), self.result, place.width)

    def multiply(
        self, matrices: tuple[View, View, View], staged: Sequence[View], out: View, at: tuple[IndexLike, IndexLike],
        part: IndexLike = 0, parts: int = 1,
    ) -> tuple[View, tuple[IndexLike, IndexLike]]:  # fmt: skip
        """Sum a tile of C over one of several equal parts of K, into `out`.

        Returns C and the tile's index as they are in `out`, which has the transpose of a column-major C.
        """
        (a, b, c), (staged_a, staged_b), warps = matrices, staged, self.tiling.warps
        if self.axis == 0:
            a, b, c, staged_a, staged_b = b.T, a.T, c.T, staged_b.T, staged_a.T
            at, warps = at[::-1], warps[::-1]
        m, n = out.dims()
        rows, columns = m // warps[0], n // warps[1]
        warp_m, warp_n = Row(*warps).inv(lego.thread_id.x // WARP)
        total = lego.accumulator(sums_of(a.dtype), rows, columns)
        steps, (down, across) = steps_of(self.depth, self.tiling.k, parts), self.tiles
        for step in lego.range(steps):
            k = part * steps + step
            lego.barrier()
            lego.stage(a, (at[0], k), staged_a, tiles=(down, steps * parts))
            lego.stage(b, (k, at[1]), staged_b, tiles=(steps * parts, across))
            lego.barrier()
            left = staged_a.part((warp_m * rows, 0), (rows, self.tiling.k))
            right = staged_b.part((0, warp_n * columns), (self.tiling.k, columns))
            lego.mma(left, right, total)
        total.store(out, (warp_m * rows, warp_n * columns))
        lego.barrier()
        return c, at

    def store(self, out: View, c: View, at: tuple[IndexLike, IndexLike], by: ElementFunction) -> None:
        """Store the tile of C from shared memory through the epilogue."""
        m, n = out.dims()
        target = self.target(c)
        width = self.width(target, at, n)
        while width > 1 and m * n // width % self.tiling.threads:
            width //= 2
        places = thread_chunks((m, n), width, self.tiling.threads, lego.thread_id.x)
        in_rows = self.tiling.threads % (n // width) == 0 and len(places) % AT_ONCE == 0
        if in_rows:
            for first in lego.range(0, m, AT_ONCE * m // len(places)):
                for row, column in places[:AT_ONCE]:
                    self.store_one(out, target, at, (first + row, column), width, by)
        else:
            grant_width(out, (), (m, n), width)
            grant_width(target, at, (m, n), width)
            for place in places:
                self.store_one(out, target, at, place, width, by)

    def store_one(
        self, out: View, target: View, at: tuple[IndexLike, IndexLike], inside: tuple[IndexLike, IndexLike], width: int,
        by: ElementFunction,
    ) -> None:  # fmt: skip
        """Store one contiguous vector of the tile."""
        m, n = out.dims()
        value, place = out.load(*inside, width=width), VectorPlace(at[0] * m + inside[0], at[1] * n + inside[1], width)
        with lego.when(target.layout.mask(*at, *inside)):
            target.store(by(value, place), *at, *inside)

    def target(self, c: View) -> View:
        """C, as it is computed, in tiles."""
        return c.tile_by(self.tiles, list(self.shape))

    def width(self, target: View, at: tuple[IndexLike, IndexLike], n: int) -> int:
        """The width of the stores: what C allows, of 16 bytes of the tile in shared memory."""
        width = WIDEST_ACCESS // self.through.bytes
        while width > 1:
            row, chunk = Row(target.dims()[2], n // width).inv(lego.thread_id.x)
            if target.widest(*at, row, chunk * width) >= width:
                return width
            width //= 2
        return 1


def _reference(epilogue: Epilogue, result: DType, plan: _Plan) -> Callable[..., Any]:
    """A B in f32, as the kernel accumulates, the epilogue, and the rounding to the result's type.

    With a split of K, then the workspace as the kernel leaves it.
    """
    import numpy as np

    def matmul(a: Any, b: Any, *given: Any, **named: Any) -> Any:
        exact = np.float32 if plan.through.is_float else np.int32
        product = a.astype(exact) @ b.astype(exact)
        if plan.converted:
            product = product.astype(np.float32)
        found = dict(zip(epilogue.operands, given, strict=False)) | named
        found |= {name: np.array(found[name]) for name in epilogue.largest}
        c = epilogue.reference(product, *found.values()).astype(result.numpy)
        left = [
            *(found[name] for name in epilogue.largest),
            *([] if plan.split is None else plan.split.left(plan, a, b)),
        ]
        return (c, *left) if left else c

    names = ["a", "b", *epilogue.operands]
    return with_parameters(matmul, dict.fromkeys(names))
