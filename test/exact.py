"""Expressions in Python's own integers, one number at a time, and expressions whose values lie around 2**63."""

import math
import operator

import sympy
from hypothesis import strategies as st

from lego_mlir.expr import nodes
from lego_mlir.expr.ranges import Range

x, y, z = sympy.symbols("x y z", integer=True)
EDGES = [
    sign * 2**power + step for power in (0, 5, 31, 32, 53, 62, 63, 64, 100) for sign in (1, -1) for step in (-1, 0, 1)
]
PAIRS = {
    nodes.FloorDiv: operator.floordiv,
    nodes.FloorMod: operator.mod,
    nodes.BitXor: operator.xor,
    nodes.BitAnd: operator.and_,
    nodes.BitOr: operator.or_,
    nodes.ShiftLeft: operator.lshift,
    nodes.ShiftRight: operator.rshift,
    nodes.Smaller: min,
    nodes.Larger: max,
    nodes.ISqrt: math.isqrt,
}


def exactly(expr, values):
    """The value of an expression or condition for one int a symbol; ZeroDivisionError where it has none."""
    if expr is sympy.true or expr is sympy.false:
        return bool(expr)
    if expr.is_Integer:
        return int(expr)
    if expr.is_Symbol:
        return values[expr]
    if isinstance(expr, nodes.Table):
        return expr.entries[exactly(expr.index, values)]
    operands = [exactly(argument, values) for argument in expr.args]
    if isinstance(expr, nodes.Select):
        return operands[1] if operands[0] else operands[2]
    if isinstance(expr, nodes.COMPARISONS):
        return type(expr).holds(*operands)
    if isinstance(expr, (sympy.And, sympy.Or, sympy.Not)):
        return all(operands) if expr.func is sympy.And else any(operands) if expr.func is sympy.Or else not operands[0]
    if expr.is_Add:
        return sum(operands)
    if expr.is_Mul:
        return math.prod(operands)
    return operands[0] ** int(expr.exp) if expr.is_Pow else PAIRS[type(expr)](*operands)


def numbers():
    """Ints at which 32 or 64 bits end, and small ones."""
    return st.one_of(st.sampled_from(EDGES), st.integers(-100, 100))


def edge_expressions(depth):
    """Expressions over x, y, z and such numbers; a divisor may be zero somewhere."""
    if depth == 0:
        return st.one_of(st.sampled_from([x, y, z]), st.sampled_from(EDGES).map(sympy.Integer))
    part = edge_expressions(depth - 1)
    pairs = st.sampled_from(
        [lambda a, b: a + b, lambda a, b: a * b, nodes.BitXor, nodes.BitAnd, nodes.BitOr, nodes.Smaller, nodes.Larger]
    )
    divided = st.builds(
        lambda node, a, b: node(a, 3 if b == 0 else b), st.sampled_from([nodes.FloorDiv, nodes.FloorMod]), part, part
    )
    amounts = st.builds(nodes.FloorMod, part, st.sampled_from([3, 40, 70, 130]))
    tables = st.sampled_from([(0, 5, 2**63, 7), (1, 2, 3, 2**62), (-1, 0, -(2**63), 4)])
    return st.one_of(
        part,
        st.builds(lambda build, a, b: build(a, b), pairs, part, part),
        divided,
        st.builds(lambda a, n: a**n, part, st.sampled_from([2, 3, 5])),
        st.builds(lambda node, a, n: node(a, n), st.sampled_from([nodes.ShiftLeft, nodes.ShiftRight]), part, amounts),
        st.builds(lambda a: nodes.ISqrt(nodes.Larger(a, 0)), part),
        st.builds(nodes.Select, comparisons(part), part, part),
        st.builds(lambda a, entries: nodes.Table("T", nodes.FloorMod(a, 4), 4, 2**64, entries), part, tables),
    )


def comparisons(part):
    return st.builds(lambda op, a, b: op(a, b), st.sampled_from([nodes.Lt, nodes.Le, nodes.Eq, nodes.Ne]), part, part)


@st.composite
def edge_ranges(draw):
    """Ranges of x, y and z that end at such numbers, some of them of few values, some without an end."""
    ranges = {}
    for symbol in (x, y, z):
        low = draw(numbers())
        length = draw(st.sampled_from([1, 2, 3, 30, 2**16, 2**63, 2**64, None]))
        if length is not None:
            ranges[symbol] = Range(low, low + length, draw(st.sampled_from([1, 1, 1, 4, 2**31])))
    return ranges


@st.composite
def edge_points(draw, ranges):
    """An int for each of x, y and z, within its range."""
    point = {}
    for symbol in (x, y, z):
        known = ranges.get(symbol)
        if known is None:
            point[symbol] = draw(numbers())
        else:
            steps = range(int(known.lo), int(known.hi), known.step)
            last = (steps.stop - 1 - steps.start) // steps.step
            chosen = draw(st.one_of(st.sampled_from([0, last]), st.integers(0, last)))
            point[symbol] = steps.start + steps.step * chosen
    return point
