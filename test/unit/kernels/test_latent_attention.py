"""Attention to latents in pages against NumPy, of sequences of no token, one, and many parts, in the PTX emulator."""

import numpy as np
import pytest
from attention_oracle import of_pages

from lego_mlir import f8e4m3fn, f16
from lego_mlir.interp.ptx import PtxRun
from lego_mlir.kernels import latent_attention
from lego_mlir.kernels.attention_forms import LATENT, RECORD, TOKENS, WIDTH, LatentForm

LENGTHS = [0, 1, 450, 65]
FORMS = [LatentForm(16), LatentForm(40, 2, f16, 0.1), LatentForm(128), LatentForm(20, 3, cache=f8e4m3fn)]


def expected(form, q, cache, table):
    rows, keys = q.reshape(len(q), form.queries, form.heads, WIDTH), cache[:, :, None]
    return of_pages(rows, keys, keys[..., :LATENT], table, LENGTHS, form.scale).reshape(*q.shape[:2], LATENT)


def of_records(records, form):
    """Latents, scales and rotary parts of records of 656 bytes, as views."""
    parts = (512, form.cache.numpy), (528, np.float32), (RECORD, form.dtype.numpy)
    begins = (0, *(end for end, _ in parts))
    return [records[..., begin:end].view(dtype) for begin, (end, dtype) in zip(begins, parts, strict=False)]


def memory_of(x):
    """The elements from the first to the last and those between: of parts of records a copy, as they overlap."""
    if x.flags.c_contiguous:
        return x.reshape(-1)
    span = 1 + sum((n - 1) * step for n, step in zip(x.shape, x.strides, strict=True)) // x.itemsize
    return np.lib.stride_tricks.as_strided(x, (span,), (x.itemsize,)).copy()


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_sequences_in_pages(form):
    random, blocks, batch = np.random.default_rng(0), len(LENGTHS) + 2, len(LENGTHS)
    most = -(-max(LENGTHS) // TOKENS)
    pages, tiles, dtype = batch * most, -(-form.rows // TOKENS), form.dtype.numpy
    q = random.normal(size=(batch, form.rows, WIDTH)).astype(dtype)
    cache = random.normal(size=(pages, TOKENS, WIDTH)).astype(dtype)
    cache[:, :, ::7] *= np.linspace(0.1, 4, pages)[:, None, None].astype(dtype)  # maxima that grow
    table = random.permutation(pages).astype(np.int32).reshape(batch, most)
    stored = [cache]
    if form.cache:
        records = np.zeros((pages, TOKENS, RECORD), np.uint8)
        latents, scales, rotary = of_records(records, form)
        latents[...], rotary[...] = cache[..., :LATENT], cache[..., LATENT:]
        scales[...] = random.uniform(0.5, 2, scales.shape)
        cache = np.concatenate([latents * np.repeat(scales, 128, -1), rotary], -1).astype(dtype)
        stored = [latents, scales, rotary]
    wanted = expected(form, q, cache, table)
    for x in stored:
        x[table[1, 0], 1:], x[table[2, -1], 450 % TOKENS :] = np.nan, np.nan  # what no sequence has reached yet
    o, spans = np.full((batch, form.rows, LATENT), 7, dtype), np.zeros((batch, 2), np.int32)
    sums = np.zeros((blocks, tiles, TOKENS), np.float32)
    partial = np.zeros((*sums.shape, LATENT), np.float32)
    arrays = [q, *stored, table, np.array(LENGTHS, np.int32), o, partial, sums, spans]
    attends, combines = latent_attention.build(form)
    given = {p.name: memory_of(x) for p, x in zip(attends.params, arrays, strict=True)}
    sizes = {"B": batch, "U": blocks, "P": pages, "MOST": most, "G": 5}
    for kernel in (attends, combines):
        of_kernel = {p.name: given[p.name] for p in kernel.params}
        report = PtxRun(target="sm_90a")(kernel, of_kernel, {size.name: sizes[size.name] for size in kernel.sizes})
        assert report.clean, [f"{fault.kind} at {fault.location}: {fault.message}" for fault in report.faults]
    assert np.abs(o - wanted).max() <= (2**-9 if dtype == np.float16 else 2**-6) * np.abs(wanted).max()
    assert spans[:, 1].tolist() == [1, 1, 2, 1]
