"""Gated delta net, forward: h = exp(g) h;  u = beta (v - k h);  h += k' u;  o = q h, in chunks of 64 steps.

The u of a chunk depend on each other by a strictly lower matrix A, A[i, j] = beta[i] fade(i, j) k[i] k[j]', and on the
state before: (1 + A) u = beta (v - fade k h). The inverse X is made of those of its blocks on the diagonal: of two
neighbours X and Z with A's block B below the first, the inverse has -Z B X there, so that six steps double the blocks.
Their elements stay near 1, as powers of A would not where keys are alike (Yang et al., "Gated delta networks", 2024,
has the recurrence in chunks). A block of threads has 64 columns of a head's state and keeps them from chunk to chunk.

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
GATES = lego.Tensor(f32, Row(B, H, T))


@lego.kernel(grid=(V // WIDTH, H, B), block=256, fast=True)
def gated_delta_net(
    q: KEYS, k: KEYS, v: VALUES, g: GATES, beta: GATES, scale: f32, o: VALUES,
    last: lego.Tensor(f32, Row(B, H, K, V)),
):  # fmt: skip
    (part, head, batch), square = lego.block_id[:3], (CHUNK, CHUNK)
    column = head * V + part * WIDTH
    wide = gallery.xor_swizzle(2 * CHUNK, K, 8, 1, 8)
    of_q, of_k = lego.shared(bf16, wide, name="of_q"), lego.shared(bf16, wide, name="of_k")
    of_v = lego.shared(bf16, gallery.xor_swizzle(2 * CHUNK, WIDTH, 8, 1, 8), name="of_v")
    square_tiles = gallery.xor_swizzle(2 * CHUNK, CHUNK, 8, 1, 8)
    inverses, products = (lego.shared(f16, square_tiles, name=name) for name in ("inverses", "products"))
    state = lego.register(lego.zeros(f32, (K, WIDTH)))

    def placed(x, ring, turn):
        x.to(f16).store(ring, at=(turn % 2 * CHUNK, 0))
        return ring.part((turn % 2 * CHUNK, 0), (CHUNK, CHUNK))

    def fetch(chunk):
        half, first = chunk % 2 * CHUNK, chunk * CHUNK
        for source, ring in ((q, of_q), (k, of_k)):
            lego.copy_async(source, ring.part((half, 0), (CHUNK, K)), at=(batch, first, head * K))
        lego.copy_async(v, of_v.part((half, 0), (CHUNK, WIDTH)), at=(batch, first, column))
        lego.commit_copies()
        return tuple(lego.load(x, (CHUNK,), at=(batch, head, first)) for x in (g, beta))

    def joined(x, size):
        """Whether an element of x is in the block below the diagonal that joins two neighbours of this size."""
        i, j = x.index(0), x.index(1)
        return (i // (2 * size) == j // (2 * size)) & (i // size > j // size)

    ahead = lego.register(fetch(0))
    for chunk in lego.range(lego.cdiv(T, CHUNK)):
        half, first = chunk % 2 * CHUNK, chunk * CHUNK
        gate, share = ahead.value
        fades, end = (gate * LOG2E).cumsum(axis=0), (gate * LOG2E).sum()  # exponents of 2, from the chunk's begin on
        lego.wait_copies()
        lego.barrier()
        ahead.set(fetch(chunk + 1))
        queries, keys = (ring.part((half, 0), (CHUNK, K)) for ring in (of_q, of_k))
        like, before = lego.mma(keys, keys.T, lego.zeros(f32, square)), lego.exp2(fades)[:, None]
        later = like.index(0) - like.index(1)
        between = lego.exp2(fades[:, None] - fades[None, :])
        lower = lego.where(later > 0, like * between * -share[:, None], 0.0)  # -A
        inverse = lego.where(later == 0, 1.0, lego.where(joined(like, 1), lower, 0.0))
        for turn in range(1, 6):
            right = placed(inverse, inverses, turn)
            lego.barrier()
            below = lego.mma(lego.where(joined(like, 2**turn), lower, 0.0).to(f16), right, lego.zeros(f32, square))
            right = placed(below, products, turn)
            lego.barrier()
            inverse = lego.mma(inverse.to(f16), right, inverse)
        held = state.get().to(bf16)
        values = lego.load(of_v, (CHUNK, WIDTH), at=(half, 0)).to(f32)
        known = lego.mma(keys, held, lego.zeros(f32, (CHUNK, WIDTH))) * before
        new = (values - known) * share[:, None]
        right = placed(new, products, 0)
        lego.barrier()
        new = lego.mma(inverse.to(f16), right, lego.zeros(f32, (CHUNK, WIDTH)))
        solved = placed(new, products, 1)
        scores = lego.mma(queries, keys.T, lego.zeros(f32, square))
        seen = placed(lego.where(later >= 0, scores * between, 0.0), inverses, 0)
        lego.barrier()
        from_state = lego.mma(queries, held, lego.zeros(f32, (CHUNK, WIDTH))) * before
        made = lego.mma(seen, solved, from_state) * scale
        made.to(bf16).store(o, at=(batch, first, column))
        kept = (new * lego.exp2(end - fades)[:, None]).to(bf16)
        state.set(lego.mma(keys.T, kept, state.get() * lego.exp2(end)))
    state.get().store(last, at=(batch, head, 0, part * WIDTH))


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
