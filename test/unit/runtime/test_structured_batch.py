"""One matrix in each lane: results, what is left over, and refusals."""

import numpy as np
import pytest

from lego_mlir.errors import UsageError
from lego_mlir.runtime import structured
from lego_mlir.runtime.structured_batch import compile_batch_last
from lego_mlir.structured import driver, reference

TEXTS = [
    "A = Matrix(4, 4); L = LowerTriangular(4); U = UpperTriangular(4); S = Symmetric(L, 4); A = L*U + S;",
    "x = Vector(8); L = LowerTriangular(8, storage=packed); x = L \\ x;",
    "A = Matrix(5, 5); A = lu(A);",
    "L = LowerTriangular(6); S = Symmetric(U, 6); x = Vector(6); L = chol(S); x = L' \\ (L \\ x);",
    "A = Matrix(3, 3); T = Tridiagonal(3, storage=band); B = Matrix(3, 3); A = (T + B)*B' - 2*A;",
    "a = Scalar(); x = Vector(7); A = Matrix(7, 7); a = x'*A*x;",
]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("count", [1, 7, 16, 37])
@pytest.mark.parametrize("text", TEXTS)
def test_every_matrix_of_the_batch(text, count, dtype, tmp_path_factory):
    kernel = compile_batch_last(text, dtype=dtype, cache=str(tmp_path_factory.getbasetemp() / "batch"))
    batch = [reference.sample(kernel.program, dtype, seed) for seed in range(count)]
    wants = [reference.evaluate(kernel.program, one) for one in batch]
    arrays = []
    for operand in kernel.program.operands:
        shape = (*driver.array_shape(operand), count)
        arrays.append(np.stack([one[operand.name].ravel() for one in batch], axis=-1).reshape(shape))
    kernel(*arrays)
    tolerance = 1e-12 if dtype == np.float64 else 2e-4
    for operand, array in zip(kernel.program.operands, arrays, strict=True):
        flat = array.reshape(-1, count)
        for number, want in enumerate(wants):
            got = reference.dense(operand, flat[:, number])
            assert np.abs(got - want[operand.name]).max() <= tolerance * max(np.abs(want[operand.name]).max(), 1)
        held = operand.storage.positions(operand.structure)
        outside = np.setdiff1d(np.arange(len(flat)), held[held >= 0])
        assert np.isnan(flat[outside]).all()


def test_refusals():
    with pytest.raises(UsageError, match="for sizes up to 8, this program has 9"):
        compile_batch_last("A = Matrix(9, 9); A = A + A';", cache=None)
    kernel = compile_batch_last("A = Matrix(2, 2); B = Matrix(2, 2); A = B + B';", cache=None)
    good = np.zeros((2, 2, 5))
    with pytest.raises(structured.ArgumentError, match="takes A, B; got 1 arrays"):
        kernel(good)
    with pytest.raises(structured.ArgumentError, match=r"B must be float64 of shape \(2, 2, 5\), got .*\(2, 2, 4\)"):
        kernel(good, np.zeros((2, 2, 4)))
    with pytest.raises(structured.ArgumentError, match=r"B must be float64 of shape .*, got list"):
        kernel(good, [1])
    with pytest.raises(structured.ArgumentError, match="B must be C-contiguous"):
        kernel(good, np.zeros((5, 2, 2)).T)
