"""Registers of packed numbers: vectors and tiles, with and without a layout, against ml_dtypes; what is refused."""

import ml_dtypes
import numpy as np
import pytest

import lego_mlir as lego
from lego_mlir import Row, f2, f4e2m1fn, f6e2m3fn, f8e8m0fnu, f32, i4, interp, u4
from lego_mlir.errors import TraceError
from lego_mlir.interp.ptx import emulate
from lego_mlir.runtime.cpu_kernels import compile_kernels
from lego_mlir.toolchain import compile_kernel

HOST = {
    u4: ml_dtypes.uint4, i4: ml_dtypes.int4, f4e2m1fn: ml_dtypes.float4_e2m1fn, f6e2m3fn: ml_dtypes.float6_e2m3fn,
    f8e8m0fnu: ml_dtypes.float8_e8m0fnu,
}  # fmt: skip
TYPES = pytest.mark.parametrize("dtype", HOST, ids=str)


def packed(codes, bits):
    each = (codes[..., None] >> np.arange(bits)) & 1
    return np.packbits(each.reshape(*codes.shape[:-1], -1).astype(np.uint8), axis=-1, bitorder="little")


def drawn(dtype, shape):
    """Codes, their bytes, and their values by another library; scales of few powers of two, for exact sums."""
    low, high = (124, 131) if dtype is f8e8m0fnu else (0, 1 << dtype.bits)
    codes = np.random.default_rng(3).integers(low, high, shape).astype(np.uint8)
    return packed(codes, dtype.bits), codes.view(HOST[dtype]).astype(np.float32)


def found_by_all(kernel, given, shapes, block):
    """Results of the interpreter, which the PTX emulator and the CPU repeat bit for bit."""
    results = [[np.zeros(shape, dtype) for shape, dtype in shapes] for _ in range(3)]
    flat = [[*given, *made] for made in results]
    flat = [[array.reshape(-1) for array in arrays] for arrays in flat]
    assert interp.launch(kernel.mlir(), grid=1, block=block, args=flat[0]).clean
    emulate(compile_kernel((kernel,), target="sm_80").text, kernel.name, args=flat[1], grid=1, block=block)
    compile_kernels(kernel.mlir())[kernel.name](flat[2], grid=(1,))
    for other in results[1:]:
        for one, same in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(one, same)
    return results[0]


@TYPES
def test_a_vector_is_carried_by_a_loop(dtype):
    @lego.kernel(grid=1, block=32)
    def sums(w: lego.Tensor(dtype, Row(32, 8)), y: lego.Tensor(f32, Row(32, 8)), z: lego.Tensor(dtype, Row(32, 8))):
        t = lego.thread_id[0]
        ahead, total = lego.register(w.load(t, 0, width=8)), lego.register(f32, 0.0, 8)
        for k in lego.range(3):
            now = ahead.get()
            ahead.set(w.load((t + k + 1) % 32, 0, width=8))
            total += now.to(f32)
        for half in (0, 4):
            y.store(lego.vector(*(total.get()[half + k] for k in range(4))), t, half)
        z.store(ahead.value, t, 0)

    held, values = drawn(dtype, (32, 8))
    y, z = found_by_all(sums, [held], [((32, 8), np.float32), (held.shape, np.uint8)], 32)
    np.testing.assert_array_equal(y, values + np.roll(values, -1, 0) + np.roll(values, -2, 0))
    np.testing.assert_array_equal(z, np.roll(held, -3, 0))


@pytest.mark.parametrize("dtype", [u4, i4, f4e2m1fn, f6e2m3fn], ids=str)
def test_numbers_at_other_places_are_moved(dtype):
    @lego.kernel(grid=1, block=32)
    def turned(w: lego.Tensor(dtype, Row(32, 8)), z: lego.Tensor(dtype, Row(32, 8))):
        t = lego.thread_id[0]
        held = lego.register(w.load(t, 0, width=8))
        loaded = w.load(31 - t, 0, width=8)
        with lego.when(t % 2 == 0):
            held.set(lego.vector(*(loaded[7 - k] for k in range(8))))
        with lego.when(t % 3 == 0):
            held.set(held.to(f32).to(dtype))  # each code in a word of its own
        z.store(held.get(), t, 0)

    held, values = drawn(dtype, (32, 8))
    (z,) = found_by_all(turned, [held], [(held.shape, np.uint8)], 32)
    even = np.arange(32)[:, None] % 2 == 0
    wanted = np.where(even, values[::-1, ::-1], values).astype(HOST[dtype])
    np.testing.assert_array_equal(z, packed(wanted.view(np.uint8), dtype.bits))


@pytest.mark.parametrize("opened", [False, True], ids=["pinned", "open"])
@pytest.mark.parametrize("dtype", [u4, i4, f4e2m1fn], ids=str)
def test_a_tile_is_loaded_a_step_ahead(dtype, opened):
    rows, columns, steps = 32, 64, 3
    layout = f2.MmaOperand(0, f2.MmaSync((4, 1)), 8).layout((rows, columns)) if not opened else (rows, columns)

    @lego.kernel(grid=1, block=128)
    def sums(
        w: lego.Tensor(dtype, Row(rows, steps * columns)),
        y: lego.Tensor(f32, Row(rows, columns)),
        z: lego.Tensor(dtype, Row(columns, rows)),
    ):
        ahead = lego.register(lego.load(w, layout, at=(0, 0)))
        total = lego.register(lego.zeros(f32, layout))
        for k in lego.range(steps):
            now = ahead.get()
            with lego.when(k + 1 < steps):
                ahead.set(lego.load(w, layout, at=(0, columns * (k + 1))))
            total += now.to(f32)
        total.get().store(y)
        ahead.to(f32).T.to(dtype).store(z) if opened else None

    held, values = drawn(dtype, (rows, steps * columns))
    y, z = found_by_all(sums, [held], [((rows, columns), np.float32), ((columns, rows // 2), np.uint8)], 128)
    each = values.reshape(rows, steps, columns)
    np.testing.assert_array_equal(y, each.sum(1))
    if opened:
        np.testing.assert_array_equal(z, packed(each[:, -1].T.astype(HOST[dtype]).view(np.uint8), dtype.bits))


@TYPES
def test_variables_that_begin_with_one_number_have_a_place_for_each(dtype):
    layout = f2.Blocked((1, 8), (32, 1), (1, 1), (1, 0)).layout((32, 8))

    @lego.kernel(grid=1, block=32)
    def begun(w: lego.Tensor(dtype, Row(32, 8)), z: lego.Tensor(dtype, Row(2, 32, 8)), y: lego.Tensor(f32, Row(32, 8))):
        t = lego.thread_id[0]
        one, of_tile = w[t, 0], lego.register(lego.full(f32, layout, 1.0).to(dtype))
        vectors = lego.register(lego.vector(*[one] * 8)), lego.register(dtype, one, width=8)
        with lego.when(t % 2 == 0):
            for vector in vectors:
                vector.set(w.load(31 - t, 0, width=8))
        of_tile.set(lego.load(w, layout))
        for k, vector in enumerate(vectors):
            z.store(vector.get(), k, t, 0)
        of_tile.to(f32).store(y)

    held, values = drawn(dtype, (32, 8))
    z, y = found_by_all(begun, [held], [((2, *held.shape), np.uint8), ((32, 8), np.float32)], 32)
    even = np.arange(32)[:, None] % 2 == 0
    wanted = np.where(even, values[::-1], values[:, :1]).astype(HOST[dtype]).view(np.uint8)
    np.testing.assert_array_equal(z, [packed(wanted, dtype.bits)] * 2)
    np.testing.assert_array_equal(y, values)


@TYPES
@pytest.mark.parametrize("opened", [False, True], ids=["pinned", "open"])
def test_a_number_is_set_everywhere(dtype, opened):
    """In one number, a vector and a tile, of places that other numbers were loaded to."""
    layout = (32, 8) if opened else f2.Blocked((1, 8), (32, 1), (1, 1), (1, 0)).layout((32, 8))

    @lego.kernel(grid=1, block=32)
    def k(w: lego.Tensor(dtype, Row(32, 8)), z: lego.Tensor(dtype, Row(2, 32, 8)), y: lego.Tensor(f32, Row(32, 8))):
        t = lego.thread_id[0]
        one, vector = lego.register(w[t, 0]), lego.register(w.load(t, 0, width=8))
        tile = lego.register(lego.load(w, layout))
        with lego.when(t % 2 == 0):
            one.set(1)
            vector.set(1.0)
        tile.set(2.0)
        z.store(vector.get(), 0, t, 0)
        z.store(lego.vector(*[one.get()] * 8), 1, t, 0)
        tile.to(f32).store(y)

    held, values = drawn(dtype, (32, 8))
    z, y = found_by_all(k, [held], [((2, *held.shape), np.uint8), ((32, 8), np.float32)], 32)
    even = np.arange(32)[:, None] % 2 == 0
    wanted = [np.where(even, 1.0, kept).astype(HOST[dtype]) for kept in (values, values[:, :1] + 0 * values)]
    np.testing.assert_array_equal(z, [packed(each.view(np.uint8), dtype.bits) for each in wanted])
    np.testing.assert_array_equal(y, np.full((32, 8), 2.0))


def test_other_values_are_refused():
    @lego.kernel(grid=1, block=32)
    def wrong(w: lego.Tensor(u4, Row(32, 8)), y: lego.Tensor(f32, Row(32, 8))):
        held = lego.register(w.load(lego.thread_id[0], 0, width=8))
        held.set(y[0, 0])

    @lego.kernel(grid=1, block=32)
    def narrow(w: lego.Tensor(u4, Row(32, 8))):
        held = lego.register(w.load(lego.thread_id[0], 0, width=8))
        held.set(w.load(lego.thread_id[0], 0, width=4))

    @lego.kernel(grid=1, block=32)
    def tile(w: lego.Tensor(u4, Row(32, 8))):
        held = lego.register(lego.load(w, f2.MmaOperand(0, f2.MmaSync((1, 1)), 8).layout((16, 64))))
        held.set(lego.zeros(f32, f2.MmaOperand(0, f2.MmaSync((1, 1)), 8).layout((16, 64))))

    for kernel, message in (
        (wrong, r"vector of 8 u4, packed> is set to <f32.*; convert it, for example with \.to\(lego\.u4\)"),
        (narrow, r"a variable of <vector of 8 u4, packed> is set to <vector of 4 u4"),
        (tile, r"a variable of a tile of u4 is set to .* f32 .*\.to\(lego\.u4\)"),
    ):
        with pytest.raises(TraceError, match=message):
            kernel.trace()
