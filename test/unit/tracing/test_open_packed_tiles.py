"""Tiles of packed numbers without a layout: loaded, converted, multiplied with scales, and stored; NumPy's values."""

import ml_dtypes
import numpy as np
import pytest

import lego_mlir as lego
from lego_mlir import (
    LayoutError,
    Row,
    bf16,
    f2,
    f4e2m1fn,
    f6e2m3fn,
    f6e3m2fn,
    f8e8m0fnu,
    f16,
    f32,
    gallery,
    i4,
    interp,
    u4,
)
from lego_mlir.engine.tile_graph import LoadTile, StoreTile
from lego_mlir.errors import TraceError
from lego_mlir.interp.ptx import emulate
from lego_mlir.toolchain import compile_kernel

M, N = 64, 128
HOST = {
    i4: ml_dtypes.int4,
    u4: ml_dtypes.uint4,
    f4e2m1fn: ml_dtypes.float4_e2m1fn,
    f6e2m3fn: ml_dtypes.float6_e2m3fn,
    f6e3m2fn: ml_dtypes.float6_e3m2fn,
}


def packed(codes, bits):
    """The bytes of codes, low bits first."""
    each = codes.reshape(-1, 1) >> np.arange(bits) & 1
    return np.packbits(each.astype(np.uint8).reshape(-1), bitorder="little")


def numbers(codes, dtype):
    """The values of codes by another library."""
    return codes.astype(np.uint8).view(HOST[dtype]).astype(np.float32)


def random_codes(bits, shape, seed=0):
    return np.random.default_rng(seed).integers(0, 1 << bits, shape).astype(np.uint8)


def launched(kernel, *arrays):
    """Run on the interpreter, and by the PTX; both give the same."""
    copies = [a.copy() for a in arrays]
    report = interp.launch(kernel.mlir(), grid=1, block=128, args=[a.reshape(-1) for a in arrays])
    assert report.clean, report
    text = compile_kernel((kernel,), target="sm_80").text
    found = emulate(text, kernel.name, args=[a.reshape(-1) for a in copies], grid=1, block=128)
    assert found.clean, found
    for one, other in zip(arrays, copies, strict=True):
        np.testing.assert_array_equal(one, other)


def accesses_of(kernel, kind):
    values = kernel.layout_choice.values.items()
    return [node.operation.memory.accesses(v.computed[0][0], stored=kind is StoreTile) for node, v in values
            if isinstance(node.operation, kind)]  # fmt: skip


@pytest.mark.parametrize("dtype", HOST, ids=str)
def test_a_tile_is_loaded_converted_and_stored_again(dtype):
    @lego.kernel(grid=1, block=128)
    def through(x: lego.Tensor(dtype, Row(M, N)), wide: lego.Tensor(f32, Row(M, N)), y: lego.Tensor(dtype, Row(M, N))):
        tile = lego.load(x, (M, N))
        tile.to(f32).store(wide)
        tile.to(f32).to(dtype).store(y)

    codes = random_codes(dtype.bits, (M, N))
    x, wide, y = packed(codes, dtype.bits), np.zeros((M, N), np.float32), np.zeros(M * N * dtype.bits // 8, np.uint8)
    launched(through, x, wide, y)
    values = numbers(codes, dtype)
    np.testing.assert_array_equal(wide, values)
    bits = np.unpackbits(y, bitorder="little").reshape(M, N, dtype.bits)
    stored = (bits << np.arange(dtype.bits)).sum(2).astype(np.uint8)
    np.testing.assert_array_equal(numbers(stored, dtype), values)
    assert all(a.vector * dtype.bits % 8 == 0 for a in accesses_of(through, StoreTile))


def test_rows_at_an_odd_index_are_loaded_and_not_stored():
    @lego.kernel(grid=1, block=128)
    def odd(x: lego.Tensor(u4, Row(M, N)), y: lego.Tensor(f32, Row(M, N // 2))):
        lego.load(x, (M, N // 2), at=(0, 1)).to(f32).store(y)

    codes, y = random_codes(4, (M, N)), np.zeros((M, N // 2), np.float32)
    launched(odd, packed(codes, 4), y)
    np.testing.assert_array_equal(y, codes[:, 1 : N // 2 + 1])

    @lego.kernel(grid=1, block=128)
    def refused(x: lego.Tensor(u4, Row(M, N)), y: lego.Tensor(u4, Row(M, N))):
        lego.load(x, (M, N // 2)).store(y, at=(0, 1))

    with pytest.raises(LayoutError, match="not proved to begin a byte"):
        refused.trace()


@pytest.mark.parametrize(
    "how", [(M, N), f2.Blocked((1, 8), (2, 16), (4, 1), (1, 0)).layout((8, 128))], ids=["open", "laid out"]
)
def test_a_value_outside_of_a_packed_tensor_is_refused(how):
    @lego.kernel(grid=1, block=128)
    def kernel(x: lego.Tensor(u4, Row(M, N)), y: lego.Tensor(f32, Row(M, N))):
        lego.load(x, how, at=(0, 0), other=3).to(f32).store(y, at=(0, 0))

    with pytest.raises(TraceError, match=r"elements outside of a tensor of u4 are codes of 0; leave other= out"):
        kernel.trace()


def test_a_product_takes_words_of_packed_numbers_as_they_are_loaded():
    """No conversion: each thread loads eight neighbours along K, those that it multiplies."""

    @lego.kernel(grid=1, block=128)
    def product(x: lego.Tensor(f16, Row(32, N)), w: lego.Tensor(i4, Row(M, N)), y: lego.Tensor(f32, Row(32, M))):
        tile = lego.shared(f16, gallery.xor_swizzle(32, N, 32))
        lego.load(x, (32, N)).store(tile)
        lego.barrier()
        lego.mma(tile, lego.load(w.T, (N, M)), lego.zeros(f32, (32, M))).store(y)

    codes = random_codes(4, (M, N))
    x = np.random.default_rng(1).integers(-4, 5, (32, N)).astype(np.float16)
    y = np.zeros((32, M), np.float32)
    launched(product, x, packed(codes, 4), y)
    np.testing.assert_array_equal(y, x.astype(np.float32) @ numbers(codes, i4).T)
    of_weights = next(v for n, v in product.layout_choice.values.items() if n.word == "load of w")
    assert not of_weights.moved
    assert of_weights.node.operation.memory.accesses(of_weights.computed[0][0], stored=False).vector == 8


def test_mxfp4_times_bf16_with_scales_by_shape_operations():
    """Linear Layouts, section 5.2: a scale for each 32 elements along K, broadcast; no layout is written."""
    block = 32

    @lego.kernel(grid=1, block=128)
    def product(
        w: lego.Tensor(f4e2m1fn, Row(M, N)),
        s: lego.Tensor(f8e8m0fnu, Row(M, N // block)),
        x: lego.Tensor(bf16, Row(N, M)),
        y: lego.Tensor(f32, Row(M, M)),
    ):
        groups = lego.load(w, (M, N)).to(bf16).reshape(M, N // block, block)
        scales = lego.load(s, (M, N // block)).to(bf16)
        a = (groups * scales[:, :, None]).reshape(M, N)
        lego.mma(a, lego.load(x, (N, M)), lego.zeros(f32, (M, M))).store(y)

    rng, codes = np.random.default_rng(2), random_codes(4, (M, N))
    exponents = rng.integers(120, 134, (M, N // block)).astype(np.uint8)
    x = rng.integers(-4, 5, (N, M)).astype(bf16.numpy)
    y = np.zeros((M, M), np.float32)
    launched(product, packed(codes, 4), exponents, x, y)
    scaled = numbers(codes, f4e2m1fn) * np.repeat(2.0 ** (exponents.astype(int) - 127), block, axis=1)
    np.testing.assert_array_equal(y, (scaled @ x.astype(np.float64)).astype(np.float32))  # sums of few bits are exact
    words = {n.word: v for n, v in product.layout_choice.values.items()}
    weights, moved = words["load of w"], [word for word, v in words.items() if v.moved]
    assert weights.node.operation.memory.accesses(weights.computed[0][0], stored=False).vector == 8
    assert "load of w" not in moved
    assert "mul" not in moved
    assert product.layout_choice.is_best
    text = compile_kernel((product,), target="sm_80").text
    assert "ldmatrix.sync.aligned.m8n8.x4.trans" in text  # the other operand, in the same order of K


def test_more_neighbours_along_k_for_operands_loaded_from_memory():
    """Both operands have K contiguous: threads load vectors of it, and the division of K is one for both."""

    @lego.kernel(grid=1, block=32)
    def product(a: lego.Tensor(f16, Row(16, N)), b: lego.Tensor(f16, Row(8, N)), y: lego.Tensor(f32, Row(16, 8))):
        lego.mma(lego.load(a, (16, N)), lego.load(b.T, (N, 8)), lego.zeros(f32, (16, 8))).store(y)

    rng = np.random.default_rng(3)
    a, b = rng.integers(-4, 5, (16, N)).astype(np.float16), rng.integers(-4, 5, (8, N)).astype(np.float16)
    y = np.zeros((16, 8), np.float32)
    report = interp.launch(product.mlir(), grid=1, block=32, args=[a.reshape(-1), b.reshape(-1), y.reshape(-1)])
    assert report.clean, report
    np.testing.assert_array_equal(y, a.astype(np.float32) @ b.astype(np.float32).T)
    assert {x.vector for x in accesses_of(product, LoadTile)} == {8}
    assert not any(v.moved for n, v in product.layout_choice.values.items() if isinstance(n.operation, LoadTile))
