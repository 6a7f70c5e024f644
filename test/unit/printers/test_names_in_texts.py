"""Names in a printed text mean one thing each, and are none of the language's own words."""

import numpy as np
import pytest
import sympy

import lego_mlir as lego
from lego_mlir import gallery
from lego_mlir.errors import PrintError, TemplateError
from lego_mlir.expr.evaluate import evaluate
from lego_mlir.expr.index import index_symbol
from lego_mlir.expr.nodes import FloorMod, Table
from lego_mlir.expr.ranges import Range
from lego_mlir.expr.sizes import size
from lego_mlir.printers.cuda import CudaPrinter, function
from lego_mlir.printers.triton import TritonPrinter
from lego_mlir.templates import Template
from lego_mlir.templates.readback import read_c

I = index_symbol("i")  # noqa: E741
RANGES = {I.expr: Range(0, 4)}
BOTH = pytest.mark.parametrize("printer", [CudaPrinter, TritonPrinter])


def looked_up(name, entries, index=I.expr):
    return Table(name, FloorMod(index, 4), 4, 4, entries)


@BOTH
def test_two_tables_of_one_name_are_refused(printer):
    both = looked_up("t", (0, 1, 2, 3)) + 4 * looked_up("t", (3, 2, 1, 0))
    with pytest.raises(PrintError, match="two different objects are named 't'"):
        printer(RANGES).expression(both)
    assert printer(RANGES).expression(looked_up("t", (0, 1, 2, 3)) * 4 + looked_up("t", (0, 1, 2, 3), I.expr + 1))


@BOTH
def test_a_table_beside_the_inverse_of_another_is_refused(printer):
    forward = gallery.table([4], [1, 2, 3, 0], name="t")
    other = gallery.table([4], [0, 2, 1, 3], name="t_inv")
    expr = forward.inv(I)[0] * 4 + other.apply(I)
    with pytest.raises(PrintError, match="two different objects are named 't_inv'"):
        printer(RANGES).expression(expr)


@BOTH
def test_a_table_called_like_the_index_or_a_size_is_refused(printer):
    with pytest.raises(PrintError, match="two different objects are named 'i'"):
        printer(RANGES).expression(looked_up("i", (0, 1, 2, 3)))
    n, index = size("n"), index_symbol("n")
    with pytest.raises(PrintError, match="two different objects are named 'n'"):
        printer({index: Range(0, 4)}).expression(n + index)


@pytest.mark.parametrize(
    ("printer", "word"), [(CudaPrinter, "register"), (TritonPrinter, "lambda"), (TritonPrinter, "tl")]
)
def test_a_word_of_the_language_is_refused(printer, word):
    symbol = sympy.Symbol(word, integer=True)
    with pytest.raises(PrintError, match=f"a variable cannot be named '{word}', a reserved word"):
        printer({symbol: Range(0, 4)}).expression(symbol + 1)
    with pytest.raises(PrintError, match=f"a table cannot be named '{word}', a reserved word"):
        printer(RANGES).expression(looked_up(word, (0, 1, 2, 3)))


@pytest.mark.parametrize("name", ["range", "min"])
def test_builtins_that_triton_kernels_call_are_refused(name):
    with pytest.raises(PrintError, match="a reserved word"):
        TritonPrinter(RANGES).expression(I + size(name, max=9))


def test_temporaries_avoid_the_names_of_tables():
    table = looked_up("t0", (0, 1, 2, 3))
    text = function("f", [I], table * table + table, CudaPrinter(RANGES))
    assert "const int t1 = t0[" in text


def test_a_function_refuses_equal_parameters_and_reserved_names():
    other = size("i")
    with pytest.raises(PrintError, match=r"cuda: i in the function f\(i, i\): two parameters have that name"):
        function("f", [I, other], I.expr, CudaPrinter(RANGES))
    with pytest.raises(PrintError, match=r"cuda: int in the function int\(i\): C\+\+ reserves that word"):
        function("int", [I], I.expr, CudaPrinter(RANGES))


@pytest.mark.parametrize("name", ["f.py.jinja", "f.cu.jinja"])
def test_templates_refuse_tables_that_share_a_name(name):
    one, other = (lego.as_layout(gallery.table([4], entries, name="t")) for entries in ([1, 2, 3, 0], [0, 2, 1, 3]))
    text = "{{ helpers }}\n# {{ A[i] }}\n# {{ B[i] }}\n"
    with pytest.raises(TemplateError, match="two different tables are called t"):
        Template.of(text, name, A=one, B=other, i=I).render()
    with pytest.raises(TemplateError, match=r"two different objects are named 'i'|both called i"):
        Template.of(text, name, A=lego.as_layout(gallery.table([4], [1, 2, 3, 0], name="i")), B=one, i=I).render()


def test_a_negative_number_is_not_shifted_to_the_left_in_c():
    j, n = index_symbol("j"), index_symbol("n")
    for low, most in ((-8, 5), (-1, 32), (-(2**20), 43)):
        ranges = {j.expr: Range(low, 8), n.expr: Range(0, most)}
        for expr in (j << n, j << 3, (j - 1) << 4):
            text = CudaPrinter(ranges).expression(expr)
            values = {"j": np.array([low, -1, 0, 7]), "n": np.array([most - 1] * 4)}
            if "<< n" in text:
                assert "(1 << n)" in text or "(1LL << n)" in text
            assert "j <<" not in text
            assert read_c.evaluate(text, values).tolist() == evaluate(expr.expr, values).tolist()
    assert CudaPrinter({j.expr: Range(0, 8), n.expr: Range(0, 5)}).expression(j << n) == "j << n"
    with pytest.raises(PrintError, match=r"not shown to lie in 0\.\.62"):
        CudaPrinter({j.expr: Range(-1, 1), n.expr: Range(0, 64)}).expression(j << n)


def test_a_function_refuses_a_table_called_like_a_parameter():
    index = index_symbol("j")
    with pytest.raises(PrintError, match="two different objects are named 'i'"):
        function("f", [I, index], looked_up("i", (0, 1, 2, 3), index.expr), CudaPrinter({index.expr: Range(0, 4)}))
