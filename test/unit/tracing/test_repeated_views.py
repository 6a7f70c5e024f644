"""Scales of blocks: MXFP4, MXFP8, NVFP4 and 128 x 128, as elements that each stand for a block."""

import ml_dtypes
import numpy as np
import pytest

import lego_mlir as lego
from lego_mlir import LegoError, Row, f2, f4e2m1fn, f8e4m3fn, f8e8m0fnu, f32, interp
from lego_mlir.tracing.trace.trace import Load

M, N = 24, 256
LAYOUT = f2.Blocked((1, 8), (2, 16), (4, 1), order=(1, 0)).layout((16, N))


def dequantised(number, scale, counts):
    @lego.kernel(grid=2, block=128)
    def scaled(
        x: lego.Tensor(number, Row(M, N)),
        s: lego.Tensor(scale, Row(-(-M // counts[0]), N // counts[1])),
        y: lego.Tensor(f32, Row(M, N)),
        z: lego.Tensor(f32, Row(2, N)),
    ):
        at = (16 * lego.block_id[0], 0)
        scales = lego.load(s.repeat(*counts), LAYOUT, at=at).to(f32)
        (lego.load(x, LAYOUT, at=at).to(f32) * scales).store(y, at=at)
        for k in range(0, N, 128):
            j = lego.thread_id[0] + k
            z[lego.block_id[0], j] = s.repeat(*counts)[16 * lego.block_id[0], j].to(f32)

    return scaled


@pytest.mark.parametrize(
    ("number", "scale", "counts"),
    [
        (f4e2m1fn, f8e8m0fnu, (1, 32)),
        (f8e4m3fn, f8e8m0fnu, (1, 32)),
        (f4e2m1fn, f8e4m3fn, (1, 16)),
        (f8e4m3fn, f32, (128, 128)),
    ],
    ids=["MXFP4", "MXFP8", "NVFP4", "128x128"],
)
def test_a_tile_is_scaled_by_blocks(number, scale, counts):
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 16, (M, N)).astype(np.uint8)
    values = codes.view(ml_dtypes.float4_e2m1fn).astype(np.float32)
    x = codes[:, ::2] | codes[:, 1::2] << 4 if number is f4e2m1fn else values.astype(number.numpy)
    powers = rng.integers(-6, 7, (-(-M // counts[0]), N // counts[1]))
    s = (powers + 127).astype(np.uint8) if scale is f8e8m0fnu else (2.0**powers).astype(scale.numpy)
    y, z = np.zeros((M, N), np.float32), np.zeros((2, N), np.float32)
    kernel = dequantised(number, scale, counts)
    given = [x.reshape(-1), s.reshape(-1), y.reshape(-1), z.reshape(-1)]
    assert interp.launch(kernel.mlir(), grid=2, block=128, args=given).clean
    each = np.repeat(np.repeat(2.0**powers, counts[0], 0), counts[1], 1)[:M]
    np.testing.assert_array_equal(y, values * each)
    np.testing.assert_array_equal(z, each[::16])


def test_a_scale_is_loaded_once_for_its_block():
    loads = [s for s in dequantised(f8e4m3fn, f32, (128, 128)).trace().statements() if isinstance(s, Load)]
    scales = [s for s in loads if s.access.buffer.name == "s"]
    assert len(scales) <= 2 + 2, "two blocks of a thread's row, and two of single elements"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (lambda s: s.repeat(1, 24), "takes a power of two for each of its 2 axes"),
        (lambda s: s.repeat(32), "takes a power of two for each of its 2 axes"),
        (lambda s: s.repeat(1, 32)[0], "takes 2 indices, got 1"),
        (lambda s: lego.load(s.repeat(1, 32), LAYOUT, at=(0, 8)), "begins at a multiple of 32 along axis 1"),
    ],
)
def test_refusals_name_the_remedy(body, message):
    @lego.kernel(grid=1, block=128)
    def wrong(s: lego.Tensor(f32, Row(M, N // 32)), y: lego.Tensor(f32, Row(M, N))):
        body(s)

    with pytest.raises(LegoError) as error:
        wrong.trace()
    assert message in str(error.value)
