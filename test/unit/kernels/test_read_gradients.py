"""Gradients of arrays that a user's score reads, against differences of NumPy's attention in f64.

The scores are drawn: a tree of operations is a function in the kernel language and one of NumPy arrays. The oracle has
no derivatives: it computes the loss, the sum of do o, with each element of an array a little more and a little less.
"""

import numpy as np
import pytest
from attention_runs import run

import lego_mlir as lego
from lego_mlir import f16, f32
from lego_mlir.kernels import added_gradients, attention_gradients, score_gradients
from lego_mlir.kernels.attention_forms import AttentionForm
from lego_mlir.kernels.attention_gradients import GradientTile
from lego_mlir.kernels.pair_rules import GRADIENT_OF, SUMS_OF, PairRule, PairRules, ReadArray

GROUP, STEP, TOLERANCE = 2, 2.0**-12, 2**-8
SIZES = {"short": (1, 1, 40, 70), "ragged": (2, 1, 70, 40)}


def functions(m):
    """The functions of a tree, of floats, in the kernel language or of NumPy."""
    is_lego = m is lego
    return {
        "add": lambda a, b: a + b,
        "sub": lambda a, b: a - b,
        "mul": lambda a, b: a * b,
        "tanh": m.tanh,
        "cap": lambda a: 2.0 * m.tanh(a / 2.0),
        "bell": lambda a: 1.0 / (a * a + 1.0),
        "larger": m.maximum,
        "before": lambda a, b, i, j: m.where(i < j, a, b),
        "number": (lambda x: f32(x)) if is_lego else (lambda x: np.asarray(x, np.float64)),
    }


INDICES = {
    "head": (1, lambda b, h, i, j, n: (h,)),
    "head, relative": (2, lambda b, h, i, j, n: (h, i - j + n // 2)),
    "query": (1, lambda b, h, i, j, n: (i,)),
    "head, key": (2, lambda b, h, i, j, n: (h, j)),
    "batch, key": (2, lambda b, h, i, j, n: (b, j)),
    "all": (4, lambda b, h, i, j, n: (b, h, i, j)),
    "one": (1, lambda b, h, i, j, n: (1,)),
    "buckets": (2, lambda b, h, i, j, n: ((i + j) // 16, h)),
}  # fmt: skip


def drawn_tree(random, names, depth=2):
    """A tree that reads each array at least once."""

    def node(depth):
        if depth == 0:
            return str(random.choice(["s", "s", "s", *[f"read {name}" for name in names]]))
        kind = str(random.choice(["add", "sub", "mul", "tanh", "cap", "bell", "larger", "before"]))
        return (kind, *[node(depth - 1) for _ in range(1 if kind in ("tanh", "cap", "bell") else 2)])

    tree = ("add", "s", ("cap", node(depth)))
    for name in names:
        tree = ("add", tree, ("tanh", ("mul", f"read {name}", node(0))))
    return tree


def value(tree, f, s, place, reads):
    """The value of a tree at a place (batch, head, i, j)."""
    if tree == "s":
        return s
    if isinstance(tree, str):
        return reads(tree.removeprefix("read "), *place)
    kind, *parts = tree
    found = [value(part, f, s, place, reads) for part in parts]
    return f[kind](*found, *(place[2:] if kind == "before" else ()))


class Score:
    """A drawn score: as a function in the kernel language, and of NumPy arrays."""

    def __init__(self, seed, sizes, kinds, types):
        random = np.random.default_rng(seed)
        batch, heads, queries, keys = sizes
        self.length = queries + keys
        self.kinds = dict(zip("abcd", kinds, strict=False))
        self.tree = drawn_tree(random, list(self.kinds))
        shapes = {
            "head": (heads * GROUP,), "head, relative": (heads * GROUP, self.length - 20), "query": (queries - 7,),
            "head, key": (heads * GROUP, keys), "batch, key": (batch, keys - 3), "one": (3,),
            "all": (batch, heads * GROUP, queries, keys), "buckets": (self.length // 16, heads * GROUP),
        }  # fmt: skip
        self.arrays = {name: random.normal(size=shapes[kind]).astype(dtype.numpy)
                       for (name, kind), dtype in zip(self.kinds.items(), types, strict=False)}  # fmt: skip
        self.types = dict(zip(self.kinds, types, strict=False))

    def rule(self):
        """The rule, whose parameters are the arrays."""
        names, f = tuple(self.kinds), self.in_kernel
        function = {
            1: lambda s, batch, head, i, j, a: f(s, (batch, head, i, j), {"a": a}),
            2: lambda s, batch, head, i, j, a, b: f(s, (batch, head, i, j), {"a": a, "b": b}),
            3: lambda s, batch, head, i, j, a, b, c: f(s, (batch, head, i, j), {"a": a, "b": b, "c": c}),
            4: lambda s, batch, head, i, j, a, b, c, d: f(s, (batch, head, i, j), {"a": a, "b": b, "c": c, "d": d}),
        }[len(names)]
        return PairRule.of("score", function, names)

    def in_kernel(self, s, place, arrays):
        f = functions(lego)

        def read(name, *place):
            _, index = INDICES[self.kinds[name]]
            at = index(*place, self.length)
            return f["number"](arrays[name][at if len(at) > 1 else at[0]])

        return value(self.tree, f, s, place, read)

    def of_numpy(self, s, place, arrays):
        def read(name, *place):
            _, index = INDICES[self.kinds[name]]
            at = index(*place, self.length)
            clamped = [np.clip(x, 0, n - 1) for x, n in zip(at, arrays[name].shape, strict=True)]
            return arrays[name][tuple(np.broadcast_to(x, s.shape) for x in clamped)]

        return value(self.tree, functions(np), s, place, read)


def attention(score, form, q, k, v, arrays):
    """o and the log-sum-exps in base 2, in f64."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    k, v = (np.repeat(x, GROUP, axis=1) for x in (k, v))
    b, h, i, j = np.indices((*q.shape[:3], k.shape[2]))
    s = score.of_numpy(q @ k.mT / 8, (b, h, i, j), arrays)
    s = np.where(j <= i, s, -np.inf) if form.causal else s
    p = np.exp(s - s.max(-1, keepdims=True))
    total = p.sum(-1, keepdims=True)
    return p / total @ v, (s.max(-1) + np.log(total[..., 0])) * np.log2(np.e)


def differences(score, form, given, do, name, count=60):
    """Places of an array, and the differences of the loss there."""
    arrays = {n: x.astype(np.float64) for n, x in score.arrays.items()}
    places = np.random.default_rng(0).permutation(arrays[name].size)[:count]
    found = []
    for place in places:
        losses = []
        for step in (STEP, -STEP):
            moved = arrays[name].copy()
            moved.flat[place] += step
            losses.append((attention(score, form, *given, arrays | {name: moved})[0] * do).sum())
        found.append((losses[0] - losses[1]) / (2 * STEP))
    return places, np.array(found)


def kernels_of(form, way):
    rules, names = form.rules, form.rules.learned
    if way == "ordered":
        made = attention_gradients.build(form, GradientTile(64, 64, 4))
        main = [made.deltas, *made.of_keys, made.of_queries]
    else:
        made = added_gradients.build(form)
        main = [made.prepare, made.main, made.round]
    before, after = ([build(rules, name) for name in names]
                     for build in (score_gradients.build_clear, score_gradients.build_round))  # fmt: skip
    return [*before, *main, *after]


@pytest.mark.parametrize(
    ("seed", "way", "on", "size", "causal", "kinds"),
    [
        (0, "ordered", "interp", "short", False, ["head", "all"]),
        (1, "ordered", "sm_90a", "short", True, ["head, relative", "head, key"]),
        (2, "added", "sm_90a", "short", True, ["query", "one", "head, relative"]),
        (3, "added", "interp", "ragged", False, ["buckets", "batch, key"]),
    ],
)
def test_random_scores(seed, way, on, size, causal, kinds):
    sizes = SIZES[size]
    score = Score(seed, sizes, kinds, [f32, f16, f32, f16])
    arrays = tuple(ReadArray(n, score.types[n], x.ndim) for n, x in score.arrays.items())
    form = AttentionForm(group=GROUP, causal=causal,
                         pairs=PairRules(None, score.rule(), arrays, learned=tuple(score.kinds)))  # fmt: skip
    random, (batch, heads, queries, keys) = np.random.default_rng(seed), sizes
    counts = (GROUP * heads, queries), (heads, keys), (heads, keys), (GROUP * heads, queries)
    q, k, v, do = (random.normal(size=(batch, *n, 64)).astype(np.float16) for n in counts)
    o, lse = attention(score, form, q, k, v, {n: x.astype(np.float64) for n, x in score.arrays.items()})
    made = {name: np.full_like(x, 7) for name, x in (("dq", q), ("dk", k), ("dv", v))}
    given = {"q": q, "k": k, "v": v, "do": do, "sums": np.full(q.shape, 7, np.float32), **made, **score.arrays}
    given |= {"o": o.astype(f16.numpy), "lse": lse.astype(np.float32), "delta": np.zeros(lse.shape, np.float32)}
    for name, x in score.arrays.items():
        given |= {SUMS_OF + name: np.full(x.shape, 7, np.float32), GRADIENT_OF + name: np.full_like(x, 7)}
    for kernel in kernels_of(form, way):
        run(kernel, given, sizes, on)
    for name in score.arrays:
        places, wanted = differences(score, form, (q, k, v), do.astype(np.float64), name)
        found = given[GRADIENT_OF + name].astype(np.float64)
        most = np.abs(found).max()
        assert np.abs(found.flat[places] - wanted).max() <= TOLERANCE * most and np.abs(wanted).max() > most / 100
