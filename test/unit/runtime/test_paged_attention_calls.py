"""`lego_mlir.attention_paged` on arrays: in the interpreter and by NumPy, without a GPU, and what it refuses."""

from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest
from attention_oracle import of_pages
from cuda_stand_in import Machine, OwnLibrary, own
from product_device import run_launch

import lego_mlir
from lego_mlir.errors import UsageError
from lego_mlir.runtime import driver, first_calls, paged_attention_calls

PAGES, PAGE, SHARED, FEATURES = 24, 64, 1, 64
LENGTHS = np.array([700, 0], np.int32)  # three parts, and none


def drawn(*shape):
    return np.random.default_rng(len(shape)).normal(size=shape).astype(np.float16)


def given(*queries, group=2):
    q = drawn(len(LENGTHS), *queries, group * SHARED, FEATURES)
    table = np.random.default_rng(0).permutation(PAGES).astype(np.int32).reshape(2, -1)
    return q, drawn(PAGES, PAGE, SHARED, FEATURES), drawn(PAGES, PAGE, SHARED, FEATURES)[::-1].copy(), table, LENGTHS


def expected(q, keys, values, table, lengths, scale):
    rows = q.reshape(len(q), -1, *q.shape[-2:])
    return of_pages(rows, keys, values, table, lengths, scale).reshape(q.shape)


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("queries", [(), (3,)])
@pytest.mark.filterwarnings("ignore::lego_mlir.errors.ReferenceWarning")
def test_pages_of_arrays(queries, check):
    arrays = given(*queries)
    found = lego_mlir.attention_paged(*arrays, scale=0.25, check=check)
    assert found.shape == arrays[0].shape and found.dtype == np.float16
    np.testing.assert_allclose(found, expected(*arrays, 0.25), atol=4e-3)


def test_heads_before_positions_and_queries_in_other_orders():
    q, keys, values, *rest = given()
    turned = (x.swapaxes(1, 2).copy().swapaxes(1, 2) for x in (keys, values))
    found = lego_mlir.attention_paged(np.asfortranarray(q), *turned, *rest, check=True)
    np.testing.assert_allclose(found, expected(q, keys, values, *rest, 0.125), atol=4e-3)


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.filterwarnings("ignore::lego_mlir.errors.ReferenceWarning")
def test_a_cache_of_8_bits(check):
    q, keys, values, *rest = given(group=3)
    stored, scales = [x.astype(ml_dtypes.float8_e4m3fn) for x in (keys, values)], (np.float32([0.5]), np.float32([3.0]))
    wide = (x.astype(float) * s for x, s in zip(stored, scales, strict=True))
    found = lego_mlir.attention_paged(q, *stored, *rest, scales=scales, check=check)
    np.testing.assert_allclose(found, expected(q, *wide, *rest, 0.125), atol=4e-3)


def test_a_sum_of_lengths_is_a_number_of_32_bits():
    q, keys, values, table, lengths = given()
    q, lengths = (np.repeat(x, 16, axis=0) for x in (q, lengths))
    wide = np.broadcast_to(table[:1, :1], (len(q), 2**20))
    with pytest.raises(UsageError, match="at most 2147483647; divide the sequences among several calls"):
        lego_mlir.attention_paged(q, keys, values, wide, lengths, check=True)


@pytest.mark.parametrize("empty", ["pages", "table"])
def test_no_pages(empty):
    q, keys, values, table, lengths = given()
    keys, table = (keys[:0], table) if empty == "pages" else (keys, table[:, :0])
    q[0, 0] = np.nan
    assert not lego_mlir.attention_paged(q, keys, values[: len(keys)], table, lengths * 0).any()


def test_tensors_are_checked():
    torch = pytest.importorskip("torch")
    arrays = given()
    found = lego_mlir.attention_paged(*map(torch.from_numpy, arrays), scale=0.25, check=True)
    assert found.dtype == torch.float16
    np.testing.assert_allclose(found, expected(*arrays, 0.25), atol=4e-3)


def test_gradients_are_refused():
    torch = pytest.importorskip("torch")
    q, *rest = map(torch.from_numpy, given())
    with pytest.raises(UsageError, match=r"attention_paged: there are no gradients; .*, or pass tensor\.detach\(\)"):
        lego_mlir.attention_paged(q.requires_grad_(), *rest)


def test_arrays_of_two_libraries_are_refused(monkeypatch):
    OwnLibrary(monkeypatch)
    q, *rest = given()
    with pytest.raises(UsageError, match="q is an array of numpy, and keys of own; convert one of them"):
        lego_mlir.attention_paged(q, own(rest[0]), *rest[1:])


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize(("change", "words"), [
    ({"lengths": LENGTHS + 70}, r"lengths\[0\] = 770, and the kernel declares 0 <= lengths < 769"),
    ({"lengths": LENGTHS - 1}, r"lengths\[1\] = -1, "),
    ({"table": np.full((2, 12), PAGES, np.int32)}, r"table\[0, 0\] = 24, "),
    ({"table": np.full((2, 12), -1, np.int32)}, r"table\[0, 0\] = -1, "),
])  # fmt: skip
@pytest.mark.filterwarnings("ignore::lego_mlir.errors.ReferenceWarning")
def test_pages_and_lengths_are_checked_on_the_host(change, words, check):
    arrays = dict(zip(("q", "keys", "values", "table", "lengths"), given(), strict=True)) | change
    with pytest.raises(UsageError, match=words):
        lego_mlir.attention_paged(**arrays, check=check)


@pytest.mark.parametrize("scales", [None, (np.float32([0.5]), np.float32([3.0]))], ids=["f16", "f8"])
def test_launches_on_a_stand_in_for_a_gpu(monkeypatch, scales):
    """Each call is one launch, on a grid that does not depend on the lengths; the second finds the first's counters."""
    machine, (q, keys, values, *rest) = Machine().plug_in(monkeypatch), given()
    machine.set(multiprocessors=6)  # fewer blocks, of which several still have a part of a sequence
    if scales is not None:
        keys, values = (x.astype(ml_dtypes.float8_e4m3fn) for x in (keys, values))
    arrays, of_keys, of_values = (q, keys, values, *rest), *(scales or (1, 1))
    OwnLibrary(monkeypatch)
    monkeypatch.setattr(first_calls, "kernel_of", lambda call, make, *_: make())
    form = paged_attention_calls._form((*arrays, *(scales or ())), 0.25)
    kernel = paged_attention_calls._calls_of(form).kernel
    text = SimpleNamespace(sources=(kernel,), stage=lambda name: kernel.mlir())
    machine.kernels["paged_attention"] = lambda parameters, grid: run_launch(text, "paged_attention", parameters, grid)
    on_device, wide = [own(x) for x in arrays], (q, keys.astype(float) * of_keys, values.astype(float) * of_values)
    own_scales = scales and tuple(own(x) for x in scales)
    for lengths in (LENGTHS, np.array([650, 290], np.int32)):
        on_device[-1][...] = lengths
        found = lego_mlir.attention_paged(*on_device, scale=0.25, scales=own_scales)
        np.testing.assert_allclose(np.asarray(found), expected(*wide, rest[0], lengths, 0.25), atol=4e-3)
    first, second = (launch[:2] for launch in machine.launches)
    assert first == second and first[0] == "paged_attention"
    driver.driver.cache_clear()


@pytest.mark.parametrize(("change", "words"), [
    ({"q": drawn(2, 64)}, r"of \[2, 64\] float16"),
    ({"keys": drawn(PAGES, PAGE, 2, 64)}, "keys and values"),
    ({"table": np.zeros((2, 3))}, "table is .* of int32"),
    ({"lengths": LENGTHS[:1]}, r"lengths \[B\]"),
    ({"values": drawn(PAGES, PAGE, SHARED, 64).astype(np.float32)}, "all float16 or bfloat16"),
    ({"values": drawn(PAGES, PAGE, SHARED, 64).astype(ml_dtypes.float8_e4m3fn)}, "all float16 or bfloat16"),
    ({"scales": (np.float32([1]), np.float32([1]))}, r"float8_e4m3fn have scales"),
    (dict.fromkeys(("keys", "values"), drawn(PAGES, PAGE, SHARED, 64).astype(ml_dtypes.float8_e4m3fn)), "have scales"),
    ({"keys": np.asfortranarray(drawn(PAGES, PAGE, SHARED, 64))}, "keys have strides .* or pass a contiguous copy"),
    ({"q": None}, "q is an array of NumPy, PyTorch or CuPy, got NoneType"),
])  # fmt: skip
def test_arrays_that_are_refused(change, words):
    arrays = dict(zip(("q", "keys", "values", "table", "lengths"), given(), strict=True)) | change
    with pytest.raises(UsageError, match=words):
        lego_mlir.attention_paged(**arrays, check=True)
