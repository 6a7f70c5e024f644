"""Expressions whose parts are used many times cost what their distinct parts cost: counted in calls, not in seconds."""

import pickle
import random

import pytest
import random_expressions
import sympy
from counted import within
from shared_graphs import CASES

from lego_mlir.expr import nodes
from lego_mlir.expr.evaluate import evaluate
from lego_mlir.expr.index import index_symbol, where
from lego_mlir.expr.prefix import SHOWN, prefix
from lego_mlir.expr.ranges import Range
from lego_mlir.expr.simplify import simplify_all

CALLS = 8_000_000  # of Python functions
QUOTIENTS = 500  # each takes about 2,000 calls


def doubled(x, times=60):
    """A graph of a few hundred nodes with 2**60 paths through it."""
    for _ in range(times):
        x = where(x < 7, x + 1, x % 5)
    return x


def test_equal_nodes_are_one_object():
    i, j = sympy.symbols("i j", integer=True)
    for made in (lambda: nodes.FloorDiv(i + j, 4), lambda: nodes.Lt(i, j), lambda: nodes.Table("t", i, 2, 2, (1, 0))):
        assert made() is made()
        assert pickle.loads(pickle.dumps(made())) is made()


def test_symbols_nodes_and_replacements_meet_each_part_once():
    i, j = index_symbol("i"), index_symbol("j")
    graph, other = doubled(i).expr, doubled(j).expr
    assert within(20_000, lambda: graph.free_symbols) == {i.expr}
    assert len(within(20_000, lambda: list(nodes.every_node(graph, graph)))) < 400
    assert within(50_000, lambda: nodes.replaced(graph, {i.expr: j.expr})) is other
    assert within(50_000, lambda: graph.xreplace({i.expr: j.expr})) is other


def test_the_symbols_of_a_table_are_those_of_its_index():
    i, n = sympy.symbols("i n", integer=True)
    assert nodes.Table("t", i, n, n).free_symbols == {i, n}


def test_a_repr_ends():
    graph = doubled(index_symbol("i"))
    text = within(2_000_000, lambda: repr(graph))
    assert len(text) == SHOWN + 3
    assert text.endswith(" ..")
    with pytest.raises(Exception, match="depends on symbols"):
        within(2_000_000, lambda: bool(graph < 3))


def test_the_beginning_of_a_text_is_that_of_sympy():
    for seed in range(100):
        expr, _, _ = random_expressions.draw(seed)
        assert prefix(expr) == str(expr)
        assert prefix(expr, 17) == str(expr)[:17]


@pytest.mark.parametrize("name", CASES)
def test_derivations_of_shared_graphs_end(name):
    exprs, ranges = CASES[name]()
    derived = within(CALLS, lambda: simplify_all(exprs, ranges))
    source = random.Random(1)
    for _ in range(5):
        values = {str(s): source.randrange(int(r.lo), int(r.hi)) for s, r in ranges.items()}
        assert [evaluate(d.expr, values) for d in derived] == [evaluate(e, values) for e in exprs]
        assert all(d.after <= d.before for d in derived)


def test_a_sum_of_many_quotients_is_derived_in_linear_time():
    i = index_symbol("i").expr
    total = sympy.Add(*(k * nodes.FloorDiv(i, k + 2) for k in range(QUOTIENTS)))
    (derived,) = within(4_000 * QUOTIENTS, lambda: simplify_all([total], {i: Range(0, 4096)}))
    assert evaluate(derived.expr, {"i": 4000}) == sum(k * (4000 // (k + 2)) for k in range(QUOTIENTS))


def test_a_deeply_nested_expression_has_a_beginning():
    x = index_symbol("x")
    for _ in range(3000):
        x = x // 3 + 1
    assert prefix(x.expr, 5) == "((((("
