"""Attention and its gradients against NumPy: by wgmma in the emulator, by mma.sync in the interpreter."""

from functools import cache

import numpy as np
import pytest
from assembling import machine_code, needs_ptxas
from attention_oracle import attended
from attention_runs import run

from lego_mlir import bf16, f16
from lego_mlir.errors import UsageError
from lego_mlir.kernels import added_gradients, attention_gradients, fused_attention
from lego_mlir.kernels.added_gradients import AddedTile
from lego_mlir.kernels.attention_forms import AttentionForm, AttentionTile, HeadSizes, fastest
from lego_mlir.kernels.attention_gradients import GradientTile
from lego_mlir.toolchain import compile_kernel

SMALL, NARROW = AttentionTile(2, 64), GradientTile(64, 64, 4)
TOLERANCE = {f16: 2**-9, bf16: 2**-6}
FORMS = [
    (AttentionForm(causal=True), (1, 1, 150, 150)),
    (AttentionForm(causal=False, group=2), (2, 1, 70, 200)),
    (AttentionForm(causal=True, window=70, group=2), (1, 1, 200, 200)),
    (AttentionForm(features=128, dtype=bf16, causal=True), (1, 2, 65, 65)),
    (AttentionForm(causal=False), (1, 1, 1, 1)),
    (AttentionForm(features=96, causal=True), (1, 1, 90, 130)),
    (AttentionForm(features=192, dtype=bf16, causal=False), (1, 1, 70, 70)),
]


@cache
def forward(form, sizes=None, tile=SMALL, blocks=None):
    return fused_attention.build(form, tile, sizes, blocks)


def drawn(form, batch, heads, queries, keys, gain=1.0):
    """q, k, v, and the gradient of o: [batch, heads, rows, features] in memory of [batch, rows, heads, features]."""
    random = np.random.default_rng(queries)
    counts = (queries, heads * form.group), (keys, heads), (keys, heads), (queries, heads * form.group)
    counts = [(*n, m) for n, m in zip(counts, (form.features,) * 2 + (form.width,) * 2, strict=True)]
    scales = (gain, 1.0, 1.0, 1.0)
    return [
        (scale * random.normal(size=(batch, *n))).astype(form.dtype.numpy).swapaxes(1, 2)
        for n, scale in zip(counts, scales, strict=True)
    ]


def expected(form, q, k, v, do):
    """o, the log-sum-exps, and the gradients of q, k and v."""
    row, column = np.indices((q.shape[2], k.shape[2]))
    one = attended(q, k, v, form.allowed(row, column, k.shape[2]))
    return one.o, one.lse, *one.gradients(do)


def close(found, wanted, tolerance):
    assert np.abs(found.astype(np.float64) - wanted).max() <= tolerance * np.abs(wanted).max()


def attend(form, sizes, on, gain=1.0, constant=True, **options):
    q, k, v, do = drawn(form, *sizes, gain)
    o, lse = np.full_like(do, 7), np.full(q.shape[:3], 7, np.float32)
    arrays = {"q": q, "k": k, "v": v, "o": o, "lse": lse}
    run(
        forward(form, HeadSizes(*sizes) if constant and on != "interp" else None, **options),
        arrays,
        sizes,
        on,
    )
    wanted = expected(form, q, k, v, do)
    close(o, wanted[0], TOLERANCE[form.dtype])
    close(lse, wanted[1], 2**-10)


@pytest.mark.parametrize(("form", "sizes"), FORMS)
def test_forms_by_wgmma(form, sizes):
    attend(form, sizes, "sm_90a")


@pytest.mark.parametrize("blocks", [None, 2])
@pytest.mark.parametrize("form", [AttentionForm(192, bf16, True, values=128), AttentionForm(128, group=2, values=64)])
def test_values_of_fewer_features(form, blocks):
    attend(form, (1, 1, 150, 170), "sm_90a", blocks=blocks)


@pytest.mark.parametrize(("form", "sizes"), FORMS[:2])
def test_forms_in_the_interpreter(form, sizes):
    attend(form, sizes, "interp")


@pytest.mark.parametrize(("causal", "sizes"), [
    (True, (1, 2, 150, 150)), (True, (1, 1, 200, 70)), (False, (1, 1, 70, 100)),
])  # fmt: skip
def test_skipped_tiles_and_parts_by_length_in_the_interpreter(causal, sizes):
    tile = AttentionTile(2, 64, skips=True, sections=1)
    attend(AttentionForm(causal=causal), sizes, "interp", tile=tile, blocks=2)


@pytest.mark.parametrize("skips", [True, False])
def test_values_that_are_masked_for_all_rows_of_a_group_are_multiplied_only_without_skips(skips):
    form, rows = AttentionForm(causal=True), 64
    q, k, v, do = drawn(form, 1, 1, 2 * rows, 2 * rows)
    o, lse = np.full_like(q, 7), np.full(q.shape[:3], 7, np.float32)
    wanted = expected(form, q, k, v, do)[0]
    v[:, :, rows:] = np.nan
    arrays = {"q": q, "k": k, "v": v, "o": o, "lse": lse}
    run(forward(form, tile=AttentionTile(2, rows, skips=skips)), arrays, (1, 1, 2 * rows, 2 * rows), "interp")
    if skips:
        close(o[:, :, :rows], wanted[:, :, :rows], TOLERANCE[f16])
    else:
        assert np.isnan(o[:, :, :rows].astype(np.float32)).all()


@pytest.mark.parametrize(("form", "sizes", "options"), [
    (AttentionForm(causal=True), (2, 2, 100, 100), {"constant": False}), (*FORMS[1], {"gain": 60.0}),
], ids=["sizes of the launch", "maxima that grow"])  # fmt: skip
def test_sizes_and_values_by_wgmma(form, sizes, options):
    attend(form, sizes, "sm_90a", **options)


def test_scores_are_computed_again_by_single_warps():
    trace = fused_attention.build(AttentionForm(causal=False), SMALL).trace()
    covered = {number for product in trace.products for number in product.covered}
    products = [s.results[0].number for s in trace.statements() if getattr(s, "name", "") == "nvgpu.mma.sync"]
    alone = [number for number in products if number not in covered]
    assert len(alone) == 2 * 16  # 16 x 64 x 32 for tiles with and without a mask


@pytest.mark.parametrize(("form", "sizes", "options"), [
    (AttentionForm(causal=True), (2, 1, 200, 200), {"blocks": 3}),
    (AttentionForm(causal=True), (2, 1, 200, 200), {"blocks": 1}),
    (AttentionForm(causal=False, group=2), (2, 1, 200, 200), {"blocks": 3}),
    (AttentionForm(causal=False, group=2), (2, 1, 200, 200), {"blocks": 1}),
    (AttentionForm(causal=True, window=90), (1, 1, 260, 260), {"tile": AttentionTile(3, 64, 3, turns=True)}),
    (AttentionForm(causal=True, window=90), (1, 1, 260, 260),
     {"tile": AttentionTile(2, 64, 3, turns=True), "blocks": 3}),
    (AttentionForm(causal=True), (1, 2, 140, 140),
     {"tile": AttentionTile(2, 128, 4, turns=True), "blocks": 3, "constant": False}),
    (AttentionForm(causal=False), (1, 1, 260, 130), {"tile": AttentionTile(4, 64, 3)}),
    (AttentionForm(causal=True), (1, 1, 300, 260), {"tile": AttentionTile(4, 64, 4, skips=True)}),
    (AttentionForm(causal=True), (5, 1, 200, 200),
     {"tile": AttentionTile(2, 64, skips=True, sections=1), "blocks": 3, "gain": 60.0}),
], ids=["3 blocks", "1 block", "3 blocks of groups", "1 block of groups", "turns", "turns of 3 blocks",
        "causal turns of 3 blocks", "four groups", "four groups that skip tiles",
        "parts of 3 blocks by length"])  # fmt: skip
def test_tiles_and_blocks(form, sizes, options):
    attend(form, sizes, "sm_90a", **options)


def differentiate(form, sizes, on, kernels):
    """Run the kernels one after the other, and compare the gradients."""
    q, k, v, do = drawn(form, *sizes)
    o, lse, *wanted = expected(form, q, k, v, do)
    dq, dk, dv = (np.full_like(x, 7) for x in (q, k, v))
    arrays = {"q": q, "k": k, "v": v, "do": do, "dq": dq, "dk": dk, "dv": dv, "sums": np.full(q.shape, 7, np.float32)}
    arrays |= {"o": o.astype(q.dtype), "lse": lse.astype(np.float32), "delta": np.zeros(lse.shape, np.float32)}
    for kernel in kernels:
        run(kernel, arrays, sizes, on)
    for found, gradient in zip((dq, dk, dv), wanted, strict=True):
        close(found, gradient, TOLERANCE[form.dtype])


@pytest.mark.parametrize(("on", "form", "sizes"), [
    pytest.param("sm_90a", *FORMS[0], marks=pytest.mark.long),
    ("sm_90a", *FORMS[1]), ("sm_90a", *FORMS[2]), ("sm_90a", *FORMS[3]), ("interp", *FORMS[1]),
    ("sm_90a", *FORMS[5]), ("sm_90a", *FORMS[6]),
])  # fmt: skip
def test_gradients(on, form, sizes):
    kernels = attention_gradients.build(form, NARROW)
    differentiate(form, sizes, on, (kernels.deltas, *kernels.of_keys, kernels.of_queries))


@pytest.mark.parametrize(("on", "form", "sizes"), [
    pytest.param("sm_90a", *FORMS[0], marks=pytest.mark.long),
    ("sm_90a", *FORMS[2]), ("sm_90a", *FORMS[3]), ("interp", *FORMS[1]),
])  # fmt: skip
def test_added_gradients(on, form, sizes):
    kernels = added_gradients.build(form)
    differentiate(form, sizes, on, (kernels.prepare, kernels.main, kernels.round))


def test_added_gradients_that_are_refused():
    with pytest.raises(UsageError, match=r"heads of 64 or 128 features.*got 256 features"):
        added_gradients.build(AttentionForm(features=256))
    with pytest.raises(UsageError, match="2 parts of 64 x 64 in a tile of 64 queries, one for each group"):
        added_gradients.build(AttentionForm(), AddedTile(64))


def test_gradients_of_wide_heads_have_a_kernel_for_each():
    names = [kernel.name for kernel in attention_gradients.build(AttentionForm(features=256)).of_keys]
    assert names == ["attention_gradients_of_k", "attention_gradients_of_v"]


@pytest.mark.parametrize(("options", "words"), [
    ({"features": 80}, "heads of 64, 96, 128, 192, 256 features in f16 or bf16, got 80 in f16"),
    ({"window": 128}, "window=128 is a number of keys from 1 on, with causal=True"),
    ({"causal": True, "window": 0}, "window=0"),
    ({"group": 0}, "group=0 query heads share a head"),
])  # fmt: skip
def test_forms_that_are_refused(options, words):
    with pytest.raises(UsageError, match=words):
        AttentionForm(**options)


def test_tiles_that_are_refused():
    with pytest.raises(UsageError, match=r"groups that skip tiles have no turns; leave out turns or skips"):
        AttentionTile(turns=True, skips=True)


def test_windows_that_leave_queries_without_keys():
    form = AttentionForm(causal=True, window=30)
    words = "attention of 130 queries to 100 keys with window=30: the last 1 queries would attend to no key"
    with pytest.raises(UsageError, match=words):
        fused_attention.build(form, SMALL, HeadSizes(1, 1, 130, 100))
    q, k, v, _ = drawn(form, 1, 1, 130, 100)
    with pytest.raises(UsageError, match=r"requires M - 30 < N, which fails for .*M = 130, .*N = 100"):
        forward(form)(q, k, v, check=True)


def spilled_stores(kernel):
    """Of a kernel whose products are not serialized."""
    return machine_code(compile_kernel(kernel, target="sm_90a").text).spill_stores


@needs_ptxas
@pytest.mark.parametrize(("features", "causal", "length", "spilled"), [
    (64, True, 4096, 80), (64, False, 4096, 64), (64, False, 16384, 0),
    (96, True, 16384, 24), (128, True, 16384, 0), (256, True, 4096, 0), (256, True, 16384, 0),
])  # fmt: skip
def test_the_fastest_tiles_keep_all_but_a_few_addresses_in_registers(features, causal, length, spilled):
    form = AttentionForm(features, causal=causal)
    tile, blocks = fastest(form, HeadSizes(1, 128, length, length), 132)
    assert spilled_stores(fused_attention.build(form, tile, blocks=blocks)) <= spilled


def in_blocks(blocks):
    return lambda form: [fused_attention.build(form, sizes=HeadSizes(1, 16, 4096, 4096), blocks=blocks)]


PARTS = {
    "blocks for all": in_blocks(None),
    "132 blocks": in_blocks(132),
    "of keys": lambda form: attention_gradients.build(form).of_keys,
    "of queries": lambda form: [attention_gradients.build(form).of_queries],
    "added": lambda form: [added_gradients.build(form).main],
}
OF_ALL = ("of keys", "of queries")


@needs_ptxas
@pytest.mark.parametrize(("features", "part"), [
    *((128, part) for part in ("132 blocks", "added", *OF_ALL)),
    *((64, part) for part in ("blocks for all", "132 blocks", *OF_ALL)),
    *((features, part) for features in (192, 256, 96) for part in ("blocks for all", *OF_ALL)),
])  # fmt: skip
def test_the_machine_code_serializes_nothing(features, part):
    # 96 has three groups of 64 rows; two have registers for all, and take 1.1 of the time
    spilled = 12 if features == 96 else 0
    for kernel in PARTS[part](AttentionForm(features=features, causal=True)):
        assert spilled_stores(kernel) <= spilled


@needs_ptxas
def test_added_gradients_of_64_features_serialize_nothing():
    """In every push: with a few registers more their products wait for each other, and take 1.2 of the time."""
    (main,) = PARTS["added"](AttentionForm(features=64, causal=True))
    assert spilled_stores(main) == 0
