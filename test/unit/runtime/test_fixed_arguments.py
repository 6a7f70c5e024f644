"""Numbers and sizes whose values have kernels of their own: same results, fewer instructions, bounded in number."""

import numpy as np
import pytest
from launching import launch_emulated

import lego_mlir as lego
from lego_mlir import Row, f8e4m3fn, f8e5m2, f16, f32, i1, i32
from lego_mlir.errors import TraceError, UsageError
from lego_mlir.expr.verdict import Proved
from lego_mlir.proofs.claims import kernel_claims
from lego_mlir.runtime import calls, data

N, K = lego.size("N"), lego.size("K", max=64)
VECTOR = lego.Tensor(f32, Row(N))


def made(specialise=("slope", "shift", "clamped"), optional=False):
    @lego.kernel(grid=lego.cdiv(N, 32), block=32, specialise=specialise)
    def line(
        slope: f32,
        x: VECTOR,
        shift: i32,
        bias: VECTOR | None if optional else VECTOR,
        clamped: i1,
        half: f16,
        y: VECTOR,
    ):
        i = lego.block_id[0] * 32 + lego.thread_id[0]
        with lego.when(i < N):
            value = x[i] * slope + f32(shift)
            if bias is not None:
                value = value + bias[i]
            value = lego.where(clamped, lego.maximum(value, 0.0), value)
            y[i] = value * half.to(f32)

    @line.reference
    def expected(slope, x, shift, bias, clamped, half):
        value = x * slope + shift + (0 if bias is None else bias)
        return np.where(clamped, np.maximum(value, 0), value) * half

    return line


@pytest.mark.parametrize("slope", [1.0, 0, -0.0, 0.1, float("inf"), float("nan"), 1e300, 1e-300])
@pytest.mark.parametrize("shift", [-7, 0])
@pytest.mark.parametrize("clamped", [False, True])
def test_results_are_those_of_the_kernel_for_all_numbers(slope, shift, clamped):
    x = np.linspace(-2, 2, 70, dtype=np.float32)
    given = slope, x, shift, x[::-1].copy(), clamped, 0.5
    with np.errstate(invalid="ignore", over="ignore"):
        want = made(False)(*given)
        kernel = made()
        for found in (kernel(*given), kernel(*given, check=True), kernel.prepare(*given)()):
            np.testing.assert_array_equal(found, want)
    assert [len(c.kernel.signature) for c in kernel.calls.fixed.values()] == [4]


@pytest.mark.parametrize("dtype", [f8e4m3fn, f8e5m2])
@pytest.mark.parametrize("value", [0.3, -0.0, -0.59374999999995, 464.0, 465.0, -1e9, float("inf"), float("nan")])
def test_numbers_beyond_f8_are_the_largest_as_in_other_calls(dtype, value):
    def found(specialise):
        @lego.kernel(grid=1, block=32, specialise=specialise)
        def widened(a: dtype, y: lego.Tensor(f32, Row(32))):
            y[lego.thread_id[0]] = a.to(f32)

        return widened(value)

    np.testing.assert_array_equal(found(("a",)), found(False))


def test_each_value_has_one_kernel_up_to_a_number(monkeypatch):
    monkeypatch.setattr(calls, "SPECIAL", 2)
    kernel, x = made(("slope",)), np.ones(5, np.float32)
    for slope in (1.0, 2.0, 3.0, 1.0, 1):
        assert kernel(slope, x, 0, x, False, 1.0)[0] == slope + 1
    assert [dict(key) for key in kernel.calls.fixed] == [{"slope": "1.0"}, {"slope": "2.0"}]


def test_with_tensors_that_are_none(monkeypatch):
    kernel, x = made(("slope",), optional=True), np.ones(5, np.float32)
    assert kernel(2.0, x, 1, None, False, 1.0)[0] == 3
    assert kernel(2.0, x, y=np.zeros_like(x), shift=1, bias=None, clamped=False, half=1.0)[0] == 3
    assert set(kernel.calls.fixed) == {frozenset({("slope", "2.0"), ("bias", "None")})}
    monkeypatch.setattr(calls, "SPECIAL", 1)
    assert kernel(4.0, x, 1, None, False, 1.0)[0] == 5
    assert len(kernel.calls.fixed) == 2, "without the tensor, for all numbers"


def test_the_kernel_of_a_value_is_proved_and_has_the_reference():
    kernel = made().fixed(slope=0.1, clamped=True)
    assert kernel.name == "line_clamped_True_slope_0_1"
    assert [p.name for p in kernel.params] == ["x", "shift", "bias", "half", "y"]
    assert all(isinstance(verdict, Proved) for _, verdict in kernel_claims(kernel))
    x = np.arange(4, dtype=np.float32)
    found = data.expected(kernel, {"x": x, "shift": np.int32(1), "bias": x, "half": np.float16(1), "y": x}, {"N": 4})
    np.testing.assert_array_equal(found["y"], x.astype(np.float64) * np.float32(0.1) + 1 + x)


def test_the_compiler_computes_with_it():
    fewer, all_ = made().fixed(slope=0.0, shift=0, clamped=False), made()
    assert fewer.ptx().count("\n") < all_.ptx().count("\n")
    assert "max." in all_.ptx()
    assert "max." not in fewer.ptx()


def sums(specialise=True):
    @lego.kernel(grid=lego.cdiv(N, 32), block=32, specialise=specialise)
    def sums(x: lego.Tensor(f32, Row(N, K)), y: VECTOR):
        i = lego.block_id[0] * 32 + lego.thread_id[0]
        with lego.when(i < N):
            total = lego.register(f32(0))
            for k in lego.range(K):
                total.set(total + x[i, k])
            with lego.when(K == 7):
                total.set(-total)
            y[i] = total

    return sums


@pytest.mark.parametrize("n", [(5, 1), (64, 7), (33, 16), (3, 64)])
def test_each_value_of_a_size_has_a_kernel(n):
    x = np.arange(n[0] * n[1], dtype=np.float32).reshape(n)
    kernel = sums(("K",))
    np.testing.assert_array_equal(kernel(x), x.sum(1) * (-1 if n[1] == 7 else 1))
    ((facts, special),) = kernel.calls.special.items()
    assert ("K", n[1]) in facts.numbers
    assert f"constant {n[1]} : index" in special.kernel.mlir()


def test_a_size_of_zero_runs_the_kernel_for_all_sizes():
    empty = lego.size("E", min=0)

    @lego.kernel(grid=lego.cdiv(N, 32), block=32, specialise=("E",))
    def sums(x: lego.Tensor(f32, Row(N, empty)), y: VECTOR):
        i = lego.block_id[0] * 32 + lego.thread_id[0]
        with lego.when(i < N):
            total = lego.register(f32(0))
            for k in lego.range(empty):
                total.set(total + x[i, k])
            y[i] = total

    np.testing.assert_array_equal(sums(np.ones((5, 0), np.float32)), np.zeros(5))
    assert not any(dict(facts.numbers) for facts in sums.calls.special)
    np.testing.assert_array_equal(sums(np.ones((5, 3), np.float32)), np.full(5, 3))


def test_in_the_emulator():
    @lego.kernel(grid=2, block=32, specialise=("a",))
    def scale(a: f32, x: lego.Tensor(f32, Row(64)), y: lego.Tensor(f32, Row(64))):
        i = lego.block_id[0] * 32 + lego.thread_id[0]
        y[i] = a * x[i]

    x = np.arange(64, dtype=np.float32)
    np.testing.assert_array_equal(launch_emulated(scale.fixed(a=3.0), x, np.zeros_like(x))[1], 3 * x)


def test_what_is_refused():
    x = np.ones(5, np.float32)
    with pytest.raises(UsageError, match=r"shift is one number of i32, and 0\.5 is none of that type"):
        made()(1.0, x, 0.5, x, False, 1.0)
    with pytest.raises(TraceError, match=r"x=1\.0 of line cannot be fixed: .*numbers: slope of f32, shift of i32, "):
        made().fixed(x=1.0)
    with pytest.raises(TraceError, match=r"shift=2147483648 of line cannot be fixed: .* shift of i32"):
        made().fixed(shift=1 << 31)
    with pytest.raises(TraceError, match=r"specialise=\('z',\) is True or False: .* or names, of slope, shift"):
        made(("z",))
    with pytest.raises(TraceError, match="x of line is never None"):
        made().fixed(x=None)
