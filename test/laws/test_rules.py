"""Every rewriting rule is a theorem, and every part of its condition is needed.

Rules over the ring, divisions and choices are shown to Z3 over all integers, rules over bits for bit-vectors. The twin
drops one part of the condition and expects a counter-example, which is then checked by evaluation in Python.
"""

import operator

import pytest
import sympy
import z3

from lego_mlir.expr import nodes
from lego_mlir.expr.evaluate import evaluate
from lego_mlir.expr.nodes import Eq, FloorDiv, FloorMod, Le, Lt, Ne, ShiftLeft
from lego_mlir.expr.rules import RULES, SUM_RULES, a, b, c, d, g, k, q, r, x, y
from lego_mlir.expr.solver import Encoder

BITWISE = (nodes.BitXor, nodes.BitAnd, nodes.BitOr)
ALL = RULES + SUM_RULES
INTEGER_RULES = [rule for rule in ALL if not isinstance(rule.pattern, BITWISE)]
BIT_RULES = [rule for rule in ALL if isinstance(rule.pattern, BITWISE)]
WIDTH = 12
UNDEFINED = object()

by_name = {"ids": lambda value: getattr(value, "name", str(value))}


# Products of unknowns are beyond a decision procedure. Where a proof needs to know that two integers that are not zero
# have a product at least as large as either, these are the two; `test_products_grow` proves the lemma itself.
PRODUCTS = {
    "remainder": [(d, q + FloorDiv(r, d) - FloorDiv(d * q + r, d))],
    "constant quotient's remainder": [(d, k - FloorDiv(x, d))],
    "quotient of a remainder": [
        (a, FloorDiv(x, a) - b * FloorDiv(x, a * b) - FloorDiv(FloorMod(x, a * b), a)),
        (a, FloorDiv(FloorMod(x, a * b), a)),
        (a, FloorDiv(FloorMod(x, a * b), a) - b + 1),
        (a, b),
        (b, FloorDiv(FloorDiv(x, a), b) - FloorDiv(x, a * b)),
    ],
    "remainder of a remainder": [
        (d, FloorDiv(y + c * x, d) - FloorDiv(y + c * FloorMod(x, b), d) - k * FloorDiv(x, b))
    ],
    "common factor of a remainder": [
        (g, b),
        (g, FloorMod(x, b)),
        (g, b - FloorMod(x, b)),
        (b * g, FloorDiv(g * x + r, b * g) - FloorDiv(x, b)),
    ],
}
# An equation of the condition, times the number that the proof multiplies it by.
MULTIPLIED = {"remainder of a remainder": [(c * b, d * k, FloorDiv(x, b))]}


def growth(p, s):
    return z3.And(
        z3.Implies(z3.And(p >= 1, s >= 1), z3.And(p * s >= p, p * s >= s)),
        z3.Implies(z3.And(p >= 1, s <= -1), z3.And(p * s <= -p, p * s <= s)),
        z3.Implies(z3.And(p <= -1, s >= 1), z3.And(p * s <= p, p * s <= -s)),
        z3.Implies(z3.And(p <= -1, s <= -1), z3.And(p * s >= -p, p * s >= -s)),
    )


def test_products_grow():
    p, s = z3.Ints("p s")
    solver = z3.Solver()
    solver.add(z3.Not(growth(p, s)))
    assert solver.check() == z3.unsat


@pytest.mark.parametrize("rule", INTEGER_RULES, **by_name)
def test_rule_holds_for_all_integers(rule):
    encoder = Encoder(z3, {}, assume_defined=False)
    solver = z3.Solver()
    solver.set("timeout", 20_000)
    claim = encoder.truth(Eq(rule.pattern, rule.result))
    solver.add(*(encoder.truth(part) for part in rule.when), z3.Not(claim))
    for left, right in PRODUCTS.get(rule.name, ()):
        solver.add(growth(encoder.term(left), encoder.term(right)))
    for left, right, factor in MULTIPLIED.get(rule.name, ()):
        assert Eq(left, right) in rule.when
        solver.add(encoder.term(left) * encoder.term(factor) == encoder.term(right) * encoder.term(factor))
    solver.add(*encoder.facts)
    assert solver.check() == z3.unsat, str(rule)


BIT_OPERATIONS = {
    nodes.BitXor: operator.xor,
    nodes.BitAnd: operator.and_,
    nodes.BitOr: operator.or_,
    nodes.ShiftLeft: operator.lshift,
    nodes.ShiftRight: operator.rshift,
    FloorMod: operator.mod,  # of bit-vectors: with the divisor's sign
    FloorDiv: lambda n, by: (n - n % by) / by,
    Lt: operator.lt,
    Le: operator.le,
    Ne: operator.ne,
    Eq: operator.eq,
    sympy.Add: lambda *terms: sum(terms[1:], terms[0]),
}


def bits(expr):
    if expr.is_Integer:
        return z3.BitVecVal(int(expr), WIDTH)
    if expr.is_Symbol:
        return z3.BitVec(expr.name, WIDTH)
    return BIT_OPERATIONS[type(expr)](*map(bits, expr.args))


def bit_counter_example(rule, conditions):
    """Values of the symbols for which the rule fails, or None where Z3 proves that there are none."""
    solver = z3.Solver()
    solver.add(bits(k) < WIDTH - 1, z3.Not(bits(rule.pattern) == bits(rule.result)))  # 1 << k stays positive
    solver.add(*map(bits, conditions))
    if solver.check() == z3.unsat:
        return None
    model = solver.model()
    symbols = rule.pattern.free_symbols
    return {s: model.eval(bits(s), model_completion=True).as_signed_long() for s in symbols}


@pytest.mark.parametrize("rule", BIT_RULES, **by_name)
def test_rule_holds_for_all_bit_vectors(rule):
    assert bit_counter_example(rule, rule.when) is None


TWINS = [(rule, part) for rule in ALL for part in rule.when]


@pytest.mark.parametrize(("rule", "dropped"), TWINS, **by_name)
def test_rule_is_refuted_without_a_part_of_its_condition(rule, dropped):
    kept = [part for part in rule.when if part != dropped]
    found = bit_counter_example(rule, kept) if rule in BIT_RULES else integer_counter_example(rule, kept)
    assert found is not None, f"{rule} holds without {dropped}"
    assert all(evaluate(part, found) for part in kept), found
    before, after = outcome(rule.pattern, found), outcome(rule.result, found)
    assert before != after or before is UNDEFINED, found  # where the pattern has no value, no result is its value


def integer_counter_example(rule, conditions):
    encoder = Encoder(z3, {}, assume_defined=False)
    claim = encoder.truth(Eq(rule.pattern, rule.result))
    solver = z3.Solver()
    solver.set("timeout", 20_000)
    solver.add(*(encoder.truth(part) for part in conditions), z3.Not(claim), *encoder.facts)
    small = [z3.And(variable >= -9, variable <= 9) for variable in encoder.symbols.values()]
    if solver.check(*small) != z3.sat:
        return None
    model = solver.model()
    return {s: model.eval(v, model_completion=True).as_long() for s, v in encoder.symbols.items()}


def outcome(expr, values):
    try:
        return evaluate(expr, values)
    except (ZeroDivisionError, ValueError):  # division by zero, a negative shift, the root of a negative number
        return UNDEFINED


@pytest.mark.parametrize("shift", range(7))
@pytest.mark.parametrize(
    "identity",
    [lambda n, p: (nodes.BitAnd(x, 2**n - 1), FloorMod(x, p)), lambda n, p: (nodes.ShiftRight(x, n), FloorDiv(x, p))],
    ids=["mask is remainder", "shift is quotient"],
)
def test_what_reading_takes_for_granted_holds(identity, shift):
    one, other = identity(shift, 1 << shift)
    solver = z3.Solver()
    solver.add(z3.Not(bits(one) == bits(other)))
    assert solver.check() == z3.unsat


def test_a_wrong_rule_would_be_caught():
    """The check of a binding compares the pattern as bound with the expression: a matcher cannot smuggle."""
    from lego_mlir.expr.context import context_of
    from lego_mlir.expr.poly import number
    from lego_mlir.expr.rules import Rule

    def liar(facts, atom):
        yield {x: number(0), a: number(5)}

    context = context_of({})
    atom = context.terms.read(FloorDiv(sympy.Symbol("i", integer=True), 4)).atom
    rule = Rule("liar", FloorDiv(x, a), sympy.S.Zero, (Le(0, x), Lt(x, a)), liar)
    assert context.rewriter._apply(rule, atom) is None
    assert ShiftLeft(x, 0) == x
