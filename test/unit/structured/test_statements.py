"""The statements of the LGen paper: its equations and its flop formulas."""

import pytest

from lego_mlir.structured.language import parse
from lego_mlir.structured.lower import lower
from lego_mlir.structured.paper import loops, statements

EXAMPLE = "A = Matrix(4, 4); L = LowerTriangular(4); S = Symmetric(L, 4); U = UpperTriangular(4); A = L*U + S;"


def example():
    return lower(parse(EXAMPLE)).steps[0]


def test_equations_14_to_17():
    found = statements.statements(example())
    assert [str(statement.body) for statement in found] == [
        "A[i, j] = L[i, k] * U[k, j] + S[i, j]",
        "A[i, j] = L[i, k] * U[k, j] + S[j, i]",
        "A[i, j] += L[i, k] * U[k, j]",
    ]
    tree = statements.scan(found, separate=True)
    assert loops.show(tree).splitlines() == [
        "for (c1 = 0; c1 <= 2; c1 += 1)",
        "  for (c2 = 0; c2 <= c1; c2 += 1)",
        "    S0(c1, 0, c2);",  # (14)
        "  for (c2 = c1 + 1; c2 <= 3; c2 += 1)",
        "    S1(c1, 0, c2);",  # (15)
        "for (c2 = 0; c2 <= 3; c2 += 1)",
        "  S0(3, 0, c2);",  # (16)
        "for (c0 = 1; c0 <= 3; c0 += 1)",
        "  for (c1 = c0; c1 <= 3; c1 += 1)",
        "    for (c2 = c0; c2 <= 3; c2 += 1)",
        "      S2(c1, c0, c2);",  # (17)
    ]


def test_merged_and_separated_loops_run_the_same_instances():
    found = statements.statements(example())
    assert sorted(loops.instances(statements.scan(found))) == sorted(
        loops.instances(statements.scan(found, separate=True))
    )


def test_algorithm_1_leaves_the_zero_regions_out():
    ran = [body for body in statements.instances(example()) if body.op == "+="]
    points = {(int(loops.text(b.target.row)), int(loops.text(b.products[0].reads[0].column))) for b in ran}
    assert points == {(i, k) for k in range(1, 4) for i in range(k, 4)}


CASES = {
    "dsyrk": ("A = Matrix({n}, 4); S = Symmetric(U, {n}); S = A*A' + S;", lambda n: 4 * n * n + 4 * n),
    "dtrsv": ("L = LowerTriangular({n}); x = Vector({n}); x = L \\ x;", lambda n: n * n + n),
    "dlusmm": (
        "A = Matrix({n}, {n}); L = LowerTriangular({n}); U = UpperTriangular({n}); S = Symmetric(L, {n}); A = L*U + S;",
        lambda n: (2 * n**3 + n) // 3 + n * n,
    ),
    "dsylmm": (
        "A = Matrix({n}, {n}); S = Symmetric(U, {n}); L = LowerTriangular({n}); A = S*L + A;",
        lambda n: n**3 + n * n,
    ),
    # The paper prints n^3 + 5/2 (n^2 + n). Its terms (a sum of two triangles, a product by a symmetric matrix, an outer
    # product) add up to 2n less than that; the other four cases agree with it exactly.
    "composite": (
        "A = Matrix({n}, {n}); L0 = LowerTriangular({n}); L1 = LowerTriangular({n}); S = Symmetric(L, {n}); "
        "x = Vector({n}); A = (L0 + L1)*S + x*x';",
        lambda n: n**3 + 5 * (n * n + n) // 2 - 2 * n,
    ),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("n", [1, 4, 7, 20])
def test_flops_are_those_of_the_paper(case, n):
    text, formula = CASES[case]
    assert sum(statements.flops(step) for step in lower(parse(text.format(n=n))).steps) == formula(n)


def test_an_order_of_the_users_choice():
    found = statements.statements(example(), order=("i", "j", "k"))
    tree = loops.show(statements.scan(found))
    assert tree.splitlines()[0] == "for (c0 = 0; c0 <= 3; c0 += 1)"
    assert sorted(loops.instances(statements.scan(found))) == sorted(
        loops.instances(statements.scan(statements.statements(example())))
    )
