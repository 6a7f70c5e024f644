"""examples/attention_spread.py as it was with its 12 layouts and conversions written by hand."""

import functools
import math

import lego_mlir as lego
from lego_mlir import Row, f2, f16, f32, gallery

H, S = lego.size("H", min=1, max=2**16 - 1), lego.size("S", min=1, max=2**20)  # heads of all batches, positions


def build(D=64, dtype=f16, causal=False, BM=128, BN=64, warps=4, held=True, lazy=True):
    parent, tensor = f2.MmaSync((warps, 1)), lego.Tensor(dtype, Row(H, S, D))
    left, scale = f2.MmaOperand(0, parent), math.log2(math.e) / math.sqrt(D)  # exp(x) is exp2(x log2(e))

    def in_lanes(p):  # the sum of each row in its 4 lanes
        return p.reshape(BM, BN // 8, 4, 2).sum(axis=1).sum(axis=2)

    @lego.kernel(grid=(lego.cdiv(S, BM), H), block=32 * warps)
    def attention(q: tensor, k: tensor, v: tensor, o: tensor):
        first, head = (lego.cdiv(S, BM) - 1 - lego.block_id[0]) * BM, lego.block_id[1]  # long blocks start first
        tile, *rings = (lego.shared(dtype, gallery.xor_swizzle(n, D, 8, 1, 8)) for n in (BM, 2 * BN, 2 * BN))
        keys_end, unmasked = (lego.minimum(S, first + BM), lego.minimum(S, first) // BN) if causal else (S, S // BN)
        zeros, out = lego.zeros(f32, parent.layout((BM, BN))), lego.register(lego.zeros(f32, parent.layout((BM, D))))
        best, total = lego.register(zeros.max(axis=1) - math.inf), lego.register(in_lanes(zeros))

        def fetch(j):
            for source, ring in zip((k, v), rings, strict=True):
                lego.copy_async(source, ring.part((j % 2 * BN, 0), (BN, D)), at=(head, j * BN, 0))
            lego.commit_copies()

        lego.copy_async(q, tile, at=(head, first, 0))
        fetch(0)
        lego.wait_copies()
        lego.barrier()
        queries = lego.load(tile, left.layout((BM, D))) if held else tile  # in registers, if there are enough
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
                grown = functools.reduce(lego.maximum, ((new - best) * scale).registers) > 8.0
                with lego.when(lego.warp_any(grown) if lazy else True):
                    fade = lego.exp2((best - new) * scale, fast=True)[:, None]
                    out.set(out * fade)
                    total.set(total * fade)
                    best.set(new)
                p = lego.exp2(lego.fma(s, scale, (best * -scale)[:, None]), fast=True)
                total.set(total + in_lanes(p))
                out.set(lego.mma(lego.convert(p.to(dtype), to=left.layout((BM, BN))), values, out))
        (out * (1.0 / total.sum(axis=1))[:, None]).to(dtype).store(o, at=(head, first, 0))

    return attention
