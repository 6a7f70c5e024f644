"""What a printer may spend: shared graphs are printed with names, refused without, and always end. Counted in calls."""

import pytest
from counted import within
from shared_graphs import CASES

from lego_mlir import bindings
from lego_mlir.errors import BudgetError, TemplateError
from lego_mlir.expr import nodes
from lego_mlir.expr.budgets import CHARACTERS
from lego_mlir.expr.index import index_symbol, where
from lego_mlir.expr.ranges import Range
from lego_mlir.printers.cuda import CudaPrinter, function
from lego_mlir.printers.mlir import MlirPrinter
from lego_mlir.printers.triton import TritonPrinter
from lego_mlir.templates import Template

CALLS = 4_000_000


def cuda(exprs, ranges):
    return "".join(function("f", list(ranges), e, CudaPrinter(ranges)) for e in exprs)


def triton(exprs, ranges):
    """Statements, as a template's `assign` writes them."""
    from lego_mlir.templates.render.indices import Bounded

    names = ", ".join(f"r{k}" for k in range(len(exprs)))
    values = tuple(Bounded(e, ranges) for e in exprs)
    text = f"{{{{ helpers }}}}\ndef f({', '.join(map(str, ranges))}):\n    {{{{ assign('{names}', values) }}}}\n"
    return Template.of(text, "f.py.jinja", values=values).render().text


def mlir(exprs, ranges):
    ir = bindings.load().ir
    with ir.Context(), ir.Location.unknown():
        arguments = ", ".join(f"%a{k}: index" for k in range(len(ranges)))
        module = ir.Module.parse(f"func.func @f({arguments}) {{ return }}")
        block = module.body.operations[0].regions[0].blocks[0]
        with ir.InsertionPoint.at_block_begin(block):
            printer = MlirPrinter(dict(zip(ranges, block.arguments, strict=True)), ranges)
            for e in exprs:
                printer.value(e)
        return str(module)


@pytest.mark.parametrize("show", [cuda, triton, mlir])
@pytest.mark.parametrize("name", CASES)
def test_a_shared_graph_is_printed_at_the_cost_of_its_parts(name, show):
    bindings.load()
    exprs, ranges = CASES[name]()
    assert len(within(CALLS, lambda: show(exprs, ranges))) < CHARACTERS


@pytest.mark.parametrize("printer", [CudaPrinter, TritonPrinter])
def test_a_text_without_end_is_refused(printer):
    exprs, ranges = CASES["five antidiagonals"]()
    with pytest.raises(BudgetError, match=r"exceeds its budget of 200000 characters, .* name them with assign"):
        within(CALLS, lambda: printer(ranges).expression(exprs[0]))
    with pytest.raises(BudgetError, match="exceeds its budget of 200000 characters"):
        within(CALLS, lambda: printer(ranges).condition(nodes.Lt(exprs[0], 7)))


@pytest.mark.parametrize("show", [cuda, triton, mlir])
def test_an_expression_nested_too_deeply_is_refused(show):
    x = index_symbol("x")
    ranges = {x.expr: Range(0, 2**30)}
    for _ in range(3000):
        x = x // 3 + 1
    with pytest.raises((BudgetError, TemplateError), match="nested too deeply"):
        show([x.expr], ranges)


def test_a_sum_keeps_the_order_of_its_texts():
    i = index_symbol("i")
    terms = [where(i < k, i // (k + 2), k) for k in (30, 4, 200)]
    text = CudaPrinter({i.expr: Range(0, 100)}).expression(terms[0] + terms[1] + terms[2])
    assert [text.index(f"i < {k}") for k in (200, 30, 4)] == sorted(text.index(f"i < {k}") for k in (200, 30, 4))


def test_the_base_of_a_power_is_computed_once():
    i = index_symbol("i")
    printer = CudaPrinter({i.expr: Range(0, 1000)})
    assert function("f", [i], (i // 7 + 1) ** 2, printer) == (
        "LEGO_DEVICE int f(int i) {\n  const int t0 = (int)((unsigned)i / 7u) + 1;\n  return t0 * t0;\n}\n"
    )
