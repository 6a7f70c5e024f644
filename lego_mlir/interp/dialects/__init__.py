"""The operations that the interpreter supports, one file for each dialect; importing the package registers them."""

from lego_mlir.interp.dialects import (
    affine,
    arith,
    atomics,
    cf,
    func,
    gpu,
    index,
    math,
    memref,
    nvgpu,
    nvvm,
    printing,
    scf,
    vector,
    vector_access,
    votes,
)

__all__ = [
    "affine",
    "arith",
    "atomics",
    "cf",
    "func",
    "gpu",
    "index",
    "math",
    "memref",
    "nvgpu",
    "nvvm",
    "printing",
    "scf",
    "vector",
    "vector_access",
    "votes",
]
