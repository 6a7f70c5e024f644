"""`lego_mlir.attention_varlen` on arrays: in the interpreter, without a GPU, and what it refuses."""

import itertools

import numpy as np
import pytest
from attention_oracle import attended

import lego_mlir
from lego_mlir.errors import UsageError
from lego_mlir.kernels.attention_forms import AttentionForm
from lego_mlir.runtime import packed_attention_calls

STARTS = np.array([0, 5, 5, 70], np.int32)


def drawn(*shape):
    return np.random.default_rng(len(shape)).normal(size=shape).astype(np.float16)


def expected(q, k, v):
    """The causal results of one head, sequence by sequence."""
    found = np.zeros(q.shape)
    for first, end in itertools.pairwise(STARTS):
        if first < end:
            one = (x[first:end].swapaxes(0, 1) for x in (q, k, v))
            found[first:end] = attended(*one, np.tri(end - first)).o.swapaxes(0, 1)
    return found


@pytest.mark.parametrize(("scale", "factor"), [(None, 1.0), (0.5, 4.0)])
def test_sequences_of_arrays(scale, factor):
    q, k, v = (drawn(70, 1, 64) for _ in "qkv")
    found = lego_mlir.attention_varlen(q, k, v, STARTS, causal=True, scale=scale, check=True)
    np.testing.assert_allclose(found, expected(q * factor, k, v), atol=4e-3)


def test_arrays_in_other_orders_are_copied():
    q, k, v = (drawn(70, 1, 64) for _ in "qkv")
    turned = np.asfortranarray(q), np.repeat(k, 2, axis=0)[::2], v[::-1].copy()[::-1]
    np.testing.assert_allclose(
        lego_mlir.attention_varlen(*turned, STARTS, causal=True, check=True), expected(q, k, v), atol=4e-3
    )


def test_no_rows():
    q = drawn(0, 1, 64)
    assert lego_mlir.attention_varlen(q, q, q, np.zeros(3, np.int32), check=True).shape == q.shape


def test_gradients_of_arrays():
    q, k, v, do = (drawn(70, 1, 64) for _ in range(4))
    form = AttentionForm(64, causal=True)
    bound = packed_attention_calls._bound(form, 1, (q, k, v), (STARTS, STARTS), True)
    o, lse = bound.forward((q, k, v, STARTS, STARTS), None)
    _, _, dv = bound.differentiated((q, k, v, STARTS, STARTS, o, lse), do, False)
    np.testing.assert_allclose(dv[:5].sum(0), do[:5].astype(float).sum(0), atol=2e-2)  # weights of a row sum to 1


@pytest.mark.parametrize(("shapes", "starts", "words"), [
    ([(70, 64)] * 3, STARTS, r"q is an array of \[rows, heads, features\], got \(70, 64\)"),
    ([(70, 1, 64)] * 3, STARTS[None], r"cu_seqlens_q is an array of \[sequences \+ 1\]"),
    ([(70, 1, 64)] * 3, STARTS.astype(np.int64), "of int32, got"),
    ([(70, 1, 64)] * 3, STARTS[:1], "of one length from 2 on"),
    ([(70, 3, 64), (70, 2, 64), (70, 2, 64)], STARTS, "a divisor of its heads"),
    ([(70, 1, 64), (70, 0, 64), (70, 0, 64)], STARTS, "a divisor of its heads"),
    ([(70, 1, 80)] * 3, STARTS, "heads of 64, 96, 128, 192, 256 features"),
])  # fmt: skip
def test_arrays_that_are_refused(shapes, starts, words):
    with pytest.raises(UsageError, match=words):
        lego_mlir.attention_varlen(*(drawn(*shape) for shape in shapes), starts, check=True)


@pytest.mark.parametrize(("starts", "words"), [
    ([0, 50, 30], "do not decrease"), ([0, 50, 80], "to at most the 70 rows"), ([0, -4, 70], "do not decrease"),
    ([5, 50, 70], "the first sequence begins at row 0"),
])  # fmt: skip
def test_starts_that_are_refused_by_a_check(starts, words):
    q = drawn(70, 1, 64)
    with pytest.raises(UsageError, match=f"attention_varlen: cu_seqlens_k.*{words}"):
        lego_mlir.attention_varlen(q, q, q, STARTS[[0, 1, 3]], np.array(starts, np.int32), check=True)
