"""What the conditions of a region imply, by parts that share no symbol, against every value of the symbols."""

import itertools
import operator

import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

import lego_mlir as lego
from lego_mlir import Row, i32
from lego_mlir.expr import solver
from lego_mlir.expr.nodes import FloorDiv, Larger, Le, Lt, Size, Smaller
from lego_mlir.expr.prove import holds
from lego_mlir.expr.ranges import Range
from lego_mlir.expr.simplify import forget
from lego_mlir.tracing.trace.spec_line import Source
from lego_mlir.tracing.trace.trace import If
from lego_mlir.tracing.trace.tracer import Tracer

NAMES = "abcd"
SYMBOLS = dict(zip(NAMES, sympy.symbols("a b c d", integer=True), strict=True))
ENDS = range(4)
comparisons = st.tuples(st.sampled_from((Le, Lt)), st.sampled_from(NAMES), st.sampled_from([*NAMES, *range(-1, 5)]))
MEANT = {Le: operator.le, Lt: operator.lt}


def as_claim(comparison):
    op, left, right = comparison
    return op(SYMBOLS[left], SYMBOLS.get(right, right))


def is_true(comparison, values):
    op, left, right = comparison
    return MEANT[op](values[left], values.get(right, right))


@given(comparisons.filter(lambda c: c[1] != c[2]), st.lists(comparisons, max_size=4))
def test_a_claim_is_implied_if_it_is_for_every_value(claim, path):
    tracer = Tracer("k", (1,), (1,), Source("spec.py", 1))
    tracer.ranges |= {s: Range(0, len(ENDS)) for s in SYMBOLS.values()}
    tracer.path += [as_claim(c) for c in path]
    every = (dict(zip(NAMES, v, strict=True)) for v in itertools.product(ENDS, repeat=len(NAMES)))
    expected = all(is_true(claim, v) for v in every if all(is_true(c, v) for c in path))
    assert tracer.holds(as_claim(claim)) == expected


def test_a_claim_about_data_needs_no_solver_where_the_region_is_about_indices(monkeypatch):
    monkeypatch.setattr(solver, "solve", lambda *given, **named: pytest.fail("Z3"))
    rows, x = lego.size("R", max=2**20), lego.size("C", max=2**20)

    @lego.kernel(grid=lego.cdiv(rows, 8) * x, block=32)
    def k(flags: lego.Tensor(i32, Row(4096))):
        last = lego.minimum(rows, 8 * (lego.block_id.x % lego.cdiv(rows, 8) + 1)) // 8
        for i in lego.range(0, 4096):
            with lego.when(i < last), lego.when(flags[i] != 0):
                flags[i] = 1

    branches = [s for s in k.trace().statements() if isinstance(s, If)]
    assert len(branches) == 2 and all(b.condition not in (sympy.true, sympy.false) for b in branches)


def test_a_loop_between_expressions_is_refuted_without_z3(monkeypatch):
    monkeypatch.setattr(solver, "solve", lambda *given, **named: pytest.fail("Z3"))
    forget()
    N, t, k = Size("N"), *sympy.symbols("t k", integer=True)
    first = 1000 + FloorDiv(Smaller(N, 64 * t), 64)
    ranges = {t: Range(0, 100), k: Range(0, 1 << 20)}
    assert not holds(sympy.Or(sympy.Not(Le(first, k)), sympy.Not(Lt(k, first + 1))), ranges)


def test_what_cannot_run_is_known_in_each_part():
    @lego.kernel(grid=4, block=32)
    def k(out: lego.Tensor(i32, Row(32))):
        x, y = lego.thread_id.x, lego.block_id.x
        with lego.when(x > 20), lego.when(x < 10), lego.when(y < 2):
            out[x] = 1

    innermost = [s for s in k.trace().statements() if isinstance(s, If)][-1]
    assert innermost.condition == sympy.true  # of two that contradict each other, whatever is asked inside


def test_a_size_keeps_its_range():
    """A claim between expressions and a size is not refuted by sizes outside of the range that is given for it."""
    n, a, b = Size("N"), *sympy.symbols("a b", integer=True)
    ranges = {n: Range(100, 5000), a: Range(0, 1 << 20), b: Range(0, 1 << 20)}
    assert holds(sympy.Or(sympy.Not(Le(a + b, n)), Lt(Larger(a, b), 5000)), ranges)
    forget()
    assert not holds(sympy.Or(sympy.Not(Le(a + b, n)), Lt(Larger(a, b), 4000)), ranges)
