"""One module per family of PTX instructions; importing this package registers them all with the decoder."""

from lego_mlir.interp.ptx.instructions import (
    bit_operations,
    block_barriers,
    branches,
    cp_async,
    float_arithmetic,
    integer_arithmetic,
    loads_and_stores,
    matrix_loads,
    moves,
    ptx_atomics,
    ptx_comparisons,
    ptx_conversions,
    ptx_fences,
    tensor_core,
    warp_votes,
)

__all__ = [
    "bit_operations",
    "block_barriers",
    "branches",
    "cp_async",
    "float_arithmetic",
    "integer_arithmetic",
    "loads_and_stores",
    "matrix_loads",
    "moves",
    "ptx_atomics",
    "ptx_comparisons",
    "ptx_conversions",
    "ptx_fences",
    "tensor_core",
    "warp_votes",
]
