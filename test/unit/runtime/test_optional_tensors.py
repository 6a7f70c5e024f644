"""Tensors that may be None: each call runs the kernel that is traced with them or without, in every way of calling."""

import numpy as np
import pytest
from launching import launch_emulated

import lego_mlir as lego
from lego_mlir import Row, f32
from lego_mlir.errors import TraceError, UsageError
from lego_mlir.expr.verdict import Proved
from lego_mlir.proofs.claims import kernel_claims
from lego_mlir.runtime import data, inputs

N = lego.size("N")
VECTOR = lego.Tensor(f32, Row(N))


def made(specialise=False):
    @lego.kernel(grid=lego.cdiv(N, 32), block=32, specialise=specialise)
    def scaled(x: VECTOR, scale: VECTOR | None, bias: VECTOR | None, y: VECTOR, rest: VECTOR | None):
        i = lego.block_id[0] * 32 + lego.thread_id[0]
        with lego.when(i < N):
            value = x[i] if scale is None else x[i] * scale[i]
            y[i] = value if bias is None else value + bias[i]
            if rest is not None:
                rest[i] = x[i]

    @scaled.reference
    def expected(x, scale, bias, rest):
        value = x if scale is None else x * scale
        value = value if bias is None else value + bias
        return (value, x) if rest is None or isinstance(rest, np.ndarray) else value

    return scaled


def arrays(n=70):
    return [np.arange(n, dtype=np.float32) + k for k in range(3)]


@pytest.mark.parametrize("specialise", [False, True])
@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize("scale", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_calls_with_and_without_each(scale, bias, check, specialise):
    kernel = made(specialise)
    x, a, b = arrays(64)
    given = x, a if scale else None, b if bias else None
    want = x * (a if scale else 1) + (b if bias else 0)
    y, rest = np.zeros_like(x), np.zeros_like(x)
    found = kernel(*given, y, None, check=check)
    np.testing.assert_array_equal(found, want)
    assert found is y
    both = kernel(x, y=y, rest=rest, scale=given[1], bias=given[2], check=check)
    np.testing.assert_array_equal(both[1], x)
    allocated = kernel(*given)  # both results are left out
    np.testing.assert_array_equal(allocated[0], want)
    np.testing.assert_array_equal(kernel.prepare(*given, y, None)(), want)
    np.testing.assert_array_equal(kernel(*given, y, None), want)


def test_each_set_has_one_kernel_without_their_loads():
    kernel = made()
    x, a, b = arrays()
    for _ in range(2):
        kernel(x, None, b, np.zeros_like(x), None)
        kernel(x, a, None)
    assert set(kernel.calls.fixed) == {frozenset({("scale", "None"), ("rest", "None")}), frozenset({("bias", "None")})}
    plain = kernel.without("scale", "bias", "rest")
    assert [p.name for p in plain.params] == ["x", "y"]
    assert plain.name == "scaled_without_bias_rest_scale"
    np.testing.assert_array_equal(launch_emulated(fixed(plain), x[:64], np.zeros(64, np.float32))[1], x[:64])


def fixed(plain):
    """The same for 64 elements, as the emulator's test takes it."""

    @lego.kernel(grid=2, block=32)
    def kernel(x: lego.Tensor(f32, Row(64)), bias: lego.Tensor(f32, Row(64)) | None, y: lego.Tensor(f32, Row(64))):
        i = lego.block_id[0] * 32 + lego.thread_id[0]
        y[i] = x[i] if bias is None else x[i] + bias[i]

    return kernel.without("bias")


def test_a_kernel_without_a_tensor_is_proved_and_has_the_reference():
    kernel = without_bias()
    assert all(isinstance(verdict, Proved) for _, verdict in kernel_claims(kernel))
    x = arrays()[0]
    found = data.expected(kernel, {"x": x, "y": x}, {"N": x.size})
    np.testing.assert_array_equal(found["y"], x)
    assert not inputs.of_function(kernel, {"N": 70}, 0)


def without_bias():
    @lego.kernel(grid=lego.cdiv(N, 32), block=32)
    def copied(x: VECTOR, bias: VECTOR | None, y: VECTOR):
        i = lego.block_id[0] * 32 + lego.thread_id[0]
        with lego.when(i < N):
            y[i] = x[i] if bias is None else x[i] + bias[i]

    @copied.reference
    def expected(x, bias):
        return x if bias is None else x + bias

    @copied.inputs
    def inputs(rng, N):
        return {"bias": rng.standard_normal(N)}

    return copied.without("bias")


def test_in_a_program():
    kernel = made()

    @lego.program
    def twice(x: VECTOR, b: VECTOR, y: VECTOR):
        middle = lego.empty(f32, Row(N), name="middle")
        kernel(x, None, b, middle, None)
        kernel(middle, b, None, y, None)

    x, _, b = arrays()
    np.testing.assert_array_equal(twice(x, b), (x + b) * b)


def test_what_is_refused():
    kernel = made()
    x, _, _ = arrays()
    with pytest.raises(UsageError, match=r"x is a tensor of f32; pass an array .* not None"):
        kernel(None, x, x)
    with pytest.raises(
        TraceError, match=r"x of scaled is never None; its tensors that may be: bias, rest, scale; decl"
    ):
        kernel.without("x")
    with pytest.raises(TypeError):
        VECTOR | 3
