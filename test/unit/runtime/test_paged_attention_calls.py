"""`lego_mlir.attention_paged` on arrays: in the interpreter and by NumPy, without a GPU, and what it refuses."""

import numpy as np
import pytest

import lego_mlir
from lego_mlir.errors import UsageError

PAGES, PAGE, SHARED, FEATURES = 12, 64, 1, 64
LENGTHS = np.array([300, 0], np.int32)


def drawn(*shape):
    return np.random.default_rng(len(shape)).normal(size=shape).astype(np.float16)


def given(*queries, group=2):
    q = drawn(len(LENGTHS), *queries, group * SHARED, FEATURES)
    table = np.random.default_rng(0).permutation(PAGES).astype(np.int32).reshape(2, -1)
    return q, drawn(PAGES, PAGE, SHARED, FEATURES), drawn(PAGES, PAGE, SHARED, FEATURES)[::-1].copy(), table, LENGTHS


def expected(q, keys, values, table, lengths, scale):
    """Weighted sums in f64, one query at a time."""
    o = np.zeros(q.shape)
    rows, found = (x.reshape(len(q), -1, *x.shape[-2:]) for x in (q, o))
    for b, m, h in np.ndindex(rows.shape[:3]):
        seen = lengths[b] - rows.shape[1] + m + 1
        if seen > 0:
            k, v = (x[table[b]].reshape(-1, FEATURES)[:seen].astype(float) for x in (keys, values))
            weights = np.exp(k @ rows[b, m, h].astype(float) * scale)
            found[b, m, h] = weights @ v / weights.sum()
    return o


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("queries", [(), (3,)])
@pytest.mark.filterwarnings("ignore::lego_mlir.errors.ReferenceWarning")
def test_pages_of_arrays(queries, check):
    arrays = given(*queries)
    found = lego_mlir.attention_paged(*arrays, scale=0.25, check=check)
    assert found.shape == arrays[0].shape and found.dtype == np.float16
    np.testing.assert_allclose(found, expected(*arrays, 0.25), atol=4e-3)


def test_heads_before_positions_and_queries_in_other_orders():
    q, keys, values, *rest = given()
    turned = (x.swapaxes(1, 2).copy().swapaxes(1, 2) for x in (keys, values))
    found = lego_mlir.attention_paged(np.asfortranarray(q), *turned, *rest, check=True)
    np.testing.assert_allclose(found, expected(q, keys, values, *rest, 0.125), atol=4e-3)


def test_no_pages():
    q, keys, values, table, lengths = given()
    assert not lego_mlir.attention_paged(q, keys[:0], values[:0], table, lengths * 0).any()


@pytest.mark.parametrize(("change", "words"), [
    ({"q": drawn(2, 64)}, r"of \[2, 64\] float16"),
    ({"keys": drawn(PAGES, PAGE, 2, 64)}, "keys and values"),
    ({"table": np.zeros((2, 3))}, "table is .* of int32"),
    ({"lengths": LENGTHS[:1]}, r"lengths \[B\]"),
    ({"values": drawn(PAGES, PAGE, SHARED, 64).astype(np.float32)}, "all float16 or bfloat16"),
    ({"q": None}, "q is an array of NumPy, PyTorch or CuPy, got NoneType"),
])  # fmt: skip
def test_arrays_that_are_refused(change, words):
    arrays = dict(zip(("q", "keys", "values", "table", "lengths"), given(), strict=True)) | change
    with pytest.raises(UsageError, match=words):
        lego_mlir.attention_paged(**arrays, check=True)
