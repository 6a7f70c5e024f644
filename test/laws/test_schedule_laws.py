"""For drawn boxes and cuts: an order visits every element once, and its expressions are its map at every size."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lego_mlir import size
from lego_mlir.expr.evaluate import evaluate
from lego_mlir.expr.index import as_expr, index_symbol
from lego_mlir.expr.verdict import Proved
from lego_mlir.layout.checking import check_permutation
from lego_mlir.schedule import generalised_hilbert
from lego_mlir.schedule.cuts import Cuts


@st.composite
def orders(draw):
    """The sizes of a box and up to four cuts."""
    dims = draw(st.lists(st.integers(1, 9), min_size=1, max_size=3))
    cuts = []
    for k in range(draw(st.integers(0, 4))):
        mark = draw(st.sampled_from([None, "odd", "even"])) if k else None
        cuts.append((draw(st.integers(1, len(dims))), draw(st.integers(1, 6)), *([mark] if mark else [])))
    return dims, cuts


@given(orders())
@settings(max_examples=300)
def test_cuts_visit_every_element_once(order):
    dims, cuts = order
    made = Cuts(dims, cuts)
    assert isinstance(made.check(), Proved)
    assert isinstance(check_permutation(made), Proved)  # by enumeration


@given(orders(), st.booleans())
@settings(max_examples=60, deadline=None)
def test_symbolic_sizes_give_the_same_map(order, symbolic_cuts):
    dims, cuts = order
    names = [size(f"n{axis}") for axis in range(len(dims))]
    pieces = [size(f"s{k}") if symbolic_cuts else cut[1] for k, cut in enumerate(cuts)]
    general = Cuts(names, [(cut[0], piece, *cut[2:]) for cut, piece in zip(cuts, pieces, strict=True)])
    values = {as_expr(n): given for n, given in zip(names, dims, strict=True)}
    if symbolic_cuts:
        values |= {as_expr(s): cut[1] for s, cut in zip(pieces, cuts, strict=True)}
    concrete, position = Cuts(dims, cuts), index_symbol("p")
    p = np.arange(concrete.numel())
    index = concrete.inv(p)
    for found, expected in zip(general.inv(position), index, strict=True):
        at = np.broadcast_to(evaluate(as_expr(found), {**values, position.expr: p}), p.shape)
        assert np.array_equal(at, expected)
    at = [index_symbol(f"i{axis}") for axis in range(len(dims))]
    given_at = {as_expr(s): i for s, i in zip(at, index, strict=True)}
    back = np.broadcast_to(evaluate(as_expr(general.apply(*at)), {**values, **given_at}), p.shape)
    assert np.array_equal(back, p)


@given(st.integers(1, 40), st.integers(1, 40))
@settings(max_examples=60, deadline=None)
def test_a_generalised_hilbert_curve_has_no_jump(m, n):
    y, x = generalised_hilbert(m, n).inv(np.arange(m * n))
    assert np.all(np.maximum(abs(np.diff(y)), abs(np.diff(x))) == 1)
