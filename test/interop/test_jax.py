"""Operators of JAX: eager and under jit, aliasing, refusals. `python test/run.py interop` has JAX."""

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="JAX is not installed; `python test/run.py interop` installs it")

import interop_kernels as kernels  # noqa: E402
import jax.numpy as jnp  # noqa: E402

import lego_mlir as lego  # noqa: E402
from lego_mlir.errors import UsageError  # noqa: E402


@pytest.fixture
def axpy():
    return lego.jax.op(kernels.axpy)


def test_eager_and_jitted_calls_agree(axpy):
    x, y = jnp.arange(1000, dtype=jnp.float32), jnp.ones(1000, jnp.float32)
    assert np.allclose(axpy(x, y, 2.0), 2 * x + y)
    jitted = jax.jit(lambda a, b: axpy(a * 1.5, b, 3.0) + 1)
    for n in (1000, 77, 1):
        assert np.allclose(jitted(x[:n], y[:n]), (4.5 * x + y + 1)[:n])


def test_a_tensor_that_is_read_and_written_is_returned():
    double, v = lego.jax.op(kernels.double), jnp.ones(128)
    assert (jax.jit(double)(v) == 2).all() and (v == 1).all()
    donating = jax.jit(lambda a: double(a), donate_argnums=0)
    assert (donating(jnp.ones(128)) == 2).all()


def test_several_results_and_integer_numbers():
    up, down = jax.jit(lambda x: lego.jax.op(kernels.two_results)(x, -7))(jnp.arange(128, dtype=jnp.int32))
    assert up[0] == -7 and down[0] == 7


def test_a_loop_of_xla_calls_it(axpy):
    y = jnp.ones(64)
    found = jax.jit(lambda x: jax.lax.fori_loop(0, 5, lambda _, v: axpy(v, y, 2.0), x))(jnp.zeros(64))
    assert (found == 31).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda op: op(jnp.ones(8), jnp.ones(9), 2.0), "y has the shape"),
        (lambda op: op(jnp.ones(8), jnp.ones(8), "a"), "alpha is one number of f32"),
        (lambda op: op(jnp.ones(8, jnp.float16), jnp.ones(8), 1.0), "x holds f32"),
        (lambda op: op(3, jnp.ones(8), 1.0), "pass a JAX array, not 3"),
        (lambda op: op(jnp.ones(8), jnp.ones(8)), "takes x, y, alpha, z"),
        (lambda op: lego.jax.op(kernels.columns)(jnp.zeros((16, 8))), "JAX's arrays are row-major"),
        (lambda op: jax.jit(lambda a: op(a, a, 1.0, N=3))(jnp.ones(8)), "no parameter or size N"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(axpy, call, message):
    with pytest.raises(UsageError, match=message):
        call(axpy)


@pytest.mark.parametrize("derive", [lambda f: jax.grad(f), lambda f: jax.grad(jax.jit(f)), jax.jacfwd])
def test_a_derivative_is_refused_without_a_backward_function(axpy, derive):
    with pytest.raises(UsageError, match=r"kernel axpy has no derivative; give lego.jax.op a backward function"):
        derive(lambda a: axpy(a, a, 2.0).sum())(jnp.ones(8))


def backward(gradients, inputs, results):
    assert len(inputs) == 3 and len(results) == 1
    return gradients[0] * inputs[2], gradients[0], None


def test_gradients_come_from_the_backward_function():
    axpy = lego.jax.op(kernels.axpy, backward)
    x, y = jnp.arange(8, dtype=jnp.float32), jnp.ones(8, jnp.float32)

    def loss(a, b):
        return (axpy(a * a, b, 3.0) ** 2).sum()

    def same(a, b):
        return ((3.0 * a * a + b) ** 2).sum()

    for transform in (lambda f: jax.grad(f, (0, 1)), lambda f: jax.jit(jax.grad(f, (0, 1)))):
        for found, expected in zip(transform(loss)(x, y), transform(same)(x, y), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-5)
    wrong = lego.jax.op(kernels.axpy, lambda gradients, inputs, results: gradients)
    with pytest.raises(UsageError, match="must return 3 gradients, one for each of x, y, alpha"):
        jax.grad(lambda a: wrong(a, a, 2.0).sum())(x)


def test_a_mapped_axis_runs_the_kernel_once_for_each_element():
    axpy = lego.jax.op(kernels.axpy, backward)
    x, y = jnp.arange(24, dtype=jnp.float32).reshape(3, 8), jnp.ones(8, jnp.float32)
    for f in (jax.vmap(lambda a: axpy(a, y, 2.0)), jax.jit(jax.vmap(lambda a: axpy(a, y, 2.0)))):
        np.testing.assert_array_equal(f(x), 2 * x + y)
    gradients = jax.vmap(jax.grad(lambda a: axpy(a, y, 2.0).sum()))(x)
    np.testing.assert_array_equal(gradients, np.full((3, 8), 2.0))


def test_arrays_without_elements():
    for call in (lego.jax.op(kernels.axpy), jax.jit(lambda a, b, n: lego.jax.op(kernels.axpy)(a, b, 2.0))):
        assert call(jnp.zeros(0, jnp.float32), jnp.zeros(0, jnp.float32), 2.0).shape == (0,)
