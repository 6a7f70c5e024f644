"""Gradients of attention with a score of the user, against NumPy in f64 with derivatives by hand."""

import numpy as np
import pytest
from attention_oracle import attended
from attention_runs import run

import lego_mlir as lego
from lego_mlir import f16, f32
from lego_mlir.kernels import added_gradients, attention_gradients
from lego_mlir.kernels.attention_forms import AttentionForm
from lego_mlir.kernels.attention_gradients import GradientTile
from lego_mlir.kernels.pair_rules import PairRule, PairRules, ReadArray

SIZES, TOLERANCE = (1, 1, 100, 70), 2**-8
SLOPES = np.array([0.5, 0.125], np.float32)
BIASES = np.random.default_rng(1).normal(size=2 * max(SIZES)).astype(np.float32)
CAP = 2.0
RULES = {
    "soft cap": (
        lambda s, batch, head, i, j: CAP * lego.tanh(s / CAP),
        lambda s, h, i, j: (CAP * np.tanh(s / CAP), 1 - np.tanh(s / CAP) ** 2), {}),
    "alibi": (
        lambda s, batch, head, i, j, slopes: s + slopes[head] * lego.f32(j - i),
        lambda s, h, i, j: (s + SLOPES[h] * (j - i), np.ones_like(s)), {"slopes": SLOPES}),
    "relative biases of a square": (
        lambda s, batch, head, i, j, biases: s * s + biases[i - j + 70],
        lambda s, h, i, j: (s * s + BIASES[np.clip(i - j + 70, 0, len(BIASES) - 1)], 2 * s), {"biases": BIASES}),
    "a root, whose slope is infinite where there is no key": (
        lambda s, batch, head, i, j: lego.where(s < 0.0, -lego.sqrt(-s), lego.sqrt(s)),
        lambda s, h, i, j: (np.sign(s) * np.sqrt(abs(s)), 0.5 / np.sqrt(abs(s))), {}),
    "minus infinity": (
        lambda s, batch, head, i, j: lego.where(j == 3, s - np.inf, s),
        lambda s, h, i, j: (np.where(j == 3, -np.inf, s), np.ones_like(s)), {}),
}  # fmt: skip


def form_of(name, **options):
    score, _, reads = RULES[name]
    arrays = tuple(ReadArray(name, f32, x.ndim) for name, x in reads.items())
    return AttentionForm(group=2, pairs=PairRules(None, PairRule.of("score", score, tuple(reads)), arrays), **options)


def drawn():
    random, (batch, heads, queries, keys) = np.random.default_rng(0), SIZES
    counts = (2 * heads, queries), (heads, keys), (heads, keys), (2 * heads, queries)
    return [random.normal(size=(batch, *n, 64)).astype(np.float16) for n in counts]


def expected(form, oracle, q, k, v, do):
    """o, the log-sum-exps, and the gradients of q, k and v."""
    _, h, i, j = np.indices((*q.shape[:3], k.shape[2]))
    one = attended(q, k, v, j <= i if form.causal else True, score=lambda s: oracle(s, h, i, j))
    return one.o, one.lse, *one.gradients(do)


def kernels_of(form, way):
    if way == "ordered":
        found = attention_gradients.build(form, GradientTile(64, 64, 4))
        return [found.deltas, *found.of_keys, found.of_queries]
    found = added_gradients.build(form)
    return [found.prepare, found.main, found.round]


@pytest.mark.parametrize(("way", "on", "name", "causal"), [
    ("ordered", "interp", "soft cap", False),
    ("ordered", "interp", "a root, whose slope is infinite where there is no key", True),
    ("added", "sm_90a", "relative biases of a square", True),
    ("ordered", "sm_90a", "alibi", False),
    ("added", "sm_90a", "a root, whose slope is infinite where there is no key", False),
    ("added", "interp", "minus infinity", False),
])  # fmt: skip
def test_gradients(way, on, name, causal):
    form, (_, oracle, reads) = form_of(name, causal=causal), RULES[name]
    q, k, v, do = drawn()
    o, lse, *wanted = expected(form, oracle, q, k, v, do)
    dq, dk, dv = (np.full_like(x, 7) for x in (q, k, v))
    arrays = {"q": q, "k": k, "v": v, "do": do, "dq": dq, "dk": dk, "dv": dv, "sums": np.full(q.shape, 7, np.float32)}
    arrays |= {"o": o.astype(f16.numpy), "lse": lse.astype(np.float32), "delta": np.zeros(lse.shape, np.float32)}
    for kernel in kernels_of(form, way):
        run(kernel, arrays | reads, SIZES, on)
    for found, gradient in zip((dq, dk, dv), wanted, strict=True):
        assert np.abs(found.astype(np.float64) - gradient).max() <= TOLERANCE * np.abs(gradient).max()
