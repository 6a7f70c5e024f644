"""Which copies a product of odd sizes takes, and that the wide product of the copies is the product."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lego_mlir.kernels.aligned_products import ALIGNED, pays, stored, widened

SIZES = st.tuples(*[st.integers(1, 300)] * 3)
LAYOUTS = st.sampled_from(["NN", "NT", "TN", "TT"])


@given(SIZES, LAYOUTS)
def test_rows_of_the_wide_product_are_aligned_and_copies_are_needed(sizes, layouts):
    wide = widened(*sizes, layouts)
    rows = [shape[1] for shape in stored(*sizes, layouts)] + [sizes[1]]
    assert (wide is None) == all(row % ALIGNED == 0 for row in rows)
    if wide is not None:
        assert all(shape[1] % ALIGNED == 0 for shape in wide.stored(layouts)) and wide.sizes[1] % ALIGNED == 0
        assert any(wide.copied) or wide.cropped
        assert all(there >= here for here, there in zip(sizes, wide.sizes, strict=True))


@given(st.tuples(*[st.integers(1, 20)] * 3), LAYOUTS)
def test_the_wide_product_is_the_product(sizes, layouts):
    wide = widened(*sizes, layouts)
    if wide is None:
        return
    m, n, k = sizes
    draw = np.random.default_rng(0)
    a, b = draw.integers(-4, 5, (m, k)), draw.integers(-4, 5, (k, n))
    operands = []
    for array, copied, (rows, columns) in (
        (a, wide.copied[0], (wide.sizes[0], wide.sizes[2])), (b, wide.copied[1], (wide.sizes[2], wide.sizes[1]))
    ):  # fmt: skip
        assert copied or array.shape == (rows, columns)
        operands.append(np.pad(array, [(0, rows - array.shape[0]), (0, columns - array.shape[1])]))
    c = operands[0] @ operands[1]
    assert wide.cropped or c.shape == (m, n)
    np.testing.assert_array_equal(c[:m, :n], a @ b)


@pytest.mark.parametrize(
    ("size", "layouts", "copied", "cropped"),
    [
        ((999, 1000, 1001), "TN", (True, False), True),  # columns of A are odd; K is no row of either
        ((999, 1000, 1001), "NN", (True, True), False),
        ((999, 1000, 1000), "NN", (False, False), None),
        ((1000, 999, 1000), "NT", (False, True), True),
    ],
)
def test_only_what_changes_is_copied(size, layouts, copied, cropped):
    wide = widened(*size, layouts)
    if cropped is None:
        assert wide is None
    else:
        assert (wide.copied, wide.cropped) == (copied, cropped)


def test_copies_pay_where_products_are_many():
    assert pays(4097, 4097, 4097, widened(4097, 4097, 4097, "NN"))
    assert not pays(16, 4097, 4097, widened(16, 4097, 4097, "NN"))
    assert not pays(129, 129, 129, widened(129, 129, 129, "NN"))
