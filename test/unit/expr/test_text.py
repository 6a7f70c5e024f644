"""Index expressions as text: what is written is read back with the same value, and other text is refused."""

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lego_mlir as lego
from lego_mlir.errors import ExpressionError, PrintError
from lego_mlir.expr import text
from lego_mlir.expr.evaluate import evaluate as exact
from lego_mlir.expr.index import as_expr, isqrt, maximum, minimum, where

M, N = lego.size("M", min=1, max=5000), lego.size("N", min=4, multiple_of=4)
EXPRESSIONS = st.recursive(
    st.one_of(st.just(M), st.just(N), st.integers(1, 40)),
    lambda inner: st.one_of(
        st.builds(lambda a, b: a + b, inner, inner),
        st.builds(lambda a, b: a * b, inner, inner),
        st.builds(lambda a, b: a - b, inner, inner),
        st.builds(lambda a, n: a // n, inner, st.integers(1, 9)),
        st.builds(lambda a, n: a % n, inner, st.integers(1, 9)),
        st.builds(lambda a, n: a ^ n, inner, st.integers(0, 9)),
        st.builds(lego.cdiv, inner, st.integers(1, 64)),
        st.builds(minimum, inner, inner),
        st.builds(maximum, inner, inner),
        st.builds(lambda a, b: where(a < b, a, b + 1), inner, inner),
    ),
    max_leaves=6,
)

# Texts of the language that Python itself can evaluate.
TEXTS = st.recursive(
    st.one_of(st.sampled_from(["a", "b"]), st.integers(0, 40).map(str)),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "^", "&", "|", "<", "<=", ">", ">=", "==", "!="]), inner).map(
            lambda parts: f"({' '.join(parts)})"
        ),
        st.tuples(inner, st.sampled_from(["//", "%", "<<", ">>", "**"]), st.integers(1, 5)).map(
            lambda parts: f"({parts[0]}) {parts[1]} {parts[2]}"
        ),
        inner.map("-({})".format),
    ),
    max_leaves=8,
)


@given(EXPRESSIONS, st.integers(1, 5000), st.integers(1, 500))
def test_a_written_text_evaluates_to_its_expression(expr, m, n):
    sizes = {"M": m, "N": 4 * n}
    assert text.evaluate(text.write(as_expr(expr)), sizes) == exact(expr, sizes)


@given(TEXTS, st.integers(-50, 50), st.integers(0, 50))
def test_a_text_has_the_value_that_python_gives_it(given_text, a, b):
    assert text.evaluate(given_text, {"a": a, "b": b}) == eval(given_text, {"a": a, "b": b})


@given(st.lists(TEXTS.filter(lambda t: "<" not in t and "=" not in t and ">" not in t and "**" not in t), min_size=1))
def test_parts_are_folded_over_arrays_as_over_ints(parts):
    parsed = text.parse(", ".join(parts))
    a, b = np.arange(-3, 4), np.arange(7)
    found = parsed.fold({"a": a, "b": b}, int, text.PYTHON)
    for part, values in zip(parts, found, strict=True):
        expected = [text.evaluate(part, {"a": int(x), "b": int(y)}) for x, y in zip(a, b, strict=True)]
        if max(map(abs, expected)) < 2**31:
            assert np.broadcast_to(values, 7).tolist() == expected


@pytest.mark.parametrize(
    ("expr", "written"),
    [
        (lego.cdiv(M, 32), "((M + 31) // 32)"),
        (M - N, "(M + ((-1) * N))"),
        ((M << 2) & 63, "((M << 2) & 63)"),
        (minimum(isqrt(M * M + 1), N), "minimum(N, isqrt(((M ** 2) + 1)))"),
        (where((M < 3) & (N < 8), M, 1), "where(((M < 3) & (N < 8)), M, 1)"),
    ],
)
def test_the_text_of_an_expression(expr, written):
    found = text.write(as_expr(expr))
    assert sorted(found) == sorted(written)  # SymPy orders the operands
    assert text.evaluate(found, {"M": 7, "N": 8}) == exact(expr, {"M": 7, "N": 8})


def test_a_node_without_a_form():
    entry = lego.gallery.table([3], [2, 0, 1]).apply(M % 3)
    with pytest.raises(PrintError, match=r"no form for Table in .*; a text is integer arithmetic on names"):
        text.write(as_expr(entry))


def test_steps_are_values():
    assert text.parse("a + 4*b") == text.parse("(a + (4 * b))")
    assert text.parse("a + 4*b").parts == (("a", 4, "b", text.OperatorStep("*", 2), text.OperatorStep("+", 2)),)
    assert text.parse("minimum(a, 4) + b, a").names == {"a", "b"}
    assert hash(text.parse("a")) == hash(text.parse(" a "))


def test_a_long_sum_needs_no_recursion():
    terms = 900
    assert text.evaluate(" + ".join(["a"] * terms), {"a": 2}) == 2 * terms


@pytest.mark.parametrize(
    ("given_text", "message"),
    [
        ("__import__('os')", r"\"__import__\('os'\)\" is not integer arithmetic; use names, integers and \+ - \* // %"),
        ("M.bit_length()", r"'M.bit_length\(\)' is not"),
        ("M if N else 1", "'M if N else 1' is not"),
        ("[1]", r"'\[1\]' is not"),
        ("lambda: 1", "'lambda: 1' is not"),
        ("True + 1", "'True' is not"),
        ("1.5", "'1.5' is not"),
        ("M / 2", "'M / 2' is not"),
        ("1 < M < 3", "'1 < M < 3' is not"),
        ("minimum(M)", r"'minimum\(M\)' is not"),
        ("minimum(M, b=1)", "is not integer arithmetic"),
        ("M;N", r"'M;N' is not an expression \(invalid syntax\)"),
        ("", "'' is not an expression"),
        ("M\0", "is not an expression"),
        ("M, N", "'M, N' has 2 parts instead of one"),
        ("K", "'K' uses the unknown name K; known: M, N"),
        ("M ** 1000", r"'M \*\* 1000': .* is 1000; it must be within 0 .. 64"),
        ("M << 65", "is 65; it must be within 0 .. 64"),
        ("M >> -1", "is -1; it must be within 0 .. 64"),
        ("M // (N - N)", "division or modulo by zero|by zero"),
        ("isqrt(-M)", "isqrt of a negative number"),
        ("-" * 100_000 + "M", "is nested too deeply|is not an expression"),
        ("(" * 500 + "M" + ")" * 500, "is not an expression|is nested too deeply"),
        (" + ".join(["M"] * 100_000), "is nested too deeply"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_other_text_is_refused(given_text, message):
    with pytest.raises(ExpressionError, match=message):
        text.evaluate(given_text, {"M": 3, "N": 4})


def test_a_reader_chooses_its_operators():
    assert text.parse("a ^ b", ("a", "b"), text.ARITHMETIC).parts
    with pytest.raises(ExpressionError, match=r"'-a' is not integer arithmetic; .* & \| << >>$"):
        text.parse("-a", ("a",), text.ARITHMETIC)


@pytest.mark.parametrize(
    "written", ["(((9**64)**64)**64)**64", "((9**64)**64) * ((9**64)**64)", "(7 << 64 << 64) ** 64"]
)
def test_values_on_the_way_are_bounded(written):
    began = time.monotonic()
    with pytest.raises(ExpressionError, match="more than 1024 bits"):
        text.evaluate(written, {})
    assert time.monotonic() - began < 5  # 65 s without the bound
    assert text.evaluate("9 ** 64", {}) == 9**64


def test_roots_of_sizes_beside_arrays():
    """A text with arrays for some names and ints for others, as positions of checks have."""
    read = text.parse(text.write(isqrt(M + 3) + N), {"M": 0, "N": 0})
    (found,) = read.fold({"M": 13, "N": np.arange(4)}, int, text.ON_ARRAYS)
    assert list(found) == [4, 5, 6, 7]
