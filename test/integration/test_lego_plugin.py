"""The C++ lowering of the lego dialect against Python: the same positions and indices, and as few operations."""

import re
from pathlib import Path

import numpy as np
import pytest
from lego_plugin import LOWER, mlir_opt, needs_plugin
from random_layouts import SYMBOLIC, random_layout

from lego_mlir import Col, Row, bindings, f32, gallery, interp, spec
from lego_mlir.expr.index import index_symbol
from lego_mlir.expr.ranges import Range
from lego_mlir.hardware.targets import target_named
from lego_mlir.kernels import dot_products
from lego_mlir.layout.notation import sizes_in_order
from lego_mlir.printers.mlir import MlirPrinter
from lego_mlir.toolchain import compile_kernel, ptxas
from lego_mlir.transforms.apply import transform
from lego_mlir.transforms.lego_ops.without_lego import without_lego
from lego_mlir.transforms.modules import ModuleError

pytestmark = needs_plugin
EXAMPLES = Path(__file__).parents[2] / "examples"
LAYOUTS = [pytest.param(200, id="some"), pytest.param(1000, marks=pytest.mark.long, id="many")]
ALLOWED = 1.3
"""Operations of the C++ form for each of the Python form, over all layouts together."""
WITHIN = 0.93
"""The share of layouts of which that holds one by one."""


def kernel(name, layout, sizes=None):
    """A kernel of one thread for each element: the position of its index, and the index of that position."""
    concrete = layout.subs(**sizes) if sizes else layout
    index = elements(concrete)
    rank, count = index.shape
    axes = range(rank)
    declared = [str(symbol) for symbol in sizes_in_order(layout)]
    bound = f"[{', '.join(f'%{size}' for size in declared)}]" if declared else ""
    listed, text = ", ".join(f"%i{k}" for k in axes), layout.to_mlir()
    named = ", ".join(f"%q{k}" for k in axes)
    lines = [f"%k{k} = arith.constant {k} : index" for k in axes]
    lines += [f"%{size} = memref.load %sizes[%k{k}] : memref<{rank}xindex>" for k, size in enumerate(declared)]
    for k in axes:
        lines.append(f"%i{k} = memref.load %index[%k{k}, %t] : memref<{rank}x{count}xindex>")
    lines += [f"%p = lego.apply {text}({listed}){bound}", f"{named} = lego.inv {text}(%p){bound}"]
    lines += [f"memref.store %p, %out[%t] : memref<{count}xindex>"]
    lines += [f"memref.store %q{k}, %back[%k{k}, %t] : memref<{rank}x{count}xindex>" for k in axes]
    body = "\n  ".join(lines)
    return (
        f"gpu.func @{name}(%index: memref<{rank}x{count}xindex>, %out: memref<{count}xindex>, "
        f"%back: memref<{rank}x{count}xindex>, %sizes: memref<{rank}xindex>) kernel attributes "
        f"{{known_block_size = array<i32: {count}, 1, 1>, known_grid_size = array<i32: 1, 1, 1>}} {{\n"
        f"  %t = gpu.thread_id x\n  {body}\n  gpu.return\n}}\n"
    )


def elements(layout):
    """The indices that name an element, one row for each axis."""
    index = np.indices([int(n) for n in layout.dims()]).reshape(len(layout.dims()), -1)
    named = np.broadcast_to(layout.mask(*index), index.shape[1:])
    return np.ascontiguousarray(index[:, named])


def module(kernels):
    return "module attributes {gpu.container_module} { gpu.module @m {\n" + "\n".join(kernels) + "} }"


def run(compiled, name, layout, values=None):
    index = elements(layout)
    out, back = np.zeros(index.shape[1], np.int64), np.zeros_like(index)
    sizes = np.zeros(len(index), np.int64)
    sizes[: len(values or [])] = values or []
    report = interp.launch(compiled, name, args=[index, out, back, sizes], counts=False)
    assert report.clean, (layout, report)
    assert np.array_equal(out, np.broadcast_to(layout.apply(*index), out.shape)), layout
    assert np.array_equal(back, index), layout


def random_layouts(count):
    return [random_layout(number) for number in range(count)]


@pytest.mark.parametrize("count", LAYOUTS)
def test_the_same_positions_for_random_layouts(count):
    layouts = random_layouts(count)
    text = module(kernel(f"k{number}", layout) for number, layout in enumerate(layouts))
    compiled = interp.compile_module(mlir_opt(text, f"gpu.module({LOWER})"))
    for number, layout in enumerate(layouts):
        run(compiled, f"k{number}", layout)


@pytest.mark.parametrize("count", LAYOUTS)
def test_the_same_positions_in_python(count):
    some = list(enumerate(random_layouts(count)))[::5]
    compiled = interp.compile_module(without_lego(module(kernel(f"k{number}", layout) for number, layout in some)))
    for number, layout in some:
        run(compiled, f"k{number}", layout)


def test_the_same_positions_for_symbolic_sizes():
    cases = [(layout, values) for layout, each in SYMBOLIC for values in each]
    kernels = [kernel(f"k{number}", layout, values) for number, (layout, values) in enumerate(cases)]
    for lower in (lambda text: mlir_opt(text, f"gpu.module({LOWER})"), without_lego):
        compiled = interp.compile_module(lower(module(kernels)))
        for number, (layout, values) in enumerate(cases):
            given = [values[str(symbol)] for symbol in sizes_in_order(layout)]
            run(compiled, f"k{number}", layout.subs(**values), given)


def function(name, layout, inverse):
    """A function of the position, or of the index of a position."""
    rank, text = len(layout.dims()), layout.to_mlir()
    index = ", ".join(f"%i{k}" for k in range(rank))
    kinds = ", ".join(["index"] * rank)
    if inverse:
        return (
            f"func.func @{name}(%p: index) -> ({kinds}) {{ {index} = lego.inv {text}(%p) return {index} : {kinds} }}\n"
        )
    given = ", ".join(f"%i{k}: index" for k in range(rank))
    return f"func.func @{name}({given}) -> index {{ %p = lego.apply {text}({index}) return %p : index }}\n"


def counted(text):
    """The operations of each function, without constants, tables and the return."""
    found = {}
    for name, body in re.findall(r"func\.func @(\w+)\(.*?\n(.*?)\n  \}", text, re.DOTALL):
        lines = [line for line in body.splitlines() if "=" in line]
        found[name] = sum("arith.constant" not in line and "memref.get_global" not in line for line in lines)
    return found


def printed(layout, inverse):
    """The operations of arith that Python's printer emits for the simplified expressions, in the current context."""
    found = layout.derive_inv() if inverse else (layout.derive(),)
    ranges = {symbol: Range(0, 1) for d in found for symbol in d.raw.free_symbols}
    if inverse:
        ranges = {symbol: Range(0, layout.physical_size()) for symbol in ranges}
    else:
        ranges = layout.ranges(*(index_symbol(f"i{axis}") for axis in range(len(layout.dims()))))
    symbols = ", ".join(f"%{symbol}: index" for symbol in ranges)
    ir = bindings.load().ir
    module = ir.Module.parse(f"func.func @f({symbols}) {{ return }}")
    block = module.body.operations[0].regions[0].blocks[0]
    with ir.InsertionPoint.at_block_begin(block):
        printer = MlirPrinter(dict(zip(ranges, block.arguments, strict=True)), ranges, form="arith")
        for derivation in found:
            printer.value(derivation.expr, "index")
    return sum(op.operation.name not in ("arith.constant", "memref.get_global", "func.return") for op in block)


@pytest.mark.parametrize("inverse", [False, True], ids=["apply", "inv"])
@pytest.mark.parametrize("count", LAYOUTS)
def test_as_few_operations(inverse, count):
    layouts, ir = random_layouts(count), bindings.load().ir
    text = "".join(function(f"f{number}", layout, inverse) for number, layout in enumerate(layouts))
    ours = counted(mlir_opt(text, LOWER))
    assert len(ours) == count
    with ir.Context(), ir.Location.unknown():
        theirs = {f"f{number}": printed(layout, inverse) for number, layout in enumerate(layouts)}
    within = sum(ours[name] <= ALLOWED * theirs[name] for name in ours)
    print(f"{sum(ours.values())} operations in C++, {sum(theirs.values())} in Python; {within} of {count} within 1.3")
    assert sum(ours.values()) <= ALLOWED * sum(theirs.values())
    assert within >= WITHIN * count


NVVM = (
    "lower-affine,canonicalize,cse,convert-vector-to-scf,convert-vector-to-llvm,convert-scf-to-cf,convert-math-to-llvm,"
    "convert-gpu-to-nvvm{use-bare-ptr-memref-call-conv=true},convert-index-to-llvm,reconcile-unrealized-casts,"
    "canonicalize,cse"
)
"""Upstream's passes from gpu, memref, math and arith to NVVM, inside a GPU module.

`convert-gpu-to-nvvm` alone makes a call of libdevice of a `math.fma`, where LLVM has an instruction.
"""


def instructions(ptx):
    """The number of instructions of a text of PTX, labels and directives left out."""
    lines = [line.strip() for line in ptx.splitlines()]
    return sum(line.endswith(";") and not line.startswith((".", "//")) for line in lines)


def assembly(text):
    """The PTX that mlir-opt makes of a lego module, with no other program."""
    made = mlir_opt(
        text, f"gpu.module({LOWER},{NVVM}),nvvm-attach-target{{chip=sm_80 O=3}},gpu-module-to-binary{{format=isa}}"
    )
    (found,) = re.findall(r'assembly = "(.*?)"', made, re.DOTALL)
    return re.sub(r"\\([0-9A-F]{2})", lambda code: chr(int(code[1], 16)), found)


@pytest.mark.parametrize("name", ["transpose", "matmul"])
def test_mlir_opt_alone_makes_no_more_instructions(name):
    if name == "transpose":
        (kernel,) = spec.load(str(EXAMPLES / "transpose.py")).kernels_named(None)
    else:
        kernel = dot_products.build(256, 256, 256, f32)
    theirs = compile_kernel(kernel, emit="ptx", target="sm_80").text
    ours = assembly(kernel.mlir("lego", locations=False))
    assert f".visible .entry {kernel.name}(" in ours
    assert instructions(theirs) > 20
    assert instructions(ours) <= instructions(theirs)
    if ptxas.find():
        assert ptxas.assemble(ours, target_named("sm_80"))[0]


def test_a_tensor_core_product_lowered_by_the_plugin():
    """The transform script for tensor cores has passes in Python, which read affine maps; the plugin makes them."""
    (kernel,) = spec.load(str(EXAMPLES / "matmul.py")).kernels_named(None)
    passes = "gpu.module(lego-lower-to-affine{skip=true},lego-lower-to-arith)"
    lowered = mlir_opt(kernel.mlir("lego", locations=False), passes)
    assert "lego.apply" not in lowered
    made = [compile_kernel(x, emit="ptx", target="sm_80", transform="matmul_sm80.mlir").text for x in (lowered, kernel)]
    assert "mma.sync" in made[0]
    assert instructions(made[0]) <= instructions(made[1])


TILE = """module attributes {gpu.container_module} { gpu.module @m {
  gpu.func @transpose(%a: memref<1024xf32>, %b: memref<1024xf32>) kernel attributes
      {known_block_size = array<i32: 32, 32, 1>, known_grid_size = array<i32: 1, 1, 1>} {
    %x = gpu.thread_id x
    %y = gpu.thread_id y
    %rows = arith.constant 32 : index
    %tile = memref.alloc() : memref<32x32xf32, #gpu.address_space<workgroup>>
    %row = arith.muli %y, %rows : index
    %p = arith.addi %row, %x : index
    %v = memref.load %a[%p] : memref<1024xf32>
    memref.store %v, %tile[%y, %x] : memref<32x32xf32, #gpu.address_space<workgroup>>
    gpu.barrier
    %w = memref.load %tile[%x, %y] : memref<32x32xf32, #gpu.address_space<workgroup>>
    memref.store %w, %b[%p] : memref<1024xf32>
    gpu.return
  }
} }
"""
LAUNCHED = """func.func @transpose(%a: memref<1024xf32>, %b: memref<1024xf32>) {
  %one = arith.constant 1 : index
  %rows = arith.constant 32 : index
  gpu.launch blocks(%i, %j, %k) in (%gx = %one, %gy = %one, %gz = %one)
      threads(%x, %y, %z) in (%bx = %rows, %by = %rows, %bz = %one) {
BODY    gpu.terminator
  }
  return
}
""".replace("BODY", TILE[TILE.index("    %tile") : TILE.index("    gpu.return")])
SCRIPT = """module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %tiles = transform.structured.match ops{["memref.alloc"]} in %root : (!transform.any_op) -> !transform.any_op
    %relaid = transform.lego.swizzle %tiles : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}
"""


def wavefronts(text):
    """The result of the transposition, and the wavefronts of its accesses to shared memory."""
    a, b = np.arange(1024, dtype=np.float32), np.zeros(1024, np.float32)
    report = interp.launch(text, args=[a, b])
    assert report.clean, report
    assert np.array_equal(b.reshape(32, 32), a.reshape(32, 32).T)
    return sum(site.wavefronts for site in report.sites if site.space == "shared")


@pytest.mark.parametrize("tile", [TILE, LAUNCHED], ids=["gpu.func", "gpu.launch"])
def test_a_transform_script_with_operations_of_the_plugin(tile):
    made = transform(tile, SCRIPT)
    assert "lego." not in made
    assert wavefronts(made) < wavefronts(tile) / 8


TURN = """    %zero = arith.constant 0 : index
    %turn = memref.atomic_rmw addi %step, %count[%zero] : (i32, memref<1xi32>) -> i32
    memref.store %turn, %turns[%a, %b] : memref<8x4xi32>
"""
ORDERED = {
    "gpu.launch": """func.func @order(%count: memref<1xi32>, %turns: memref<8x4xi32>) {
  %step = arith.constant 1 : i32
  %one = arith.constant 1 : index
  %four = arith.constant 4 : index
  %eight = arith.constant 8 : index
  gpu.launch blocks(%a, %b, %c) in (%gx = %eight, %gy = %four, %gz = %one)
      threads(%x, %y, %z) in (%bx = %one, %by = %one, %bz = %one) {
TURN    gpu.terminator
  }
  return
}
""".replace("TURN", TURN),
    "gpu.func": """gpu.module @m {
  gpu.func @order(%count: memref<1xi32>, %turns: memref<8x4xi32>) kernel attributes
      {known_block_size = array<i32: 1, 1, 1>, known_grid_size = array<i32: 8, 4, 1>} {
    %step = arith.constant 1 : i32
    %a = gpu.block_id x
    %b = gpu.block_id y
TURN    gpu.return
  }
}
""".replace("TURN", TURN),
}
"""Each block notes when it ran; the interpreter runs blocks by number, x fastest."""


def turns(text):
    count, found = np.zeros(1, np.int32), np.full((8, 4), -1, np.int32)
    interp.launch(text, args=[count, found])
    assert count[0] == 32
    return found


@pytest.mark.parametrize("kind", ORDERED)
def test_blocks_are_reordered(kind):
    text = ORDERED[kind]
    x, y = np.indices((8, 4))
    assert np.array_equal(turns(text), x + 8 * y)
    for layout in (Row(8, 4), Col(8, 4), gallery.xor_swizzle(8, 4)):
        order = f"lego.order %tiles with({layout.to_mlir()})"
        made = transform(text, SCRIPT.replace("memref.alloc", kind).replace("lego.swizzle %tiles", order))
        assert np.array_equal(turns(made), layout.apply(x, y)), layout


def test_a_script_that_mlir_opt_refuses():
    with pytest.raises(ModuleError, match=r"script:4:\d+: error: "):
        transform(TILE, SCRIPT.replace("lego.swizzle", "lego.unknown"))
