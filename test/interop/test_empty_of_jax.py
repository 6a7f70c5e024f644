"""Empty operands of JAX: what NumPy gives, as arrays of JAX."""

from itertools import product

import numpy as np
import pytest

import lego_mlir as lego

jax = pytest.importorskip("jax", reason="JAX is not installed; `python test/run.py interop` installs it")
SIZES = [size for size in product((0, 3), (0, 8), (0, 16)) if 0 in size]


def ones(*shape, dtype="float16"):
    return jax.numpy.ones(shape, dtype)


def is_zero(found, shape, dtype="float16"):
    assert isinstance(found, jax.Array) and (found.shape, found.dtype) == (shape, jax.numpy.dtype(dtype))
    assert not np.asarray(found).any()


@pytest.mark.parametrize("size", SIZES)
def test_products(size):
    m, n, k = size
    for dtype, result in (("float16", "float16"), ("bfloat16", "float32"), ("int8", "int32")):
        is_zero(lego.matmul(ones(m, k, dtype=dtype), ones(k, n, dtype=dtype), result=result), (m, n), result)
    is_zero(lego.matmul(ones(m, k), ones(k, n), bias=ones(n) * 0, activation="relu"), (m, n))
    for lead in ((2,), (0,), (2, 0)):
        is_zero(lego.matmul(ones(*lead, m, k), ones(*lead, k, n)), (*lead, m, n))
        is_zero(lego.matmul(ones(*lead, m, k), ones(k, n)), (*lead, m, n))


@pytest.mark.parametrize("size", SIZES)
def test_groups(size):
    m, n, k = size
    ends = jax.numpy.array([0, m], "int32")
    is_zero(lego.grouped_matmul(ones(m, k), ones(2, k, n), ends), (m, n))
    is_zero(lego.grouped_matmul(ones(2, n, k), ones(k, m), ends), (n, m))
    is_zero(lego.grouped_matmul(ones(k, m), ones(m, n) * 0, ends), (2, k, n))


@pytest.mark.parametrize(("heads", "queries", "keys"), [s for s in product((0, 2), (0, 3), (0, 5)) if 0 in s])
def test_attention(heads, queries, keys):
    q, k = ones(2, heads, queries, 64) * np.nan, ones(2, heads, keys, 64)
    is_zero(lego.attention(q, k, k), q.shape)


@pytest.mark.parametrize(("rows", "heads"), [(0, 2), (3, 0)])
def test_packed_attention(rows, heads):
    q = ones(rows, heads, 64)
    is_zero(lego.attention_varlen(q, q, q, jax.numpy.array([0, rows], "int32")), q.shape)
