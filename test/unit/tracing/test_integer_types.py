"""Unsigned integers, truth values in memory, and the operations on bits, against NumPy: interpreter, CPU and PTX."""

import numpy as np
import pytest
from launching import elementwise, launch, launch_on_cpu

import lego_mlir as lego
from lego_mlir import Row, f16, f32, f64, i1, i8, i16, i32, i64, u8, u16, u32, u64
from lego_mlir.errors import LegoError, TraceError
from lego_mlir.expr.verdict import Proved
from lego_mlir.toolchain import compile_kernel
from lego_mlir.tracing.checks.claims import access_verdicts

N = 64
UNSIGNED, SIGNED = (u8, u16, u32, u64), (i8, i16, i32, i64)
INTEGERS = (*UNSIGNED, *SIGNED)


def columns(dtype, seed=1):
    """Random numbers over the whole range with its ends, and divisors, small and large."""
    low, high = dtype.span
    random = np.random.default_rng(seed)
    a, b = (random.integers(low, high, N, dtype.numpy, endpoint=True) for _ in range(2))
    a[:6] = [0, 1, 2, high, low, 4]
    b[::3] = b[::3] % 7 + 1
    return a, np.where(b == 0, 1, b).astype(dtype.numpy)


def both(function, *given, dtypes, out):
    """The result in the interpreter, which the CPU path must have as well."""
    kernel = elementwise(function, *dtypes, out=out)
    found = launch(kernel, *given, np.zeros(N))[-1]
    np.testing.assert_array_equal(launch_on_cpu(kernel, *given, np.zeros(N))[-1], found)
    return found


OPERATORS = {
    "sum": lambda a, b: a + b - a * 3,
    "quotient": lambda a, b: a // b,
    "remainder": lambda a, b: a % b,
    "bits": lambda a, b: (a & b) ^ (a | ~b),
    "shifts": lambda a, b: (a >> 3) + (b << 2),
    "negation": lambda a, b: -a,
    "absolute": lambda a, b: abs(a),
}


@pytest.mark.parametrize("dtype", UNSIGNED, ids=str)
@pytest.mark.parametrize("name", OPERATORS)
def test_unsigned_operators(name, dtype):
    a, b = columns(dtype)
    np.testing.assert_array_equal(both(OPERATORS[name], a, b, dtypes=[dtype] * 2, out=dtype), OPERATORS[name](a, b))


@pytest.mark.parametrize("dtype", UNSIGNED, ids=str)
def test_the_smaller_and_the_larger_unsigned_number(dtype):
    a, b = columns(dtype)
    found = both(lambda a, b: lego.minimum(a, b) + lego.maximum(a, b) // 2, a, b, dtypes=[dtype] * 2, out=dtype)
    np.testing.assert_array_equal(found, np.minimum(a, b) + np.maximum(a, b) // 2)


@pytest.mark.parametrize("dtype", [u8, u64, i8], ids=str)
@pytest.mark.parametrize("compare", [np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal])
def test_comparisons_are_stored_as_truth_values(dtype, compare):
    a, b = columns(dtype)
    symbol = {"less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">=", "equal": "==", "not_equal": "!="}
    function = eval(f"lambda a, b: a {symbol[compare.__name__]} b")
    found = both(function, a, b, dtypes=[dtype] * 2, out=i1)
    assert found.dtype == bool
    np.testing.assert_array_equal(found, compare(a, b))


@pytest.mark.parametrize("source", [*INTEGERS, i1, f16, f32, f64], ids=str)
def test_conversions(source):
    targets = [*INTEGERS, i1, f16, f32, f64]

    def convert(x, *results):
        for target, y in zip(targets, results, strict=True):
            y[lego.thread_id[0]] = x[lego.thread_id[0]].to(target)

    names = [f"y{target}" for target in targets]
    space = {"convert": convert}
    exec(f"def run(x, {', '.join(names)}):\n    convert(x, {', '.join(names)})\n", space)
    run = space["run"]
    tensors = {name: lego.Tensor(target, Row(N)) for name, target in zip(names, targets, strict=True)}
    run.__annotations__ = {"x": lego.Tensor(source, Row(N)), **tensors}
    kernel = lego.kernel(grid=1, block=N)(run)
    if source.is_float:
        given = (np.arange(N) * 1.75).astype(source.numpy)
    else:
        given = columns(source)[0] if source.bits > 1 else np.arange(N) % 3 == 1
    for launched in (launch, launch_on_cpu):
        _, *results = launched(kernel, given, *(np.zeros(N) for _ in targets))
        for target, found in zip(targets, results, strict=True):
            with np.errstate(over="ignore"):
                np.testing.assert_array_equal(found, given.astype(target.numpy), err_msg=str(target))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_counts_of_bits_and_signs(dtype):
    given, _ = columns(dtype)
    bits = [int(v) % 2**dtype.bits for v in given]
    expected = {
        lego.popcount: [b.bit_count() for b in bits],
        lego.clz: [dtype.bits - b.bit_length() for b in bits],
        lego.ctz: [(b & -b).bit_length() - 1 if b else dtype.bits for b in bits],
        lego.sign: np.sign(given),
    }
    for function, want in expected.items():
        np.testing.assert_array_equal(both(function, given, dtypes=[dtype], out=dtype), want)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_division_as_in_c_rounds_towards_zero(dtype):
    a, b = columns(dtype)
    a[4] = 5  # the least number by -1 overflows
    exact = [abs(int(x)) // abs(int(y)) * (1 if (x < 0) == (y < 0) else -1) for x, y in zip(a, b, strict=True)]
    quotient = both(lego.div_trunc, a, b, dtypes=[dtype] * 2, out=dtype)
    np.testing.assert_array_equal(quotient, np.array(exact).astype(dtype.numpy))
    np.testing.assert_array_equal(both(lego.rem_trunc, a, b, dtypes=[dtype] * 2, out=dtype), a - quotient * b)


def test_truth_values_combine_and_move_in_vectors_and_shared_tiles():
    @lego.kernel(grid=1, block=8)
    def kernel(x: lego.Tensor(i1, Row(64)), y: lego.Tensor(i1, Row(64)), flag: i1, count: lego.Tensor(u8, Row(64))):
        t, tile = lego.thread_id[0], lego.shared(i1, Row(64))
        tile.store(x.load(8 * t, width=8), 8 * t)
        lego.barrier()
        for k in lego.unroll(8):
            here = tile[8 * t + k]
            y[8 * t + k] = (here ^ flag) & ~lego.minimum(here, tile[(8 * t + k + 1) % 64])
            count[8 * t + k] = here.to(u8) + lego.where(flag, u8(200), 100)

    x = np.random.default_rng(0).integers(0, 2, 64).astype(bool)
    for flag in (True, False):
        for run in (launch, launch_on_cpu):
            _, y, _, count = run(kernel, x, np.zeros(64), flag, np.zeros(64))
            np.testing.assert_array_equal(y, (x ^ flag) & ~np.minimum(x, np.roll(x, -1)))
            np.testing.assert_array_equal(count, x + (200 if flag else 100))


def test_unsigned_numbers_as_parameters():
    @lego.kernel(grid=1, block=4)
    def kernel(y: lego.Tensor(u64, Row(4)), a: u8, b: u32):
        y[lego.thread_id[0]] = a.to(u64) * b.to(u64)

    for run in (launch, launch_on_cpu):
        assert run(kernel, np.zeros(4), 255, 2**32 - 1)[0].tolist() == [255 * (2**32 - 1)] * 4


def test_an_index_from_unsigned_data_has_the_range_of_its_type():
    @lego.kernel(grid=1, block=64)
    def kernel(x: lego.Tensor(u8, Row(64)), table: lego.Tensor(f32, Row(256)), y: lego.Tensor(f32, Row(64))):
        y[lego.thread_id[0]] = table[x[lego.thread_id[0]]]

    assert all(isinstance(verdict, Proved) for _, verdict in access_verdicts(kernel.trace(), 1000))
    given = np.arange(64) * 4 + 3
    np.testing.assert_array_equal(launch(kernel, given, np.arange(256), np.zeros(64))[-1], given)


def test_wide_unsigned_data_is_an_index_once_it_fits():
    @lego.kernel(grid=1, block=64)
    def kernel(x: lego.Tensor(u64, Row(64)), table: lego.Tensor(f32, Row(64)), y: lego.Tensor(f32, Row(64))):
        y[lego.thread_id[0]] = table[x[lego.thread_id[0]] % 64]

    given = np.arange(64).astype(np.uint64) * np.uint64(2**58 + 1)
    np.testing.assert_array_equal(launch(kernel, given, np.arange(64), np.zeros(64))[-1], given % np.uint64(64))


@pytest.mark.tools
@pytest.mark.parametrize("dtype", UNSIGNED, ids=str)
@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_ptxas_takes_every_operation(dtype, target):
    def body(a, b):
        total = a
        for function in (*OPERATORS.values(), lego.div_trunc, lego.rem_trunc, lego.minimum, lego.maximum):
            total = total + function(a, b)
        for function in (lego.popcount, lego.clz, lego.ctz, lego.sign):
            total = total ^ function(total)
        return lego.where((a < b) ^ (total >= a), total, b)

    assert compile_kernel((elementwise(body, dtype, dtype, out=dtype),), emit="cubin", target=target).bytes


def refused(body, dtype, message):
    def run(x):
        body(x)

    run.__annotations__ = {"x": lego.Tensor(dtype, Row(8))}
    with pytest.raises(LegoError, match=message) as caught:
        lego.kernel(grid=1, block=8)(run).trace()
    assert isinstance(caught.value, TraceError)


@pytest.mark.parametrize(
    ("dtype", "body", "message"),
    [
        (u8, lambda x: x[0] + 256, r"256 does not fit u8, which holds 0\.\.255"),
        (u16, lambda x: x[0] * -1, r"-1 does not fit u16, which holds 0\.\.65535"),
        (u8, lambda x: x[0] + i8(1), r"add of different element types \(u8, i8\); convert one"),
        (u32, lambda x: x[0] / 2, "truediv is not defined for u32; integers divide with //"),
        (u32, lambda x: lego.exp(x[0]), r"exp is not defined for u32; convert it, for example with \.to\(lego\.f32\)"),
        (u32, lambda x: x[0] ** 2, r"pow is not defined for u32; convert to a float, .* or multiply"),
        (f32, lambda x: lego.popcount(x[0]), "popcount is not defined for f32; convert it to an integer type"),
        (i1, lambda x: x[0] + x[1], r"add is not defined for i1, a truth value; use & \| \^ ~, or convert it"),
        (u64, lambda x: x[x[0]], r"may exceed 9223372036854775807, the greatest index; use x % n or x & mask"),
    ],
)
def test_what_is_refused(dtype, body, message):
    refused(body, dtype, message)


def test_messages_tell_unsigned_numbers_from_signed_ones():
    refused(lambda x: lego.register(i32, 0).set(x[0]), u32, r"type i32 is needed here, got <u32 %\d+>; convert it")


def test_division_by_zero_is_reported_with_its_line():
    @lego.kernel(grid=1, block=8)
    def kernel(x: lego.Tensor(u8, Row(8))):
        t = lego.thread_id[0]
        x[t] = 200 // x[t]

    from lego_mlir import interp

    x = np.arange(8).astype(np.uint8)
    report = interp.launch(kernel.mlir(), grid=[1], block=[8], args=[x])
    (fault,) = report.faults
    assert "arith.divui by zero" in fault.message
    assert f"{kernel.source.file}:{kernel.source.line + 3}" in fault.location
