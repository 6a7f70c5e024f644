"""Dao-AILab's `causal_conv1d_fwd` (CUDA, 1.5): four taps along time for each channel, with a bias and silu.

The steps before the first are zeros, or the last three of an earlier call. A thread has 8 steps of a channel, with the
three before them.

lego-mlir run examples/ported/causal_conv1d.py --size B=2 --size D=5 --size L=1000
"""

import numpy as np

import lego_mlir as lego
from lego_mlir import Row, bf16, f32

TAPS, V, THREADS = 4, 8, 128
B, D = lego.size("B", max=1 << 16), lego.size("D", max=1 << 16)
L = lego.size("L", multiple_of=V, max=1 << 20)
SEQUENCES = lego.Tensor(bf16, Row(B, D, L))


@lego.kernel(grid=(lego.cdiv(L, THREADS * V), D, B), block=THREADS)
def causal_conv1d(
    x: SEQUENCES,
    weight: lego.Tensor(bf16, Row(D, TAPS)),
    bias: lego.Tensor(bf16, Row(D)) | None,
    before: lego.Tensor(bf16, Row(B, D, TAPS - 1)) | None,
    y: SEQUENCES,
):
    channel, batch = lego.block_id[1], lego.block_id[2]
    t = (lego.block_id[0] * THREADS + lego.thread_id[0]) * V
    with lego.when(t < L):
        taps = weight.load(channel, 0, width=TAPS).to(f32)
        start = f32(0) if bias is None else bias[channel].to(f32)
        earlier = [lego.register(f32, 0) for _ in range(TAPS - 1)]
        with lego.when(t > 0):
            loaded = x.load(batch, channel, t - TAPS, width=TAPS).to(f32)
            for k in range(TAPS - 1):
                earlier[k].set(loaded[k + 1])
        if before is not None:
            with lego.when(t == 0):
                for k in range(TAPS - 1):
                    earlier[k].set(before[batch, channel, k].to(f32))
        steps = [*(e.get() for e in earlier), *x.load(batch, channel, t, width=V).to(f32)]
        made = []
        for k in range(V):
            total = start
            for tap in range(TAPS):
                total = total + taps[tap] * steps[k + tap]
            made.append((total / (1.0 + lego.exp(-total))).to(bf16))
        y.store(lego.vector(*made), batch, channel, t)


@causal_conv1d.reference(rtol=1e-2, atol=1e-3)
def expected(x, weight, bias, before):
    before = np.zeros((*x.shape[:2], TAPS - 1)) if before is None else before
    padded = np.concatenate([before, x], axis=-1)
    total = sum(weight[:, k, None] * padded[..., k : k + x.shape[-1]] for k in range(TAPS))
    total += 0 if bias is None else bias[:, None]
    return total / (1 + np.exp(-total))
