"""What a kernel does with the memory of each argument, through views, copies and operations that are not known."""

import pytest

from lego_mlir import f16, f32
from lego_mlir.kernels import matmul, transpose
from lego_mlir.toolchain import compile_kernel
from lego_mlir.transforms.kernel_facts import kernel_facts

MODULE = """
module {{ gpu.module @m {{ gpu.func @k(%p: memref<64xf32>, %q: memref<64xf32>, %n: f32) kernel {{
  %c0 = arith.constant 0 : index
  {}
  gpu.return
}} }} }}
"""
READ, WRITTEN, BOTH, NEITHER = (True, False), (False, True), (True, True), (False, False)


@pytest.mark.parametrize(
    ("body", "alignment", "use"),
    [
        ("", 4, NEITHER),
        ("%x = memref.load %p[%c0] : memref<64xf32>", 4, READ),
        ("memref.store %n, %p[%c0] : memref<64xf32>", 4, WRITTEN),
        ("%x = vector.load %p[%c0] : memref<64xf32>, vector<2xf32>", 8, READ),
        ("%x = vector.load %p[%c0] : memref<64xf32>, vector<3xf32>", 16, READ),
        ("%x = vector.load %p[%c0] : memref<64xf32>, vector<8xf32>", 16, READ),
        ("%v = arith.constant dense<0.0> : vector<4xf32> vector.store %v, %p[%c0] : memref<64xf32>, vector<4xf32>", 16,
         WRITTEN),
        ("%x = memref.atomic_rmw addf %n, %p[%c0] : (f32, memref<64xf32>) -> f32", 4, BOTH),
        ("%w = memref.subview %p[32] [32] [1] : memref<64xf32> to memref<32xf32, strided<[1], offset: 32>> "
         "%x = vector.load %w[%c0] : memref<32xf32, strided<[1], offset: 32>>, vector<2xf32>", 8, READ),
        ("%d = memref.dim %p, %c0 : memref<64xf32>", 4, NEITHER),
        ("%i = memref.extract_aligned_pointer_as_index %p : memref<64xf32> -> index", 16, BOTH),
        ("memref.copy %p, %q : memref<64xf32> to memref<64xf32>", 16, BOTH),
    ],
)  # fmt: skip
def test_the_widest_access_of_an_argument(body, alignment, use):
    (kernel,) = kernel_facts(MODULE.format(body.replace("> vector", ">\n vector").replace(">> %x", ">>\n %x")))
    argument = kernel.arguments[0]
    assert (argument.alignment, (argument.read, argument.written)) == (alignment, use)
    assert kernel.arguments[2].kind == "scalar"


def test_asynchronous_copies_and_the_stores_of_a_result():
    built = matmul.build(128, 128, 256, f16, tiling=matmul.ProductTile(64, 64, 32, (2, 2)))
    plain = compile_kernel(built, transform="matmul_sm80.mlir", target="sm_80", emit="transformed", cache=None)
    a, b, c = plain.kernels[0].arguments
    assert [(x.alignment, x.read, x.written) for x in (a, b)] == [(16, True, False)] * 2
    assert (c.alignment, c.read, c.written) == (16, False, True)


@pytest.mark.parametrize("variant", transpose.VARIANTS)
def test_what_the_trace_says_is_what_the_module_does(variant):
    kernel = transpose.build(variant, 64, 128, f32)
    facts = compile_kernel(kernel, emit="mlir", cache=None).kernels[0]
    assert [(p.read, p.written) for p in kernel.params] == [(a.read, a.written) for a in facts.arguments]
