"""Attention to latents in pages against NumPy, of sequences with no token, one, and many parts, in the emulator of PTX."""

import numpy as np
import pytest

from lego_mlir import f16
from lego_mlir.interp.ptx import PtxRun
from lego_mlir.kernels import latent_attention
from lego_mlir.kernels.latent_attention import LATENT, PAGE, WIDTH, LatentForm

LENGTHS = [0, 1, 450, 65]
FORMS = [LatentForm(16), LatentForm(40, 2, f16, 0.1), LatentForm(128)]


def expected(form, q, cache, table):
    """The results in f64."""
    o = np.zeros((*q.shape[:2], LATENT))
    for b, length in enumerate(LENGTHS):
        keys = cache[table[b]].astype(float).reshape(-1, WIDTH)
        for row in range(form.rows):
            end = length - form.queries + row // form.heads + 1
            if end > 0:
                s = keys[:end] @ q[b, row].astype(float) * form.scale
                weights = np.exp(s - s.max())
                o[b, row] = weights / weights.sum() @ keys[:end, :LATENT]
    return o


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_sequences_in_pages(form):
    random, blocks, batch = np.random.default_rng(0), len(LENGTHS) + 2, len(LENGTHS)
    most = -(-max(LENGTHS) // PAGE)
    pages, tiles, dtype = batch * most, -(-form.rows // PAGE), form.dtype.numpy
    q = random.normal(size=(batch, form.rows, WIDTH)).astype(dtype)
    cache = random.normal(size=(pages, PAGE, WIDTH)).astype(dtype)
    cache[:, :, ::7] *= np.linspace(0.1, 4, pages)[:, None, None].astype(dtype)  # maxima that grow
    table = random.permutation(pages).astype(np.int32).reshape(batch, most)
    wanted = expected(form, q, cache, table)
    cache[table[1, 0], 1:], cache[table[2, -1], 450 % PAGE :] = np.nan, np.nan  # what no sequence has reached yet
    o, spans = np.full((batch, form.rows, LATENT), 7, dtype), np.zeros((batch, 2), np.int32)
    sums = np.zeros((blocks, tiles, PAGE), np.float32)
    partial = np.zeros((*sums.shape, LATENT), np.float32)
    arrays = [q, cache, table, np.array(LENGTHS, np.int32), o, partial, sums, spans]
    attends, combines = latent_attention.build(form)
    given = {p.name: x.reshape(-1) for p, x in zip(attends.params, arrays, strict=True)}
    sizes = {"B": batch, "U": blocks, "P": pages, "MOST": most, "G": 5}
    for kernel in (attends, combines):
        of_kernel = {p.name: given[p.name] for p in kernel.params}
        report = PtxRun(target="sm_90a")(kernel, of_kernel, {size.name: sizes[size.name] for size in kernel.sizes})
        assert report.clean, [f"{fault.kind} at {fault.location}: {fault.message}" for fault in report.faults]
    assert np.abs(o - wanted).max() <= (2**-9 if dtype == np.float16 else 2**-6) * np.abs(wanted).max()
    assert spans[2, 1] > 1
