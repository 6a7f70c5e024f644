"""Arrays over named axes: copies, partial sums, uneven parts; as torch, JAX, ScaLAPACK and linear layouts say them."""

from lego_mlir.distributions.base import CopyAxis, Distribution, Replicas
from lego_mlir.distributions.block_sparse import BlockSparse
from lego_mlir.distributions.jax_shardings import from_jax, from_sharding, to_jax, to_sharding
from lego_mlir.distributions.linear_layouts import from_linear, to_linear
from lego_mlir.distributions.placed import PlacedLayout
from lego_mlir.distributions.scalapack import from_scalapack, to_scalapack
from lego_mlir.distributions.sharded import Sharded
from lego_mlir.distributions.splits import Balanced, Chunks, Cyclic, Listed, Split, StridedChunks
from lego_mlir.distributions.torch_placements import from_torch, to_torch

__all__ = [
    "Balanced",
    "BlockSparse",
    "Chunks",
    "CopyAxis",
    "Cyclic",
    "Distribution",
    "Listed",
    "PlacedLayout",
    "Replicas",
    "Sharded",
    "Split",
    "StridedChunks",
    "from_jax",
    "from_linear",
    "from_scalapack",
    "from_sharding",
    "from_torch",
    "to_jax",
    "to_linear",
    "to_scalapack",
    "to_sharding",
    "to_torch",
]
