"""`k(a, b, M=..)` on NumPy arrays: the JIT and the interpreter, sizes from shapes, results allocated or in place."""

import ml_dtypes
import numpy as np
import pytest

import lego_mlir as lego
from lego_mlir import Col, Row, Strided, f16, f32, gallery
from lego_mlir.errors import KernelFaultError, UsageError
from lego_mlir.interp.counters import Counters
from lego_mlir.kernels import matmul, transpose

M, N = lego.size("M"), lego.size("N")


@lego.kernel(grid=lego.cdiv(M * N, 64), block=64)
def scaled_sum(
    alpha: f32, x: lego.Tensor(f32, Row(M, N)), y: lego.Tensor(f32, Col(M, N)), z: lego.Tensor(f32, Row(M, N))
):
    i = lego.block_id.x * 64 + lego.thread_id.x
    with lego.when(i < M * N):
        r, c = i // N, i % N
        z[r, c] = alpha * x[r, c] + y[r, c]


def operands(m=5, n=7):
    x = np.arange(m * n, dtype=np.float32).reshape(m, n)
    return x, np.asfortranarray(x[::-1] * 3)


@pytest.mark.parametrize("check", [False, True])
def test_a_result_that_is_left_out_is_allocated(check):
    x, y = operands()
    z = scaled_sum(2.0, x, y, check=check)
    assert type(z) is np.ndarray
    np.testing.assert_array_equal(z, 2 * x + y)


@pytest.mark.parametrize("check", [False, True])
def test_a_result_that_is_given_is_written_in_place_and_returned(check):
    x, y = operands()
    z = np.zeros_like(x)
    assert scaled_sum(2.0, x, y, z, check=check) is z
    np.testing.assert_array_equal(z, 2 * x + y)


def test_arguments_by_name_and_plans_of_several_shapes():
    for m, n in ((5, 7), (2, 3), (5, 7), (1, 1)):
        x, y = operands(m, n)
        np.testing.assert_array_equal(scaled_sum(alpha=0.5, x=x, y=y), x / 2 + y)
        np.testing.assert_array_equal(scaled_sum(np.float32(0.5), x, y=y, M=m), x / 2 + y)
        np.testing.assert_array_equal(scaled_sum(3, x, y, N=n, M=m), x * 3 + y)


def test_an_array_without_dimensions_is_a_number():
    x, y = operands()
    for alpha in (np.asarray(2.0), np.asarray(2, np.int32), np.float16(2)):
        np.testing.assert_array_equal(scaled_sum(alpha, x, y), 2 * x + y)


def test_one_dimension_holds_the_elements_in_memory_order():
    x, y = operands()
    z = scaled_sum(2.0, x.reshape(-1), y.T.reshape(-1), M=5, N=7)
    np.testing.assert_array_equal(z, 2 * x + y)
    out = np.zeros(35, np.float32)
    assert scaled_sum(2.0, x, y, out) is out
    np.testing.assert_array_equal(out.reshape(5, 7), 2 * x + y)


def test_a_layout_without_strides_takes_memory():
    layout = lego.as_layout(gallery.morton(8, 8))

    @lego.kernel(grid=1, block=64)
    def spread(x: lego.Tensor(f32, Row(8, 8)), y: lego.Tensor(f32, layout)):
        i, j = lego.thread_id.x // 8, lego.thread_id.x % 8
        y[i, j] = x[i, j]

    x = np.arange(64, dtype=np.float32).reshape(8, 8)
    for check in (False, True):
        memory = spread(x, check=check)
        assert memory.shape == (64,)
        np.testing.assert_array_equal(memory[layout[:, :]], x)
    with pytest.raises(
        UsageError, match=r"y has the layout .*, which has no strides, so an array of the shape \(8, 8\)"
    ):
        spread(x, x.copy())


def test_a_padded_layout_is_a_strided_array():
    layout = gallery.padded(8, 6, 2)

    @lego.kernel(grid=1, block=48)
    def widen(x: lego.Tensor(f32, Row(8, 6)), y: lego.Tensor(f32, layout)):
        i, j = lego.thread_id.x // 6, lego.thread_id.x % 6
        y[i, j] = x[i, j]

    x = np.arange(48, dtype=np.float32).reshape(8, 6)
    for check in (False, True):
        made = widen(x, check=check)
        assert made.strides == (32, 4)
        np.testing.assert_array_equal(made, x)
        wide = np.full((8, 8), -1, np.float32)
        assert widen(x, wide[:, :6], check=check) is not None
        np.testing.assert_array_equal(wide[:, :6], x)
        assert (wide[:, 6:] == -1).all()


def test_a_tiled_tensor_is_a_transposed_array():
    layout = Row(8, 6).tile_by([4, 3], [2, 2])

    @lego.kernel(grid=1, block=48)
    def by_tiles(x: lego.Tensor(f32, layout), y: lego.Tensor(f32, Row(48))):
        i = lego.thread_id.x
        y[i] = x[Row(4, 3, 2, 2).inv(i)]

    x = np.arange(48, dtype=np.float32).reshape(8, 6)
    tiles = x.reshape(4, 2, 3, 2).transpose(0, 2, 1, 3)
    np.testing.assert_array_equal(by_tiles(tiles), tiles.reshape(-1))


def test_types_without_a_name_in_numpy():
    @lego.kernel(grid=1, block=8)
    def twice(factor: lego.bf16, x: lego.Tensor(lego.bf16, Row(8)), y: lego.Tensor(f16, Row(8))):
        t = lego.thread_id.x
        y[t] = (x[t] * factor).to(f16)

    x = np.arange(8).astype(ml_dtypes.bfloat16)
    for check in (False, True):
        np.testing.assert_array_equal(twice(1.5, x, check=check), np.arange(8) * np.float16(1.5))
        words = x.view(np.uint16)
        np.testing.assert_array_equal(twice(1.5, words, check=check), np.arange(8) * np.float16(1.5))


def test_integers_of_either_sign():
    @lego.kernel(grid=1, block=8)
    def halve(x: lego.Tensor(lego.u8, Row(8)), y: lego.Tensor(lego.u8, Row(8))):
        t = lego.thread_id.x
        y[t] = x[t] >> 1

    x = np.arange(248, 256, dtype=np.uint8)
    for check in (False, True):
        made = halve(x, check=check)
        assert made.dtype == np.uint8
        np.testing.assert_array_equal(made, x >> 1)
        np.testing.assert_array_equal(halve(x.view(np.int8), check=check), x >> 1)


def test_several_results_come_in_the_order_of_the_signature():
    @lego.kernel(grid=1, block=8)
    def both(low: lego.Tensor(f32, Row(8)), x: lego.Tensor(f32, Row(8)), high: lego.Tensor(f32, Row(8))):
        t = lego.thread_id.x
        low[t], high[t] = x[t] - 1, x[t] + 1

    x = np.zeros(8, np.float32)
    low, high = both(x)
    assert (low == -1).all()
    assert (high == 1).all()
    given = np.zeros(8, np.float32)
    low, high = both(x, high=given)
    assert high is given
    assert (low == -1).all()


def test_a_tensor_that_is_read_and_written_is_an_input():
    @lego.kernel(grid=1, block=8)
    def increment(x: lego.Tensor(f32, Row(8))):
        t = lego.thread_id.x
        x[t] = x[t] + 1

    x = np.zeros(8, np.float32)
    assert increment(x) is x
    assert (x == 1).all()
    with pytest.raises(UsageError, match="kernel increment takes x; got 0 arguments"):
        increment()


def test_a_checked_call_finds_a_race_and_leaves_the_results():
    @lego.kernel(grid=1, block=64)
    def racing(x: lego.Tensor(f32, Row(64)), y: lego.Tensor(f32, Row(1))):
        y[0] = x[lego.thread_id.x]

    x, y = np.arange(64, dtype=np.float32), np.full(1, -1, np.float32)
    with pytest.raises(KernelFaultError, match=r"kernel racing: the interpreter found \d+ faults\n.*race") as raised:
        racing(x, y, check=True)
    assert raised.value.faults
    assert y[0] == -1


def test_a_kernel_with_shared_tiles_and_sizes_of_its_grid():
    kernel = transpose.build("padded", M, N, f32)
    x = np.random.default_rng(0).standard_normal((70, 33)).astype(np.float32)
    np.testing.assert_array_equal(kernel(x), x.T)
    np.testing.assert_array_equal(kernel(x, check=True), x.T)


def test_a_checked_call_counts_no_requests(monkeypatch):
    monkeypatch.setattr(Counters, "count", lambda *given: pytest.fail("nothing shows what is counted"))
    x = np.arange(70 * 33, dtype=np.float32).reshape(70, 33)
    np.testing.assert_array_equal(transpose.build("padded", M, N, f32)(x, check=True), x.T)


def test_a_kernel_without_machine_code_on_the_cpu():
    kernel = matmul.build(16, 16, 16, f16, tiling=matmul.ProductTile(16, 16, 16, (1, 1)))
    a, b = np.random.default_rng(0).integers(-4, 5, (2, 16, 16)).astype(np.float16)
    with pytest.raises(UsageError, match=r"kernel matmul: no machine .* of .*vector.contract.*with check=True"):
        kernel(a, b)
    np.testing.assert_array_equal(kernel(a, b, check=True), a.astype(np.float32) @ b.astype(np.float32))


def by_strides(name):
    strides = [lego.size(f"{name}_row", multiple_of=8), lego.size(f"{name}_column")]
    return lego.Tensor(f32, Strided([M, N], strides, claim=True))


@lego.kernel(grid=lego.cdiv(M * N, 64), block=64)
def copied(x: by_strides("x"), y: by_strides("y")):
    i = lego.block_id.x * 64 + lego.thread_id.x
    with lego.when(i < M * N):
        y[i // N, i % N] = x[i // N, i % N]


def test_a_result_without_strides_has_rows_of_the_multiple_that_its_layout_asks_for():
    x = np.arange(15, dtype=np.float32).reshape(3, 5)
    padded = np.zeros((3, 8), np.float32)[:, :5]
    padded[:] = x
    found = copied(padded)
    assert np.array_equal(found, x) and found.strides == (32, 4)
    given = copied(padded, y_row=1 * 8, y_column=16 * 3)
    assert np.array_equal(given, x) and given.strides == (32, 192)


def test_the_stride_of_an_axis_of_one_element_may_have_any_value():
    x = np.arange(5, dtype=np.float32)
    for given in (x[None], x.reshape(1, 5), np.zeros((4, 5), np.float32)[::4]):
        assert np.array_equal(copied(given), given)


STEPS = {
    "columns": [1, lego.size("far")],
    "rows": [lego.size("far"), 1],
    "a multiple": [lego.size("far") * 4, 1],
    "at least 64": [lego.size("far", min=64), lego.size("near", min=2)],
    "one from the other": [lego.size("near") * N, lego.size("near")],
    "those of the argument": [lego.size("x_row"), lego.size("x_column")],
}


@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (1, 5), (5, 1), (1, 1)])
@pytest.mark.parametrize("steps", STEPS.values(), ids=STEPS)
def test_a_result_without_strides_has_the_closest_that_its_layout_allows(steps, shape):
    into = [lego.size("x_row"), lego.size("x_column")]

    @lego.kernel(grid=lego.cdiv(M * N, 64), block=64)
    def kernel(
        x: lego.Tensor(f32, Strided([M, N], into, claim=True)), y: lego.Tensor(f32, Strided([M, N], steps, claim=True))
    ):
        i = lego.block_id.x * 64 + lego.thread_id.x
        with lego.when(i < M * N):
            y[i // N, i % N] = x[i // N, i % N]

    wide = np.arange(6 * shape[0] * shape[1], dtype=np.float32).reshape(2 * shape[0], 3 * shape[1])
    for x in (wide[::2, ::3], np.ascontiguousarray(wide[::2, ::3])):
        found = kernel(x)
        assert np.array_equal(found, x)
        for axis, step in enumerate(steps):
            if isinstance(step, int) and shape[axis] > 1:
                assert found.strides[axis] == 4 * step
