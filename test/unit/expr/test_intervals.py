"""Bounds hold at every drawn point, and are as tight as the ranges allow where it matters."""

import numpy
import pytest
import sympy
from expression_strategies import expressions, points, scopes
from hypothesis import given, settings
from hypothesis import strategies as st

from lego_mlir.expr.context import context_of
from lego_mlir.expr.evaluate import evaluate
from lego_mlir.expr.index import index_symbol
from lego_mlir.expr.intervals import Bounds, bounds
from lego_mlir.expr.nodes import (
    BitAnd,
    BitOr,
    BitXor,
    FloorDiv,
    FloorMod,
    ISqrt,
    Larger,
    Select,
    ShiftLeft,
    ShiftRight,
    Size,
    Smaller,
    Table,
)
from lego_mlir.expr.poly import Poly
from lego_mlir.expr.ranges import Range

i, j, k, t, free = sympy.symbols("i j k t free", integer=True)
M, N = Size("M"), Size("N", max=100)
RANGES = {i: Range(0, 8), j: Range(-3, 5), k: Range(4, 64, 4), t: Range(0, M)}


@given(st.data(), scopes(), st.integers(1, 3), st.integers(0, 2**32 - 1))
@settings(max_examples=300)
def test_bounds_hold(data, scope, depth, seed):
    raw = data.draw(expressions(scope, depth))
    found = bounds(raw, scope[1])
    values = numpy.atleast_1d(evaluate(raw, points(scope, 20, seed)))
    assert found.lo is None or (values >= found.lo).all()
    assert found.hi is None or (values <= found.hi).all()
    if found.modulus:
        assert (values % found.modulus == found.remainder).all()
    else:
        assert (values == found.remainder).all()
    divisor = found.multiple_of
    assert (values % divisor == 0).all() if divisor else (values == 0).all()


@given(st.data(), scopes(), st.integers(1, 3), st.integers(0, 2**32 - 1))
@settings(max_examples=200)
def test_what_is_called_nonnegative_is(data, scope, depth, seed):
    raw = data.draw(expressions(scope, depth))
    context = context_of(scope[1])
    if context.facts.nonnegative(context.terms.read(raw)):
        assert numpy.all(evaluate(raw, points(scope, 20, seed)) >= 0)


@given(st.data(), scopes(), st.integers(1, 3), st.integers(0, 2**32 - 1))
@settings(max_examples=250)
def test_symbolic_ends_and_eliminations_hold(data, scope, depth, seed):
    """Every polynomial that is said to bound an operation, or a sum with atoms eliminated, does so at all points."""
    context = context_of(scope[1])
    whole = context.terms.read(data.draw(expressions(scope, depth)))
    values = points(scope, 20, seed)

    def at_points(poly):
        return evaluate(context.terms.write(poly), values)

    for least in context.facts.eliminated(whole):
        assert numpy.all(at_points(least) <= at_points(whole)), (whole, least)
    for atom in whole.atoms():
        value = at_points(Poly({(atom,): 1}))
        for end in context.facts.ends(atom, upper=True):
            assert numpy.all(value <= at_points(end)), (atom, end)
        for end in context.facts.ends(atom, upper=False):
            assert numpy.all(value >= at_points(end)), (atom, end)


def test_ends_are_no_wider_than_needed():
    context = context_of(RANGES)
    (remainder,) = context.terms.read(FloorMod(i * M + 3, M + 2)).atoms()
    assert context.terms.read(M + 1) in context.facts.ends(remainder, upper=True)
    rounded = context.terms.read(M * FloorDiv(t + j, M) - t - j)
    assert context.facts.nonnegative(-rounded)
    assert context.facts.nonnegative(rounded + context.terms.read(M - 1))
    assert not context.facts.nonnegative(rounded)


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (i, (0, 7)),
        (3 - 2 * i, (-11, 3)),
        (k, (4, 60)),
        (i * j, (-21, 28)),
        (j**2, (0, 16)),
        (FloorDiv(j, 2), (-2, 2)),
        (FloorMod(j, 4), (0, 3)),
        (FloorMod(i, 100), (0, 7)),
        (BitXor(i, k), (0, 63)),
        (BitAnd(i, k), (0, 4)),
        (BitOr(i, 16), (16, 23)),
        (ShiftLeft(i, 2), (0, 28)),
        (ShiftLeft(1, i), (1, 128)),
        (ShiftRight(k, 1), (2, 30)),
        (ISqrt(k), (2, 7)),
        (Smaller(i, k), (0, 7)),
        (Larger(i, k), (4, 60)),
        (Select(sympy.true, i, j), (0, 7)),
        (Table("given", i, 8, 30), (0, 29)),
        (Table("known", i, 8, 30, [3, 1, 4, 1, 5, 9, 2, 6]), (1, 9)),
        (FloorDiv(N, 7), (0, 14)),
        (M, (1, None)),
        (t, (0, None)),
        (M - 1 - t, (0, None)),
        (t - M, (None, -1)),
        (i * M + t, (0, None)),
        (4 * FloorDiv(free, 4) - free, (-3, 0)),
    ],
    ids=str,
)
def test_interval(expr, expected):
    found = bounds(expr, RANGES)
    assert (found.lo, found.hi) == expected


@pytest.mark.parametrize(
    ("expr", "divisor"),
    [(k, 4), (8 * i + 4, 4), (8 * i + 16, 8), (i * k, 4), (FloorMod(k, 8), 4), (BitXor(k, 8), 4), (BitAnd(i, 4), 4),
     (Smaller(k, 8 * i), 4), (sympy.Integer(0), 0), (sympy.Integer(12), 12), (i, 1)],
    ids=str,
)  # fmt: skip
def test_divisor(expr, divisor):
    assert bounds(expr, RANGES).multiple_of == divisor


def test_symbolic_tile_stays_inside():
    """by*32 + ty < M where by < M//32 and ty < 32: the claim of every tiled kernel."""
    size = Size("M", multiple_of=32)
    by, ty = sympy.symbols("by ty", integer=True)
    ranges = {by: Range(0, FloorDiv(size, 32)), ty: Range(0, 32)}
    assert bounds(size - 1 - 32 * by - ty, ranges).nonnegative


def test_rounded_up_tiles_reach_no_further_than_a_tile():
    by, ty = sympy.symbols("by ty", integer=True)
    ranges = {by: Range(0, FloorDiv(M + 31, 32)), ty: Range(0, 32)}
    assert bounds(M + 30 - 32 * by - ty, ranges).nonnegative
    assert not bounds(M - 1 - 32 * by - ty, ranges).nonnegative


def test_ints_and_indices_have_bounds():
    assert bounds(5, {}) == Bounds(5, 5, 0, 5)
    p = index_symbol("p")
    assert bounds(p + 1, {p: Range(0, 4)}) == Bounds(1, 4, 1, 0)


def test_a_nonempty_product_of_larger_sizes_is_larger():
    """A size eliminated too early loses (M-1)*(N-1) >= 0 in M*N >= M + N - 1."""
    context = context_of({})
    assert context.facts.nonnegative(context.terms.read(M * N - M - N + 1))
