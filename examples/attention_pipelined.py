"""8. The attention of attention_spread.py with each product merged with the arithmetic of another tile.

The scores of the next tile of keys are computed among the exponentials of the present one, and the result among the
maxima of the next one. The queries' maximum is kept until it has grown by 2^8, which the final division undoes.
"""

import functools
import math
import operator

import numpy as np

import lego_mlir as lego
from lego_mlir import Row, f2, f16, f32, gallery

H, S = lego.size("H", min=1, max=2**16 - 1), lego.size("S", min=1, max=2**20)  # heads of all batches, positions


def build(D=64, dtype=f16, causal=False, BM=128, BN=64, warps=4, held=True):
    parent, tensor = f2.MmaSync((warps, 1)), lego.Tensor(dtype, Row(H, S, D))
    left, scale = f2.MmaOperand(0, parent), math.log2(math.e) / math.sqrt(D)  # exp(x) is exp2(x log2(e))

    @lego.kernel(grid=(lego.cdiv(S, BM), H), block=32 * warps)
    def attention(q: tensor, k: tensor, v: tensor, o: tensor):
        first, head = (lego.cdiv(S, BM) - 1 - lego.block_id[0]) * BM, lego.block_id[1]  # long blocks start first
        tile, *rings = (lego.shared(dtype, gallery.xor_swizzle(n, D, 8, 1, 8)) for n in (BM, 2 * BN, 2 * BN))
        keys, values = (lambda j, ring=ring: ring.part((j % 2 * BN, 0), (BN, D)) for ring in rings)
        last = lego.minimum(S, first + BM) if causal else S
        whole = (lego.minimum(S, first) if causal else S) // BN  # tiles of keys that need no mask
        zeros = lego.zeros(f32, parent.layout((BM, BN)))

        def in_lanes(x):  # the sums of a row in each of its 4 lanes
            return x.reshape(BM, BN // 8, 4, 2).sum(axis=1).sum(axis=2)

        def weights():
            p = lego.exp2(lego.fma(s, scale, (best * -scale)[:, None]), fast=True)
            return lego.convert(p.to(dtype), to=left.layout((BM, BN))), in_lanes(p)

        def highest(s, j, mask):
            row, column = first + s.index(0), j * BN + s.index(1)
            s = lego.where((column < S) & (column <= row) if causal else column < S, s, -math.inf) if mask else s
            return s, lego.maximum(best, s.max(axis=1))

        def begin(scores, new):  # scale again only where a maximum has grown by 2^8: weights stay below
            s.set(scores)
            with lego.when(lego.warp_any(functools.reduce(operator.or_, ((new - best) * scale > 8.0).registers))):
                fade = lego.exp2((best - new) * scale, fast=True)[:, None]
                out.set(out * fade)
                total.set(total * fade)
                best.set(new)

        s, best, total = (lego.register(x) for x in (zeros, zeros.max(axis=1) - math.inf, in_lanes(zeros)))
        out = lego.register(lego.zeros(f32, parent.layout((BM, D))))
        for source, target, j in ((q, tile, first), (k, keys(0), 0), (None, 1, 0), (k, keys(1), BN), (v, values(0), 0)):
            lego.copy_async(source, target, at=(head, j, 0)) if source is not None else lego.commit_copies()
        lego.commit_copies()
        lego.wait_copies(1)
        lego.barrier()
        queries = lego.load(tile, left.layout((BM, D))) if held else tile  # in registers, if there are enough
        begin(*highest(lego.mma(queries, keys(0).T, zeros), 0, True))
        for start, end, mask in ((0, whole - 1, False), (lego.maximum(whole - 1, 0), lego.cdiv(last, BN), True)):
            for j in lego.range(start, end):
                lego.wait_copies()
                lego.barrier()
                with lego.when((j + 1) * BN < last):
                    lego.copy_async(k, keys(j), at=(head, (j + 2) * BN, 0))
                    lego.copy_async(v, values(j + 1), at=(head, (j + 1) * BN, 0))
                    lego.commit_copies()
                lego.warp_sync()  # ptxas does not move the arithmetic in front of the products
                product = functools.partial(lego.mma, queries, keys(j + 1).T, zeros)
                scores, (p, sums) = lego.interleave(product, weights)
                total.set(total + sums)
                lego.warp_sync()
                product = functools.partial(lego.mma, p, values(j), out)
                added, (scores, new) = lego.interleave(product, functools.partial(highest, scores, j + 1, mask))
                out.set(added)
                begin(scores, new)
        (out * (1.0 / total.sum(axis=1))[:, None]).to(dtype).store(o, at=(head, first, 0))

    return attention


attention = build(causal=True)


@attention.reference(rtol=2**-9, atol=2**-10)
def expected(q, k, v):
    s = np.where(np.tri(q.shape[1]), q @ k.swapaxes(1, 2) / math.sqrt(q.shape[2]), -np.inf)
    weights = np.exp(s - s.max(-1, keepdims=True))
    return weights @ v / weights.sum(-1, keepdims=True)
