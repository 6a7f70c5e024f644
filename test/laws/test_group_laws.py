"""The laws of the group: composition, inverse, and views, against NumPy on drawn layouts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lego_mlir as lego
from lego_mlir import Col, GenP, GroupBy, OrderBy, Padded, RegP, Row, TileBy, gallery
from lego_mlir.errors import LayoutError
from lego_mlir.expr.verdict import Proved, Refuted
from lego_mlir.layout import as_layout

import strategies


def positions(layout) -> np.ndarray:
    """The position of each element, in the row-major order of the logical box."""
    dims = tuple(int(n) for n in layout.dims())
    return np.broadcast_to(layout.apply(*np.indices(dims)), dims).reshape(-1)


@st.composite
def views(draw, n):
    """A layout of n elements that fills its positions."""
    chain = tuple(draw(strategies.orders(n)) for _ in range(draw(st.integers(0, 2))))
    return GroupBy(draw(strategies.factorizations(n)), orders=chain)


@st.composite
def several(draw, count):
    n = draw(st.integers(1, 120))
    return [draw(views(n)) for _ in range(count)]


@given(several(2))
def test_composition_is_that_of_the_permutations(pair):
    a, b = pair
    assert (a @ b).dims() == b.dims()
    assert (positions(a @ b) == positions(a)[positions(b)]).all()


@given(several(3))
def test_composition_is_associative(three):
    a, b, c = three
    assert isinstance(((a @ b) @ c).equivalent(a @ (b @ c)), Proved)


@given(several(1))
def test_an_inverse_undoes(one):
    (a,) = one
    n = a.numel()
    assert (positions(a.inverse())[positions(a)] == np.arange(n)).all()
    assert isinstance((a.inverse() @ a).equivalent(Row(*a.dims())), Proved)
    assert isinstance((a @ a.inverse()).equivalent(Row(n)), Proved)
    assert isinstance(a.inverse().inverse().reshape(*a.dims()).equivalent(a), Proved)


@given(several(2))
def test_the_inverse_of_a_product(pair):
    a, b = pair
    assert isinstance((a @ b).inverse().equivalent(b.inverse() @ a.inverse()), Proved)


@given(several(1), st.data())
def test_reshape_and_transpose_are_numpys(one, data):
    (a,) = one
    dims = data.draw(strategies.factorizations(a.numel()))
    assert (positions(a.reshape(dims)) == positions(a)).all()
    order = data.draw(st.permutations(range(1, len(a.dims()) + 1)))
    turned = positions(a).reshape(a.dims()).transpose([axis - 1 for axis in order])
    assert a.transpose(*order).dims() == turned.shape
    assert (positions(a.transpose(*order)) == turned.reshape(-1)).all()
    assert isinstance(a.transpose().transpose().equivalent(a), Proved)


@given(several(2))
def test_equivalent_is_equality_of_the_maps(pair):
    a, b = pair
    b = b.reshape(a.dims())
    verdict = a.equivalent(b)
    same = bool((positions(a) == positions(b)).all())
    assert isinstance(verdict, Proved if same else Refuted)
    if isinstance(verdict, Refuted):
        index = verdict.counter_example["index"]
        assert (a.apply(*index), b.apply(*index)) == verdict.counter_example["positions"]


@given(several(1))
def test_strides_are_there_where_the_distances_are_constant(one):
    (a,) = one
    dims, flat = a.dims(), positions(a).reshape(a.dims())
    found = a.strides()
    steps = [np.unique(np.diff(flat, axis=axis)) for axis, n in enumerate(dims) if n > 1]
    assert (found is not None) == all(len(step) == 1 for step in steps)
    if found is not None:
        assert [s for s, n in zip(found, dims, strict=True) if n > 1] == [int(step[0]) for step in steps]


def test_symbolic_sizes():
    m, n = lego.size("M"), lego.size("N")
    assert isinstance(Col(m, n).transpose().equivalent(Row(n, m)), Proved)
    assert isinstance((Col(m, n).inverse() @ Col(m, n)).equivalent(Row(m, n)), Proved)
    assert isinstance(Row(m, n).equivalent(Col(m, n)), Refuted)
    assert Row(m, n).strides()[0].same(n) and Row(m, n).strides()[1] == 1
    assert Col(m, n).strides()[1].same(m)
    assert gallery.antidiagonal(n).strides() is None


def test_partial_tiles_and_padding():
    partial = Row(100).tile_by([4], [32])
    assert isinstance((gallery.reverse(100) @ partial).equivalent(gallery.reverse(100).tile_by([4], [32])), Proved)
    assert partial.strides() == (32, 1)
    assert (Col(4, 5) @ Padded(Row(4, 5), [4, 4])).apply(1, 2) == Col(4, 5).apply(1, 2)
    assert isinstance(Padded(Row(4, 5), [4, 4]).transpose().equivalent(Padded(Col(5, 4), [4, 4])), Proved)
    assert gallery.padded(32, 32).strides() == (33, 1)
    other = Row(100).tile_by([5], [20])
    assert "logical sizes differ" in partial.equivalent(other).explanation
    shorter = Row(99).tile_by([4], [32])
    assert "is an element of" in partial.equivalent(shorter).explanation


def test_an_order_without_a_view_and_a_tiling():
    order = OrderBy(RegP([2, 2], [2, 1]), gallery.antidiagonal(3))
    assert isinstance((order @ TileBy([2, 2], [3, 3])).equivalent(as_layout(order) @ TileBy([2, 2], [3, 3])), Proved)
    assert isinstance(TileBy([2, 2], [3, 3]).equivalent(Row(6, 6).tile_by([2, 2], [3, 3])), Proved)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: Row(4, 6) @ Row(5), r"has 24 elements, and Row\(5\) has 5 positions"),
        (lambda: gallery.padded(4, 4) @ Row(16), r"its left side needs a layout that fills its positions"),
        (lambda: gallery.padded(4, 4).inverse(), r"inverse needs a layout that fills its positions"),
        (lambda: Row(4, 6).reshape(5, 5), r"reshape: \[5, 5\] has 25 elements and Row\(4, 6\) has 24"),
        (lambda: Row(4, 6).transpose(1, 0), r"sigma is 1-based"),
        (lambda: Row(4, 6) @ 3, r"a layout is needed"),
        (lambda: Row(4, 6).equivalent("Row"), r"a layout is needed"),
    ],
)
def test_what_is_refused(wrong, message):
    with pytest.raises(LayoutError, match=message):
        wrong()


def test_functions_that_handle_ints_only_are_compared_where_they_can_be():
    odd = GenP([4], lambda i: 3 - i if i < 4 else 0, lambda p: (3 - p,))
    assert odd.strides() == (-1,) or odd.strides() is None


@given(several(1), st.data())
def test_a_slice_is_a_layout_where_its_positions_are_consecutive(one, data):
    (a,) = one
    index = [data.draw(st.one_of(st.integers(0, n - 1), st.just(slice(None)))) for n in a.dims()]
    index[data.draw(st.integers(0, len(index) - 1))] = slice(None, None, data.draw(st.sampled_from([1, 1, 2, -1])))
    part = a[tuple(index)]
    where = part.positions()
    if where.max() - where.min() + 1 != where.size:
        with pytest.raises(LayoutError, match="is not a layout"):
            part.as_layout()
        return
    found = part.as_layout()
    assert found.dims() == part.shape and part.offset == where.min()
    assert (found.apply(*np.indices(part.shape)) + part.offset == where).all()
    assert isinstance(found.check(), Proved)


def test_slices_of_symbolic_sizes():
    m, n = lego.size("M"), lego.size("N")
    assert repr(Row(m, n)[3, :].as_layout()) == "Row(N)" and Row(m, n)[3, :].offset.same(3 * n)
    assert repr(Col(m, n)[:, 2].as_layout()) == "Row(M)"
    assert repr(Row(m, n)[:, :].as_layout()) == "Row(M, N)"
    for gap in (lambda: Row(m, n)[:, 2], lambda: Row(m, n)[:, ::2], lambda: gallery.antidiagonal(n)[0, :]):
        with pytest.raises(LayoutError, match="is not known to be a layout"):
            gap().as_layout()


M, N, K = lego.size("M"), lego.size("N", min=2, max=64, multiple_of=2), lego.size("K")
SYMBOLIC = [
    Row(M, N),
    OrderBy(RegP([M, 4], [2, 1]), gallery.reverse(N)).GroupBy([M, 2, 2, N]),
    gallery.antidiagonal(M),
    gallery.xor_swizzle(M, 8, vec=2),
    Padded(Row(M, N + 1), [M, N]),
    Row(M, N).tile_by([lego.cdiv(M, 4), N // 2], [4, 2]),
    GenP([M, N], lambda i, j: i * N + N - 1 - j, lambda p: (p // N, N - 1 - p % N)),
    gallery.reverse(M, N).inverse(),
]


@pytest.mark.parametrize("layout", SYMBOLIC, ids=repr)
def test_substituted_sizes_give_the_layout_at_those_sizes(layout):
    from lego_mlir.layout.substitute import sizes_of

    values = {name: value for name, value in {"M": 5, "N": 6}.items() if name in sizes_of(layout)}
    found = layout.subs(**values)
    assert all(isinstance(n, int) for n in found.dims()) and not sizes_of(found)
    one_by_one = layout
    for name, value in values.items():
        one_by_one = one_by_one.subs(**{name: value})
    index = np.indices(found.dims())
    mask = np.broadcast_to(found.mask(*index), found.dims())
    assert ((found.apply(*index) == one_by_one.apply(*index)) | ~mask).all()
    symbols = lego.symbols(" ".join(f"x{k}" for k in range(len(found.dims()))))
    position = layout.apply(*symbols)
    at = tuple(int(i[mask][-1]) for i in index)
    given = {s.expr: i for s, i in zip(symbols, at, strict=True)} | {
        s: values[str(s)] for s in sizes_of(layout).values()
    }
    from lego_mlir.expr.evaluate import evaluate

    assert int(evaluate(position.expr, given)) == found.apply(*at)


def test_a_size_for_a_size():
    assert Row(M, N).subs(M=K) == Row(K, N)
    assert gallery.antidiagonal(M).subs(M=2 * K).dims()[0].same(2 * K)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"Mm": 4}, r"Row\(M, N\) has no size 'Mm'; did you mean"),
        ({"N": 3}, r"N = 3 must be at least 2, at most 64, a multiple of 2"),
        ({"M": 0}, r"M = 0 must be at least 1"),
    ],
)
def test_substitutions_that_are_refused(values, message):
    with pytest.raises(LayoutError, match=message):
        Row(M, N).subs(**values)


@pytest.mark.parametrize("layout", [*SYMBOLIC[:6], SYMBOLIC[7], gallery.antidiagonal(3) @ Row(9)], ids=repr)
def test_everything_but_lambdas_pickles(layout):
    import pickle

    assert pickle.loads(pickle.dumps(layout)) == layout
