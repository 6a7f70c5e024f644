"""Attention of f8e4m3fn with scales against NumPy: by wgmma in the emulator, by mma.sync in the interpreter.

The weights of a row are rounded to f8e4m3fn: by 2^-4 of themselves, or 2^-10 where they are subnormal. Their sum is
2^LEVEL at least (2^HEAD after a tile whose weights were infinite), so that the result differs by
2^-4 sum p |v| / sum p + 2^-(10 + LEVEL) sum |v|, and its own rounding.
"""

from functools import cache

import numpy as np
import pytest
from assembling import machine_code, needs_ptxas
from attention_oracle import attended
from attention_runs import run

import lego_mlir as lego
from lego_mlir import Row, bf16, f8e4m3fn, f16, f32, gallery
from lego_mlir.errors import UsageError
from lego_mlir.interp.traced_kernels import run_kernel
from lego_mlir.kernels import fused_attention
from lego_mlir.kernels.attention_forms import AttentionForm, AttentionTile, default_tile
from lego_mlir.kernels.attention_tiles import CopiedValues
from lego_mlir.toolchain import compile_kernel

ROUNDING = {f16: 2.0**-11, bf16: 2.0**-8}


def narrow(features=64, result=bf16, **options):
    return AttentionForm(features, f8e4m3fn, result=result, **options)


@cache
def forward(form, tile=None, blocks=None):
    return fused_attention.build(form, tile, blocks=blocks)


def drawn(form, batch, heads, queries, keys, gain=1.0):
    """q, k, v in memory of [batch, rows, heads, features], and their scales."""
    random = np.random.default_rng(queries)
    counts = (queries, heads * form.group), (keys, heads), (keys, heads)
    given = [
        (scale * random.normal(size=(batch, *n, form.features))).astype(f8e4m3fn.numpy).swapaxes(1, 2)
        for n, scale in zip(counts, (gain, 1.0, 1.0), strict=True)
    ]
    return given, [random.uniform(0.5, 2, size=n).astype(np.float32) for _, n in counts]


def expected(form, given, scales):
    """o, the log-sum-exps, and how far o may be off."""
    q, k, v = (x.astype(np.float64) * s[:, None, None] for x, s in zip(given, scales, strict=True))
    row, column = np.indices((q.shape[2], k.shape[2]))
    seen = form.allowed(row, column, k.shape[2])
    one = attended(q, k, v, seen, form.factor)
    sizes = np.abs(one.v)
    small = 2.0 ** -(10 + fused_attention.LEVEL) * (seen @ sizes)
    return one.o, one.lse, 2.0**-4 * (one.weights @ sizes) + small + ROUNDING[form.result] * np.abs(one.o)


def attend(form, sizes, on, gain=1.0, order=None, one=False, **options):
    given, scales = drawn(form, *sizes, gain)
    if order is not None:
        given[1] = given[1][:, :, order(given[1])]
    if one:
        scales = [s[:1] for s in scales]
    o = np.zeros(given[0].shape, np.float32).astype(form.result.numpy)
    arrays = dict(zip(("q", "k", "v", "scale_q", "scale_k", "scale_v"), (*given, *scales), strict=True))
    arrays |= {"o": o, "lse": np.full(o.shape[:3], 7, np.float32)}
    run(forward(form, **options), arrays, (*sizes, len(scales[0]), len(scales[1])), on)
    wanted, lse, error = expected(form, given, scales)
    assert (np.abs(o.astype(np.float64) - wanted) <= 1.01 * error).all()
    assert np.abs(arrays["lse"] - lse).max() <= 2.0**-10 * max(1.0, np.abs(lse).max())


def growing(k):
    """Keys from small to large: scores grow, and maxima with them."""
    return np.argsort(np.abs(k.astype(np.float32)).sum((0, 1, 3)))


@pytest.mark.parametrize(("form", "sizes", "options"), [
    (narrow(causal=True, result=f16), (1, 1, 150, 150), {"blocks": 2}),
    (narrow(128, group=2), (2, 1, 70, 200), {"blocks": 3, "one": True}),
    (narrow(256, causal=True), (1, 1, 70, 130), {}),
    (narrow(256, causal=True), (1, 2, 129, 150), {"blocks": 3}),
    (narrow(128, causal=True, window=70), (1, 1, 140, 140), {}),
    (narrow(), (1, 1, 1, 1), {}),
    (narrow(128), (1, 1, 65, 300), {"gain": 8.0, "order": growing}),
    (narrow(), (1, 1, 65, 300), {"gain": 60.0, "order": growing}),
    (narrow(scale=1e-3), (1, 1, 64, 300), {}),
], ids=["causal", "groups", "256", "256 in parts", "window", "one", "maxima that grow",
        "infinite weights", "even weights"])  # fmt: skip
def test_forms_by_wgmma(form, sizes, options):
    attend(form, sizes, "sm_90a", **options)


@pytest.mark.parametrize(("on", "form", "sizes", "options"), [
    ("interp", narrow(128, causal=True, result=f16), (1, 1, 70, 150), {"blocks": 2}),
    ("interp", narrow(group=2), (1, 1, 65, 200), {"gain": 8.0, "order": growing}),
    ("sm_80", narrow(), (1, 1, 65, 130), {}),
])  # fmt: skip
def test_forms_by_mma_sync(on, form, sizes, options):
    attend(form, sizes, on, **options)


def test_many_small_weights_beside_a_large_one_are_not_lost():
    """A first key whose weight is a third of all: its neighbours' weights are 2^-10 of it."""
    form, keys = narrow(), 2048
    random = np.random.default_rng(0)
    q, k = np.zeros((1, 1, 64, 64)), np.zeros((1, 1, keys, 64))
    q[..., 0], k[:, :, 0, 0] = 8.0, 8.0  # 64 / 8 = 8 = log(2981)
    given = [x.astype(f8e4m3fn.numpy) for x in (q, k, random.normal(size=k.shape) + 1)]
    scales = [np.ones(1, np.float32)] * 3
    o, lse = np.zeros(q.shape, np.float32).astype(form.result.numpy), np.zeros((1, 1, 64), np.float32)
    arrays = dict(zip(("q", "k", "v", "scale_q", "scale_k", "scale_v"), (*given, *scales), strict=True))
    run(forward(form), arrays | {"o": o, "lse": lse}, (1, 1, 64, keys, 1, 1), "sm_90a")
    wanted, _, _ = expected(form, given, scales)
    assert np.abs(o.astype(np.float64) - wanted).max() < 2.0**-4 * np.abs(wanted).max()


@pytest.mark.parametrize(("features", "keys"), [(64, 128), (64, 64), (128, 64), (128, 128), (256, 64)])
def test_values_are_transposed_in_the_order_of_words(features, keys):
    form, tile = narrow(features), AttentionTile(1, keys, 1)

    @lego.kernel(grid=1, block=128)
    def transposed(v: lego.Tensor(f8e4m3fn, Row(keys, features)), rows: lego.Tensor(f8e4m3fn, Row(features, keys))):
        copied = CopiedValues(form, tile)
        target = lego.shared(f8e4m3fn, gallery.xor_swizzle(features, keys, 16, 1, keys // 16), "target")
        with lego.warps(0, 4):
            copied.copy(v, 0, (0, 0))
            copied.transpose(target.part((0, 0), (features, keys)), 0)
        lego.barrier()
        for i in lego.range(lego.thread_id.x, features * keys, 128):
            rows[i // keys, i % keys] = target[i // keys, i % keys]

    v = np.arange(keys * features).astype(np.uint8) % 120
    rows = np.zeros_like(v)
    report = run_kernel(transposed, {"v": v.view(f8e4m3fn.numpy), "rows": rows.view(f8e4m3fn.numpy)}, {})
    assert report.clean, report.faults
    places = np.arange(keys)
    half, lane, pair, one = places // 16, places // 4 % 4, places // 2 % 2, places % 2
    np.testing.assert_array_equal(
        rows.reshape(features, keys), v.reshape(keys, features)[16 * half + 8 * pair + 2 * lane + one].T
    )


@needs_ptxas
@pytest.mark.parametrize(("features", "spilled"), [(128, 0), (64, 72), (256, 64)])
def test_the_machine_code_keeps_all_but_a_few_addresses_in_registers(features, spilled):
    form = narrow(features)
    text = compile_kernel(fused_attention.build(form, default_tile(form), blocks=132), target="sm_90a").text
    assert machine_code(text).spill_stores <= spilled


@pytest.mark.parametrize(("options", "words"), [
    ({"features": 96}, "heads of 64, 128, 256 features in f8e4m3fn, with a result in f16 or bf16, got 96 and bf16"),
    ({"result": None}, "with a result in f16 or bf16, got 64 and None"),
    ({"result": f32}, "got 64 and f32"),
])  # fmt: skip
def test_forms_that_are_refused(options, words):
    with pytest.raises(UsageError, match=words):
        narrow(**options)


def test_results_of_other_types_are_refused():
    with pytest.raises(UsageError, match="got 64 in f16 with a result in bf16"):
        AttentionForm(result=bf16)
