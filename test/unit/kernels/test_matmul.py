"""The matrix product, run before its transform script: layouts, orders, masks, types, epilogues, and its messages."""

import itertools

import numpy as np
import pytest
from gemm import check, operands

import lego_mlir as lego
from lego_mlir import Col, OrderBy, RegP, Row, bf16, f16, f32, gallery
from lego_mlir.errors import LayoutError, TraceError, UsageError
from lego_mlir.kernels import matmul
from lego_mlir.kernels.matmul import ProductTile
from lego_mlir.layout.transposed import Transposed
from lego_mlir.schedule import ORDERS, tile_order

SMALL = ProductTile(32, 32, 32, (1, 2))
LAYOUTS = {"NN": (Row, Row), "NT": (Row, Col), "TN": (Col, Row), "TT": (Col, Col)}


def build(m, n, k, dtype=f16, a=Row, b=Row, c=Row, **given):
    return matmul.build(m, n, k, dtype, a=a(m, k), b=b(k, n), c=c(m, n), **{"tiling": SMALL, **given})


@pytest.mark.parametrize("c", [Row, Col], ids=["C in rows", "C in columns"])
@pytest.mark.parametrize("kind", LAYOUTS)
def test_every_layout(kind, c):
    a, b = LAYOUTS[kind]
    check(build(64, 96, 64, a=a, b=b, c=c), None, 64, 96, 64)


@pytest.mark.parametrize("result", [f16, bf16, f32], ids=str)
@pytest.mark.parametrize("dtype", [f16, bf16], ids=str)
def test_every_type(dtype, result):
    check(build(32, 64, 32, dtype, result=result), None, 32, 64, 32)


@pytest.mark.parametrize("order", ORDERS)
def test_every_order_visits_every_tile_once(order):
    kernel = build(96, 160, 32, order=order)
    report = check(kernel, None, 96, 160, 32)
    assert report.blocks_run >= 3 * 5


@pytest.mark.parametrize(("m", "n", "k"), [(40, 48, 40), (33, 65, 17), (100, 52, 36)])
def test_sizes_that_no_tile_divides(m, n, k):
    check(build(m, n, k), None, m, n, k)


@pytest.mark.parametrize("script", [None, "ldmatrix_mma.mlir", "matmul_sm80.mlir"])
@pytest.mark.parametrize(("n", "b"), [(24, Col), (40, Row)])
def test_tiles_of_an_odd_number_of_contractions(n, b, script):
    check(build(64, 96, 128, b=b, tiling=ProductTile(32, n, 32, (2, 1))), script, 64, 96, 128)


def test_masks_are_there_only_where_tiles_do_not_divide():
    assert not any(access.is_masked for _, access in build(64, 64, 64).trace().accesses())
    masked = {access.buffer.name for _, access in build(64, 64, 40).trace().accesses() if access.is_masked}
    assert masked == {"a", "b"}


@pytest.mark.parametrize("blocks", [1, 2, 7])
@pytest.mark.parametrize("order", ["column", "morton"])
def test_blocks_may_stay_and_share_the_tiles(order, blocks):
    kernel = build(96, 160, 64, order=order, blocks=blocks)
    report = check(kernel, None, 96, 160, 64)
    assert report.blocks_run == blocks


def test_more_blocks_than_tiles_are_not_launched():
    assert build(64, 64, 32, blocks=100).mlir() == build(64, 64, 32).mlir()
    with pytest.raises(UsageError, match="blocks=0 must be at least 1"):
        build(64, 64, 32, blocks=0)


def test_a_group_is_as_high_as_it_is_wide_on_a_large_device():
    """2048 rows of C, but not more than there are."""
    order = matmul.build(4096, 4096, 64, f16, tiling=ProductTile(128, 256, 32, (2, 4)))
    assert [order.grid[0], order.trace().grid[0]] == [512, 512]
    first = {"a": [], "b": []}
    walk = tile_order("matmul", "grouped", (32, 16), group=16)
    for place in range(132):
        row, column = walk.inv(place)
        first["a"].append(row)
        first["b"].append(column)
    assert (max(first["a"]), max(first["b"])) == (15, 8)


def test_any_layout_of_the_tiles_is_an_order():
    order = OrderBy(RegP([2, 2], [2, 1]), gallery.reverse(2)).GroupBy([4, 2])
    check(build(128, 64, 32, order=order), None, 128, 64, 32)


def test_a_matrix_may_lie_in_blocks():
    blocked = OrderBy(RegP([2, 32, 2, 32], [1, 3, 2, 4])).GroupBy([64, 64])
    kernel = matmul.build(64, 64, 64, f16, a=blocked, tiling=SMALL)
    assert {a.width for _, a in kernel.trace().accesses() if a.buffer.name == "a"} == {8}
    check(kernel, None, 64, 64, 64)


SWIZZLED = gallery.xor_swizzle(32, 32, vec=8)
BLOCKS = OrderBy(RegP([4, 8, 4, 8], [1, 3, 2, 4])).GroupBy([32, 32])  # each 8 x 8 side by side


@pytest.mark.parametrize(
    "tiles",
    [
        (gallery.padded(32, 32, 8), Row(32, 32)),
        (Col(32, 32), Col(32, 32)),
        (SWIZZLED, Transposed(lego.as_layout(SWIZZLED))),
        (BLOCKS, BLOCKS),
    ],
    ids=["padded", "columns", "swizzled", "blocks"],
)
def test_shared_tiles_are_layouts(tiles):
    kernel = build(64, 64, 64, tiles=tiles)
    assert kernel.trace().shared[0].layout == lego.as_layout(tiles[0])
    check(kernel, None, 64, 64, 64)


EPILOGUES = {
    "relu": (matmul.relu(), ()),
    "scale": (matmul.scale(), (np.float32(0.5),)),
    "bias": (matmul.bias(96), (np.arange(96) - 40,)),
}


@pytest.mark.parametrize("c", [Row, Col], ids=["C in rows", "C in columns"])
@pytest.mark.parametrize("name", EPILOGUES)
def test_epilogues(name, c):
    epilogue, further = EPILOGUES[name]
    check(build(64, 96, 32, c=c, epilogue=epilogue, result=f16), None, 64, 96, 32, *further)


def test_an_epilogue_knows_where_it_is():
    """Half of the matrix keeps its value: the rows below the diagonal, by the index that the epilogue gets."""

    def lower(value, place):
        lanes = [lego.where(place.row >= place.column + i, value[i], 0.0) for i in range(value.width)]
        return lego.vector(*lanes)

    epilogue = matmul.Epilogue(lower, np.tril)
    check(build(64, 64, 32, epilogue=epilogue), None, 64, 64, 32)


def test_an_epilogue_that_gives_one_number_gives_it_to_all_elements():
    epilogue = matmul.Epilogue(lambda value, place: place.row, lambda c: 0 * c + np.arange(64, dtype=c.dtype)[:, None])
    check(build(64, 64, 32, epilogue=epilogue), None, 64, 64, 32)


def test_the_source_names_no_hardware():
    text = build(64, 64, 64).mlir()
    assert "vector.contract" in text
    assert "nvgpu" not in text
    assert "nvvm" not in text


def test_the_contractions_are_where_the_layouts_put_them():
    """A transposed tile is read by a permuted transfer, an untransposed one directly."""
    straight, turned = (build(64, 64, 64, b=b).mlir().count("permutation_map") for b in (Col, Row))
    assert straight == 0
    assert turned == 2


def test_each_contraction_shares_an_operand_with_the_one_before():
    contracts = [s for s in build(64, 64, 64).trace().statements() if type(s).__name__ == "Contract"]
    steps = 2
    shared = [x.a == y.a or x.b == y.b for x, y in itertools.pairwise(contracts)]
    assert shared.count(False) == steps - 1


def test_the_reference_accumulates_in_f32_and_rounds_once():
    kernel = build(32, 32, 64, result=f16)
    a, b = operands(32, 32, 64)
    assert kernel.expected(a, b).dtype == np.float16
    np.testing.assert_array_equal(kernel.expected(a, b), (a @ b).astype(np.float16))


# -- messages


REFUSED = [
    (lambda: ProductTile(48, 64, 32, (2, 2)), UsageError, "m=48 must be a multiple of 16 for each of its 2 warps"),
    (lambda: ProductTile(64, 40, 32, (2, 2)), UsageError, "n=40 must be a multiple of 8 for each of its 2 warps"),
    (lambda: build(64, 64, 64, order="snake"), UsageError, "no order 'snake'; there are row, column, grouped, morton"),
    (lambda: build(64, 64, 64, order=Row(4, 1)), LayoutError, r"a layout of at least \(2, 2\) tiles, got Row\(4, 1\)"),
    (lambda: build(64, 64, 64, tiles=(gallery.xor_swizzle(32, 32, vec=4), Row(32, 32))).trace(), LayoutError,
     r"contiguous segments of 8 elements of a row or of a column, got .*vec=4"),
    (lambda: kernel_of(lambda a, c: a.part((0, 0), (16, 16))).trace(), LayoutError, r"copy it there with lego.stage"),
    (lambda: kernel_of(lambda a, c: lego.accumulator(f32, 24, 8)).trace(), TraceError,
     "rows must be a multiple of 16 and columns of 8, got 24 x 8"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "message"), REFUSED)
def test_a_call_that_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"a": Row(64, 32)}, r"matmul: a is 64 x 96, and its layout is Row\(64, 32\)"),
        ({"c": Row(64, 64, 1)}, r"matmul: c is 64 x 64, and its layout is Row\(64, 64, 1\)"),
        ({"tiles": (Row(32, 32), Row(16, 32))}, r"the shared tile of B is 32 x 32, and its layout is Row\(16, 32\)"),
    ],
)
def test_layouts_of_other_shapes(given, message):
    with pytest.raises(LayoutError, match=message):
        matmul.build(64, 64, 96, f16, tiling=SMALL, **given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"tiles": (Row(32, 32),)}, "tiles are two layouts, of A's and of B's shared tile, got 1"),
        ({"epilogue": matmul.Epilogue(max, max, {"a": f32})}, "operands need names other than a, b, c, got a"),
    ],
)
def test_what_cannot_be_built(given, message):
    with pytest.raises(UsageError, match=message):
        matmul.build(**{"M": 64, "N": 64, "K": 64, "dtype": f16, "tiling": SMALL, **given})


@pytest.mark.parametrize("size", [64.0, 0, True, "64"])
def test_a_size_is_an_int_or_symbolic(size):
    with pytest.raises(LayoutError, match=r"matmul: a size is an int >= 1 or lego.size\(...\), got"):
        matmul.build(size, 64, 64, f16)


@pytest.mark.parametrize(
    ("given", "message"),
    [((32.0, 32, 32), "m=32.0 must be a multiple of 16"), ((32, 32, 32, (1, 2, 1)), r"two numbers, .*got \(1, 2, 1\)")],
)
def test_a_tile_of_anything_but_ints(given, message):
    with pytest.raises(UsageError, match=message):
        ProductTile(*given)


def kernel_of(body, threads=32):
    @lego.kernel(grid=1, block=threads)
    def k(a: lego.Tensor(f16, Row(32, 32)), c: lego.Tensor(f32, Row(32, 32))):
        body(a, c)

    return k


def test_products_of_shapes_that_do_not_fit():
    def body(a, c):
        tile = lego.shared(f16, Row(32, 32))
        lego.mma(tile.part((0, 0), (32, 16)), tile.part((0, 0), (32, 32)), lego.accumulator(f32, 32, 32))

    with pytest.raises(TraceError, match=r"lego.mma: 32 x 16 times 32 x 32 into 32 x 32; the depths must agree"):
        kernel_of(body).trace()


def test_products_of_other_types():
    def body(a, c):
        tile = lego.shared(lego.f64, Row(32, 32))
        part = tile.part((0, 0), (32, 32))
        lego.mma(part, part, lego.accumulator(lego.f64, 32, 32))

    with pytest.raises(TraceError, match="both operands of one type, got f64 with f64 into f64"):
        kernel_of(body).trace()


def test_a_part_that_leaves_its_tile():
    def body(a, c):
        lego.shared(f16, Row(32, 32)).part((lego.thread_id.x, 0), (16, 16))

    with pytest.raises(LayoutError, match=r"a part of 16 from tx leaves axis 0 of 32 for tx = \d+"):
        kernel_of(body).trace()


def test_an_accumulator_into_columns():
    def body(a, c):
        lego.accumulator(f32, 32, 32).store(lego.shared(f32, Col(32, 32)), (0, 0))

    with pytest.raises(LayoutError, match="stored into shared rows"):
        kernel_of(body).trace()


def test_tiles_that_are_read_in_another_order_than_they_lie():
    def body(a, c):
        tile = lego.shared(f16, gallery.xor_swizzle(32, 32))
        part = tile.part((0, 0), (32, 32))
        lego.mma(part, part, lego.accumulator(f32, 32, 32))

    with pytest.raises(
        LayoutError, match=r"read in contiguous segments of 8 elements .*, which .* does not keep together"
    ):
        kernel_of(body).trace()


def test_a_view_with_its_indices_turned():
    kernel = kernel_of(lambda a, c: c.T.store(lego.f32(a.T.load(3, lego.thread_id.x)), 3, lego.thread_id.x))
    load, store = (access for _, access in kernel.trace().accesses())
    assert str(load.position) == str(store.position) == "32*tx + 3"


@pytest.mark.parametrize("dtype", [lego.f8e4m3fn, lego.f8e5m2, lego.i8, f32])
def test_products_of_bytes_and_of_f32_in_the_interpreter(dtype):
    result = lego.i32 if dtype is lego.i8 else f32
    kernel = matmul.build(40, 32, 48, dtype, b=Col(48, 32), result=result, tiling=ProductTile(32, 32, 32, (2, 1)))
    check(kernel, None, 40, 32, 48)
