"""LL as text: what is read, and every message for what is not."""

import numpy as np
import pytest

from lego_mlir.errors import LegoError
from lego_mlir.structured import structures as st
from lego_mlir.structured.language import parse
from lego_mlir.structured.lower import lower
from lego_mlir.structured.storage import Packed
from lego_mlir.structured.syntax import LLError, Operand, assign, chol, inv, program, solve

TABLE_1 = """
A = Matrix(4, 4);    L = LowerTriangular(4);
S = Symmetric(L, 4); U = UpperTriangular(4);

A = L*U+S;
"""


def test_the_papers_program():
    read = parse(TABLE_1)
    assert [operand.name for operand in read.operands] == ["A", "L", "S", "U"]
    assert [operand.structure for operand in read.operands] == [
        st.general(4, 4), st.lower(4), st.symmetric(4, "L"), st.upper(4),
    ]  # fmt: skip
    assert str(read) == "A = L * U + S"
    assert read.written == ("A",)


def test_text_and_python_make_the_same_statement():
    L, U, S = Operand("L", st.lower(4)), Operand("U", st.upper(4)), Operand("S", st.symmetric(4, "L"))
    assert parse(TABLE_1).statements == program(assign(Operand("A", st.general(4, 4)), L @ U + S)).statements


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("A = -A*A'", "A = -A * A'"),
        ("A = (A + A)*A - 2*A", "A = (A + A) * A - 2.0 * A"),
        ("A = A \\ A*A", "A = (A \\ A) * A"),
        ("A = A*(A \\ A)", "A = A * (A \\ A)"),
        ("A = --A''", "A = --A''"),
        ("A = A - (A - A)", "A = A - (A - A)"),
        ("A = 1.5e-3*chol(A)", "A = 0.0015 * chol(A)"),
        ("A = (-A)'", "A = (-A)'"),
    ],
)
def test_precedence(text, means):
    read = parse(text, {"A": Operand("A", st.general(3, 3))})
    assert str(read) == means
    assert parse(str(read), {"A": Operand("A", st.general(3, 3))}).statements == read.statements


def test_python_operators():
    L, x = Operand("L", st.lower(3)), Operand("x", st.general(3, 1))
    assert str(assign(x, solve(L, 2 * x) - -x)) == "x = L \\ (2.0 * x) - -x"
    assert str(chol(L @ L.T)) == "chol(L * L')"
    assert str(inv(L).T) == "inv(L)'"
    assert L.stored("packed").storage == Packed()


def test_options_comments_and_blocks():
    read = parse(
        "# a comment\nB = Blocked([Matrix(2, 2), LowerTriangular(2)], [Zero(1, 2), Matrix(1, 2)]); % another\n"
        "P = Symmetric(U, 3, storage=packed); P = P;"
    )
    assert (read.operands[0].structure.rows, read.operands[0].structure.columns) == (3, 4)
    assert read.operands[1].storage == Packed()


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("A = Matrix(4, 4);\nA = A @ A;", "line 2, column 7", "'@' does not start an LL token"),
        ("A = Matrix(4, 4);\nA = A * ;", "line 2, column 9", "expected a name"),
        ("S = Symmetric(L, ", "line 1, column 18", "expected a name"),
        ("A = Matrix(4, 4);\nA = (A;", "line 2, column 7", "expected ')'"),
        ("A = Matrix(4, 4)", "line 1, column 17", "has no assignment"),
        ("A = Matrix(4);", "line 1, column 5", "Matrix(m, n) does not take 1 arguments"),
        ("A = Matrix(4, 4, storage=sparse);", "line 1, column 1", "unknown storage 'sparse'"),
        ("A = Matrix(4, 4, colour=red);", "line 1, column 1", "unknown option colour; available: storage"),
        ("A = Matrix(0, 4);", "line 1, column 5", "at least 1"),
        ("A = Matrix(2.5, 4);", "line 1, column 12", "must be integers"),
        ("S = Symmetric(X, 4);", "line 1, column 5", "must be L or U"),
        ("A = Matrix(4, 4); A = Matrix(2, 2);", "line 1, column 19", "already declared"),
        ("A = Matrix(4, 4); A = B;", "line 1, column 23", "B is not declared"),
        ("A = Blocked([Sparse(4)]);", "line 1, column 14", "unknown type Sparse; available: "),
        ("A = Blocked([Matrix(2, 2), Matrix(3, 2)]);", "line 1, column 5", "block (0, 1) is 3 x 2"),
        ("B = A;", "line 1, column 1", "B is not declared"),
    ],
)
def test_messages(text, place, words):
    with pytest.raises(LLError) as caught:
        parse(text)
    assert place in str(caught.value)
    assert words in str(caught.value)


def test_a_number_cannot_stand_for_a_matrix_in_python():
    with pytest.raises(LLError, match="takes numbers and operands, got 'x'"):
        Operand("A", st.general(2, 2)) + "x"
    with pytest.raises(LLError, match="two different operands are named 'A'"):
        program(assign(Operand("A", st.general(2, 2)), Operand("A", st.lower(2)).T))


def test_types_as_python_functions():
    from lego_mlir import structured

    L = structured.LowerTriangular(3, name="L", storage="packed")
    assert (L.structure, L.storage) == (st.lower(3), Packed())
    K = structured.Blocked([structured.Matrix(2, 2), st.zero(2, 2)], [st.lower(2), st.identity(2)], name="K")
    assert K.shape == (4, 4)
    assert not K.structure.kinds[:2, 2:].any()
    with pytest.raises(LLError, match=r"Symmetric\(L\|U, n\) does not take \(3,\)"):
        structured.Symmetric(3)
    with pytest.raises(AttributeError, match="has no attribute 'Sparse'"):
        structured.Sparse
    assert {"Matrix", "compile", "solve", "tune"} <= set(dir(structured))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("A = Matrx(4, 4);", "A is not declared|Matrx is neither a function nor a type.*did you mean Matrix"),
        ("A = Matrix(4, 4); A = choll(A);", "choll is neither a function nor a type.*did you mean chol"),
        ("Alpha = Matrix(4, 4); Alpha = Alpah + Alpha;", "Alpah is not declared.*did you mean Alpha"),
        ("A = Matrix(4, 4, storge=packed);", "unknown option storge; available: storage; did you mean storage"),
        ("A = Matrix(4, 4, storage=pakced);", "unknown storage 'pakced'.*did you mean packed"),
        ("A = Blocked([Diagnal(2)]);", "unknown type Diagnal.*did you mean Diagonal"),
        ("Aä = Matrix(4, 4);", "'ä' does not start an LL token"),
        ("A = Matrix(٣, 4);", "does not start an LL token"),
    ],
)
def test_misspelt_words_and_other_alphabets(text, words):
    with pytest.raises(LLError, match=words):
        parse(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("A = Matrix(6, 9223372036854775807);", r"column 5: .* elements; an operand has at most 16777216"),
        ("v = Vector(99999999);", "99999999 x 1 elements; an operand has at most 16777216"),
        ("A = Matrix(6, " + "9" * 5000 + ");", "a size of 5000 digits; sizes have at most 40"),
        ("A = Matrix(4, 4); A = " + "(" * 300 + "A" + ")" * 300 + ";", "a statement of more than 100 operations"),
        ("A = Matrix(4, 4); A = " + "+".join("A" * 3000) + ";", "assign parts of it to operands"),
        ("A = Matrix(4, 4); A = A" + "'" * 3000 + ";", "a statement of more than 100 operations"),
        ("A = Matrix(4, 4); A = " + "-" * 3000 + "A;", "a statement of more than 100 operations"),
        ("A = Matrix(4, 4); A = " + "tril(" * 3000 + "A" + ")" * 3000 + ";", "a statement of more than 100 operations"),
        ("A = " + "Blocked([" * 3000 + "Matrix(2, 2)" + "])" * 3000 + ";", "a statement of more than 100 operations"),
    ],
    ids=lambda part: part[:40],
)
def test_sizes_and_depths_beyond_what_is_read(text, message):
    with pytest.raises(LLError, match=message):
        parse(text)


def test_a_statement_of_the_most_operations_is_lowered():
    assert lower(parse("A = Matrix(2, 2); A = " + "+".join("A" * 101) + ";")).steps
    assert lower(parse("A = Matrix(2, 2); A = " + "-" * 99 + "A;")).steps


def test_values_built_in_python_are_as_deep():
    a = Operand("A", st.general(2, 2))
    value = a
    for _ in range(100):
        value = value + a
    assert lower(program(assign(a, value))).steps
    for _ in range(5000):
        value = -value
    with pytest.raises(LLError, match="a value of more than 100 nested operations; assign parts of it to operands"):
        assign(a, value)


SIZES = [4.0, True, np.bool_(1), "4", 2**20000, 2**63, -1, 0]


@pytest.mark.parametrize("size", SIZES, ids=lambda size: type(size).__name__)
def test_sizes_of_operands_are_ints(size):
    from lego_mlir import structured

    for kind in (structured.Matrix, structured.Zero):
        with pytest.raises(LegoError, match=r"a size is an int|bits; an operand|at least 1|does not take"):
            kind(size, 4)
    assert structured.Matrix(np.int64(4), np.uint8(4)).structure == structured.Matrix(4, 4).structure


@pytest.mark.parametrize("value", ["1e300*1e300*B", "1e300*(1e300*B)", "-1e300*(B*1e300)", "1e200*(1e200*B + B)"])
def test_constants_whose_product_overflows_are_refused_when_lowering(value):
    with pytest.raises(LLError, match=r"(?s)line 1, column \d+: the constants .* their product overflows a double"):
        lower(parse(f"A = Matrix(2, 2); B = Matrix(2, 2); A = {value};"))
