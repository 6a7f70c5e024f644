"""A program in LL, and random operands of its kernel."""

from lego_mlir.structured import reference

EXAMPLE = (
    "A = Matrix({n}, {n}); L = LowerTriangular({n}); U = UpperTriangular({n}); S = Symmetric(L, {n}); A = L*U + S;"
)


def arrays(kernel, seed=0):
    return reference.sample(kernel.program, kernel.dtype, seed)
