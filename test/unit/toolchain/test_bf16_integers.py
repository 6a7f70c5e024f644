"""Integers become bf16 with one rounding, on targets that have no instruction for it too."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from lego_mlir import interp
from lego_mlir.runtime.cpu_kernels import compile_kernels
from lego_mlir.toolchain import compile_kernel, literals
from lego_mlir.transforms import modules
from lego_mlir.transforms.passes.bf16_integers import LowerBf16Integers

WIDTHS = {"i32": np.int32, "i64": np.int64}


def kernel(element, width):
    vector = f"vector<{width}x{element}>"
    return f"""module attributes {{gpu.container_module}} {{ gpu.module @m {{
      gpu.func @k(%p: memref<1024x{element}>, %q: memref<1024xbf16>) kernel
          attributes {{known_block_size = array<i32: {1024 // width}, 1, 1>}} {{
        %t = gpu.thread_id x
        %i = affine.apply affine_map<(t) -> (t * {width})>(%t)
        %x = vector.load %p[%i] : memref<1024x{element}>, {vector}
        %y = arith.sitofp %x : {vector} to vector<{width}xbf16>
        vector.store %y, %q[%i] : memref<1024xbf16>, vector<{width}xbf16>
        gpu.return
      }} }} }}"""


def near_ties(dtype):
    """Integers beside those halfway between two bf16, and random ones."""
    top = np.iinfo(dtype).bits - 1
    random = np.random.default_rng(3)
    halfway = [((257 + 2 * int(m)) << int(s)) + int(d) for m, s, d in zip(
        random.integers(0, 127, 2000), random.integers(16, top - 9, 2000), random.integers(-1, 2, 2000), strict=True
    )]  # fmt: skip
    ends = [np.iinfo(dtype).min, np.iinfo(dtype).max, 0, -1, 2**24 + 2**16 + 1]
    given = np.array([*ends, *halfway[:800], *(-n for n in halfway[800:900])], dtype)
    return np.concatenate([given, random.integers(-(2**top), 2**top - 1, 1024 - given.size, dtype)])


def rounded(numbers):
    bits = [literals.TYPES["bfloat"].nearest(str(Fraction(int(n)))) for n in numbers]
    return np.array(bits, np.uint16).view(ml_dtypes.bfloat16)


@pytest.mark.parametrize("element", WIDTHS)
def test_integers_are_rounded_once(element):
    given = near_ties(WIDTHS[element])
    text = kernel(element, 2)
    with modules.session():
        module = modules.parse(text)
        LowerBf16Integers().run_on_kernels(module)
        lowered = modules.to_text(module, locations=False)
    assert "to vector<2xf32>" in lowered
    for form in (text, lowered):
        found = np.zeros(1024, ml_dtypes.bfloat16)
        assert interp.launch(form, grid=1, args=[given.copy(), found]).clean
        np.testing.assert_array_equal(found, rounded(given))
    found = np.zeros(1024, ml_dtypes.bfloat16)
    compile_kernels(text)["k"]([given.copy(), found], grid=(1,))
    np.testing.assert_array_equal(found, rounded(given))


@pytest.mark.parametrize(("element", "mask"), [("i32", -256), ("i64", -(1 << 39))])
def test_ptx_rounds_to_odd_first(element, mask):
    assert f", {mask};" in compile_kernel(kernel(element, 2), emit="ptx", target="sm_80").text
