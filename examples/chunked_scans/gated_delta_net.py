"""Gated delta net, forward: h = exp(g) h;  u = beta (v - k h);  h += k' u;  o = q h, in chunks of 64 steps.

The u of a chunk depend on each other by a strictly lower matrix A, A[i, j] = beta[i] fade(i, j) k[i] k[j]', and on the
state before: (1 + A) u = beta (v - fade k h). The inverse X is made of those of its blocks on the diagonal: of two
neighbours X and Z with A's block B below the first, the inverse has -Z B X there, so that six steps double the blocks.
Their elements stay near 1, as powers of A would not where keys are alike (Yang et al., "Gated delta networks", 2024,
has the recurrence in chunks). `chunks` computes what needs no state of all chunks side by side: U = X beta v and W = X
beta fade k, so that u = U - W h, and the weights of a chunk's own steps, q k' fade. In `states` a block of threads has
64 columns of a head's state, and takes the chunks one after another.

lego-mlir run examples/chunked_scans/gated_delta_net.py --size B=1 --size T=70 --size H=2
"""

import math

import numpy as np

import lego_mlir as lego
from lego_mlir import Row, bf16, f16, f32, gallery

K, V, WIDTH, CHUNK = 128, 128, 64, 64  # of a head's state, columns of a block, and steps of a chunk
LOG2E = math.log2(math.e)
B, H = lego.size("B", max=1 << 16), lego.size("H", max=1 << 12)
T = lego.size("T", max=1 << 20)
KEYS, VALUES = lego.Tensor(bf16, Row(B, T, H * K)), lego.Tensor(bf16, Row(B, T, H * V))
WEIGHTS, GATES = lego.Tensor(bf16, Row(B, T, H * CHUNK)), lego.Tensor(f32, Row(B, H, T))
STATES = lego.Tensor(f32, Row(B, H, K, V))


@lego.kernel(grid=(lego.cdiv(T, CHUNK), H, B), block=128, fast=True)
def chunks(q: KEYS, k: KEYS, v: VALUES, g: GATES, beta: GATES, w: KEYS, u: VALUES, seen: WEIGHTS):
    (chunk, head, batch), square = lego.block_id[:3], (CHUNK, CHUNK)
    first, tile = chunk * CHUNK, gallery.xor_swizzle(CHUNK, K, 8, 1, 8)
    queries, keys, values = (lego.shared(bf16, tile, name=name) for name in ("queries", "keys", "values"))
    inverses, products = (lego.shared(f16, gallery.xor_swizzle(2 * CHUNK, CHUNK, 8, 1, 8)) for _ in range(2))
    for source, target in ((k, keys), (v, values), (q, queries)):
        lego.copy_async(source, target, at=(batch, first, head * K))
    lego.commit_copies()
    gate, share = (lego.load(x, (CHUNK,), at=(batch, head, first)) for x in (g, beta))
    fades = (gate * LOG2E).cumsum(axis=0)  # exponents of 2, from the chunk's begin on
    lego.wait_copies()
    lego.barrier()

    def placed(x, ring, turn):
        x.to(f16).store(ring, at=(turn % 2 * CHUNK, 0))
        return ring.part((turn % 2 * CHUNK, 0), square)

    def joined(x, size):
        """Whether an element of x is in the block below the diagonal that joins two neighbours of this size."""
        i, j = x.index(0), x.index(1)
        return (i // (2 * size) == j // (2 * size)) & (i // size > j // size)

    like = lego.mma(keys, keys.T, lego.zeros(f32, square))
    later, between = like.index(0) - like.index(1), lego.exp2(fades[:, None] - fades[None, :])
    scores = lego.mma(queries, keys.T, lego.zeros(f32, square))
    weights = lego.where(later >= 0, scores * between, 0.0)
    weights.to(bf16).store(seen, at=(batch, first, head * CHUNK))
    lower = lego.where(later > 0, like * between * -share[:, None], 0.0)  # -A
    inverse = lego.where(later == 0, 1.0, lego.where(joined(like, 1), lower, 0.0))
    for turn in range(1, 6):
        right = placed(inverse, inverses, turn)
        lego.barrier()
        below = lego.mma(lego.where(joined(like, 2**turn), lower, 0.0).to(f16), right, lego.zeros(f32, square))
        right = placed(below, products, turn)
        lego.barrier()
        inverse = lego.mma(inverse.to(f16), right, inverse)
    solved = inverse * share[None, :]
    for target, factors, right in ((u, solved, values), (w, solved * lego.exp2(fades)[None, :], keys)):
        found = lego.mma(factors.to(bf16), right, lego.zeros(f32, (CHUNK, K)))
        found.to(bf16).store(target, at=(batch, first, head * K))


@lego.kernel(grid=(V // WIDTH, H, B), block=256, fast=True)
def states(
    q: KEYS, k: KEYS, w: KEYS, u: VALUES, seen: WEIGHTS, g: GATES, scale: f32, o: VALUES, last: STATES
):  # fmt: skip
    part, head, batch = lego.block_id[:3]
    column, tile = head * V + part * WIDTH, (CHUNK, WIDTH)
    rings = [
        lego.shared(bf16, gallery.xor_swizzle(2 * CHUNK, K, 8, 1, 8), name=name) for name in ("of_w", "of_q", "of_k")
    ]
    made = lego.shared(bf16, gallery.xor_swizzle(CHUNK, WIDTH, 8, 1, 8), name="made")
    state = lego.register(lego.zeros(f32, (K, WIDTH)))

    def fetch(chunk):
        half, first = chunk % 2 * CHUNK, chunk * CHUNK
        for source, ring in zip((w, q, k), rings, strict=True):
            lego.copy_async(source, ring.part((half, 0), (CHUNK, K)), at=(batch, first, head * K))
        lego.commit_copies()
        own = lego.load(u, tile, at=(batch, first, column))
        weights = lego.load(seen, (CHUNK, CHUNK), at=(batch, first, head * CHUNK))
        return own, weights, lego.load(g, (CHUNK,), at=(batch, head, first))

    ahead = lego.register(fetch(0))
    for chunk in lego.range(lego.cdiv(T, CHUNK)):
        own, weights, gate = ahead.value
        fades, end = (gate * LOG2E).cumsum(axis=0), (gate * LOG2E).sum()
        lego.wait_copies()
        lego.barrier()
        ahead.set(fetch(chunk + 1))
        of_w, queries, keys = (ring.part((chunk % 2 * CHUNK, 0), (CHUNK, K)) for ring in rings)
        held = state.get().to(bf16)
        new = own.to(f32) - lego.mma(of_w, held, lego.zeros(f32, tile))
        new.to(bf16).store(made)
        from_state = lego.mma(queries, held, lego.zeros(f32, tile)) * lego.exp2(fades)[:, None]
        lego.barrier()
        found = lego.mma(weights, made, from_state) * scale
        found.to(bf16).store(o, at=(batch, chunk * CHUNK, column))
        kept = (new * lego.exp2(end - fades)[:, None]).to(bf16)
        state.set(lego.mma(keys.T, kept, state.get() * lego.exp2(end)))
    state.get().store(last, at=(batch, head, 0, part * WIDTH))


@lego.program
def gated_delta_net(q: KEYS, k: KEYS, v: VALUES, g: GATES, beta: GATES, scale: f32, o: VALUES, last: STATES):
    w, u = lego.empty(bf16, Row(B, T, H * K), name="w"), lego.empty(bf16, Row(B, T, H * V), name="u")
    seen = lego.empty(bf16, Row(B, T, H * CHUNK), name="seen")
    chunks(q, k, v, g, beta, w, u, seen)
    states(q, k, w, u, seen, g, scale, o, last)


@gated_delta_net.inputs
def inputs(rng, B, T, H):
    q, k = (rng.standard_normal((B, T, H, K)) for _ in range(2))
    q, k = ((x / np.linalg.norm(x, axis=-1, keepdims=True)).reshape(B, T, H * K) for x in (q, k))
    gates = {"g": -rng.random((B, H, T)) / 8, "beta": rng.random((B, H, T))}
    return {"q": q, "k": k, **gates, "scale": K**-0.5}


@gated_delta_net.reference(rtol=2e-2, atol=5e-3)
def expected(q, k, v, g, beta, scale):
    batches, steps, heads = len(q), q.shape[1], g.shape[1]
    q, k, v = (x.astype(np.float32).reshape(batches, steps, heads, -1) for x in (q, k, v))
    h, o = np.zeros((batches, heads, K, V), np.float32), np.empty(v.shape, np.float32)
    for t in range(steps):
        h *= np.exp(g[:, :, t])[..., None, None]
        new = (v[:, t] - np.einsum("bhk,bhkv->bhv", k[:, t], h)) * beta[:, :, t, None]
        h += np.einsum("bhk,bhv->bhkv", k[:, t], new)
        o[:, t] = np.einsum("bhk,bhkv->bhv", q[:, t], h) * scale
    return o.reshape(batches, steps, -1), h
