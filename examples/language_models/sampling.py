"""The next tokens of sequences, drawn from logits by temperature, top-k and top-p, without a sort.

A token with the probability p wins if p / e is the greatest, where e is exponentially distributed: then it is drawn by
its probability, and by its share of any set of which it wins. So the winner is drawn among all tokens, and counted is
what is more probable than it. With fewer than `top_k` such tokens, and less than `top_p` of the mass, the winner is the
token; if not, neither is what has its probability or less, and the next winner is drawn among the rest. Tokens as
probable as each other are in the set together. Logits are read once, and stay in registers of a cluster.

The random numbers are Philox's of the seed, the step, the sequence and the token, so that a run is repeated exactly. A
temperature near 0 takes the most probable token. A row with a NaN gives token 0.

lego-mlir run examples/language_models/sampling.py --size B=5
"""

import math

import numpy as np
from row_parts import parts_of

import lego_mlir as lego
from lego_mlir import Row, bf16, f32, i1, i32, u32, u64

B = lego.size("B", max=2**20)  # sequences
OF_SEQUENCES = lego.Tensor(f32, Row(B))
SMALL = 2.0**-6  # -log(1 - v) is a polynomial below it, within 2^-24 of itself
SEED = 0x5EED


@lego.generic
def sampling(T, V):
    """Tokens by logits of V tokens, of T."""
    row = parts_of(V, each=16, even=True)
    part, tile = row.part, (row.part,)

    @row.kernel(B)
    def kernel(
        logits: lego.Tensor(T, Row(B, V)),
        temperature: OF_SEQUENCES,
        top_k: lego.Tensor(i32, Row(B)),
        top_p: OF_SEQUENCES,
        seed: u32,
        step: u32,
        tokens: lego.Tensor(i32, Row(B)),
    ):
        b, first = row.place()
        values = lego.load(logits, tile, at=(b, first), other=-math.inf).to(f32)
        most = lego.cluster_reduce(values.max(0), "max")
        slope = 1.0 / lego.maximum(temperature[b], 1e-6)
        share = lego.exp((values - most) * slope)  # of the most probable token's
        least = top_p[b] * lego.cluster_reduce(share.sum(0))
        quarters = lego.arange((part // 4,)) + first // 4
        a, c, d, e = lego.philox(quarters.to(u32), u32(b), step, key=(seed, 0))
        score = share / exponential(a.join(d).join(c.join(e)).reshape(part))
        number = first + lego.arange(tile)
        bar, token, going = lego.register(f32, -1.0), lego.register(i32, 0), lego.register(i1, True)
        with lego.while_(going):
            entered = lego.where(share > bar.get(), score, -1.0)
            best = entered.max(0)
            where = lego.where(entered == best, number.to(i32), V).min(0)
            key = (u64(lego.bitcast(best, u32) ^ 0x80000000) << 32) | u64(V - where)  # the first of equal ones
            key = lego.cluster_reduce(key, "max")
            token.set(V - i32(key & 0xFFFFFFFF))
            its = lego.exp((logits[b, lego.index(token.get(), range=(0, V))].to(f32) - most) * slope)
            above = share > its
            before = lego.vector(above.to(f32).sum(0), lego.where(above, share, 0.0).sum(0))
            count, mass = lego.cluster_reduce(before)
            taken = (count < top_k[b].to(f32)) & (mass < least)
            going.set(~taken & (its < 1.0))
            bar.set(its)
        with lego.when((lego.thread_id[0] < 1) & (lego.cluster_rank < 1)):
            tokens[b] = token.get()

    @kernel.reference
    def expected(logits, temperature, top_k, top_p, seed, step):
        given = logits, temperature, top_k, top_p
        return np.array([drawn(*(array[b] for array in given), seed, step, b) for b in range(len(logits))])

    @kernel.inputs
    def inputs(rng, B):
        logits = rng.standard_normal((B, V)) * 4
        several = {"temperature": [1.0, 0.7, 0.0], "top_k": [V, 5, 50], "top_p": [0.9, 1.0, 0.5]}
        return {"logits": logits, **{name: np.resize(few, B) for name, few in several.items()}, "seed": SEED, "step": 3}

    return kernel


def exponential(word):
    """-log(1 - v) for v = (word + 1/2) / 2^32."""
    v = (word.to(f32) + 0.5) * 2.0**-32
    return lego.where(v < SMALL, v * (1.0 + v * (0.5 + v * (1 / 3 + v * 0.25))), lego.log2(1.0 - v) * -math.log(2))


def philox(counters, key):
    """The four words of Philox 4x32-10 of each row of counters."""
    a, b, c, d = np.asarray(counters, np.uint64).T
    for n in range(10):
        one, two = ((int(k) + n * step) & 0xFFFFFFFF for k, step in zip(key, (0x9E3779B9, 0xBB67AE85), strict=True))
        p, q = a * np.uint64(0xD2511F53), c * np.uint64(0xCD9E8D57)
        a, b, c, d = (q >> 32) ^ b ^ np.uint64(one), q & 0xFFFFFFFF, (p >> 32) ^ d ^ np.uint64(two), p & 0xFFFFFFFF
    return np.stack([a, b, c, d], 1)


def drawn(logits, temperature, top_k, top_p, seed, step, sequence):
    """The token of one sequence, from the sorted probabilities, in f64."""
    x = logits.astype(np.float64)
    share = np.exp((x - x.max()) / max(temperature, 1e-6))
    counters = [(k, sequence, step, 0) for k in range(-(-len(x) // 4))]
    v = (philox(counters, (seed, 0)).reshape(-1)[: len(x)] + 0.5) * 2.0**-32
    order = np.argsort(-share, kind="stable")
    before = np.searchsorted(-share[order], -share[order])  # tokens that are more probable
    mass = np.concatenate([[0], np.cumsum(share[order])])[before]
    kept = order[(before < top_k) & (mass < top_p * share.sum())]
    return kept[np.argmax(share[kept] / -np.log1p(-v[kept]))]


of_cluster, of_block = sampling[f32, 33_000], sampling[bf16, 1001]
