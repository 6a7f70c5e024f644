"""Products of arrays with leading dimensions: in the interpreter, without a GPU, against NumPy's rules."""

import itertools

import numpy as np
import pytest
from cuda_stand_in import own
from hypothesis import given, settings
from hypothesis import strategies as st

import lego_mlir
from lego_mlir.errors import UsageError
from lego_mlir.runtime import binding
from lego_mlir.runtime.products.batches import batched_product, shared
from lego_mlir.runtime.products.operands import read


def drawn(*shape):
    return np.random.default_rng(len(shape)).integers(-3, 4, shape).astype(np.float16)


def checked(a, b, result=None):
    return batched_product(read("a", a), read("b", b), result, check=True)


def require_right(a, b):
    found = checked(a, b)
    np.testing.assert_array_equal(found, a.astype(np.float32) @ b.astype(np.float32))


@pytest.mark.parametrize(("lead_a", "lead_b"), [((2,), (2,)), ((2, 1), (2, 2)), ((2, 1, 2), (1, 2, 1)), ((), (2,))])
def test_leading_dimensions_are_broadcast(lead_a, lead_b):
    require_right(drawn(*lead_a, 5, 16), drawn(*lead_b, 16, 8))


@pytest.mark.parametrize(("m", "n", "k"), [(5, 7, 16), (5, 8, 13), (8, 9, 7)])
@pytest.mark.parametrize("orders", ["NN", "TN"])
def test_any_sizes_and_orders(m, n, k, orders):
    a, b = drawn(2, m, k), drawn(2, k, n)
    a, b = (x.swapaxes(1, 2).copy().swapaxes(1, 2) if o == "T" else x for x, o in zip((a, b), orders, strict=True))
    require_right(a, b)


def test_one_matrix_is_padded_in_rows_whatever_its_order():
    require_right(drawn(2, 5, 20), drawn(1, 20, 2))
    require_right(drawn(1, 5, 20).swapaxes(1, 2).copy().swapaxes(1, 2)[..., :5, :19], drawn(2, 19, 8))


def test_slices_and_strides_of_zero():
    a, b = drawn(3, 16, 32)[:, 1:6, 8:24], drawn(16, 8)
    require_right(a, np.broadcast_to(b, (3, 16, 8)))
    require_right(a.swapaxes(0, 1), np.broadcast_to(b, (5, 16, 8)))


@given(st.data())
@settings(deadline=None)
def test_the_matrix_of_each_product_is_numpys(data):
    out = tuple(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    lead = tuple(data.draw(st.sampled_from((1, n))) for n in out)[data.draw(st.integers(0, len(out))) :]
    found = shared(lead, out)
    numbers = np.broadcast_to(np.arange(int(np.prod(lead))).reshape(lead), out).reshape(-1)
    if found is None:
        assert sum(1 for _ in itertools.groupby(n > 1 for n in lead)) >= 3
    else:
        np.testing.assert_array_equal(numbers, np.arange(numbers.size) // found.by % found.count)


@pytest.mark.parametrize(("a", "b", "words"), [
    (drawn(2, 5, 16), drawn(3, 16, 8), "leading dimensions must be equal or 1"),
    (drawn(2, 5, 16), drawn(2, 8, 16), "the inner sizes"),
    (drawn(2, 5, 16).astype(np.float32), drawn(2, 16, 8), r"takes arrays of \[.., rows, columns\]"),
    (drawn(2, 5, 16), drawn(16), r"takes arrays of \[.., rows, columns\]"),
])  # fmt: skip
def test_arrays_that_are_refused(a, b, words):
    with pytest.raises(UsageError, match=words):
        checked(a, b)


def test_options_of_matrices_are_refused():
    a, b = drawn(2, 5, 16), drawn(2, 16, 8)
    with pytest.raises(UsageError, match="the result is one of"):
        checked(a, b, "int8")
    with pytest.raises(UsageError, match="for products of two matrices"):
        lego_mlir.matmul(a, b, fixed=True)


def test_rows_of_a_batch_are_one_product_that_is_bound_once(device, monkeypatch):
    a, b = own(drawn(2, 5, 16)), own(drawn(16, 8))
    first = lego_mlir.matmul(a, b)
    assert first.shape == (2, 5, 8)
    with monkeypatch.context() as patch:
        patch.setattr(binding, "bind", None)
        np.testing.assert_array_equal(lego_mlir.matmul(own(-a), b), -first)
    apart = own(drawn(2, 5, 16), shift=2)  # which has to be copied
    np.testing.assert_array_equal(lego_mlir.matmul(apart, b), first)
