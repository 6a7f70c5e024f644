"""f8 numbers: stored, moved and converted, in the interpreter, on the CPU and to PTX; arithmetic on them is refused."""

import ml_dtypes
import numpy as np
import pytest
from launching import elementwise, launch, launch_emulated, launch_on_cpu

import lego_mlir as lego
from lego_mlir import Row, bf16, f8e4m3fn, f8e5m2, f16, f32, f64, i1, i32, i64, u8
from lego_mlir.errors import TraceError
from lego_mlir.runtime import f8
from lego_mlir.runtime.comparing import compare
from lego_mlir.toolchain import compile_kernel

TYPES = (f8e4m3fn, f8e5m2)
LARGEST = {f8e4m3fn: 448.0, f8e5m2: 57344.0}
BYTES = np.arange(256, dtype=np.uint8)


def same(found, expected):
    """Equal numbers with equal signs, and NaN where NaN is expected."""
    a, b = (np.asarray(x).astype(np.float64) for x in (found, expected))
    return bool((((a == b) & (np.signbit(a) == np.signbit(b))) | (np.isnan(a) & np.isnan(b))).all())


def both(function, given, source, target):
    kernel = elementwise(function, source, out=target, n=len(given))
    found = launch(kernel, given, np.zeros(len(given)))[-1]
    assert same(launch_on_cpu(kernel, given, np.zeros(len(given)))[-1], found)
    return found


def awkward(dtype):
    """Every number, the ties between two, numbers beside those, and numbers that are too large or small."""
    numbers = np.sort(BYTES.view(dtype.numpy).astype(np.float64))
    finite = numbers[np.isfinite(numbers)]
    ties = (finite[1:] + finite[:-1]) / 2
    beside = [t * (1 + e) for t in ties[::3] for e in (2.0**-9, -(2.0**-9), 2.0**-40)]
    beyond = [LARGEST[dtype] * f for f in (1.03, 1.04, 1.2, 5, -1.03, -5)]
    return np.concatenate([numbers, ties, beside, beyond, [np.inf, -np.inf, np.nan, -0.0, 1e-30]])


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_the_numbers_of_all_bytes_without_ml_dtypes(dtype):
    assert same(f8.decode(BYTES, dtype.name), BYTES.view(dtype.numpy))
    for byte in BYTES:
        number = float(byte.view(dtype.numpy))
        if np.isfinite(number):
            assert f8.encode(number, dtype.name) == byte


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("target", [f16, bf16, f32, f64], ids=str)
def test_wider_floats_have_the_same_numbers(dtype, target):
    given = BYTES.view(dtype.numpy)
    assert same(both(lambda x: x.to(target), given, dtype, target), given)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("source", [f16, bf16, f32, f64], ids=str)
def test_wider_floats_are_rounded_once_and_saturate(dtype, source):
    with np.errstate(over="ignore"):
        given = awkward(dtype).astype(source.numpy)
    words = np.array([f8.encode(float(x), dtype.name) for x in given], np.uint8)
    assert same(both(lambda x: x.to(dtype), given, source, dtype), words.view(dtype.numpy))


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_integers_and_truth_values(dtype):
    given = np.arange(600).astype(np.int64) * np.where(np.arange(600) % 7 == 6, 2**40, 1)
    words = np.array([f8.encode(float(x), dtype.name) for x in given], np.uint8)
    assert same(both(lambda x: x.to(dtype), given, i64, dtype), words.view(dtype.numpy))
    small = np.arange(100).astype(dtype.numpy)
    assert same(both(lambda x: x.to(u8), small, dtype, u8), small)
    assert same(both(lambda x: x.to(i1), small, dtype, i1), small.astype(np.float64) != 0)
    assert same(both(lambda x: x.to(i32), -small, dtype, i32), np.trunc(-small.astype(np.float64)) + 0.0)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_vectors_tiles_choices_and_parameters(dtype):
    @lego.kernel(grid=1, block=8)
    def kernel(x: lego.Tensor(f32, Row(128)), y: lego.Tensor(dtype, Row(128)), z: lego.Tensor(f16, Row(128)), c: dtype):
        t, tile = lego.thread_id[0], lego.shared(dtype, Row(128))
        for part in lego.unroll(0, 16, 4):
            tile.store(x.load(16 * t + part, width=4).to(dtype), 16 * t + part)
        lego.barrier()
        chosen = lego.where(t % 2 == 0, tile.load(16 * t, width=16), dtype(1.5))
        chosen = lego.where(t == 3, lego.vector(*[c] * 16), chosen)
        y.store(chosen, 16 * t)
        for part in lego.unroll(16):
            z[16 * t + part] = chosen[part].to(f16)

    x = np.linspace(-500, 500, 128)
    stored = np.clip(x, -LARGEST[dtype], LARGEST[dtype]).astype(np.float32).astype(dtype.numpy).reshape(8, 16)
    stored[1::2] = 1.5
    stored[3] = 2.5
    for run in (launch, launch_on_cpu):
        _, y, z, _ = run(kernel, x, np.zeros(128), np.zeros(128), dtype.numpy.type(2.5))
        assert same(y, stored.reshape(-1))
        assert same(z, stored.reshape(-1))


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("other", [f16, bf16, f32, f64], ids=str)
def test_a_target_s_own_conversions_give_the_same_numbers(dtype, other):
    """Numbers alone, in a vector that is converted, and in one that is composed; of f16 and bf16 all numbers."""
    with np.errstate(over="ignore", invalid="ignore"):
        given = awkward(dtype).astype(other.numpy)
    if other in (f16, bf16):
        given = np.arange(65536, dtype=np.uint16).view(other.numpy)
    rows = -(-len(given) // 4 // 64) * 64
    given = np.resize(given, (rows, 4))
    width = min(4, 16 // other.bytes)

    @lego.kernel(grid=rows // 64, block=64)
    def kernel(x: lego.Tensor(other, Row(rows, 4)), y: lego.Tensor(dtype, Row(3, rows, 4)),
               z: lego.Tensor(other, Row(2, rows, 4))):  # fmt: skip
        r = 64 * lego.block_id[0] + lego.thread_id[0]
        for k in range(4):
            y[0, r, k] = x[r, k].to(dtype)
            z[0, r, k] = y[0, r, k].to(other)
        for k in range(0, 4, width):
            v = x.load(r, k, width=width)
            y.store(v.to(dtype), 1, r, k)
            y.store(lego.vector(*((-v[n]).to(dtype) for n in range(width))), 2, r, k)
            z.store(y.load(1, r, k, width=width).to(other), 1, r, k)

    arrays = given, np.zeros((3, rows, 4)), np.zeros((2, rows, 4))
    expected = launch(kernel, *arrays)
    for target in ("sm_89", "sm_80"):
        for found, right in zip(launch_emulated(kernel, *arrays, target=target)[1:], expected[1:], strict=True):
            assert same(found, right), target
    text = compile_kernel((kernel,), target="sm_89").text
    pair = f"e{dtype.name[3]}m{dtype.name[5]}x2"
    assert text.count(f"{pair}.f") == (
        0 if other is f64 else 4 + 2 * 4 // 2
    )  # to f8: 4 alone, and two vectors of pairs
    assert text.count(f"f16x2.{pair}") == 4 + 4 // 2


@pytest.mark.tools
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("target", ["sm_80", "sm_89", "sm_90"])
def test_ptxas_takes_the_conversions(dtype, target):
    def body(a, b, c):
        return lego.where(a.to(f16) < b.to(f16), (a.to(f32) + c).to(dtype), f64(c).to(dtype))

    assert compile_kernel((elementwise(body, dtype, dtype, f32, out=dtype),), emit="cubin", target=target).bytes


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            lambda x: x[0] + x[1],
            r"add is not defined for f8e4m3fn, whose numbers are only stored .*: x\.to\(lego\.f32\)",
        ),
        (lambda x: lego.exp(x[0]), "exp is not defined for f8e4m3fn, whose numbers are only stored"),
        (lambda x: lego.when(x[0] < 0), "lt is not defined for f8e4m3fn"),
        (lambda x: f8e4m3fn(500.0), r"500\.0 is beyond f8e4m3fn, where it would be nan; compute in a wider type"),
    ],
)
def test_arithmetic_is_refused(body, message):
    def run(x: lego.Tensor(f8e4m3fn, Row(8))):
        body(x)

    with pytest.raises(TraceError, match=message):
        lego.kernel(grid=1, block=8)(run).trace()


def test_a_number_beyond_the_largest_is_compared_with_the_largest():
    found = np.array([448.0, 3.0]).astype(ml_dtypes.float8_e4m3fn)
    assert compare(found.view(np.uint8), np.float64([1000.0, 3.0]), "f8e4m3fn")
    assert not compare(found.view(np.uint8), np.float64([-1000.0, 3.0]), "f8e4m3fn")
    assert not compare(found.view(np.uint8), np.float64([400.0, 3.0]), "f8e4m3fn", np.zeros(2))
