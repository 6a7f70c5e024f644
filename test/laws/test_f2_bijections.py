"""Linear layouts and the algebra of bijections, each in terms of the other; sizes that are not powers of two."""

import itertools
import pickle

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from lego_mlir import Col, GenP, OrderBy, Padded, Row, gallery, size
from lego_mlir.errors import LayoutError
from lego_mlir.f2 import LinearLayout, bijections, encodings
from lego_mlir.f2.conversion import Renamed
from lego_mlir.f2.mixed import MixedLayout, mixed_conversion

from strategies import layouts

ELEMENTS = 300


@given(layouts(max_elements=ELEMENTS))
def test_a_layout_is_recognised_or_refused_with_two_indices(layout):
    dims = layout.dims()
    index = np.unravel_index(np.arange(int(np.prod(dims))), dims)
    try:
        linear = bijections.from_layout(layout)
    except LayoutError as refused:
        message = str(refused)
        assert "powers of two" in message or "padding" in message or "is not linear" in message
        if all(n & (n - 1) == 0 for n in dims) and "is not linear" in message:
            flat = np.broadcast_to(layout.apply(*index), len(index[0]))
            numbers = range(len(flat))
            assert any(flat[a] ^ flat[b] != flat[a ^ b] for a in numbers for b in numbers)
        return
    assert (np.asarray(linear.apply(*index)["offset"]) == layout.apply(*index)).all()
    back = bijections.to_layout(linear)
    assert back.check() and (back.apply(*index) == layout.apply(*index)).all()


@given(st.integers(1, 3), st.integers(1, 3), st.data())
def test_an_invertible_linear_layout_is_a_bijection(a, b, data):
    bits = a + b
    columns = [data.draw(st.integers(1, (1 << bits) - 1)) for _ in range(bits)]
    linear = LinearLayout.of((("x", a), ("y", b)), (("offset", bits),), columns)
    assume(linear.is_invertible())
    layout = bijections.to_layout(linear)
    assert layout.check() and pickle.loads(pickle.dumps(layout)) == layout
    assert bijections.from_layout(layout).columns == columns or tuple(columns) == bijections.from_layout(layout).columns
    for x, y in itertools.product(range(1 << a), range(1 << b)):
        assert layout.apply(x, y) == linear.apply(x, y)["offset"]
        assert layout.inv(layout.apply(x, y)) == (x, y)


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        (Row(3, 4), r"the sizes \[3, 4\]; a linear layout needs powers of two"),
        (Row(size("M"), 4), "needs powers of two"),
        (Padded(Row(8), [4]), "no padding"),
        (gallery.antidiagonal(4), r"is not linear: apply\(\d, \d\) \^ apply\(\d, \d\) is \d+ \^ \d+ = \d+, and"),
        (GenP([4], lambda i: i ^ 1, lambda p: (p ^ 1,)), r"is not linear: apply\(0,\) is 1, not 0"),
    ],
)
def test_what_is_not_linear_is_refused(layout, message):
    with pytest.raises(LayoutError, match=message):
        bijections.from_layout(layout)


def test_an_order_by_columns_is_linear():
    assert bijections.from_layout(OrderBy(Col(4, 8)).GroupBy([8, 4])).is_invertible()


mixed = st.builds(
    lambda n, m, digits: MixedLayout(
        LinearLayout({"register": [(0, 1)] * 1, "lane": [(1 << k, 0) for k in range(n)]}, {"dim0": 1 << n, "dim1": 2}),
        [("register" if r else "lane", m[k], "dim0" if d else "dim1") for k, (r, d) in enumerate(digits)],
    ),
    st.integers(0, 2),
    st.lists(st.integers(2, 5), min_size=3, max_size=3),
    st.lists(st.tuples(st.booleans(), st.booleans()), max_size=3),
)


@given(mixed)
def test_mixed_layouts_are_bijections(layout):
    names = list(layout.in_sizes)
    points = [dict(zip(names, v, strict=True)) for v in itertools.product(*map(range, layout.in_sizes.values()))]
    images = [layout.apply(**p) for p in points]
    assert len({tuple(i.values()) for i in images}) == len(points)
    assert all(0 <= v < layout.out_sizes[n] for i in images for n, v in i.items())
    assert [layout.inverse().apply(**i) for i in images] == points
    arrays = layout.apply(**{n: np.array([p[n] for p in points]) for n in names})
    assert all(np.broadcast_to(arrays[n], len(points)).tolist() == [i[n] for i in images] for n in arrays)


def test_a_composition_of_mixed_layouts_and_a_repeated_conversion():
    low = encodings.MmaSync((1, 4)).layout((16, 32)).sublayout(["register", "lane", "warp"], ["dim0", "dim1"])
    tile = MixedLayout(low, (("register", 3, "dim1"), ("register", 3, "dim0")))
    around = tile @ tile.inverse()
    assert around.apply(dim0=47, dim1=50) == {"dim0": 47, "dim1": 50}
    other = MixedLayout(
        LinearLayout({**low.bases, "register": low.bases["register"][::-1]}, low.out_sizes), tile.digits
    )
    plan, repeats = mixed_conversion(tile, other, 16)
    assert isinstance(plan, Renamed) and repeats == 9


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda t: MixedLayout(t.low, (("register", 1, "dim0"),)), r"digit \('register', 1, 'dim0'\) must be"),
        (lambda t: t.apply(register=0), "takes the inputs"),
        (lambda t: t.apply(register=36, lane=0, warp=0, block=0), "register is 36, outside 0..35"),
        (lambda t: t @ MixedLayout(t.low.inverse(), ()), "times the digits"),
        (
            lambda t: mixed_conversion(MixedLayout(t.low, (("warp", 3, "dim0"), ("register", 3, "dim1"))), t, 16),
            "are not of registers",
        ),
    ],
)
def test_bad_mixed_layouts_are_refused(make, message):
    tile = MixedLayout(encodings.MmaSync((1, 4)).layout((16, 32)), (("register", 3, "dim1"), ("register", 3, "dim0")))
    with pytest.raises(LayoutError, match=message):
        make(tile)
