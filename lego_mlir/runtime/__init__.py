"""Run compiled kernels: what the compiler wrote beside the PTX, and the machines that it runs on.

`manifest` reads the JSON that `lego-mlir compile --emit ptx` writes, `cuda` loads and launches with CuPy,
`python -m lego_mlir.runtime kernel.ptx` does both and checks the result. None of it needs MLIR, SymPy or Z3.
"""
