"""Verdicts: proved by the cheapest method that can, refuted with values that show it, unknown with the reason."""

from collections import deque

import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

from lego_mlir.errors import BudgetError, ExpressionError
from lego_mlir.expr import prove as prove_module
from lego_mlir.expr import solver
from lego_mlir.expr.context import context_of, working_in
from lego_mlir.expr.evaluate import evaluate
from lego_mlir.expr.index import index_symbol, minimum, where
from lego_mlir.expr.intervals import bounds
from lego_mlir.expr.nodes import BitAnd, BitXor, Eq, FloorDiv, FloorMod, Le, Lt, Ne, Select, Size, Smaller, Table
from lego_mlir.expr.prove import by_enumeration, holds, prove
from lego_mlir.expr.ranges import Range
from lego_mlir.expr.simplify import forget, simplify
from lego_mlir.expr.sizes import size
from lego_mlir.expr.solver import solve
from lego_mlir.expr.verdict import Proved, Refuted, Unknown

i, j, u, v = sympy.symbols("i j u v", integer=True)
M, N = Size("M"), Size("N", multiple_of=4)
RANGES = {i: Range(0, M), j: Range(0, N)}


@pytest.mark.parametrize(
    ("claim", "by"),
    [
        (Lt(i, M), "intervals"),
        (Lt(i * N + j, M * N), "intervals"),
        (Le(0, FloorMod(u, M)), "intervals"),
        (Lt(Smaller(u, i), M), "intervals"),
        (Ne(8 * u, 12), "divisibility"),
        (Ne(N * u, 4 * v + 2), "divisibility"),
        (sympy.And(Le(0, i), Lt(i, M)), "intervals"),
        (sympy.Or(Lt(u, v), Lt(i, M)), "intervals"),
        (sympy.Or(Lt(i + 1, M), sympy.Not(Lt(i + 2, M))), "intervals"),
        (sympy.Or(Lt(8 * u + 3, N), sympy.Not(Lt(8 * u, N))), "intervals"),
        (sympy.Or(Lt(64 * u + 8 * FloorMod(v, 8) + 7, 64 * M), sympy.Not(Lt(u, M))), "intervals"),
        (Lt(BitXor(FloorDiv(BitAnd(u, 16), 2), 48) + 7, 64), "intervals"),
        (Lt(FloorDiv(u, 4) * 4 + 3 - u, 4), "intervals"),
        (Eq(FloorMod(4 * u + 3, 4), 3), "arithmetic"),
        (True, "arithmetic"),
    ],
    ids=str,
)
def test_proved_without_the_solver(claim, by, monkeypatch):
    def refuse(*_):
        raise AssertionError("the solver was asked")

    monkeypatch.setattr(solver, "_solve", refuse)
    assert prove(claim, RANGES) == Proved(by)


def test_few_values_are_tried_one_by_one(monkeypatch):
    monkeypatch.setattr(solver, "_solve", None)
    a, b = sympy.symbols("a b", integer=True)
    ranges = {a: Range(0, 16), b: Range(0, 16)}
    assert prove(Le(BitXor(a, b), a + b), ranges) == Proved("enumeration of 256 values")
    verdict = prove(Ne(a * a + b * b, 13 * 13 + 15 * 15), ranges)
    assert verdict.counter_example == {"a": 13, "b": 15}


@pytest.mark.parametrize(
    "claim",
    [
        Le(2 * u * v, u * u + v * v),
        Le(FloorDiv(u, 3), FloorDiv(u + v * v, 3)),
        Eq(FloorDiv(-u, 2) + FloorDiv(u + 1, 2), 0),
        Eq(FloorMod(u, -3) + 3 * FloorDiv(-u, 3) + u - 3 * FloorDiv(-u, 3), FloorMod(u, -3) + u),
        Lt(Select(Lt(u, v), u, v), v + 1),
    ],
    ids=str,
)
def test_proved(claim):
    assert isinstance(prove(claim, RANGES, timeout_ms=2000), Proved)


@pytest.mark.parametrize(
    "claim",
    [
        Lt(i + 1, M),
        Eq(FloorMod(u, 4), 0),
        Le(FloorDiv(u, 2) * 2 + 1, u),
        sympy.And(Lt(i, M), Lt(j + 1, N)),
        Ne(u * u, 49),
        sympy.Or(Lt(8 * u + 4, N), sympy.Not(Lt(8 * u, N))),
        Lt(u, 100_000),
        Ne(FloorDiv(u, 7), -9),
        False,
    ],
    ids=str,
)
def test_refuted_with_values_that_show_it(claim):
    verdict = prove(claim, RANGES)
    assert isinstance(verdict, Refuted)
    if claim is not False:
        assert not evaluate(claim, verdict.counter_example)
        assert all(f"{name} = {value}" in verdict.explanation for name, value in verdict.counter_example.items())


def test_a_counter_example_names_the_sizes_behind_a_range():
    example = prove(Lt(i, 5), RANGES).counter_example
    assert set(example) == {"i", "M"}
    assert 5 <= example["i"] < example["M"]


def test_unknown_gives_the_reason():
    a, b, c = sympy.symbols("a b c", integer=True)
    fermat = Ne(a**3 + b**3, c**3)
    verdict = prove(fermat, {s: Range(1, Size("top", min=10**6)) for s in (a, b, c)}, timeout_ms=20)
    assert isinstance(verdict, Unknown)
    assert verdict.reason == "z3 gave up within 20 ms (out of steps)"  # a limit in steps, so the same on a slow machine


def test_an_opaque_operation_refutes_nothing_by_itself():
    verdict = prove(Lt(BitXor(u, v), Size("far", min=10**9)), {u: Range(0, M), v: Range(0, M)}, timeout_ms=100)
    assert not isinstance(verdict, Proved)
    table = Table("given", FloorMod(u, 8), 8, 100)
    assert prove(Lt(table, 100), {}) == Proved("intervals")
    assert isinstance(prove(Lt(table, 99), {}, timeout_ms=100), Unknown)


def test_what_divides_by_zero_is_nobodys_claim():
    z = Size("z", min=0)
    assert isinstance(prove(Eq(z * FloorDiv(u, z) + FloorMod(u, z), u), {}, timeout_ms=1000), Proved)


def test_a_counter_example_is_one_where_the_claim_has_a_value():
    size_ = Size("s")
    claim = Ne(FloorMod(Table("t", FloorMod(4 * u + 1, 4), 2, 9, [7, 0]), FloorMod(i, size_)), 0)  # 0 % .., read as 0
    example = prove(claim, {i: Range(0, 4 * size_)}).counter_example
    assert example["i"] % example["s"] != 0


def test_wrapped_conditions_and_sizes():
    n, x = size("n"), index_symbol("x")
    assert isinstance(prove((x >= 0) & (x < n), {x: Range(0, n)}), Proved)


def test_an_enumeration_does_not_wrap_around():
    x = index_symbol("x")
    chosen = where(x == 12345, 2**63, x)
    assert prove(chosen <= 70000, {x: Range(0, 2**16)}).counter_example == {"x": 12345}
    least = minimum(chosen, 70000)
    assert simplify(least, {x: Range(0, 2**16)}).expr == least.expr
    assert prove(x < 2**64 - 1, {x: Range(2**64 - 8, 2**64)}).counter_example == {"x": 2**64 - 1}


def test_a_span_that_int64_cannot_hold_is_not_enumerated():
    x = index_symbol("x")
    everything = {x: Range(-(2**63), 2**63)}
    assert prove(x * x >= 0, everything)
    assert isinstance(prove(x != 12345678901, everything), Refuted)
    assert not isinstance(prove(BitXor(x.expr, u) < 2**63, {**everything, u: Range(-(2**63), 2**63)}), Refuted)


def test_two_symbols_of_one_name_are_two():
    small, large = size("N", min=1, max=4), size("N", min=8, max=16)
    assert isinstance(prove(small < large, {}), Proved)
    verdict = prove(large <= small, {})
    assert verdict.counter_example == {"N (min=1, max=4)": 1, "N (min=8, max=16)": 8}
    plain, positive = sympy.Symbol("a", integer=True), sympy.Symbol("a", integer=True, positive=True)
    ranges = {plain: Range(0, 4), positive: Range(3, 8)}
    assert isinstance(prove(Le(plain, positive), ranges), Proved)
    assert isinstance(prove(Le(BitXor(plain, 1), positive), ranges), Proved)  # by enumeration, which evaluates
    assert set(prove(Ne(plain, positive), ranges).counter_example) == {"a", "a'"}
    assert simplify(Smaller(plain, positive), ranges).expr == plain


@pytest.mark.parametrize("depth", [300, 3000])
def test_deep_nesting_ends_in_unknown(depth):
    deep = index_symbol("x")
    for step in range(depth):
        deep = (deep * 3 + step) % (step + 7)
    verdict = prove(deep < 5, {index_symbol("x"): Range(0, 10**6)})
    assert isinstance(verdict, Unknown)
    assert "nested too deeply to be proved (Python's recursion limit" in verdict.reason
    for asked in (bounds, simplify):
        with pytest.raises(BudgetError, match="nested too deeply to be"):
            asked(deep, {index_symbol("x"): Range(0, 10**6)})


def test_an_error_leaves_no_half_filled_tables():
    """What an error interrupted holds marks of unfinished work, such as a form that is still the unrewritten one."""
    x = index_symbol("x")
    ranges, deep = {x: Range(0, 64)}, x
    for _ in range(400):
        deep = (deep % 64 + x) // 2 % 64
    begun = context_of(ranges)
    assert isinstance(prove(x < 64, ranges), Proved) and context_of(ranges) is begun
    assert isinstance(prove(deep < 64, ranges), Unknown) and context_of(ranges) is not begun
    begun = context_of(ranges)
    with pytest.raises(BudgetError):
        simplify(deep, ranges)
    assert context_of(ranges) is not begun


@pytest.mark.parametrize(
    ("ends", "message"),
    [
        ({"i": "i"}, "the ends of i's range depend on i itself; let a range end at ints, sizes"),
        ({"i": "j", "j": "i"}, "the ends of i's range depend on i itself, by way of j;"),
        ({"i": "j", "j": "u", "u": "j"}, "the ends of j's range depend on j itself, by way of u;"),
    ],
)
def test_ranges_that_need_each_other_are_refused(ends, message):
    named = {"i": i, "j": j, "u": u}
    ranges = {named[s]: Range(0, named[end] + 1) for s, end in ends.items()}
    for asked in (lambda: prove(Lt(i, 5), ranges), lambda: simplify(FloorMod(i, 5), ranges), lambda: bounds(i, ranges)):
        with pytest.raises(ExpressionError, match=message):
            asked()
    assert prove(Lt(i, 9), {i: Range(0, j), j: Range(0, u), u: Range(0, 8)})


@pytest.mark.parametrize("d", [3, -3, 1, -1])
def test_the_solver_divides_as_python(d):
    """The encoding of division against Python's, at every small value."""
    for value in range(-7, 8):
        fixed = {u: Range(sympy.Integer(value), sympy.Integer(value + 1))}
        claim = sympy.And(Eq(FloorDiv(u, d + v), value // d), Eq(FloorMod(u, d + v), value % d))
        zero = {v: Range(sympy.Integer(0), sympy.Integer(1))}
        assert solve(claim, fixed | zero, 1000).proved


def test_the_solver_is_told_the_facts_of_sizes_and_steps():
    size_, x = Size("s", min=8, max=64, multiple_of=8), sympy.Symbol("x", integer=True)
    ranges = {x: Range(sympy.Integer(4), size_, 4)}
    for claim in (Eq(FloorMod(size_, 8), 0), Le(8, size_), Le(size_, 64), Eq(FloorMod(x, 4), 0), Lt(x, size_)):
        assert solve(claim, ranges, 1000).proved
    assert not solve(Lt(size_, 64), ranges, 1000).proved


def test_a_divisor_that_is_shown_to_be_positive_is_not_shown_to_differ_from_zero_again(monkeypatch):
    asked = []

    def counted(condition, ranges, timeout_ms, **options):
        asked.append(condition)
        return solve(condition, ranges, timeout_ms, **options)

    monkeypatch.setattr(solver, "solve", counted)
    rows = Smaller(M - 8 * FloorDiv(u, 8 * N), 8)
    prover = context_of({u: Range(0, M * N)}).prover
    read = prover.context.terms.read
    assert prover.proof(Ne, read(rows), read(sympy.Integer(0))) == "z3"
    assert prover.proof(Le, read(sympy.Integer(1)), read(rows)) == "z3"
    assert len(asked) == 1


def test_an_index_of_64_bits_is_not_enumerated():
    claim = Lt(Select(Lt(i, FloorMod(u, 2)), j, i), 2)
    ranges = {i: Range(0, 2), j: Range(0, 2), u: Range(-(2**63), 2**63)}
    assert by_enumeration(claim, context_of(ranges).ranges) is None
    assert isinstance(prove(claim, ranges), Proved | Unknown)


def test_a_size_that_no_other_bounds_is_refuted_without_z3(monkeypatch):
    monkeypatch.setattr(solver, "solve", lambda *claim: pytest.fail(f"Z3 was asked for {claim}"))
    depth, pitch, stride = Size("K", multiple_of=8), Size("PB", multiple_of=8), Size("SB", multiple_of=8)
    with working_in({}) as context:
        read = context.terms.read
        assert context.prover.by_solver(Le, read(stride), read(depth * pitch - pitch)) is None


def test_values_that_refuted_one_claim_refute_others_without_z3(monkeypatch):
    ranges = {i: Range(0, 10**6), j: Range(0, 100), u: Range(0, 10**6)}
    unlikely = sympy.Not(Eq(i * 3 + j, 123457))

    def claims(offset):
        return sympy.Or(unlikely, Lt(j + offset, offset)), sympy.Or(unlikely, Lt(j + offset, offset + 100))

    monkeypatch.setattr(prove_module, "LAST_FOUND", deque(maxlen=4))
    solved, z3 = [], solver.solve
    monkeypatch.setattr(solver, "solve", lambda claim, *rest: solved.append(claim) or z3(claim, *rest))
    assert not holds(claims(7)[0], ranges) and claims(7)[0] in solved
    for offset in range(8, 12):
        assert not holds(claims(offset)[0], ranges)
        assert not holds(sympy.Or(claims(offset)[0], Lt(u + offset, offset)), ranges)
        assert holds(claims(offset)[1], ranges)
    assert all(claim not in solved for offset in range(8, 12) for claim in claims(offset)[:1])
    told = prove(claims(8)[0], ranges)
    assert isinstance(told, Refuted) and claims(8)[0] in solved, "a counter-example that is told is Z3's own"


def test_a_claim_is_decided_once_for_the_same_ranges(monkeypatch):
    forget()
    decided = []
    monkeypatch.setattr(
        "lego_mlir.expr.prove.refuted", lambda claim, values: decided.append(claim) or Refuted(values, "")
    )
    n = Size("N")
    i = sympy.Symbol("i", integer=True)
    first, second = (prove(Lt(i, 4), {i: Range(0, n)}) for _ in range(2))
    assert first is second and len(decided) == 1
    prove(Lt(i, 4), {i: Range(0, n + 1)})
    forget()
    prove(Lt(i, 4), {i: Range(0, n)})
    assert len(decided) == 3


def test_a_condition_has_the_factor_of_its_terms_divided_out():
    """A mask of columns proves that half as many bytes are inside of rows of packed numbers."""
    rows, n = Size("rows"), Size("n", multiple_of=8)
    row, place = sympy.symbols("row place", integer=True)
    ranges = {row: Range(0, rows), place: Range(0, n)}
    inside = Lt(row * FloorDiv(n, 2) + 4 * place + 3, FloorDiv(n * rows, 2))
    assert isinstance(prove(sympy.Or(sympy.Not(Lt(8 * place, n)), inside), ranges), Proved)
    assert isinstance(prove(sympy.Or(sympy.Not(Lt(8 * place, n + 1)), inside), ranges), Refuted)


@given(
    st.tuples(*[st.integers(0, 3)] * 4),
    st.tuples(*[st.integers(-4, 4)] * 4),
    st.integers(2, 8),
    st.sampled_from((1, 2, 4)),
)
def test_conditional_claims_hold_where_they_are_proved(factors, offsets, factor, step):
    """Comparisons of two numbers below sizes, under a mask with a common factor, against all values of small sizes."""
    (a, b, e, f), (c, d, g, h) = factors, offsets
    m, n = Size("m", max=4), Size("n", max=8, multiple_of=step)
    i, j = sympy.symbols("i j", integer=True)
    mask = Lt(factor * (a * i + b * j) + c, factor * (n + d))
    goal = Lt(e * i * n + f * j + g, m * n + h)
    verdict = prove(sympy.Or(sympy.Not(mask), goal), {i: Range(0, m), j: Range(0, n)})
    values = [
        {m: p, n: q, i: k, j: x} for p in range(1, 5) for q in range(step, 9, step) for k in range(p) for x in range(q)
    ]
    holds = all(not evaluate(mask, one) or evaluate(goal, one) for one in values)
    assert holds or not isinstance(verdict, Proved)
    assert not holds or not isinstance(verdict, Refuted)
