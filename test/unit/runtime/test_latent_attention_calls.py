"""`lego_mlir.attention_latent` on arrays: in the interpreter and by NumPy, without a GPU, and what it refuses."""

from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest
from attention_oracle import of_pages
from cuda_stand_in import Machine, OwnLibrary, own
from product_device import run_launch

import lego_mlir
from lego_mlir.errors import UsageError
from lego_mlir.kernels.attention_forms import LATENT, TOKENS, WIDTH
from lego_mlir.runtime import driver, first_calls, latent_attention_calls
from lego_mlir.runtime.arrays import key_of

PAGES, LENGTHS = 10, np.array([300, 0], np.int32)  # several parts, and none
BF16 = ml_dtypes.bfloat16


def drawn(*shape, dtype=np.float16):
    return np.random.default_rng(len(shape)).normal(size=shape).astype(dtype)


def given(*queries, heads=16, dtype=np.float16):
    table = np.random.default_rng(0).permutation(PAGES).astype(np.int32).reshape(2, -1)
    return drawn(2, *queries, heads, WIDTH, dtype=dtype), drawn(PAGES, TOKENS, WIDTH, dtype=dtype), table, LENGTHS


def expected(q, cache, table, lengths, scale=192**-0.5):
    rows, keys = q.reshape(len(q), -1, *q.shape[-2:]), cache[:, :, None]
    return of_pages(rows, keys, keys[..., :LATENT], table, lengths, scale).reshape(*q.shape[:-1], LATENT)


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("queries", [(), (3,)])
@pytest.mark.filterwarnings("ignore::lego_mlir.errors.ReferenceWarning")
def test_pages_of_arrays(queries, check):
    arrays = given(*queries)
    found = lego_mlir.attention_latent(*arrays, scale=0.05, check=check)
    assert found.shape == (*arrays[0].shape[:-1], LATENT) and found.dtype == np.float16
    np.testing.assert_allclose(found, expected(*arrays, 0.05), atol=4e-3)


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.filterwarnings("ignore::lego_mlir.errors.ReferenceWarning")
def test_records_of_8_bits(check):
    q, _, *rest = given(dtype=BF16)
    latents = drawn(PAGES, TOKENS, LATENT, dtype=ml_dtypes.float8_e4m3fn)
    scales, rotary = drawn(PAGES, TOKENS, 4, dtype=np.float32), drawn(PAGES, TOKENS, 64, dtype=BF16)
    records = np.concatenate([x.view(np.uint8) for x in (latents, scales, rotary)], -1)
    wide = np.concatenate([latents.astype(float) * np.repeat(scales, 128, -1), rotary.astype(float)], -1)
    found = lego_mlir.attention_latent(q, records, *rest, check=check)
    np.testing.assert_allclose(found.astype(float), expected(q, wide, *rest), atol=3e-2)


@pytest.mark.parametrize(("records", "check"), [(False, False), (True, False), (False, True)])
@pytest.mark.filterwarnings("ignore::lego_mlir.errors.ReferenceWarning")
def test_tensors(records, check):
    torch = pytest.importorskip("torch")
    q, cache, table, lengths = given(dtype=BF16)
    tensors = [torch.from_numpy(x.view(np.int16)).view(torch.bfloat16) for x in (q, cache)]
    if records:
        tensors[1] = torch.zeros((PAGES, TOKENS, 656), dtype=torch.uint8)
        tensors[1][..., 528:] = torch.from_numpy(cache[..., LATENT:].copy().view(np.uint8))
        cache[..., :LATENT] = 0
    found = lego_mlir.attention_latent(*tensors, torch.from_numpy(table), torch.from_numpy(lengths), check=check)
    assert found.dtype == torch.bfloat16
    np.testing.assert_allclose(found.float().numpy(), expected(q, cache, table, lengths), atol=3e-2)


@pytest.mark.filterwarnings("ignore::lego_mlir.errors.ReferenceWarning")
def test_no_tokens_of_queries_that_are_no_numbers():
    q, *cache, lengths = given()
    assert not lego_mlir.attention_latent(q * np.float16(np.nan), *cache, lengths * 0).any()


def test_gradients_are_refused():
    torch = pytest.importorskip("torch")
    q, *rest = map(torch.from_numpy, given())
    with pytest.raises(UsageError, match=r"attention_latent: there are no gradients; .*, or pass tensor\.detach\(\)"):
        lego_mlir.attention_latent(q.requires_grad_(), *rest)


@pytest.mark.parametrize("empty", ["pages", "table"])
def test_no_pages(empty):
    q, cache, table, lengths = given()
    cache, table = (cache[:0], table) if empty == "pages" else (cache, table[:, :0])
    q[0, 0] = np.nan
    found = lego_mlir.attention_latent(q, cache, table, lengths * 0)
    assert found.shape == (2, 16, LATENT) and not found.any()


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize(("change", "words"), [
    ({"lengths": LENGTHS + 70}, r"lengths\[0\] = 370, "),
    ({"table": np.full((2, 5), PAGES, np.int32)}, r"table\[0, 0\] = 10, "),
])  # fmt: skip
@pytest.mark.filterwarnings("ignore::lego_mlir.errors.ReferenceWarning")
def test_pages_and_lengths_are_checked_on_the_host(change, words, check):
    arrays = dict(zip(("q", "cache", "table", "lengths"), given(), strict=True)) | change
    with pytest.raises(UsageError, match=words):
        lego_mlir.attention_latent(**arrays, check=check)


def test_launches_on_a_stand_in_for_a_gpu(monkeypatch):
    """A call launches both kernels, on grids that do not depend on the lengths."""
    machine, arrays = Machine().plug_in(monkeypatch), given()
    machine.set(multiprocessors=6)  # fewer blocks, of which each still has a part
    OwnLibrary(monkeypatch)
    monkeypatch.setattr(first_calls, "kernel_of", lambda call, make, *_: make())
    form = latent_attention_calls._form(arrays, None)
    for calls in latent_attention_calls._calls_of(form):
        name, text = calls.name, SimpleNamespace(sources=(calls.kernel,), stage=lambda _, k=calls.kernel: k.mlir())
        machine.kernels[name] = lambda parameters, grid, t=text, n=name: run_launch(t, n, parameters, grid)
    on_device = [own(x) for x in arrays]
    for lengths in (LENGTHS, np.array([250, 290], np.int32)):
        on_device[-1][...] = lengths
        found = lego_mlir.attention_latent(*on_device)
        np.testing.assert_allclose(np.asarray(found), expected(*arrays[:3], lengths), atol=4e-3)
    machine.kernels.clear()  # the same kernels again
    found = lego_mlir.attention_latent(own(arrays[0][:, None]), *on_device[1:])
    assert found.shape == (2, 1, 16, LATENT)
    launches = [launch[:2] for launch in machine.launches]
    assert [name for name, _ in launches[:2]] == ["latent_attention", "latent_parts"] and launches == 3 * launches[:2]
    assert launches[0][1] == (1, 6, 1)  # a block on each multiprocessor
    driver.driver.cache_clear()


@pytest.mark.parametrize(("change", "words"), [
    ({"q": drawn(2, 16, 512)}, r"of \[2, 16, 512\] float16"),
    ({"cache": drawn(PAGES, TOKENS, 512)}, r"the cache \[pages, 64, 576\]"),
    ({"cache": drawn(PAGES, TOKENS, WIDTH, dtype=np.float32)}, "of the same type"),
    ({"cache": np.zeros((PAGES, TOKENS, 656), np.uint8)}, "or for bfloat16"),
    ({"table": np.zeros((2, 3))}, "of int32"),
    ({"lengths": LENGTHS[:1]}, r"lengths \[B\]"),
    ({"cache": np.asfortranarray(drawn(PAGES, TOKENS, WIDTH))}, "cache has strides .* store it contiguously"),
    ({"scale": -1.0}, "the scale of scores is positive and finite, got -1.0"),
    ({"q": None}, "q is an array of NumPy, PyTorch or CuPy, got NoneType"),
])  # fmt: skip
def test_arrays_that_are_refused(change, words):
    arrays = dict(zip(("q", "cache", "table", "lengths"), given(), strict=True)) | change
    with pytest.raises(UsageError, match=words):
        lego_mlir.attention_latent(**arrays, check=True)


def test_a_known_call_is_launched_by_its_key(monkeypatch):
    """Its arrays are not described again, and a call of another scale is another one."""
    arrays, seen = given(3), []
    form, key = latent_attention_calls._form(arrays, None), (key_of(arrays), None, False)
    monkeypatch.setattr(latent_attention_calls, "_plans", {key: (form, lambda views, stream: seen.append(views))})
    monkeypatch.setattr(latent_attention_calls, "_form", lambda *_: pytest.fail("described again"))
    lego_mlir.attention_latent(*arrays)
    (views,) = seen
    assert [view.shape for view in views] == [(2, 48, WIDTH), *(x.shape for x in arrays[1:])]
    with pytest.raises(pytest.fail.Exception, match="described again"):
        lego_mlir.attention_latent(*arrays, scale=0.05)


def test_a_sum_of_lengths_is_a_number_of_32_bits():
    q, cache, table, lengths = given()
    q, table, lengths = (np.broadcast_to(x[:1], (64, *x.shape[1:])) for x in (q, table[:, :1], lengths))
    wide = np.broadcast_to(table, (64, 2**20))
    with pytest.raises(UsageError, match=r"attention_latent: .* at most 2147483647; divide the sequences"):
        lego_mlir.attention_latent(q, cache, wide, lengths, check=True)


def test_more_sequences_and_pages_than_a_kernel_takes_are_refused():
    q, cache, table, lengths = given()
    with pytest.raises(
        UsageError, match=r"^attention_latent: .* 1048576 pages of a sequence, got 67108864; pass fewer"
    ):
        lego_mlir.attention_latent(q, cache, np.broadcast_to(table[:, :1], (2, 2**26)), lengths, check=True)
    q, table, lengths = (np.broadcast_to(x[:1], (70000, *x.shape[1:])) for x in (q, table, lengths))
    with pytest.raises(UsageError, match=r"^attention_latent: .* 32768 sequences, got 70000; divide them"):
        lego_mlir.attention_latent(q, cache, table, lengths, check=True)
