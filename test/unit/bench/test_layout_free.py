"""Kernels of TritonBench without a layout: what they compute, at small sizes."""

import layout_free_kernels
import numpy as np
import pytest

from lego_mlir import interp


def test_numbers_of_four_bits_are_multiplied_with_their_signs():
    made = layout_free_kernels.int4_gemm(128, 128, 128)
    rng = np.random.default_rng(0)
    arrays = made.inputs(rng)
    arrays["a"] = rng.integers(-2, 3, arrays["a"].shape).astype(np.float16)  # exact sums
    numbers = [[(byte & 15) - 16 * (byte >> 3 & 1), byte >> 4] for byte in map(int, arrays["b"].ravel())]
    wanted = arrays["a"].astype(np.int64) @ np.array(numbers).reshape(128, 128).T
    for kernel in made.scheduled():
        c = np.zeros(128 * 128, np.float16)
        (tiles,) = kernel.grid[:1]
        args = [arrays["a"].ravel(), arrays["b"].ravel(), c]
        assert interp.launch(kernel.mlir(), grid=tiles, block=kernel.block, args=args).clean
        np.testing.assert_array_equal(c.reshape(128, 128), wanted)
        assert not any(n.given_layout for n in kernel.layout_choice.values)
    np.testing.assert_array_equal(made.expected(arrays)["c"], wanted)


@pytest.mark.tools
def test_triton_compiles_its_product_of_four_bits():
    triton = pytest.importorskip("triton")
    from rivals import triton_layout_free
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    kernel = triton_layout_free.int4_product
    tile = dict(zip(kernel.arg_names[6:], (128, 128, 64, 8), strict=True))
    signature = {"a": "*fp16", "b": "*i8", "c": "*fp16", "M": "i32", "N": "i32", "K": "i32"}
    signature |= dict.fromkeys(tile, "constexpr")
    options = {"num_warps": 8, "enable_fp_fusion": True}
    made = triton.compile(ASTSource(kernel, signature, tile), target=GPUTarget("cuda", 90, 32), options=options)
    assert "wgmma" in made.asm["ptx"]
