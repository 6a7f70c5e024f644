"""`lego_mlir.grouped_matmul` on arrays: in the interpreter, without a GPU, and what it refuses."""

import numpy as np
import pytest

import lego_mlir
from lego_mlir.errors import UsageError
from lego_mlir.runtime.calls import Calls

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


@pytest.mark.parametrize("columns", [24, 9])
def test_groups_along_k(columns):
    a, b, offsets = drawn(19, 13).T, drawn(19, columns), np.array(ENDS, np.int32)
    wanted = np.stack([a[:, s:e].astype(np.float32) @ b[s:e].astype(np.float32)
                       for s, e in zip([0, *ENDS], ENDS, strict=False)])  # fmt: skip
    for given in (a, np.ascontiguousarray(a)):  # in place, and copied
        np.testing.assert_array_equal(lego_mlir.grouped_matmul(given, b, offsets, check=True), wanted)


def test_a_second_call_along_k_binds_nothing(monkeypatch):
    a, b, offsets = drawn(19, 16).T, drawn(19, 24), np.array(ENDS, np.int32)
    first = lego_mlir.grouped_matmul(a, b, offsets, check=True)
    monkeypatch.setattr(Calls, "_bound", None)
    np.testing.assert_array_equal(lego_mlir.grouped_matmul(-a.T.copy().T, b, offsets, check=True), -first)


def test_groups_of_columns():
    a, b = drawn(3, 24, 16), drawn(17, 16).T
    found = lego_mlir.grouped_matmul(a, b, np.array(ENDS, np.int32), result="float32", check=True)
    np.testing.assert_array_equal(found, expected(b.T, a.swapaxes(1, 2), ENDS).T)


@pytest.mark.parametrize("form", ["rows", "rows, b in columns", "columns", "depth"])
def test_gradients(form):
    torch = pytest.importorskip("torch")
    generator = torch.Generator().manual_seed(1)
    shapes = {"columns": ((3, 24, 16), (16, 20)), "depth": ((16, 20), (20, 24))}.get(form, ((20, 16), (3, 16, 24)))
    a, b = (torch.randint(-2, 3, s, generator=generator).to(torch.bfloat16) for s in shapes)
    if form == "rows, b in columns":
        b = b.mT.contiguous().mT
    a.requires_grad_(), b.requires_grad_()
    found = lego_mlir.grouped_matmul(a, b, torch.tensor(ENDS, dtype=torch.int32), check=True)
    first, second = (x.detach().float().requires_grad_() for x in (a, b))
    parts = [(slice(s, e), g) for g, (s, e) in enumerate(zip([0, *ENDS], ENDS, strict=False))]
    match form:
        case "columns":
            wanted, used = torch.cat([first[g] @ second[:, at] for at, g in parts], 1), (slice(None), slice(ENDS[-1]))
        case "depth":
            wanted, used = torch.stack([first[:, at] @ second[at] for at, _ in parts]), slice(None)
        case _:
            wanted, used = torch.cat([first[at] @ second[g] for at, g in parts]), slice(ENDS[-1])
    weights = torch.randint(-2, 3, wanted.shape, generator=generator)
    assert torch.equal(found[used].float(), wanted)
    (found[used].float() * weights).sum().backward()
    (wanted * weights).sum().backward()
    for mine, theirs in ((a, first), (b, second)):
        assert torch.equal(mine.grad.float(), theirs.grad)


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


@pytest.mark.parametrize("ends", [[8, 3, 17], [-1, 3, 17], [3, 8, 18]])
def test_offsets_that_decrease_or_exceed_the_rows_are_refused_by_a_check(ends):
    a, b = drawn(17, 16), drawn(3, 16, 24)
    for _ in range(2):  # the second time by what a valid call found out
        with pytest.raises(
            UsageError, match=r"grouped_matmul: offsets = \[.*do not decrease, from 0 on to at most the 17"
        ):
            lego_mlir.grouped_matmul(a, b, np.array(ends, np.int32), check=True)
        lego_mlir.grouped_matmul(a, b, np.array(ENDS, np.int32), check=True)


def test_second_derivatives_are_refused():
    torch = pytest.importorskip("torch")
    a = torch.randn(4, 64, dtype=torch.bfloat16, requires_grad=True)
    b = torch.randn(2, 64, 8, dtype=torch.bfloat16)
    product = lego_mlir.grouped_matmul(a, b, torch.tensor([2, 4], dtype=torch.int32), check=True)
    (found,) = torch.autograd.grad(product.float().square().sum(), a, create_graph=True)
    with pytest.raises(UsageError, match="grouped_matmul has first derivatives alone"):
        torch.autograd.grad((found * a).sum(), a)
