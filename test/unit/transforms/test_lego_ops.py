"""Modules of the lego dialect without the plugin: each operation, lowered and run, against the layout in Python."""

import numpy as np
import pytest

from lego_mlir import bindings, interp, parse_layout
from lego_mlir.errors import InterpreterError
from lego_mlir.transforms.lego_ops.op_forms import mentions_lego, to_custom, to_generic
from lego_mlir.transforms.lego_ops.without_lego import without_lego
from lego_mlir.transforms.modules import ModuleError

MIRROR = """
lego.genp @mirror sizes [4, ?] apply(%i, %j)[%n] {
  %last = arith.constant 3 : index
  %r = arith.subi %last, %i : index
  %s = arith.muli %r, %n : index
  %p = arith.addi %s, %j : index
  lego.yield %p : index
} inv(%p)[%n] {
  %last = arith.constant 3 : index
  %r = arith.divui %p, %n : index
  %i = arith.subi %last, %r : index
  %j = arith.remui %p, %n : index
  lego.yield %i, %j : index, index
}
"""
APPLY = """
func.func @f(%out: memref<{count}xi64>{more}) {{
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  {before}
  lego.for_each (%i, %j) in {space}{sizes} {{
    %p = lego.apply {layout}(%i, %j){sizes}
    %k = lego.apply {space}(%i, %j){sizes}
    %v = arith.index_cast %p : index to i64
    memref.store %v, %out[%k] : memref<{count}xi64>
  }}
  return
}}
"""
LAYOUTS = [
    ("Row(8, 6)", ""),
    ("Col(8, 6)", ""),
    ("OrderBy(Col(2, 3), gallery.reverse(8)) GroupBy([8, 6])", ""),
    ("gallery.table([8, 6], [" + ", ".join(str(7 * k % 48) for k in range(48)) + "])", ""),
    ("OrderBy(gallery.antidiagonal(4), Row(3)) GroupBy([8, 6])", ""),
    ("Padded(Row(9, 7), [8, 6])", ""),
    ("Strided([8, 6], [1, 9])", ""),
    ("[M multiple_of 2]: OrderBy(Col(M floordiv 2, 2, 6)) GroupBy([M, 6])", "[%M]"),
    ("[M]: OrderBy(GenP([4, M], @mirror), Row(6 floordiv 4 + 1 - 1 - 1 + 1)) GroupBy([8, 6])", ""),
]


def run(text, *arrays):
    return interp.launch(text, args=arrays)


@pytest.mark.parametrize(("layout", "sizes"), LAYOUTS[:-1], ids=[layout for layout, _ in LAYOUTS[:-1]])
def test_apply_is_the_layout_s(layout, sizes):
    declared = layout.partition(":")[0] + ": " if sizes else ""
    text = APPLY.format(
        count=48,
        more="",
        before="%M = arith.constant 8 : index" if sizes else "",
        space=f"#lego.layout<{declared}{'Row(M, 6)' if sizes else 'Row(8, 6)'}>",
        sizes=sizes,
        layout=f"#lego.layout<{layout}>",
    )
    out = np.zeros(48, np.int64)
    assert run(text, out).clean
    expected = parse_layout(layout)
    expected = expected.subs(M=8) if sizes else expected
    assert np.array_equal(out.reshape(8, 6), expected.apply(*np.indices((8, 6))))


def test_a_size_at_run_time_and_functions():
    text = (
        MIRROR
        + """
    func.func @f(%out: memref<20xi64>, %n: memref<1xindex>) {
      %zero = arith.constant 0 : index
      %N = memref.load %n[%zero] : memref<1xindex>
      lego.for_each (%i, %j) in #lego.layout<[N]: GenP([4, N], @mirror)>[%N] {
        %k = lego.apply #lego.layout<[N]: Row(4, N)>(%i, %j)[%N]
        %p = lego.apply #lego.layout<[N]: GenP([4, N], @mirror)>(%i, %j)[%N]
        %v = arith.index_cast %p : index to i64
        memref.store %v, %out[%k] : memref<20xi64>
      }
      return
    }"""
    )
    out = np.zeros(20, np.int64)
    assert run(text, out, np.array([5], np.int64)).clean
    assert np.array_equal(out.reshape(4, 5), np.arange(20).reshape(4, 5)[::-1])


def test_inv_and_mask():
    text = """
    func.func @f(%index: memref<32x2xi64>, %named: memref<4x8xi8>) {
      %zero = arith.constant 0 : index
      %one = arith.constant 1 : index
      %end = arith.constant 32 : index
      scf.for %p = %zero to %end step %one {
        %q:2 = lego.inv #lego.layout<OrderBy(gallery.xor_swizzle(4, 8)) GroupBy([4, 8])>(%p)
        %a = arith.index_cast %q#0 : index to i64
        %b = arith.index_cast %q#1 : index to i64
        memref.store %a, %index[%p, %zero] : memref<32x2xi64>
        memref.store %b, %index[%p, %one] : memref<32x2xi64>
        %i, %j = lego.inv #lego.layout<Row(4, 8)>(%p)
        %in = lego.mask #lego.layout<Row(3, 7) tile_by([2, 4], [2, 2])>(%zero, %one, %zero, %one)
        %m = lego.mask #lego.layout<Row(7, 13) tile_by([4, 8], [2, 2])>(%i, %j, %one, %one)
        %both = arith.andi %in, %m : i1
        %v = arith.extui %both : i1 to i8
        memref.store %v, %named[%i, %j] : memref<4x8xi8>
      }
      return
    }"""
    index, named = np.zeros((32, 2), np.int64), np.zeros((4, 8), np.int8)
    assert run(text, index, named).clean
    layout = parse_layout("gallery.xor_swizzle(4, 8)")
    assert np.array_equal(index.T, np.array(layout.inv(np.arange(32))))
    tiles = parse_layout("Row(7, 13) tile_by([4, 8], [2, 2])")
    assert np.array_equal(named != 0, tiles.mask(*np.indices((4, 8)), np.array(1), np.array(1)))


VIEW = """
func.func @f(%from: memref<{shape}xf32>, %to: memref<32xf32>) {{
  %a = lego.view %from : !lego.view<memref<{shape}xf32>, {layout}>
  %b = lego.view %to : !lego.view<memref<32xf32>, #lego.layout<Row(4, 8)>>
  lego.for_each (%i, %j) in #lego.layout<Row(4, 2)> {{
    %two = arith.constant 4 : index
    %k = arith.muli %j, %two : index
    %x = lego.vector_load %a[%i, %k] : !lego.view<memref<{shape}xf32>, {layout}>, vector<4xf32>
    lego.vector_store %x, %b[%i, %k] : !lego.view<memref<32xf32>, #lego.layout<Row(4, 8)>>, vector<4xf32>
    %y = lego.load %b[%i, %k] : !lego.view<memref<32xf32>, #lego.layout<Row(4, 8)>>
    lego.store %y, %b[%i, %k] : !lego.view<memref<32xf32>, #lego.layout<Row(4, 8)>>
  }}
  return
}}
"""


@pytest.mark.parametrize("shape", ["32", "4x8", "2x2x8"])
@pytest.mark.parametrize("layout", ["Row(4, 8)", "Col(4, 8)", "gallery.xor_swizzle(4, 8, vec=4)"])
def test_views(layout, shape):
    text = VIEW.format(shape=shape, layout=f"#lego.layout<{layout}>")
    source, target = np.arange(32, dtype=np.float32).reshape([*map(int, shape.split("x"))]), np.zeros(32, np.float32)
    assert run(text, source, target).clean
    assert np.array_equal(target.reshape(4, 8), parse_layout(layout).apply(*np.indices((4, 8))))
    vectors = without_lego(text).count("vector.load")
    assert vectors == (shape == "32" and layout != "Col(4, 8)")


def test_a_loop_that_carries_a_value_and_skips_padding():
    text = """
    func.func @f(%a: memref<12xf32>, %out: memref<1xf32>) {
      %zero = arith.constant 0 : index
      %start = arith.constant 0.0 : f32
      %v = lego.view %a : !lego.view<memref<12xf32>, #lego.layout<Padded(Row(3, 4), [3, 3])>>
      %sum = lego.for_each (%i, %j) in #lego.layout<Padded(Row(3, 4), [3, 3])> iter_args(%s = %start) -> (f32) {
        %x = lego.load %v[%i, %j] : !lego.view<memref<12xf32>, #lego.layout<Padded(Row(3, 4), [3, 3])>>
        %t = arith.addf %s, %x : f32
        lego.yield %t : f32
      }
      memref.store %sum, %out[%zero] : memref<1xf32>
      return
    }"""
    given, out = np.arange(12, dtype=np.float32), np.zeros(1, np.float32)
    assert run(text, given, out).clean
    assert out[0] == given.reshape(3, 4)[:, :3].sum()


def test_custom_form_is_generic_form():
    text = """%p = lego.apply #lego.layout<[M]: Row(M, 64)>(%i, %j)[%M] loc("f":1:2)"""
    generic = to_generic(text)
    assert generic.startswith('%p = "lego.apply"(%i, %j, %M) {layout = #lego.layout<[M]: Row(M, 64)>')
    assert to_custom(generic) == text
    assert to_generic(generic) == generic


def test_other_text_is_unchanged():
    text = 'gpu.func @f(%a: index {lego.range = array<i64: 1, 2>}) // lego.apply\n "a lego.apply"'
    assert to_generic(text) == text
    assert not mentions_lego("gpu.func @f(%a: index {lego.range = array<i64: 1, 2>})")


def test_lines_are_kept():
    assert to_generic(MIRROR).count("\n") == MIRROR.count("\n")
    ir = bindings.load().ir
    with ir.Context() as context:
        context.allow_unregistered_dialects = True
        assert ir.Module.parse(to_generic(MIRROR))


F = "func.func @f(%i: index, %b: memref<8xf32>) {{\n  {}\n  return\n}}"
WRONG = {
    "%p = lego.apply #lego.layout<Row(8)>(%i, %i)": r"k.mlir:2:\d+: error: .* has 2 indices for .* \[8\]",
    "%p = lego.apply #lego.layout<Rov(8)>(%i)": r"k.mlir:2:\d+: error: 'lego.apply' op layout text, column 1: unknown",
    "%p = lego.apply #lego.layout<[M]: Row(M)>(%i)": r"0 size operands for the sizes \[M\]",
    "%p = lego.apply #lego.layout<GenP([4], @m)>(%i)": "@m is not defined",
    "%p = lego.apply Row(8)(%i)": r"k.mlir:2:\d+: error: expected a layout such as",
    "%p = lego.apply #lego.layout<Row(8>(%i)": "unbalanced",
    "%p = lego.apply #lego.layout<Row(8)>(%i": r"unbalanced '}'",
    "lego.inv #lego.layout<Row(8)>(%i)": "needs names for its results",
    "%q:2 = lego.inv #lego.layout<Row(8)>(%i)": "has 2 results for 1 logical sizes",
    "%v = lego.view %b : memref<8xf32>": "expected a type such as !lego.view",
    '%p = "lego.apply"(%i) : (index) -> index': "has no attribute 'layout'",
    '%p = "lego.apply"(%i) {layout = #lego.layout<Row(8)>} : (index) -> index': "no attribute 'operandSegmentSizes'",
    '"lego.load"() {layout = #lego.layout<Row(8)>} : () -> ()': "takes a view, then one index",
    "%m = lego.mask #lego.layout<Row(2, 4)>(%i)": r"has 1 indices for the logical sizes \[2, 4\]",
    '%q:2 = "lego.inv"(%i, %i) {layout = #lego.layout<Row(2, 4)>, operandSegmentSizes = array<i32: 2, 0>} '
    ": (index, index) -> (index, index)": "has 2 positions instead of one",
    '"lego.apply"(%i) {layout = #lego.layout<Row(8)>, operandSegmentSizes = array<i32: 1, 0>} : (index) -> ()': (
        "'lego.apply' op has 0 results"
    ),
    '"lego.other"() {layout = #lego.layout<Row(8)>} : () -> ()': "not an operation of the lego dialect",
    "%c = arith.constant 9 : index\n  %p = lego.apply #lego.layout<Row(8)>(%c)": "index 0 of .8. is 9, outside 0..7",
}


@pytest.mark.parametrize(("line", "message"), WRONG.items())
def test_malformed_operations(line, message):
    with pytest.raises(ModuleError, match=message) as raised:
        without_lego(F.format(line), "k.mlir")
    assert "\n" not in str(raised.value)


def test_functions_that_are_not_inverse():
    text = MIRROR.replace("subi %last, %r", "addi %last, %r").replace("[4, ?]", "[4, 5]").replace(")[%n]", ")")
    text = text.replace("%n", "%last")
    with pytest.raises(ModuleError, match="is not a bijection"):
        without_lego(text + F.format("%p = lego.apply #lego.layout<GenP([4, 5], @mirror)>(%i, %i)"), "k.mlir")


def test_the_interpreter_s_message():
    with pytest.raises(InterpreterError, match=r"this is not a valid MLIR module:\n-:2:.*unknown layout 'Rov'"):
        run(F.format("%p = lego.apply #lego.layout<Rov(8)>(%i)"))
