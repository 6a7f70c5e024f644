"""Attention to pages against NumPy, of sequences with no key, one, and many parts, in the emulator of PTX."""

import numpy as np
import pytest
from assembling import assemble, needs_ptxas
from attention_oracle import of_pages

from lego_mlir import bf16, f8e4m3fn
from lego_mlir.interp.ptx import PtxRun
from lego_mlir.kernels import paged_attention
from lego_mlir.kernels.attention_forms import PAGED_ROWS, PagedForm
from lego_mlir.toolchain import compile_kernel

LENGTHS = [0, 1, 700, 37]
FORMS = [
    PagedForm(64, group=5, page=1),
    PagedForm(128, bf16, group=16, page=64),
    PagedForm(96, group=3, queries=7, page=4),
    PagedForm(256, queries=2, page=16, scale=0.1),
    PagedForm(64, queries=2, page=3, cache=f8e4m3fn),
    PagedForm(128, bf16, group=9, queries=2, page=16, scale=0.1, cache=f8e4m3fn),
]


def expected(form, q, keys, values, table):
    given = (x.swapaxes(1, 2) for x in (q, keys, values))
    return of_pages(*given, table, LENGTHS, form.scale or form.features**-0.5).swapaxes(1, 2)


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_sequences_in_pages(form):
    random, shared, blocks = np.random.default_rng(0), 2, len(LENGTHS) + 5
    most = -(-max(LENGTHS) // form.page)
    pages, batch, features, dtype = len(LENGTHS) * most, len(LENGTHS), form.features, form.dtype.numpy
    q = random.normal(size=(batch, shared * form.group, form.queries, features)).astype(dtype)
    keys, values = random.normal(size=(2, pages, shared, form.page, features)).astype(form.stored.numpy)
    table = random.permutation(pages).astype(np.int32).reshape(batch, most)
    scales = np.float32([[0.5, 1.25], [2.0, 0.75]])[: 2 if form.cache else 0, : 2 if form.group > 1 else 1]
    of_keys, of_values = (x.astype(float)[:, None, None] for x in scales) if form.cache else (1, 1)
    wanted = expected(form, q, keys.astype(float) * of_keys, values.astype(float) * of_values, table)
    keys[table[1], :, 1:], values[table[1, 1:]] = np.nan, np.nan  # what no sequence has reached yet
    heads = shared * -(-form.queries * form.group // PAGED_ROWS)
    sums = np.zeros((blocks, heads, form.rows), np.float32)
    counters, o = np.zeros((batch, heads), np.int32), np.full_like(q, 7)
    partial = np.zeros((*sums.shape, features), np.float32)
    arrays = [q, keys, values, table, np.array(LENGTHS, np.int32), *scales, o, partial, sums, counters]
    sizes = {"B": batch, "H": shared, "U": blocks, "P": pages, "MOST": most, "S": scales.shape[1]}
    for name, x in (("q", q), ("o", o), ("k", keys), ("v", values)):
        steps = (step // x.itemsize for step in x.strides)
        sizes |= {f"{name}_{axis}": step for axis, step in zip(("batch", "head", "row"), steps, strict=False)}
    kernel = paged_attention.build(form)
    given = {p.name: x.reshape(-1) for p, x in zip(kernel.params, arrays, strict=True)}
    for _ in range(2):  # the second launch finds the counters of the first
        report = PtxRun(target="sm_90a")(kernel, given, {size.name: sizes[size.name] for size in kernel.sizes})
        assert report.clean, [f"{fault.kind} at {fault.location}: {fault.message}" for fault in report.faults]
        assert np.abs(o - wanted).max() <= (2**-6 if form.dtype == bf16 else 2**-9) * np.abs(wanted).max()
        assert not counters.any()
        o[...] = 7


TWO_BLOCKS = [PagedForm(128, group=8), PagedForm(128, group=8, page=1), PagedForm(128, bf16, 8, cache=f8e4m3fn)]


@needs_ptxas
@pytest.mark.parametrize("form", TWO_BLOCKS, ids=str)
def test_two_blocks_fit_a_multiprocessor(form):
    made = compile_kernel((paged_attention.build(form),), target="sm_90a")
    (resources,), (facts,) = assemble(made.text, "sm_90a"), made.kernels
    assert resources.spill_stores == 0
    assert 2 * (facts.static_shared + facts.dynamic_shared + 1024) <= 228 * 1024  # CUDA C++ guide, sm_90
