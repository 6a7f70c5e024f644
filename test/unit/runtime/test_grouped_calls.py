"""`lego_mlir.grouped_matmul` on arrays: in the interpreter, without a GPU, and what it refuses."""

import numpy as np
import pytest

import lego_mlir
from lego_mlir.errors import UsageError

ENDS = [5, 5, 17]


def drawn(*shape):
    return np.random.default_rng(len(shape)).integers(-3, 4, shape).astype(np.float16)


def expected(a, b, ends):
    groups = np.searchsorted(ends, np.arange(len(a)), side="right")
    return np.einsum("tk,tkn->tn", a.astype(np.float32), b.astype(np.float32)[groups])


@pytest.mark.parametrize(("depth", "columns"), [(16, 24), (13, 9)])
@pytest.mark.parametrize("columns_first", [False, True])
def test_arrays_of_any_sizes(depth, columns, columns_first):
    a, b = drawn(17, depth), drawn(3, depth, columns)
    if columns_first:
        b = np.ascontiguousarray(b.swapaxes(1, 2)).swapaxes(1, 2)
    offsets = np.array(ENDS, np.int32)
    for _ in range(2):  # the second time by what the first one found out
        found = lego_mlir.grouped_matmul(a, b, offsets, result="float32", check=True)
        np.testing.assert_array_equal(found, expected(a, b, ENDS))
        a, b = -a, b + 1


def test_addresses_that_are_not_aligned():
    offsets, b = np.array(ENDS, np.int32), drawn(3, 16, 24)
    for first in (0, 1, 8):
        a = drawn(17 * 16 + 8)[first : first + 17 * 16].reshape(17, 16)
        found = lego_mlir.grouped_matmul(a, b, offsets, check=True)
        np.testing.assert_array_equal(found, expected(a, b, ENDS))


def test_slices_of_arrays():
    a, b = drawn(17, 32)[:, :16], drawn(3, 16, 48)[:, :, 8:32]
    found = lego_mlir.grouped_matmul(a, b, np.array(ENDS, np.int32), check=True)
    np.testing.assert_array_equal(found, expected(a, b, ENDS))


def test_tensors_of_torch():
    torch = pytest.importorskip("torch")
    a, b = torch.from_numpy(drawn(17, 13)), torch.from_numpy(drawn(3, 13, 24))
    found = lego_mlir.grouped_matmul(a, b, torch.tensor(ENDS, dtype=torch.int32), check=True)
    np.testing.assert_array_equal(found.float().numpy(), expected(a.numpy(), b.numpy(), ENDS))
    with pytest.raises(UsageError, match="requires a gradient"):
        lego_mlir.grouped_matmul(a.requires_grad_(), b, torch.tensor(ENDS, dtype=torch.int32), check=True)


@pytest.mark.parametrize(("shapes", "words"), [
    (((17, 16, 1), (3, 16, 24), 3), r"a is \[T, K\]"),
    (((17, 16), (3, 8, 24), 3), r"b is \[G, K, N\]"),
    (((17, 16), (3, 16, 24), 2), r"offsets are \[G\] of int32"),
])  # fmt: skip
def test_shapes_that_are_refused(shapes, words):
    a, b, groups = shapes
    with pytest.raises(UsageError, match=words):
        lego_mlir.grouped_matmul(drawn(*a), drawn(*b), np.zeros(groups, np.int32), check=True)


def test_types_that_are_refused():
    a, b, offsets = drawn(17, 16), drawn(3, 16, 24), np.array(ENDS, np.int32)
    with pytest.raises(UsageError, match=r"offsets .3. int64"):
        lego_mlir.grouped_matmul(a, b, offsets.astype(np.int64), check=True)
    with pytest.raises(UsageError, match="the result is one of"):
        lego_mlir.grouped_matmul(a, b, offsets, result="int8", check=True)
    with pytest.raises(UsageError, match="a is a list"):
        lego_mlir.grouped_matmul([[1.0]], b, offsets)
