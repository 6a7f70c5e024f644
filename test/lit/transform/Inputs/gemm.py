"""A matrix product small enough to read after each script: one block, two warps, four steps along K."""

from lego_mlir import f16
from lego_mlir.kernels import matmul

gemm = matmul.build(32, 64, 128, f16, tiling=matmul.ProductTile(32, 64, 32, (1, 2)), order="row")
