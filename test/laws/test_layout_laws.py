"""The laws of the algebra, for layouts of every kind."""

import numpy as np
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from lego_mlir.expr.evaluate import evaluate
from lego_mlir.expr.index import Index, index_symbol
from lego_mlir.expr.verdict import Proved
from lego_mlir.layout import GenP, GroupBy, OrderBy, Padded, RegP

import eval_scope
from strategies import layouts, permutations


def every_index(layout):
    dims = layout.dims()
    return tuple(np.unravel_index(np.arange(int(np.prod(dims))), dims))


@settings(max_examples=300)
@given(layouts())
def test_inv_undoes_apply_and_every_position_is_used_once(layout):
    assert isinstance(layout.check(), Proved)
    index = every_index(layout)
    position = layout.apply(*index)
    assert all(np.array_equal(a, b) for a, b in zip(layout.inv(position), index, strict=True))
    assert len(np.unique(position)) == layout.numel()
    assert position.min() >= 0
    assert position.max() < layout.physical_size()
    if not isinstance(layout, Padded):
        assert layout.physical_size() == layout.numel()


@settings(max_examples=150)
@given(layouts(), st.data())
def test_ints_arrays_and_symbols_agree(layout, data):
    index = every_index(layout)
    position = layout.apply(*index)
    k = data.draw(st.integers(0, len(position) - 1))
    at = tuple(int(i[k]) for i in index)
    assert layout.apply(*at) == position[k]
    assert type(layout.apply(*at)) is int
    symbols = [index_symbol(f"i{axis}") for axis in range(len(index))]
    expr = layout.apply(*symbols)
    assert isinstance(expr, Index)
    values = {s.expr: i for s, i in zip(symbols, index, strict=True)}
    assert np.array_equal(np.broadcast_to(evaluate(expr.expr, values), position.shape), position)
    p = sympy.Symbol("p", integer=True)
    back = layout.inv(p)
    assert all(isinstance(b, sympy.Expr) for b in back)
    given_back = [np.broadcast_to(evaluate(b, {p: position}), position.shape) for b in back]
    assert all(np.array_equal(a, b) for a, b in zip(given_back, index, strict=True))


@settings(max_examples=150)
@given(layouts())
def test_equal_layouts_are_equal_and_repr_rebuilds(layout):
    assert layout == layout
    assert hash(layout) == hash(layout)
    text = repr(layout)
    if "rotation" not in text and "<" not in text:
        assert eval(text, eval_scope.names()) == layout


@settings(max_examples=100)
@given(st.integers(1, 60).flatmap(lambda n: st.tuples(permutations(n), permutations(n))))
def test_a_chain_is_composition(pair):
    outer, inner = pair
    n = int(np.prod(outer.dims()))
    both = OrderBy(outer).OrderBy(inner).GroupBy([n])
    first, second = OrderBy(inner).GroupBy([n]), OrderBy(outer).GroupBy([n])
    flat = np.arange(n)
    assert np.array_equal(both.apply(flat), second.apply(first.apply(flat)))
    assert GroupBy([n]).OrderBy(inner).OrderBy(outer) == both


@settings(max_examples=100)
@given(st.integers(1, 60).flatmap(permutations), st.integers(0, 59), st.integers(0, 59))
def test_a_permutation_with_two_positions_merged_is_refuted(perm, a, b):
    """Break f on purpose: send one element to the position of another."""
    dims = perm.dims()
    n = int(np.prod(dims))
    a, b = a % n, b % n
    if a == b or isinstance(perm, RegP):
        return
    target = perm.apply(*np.unravel_index(a, dims))

    def merged(*index):
        flat = np.ravel_multi_index([np.broadcast_to(i, np.broadcast(*index).shape) for i in index], dims)
        return np.where(flat == b, target, perm._apply(index))

    try:
        GenP(dims, merged, perm.f_inv)
    except ValueError as error:
        assert f"both to position {int(target)}" in str(error)
    else:
        raise AssertionError("a collision was accepted")


@settings(max_examples=100)
@given(st.lists(st.tuples(st.integers(1, 20), st.integers(1, 6)), min_size=1, max_size=3))
def test_tiles_with_a_mask_visit_every_element_once(axes):
    """Tiles that need not divide: the masked indices are the elements, each once."""
    sizes, tiles = [n for n, _ in axes], [t for _, t in axes]
    base = GroupBy(sizes)
    tiled = base.tile_by([-(-n // t) for n, t in axes], tiles)
    index = every_index(tiled)
    mask = np.broadcast_to(tiled.mask(*index), index[0].shape)
    logical = [outer * t + inner for outer, inner, t in zip(index[: len(axes)], index[len(axes) :], tiles, strict=True)]
    assert np.array_equal(mask, np.all([i < n for i, n in zip(logical, sizes, strict=True)], axis=0))
    position = tiled.apply(*(i[mask] for i in index))
    assert np.array_equal(np.sort(position), np.arange(base.numel()))
    assert all(np.array_equal(a, i[mask]) for a, i in zip(tiled.inv(position), index, strict=True))
    if all(n % t == 0 for n, t in axes):
        assert tiled.mask(*index) is True


@settings(max_examples=100)
@given(layouts(max_elements=60), st.data())
def test_slices_are_what_numpy_slices(layout, data):
    dims = layout.dims()
    whole = layout[(slice(None),) * len(dims)].positions()
    assert np.array_equal(whole.reshape(-1), layout.apply(*every_index(layout)))
    index = tuple(
        data.draw(st.one_of(st.integers(0, n - 1), st.slices(n).filter(lambda s, n=n: len(range(*s.indices(n))))))
        for n in dims
    )
    taken = layout[index]
    assert np.array_equal(taken if isinstance(taken, int) else taken.positions(), whole[index])
