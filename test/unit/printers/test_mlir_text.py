"""What the printer emits, read by eye: forms, widths, signs, sharing, scopes, and what it refuses."""

import pytest
import sympy

from lego_mlir import bindings
from lego_mlir.errors import PrintError
from lego_mlir.expr import nodes
from lego_mlir.expr.index import index_symbol
from lego_mlir.expr.ranges import Range
from lego_mlir.printers.mlir import MlirPrinter, emit

i, j = index_symbol("i"), index_symbol("j")
SMALL = {i: Range(0, 64), j: Range(0, 64)}


def body(expr, ranges=SMALL, *, inputs="index", **options):
    """The operations that an expression, a condition, or a function of (printer, block) becomes, a line each."""
    ir = bindings.load().ir
    with ir.Context() as context, ir.Location.unknown():
        context.allow_unregistered_dialects = True
        module = ir.Module.parse(f"func.func @f(%i: {inputs}, %j: {inputs}, %t: memref<64xi32>) {{ return }}")
        entry = module.body.operations[0].regions[0].blocks[0]
        row, column, table = entry.arguments
        with ir.InsertionPoint(entry.operations[0]):
            printer = MlirPrinter({i: row, j: column}, ranges, tables={"order": table}, **options)
            if callable(expr):
                expr(printer, ir)
            elif is_condition(getattr(expr, "expr", expr)):
                printer.condition(expr)
            else:
                printer.value(expr)
        module.operation.verify()
        text = str(module)
        inside = text[text.index("{", text.index("func.func")) + 1 : text.rindex("return")]
        return [line.strip() for line in inside.strip().splitlines() if line.strip()]


def is_condition(expr):
    return isinstance(expr, sympy.logic.boolalg.Boolean) and not expr.is_Symbol


def names(*args, **kwargs):
    return [line.split(" = ")[-1].split()[0] for line in body(*args, **kwargs)]


@pytest.mark.parametrize(
    ("form", "integer", "expected"),
    [
        ("affine", "index", ["affine.apply"]),
        ("index", "index", ["arith.constant", "index.divu", "arith.constant", "index.mul", "index.add"]),
        ("arith", "index", ["arith.constant", "arith.divui", "arith.constant", "arith.muli", "arith.addi"]),
        (
            "arith",
            "smallest",
            ["arith.index_cast"] * 2 + ["arith.constant", "arith.divui", "arith.constant", "arith.muli", "arith.addi"],
        ),
    ],
)
def test_forms(form, integer, expected):
    assert sorted(names(i // 8 + 16 * j, form=form, integer=integer)) == sorted(expected)


def test_division_follows_the_proved_sign():
    unknown = {i: Range(-64, 64), j: Range(1, 64)}
    assert names(i // j)[-1] == "index.divu" and names(i % j)[-1] == "index.remu"
    assert names(i // j, unknown)[-1] == "index.floordivs"
    assert "index.rems" in names(i % j, unknown) and names(i % j, unknown)[-1] == "arith.select"
    assert names(i % j, unknown, form="arith")[:1] == ["arith.remsi"]


def test_the_smallest_width_that_holds_a_node_and_its_operands():
    wide = {i: Range(0, 2**20), j: Range(0, 2**20)}
    lines = body(i * j + i % 7, wide, inputs="i32", form="arith", integer="smallest")
    assert next(line for line in lines if "arith.remui" in line).endswith(": i32")
    assert next(line for line in lines if "arith.muli" in line).endswith(": i64")
    assert any("arith.extsi" in line for line in lines)


def test_a_width_that_is_not_shown_to_suffice_is_refused():
    with pytest.raises(PrintError, match=r"not shown to fit i32: .*; use integer='smallest' or 'i64', or give ranges"):
        body(i * j, {i: Range(0, 2**20), j: Range(0, 2**20)}, form="arith", integer="i32")


def test_a_common_part_is_emitted_once():
    both = [(i * j) ^ 5, (i * j) ^ 6]
    assert names(lambda p, ir: [p.value(e) for e in both]).count("index.mul") == 1
    assert names((i ^ j) + 3 * (j ^ i)).count("index.xor") == 1


def test_a_power_by_squaring():
    assert names(i**8).count("index.mul") == 3
    assert names(i**5 + i**4).count("index.mul") == 3


def test_a_value_of_a_nested_region_stays_there():
    def emit_twice(printer, ir):
        outside = printer.value(i * j)
        for _ in range(2):
            region = printer.build.operation("scf.if", (printer.condition(i < j),), regions=2).regions[0]
            with ir.InsertionPoint(region.blocks.append()), printer.scope():
                assert printer.value(i * j) == outside
                printer.value((i * j) ^ 1)
                printer.build.operation("scf.yield")
        printer.value((i * j) ^ 1)

    found = names(emit_twice)
    assert found.count("index.mul") == 1
    assert found.count("index.xor") == 3
    assert found.count("index.cmp") == 1


def test_a_loop_variable_is_known_in_its_scope_alone():
    k = index_symbol("k")

    def use(printer, ir):
        with printer.scope():
            printer.bind(k, printer.build.constant(3, "index"), Range(0, 8))
            printer.value(k // 2)
        printer.value(k)

    with pytest.raises(PrintError, match="no value was given for the symbol k; have i, j"):
        body(use)


def test_what_is_not_affine_becomes_an_operand_of_the_map():
    lines = body(32 * i + (i ^ j) + i * j, form="affine")
    assert [line.split(" = ")[-1].split()[0] for line in lines] == ["index.mul", "index.xor", "affine.apply"] or [
        line.split(" = ")[-1].split()[0] for line in lines
    ] == ["index.xor", "index.mul", "affine.apply"]


def test_a_constant_table_is_there_once_and_stored_in_its_smallest_width():
    ir = bindings.load().ir
    table = [
        nodes.Table("perm", e, 4, 256, (3, 255, 0, 1)) for e in (nodes.FloorMod(i.expr, 4), nodes.FloorMod(j.expr, 4))
    ]
    other = nodes.Table("perm", nodes.FloorMod(i.expr, 4), 4, 1024, (3, 1000, 0, 1))
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse("func.func @f(%i: index, %j: index) { return }")
        entry = module.body.operations[0].regions[0].blocks[0]
        with ir.InsertionPoint(entry.operations[0]):
            for expr in (*table, other):
                emit(expr, dict(zip((i, j), entry.arguments, strict=True)), SMALL)
        module.operation.verify()
        text = str(module)
    assert text.count("memref.global") == 2
    assert "@perm : memref<4xi8> = dense<[3, -1, 0, 1]>" in text  # 255 without a sign bit
    assert "@perm_1 : memref<4xi16>" in text
    assert "arith.index_castui" in text


def test_a_run_time_table_is_read_from_its_memref():
    assert names(nodes.Table("order", i.expr, 64, 64)) == ["memref.load", "arith.index_cast"]
    with pytest.raises(PrintError, match="reads the run-time table 'other', for which no memref was given; have order"):
        body(nodes.Table("other", i.expr, 64, 64))


def test_conditions():
    assert names((i < j) & ~(i == 3)) == [
        "index.cmp",
        "arith.constant",
        "index.cmp",
        "arith.constant",
        "arith.xori",
        "arith.andi",
    ]
    assert names(sympy.true) == ["arith.constant"]


@pytest.mark.parametrize(
    ("expr", "message"),
    [
        (sympy.Function("f")(i.expr), "no integer meaning"),
        (sympy.Symbol("q", integer=True), "no value was given for the symbol q; have i, j"),
        (sympy.Integer(2) ** 70, "does not fit index"),
        (nodes.Table("t", i.expr % 2, 2, 9, (-3, 8)), r"the table 't' must lie in 0..2\^63-1, got \(-3, 8\)"),
    ],
)
def test_what_it_does_not_know_it_refuses(expr, message):
    with pytest.raises(ValueError if "meaning" in message else PrintError, match=message):
        body(expr)


@pytest.mark.parametrize("form", ["arith", "index", "affine"])
def test_a_constant_beyond_64_bits_is_refused_in_every_form(form):
    with pytest.raises(PrintError, match="the constant 9223372036854775808 does not fit index"):
        body(i + j + 2**63, form=form)


class Unknown(nodes._IntegerNode):
    __slots__ = ()


def test_a_node_without_a_form_is_named():
    with pytest.raises(PrintError, match=r"mlir: no form for Unknown in Unknown\(i\)"):
        body(Unknown(i.expr))


def test_a_float_value_for_a_symbol_is_refused():
    with pytest.raises(PrintError, match="a value of type f32 cannot be cast to the integer type index"):
        body(i // 8 + j, inputs="f32", form="affine")


@pytest.mark.parametrize(
    "options", [{"form": "llvm"}, {"form": "index", "integer": "i32"}, {"form": "arith", "integer": "i8"}]
)
def test_options_that_make_no_sense(options):
    with pytest.raises(PrintError, match=r"the form is one of|belong to the form arith"):
        body(i, **options)
