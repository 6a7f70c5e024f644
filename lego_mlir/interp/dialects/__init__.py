"""The operations that the interpreter knows, one file a dialect; importing this package registers them all."""

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
    scf,
    vector,
    vector_access,
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
    "scf",
    "vector",
    "vector_access",
]
