"""Printed text is evaluated, not looked at: by readers that know only the language, by g++; then a few examples."""

import ctypes
import shutil
import subprocess

import numpy as np
import pytest
import random_expressions
import sympy

from lego_mlir.errors import PrintError, TemplateError
from lego_mlir.expr import nodes
from lego_mlir.expr.evaluate import evaluate
from lego_mlir.expr.index import index_symbol
from lego_mlir.expr.ranges import Range
from lego_mlir.expr.sizes import size
from lego_mlir.printers.cuda import MACRO, CudaPrinter, definitions, function
from lego_mlir.printers.triton import TritonPrinter
from lego_mlir.templates.readback import read_c, read_triton

SEEDS = range(250)
TABLES = {"lut": random_expressions.TABLE}


@pytest.mark.parametrize(("printer", "reader"), [(TritonPrinter, read_triton), (CudaPrinter, read_c)])
def test_random_expressions_mean_what_they_did(printer, reader):
    for seed in SEEDS:
        expr, ranges, values = random_expressions.draw(seed)
        text = printer(ranges).expression(expr)
        expected = np.broadcast_to(evaluate(expr, values), 64)
        found = np.broadcast_to(reader.evaluate(text, values, TABLES), 64)
        assert np.array_equal(expected, found), f"seed {seed}: {expr} printed as {text}"


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs the compiler g++")
def test_random_expressions_compiled_by_gcc(tmp_path):
    """One function an expression, shared subexpressions named, compiled together and run on the same values."""
    drawn = [random_expressions.draw(seed) for seed in SEEDS]
    helpers, functions = CudaPrinter(), []
    for number, (expr, ranges, _) in enumerate(drawn):
        printer = CudaPrinter(ranges)
        functions.append(function(f"f{number}", random_expressions.SYMBOLS, expr, printer))
        helpers.helpers |= printer.helpers
        helpers.tables |= printer.tables
    calls = "\n".join(
        f'extern "C" void run{n}(const long long *a, const long long *b, const long long *c, long long *out) {{\n'
        f"  for (int i = 0; i < 64; ++i) out[i] = f{n}(a[i], b[i], c[i]);\n}}"
        for n in range(len(drawn))
    )
    source = tmp_path / "expressions.cpp"
    source.write_text(f"#define __device__\n#include <math.h>\n{definitions(helpers)}{''.join(functions)}{calls}\n")
    library = tmp_path / "expressions.so"
    options = ["-std=c++17", "-O1", "-fPIC", "-shared", "-fwrapv", "-Wno-narrowing"]
    subprocess.run(["g++", *options, str(source), "-o", str(library)], check=True)
    loaded = ctypes.CDLL(str(library))
    for number, (expr, _, values) in enumerate(drawn):
        out = np.zeros(64, dtype=np.int64)
        arrays = [np.ascontiguousarray(values[str(s)]) for s in random_expressions.SYMBOLS]
        loaded[f"run{number}"](*(array.ctypes.data_as(ctypes.c_void_p) for array in (*arrays, out)))
        assert np.array_equal(out, np.broadcast_to(evaluate(expr, values), 64)), f"seed {number}: {expr}"


@pytest.mark.parametrize("reader", [read_triton, read_c])
def test_the_readers_see_an_overflow_and_a_wrong_division(reader):
    with pytest.raises(Exception, match="overflows"):
        reader.evaluate("a * a", {"a": np.array([70000])})
    quotient = "a // 4" if reader is read_triton else "a / 4"
    assert reader.evaluate(quotient, {"a": np.array([-7])}).tolist() == [-1]


def test_width_follows_the_proved_range():
    i = index_symbol("i")
    assert CudaPrinter({i: Range(0, 2**16)}).expression(i * 32768) == "i * 32768"
    assert CudaPrinter({i: Range(0, 2**17)}).expression(i * 32768) == "(unsigned)i * 32768"
    assert CudaPrinter({i: Range(0, 2**18)}).expression(i * 32768) == "(long long)i * 32768"
    assert TritonPrinter({i: Range(0, 2**17)}).expression(i * 32768) == "tl.cast(i, tl.int64) * 32768"


def test_an_unsigned_operand_makes_no_chain_of_ints_unsigned():
    """It would be 4294966796 where it is -500, once it meets a long long."""
    i, large = index_symbol("i"), index_symbol("large")
    printer = CudaPrinter({i: Range(0, 100), large: Range(0, 3 * 10**9)})
    for expr in (i + large // 7 - 500, (i - 50) * (large // 700)):
        values = {"i": np.array([0, 3]), "large": np.array([0, 2900000000])}
        text = printer.expression(expr)
        assert "(int)((unsigned)large / 7" in text
        assert read_c.evaluate(text, values).tolist() == evaluate(expr.expr, values).tolist()


def test_a_number_beyond_int32_has_its_type_in_triton():
    """Triton refuses `3000000000 + i` for an int32: the number would take that type."""
    i = index_symbol("i")
    text = TritonPrinter({i: Range(0, 9)}).expression(i + 3 * 10**9)
    assert text == "tl.cast(i, tl.int64) + tl.cast(3000000000, tl.int64)"
    assert read_triton.evaluate(text, {"i": np.array([5])}).tolist() == [3000000005]
    for wrong in ("3000000000 + i", "i < 3000000000", "tl.minimum(i, 3000000000)"):
        with pytest.raises(TemplateError, match="a number beyond int32 is combined with an int32; cast it"):
            read_triton.evaluate(wrong, {"i": np.array([5])})


def test_what_is_subtracted_twice_gets_no_name_of_its_own():
    i, j = index_symbol("i"), index_symbol("j")
    printer = CudaPrinter({i: Range(0, 90), j: Range(0, 90)})
    q = i // 7
    assert printer.named([j - q * 3, i - q * 3])[0] == [("t0", q.expr)]


def test_a_parameter_that_nothing_needs_has_no_name():
    i, j = index_symbol("i"), index_symbol("j")
    printer = CudaPrinter({i: Range(0, 8), j: Range(0, 1)})
    assert "int f(int i, int /*j*/) {" in function("f", [i, j], i.expr * 2, printer)


def test_an_unbounded_size_is_computed_in_64_bits_and_a_bounded_one_is_not():
    i, wide, narrow = index_symbol("i"), size("M"), size("M", max=4096)
    assert TritonPrinter({i: Range(0, wide.expr)}).expression(i * wide) == "tl.cast(M, tl.int64) * i"
    assert TritonPrinter({i: Range(0, narrow.expr)}).expression(i * narrow) == "M * i"


def test_division_is_plain_only_where_signs_are_proved():
    i = index_symbol("i")
    assert TritonPrinter({i: Range(0, 9)}).expression(i // 7) == "i // 7"
    assert TritonPrinter({i: Range(-9, 9)}).expression(i // 7) == "_lego_floor_div(i, 7)"
    assert TritonPrinter({i: Range(-9, 9)}).expression(i % 8) == "i & 7"
    assert CudaPrinter({i: Range(0, 9)}).expression(i % 7) == "(int)((unsigned)i % 7u)"
    assert CudaPrinter({i: Range(-9, 9)}).expression(i // 8) == "i >> 3"


def test_a_block_broadcasts_each_axis_once_and_scalars_come_first():
    m, k, i, j = (index_symbol(n) for n in ("m", "k", "i", "j"))
    ranges = {m: Range(0, 8), k: Range(0, 8), i: Range(0, 32), j: Range(0, 64)}
    printer = TritonPrinter(ranges, axes=[(i, 32), (j, 64)])
    text = printer.block(m * 4096 + k * 64 + i * 512 + j)
    assert text == "m * 4096 + k * 64 + (tl.arange(0, 32) * 512)[:, None] + tl.arange(0, 64)[None, :]"
    assert printer.block_condition((i + m * 32 < 100) & (j < 60)) == (
        "(m * 32 + tl.arange(0, 32) < 100)[:, None] & (tl.arange(0, 64) < 60)[None, :]"
    )
    assert printer.block(i ^ j) == "tl.arange(0, 32)[:, None] ^ tl.arange(0, 64)[None, :]"
    assert printer.block(i * 2) == "(tl.arange(0, 32) * 2)[:, None]"


def test_a_vector_is_not_broadcast_at_all():
    m, i = index_symbol("m"), index_symbol("i")
    printer = TritonPrinter({m: Range(0, 8), i: Range(0, 32)}, axes=[(i, 32)])
    assert printer.block(m * 32 + i) == "m * 32 + tl.arange(0, 32)"


def test_shared_subexpressions_are_named_once():
    i = index_symbol("i")
    q = (i * i + 3) // 7
    text = function("f", [i], q + q % 5, CudaPrinter({i: Range(0, 100)}))
    assert text.count("/ 7u") == 1 and "const int t0 =" in text


def test_printed_functions_need_nothing_but_their_definitions():
    assert definitions(CudaPrinter()) == ""
    printer = CudaPrinter({index_symbol("i"): Range(0, 99)})
    printer.expression(nodes.ISqrt(index_symbol("i").expr))
    assert definitions(printer).startswith(MACRO) and "lego_isqrt(int x)" in definitions(printer)


@pytest.mark.parametrize("printer", [TritonPrinter, CudaPrinter])
def test_an_unknown_node_stops_the_printer(printer):
    with pytest.raises(PrintError, match="no form for sin in sin"):
        printer().print(sympy.sin(sympy.Symbol("x")))
    with pytest.raises(PrintError, match="no form for ITE in the condition"):
        printer().print_condition(sympy.ITE(*sympy.symbols("p q r")))


@pytest.mark.parametrize("printer", [TritonPrinter, CudaPrinter])
def test_a_shift_without_a_proved_range_is_refused(printer):
    i, n = index_symbol("i"), index_symbol("n")
    with pytest.raises(PrintError, match=r"not shown to lie in 0\.\.31; give its range"):
        printer({i: Range(0, 8), n: Range(0, 40)}).expression(i >> n)


@pytest.mark.parametrize("printer", [TritonPrinter, CudaPrinter])
def test_a_value_that_no_type_holds_is_refused(printer):
    i = index_symbol("i")
    with pytest.raises(PrintError, match="which no integer type holds"):
        printer({i: Range(2**40, 2**41)}).expression(i * 2**40)


def test_a_slice_that_is_no_power_of_two_is_refused():
    with pytest.raises(
        PrintError, match=r"48 values, and tl\.arange needs a power of two; tile by 64 and use the mask"
    ):
        TritonPrinter(axes=[(index_symbol("i"), 48)])
