"""The range and the expression of data are right for the numbers at which i8 and its operations turn."""

import itertools

import numpy as np
import pytest
import sympy
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lego_mlir.expr.evaluate import evaluate
from lego_mlir.tracing.trace.data_ranges import DataRanges
from lego_mlir.tracing.trace.dtypes import f32, i1, i8, i32, i64, u8
from lego_mlir.tracing.trace.spec_line import Source
from lego_mlir.tracing.trace.trace import Compose, Compute, Constant, Convert, Lane, Value

HERE = Source("spec.py", 1)
PYTHON = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "lshift": lambda a, b: a << b,
    "rshift": lambda a, b: a >> b,
    "minimum": min,
    "maximum": max,
    "neg": lambda a: -a,
    "abs": abs,
}
ALL = (*range(-128, 128, 9), *range(-2, 10), 63, 64, 127)


def wrapped(number, bits=8):
    return (number + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)


def defined(operation, operands):
    if operation in ("floordiv", "mod"):
        return operands[1] != 0
    return operation not in ("lshift", "rshift") or 0 <= operands[1] < 8


class Program:
    """Operations on i8 over two unknown numbers, as statements and as values for all pairs of them."""

    def __init__(self, draw):
        self.data, self.values = DataRanges(), []
        self.results = {}  # value number -> {inputs: result}, where it has one
        inputs = list(itertools.product(ALL, (-128, -9, -1, 0, 1, 2, 7, 8, 127)))
        for place in range(2):
            self.add(lambda result: None, {pair: pair[place] for pair in inputs})
        for _ in range(draw(st.integers(1, 5))):
            if draw(st.booleans()):
                number = draw(st.sampled_from([-128, -1, 0, 1, 3, 7, 8, 60, 63, 127]))
                self.add(lambda result, n=number: Constant(result, n, HERE), dict.fromkeys(inputs, number))
            name = draw(st.sampled_from(list(PYTHON)))
            operands = [draw(st.sampled_from(self.values)) for _ in range(1 if name in ("neg", "abs") else 2)]
            found = {}
            for pair in inputs:
                given_ = [self.results[o.number].get(pair) for o in operands]
                if None not in given_ and defined(name, given_):
                    found[pair] = wrapped(PYTHON[name](*given_))
            self.add(lambda result, n=name, o=tuple(operands): Compute(result, n, o, HERE), found)

    def add(self, statement, results):
        value = Value(len(self.values), i8)
        self.values.append(value)
        self.results[value.number] = results
        self.data.define(statement(value))


@given(st.data())
@settings(max_examples=150)
def test_every_value_is_in_its_range(data):
    program = Program(data.draw)
    for value in program.values:
        low, high = program.data.range(value)
        assert all(low <= found <= high for found in program.results[value.number].values())


@given(st.data())
@settings(max_examples=60)
def test_an_expression_of_data_is_what_the_machine_computes(data):
    """Also where a value wraps around: such a one is a symbol by itself."""
    program = Program(data.draw)
    symbols = {v.number: sympy.Symbol(f"v{v.number}", integer=True) for v in program.values}
    compared = Value(len(program.values), i1)
    left, right, name = (data.draw(st.sampled_from(c)) for c in (program.values, program.values, ["lt", "ge", "ne"]))
    program.data.define(Compute(compared, name, (left, right), HERE))
    both = [pair for pair in program.results[0] if all(pair in program.results[v.number] for v in program.values)]
    assume(both)
    known = {symbols[v.number]: np.array([program.results[v.number][p] for p in both]) for v in program.values}
    for value in program.values:
        expr = program.data.expression(value, lambda v: symbols[v.number])
        assert (evaluate(expr, known) == known[symbols[value.number]]).all()
    holds = evaluate(program.data.condition(compared, lambda v: symbols[v.number]), known)
    a, b = known[symbols[left.number]], known[symbols[right.number]]
    assert (holds == {"lt": a < b, "ge": a >= b, "ne": a != b}[name]).all()


def chain(*statements):
    data = DataRanges()
    for statement in statements:
        data.define(statement)
    return data


def test_conversions_vectors_and_choices():
    x, small, wide, both, lane, truth, chosen = (Value(n, t) for n, t in enumerate((i32, i32, i64, i32, i32, i1, i32)))
    five = Value(7, i32)
    data = chain(
        Constant(five, 5, HERE),
        Compute(small, "mod", (x, five), HERE),
        Convert(wide, small, HERE),
        Compose(both, (small, five), HERE),
        Lane(lane, both, 0, HERE),
        Compute(truth, "lt", (x, small), HERE),
        Compute(chosen, "select", (truth, small, five), HERE),
    )
    assert [data.range(v) for v in (small, wide, lane, truth, chosen)] == [(0, 4), (0, 4), (0, 5), (0, 1), (0, 5)]
    assert data.text(chosen) == "select(%0 < (%0 % 5), %0 % 5, 5)"
    narrowed = Value(8, i8)
    data.define(Convert(narrowed, x, HERE))
    assert data.range(narrowed) == i8.span


@pytest.mark.parametrize("operation", ["add", "lshift", "rshift", "minimum", "maximum", "neg"])
def test_a_truth_value_stays_one(operation):
    a, b, result = Value(0, i1), Value(1, i1), Value(2, i1)
    data = chain(Constant(a, 1, HERE), Constant(b, 0, HERE), Compute(result, operation, (a, b), HERE))
    assert data.range(result) == (0, 1)


def test_an_integer_of_a_float_has_its_types_range():
    x, whole = Value(0, f32), Value(1, i32)
    assert chain(Convert(whole, x, HERE)).range(whole) == i32.span


def test_a_long_chain_is_no_recursion_and_no_long_text():
    data, value = DataRanges(), Value(0, i32)
    for number in range(1, 5001):
        result = Value(number, i32)
        data.define(Compute(result, "and", (value, value), HERE))
        value = result
    assert data.range(value) == i32.span
    assert len(data.text(value)) <= 60


def test_ranges_of_unsigned_data_and_of_its_operations():
    a, b, c, d, e = (Value(n, t) for n, t in enumerate((u8, u8, u8, i32, i32)))
    data = DataRanges()
    data.define(Compute(b, "popcount", (a,), HERE))
    data.define(Compute(c, "sub", (a, b), HERE))  # may wrap
    data.define(Convert(d, c, HERE))
    data.define(Compute(e, "sign", (d,), HERE))
    assert [data.range(v) for v in (a, b, c, d, e)] == [(0, 255), (0, 8), (0, 255), (0, 255), (0, 1)]
