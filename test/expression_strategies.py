"""What Hypothesis draws for expressions: symbols with ranges, expressions that are defined everywhere, and points."""

import numpy
import sympy
from hypothesis import strategies as st

from lego_mlir.expr.evaluate import evaluate
from lego_mlir.expr.nodes import (
    BitAnd,
    BitOr,
    BitXor,
    Eq,
    FloorDiv,
    FloorMod,
    ISqrt,
    Larger,
    Le,
    Lt,
    Ne,
    Select,
    ShiftLeft,
    ShiftRight,
    Size,
    Smaller,
    Table,
)
from lego_mlir.expr.ranges import Range

CONSTANTS = [0, 1, 2, 3, 4, 5, 7, 8, 12, 16, 32, 100, -1, -2, -3, -8]
DIVISORS = [1, 2, 3, 4, 5, 6, 8, 12, 16, 32, 100, -1, -2, -3, -4]
FREE = sympy.Symbol("u", integer=True)  # has no range: any integer
i, j, k, l = sympy.symbols("i j k l", integer=True)  # noqa: E741  the field's names


@st.composite
def sizes(draw):
    """Three sizes with facts of different kinds."""
    multiple = draw(st.sampled_from([1, 1, 4, 32]))
    return [
        Size("M", min=draw(st.sampled_from([1, multiple])), multiple_of=multiple),
        Size("N", min=draw(st.sampled_from([1, 2]))),
        Size("K", max=64, multiple_of=draw(st.sampled_from([1, 8]))),
    ]


@st.composite
def scopes(draw):
    """(sizes, ranges): symbols with constant and symbolic ends, steps, and one that may be negative."""
    m, n, depth = draw(sizes())
    ranges = {
        i: Range(0, draw(st.sampled_from([4, 8, 7, m, n * 4]))),
        j: draw(
            st.sampled_from([Range(0, 2), Range(0, n), Range(-5, depth), Range(n, n + 16), Range(n - 3, m * n, 3)])
        ),
        k: Range(draw(st.sampled_from([0, 2, -4])), draw(st.sampled_from([9, 33])), draw(st.sampled_from([1, 4, 8]))),
        l: Range(0, draw(st.sampled_from([FloorDiv(m, 4) + 1, 1, m * n]))),
    }
    return (m, n, depth), ranges


@st.composite
def expressions(draw, scope, depth):
    """An integer expression over a scope whose every operation is defined for all values."""
    known, _ = scope
    leaves = [i, j, k, l, FREE, *known[:2]]
    if depth == 0:
        return draw(st.sampled_from(leaves) | st.sampled_from(CONSTANTS).map(sympy.Integer))

    def operand():
        return draw(expressions(scope, depth - draw(st.sampled_from([1, 1, 1, 2])) if depth > 1 else 0))

    def divisor():
        symbolic = [known[0], known[1], known[2], known[0] * known[1], 4 * known[1], known[1] + 1]
        return draw(st.sampled_from(DIVISORS).map(sympy.Integer) | st.sampled_from(symbolic))

    kind = draw(st.sampled_from(_KINDS))
    if kind in ("//", "%"):
        return (FloorDiv if kind == "//" else FloorMod)(operand(), divisor())
    if kind == "+":
        return operand() + operand()
    if kind == "-":
        return operand() - operand()
    if kind == "*":
        return operand() * draw(st.sampled_from([*map(sympy.Integer, (2, 3, 4, 8, 16, -1, -4)), *leaves]))
    if kind == "product":
        return operand() * operand()
    if kind == "shift":
        return draw(st.sampled_from([ShiftLeft, ShiftRight]))(operand(), sympy.Integer(draw(st.integers(0, 4))))
    if kind == "bits":
        return draw(st.sampled_from([BitXor, BitAnd, BitOr]))(operand(), operand())
    if kind == "extreme":
        return draw(st.sampled_from([Smaller, Larger]))(operand(), operand())
    if kind == "root":
        return ISqrt(Larger(operand(), 0))
    if kind == "table":
        entries = draw(st.lists(st.integers(-9, 40), min_size=4, max_size=4))
        return Table("t", FloorMod(operand(), 4), 4, 41, entries)
    return Select(draw(conditions(scope, depth - 1)), operand(), operand())


_KINDS = ["+", "+", "+", "-", "*", "*", "*", "product", "//", "//", "//", "%", "%", "%", "shift", "bits", "extreme",
          "select", "root", "table"]  # fmt: skip


@st.composite
def conditions(draw, scope, depth):
    """A comparison, or a combination of two."""
    kind = draw(st.sampled_from(["compare", "compare", "compare", "and", "or", "not"]))
    if kind == "not":
        return sympy.Not(draw(conditions(scope, 0)))
    if kind in ("and", "or"):
        return (sympy.And if kind == "and" else sympy.Or)(draw(conditions(scope, 0)), draw(conditions(scope, 0)))
    left, right = (draw(expressions(scope, max(0, depth))) for _ in range(2))
    return draw(st.sampled_from([Lt, Le, Eq, Ne]))(left, right)


def points(scope, count, seed):
    """`count` values of every symbol within its facts, as arrays; small sizes are drawn often."""
    known, ranges = scope
    source = numpy.random.default_rng(seed)
    values = {}
    for size in known:
        least = -(-size.min // size.multiple_of)
        most = 40 if size.max is None else size.max // size.multiple_of
        few = numpy.minimum(least + source.integers(0, 4, count), most)
        many = source.integers(least, most + 1, count)
        values[size] = size.multiple_of * numpy.where(source.random(count) < 0.5, few, many)
    for symbol, known_range in ranges.items():
        lo, hi = (numpy.broadcast_to(evaluate(end, values), (count,)) for end in (known_range.lo, known_range.hi))
        steps = (hi - 1 - lo) // known_range.step
        drawn = (source.random(count) * (steps + 1)).astype(numpy.int64)
        drawn = numpy.where(source.random(count) < 0.3, steps * source.integers(0, 2, count), drawn)  # the ends
        values[symbol] = lo + known_range.step * drawn
    values[FREE] = source.integers(-300, 300, count)
    return values
