"""`lego.mma` of operands of different types, and of packed ones, against NumPy; both divide K alike."""

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
    f6e3m2fn,
    f8e4m3fn,
    f8e5m2,
    f8e8m0fnu,
    f16,
    f32,
    f64,
    i4,
    i8,
    i16,
    i32,
    i64,
    interp,
    u4,
    u8,
)  # fmt: skip
from lego_mlir.interp.ptx import emulate
from lego_mlir.toolchain import compile_kernel
from lego_mlir.tracing.spread.multiplication import INSTRUCTIONS, multiplied_type
from lego_mlir.tracing.trace.trace import MlirOperation

M, N, K = 32, 16, 128
HOST = {
    u4: ml_dtypes.uint4, i4: ml_dtypes.int4, f4e2m1fn: ml_dtypes.float4_e2m1fn, f6e3m2fn: ml_dtypes.float6_e3m2fn,
}  # fmt: skip


def product(left, right, k_width, shared=False):
    parent = f2.MmaSync((2, 1))
    result = INSTRUCTIONS[multiplied_type(left, right)].result

    @lego.kernel(grid=1, block=64)
    def mixed(a: lego.Tensor(left, Row(M, K)), b: lego.Tensor(right, Row(N, K)), c: lego.Tensor(result, Row(M, N))):
        x = lego.load(a, f2.MmaOperand(0, parent, k_width).layout((M, K)))
        y = lego.load(b.T, f2.MmaOperand(1, parent, k_width).layout((K, N)))
        if shared:
            tile = lego.shared(left, Row(M, K))
            x.store(tile)
            lego.barrier()
            x = tile
        lego.mma(x, y, lego.zeros(result, parent.layout((M, N)))).store(c)

    return mixed


def drawn(dtype, shape):
    """The memory of a matrix, and its numbers."""
    rng = np.random.default_rng(3)
    if dtype in HOST:
        codes = rng.integers(0, 1 << dtype.bits, shape).astype(np.uint8)
        bits = (codes[..., None] >> np.arange(dtype.bits)) & 1
        memory = np.packbits(bits.reshape(*shape[:-1], -1).astype(np.uint8), axis=-1, bitorder="little")
        return memory, codes.view(HOST[dtype]).astype(np.float64)
    low, high = (-128, 128) if dtype is i8 else (0, 256) if dtype is u8 else (-8, 9)
    values = rng.integers(low, high, shape)
    return values.astype(dtype.numpy), values.astype(np.float64)


CASES = [
    (f16, i4, 8), (f16, u4, 4), (bf16, i4, 8), (f16, f4e2m1fn, 2), (bf16, f6e3m2fn, 4), (f16, i8, 4), (f16, u8, 2),
    (bf16, f8e5m2, 4), (f8e4m3fn, f8e5m2, 4), (f8e4m3fn, f4e2m1fn, 8), (i8, i4, 8), (u4, i4, 8), (i4, f16, 8),
    (f32, f16, 2), (f16, f16, 8), (f64, f64, 1), (f64, f64, 4), (f64, i8, 4), (u8, f64, 4),
]  # fmt: skip


@pytest.mark.parametrize(("left", "right", "k_width"), CASES, ids=str)
def test_a_product_of_two_types_is_that_of_their_numbers(left, right, k_width):
    (a, x), (b, y) = drawn(left, (M, K)), drawn(right, (N, K))
    kernel = product(left, right, k_width)
    c = np.zeros((M, N), INSTRUCTIONS[multiplied_type(left, right)].result.numpy)
    assert interp.launch(kernel.mlir(), grid=1, block=64, args=[a.reshape(-1), b.reshape(-1), c.reshape(-1)]).clean
    np.testing.assert_allclose(c, x @ y.T, rtol=1e-12 if c.dtype == np.float64 else 1e-5)


def test_ptx_of_four_bits_computes_the_same_and_loads_words():
    kernel = product(f16, i4, 8, shared=True)
    (a, x), (b, y) = drawn(f16, (M, K)), drawn(i4, (N, K))
    c = np.zeros((M, N), np.float32)
    text = compile_kernel((kernel,), target="sm_80").text
    emulate(text, grid=1, block=64, args=[a.reshape(-1), b.reshape(-1), c.reshape(-1)])
    np.testing.assert_allclose(c, x @ y.T, rtol=1e-5)
    assert "ld.global.u8" not in text
    assert "cvt.rn.f16" not in text


def test_a_part_of_each_register_is_one_instruction():
    for k_width, parts in ((2, 1), (4, 2), (8, 4)):
        made = [s for s in product(f16, f16, k_width).trace().statements() if isinstance(s, MlirOperation)]
        assert sum(s.name == "nvgpu.mma.sync" for s in made) == (M // 2 // 16) * (N // 8) * (K // 16)
        assert sum(s.name == "vector.extract_strided_slice" for s in made) % (2 * parts) == 0


REFUSED = [
    *((*types, 4, "the other operand may be narrower; got") for types in
      ((f16, bf16), (u8, u8), (f8e8m0fnu, f16), (i8, u8), (i32, i8))),
    (f16, i8, 2, "operand 0 is not in the layout of an operand"),
]  # fmt: skip
"""Types without a common one, and operands that divide K differently."""


@pytest.mark.parametrize(("left", "right", "k_width", "message"), REFUSED, ids=str)
def test_operands_that_do_not_fit_are_refused(left, right, k_width, message):
    assert (multiplied_type(left, right) is None) == (k_width == 4)
    parent = f2.MmaSync((2, 1))

    @lego.kernel(grid=1, block=64)
    def wrong(a: lego.Tensor(left, Row(M, K)), b: lego.Tensor(right, Row(K, N)), c: lego.Tensor(f32, Row(M, N))):
        x = lego.load(a, f2.MmaOperand(0, parent, k_width).layout((M, K)))
        y = lego.load(b, f2.MmaOperand(1, parent, 4).layout((K, N)))
        lego.mma(x, y, lego.zeros(f32, parent.layout((M, N)))).store(c)

    with pytest.raises(LayoutError, match=message):
        wrong.trace()


@pytest.mark.parametrize(("left", "right", "through"), [(i16, f16, f16), (f8e4m3fn, i32, f16), (i64, f32, f32)])
def test_wide_integers_are_rounded_to_the_float(left, right, through):
    @lego.kernel(grid=1, block=64)
    def mixed(a: lego.Tensor(left, Row(M, K)), b: lego.Tensor(right, Row(N, K)), c: lego.Tensor(f32, Row(M, N))):
        lego.mma(lego.load(a, (M, K)), lego.load(b, (N, K)).T, lego.zeros(f32, (M, N))).store(c)

    rng = np.random.default_rng(5)
    wide = {x: rng.integers(-4, 5, shape) for x, shape in (("a", (M, K)), ("b", (N, K)))}
    wide["b" if right is i32 else "a"].reshape(-1)[:4] = (1, 2, 2049, -4097) if through is f16 else (1, 2, 2048, -4096)
    a, b = wide["a"].astype(left.numpy), wide["b"].astype(right.numpy)
    c = np.zeros(M * N, np.float32)
    assert interp.launch(mixed.mlir(), grid=1, block=64, args=[a.ravel(), b.ravel(), c]).clean
    expected = a.astype(through.numpy).astype(np.float64) @ b.astype(through.numpy).astype(np.float64).T
    np.testing.assert_array_equal(c.reshape(M, N), expected)
