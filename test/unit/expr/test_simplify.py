"""Simplification: every rule fires, results are what an expert would write, and the choice is by cost."""

import pytest
import sympy

from lego_mlir.expr.context import context_of
from lego_mlir.expr.cost import MODELS, operations
from lego_mlir.expr.explain import explain
from lego_mlir.expr.index import index_symbol, where
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
from lego_mlir.expr.rules import RULES, SUM_RULES
from lego_mlir.expr.simplify import forget, simplify, simplify_all

i, j, k, u, v = sympy.symbols("i j k u v", integer=True)
M, N, K = Size("M"), Size("N"), Size("K", multiple_of=32)
RANGES = {i: Range(0, 8), j: Range(0, N), k: Range(0, K, 32)}

# rule -> an expression in whose derivation it appears, and the result
FIRES = {
    "quotient": (FloorDiv(N * u + j, N), u),
    "small quotient": (FloorDiv(i, 8), 0),
    "small remainder": (FloorMod(j, N), j),
    "remainder": (FloorMod(N * u + v, N), FloorMod(v, N)),
    "constant quotient": (FloorDiv(-1 - j, N), -1),
    "constant quotient's remainder": (FloorMod(-1 - j, N), N - 1 - j),
    "common factor of a quotient": (FloorDiv(8 * u + i, 64), FloorDiv(u, 8)),
    "divisible part of a quotient": (FloorDiv(N * u + v, N), u + FloorDiv(v, N)),
    "quotient of a quotient": (FloorDiv(FloorDiv(u, 4), N), FloorDiv(u, 4 * N)),
    "quotient of a remainder": (FloorDiv(FloorMod(u, 4 * N), 4), FloorMod(FloorDiv(u, 4), N)),
    "remainder of a remainder": (FloorMod(FloorMod(u, 8 * N), 8), FloorMod(u, 8)),
    "common factor of a remainder": (FloorDiv(FloorMod(8 * u + i, 8 * N), 8), FloorMod(u, N)),
    "smaller": (Smaller(j, N), j),
    "larger": (Larger(i, 7), 7),
    "constant root": (ISqrt(FloorMod(u, 7) + 9), 3),
    "choice of the smaller": (Select(Lt(u, v), u, v), Smaller(u, v)),
    "choice of the smaller or equal": (Select(Le(u, v), u, v), Smaller(u, v)),
    "choice of the larger": (Select(Lt(u, v), v, u), Larger(u, v)),
    "choice of the larger or equal": (Select(Le(u, v), v, u), Larger(u, v)),
    "xor of separate bits": (FloorDiv(BitXor(8 * u + i, 5), 8), u),
    "and of separate bits": (BitAnd(16 * u, i), 0),
    "or of separate bits": (FloorMod(BitOr(8 * u, i), 8), i),
    "quotient and remainder": (N * FloorDiv(u, N) + FloorMod(u, N), u),
    "remainder's parts": (u - N * FloorDiv(u, N) + v, FloorMod(u, N) + v),
    "comparison that holds": (Select(Lt(j, N), u, v), u),
    "comparison that fails": (Select(Eq(2 * u, 5), u, v), v),
}


@pytest.mark.parametrize("name", FIRES)
def test_rule_fires(name):
    raw, expected = FIRES[name]
    found = simplify(raw, RANGES)
    assert found.expr == expected
    assert name in {step.rule for step in found.steps} or name == "constant root"
    assert found.replay() == found.expr
    assert found.after <= found.before


def test_every_rule_has_an_example():
    assert {rule.name for rule in RULES + SUM_RULES} <= FIRES.keys()


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (FloorDiv(k, 32) * 32, k),
        (FloorDiv(K, 32) * 32, K),
        (FloorMod(K, 16), 0),
        (FloorMod(k, 16), 0),
        (8 * FloorDiv(u, 8) + FloorMod(u, 8), u),
        (FloorMod(FloorDiv(u, 4), 8) + 8 * FloorDiv(u, 32), FloorDiv(u, 4)),
        (FloorMod(u + N, N), FloorMod(u, N)),
        (FloorMod(-u + u + 3, N), FloorMod(3, N)),
        (FloorDiv((N + 1) * u + FloorMod(v, N + 1), N + 1), u),
        (FloorMod(9 * u, 8), FloorMod(u, 8)),
        (FloorDiv(FloorMod(u, 64), 64), 0),
        (where(index_symbol("u") < 3, 5, 5), 5),
        (BitAnd(i, 15), i),
        (ShiftLeft(FloorDiv(u, 8), 3) + FloorMod(u, 8), u),
        (Table("same", FloorMod(8 * u + 3, 8), 8, 9, [0, 1, 2, 3, 4, 5, 6, 7]), 3),
    ],
    ids=str,
)
def test_result(raw, expected):
    assert simplify(raw, RANGES).expr == expected


def test_a_remainder_of_64_bit_data_stays_where_its_absence_would_overflow():
    """`(v % 64 + i) % 8` is `(v + i) % 8` for integers, but v + 7 is not an int64 for every int64 v."""
    raw = FloorMod(FloorMod(v, 64) + i, 8)
    assert simplify(raw, RANGES).expr == FloorMod(v + i, 8)
    assert simplify(raw, {**RANGES, v: Range(-(2**31), 2**31)}).expr == FloorMod(v + i, 8)
    assert simplify(raw, {**RANGES, v: Range(-(2**63), 2**63)}).expr == raw
    scaled = FloorMod(FloorMod(v, 64) * 8 + i, 32)
    assert simplify(scaled, {**RANGES, v: Range(-(2**63), 2**63)}).expr == 8 * FloorMod(v, 4) + i


def test_a_quotient_that_64_bits_do_not_hold_is_not_subtracted():
    least = -(2**63)
    assert simplify(FloorMod(v, 2), {v: Range(least, least + 2)}).expr == FloorMod(v, 2)
    assert simplify(FloorMod(v, 2), {v: Range(least + 2, least + 4)}).expr == v - least - 2


def test_unknown_conditions_keep_the_general_form():
    for raw in (FloorDiv(u, 8), FloorMod(u, N), FloorDiv(i, 7), FloorMod(8 * i + u, 8 * v), Smaller(u, v)):
        assert simplify(raw, RANGES).expr == raw


def test_a_divisor_that_may_be_zero_is_left_alone():
    z = Size("z", min=0)
    raw = FloorMod(z * u + v, z)
    assert simplify(raw, {}).expr == raw


def test_shift_that_was_written_is_not_made_a_division():
    raw = ShiftRight(u, 3) + BitAnd(u, 7)
    assert simplify(raw, {}).after == operations(raw) == 3


def test_factoring_back():
    assert simplify(i * N * K + j * K + u * N, {}).after == 5
    by, ty, bx, tx = sympy.symbols("by ty bx tx", integer=True)
    assert simplify(32 * by * N + ty * N + 32 * bx + tx, {}).after == 6


def test_unexpanded_where_that_is_cheaper():
    raw = FloorDiv((u + v) * (u + v + 1), 2) + FloorMod(8 * u + i, 8)
    found = simplify(raw, RANGES)
    assert found.after == operations(FloorDiv((u + v) * (u + v + 1), 2) + i, shared=True)


def test_expanded_where_that_is_cheaper():
    found = simplify(FloorDiv((u + 1) * (8 * N + 16), 8 * N + 16) + (u + v) * (u - v) + v * v, {})
    assert found.expr in (u + u**2 + 1, u * (u + 1) + 1)


def test_conditions_are_simplified():
    assert simplify(Lt(j, N), RANGES).expr == sympy.true
    assert simplify(Ne(4 * u, 4 * v + 1), RANGES).expr == sympy.true
    assert simplify(sympy.And(Lt(j, N), Lt(u, v)), RANGES).expr == Lt(u, v)
    assert simplify(sympy.Or(Lt(j, N), Lt(u, v)), RANGES).expr == sympy.true
    assert simplify(Lt(8 * u + 8 * v, 8 * M), RANGES).expr == Lt(u + v, M)


def test_indices_conditions_and_ints_come_in():
    x = index_symbol("x")
    assert simplify(x // 4, {x: Range(0, 4)}).expr == 0
    assert simplify(x < 4, {x: Range(0, 4)}).expr == sympy.true
    assert simplify(7, {}).expr == 7
    assert simplify(True, {}).expr == sympy.true


def test_expressions_computed_together_share():
    by, ty, bx, tx = sympy.symbols("by ty bx tx", integer=True)
    read, write = (32 * by + ty) * N + 32 * bx + tx, (32 * bx + tx) * M + 32 * by + ty
    found = simplify_all([read, write], {})
    assert operations(*(d.expr for d in found), shared=True) == 8


def test_results_do_not_depend_on_what_was_simplified_before():
    raw = FloorDiv(FloorMod(u, 4 * N), 4) * 4 * K + FloorMod(u, 4) * K + i
    forget()
    alone = simplify(raw, RANGES)
    forget()
    for other in (FloorMod(u, 4 * N), FloorDiv(u, 4) * K, (K * i + u) * 4, FloorMod(u, 4)):
        simplify(other, RANGES)
    assert simplify(raw, RANGES).expr == alone.expr


def test_the_trail_leaves_only_the_writing_to_its_last_step():
    """Steps that make their own pattern anew are taken again, until nothing is left but the form."""
    groups, group, columns, pid = Size("groups"), Size("group"), Size("columns"), sympy.Symbol("pid", integer=True)
    inside = FloorMod(pid, group * columns)
    flat = (
        FloorDiv(pid, group * columns) * group * columns + FloorMod(inside, group) * columns + FloorDiv(inside, group)
    )
    row = FloorDiv(flat, columns)
    again = FloorDiv(row, group) * group * columns + FloorMod(row, group) * columns + FloorMod(flat, columns)
    for raw in (FloorDiv(again, columns), FloorMod(again, columns)):
        found = simplify(raw, {pid: Range(0, groups * group * columns)})
        terms = context_of({pid: Range(0, groups * group * columns)}).terms
        assert terms.read(found.steps[-1].before) == terms.read(found.expr) or found.steps[-1].rule != "cheapest form"
        assert len(found.steps) > 6


def test_contexts_are_shared_by_equal_ranges_and_forgotten():
    forget()
    one = context_of({i: Range(0, 8)})
    assert context_of({i: Range(sympy.Integer(0), 8)}) is one
    assert context_of({i: Range(0, 9)}) is not one


def test_cost_models_are_rows():
    raw = FloorDiv(u, 8) + FloorMod(u, 7)
    assert operations(raw) == 9
    assert operations(raw, model=MODELS["cuda"]) == 22


def test_explanation_of_what_stays():
    assert explain(simplify(FloorDiv(u, 8), {})).splitlines() == [" 4  u // 8", " 4  nothing cheaper was found"]


def test_explanation_names_rule_place_condition_proof_and_counts():
    text = explain(simplify(FloorDiv(N * u + j, N) + 1, RANGES))
    assert text.splitlines() == [
        " 7  (N*u + j) // N + 1",
        " 1  quotient: (N*u + j) // N",
        "      --> u",
        "      since 0 <= j and j < N, by intervals",
        " 1  u + 1",
    ]


def test_a_long_expression_is_explained_as_assignments():
    shared = FloorMod(u, 7) * FloorDiv(v, 3)
    text = explain(simplify(Select(Lt(shared + i, M), shared + i, (shared + 1) * (shared + M)), RANGES))
    assert "s0 = " in text


# ---- piece by piece

A, B, X, Y = sympy.symbols("a b x y", integer=True)
TILE = {A: Range(0, 8), B: Range(0, 8), X: Range(0, 2), Y: Range(0, 4)}
SPREAD = BitOr(ShiftLeft(FloorMod(A + 8 * Y, 16), 10), B + 8 * X)  # two words of a Z-curve, apart
SPREAD = BitAnd(BitOr(SPREAD, ShiftLeft(SPREAD, 2)), 52275)
SPREAD = BitAnd(BitOr(SPREAD, ShiftLeft(SPREAD, 1)), 87125)
SPREAD = BitAnd(BitOr(ShiftRight(SPREAD, 9), SPREAD), 255)
NOTHING = 256 * FloorDiv(B + 8 * X, 16)


def test_a_rewriting_that_saves_is_kept_beside_one_that_costs():
    """Z-order in tiles: the number of the square, which is 0, goes; the bits stay as they were spread."""
    raw = SPREAD + 256 * FloorDiv(A + 8 * Y, 16) + NOTHING
    found = simplify(raw, TILE)
    assert found.expr == SPREAD + 256 * FloorDiv(Y, 2)
    assert (found.before, found.after) == (31, 25)
    assert found.before == operations(raw, shared=True) and found.after == operations(found.expr, shared=True)
    steps = {step.rule: step for step in found.steps}
    assert set(steps) == {"like terms", "common factor of a quotient", "small quotient", "cheapest form"}
    assert set(steps["small quotient"].condition) == {Le(0, B + 8 * X), Lt(B + 8 * X, 16)}
    assert steps["small quotient"].proof != "always"
    assert found.replay() == found.expr


@pytest.mark.parametrize("model", MODELS.values(), ids=str)
@pytest.mark.parametrize(
    "kept",
    [SPREAD, 3 * SPREAD, BitXor(SPREAD, A), Select(Lt(A, B), SPREAD, B), Smaller(SPREAD, A * B)],
    ids=["term", "multiple", "operand", "choice", "smaller"],
)
def test_what_costs_nothing_alone_costs_nothing_beside_what_stays(kept, model):
    alone, beside = simplify(kept, TILE, model=model), simplify(kept + NOTHING, TILE, model=model)
    assert beside.after <= alone.after
    assert beside.replay() == beside.expr


def test_a_part_within_what_stays_is_rewritten():
    inner = simplify(BitXor(SPREAD + NOTHING, A), TILE)
    assert inner.expr == BitXor(SPREAD, A)
    condition = simplify(Lt(SPREAD + NOTHING, 20 * A), TILE)
    assert condition.expr == Lt(SPREAD, 20 * A)
    table = simplify(Table("t", SPREAD + NOTHING, 512, 512), TILE)
    assert table.expr == Table("t", SPREAD, 512, 512)


def test_terms_that_are_rewritten_meet_beside_one_that_stays():
    d = Size("d")
    whole = d * FloorDiv(A, d) + FloorMod(A, d)
    assert simplify(SPREAD + whole, TILE).expr == SPREAD + A
