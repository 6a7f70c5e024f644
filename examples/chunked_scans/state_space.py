"""Mamba-2's state-space duality, forward: h[t] = exp(d[t] a) h[t-1] + d[t] b[t] x[t]', y[t] = c[t] h[t], in chunks.

In a chunk of 64 steps the recurrence is a product of matrices, (c b' * fades) x with a fade for each pair of steps.
What came before enters through the state, of 128 x 64 a head, which a block keeps from chunk to chunk. Copies of the
next chunk are under way while one is computed. Steps past the end have d = 0, and change nothing.

lego-mlir run examples/chunked_scans/state_space.py --size B=2 --size T=100 --size H=3
"""

import math

import numpy as np

import lego_mlir as lego
from lego_mlir import Row, bf16, f32, gallery

STATES, WIDTH, CHUNK = 128, 64, 64  # of a head's state, and steps of a chunk
LOG2E = math.log2(math.e)
B, H = lego.size("B", max=1 << 16), lego.size("H", max=1 << 12)
T = lego.size("T", max=1 << 20)
BY_STATE = lego.Tensor(bf16, Row(B, T, STATES))  # of all heads


@lego.kernel(grid=(H, B), block=256, fast=True)
def state_space(
    x: lego.Tensor(bf16, Row(B, T, H * WIDTH)),
    d: lego.Tensor(f32, Row(B, H, T)),
    rate: lego.Tensor(f32, Row(H)),
    b: BY_STATE,
    c: BY_STATE,
    y: lego.Tensor(bf16, Row(B, T, H * WIDTH)),
    last: lego.Tensor(f32, Row(B, H, STATES, WIDTH)),
):
    head, batch = lego.block_id[:2]
    wide = gallery.xor_swizzle(2 * CHUNK, STATES, 8, 1, 8)
    of_b, of_c = lego.shared(bf16, wide, name="of_b"), lego.shared(bf16, wide, name="of_c")
    of_x = lego.shared(bf16, gallery.xor_swizzle(2 * CHUNK, WIDTH, 8, 1, 8), name="of_x")
    state = lego.register(lego.zeros(f32, (STATES, WIDTH)))

    def fetch(chunk):
        half, first = chunk % 2 * CHUNK, chunk * CHUNK
        lego.copy_async(x, of_x.part((half, 0), (CHUNK, WIDTH)), at=(batch, first, head * WIDTH))
        for source, ring in ((b, of_b), (c, of_c)):
            lego.copy_async(source, ring.part((half, 0), (CHUNK, STATES)), at=(batch, first, 0))
        lego.commit_copies()
        return lego.load(d, (CHUNK,), at=(batch, head, first))

    ahead = lego.register(fetch(0))
    for chunk in lego.range(lego.cdiv(T, CHUNK)):
        half, first = chunk % 2 * CHUNK, chunk * CHUNK
        step = ahead.get()
        fades = (step * (rate[head] * LOG2E)).cumsum(axis=0)  # exponents of 2, from the chunk's begin on
        end = (step * (rate[head] * LOG2E)).sum()
        lego.wait_copies()
        lego.barrier()
        ahead.set(fetch(chunk + 1))
        left, right = (ring.part((half, 0), (CHUNK, STATES)) for ring in (of_c, of_b))
        given = of_x.part((half, 0), (CHUNK, WIDTH))
        scores = lego.mma(left, right.T, lego.zeros(f32, (CHUNK, CHUNK)))
        before = scores.index(0) >= scores.index(1)
        faded = lego.where(before, scores * lego.exp2(fades[:, None] - fades[None, :]) * step[None, :], 0.0)
        from_state = lego.mma(left, state.get().to(bf16), lego.zeros(f32, (CHUNK, WIDTH)))
        made = lego.mma(faded.to(bf16), given, from_state * lego.exp2(fades)[:, None])
        made.to(bf16).store(y, at=(batch, first, head * WIDTH))
        kept = lego.load(of_x, (CHUNK, WIDTH), at=(half, 0)).to(f32) * (lego.exp2(end - fades) * step)[:, None]
        state.set(lego.mma(right.T, kept.to(bf16), state.get() * lego.exp2(end)))
    state.get().store(last, at=(batch, head, 0, 0))


@state_space.inputs
def inputs(rng, B, T, H):
    return {"d": rng.uniform(0.01, 0.2, (B, H, T)), "rate": -rng.uniform(0.5, 2, H)}


@state_space.reference(rtol=2e-2, atol=5e-2)
def expected(x, d, rate, b, c):
    batches, steps, heads = len(x), x.shape[1], len(rate)
    given = x.reshape(batches, steps, heads, WIDTH).astype(np.float32)
    state, y = np.zeros((batches, heads, STATES, WIDTH), np.float32), np.empty(given.shape, np.float32)
    for t in range(steps):
        new = np.einsum("bs,bhw->bhsw", b[:, t].astype(np.float32), given[:, t] * d[:, :, t, None])
        state = state * np.exp(d[:, :, t] * rate)[..., None, None] + new
        y[:, t] = np.einsum("bs,bhsw->bhw", c[:, t].astype(np.float32), state)
    return y.reshape(x.shape), state
