"""9. Fused attention for warpgroups: the scores of the next tile of keys and the result of the present one overlap.

On sm_90a the two products of an iteration are `wgmma`, which run while the softmax computes; elsewhere `mma.sync`.
Weights are relative to the maximum that is known, which is found anew only where the sums of a tile grow beyond 2^14.
"""

import functools
import math
import operator

import numpy as np

import lego_mlir as lego
from lego_mlir import OrderBy, RegP, Row, f2, f16, f32, gallery

LARGE = 2.0**14  # sums of weights up to here have weights that f16 holds
H, S = lego.size("H", min=1, max=2**16 - 1), lego.size("S", min=1, max=2**20)  # heads of all batches, positions


def tile(rows, D, stages=1):
    """Row-major tiles of `rows` x `D` in blocks of 64 columns, whose rows of 128 bytes are swizzled."""
    blocks = RegP([stages, rows, D // 64, 64], [1, 3, 2, 4])
    swizzled = gallery.xor_swizzle(stages * rows * D // 64, 64, 8, 1, 8)
    return OrderBy(swizzled).OrderBy(blocks).GroupBy([stages * rows, D])


def build(D=64, dtype=f16, causal=False, BM=128, BN=128, warps=8):
    parent, tensor = f2.MmaSync((warps, 1)), lego.Tensor(dtype, Row(H, S, D))
    left, scale = f2.MmaOperand(0, parent), math.log2(math.e) / math.sqrt(D)  # exp(x) is exp2(x log2(e))

    @lego.kernel(grid=(lego.cdiv(S, BM), H), block=32 * warps)
    def attention(q: tensor, k: tensor, v: tensor, o: tensor):
        first, head = (lego.cdiv(S, BM) - 1 - lego.block_id[0]) * BM, lego.block_id[1]  # long blocks start first
        queries, *rings = (lego.shared(dtype, tile(rows, D, n)) for rows, n in ((BM, 1), (BN, 2), (BN, 2)))
        keys, values = (lambda j, ring=ring: ring.part((j % 2 * BN, 0), (BN, D)) for ring in rings)
        last = lego.minimum(S, first + BM) if causal else S
        whole = (lego.minimum(S, first) if causal else S) // BN  # tiles of keys that need no mask
        zeros = lego.zeros(f32, parent.layout((BM, BN)))
        out = lego.register(lego.zeros(f32, parent.layout((BM, D))))
        weights, following = (lego.register(lego.zeros(dtype, left.layout((BM, BN)))) for _ in range(2))

        def in_lanes(x):  # the sums of a row in each of its 4 lanes
            return x.reshape(BM, BN // 8, 4, 2).sum(axis=1).sum(axis=2)

        best, fade = (lego.register(zeros.max(axis=1)) for _ in range(2))
        total, sums = (lego.register(in_lanes(zeros)) for _ in range(2))

        def masked(s, j):
            row, column = first + s.index(0), j * BN + s.index(1)
            return lego.where((column < S) & (column <= row) if causal else column < S, s, -math.inf)

        def weigh(s):
            """Weights relative to the maximum that is known, and their sums."""
            p = lego.exp2(lego.fma(s, scale, (best * -scale)[:, None]), approximate=True)
            following.set(lego.convert(p.to(dtype), to=left.layout((BM, BN))))
            sums.set(in_lanes(p))

        def grow(s):
            """Take the maximum of these scores into account."""
            new = lego.maximum(best, s.max(axis=1))
            fade.set(lego.exp2((best - new) * scale, approximate=True))
            best.set(new)
            weigh(s)

        def fetch(source, target, j):
            lego.copy_async(source, target, at=(head, j, 0))

        fetch(q, queries, first)
        fetch(k, keys(0), 0)
        lego.commit_copies()
        fetch(k, keys(1), BN)
        fetch(v, values(0), 0)
        lego.commit_copies()
        lego.wait_copies(1)
        lego.barrier()
        scores = masked(lego.mma(queries, keys(0).T, zeros), 0)
        best.set(scores.max(axis=1))
        weigh(scores)
        total.set(sums)
        weights.set(following)
        for start, end, mask in ((0, whole - 1, False), (lego.maximum(whole - 1, 0), lego.cdiv(last, BN) - 1, True)):
            for j in lego.range(start, end):
                lego.wait_copies()
                lego.barrier()
                fetch(k, keys(j), (j + 2) * BN)
                fetch(v, values(j + 1), (j + 1) * BN)
                lego.commit_copies()
                scores = lego.mma(queries, keys(j + 1).T, zeros)
                added = lego.mma(weights, values(j), out)
                scores = masked(scores, j + 1) if mask else scores
                weigh(scores)
                large = lego.warp_any(functools.reduce(operator.or_, (sums > LARGE).registers))
                with lego.when(large):  # rarely: the maximum has grown so much that 16 bits would overflow
                    grow(scores)
                out.set(added)
                with lego.when(large):
                    out.set(out * fade[:, None])
                    total.set(total * fade[:, None])
                total.set(total + sums)
                weights.set(following)
        lego.wait_copies()
        lego.barrier()
        out.set(lego.mma(weights, values(lego.cdiv(last, BN) - 1), out))
        (out * (1.0 / total.sum(axis=1))[:, None]).to(dtype).store(o, at=(head, first, 0))

    return attention


attention = build(causal=True)


@attention.reference(rtol=2**-9, atol=2**-10)
def expected(q, k, v):
    s = np.where(np.tri(q.shape[1]), q @ k.swapaxes(1, 2) / math.sqrt(q.shape[2]), -np.inf)
    weights = np.exp(s - s.max(-1, keepdims=True))
    return weights @ v / weights.sum(-1, keepdims=True)
