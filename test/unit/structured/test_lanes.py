"""One matrix in each lane: results, what fills up the last group, and refusals."""

import numpy as np
import pytest

from lego_mlir import structured
from lego_mlir.errors import UsageError
from lego_mlir.structured import entry_point, reference

TEXTS = [
    "A = Matrix(4, 4); L = LowerTriangular(4); U = UpperTriangular(4); S = Symmetric(L, 4); A = L*U + S;",
    "x = Vector(8); L = LowerTriangular(8, storage=packed); x = L \\ x;",
    "A = Matrix(5, 5); A = lu(A);",
    "L = LowerTriangular(6); S = Symmetric(U, 6); x = Vector(6); L = chol(S); x = L' \\ (L \\ x);",
    "A = Matrix(3, 3); T = Tridiagonal(3, storage=band); B = Matrix(3, 3); A = (T + B)*B' - 2*A;",
    "a = Scalar(); x = Vector(7); A = Matrix(7, 7); a = x'*A*x;",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return str(tmp_path_factory.mktemp("cache"))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("count", [1, 16, 37])
@pytest.mark.parametrize("text", TEXTS)
def test_every_matrix_of_the_batch(text, count, dtype, folder):
    kernel = structured.compile(text, dtype=dtype, by_lanes=True, cache=folder)
    batch = [reference.sample(kernel.program, dtype, seed) for seed in range(count)]
    wants = [reference.evaluate(kernel.program, one) for one in batch]
    arrays = []
    for operand in kernel.program.operands:
        stacked = np.stack([one[operand.name].reshape(entry_point.array_shape(operand)) for one in batch])
        arrays.append(structured.interleave(stacked, kernel.lanes))
    kernel(*arrays)
    tolerance = 1e-12 if dtype == np.float64 else 2e-4
    for operand, array in zip(kernel.program.operands, arrays, strict=True):
        apart = structured.separate(array, count).reshape(count, -1)
        for one, want in zip(apart, wants, strict=True):
            got = reference.dense(operand, one)
            assert np.abs(got - want[operand.name]).max() <= tolerance * max(np.abs(want[operand.name]).max(), 1)
        held = operand.storage.positions(operand.structure)
        outside = np.setdiff1d(np.arange(apart.shape[1]), held[held >= 0])
        assert np.isnan(apart[:, outside]).all()


def test_refusals():
    with pytest.raises(UsageError, match="for sizes up to 8, this program has 9"):
        structured.compile("A = Matrix(9, 9); A = A + A';", by_lanes=True, cache=None)
    kernel = structured.compile("A = Matrix(2, 2); B = Matrix(2, 2); A = B + B';", by_lanes=True, cache=None)
    good = np.zeros((5, 2, 2, kernel.lanes))
    with pytest.raises(
        structured.ArgumentError, match=rf"B is Matrix\(2, 2\), stored as an array of shape \(2, 2, {kernel.lanes}\)"
    ):
        kernel(good, np.zeros((5, 2, 2)))
    with pytest.raises(structured.ArgumentError, match="batch sizes do not match"):
        kernel(good, np.zeros((4, 2, 2, kernel.lanes)))
