"""Every transpose, run: f32 and f16, sizes that tiles divide and sizes that they do not, known and symbolic."""

import inspect
import re

import numpy as np
import pytest
from launching import launch

import lego_mlir as lego
from lego_mlir import Col, Row, bf16, f16, f32, gallery, i8, interp, u16
from lego_mlir.errors import LayoutError, UsageError
from lego_mlir.expr.evaluate import evaluate
from lego_mlir.kernels import copy, transpose
from lego_mlir.kernels.realigned import Realigned
from lego_mlir.kernels.word_pairs import WordPairs
from lego_mlir.tracing.trace.trace import Barrier, Load, Store

SIZES = [(64, 128), (100, 52), (33, 65)]


def matrix(m, n, dtype):
    return np.arange(m * n).reshape(m, n).astype(dtype.numpy)


@pytest.mark.parametrize("dtype", [f32, f16], ids=str)
@pytest.mark.parametrize(("m", "n"), SIZES)
@pytest.mark.parametrize("variant", transpose.VARIANTS)
def test_transpose(variant, m, n, dtype):
    kernel = transpose.build(variant, m, n, dtype)
    source = matrix(m, n, dtype)
    _, result = launch(kernel, source, np.zeros((n, m)))
    np.testing.assert_array_equal(result, kernel.expected(source))


@pytest.mark.parametrize("variant", transpose.VARIANTS)
def test_one_kernel_with_symbolic_sizes_does_for_all(variant):
    kernel = transpose.build(variant, lego.size("M"), lego.size("N"), f32)
    for m, n in SIZES:
        source = matrix(m, n, f32)
        _, result = launch(kernel, source, np.zeros((n, m)), sizes={"M": m, "N": n})
        np.testing.assert_array_equal(result, source.T)


@pytest.mark.parametrize("dtype", [f16, i8], ids=str)
def test_sizes_without_a_maximum_are_proved_to_be_inside_of_memory(dtype):
    kernel = transpose.build("vectorised", lego.size("M"), lego.size("N"), dtype)
    source = matrix(33, 41, dtype)
    _, result = launch(kernel, source, np.zeros((41, 33)), sizes={"M": 33, "N": 41})
    np.testing.assert_array_equal(result, source.T)


def test_symbolic_sizes_that_are_multiples_allow_vectors():
    M, N = lego.size("M", min=4, multiple_of=4), lego.size("N", min=4, multiple_of=4)
    kernel = transpose.build("vectorised", M, N, f32)
    assert {a.width for s, a in kernel.trace().accesses() if a.buffer.space == "global"} == {4}
    source = matrix(60, 44, f32)
    _, result = launch(kernel, source, np.zeros((44, 60)), sizes={"M": 60, "N": 44})
    np.testing.assert_array_equal(result, source.T)


@pytest.mark.parametrize(("dtype", "width"), [(f32, 4), (f16, 8)], ids=str)
def test_the_vectorised_transpose_moves_sixteen_bytes_at_once(dtype, width):
    kernel = transpose.build("vectorised", 4096, 4096, dtype)
    assert {a.width for s, a in kernel.trace().accesses() if a.buffer.space == "global"} == {width}
    assert f"vector<{width}x{dtype}>" in kernel.mlir()


def test_masks_are_there_only_where_tiles_do_not_divide():
    divided, not_divided = (transpose.build("shared", n, n, f32) for n in (64, 65))
    assert not any(a.is_masked for _, a in divided.trace().accesses())
    assert all(a.is_masked == (a.buffer.space == "global") for _, a in not_divided.trace().accesses())
    assert "scf.if" not in divided.mlir()


def test_a_partly_divided_matrix_has_half_a_mask():
    kernel = transpose.build("shared", 64, 65, f32)
    masks = {str(a.mask) for s, a in kernel.trace().accesses() if isinstance(s, Load) and a.is_masked}
    assert masks == {"32*(bx % 3) + tx % 32 < 65"}


def test_without_its_barrier_the_interpreter_finds_the_race(monkeypatch):
    kernel = transpose.build("shared", 64, 64, f32)
    assert sum(isinstance(s, Barrier) for s in kernel.trace().statements()) == 1
    monkeypatch.setattr(kernel, "mlir", lambda form: re.sub("gpu.barrier.*", "", type(kernel).mlir(kernel, form)))
    with pytest.raises(AssertionError, match=r"(?i)race|uninit"):
        launch(kernel, matrix(64, 64, f32), np.zeros((64, 64)))


@pytest.mark.parametrize("order", ["row", "column", "grouped", "morton", "a layout"])
@pytest.mark.parametrize("variant", ["shared", "vectorised"])
def test_any_layout_of_the_tiles_is_an_order_of_the_blocks(variant, order):
    m, n = 200, 136
    tiles = (4, 3) if variant == "vectorised" else (7, 5)
    kernel = transpose.build(
        variant,
        m,
        n,
        f32,
        order=gallery.reverse(*tiles) if order == "a layout" else order,
        **({"tile": (64, 64)} if variant == "vectorised" else {}),
    )
    source = matrix(m, n, f32)
    _, result = launch(kernel, source, np.zeros((n, m)))
    np.testing.assert_array_equal(result, source.T)


def first_stores(kernel):
    """Where the first three blocks store their first element."""
    stored = next(a for s, a in kernel.trace().accesses() if isinstance(s, Store) and a.buffer.name == "dst")
    return [evaluate(stored.position, {"bx": block, "tx": 0}) for block in range(3)]


def test_blocks_go_along_the_rows_of_tiles_or_down_their_columns():
    assert first_stores(transpose.build("shared", 64, 96, f32, order="row")) == [0, 32 * 64, 64 * 64]
    assert first_stores(transpose.build("shared", 64, 96, f32, order="column")) == [0, 32, 32 * 64]


def test_without_an_order_large_results_are_written_in_whole_rows():
    assert first_stores(transpose.build("padded", 2048, 2048, f32)) == [0, 32 * 2048, 64 * 2048]
    assert first_stores(transpose.build("padded", 2048, 2080, f32)) == [0, 32, 64]
    symbolic = transpose.build("padded", lego.size("M"), lego.size("N"), f32)
    stored = next(a for s, a in symbolic.trace().accesses() if isinstance(s, Store) and a.buffer.name == "dst")
    assert evaluate(stored.position, {"bx": 1, "tx": 0, "M": 64, "N": 96}) == 32


@pytest.mark.parametrize(("tile", "threads"), [((32, 64), 64), ((64, 32), 128), ((128, 64), 256)])
@pytest.mark.parametrize("variant", transpose.VARIANTS)
def test_tiles_need_not_be_square(variant, tile, threads):
    kernel = transpose.build(variant, 100, 60, f32, tile=tile, threads=threads)
    source = matrix(100, 60, f32)
    _, result = launch(kernel, source, np.zeros((60, 100)))
    np.testing.assert_array_equal(result, source.T)


@pytest.mark.parametrize(
    ("dtype", "sizes", "tile", "threads"),
    [
        (f32, (1024, 1024), (32, 32), 256),
        (f32, (2048, 2048), (32, 64), 128),
        (f32, (4096, 4096), (64, 64), 256),
        (f16, (2048, 2048), (64, 64), 256),
        (f16, (4096, 4096), (64, 128), 128),
        (f16, (8192, 8192), (128, 128), 256),
        (f16, (2048, 2044), (64, 64), 256),
        (f16, (3008, 3008), (64, 64), 64),
        (i8, (8192, 8191), (256, 64), 512),
        (i8, (4097, 4097), (128, 64), 512),
        (f32, (4097, 4097), (128, 64), 1024),
        (f32, (1025, 4097), (64, 32), 512),
    ],
    ids=str,
)
def test_the_vectorised_tile_grows_with_the_matrix(dtype, sizes, tile, threads):
    kernel = transpose.build("vectorised", *sizes, dtype)
    assert kernel.block == (threads,)
    early = 31 if dtype is i8 and sizes[0] % 32 else 0  # rows of sectors that begin before a tile
    assert kernel.grid == (-(-(sizes[0] + early) // tile[0]) * -(-sizes[1] // tile[1]),)


@pytest.mark.parametrize("dtype", [f16, bf16, i8, f32], ids=str)
@pytest.mark.parametrize("width", [2, 4])
@pytest.mark.parametrize(("m", "n"), [(131, 197), (200, 129), (129, 200), (131, 130)])
def test_the_realigned_transpose_of_odd_sizes(dtype, width, m, n):
    kernel = transpose.build("realigned", m, n, dtype, tile=(64, 64), threads=256, width=width)
    source = (np.arange(m * n) % 127).reshape(m, n).astype(dtype.numpy)
    _, result = launch(kernel, source, np.zeros((n, m)))
    np.testing.assert_array_equal(result, source.T)
    assert {a.width for s, a in kernel.trace().accesses() if a.buffer.space == "global"} == {width, 1}


def test_the_realigned_transpose_has_no_bank_conflicts_inside():
    arrays = [np.zeros(131 * 195, np.float16) for _ in range(2)]
    kernel = transpose.build("realigned", 131, 195, f16, tile=(64, 64), width=2)
    report = interp.launch(kernel.mlir(), args=arrays)
    assert sum(site.buffer == "shared0" for site in report.sites) > 20
    assert all(site.conflicts == 0 for site in report.sites if site.buffer == "shared0")


@pytest.mark.parametrize(("dtype", "width"), [(i8, 4), (f16, 8)], ids=str)
def test_the_realigned_transpose_stores_whole_sectors_inside(dtype, width):
    m, n = 259, 193
    arrays = [np.zeros(m * n, dtype.numpy) for _ in range(2)]
    kernel = transpose.build("realigned", m, n, dtype, tile=(64, 64), threads=256, width=width)
    lines, first = inspect.getsourcelines(Realigned._store)
    report = interp.launch(kernel.mlir(), args=arrays)
    inside = [site for site in report.sites if first <= site.place.line < first + len(lines) and site.kind == "write"]
    assert sum(site.sectors for site in inside) > 100
    assert all(site.sectors == site.ideal_sectors for site in inside)


@pytest.mark.parametrize(("dtype", "tile"), [(f16, (64, 64)), (u16, (32, 64))], ids=str)
@pytest.mark.parametrize(("m", "n"), [(1, 1), (1, 3), (15, 16), (131, 195), (130, 195), (131, 194), (130, 194)])
def test_two_rows_are_a_word_in_each_transpose_of_2_byte_elements(dtype, tile, m, n):
    kernel = transpose.build("realigned", m, n, dtype, tile=tile, threads={64: 256, 32: 64}[tile[0]])
    source = (np.arange(m * n) % 127).reshape(m, n).astype(dtype.numpy)
    _, result = launch(kernel, source, np.zeros((n, m)))
    np.testing.assert_array_equal(result, source.T)


def test_words_of_two_rows_fill_whole_sectors_of_the_result_without_bank_conflicts():
    m, n = 259, 201
    arrays = [np.zeros(m * n, np.float16) for _ in range(2)]
    report = interp.launch(transpose.build("realigned", m, n, f16).mlir(), args=arrays)
    assert all(site.conflicts == 0 for site in report.sites if site.buffer == "shared0")
    lines, first = inspect.getsourcelines(WordPairs._store)
    inside = [site for site in report.sites if first <= site.place.line < first + len(lines) and site.kind == "write"]
    assert sum(site.sectors for site in inside) > 100
    assert all(site.sectors == site.ideal_sectors for site in inside)


@pytest.mark.parametrize(
    ("sizes", "dtype", "tile", "order"),
    [
        pytest.param((8191, 8191), f16, (128, 128), "column", marks=pytest.mark.long),
        ((8192, 8190), bf16, (128, 128), "column"),
        pytest.param((8188, 8192), f16, (128, 128), "column", marks=pytest.mark.long),
        ((4097, 4097), f16, (128, 64), "row"),
        pytest.param((3000, 3000), f16, (128, 64), "row", marks=pytest.mark.long),
        pytest.param((2500, 2500), f16, (128, 64), "row", marks=pytest.mark.long),
        pytest.param((2047, 2049), f16, (128, 64), "row", marks=pytest.mark.long),
        ((1025, 1027), f16, (64, 64), "row"),
    ],
)
def test_sizes_that_no_vector_of_16_bytes_divides_take_words_of_two_rows(sizes, dtype, tile, order):
    kernel = transpose.build("vectorised", *sizes, dtype)
    (m, n), (rows, columns) = sizes, tile
    grid = (-(-(m + 15) // rows), -(-n // columns))
    assert kernel.grid == (grid[0] * grid[1],)
    assert {a.buffer.layout.dims()[:2] for _, a in kernel.trace().accesses() if a.buffer.space == "workgroup"} == {
        (2, columns // 2)
    }
    same = transpose.build("realigned", *sizes, dtype, order=order)
    assert same.mlir(locations=False) == kernel.mlir(locations=False)


def test_vectors_of_odd_sizes_are_realigned_if_elements_are_narrower_than_a_word():
    assert {a.width for _, a in transpose.build("vectorised", 401, 403, i8).trace().accesses()} == {2, 1}
    assert {a.width for _, a in transpose.build("vectorised", 401, 403, f32).trace().accesses()} == {1}
    given = transpose.build("vectorised", 401, 403, f16, width=1)
    assert {a.width for _, a in given.trace().accesses()} == {1}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"width": 1}, "width=1 of the realigned variant must be a power of two from 2 to 16 bytes, 8 elements of f16"),
        ({"width": 16}, "width=16 of the realigned variant"),
        ({"threads": 96, "width": 2}, "threads=96 must divide the tile 64 x 64 evenly into vectors of 2 along both"),
        ({"threads": 32, "width": 2}, "2 or a multiple of 2 rows at a time"),
        ({"tile": (63, 64), "width": 2}, "must divide the tile 63 x 64 evenly"),
        (
            {"threads": 96},
            "threads=96 must divide the tile 64 x 64 evenly: a power of two, and a multiple of the words",
        ),
        ({"threads": 0}, "threads=0 positive"),
        ({"tile": (63, 64)}, "sides of the tile 63 x 64 must be multiples of 16 elements, a sector"),
        ({"tile": (64, 0)}, "sides of the tile 64 x 0 must be multiples of 16 elements"),
    ],
)
def test_tiles_that_cannot_be_realigned_are_refused(given, message):
    with pytest.raises(UsageError, match=message):
        transpose.build("realigned", 401, 403, f16, **given)


def test_threads_that_do_not_divide_the_tile_are_refused():
    with pytest.raises(UsageError, match=r"threads=96 must divide the 16 x 16 parts of 4 x 4 of the tile 64 x 64"):
        transpose.build("vectorised", 4096, 4096, f32, threads=96)
    with pytest.raises(UsageError, match=r"the 7 x 16 parts of 4 x 4 of the tile 30 x 64"):
        transpose.build("vectorised", 4096, 4096, f32, tile=(30, 64))


@pytest.mark.parametrize("given", [{"threads": 0}, {"threads": -32}, {"tile": (0, 32)}])
def test_no_threads_and_no_tile_are_refused(given):
    with pytest.raises(UsageError, match=r"threads=.* must divide the .* evenly"):
        transpose.build("padded", 64, 64, f32, **given)


@pytest.mark.parametrize(
    ("dtype", "width", "most"), [(f32, 3, 4), (f32, 0, 4), (f32, -4, 4), (f32, 8, 4), (f16, 16, 8)]
)
def test_widths_that_no_access_has_are_refused(dtype, width, most):
    with pytest.raises(UsageError, match=rf"width={width} must be a power of two of at most 16 bytes, {most} elements"):
        transpose.build("vectorised", 64, 64, dtype, width=width)


@pytest.mark.parametrize("order", ["hilbert", "morton"])
def test_orders_that_symbolic_sizes_do_not_have(order):
    message = f"the order '{order}' needs concrete sizes; take row, column, grouped, columns, zigzag or a"
    with pytest.raises(UsageError, match=message):
        transpose.build("padded", lego.size("M", min=1), 64, f32, order=order)


def test_an_order_of_other_tiles_is_refused():
    orders = "row, column, grouped, morton, columns, zigzag, hilbert"
    with pytest.raises(UsageError, match=f"no order 'diagonal'; there are {orders}, or any layout of"):
        transpose.build("shared", 64, 64, f32, order="diagonal")
    with pytest.raises(LayoutError, match=r"must be a layout of \(2, 2\) tiles, got Row\(2, 3\)"):
        transpose.build("shared", 64, 64, f32, order=Row(2, 3))


def test_an_unknown_variant_names_those_there_are():
    with pytest.raises(UsageError, match="'diagonal'; there are naive, shared, padded, swizzled, vectorised"):
        transpose.build("diagonal", 64, 64, f32)


@pytest.mark.parametrize("dtype", [f32, f16], ids=str)
@pytest.mark.parametrize("layouts", [(Row, Row), (Row, Col), (Col, Row)], ids=["rows", "to columns", "from columns"])
def test_copy_between_layouts(layouts, dtype):
    source, destination = layouts
    kernel = copy.build(40, 70, dtype, source(40, 70), destination(40, 70))
    given = matrix(40, 70, dtype)
    _, result = launch(kernel, given, np.zeros((40, 70)))
    np.testing.assert_array_equal(result, given)


def test_copying_to_columns_is_the_naive_transpose_of_the_memory():
    to_columns = copy.build(64, 96, f32, destination=Col(64, 96))
    given = matrix(64, 96, f32)
    _, copied = launch(to_columns, given, np.zeros((64, 96)))
    _, turned = launch(transpose.build("naive", 64, 96, f32), given, np.zeros((96, 64)))
    np.testing.assert_array_equal(copied.T, turned)
    np.testing.assert_array_equal(turned, given.T)


def test_a_wide_copy_along_columns_is_refused_with_the_reason():
    assert "vector<4xf32>" in copy.build(64, 128, f32, width=4).mlir()
    with pytest.raises(
        LayoutError, match=r"copy\.py:\d+: dst.*4 elements of f32 at once are not possible: not aligned"
    ):
        copy.build(64, 128, f32, destination=Col(64, 128), width=4).trace()


@pytest.mark.parametrize("dtype", [f32, f16], ids=str)
@pytest.mark.parametrize("variant", [name for name in transpose.VARIANTS if name != "realigned"])
def test_bank_conflicts_and_sectors_are_those_of_the_table(variant, dtype):
    n = 256
    arrays = [np.zeros(n * n, dtype.numpy) for _ in range(2)]
    report = interp.launch(transpose.build(variant, n, n, dtype).mlir(), args=arrays)
    tile = [site for site in report.sites if site.buffer == "shared0"]
    memory = [site for site in report.sites if site.buffer != "shared0"]
    extra = {site.conflicts // site.requests for site in tile}
    match variant:
        case "shared":
            assert extra == {0, 31 if dtype is f32 else 15}  # two f16 share a word of a bank, rows are 16 banks apart
        case "naive":
            assert not tile and {site.coalescing for site in memory} != {1.0}
        case _:
            assert extra == {0}
    if variant != "naive":
        assert {site.coalescing for site in memory} == {1.0}


@pytest.mark.parametrize(
    ("dtype", "width"), [(f32, 1), (f32, 2), (f32, 4), (f16, 1), (f16, 2), (f16, 4), (f16, 8)], ids=str
)
def test_vectors_of_any_width_are_free_of_conflicts(dtype, width):
    m, n = 3 * 64 + width, 64 + 5 * width
    source = matrix(m, n, dtype)
    result = np.zeros((n, m), dtype.numpy)
    kernel = transpose.build("vectorised", m, n, dtype, width=width)
    report = interp.launch(kernel.mlir(), args=[source.reshape(-1), result.reshape(-1)])
    np.testing.assert_array_equal(result, source.T)
    assert report.clean
    assert {site.conflicts for site in report.sites if site.buffer == "shared0"} == {0}
