"""Sizes and structures of expressions: the rules of table 2, and every refusal."""

import itertools

import numpy as np
import pytest

from lego_mlir.structured import infer
from lego_mlir.structured import structures as st
from lego_mlir.structured.language import parse
from lego_mlir.structured.lower import lower
from lego_mlir.structured.syntax import Binary, LLError, Name, Operand, Transpose

MAKE = {
    "G": lambda n: st.general(n, n),
    "L": st.lower,
    "U": st.upper,
    "D": st.diagonal,
    "S": lambda n: st.symmetric(n, "L"),
}


@pytest.mark.parametrize("rule", infer.RULES.items(), ids=str)
def test_a_rule_says_where_the_value_is_nonzero(rule):
    (op, *letters), result = rule
    operands = [Operand(f"{letter}{n}", MAKE[letter](4)) for n, letter in enumerate(letters)]
    random = np.random.default_rng(1)
    dense = []
    for operand in operands:
        values = random.uniform(1, 2, (4, 4)) * (operand.structure.kinds != 0)
        rows, columns = operand.structure.sources
        dense.append(np.where(operand.structure.kinds != 0, values[rows, columns], 0))
    value = dense[0].T if op == "'" else dense[0] + dense[1] if op == "+" else dense[0] @ dense[1]
    expression = Transpose(Name(operands[0])) if op == "'" else Binary(op, *map(Name, operands))
    assert infer.letter(infer.infer(expression)) == result
    assert ((value != 0) <= (infer.infer(expression).kinds != 0)).all()
    assert (infer.infer(expression).kinds != 0).sum() == (value != 0).sum()
    if result == "S":
        assert np.allclose(value, value.T)


def test_rules_cover_all_pairs_of_letters_for_products():
    missing = [pair for pair in itertools.product("GLUSD", repeat=2) if ("*", *pair) not in infer.RULES]
    assert missing == []


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("A*A'", "S"), ("A*S*A'", "S"), ("A + A'", "S"), ("A - A'", "G"), ("2*S - S", "S"), ("L*L'", "S"),
        ("L'*D*L", "S"), ("(A + S)'*(S + A)", "G"), ("(A + L)*(A + L)'", "S"), ("-L", "L"), ("inv(L)", "L"),
        ("inv(D)", "D"), ("chol(S)", "L"), ("lu(A)", "G"), ("L \\ L", "L"), ("L \\ A", "G"), ("Z*A", "Z"),
        ("L + Z", "L"),
    ],
)  # fmt: skip
def test_structures_of_expressions(text, letter):
    head = "A = Matrix(5, 5); S = Symmetric(U, 5); L = LowerTriangular(5); D = Diagonal(5); Z = Zero(5, 5);"
    expression = parse(f"{head} A = {text};").statements[0].value
    assert infer.letter(infer.infer(expression)) == letter


def test_bands_and_blocks_propagate():
    head = "A = Matrix(9, 9); T = Tridiagonal(9); P = Pentadiagonal(9);"
    value = infer.infer(parse(f"{head} A = T*P;").statements[0].value)
    assert np.array_equal(value.kinds != 0, st.banded(9, 9, 3, 3).kinds != 0)
    value = infer.infer(parse(f"{head} A = T*T';").statements[0].value)
    assert value.symmetric


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("A = A*B;", "column 6", "A is 3 x 4 and B is 3 x 4: * needs 4 rows on the right"),
        ("A = A + B';", "column 7", "A is 3 x 4 and B' is 4 x 3: + needs matrices of equal size"),
        ("A = A*B';", "column 1", "A is 3 x 4 and A * B' is 3 x 3: they must be equal"),
        ("A = S \\ A;", "column 7", "\\ and inv need a triangular matrix"),
        ("A = A \\ A;", "column 7", "\\ needs a square matrix"),
        ("A = X \\ A;", "column 7", "element (0, 0) is zero"),
        ("A = chol(A);", "column 5", "chol needs a square matrix, A is 3 x 4"),
        ("S = chol(Q);", "column 5", "chol needs a symmetric matrix"),
        ("L = S;", "column 1", "whose element (0, 1) is zero, but that of S may differ"),
        ("S = Q;", "column 1", "which stores (0, 1) at (1, 0), but Q is not known to be symmetric"),
        ("N = L;", "column 1", "whose element (0, 0) is one"),
    ],
)
def test_messages(text, place, words):
    head = "A = Matrix(3, 4); B = Matrix(3, 4); S = Symmetric(L, 3); L = LowerTriangular(3); Q = Matrix(3, 3); "
    head += "X = Blocked([Zero(1, 1), Zero(1, 2)], [Zero(2, 1), Matrix(2, 2)]); N = UnitLower(3);\n"
    with pytest.raises(LLError) as caught:
        lower(parse(head + text))
    assert f"line 2, {place}" in str(caught.value)
    assert words in str(caught.value)
