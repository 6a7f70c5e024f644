"""Parts of matrices: triangles of lu's result, and values that are symmetric because the program declares it."""

import numpy as np
import pytest

from lego_mlir.structured import build as structured
from lego_mlir.structured import entry_point, reference
from lego_mlir.structured import structures as st
from lego_mlir.structured.language import parse
from lego_mlir.structured.lower import lower
from lego_mlir.structured.syntax import LLError, Operand, assign, lu, solve, symmetric, tril, triu, unit_tril, unit_triu
from lego_mlir.structured.vector.generate import Variant

PROGRAMS = r"""
P = Symmetric(L, {n}); Y = Symmetric(L, {n}); M2 = Matrix({n}, 3); M5 = Matrix(3, {n});
P = symmetric(Y-M2*M5);

P = Symmetric(U, {n}, storage=packed); Y = Symmetric(L, {n}); M2 = Matrix({n}, 3); M5 = Matrix(3, {n});
P = symmetric(Y-M2*M5);

A = Matrix({n}, {n}); x = Vector({n}); x = triu(lu(A)) \ (unit_tril(lu(A)) \ x);

A = Matrix({n}, {n}); F = Matrix({n}, {n}, storage=column_major); x = Vector({n}); F = lu(A);
x = unit_tril(F) \ x; x = triu(F) \ x;

A = Matrix({n}, {n}); F = Matrix({n}, {n}); B = Matrix({n}, 3); L = UnitLower({n}, storage=packed);
U = UpperTriangular({n}); F = lu(A); L = unit_tril(F); U = triu(F); B = U' \ B; B = triu(F)*B+L*B;

A = Matrix({n}, {n}); A = symmetric(A)+A*A;

A = Matrix({n}, {n}); B = Matrix({n}, {n}); A = symmetric(A)+B;

A = Matrix({n}, {n}); A = tril(A)'+triu(A);

A = Matrix({n}, {n}); A = triu(A);

S = Symmetric(U, {n}, storage=packed); A = Matrix({n}, {n}); C = LowerTriangular({n});
A = tril(S)*triu(S)'-unit_triu(S); C = chol(symmetric(S+S*0.25));

A = Matrix({n}, {n}); x = Vector({n}); x = chol(symmetric(A)) \ x; x = chol(symmetric(A))' \ x;

T = Tridiagonal({n}, storage=band); A = Matrix({n}, {n}); x = Vector({n});
A = symmetric(T)*A+unit_tril(T')+2*tril(T*T)'; x = triu(lu(T)) \ x;

A = Matrix({n}, {n}); B = Matrix({n}, {n}); S = Symmetric(L, {n});
B = symmetric(symmetric(A)*S*symmetric(A'))'+inv(tril(A))-tril(inv(triu(A'))');

A = Matrix({n}, {n}); P = Symmetric(L, {n}); M = Matrix({n}, {n}); M = A*A'; P = symmetric(M);
A = tril(2*A-M)*symmetric(P);

I = Identity({n}); U = UnitUpper({n}); x = Matrix({n}, 2); y = Matrix({n}, 2);
y = (triu(I') \ x) + tril(U')*x - unit_tril(symmetric(U')')*x;
""".strip().split("\n\n")


@pytest.mark.parametrize("text", PROGRAMS)
@pytest.mark.parametrize(
    ("variant", "sizes"),
    [(None, (1, 2, 5, 17)), (Variant(8, 8, 2, True), (9, 17)), (Variant(4, 4, 2), (3, 9)), ("scalar", (1, 2, 5))],
    ids=str,
)
def test_against_numpy(text, variant, sizes):
    for n in sizes:
        kernel = structured.compile(text.format(n=n), variant=variant, cache=None)
        given = reference.sample(kernel.program, seed=n)
        want = reference.evaluate(kernel.program, given)
        kernel(*(given[o.name].reshape(entry_point.array_shape(o)) for o in kernel.program.operands))
        for operand in kernel.program.operands:
            found = reference.dense(operand, given[operand.name])
            assert np.abs(found - want[operand.name]).max() <= 1e-12 * np.abs(want[operand.name]).max(), (n, operand)


def test_a_claim_takes_the_lower_half_and_computes_no_more():
    text = "P = Symmetric(U, 8); Y = Symmetric(L, 8); A = Matrix(8, 3); B = Matrix(3, 8); P = symmetric(Y - A*B);"
    assert [str(step) for step in lower(parse(text)).steps] == ["P = Y + - * B' * A'"]
    wrong = structured.compile("M = Matrix(2, 2); S = Symmetric(U, 2); S = symmetric(M);", cache=None)
    S = np.zeros((2, 2))
    wrong(np.array([[1.0, 7.0], [2.0, 3.0]]), S)
    assert S.tolist() == [[1, 2], [0, 3]]


def test_parts_of_what_is_in_memory_are_not_copied():
    text = "F = Matrix(8, 8); A = Matrix(8, 8); x = Vector(8); F = lu(A); x = triu(F) \\ (unit_tril(F) \\ x);"
    squares = [step for step in lower(parse(text)).steps if step.target.structure.columns > 1]
    assert not any(step.target.temporary for step in squares)


def test_python_makes_parts():
    A, x = Operand("A", st.general(5, 5)), Operand("x", st.general(5, 1))
    kernel = structured.compile(assign(x, solve(triu(lu(A)), solve(unit_tril(lu(A)), x))), cache=None)
    a, right = np.eye(5) * 4 + np.arange(25.0).reshape(5, 5) / 25, np.ones((5, 1))
    want = np.linalg.solve(a, right)
    kernel(x=right, A=a)
    assert np.allclose(right, want, rtol=1e-13)
    assert str(symmetric(tril(A) - unit_triu(A))) == "symmetric(tril(A) - unit_triu(A))"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("A = Matrix(3, 4); A = tril(A);", "tril needs a square matrix, A is 3 x 4"),
        ("A = Matrix(3, 3); x = Vector(3); x = lu(A) \\ x;", r"with F = lu\(\.\.\), whose factors are unit_tril\(F\)"),
        ("A = Matrix(3, 3); S = Symmetric(L, 3); S = A;", r"not known to be symmetric; write symmetric\(A\) if it is"),
        ("A = Matrix(3, 3); U = UpperTriangular(3); U = tril(A);", r"element \(1, 0\) is zero, but that of tril\(A\)"),
        ("A = Matrix(3, 3); L = UnitLower(3); L = tril(A);", r"element \(0, 0\) is one, but that of tril\(A\)"),
    ],
)
def test_what_does_not_fit_is_refused(text, words):
    with pytest.raises(LLError, match=words):
        lower(parse(text))
