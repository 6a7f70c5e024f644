"""7. Fused attention, forward: softmax(q k^T / sqrt(D)) v on tensor cores, causal or not, for any length.

Tiles have no layout: the engine finds that the weights of one product are the left operand of the next one, in the
same registers.
"""

import math

import numpy as np

import lego_mlir as lego
from lego_mlir import Row, f16, f32, gallery

H, S = lego.size("H", min=1, max=2**16 - 1), lego.size("S", min=1, max=2**20)  # heads of all batches, positions


def build(D=64, dtype=f16, causal=False, BM=128, BN=64, warps=4, held=True, lazy=True):
    tensor, scale = lego.Tensor(dtype, Row(H, S, D)), math.log2(math.e) / math.sqrt(D)  # exp(x) is exp2(x log2(e))

    def in_lanes(p):  # the sum of each row in its 4 lanes
        return p.reshape(BM, BN // 8, 4, 2).sum(axis=1).sum(axis=2)

    @lego.kernel(grid=(lego.cdiv(S, BM), H), block=32 * warps)
    def attention(q: tensor, k: tensor, v: tensor, o: tensor):
        first, head = (lego.cdiv(S, BM) - 1 - lego.block_id[0]) * BM, lego.block_id[1]  # long blocks start first
        tile, *rings = (lego.shared(dtype, gallery.xor_swizzle(n, D, 8, 1, 8)) for n in (BM, 2 * BN, 2 * BN))
        keys_end, unmasked = (lego.minimum(S, first + BM), lego.minimum(S, first) // BN) if causal else (S, S // BN)
        zeros, out = lego.zeros(f32, (BM, BN)), lego.register(lego.zeros(f32, (BM, D)))
        best, total = lego.register(lego.full(f32, (BM,), -math.inf)), lego.register(lego.zeros(f32, (BM, 4)))

        def fetch(j):
            for source, ring in zip((k, v), rings, strict=True):
                lego.copy_async(source, ring.part((j % 2 * BN, 0), (BN, D)), at=(head, j * BN, 0))
            lego.commit_copies()

        lego.copy_async(q, tile, at=(head, first, 0))
        fetch(0)
        lego.wait_copies()
        lego.barrier()
        queries = lego.load(tile, (BM, D)) if held else tile  # in registers, if there are enough
        for start, end in ((0, unmasked), (unmasked, lego.cdiv(keys_end, BN))):
            for j in lego.range(start, end):
                keys, values = (ring.part((j % 2 * BN, 0), (BN, D)) for ring in rings)
                lego.wait_copies()
                lego.barrier()
                with lego.when((j + 1) * BN < keys_end):
                    fetch(j + 1)
                s = lego.mma(queries, keys.T, zeros)
                if start is unmasked:
                    row, column = first + s.index(0), j * BN + s.index(1)
                    s = lego.where((column < S) & (column <= row) if causal else column < S, s, -math.inf)
                new = lego.maximum(best, s.max(axis=1))  # lazy: the old one is good enough while weights are below 2^8
                with lego.when(lego.warp_any((new - best) * scale > 8.0) if lazy else True):
                    fade = lego.exp2((best - new) * scale, fast=True)[:, None]
                    out.set(out * fade)
                    total.set(total * fade)
                    best.set(new)
                p = lego.exp2(lego.fma(s, scale, (best * -scale)[:, None]), fast=True)
                total.set(total + in_lanes(p))
                out.set(lego.mma(p.to(dtype), values, out))
        (out * (1.0 / total.sum(axis=1))[:, None]).to(dtype).store(o, at=(head, first, 0))

    return attention


attention = build(causal=True)


@attention.reference(rtol=2**-9, atol=2**-10)
def expected(q, k, v):
    s = np.where(np.tri(q.shape[1]), q @ k.swapaxes(1, 2) / math.sqrt(q.shape[2]), -np.inf)
    weights = np.exp(s - s.max(-1, keepdims=True))
    return weights @ v / weights.sum(-1, keepdims=True)
