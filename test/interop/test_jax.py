"""Operators of JAX: eager and under jit, aliasing, refusals. `python test/run.py interop` has JAX."""

from __future__ import annotations

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


def test_there_is_no_derivative(axpy):
    with pytest.raises(ValueError, match="cannot be differentiated"):
        jax.grad(lambda a: axpy(a, a, 2.0).sum())(jnp.ones(8))
