"""Products with weights of 4 bits for few tokens: W4A16 and W4A8 with a scale for 128 weights, MXFP4 with one for 32.

The weights are the left operand, so that each becomes a half once for all tokens. They are stored as lanes take them:
16 bytes of a lane are its rows n and n + 8 of 64 columns. A block streams 128 rows through a ring of copies, and the
blocks of a cluster divide K; each adds up its part of the rows from the shared memory of all.

lego-mlir run examples/low_bits/few_bits.py --size M=5 --size N=144 --size K=512
"""

import numpy as np

import lego_mlir as lego
from lego_mlir import OrderBy, RegP, Row, bf16, f4e2m1fn, f8e4m3fn, f8e8m0fnu, f2, f16, f32, gallery, i4

ROWS, STEP, STAGES, WARPS = 128, 128, 4, 8  # rows of weights of a block, columns of a step, steps in flight, warps
M, N = lego.size("M", max=1 << 16), lego.size("N", max=1 << 20, multiple_of=16)
K = lego.size("K", max=1 << 20, multiple_of=STEP)


def shuffled(n, k):
    """[n, k] -> place: 16 x 64 numbers are next to each other, 32 of a lane, as `mma.sync` takes 8 along K."""
    return OrderBy(RegP([n // 16, 2, 8, k // 64, 2, 4, 8], [1, 4, 3, 6, 5, 2, 7])).GroupBy([n, k])


def product(name, weights, activations, scale, group, tokens=16, parts=4):
    """y = x w.T of `tokens` rows of x a block; a `scale` belongs to `group` weights of a row of w."""
    groups, warps = STEP // group, f2.MmaSync((WARPS, 1))
    of_lanes = f2.MmaOperand(0, warps, 8).layout((ROWS, STEP))  # 8 neighbours along K, as they are stored

    @lego.kernel(
        grid=(parts, lego.cdiv(N, ROWS), lego.cdiv(M, tokens)), block=32 * WARPS, cluster=parts, name=name
    )  # fmt: skip
    def multiplied(
        x: lego.Tensor(activations, Row(M, K)),
        w: lego.Tensor(weights, shuffled(N, K)),
        scales: lego.Tensor(scale, Row(K // group, N)),
        y: lego.Tensor(f16 if activations is not bf16 else bf16, Row(M, N)),
    ):
        part, row, token = lego.block_id[0], ROWS * lego.block_id[1], tokens * lego.block_id[2]
        first, end = part * (K // STEP) // parts, (part + 1) * (K // STEP) // parts
        of_x = lego.shared(activations, gallery.xor_swizzle(STAGES * tokens, STEP, 32), name="of_x")
        of_w = lego.shared(weights, shuffled(STAGES * ROWS, STEP), name="of_w")
        of_scales = lego.shared(scale, Row(STAGES * groups, ROWS), name="of_scales")
        sums = lego.shared(f32, Row(tokens, ROWS), name="sums")
        total = lego.register(lego.zeros(f32, (ROWS, tokens)))
        stored = w.bytes.flat().tile_by([N // 16], [8 * K])  # strips of 16 rows, in bytes
        kept = of_w.bytes.flat().tile_by([STAGES * ROWS // 16], [8 * STEP])
        factors, ring = (t.bytes if scale is f8e8m0fnu else t for t in (scales, of_scales))

        def stage(step, slot):
            with lego.when(step < end):
                lego.copy_async(x, of_x.part((slot * tokens, 0), (tokens, STEP)), at=(token, step * STEP))
                strip = kept.part((slot * ROWS // 16, 0), (ROWS // 16, 8 * STEP))
                lego.copy_async(stored, strip, at=(row // 16, 8 * STEP * step))
                lego.copy_async(factors, ring.part((slot * groups, 0), (groups, ROWS)), at=(groups * step, row))
            lego.commit_copies()

        for k in range(STAGES - 1):
            stage(first + k, k)
        for step in lego.range(first, end):
            slot = (step - first) % STAGES
            lego.wait_copies(STAGES - 2)
            lego.barrier()  # all have multiplied what the next copies replace
            stage(step + STAGES - 1, (step - first + STAGES - 1) % STAGES)
            numbers = lego.load(of_w, (ROWS, STEP), at=(slot * ROWS, 0), pin=of_lanes)
            if groups == 1:
                factor = lego.load(of_scales, (ROWS,), at=(slot, 0)).to(f32)[:, None]
                right = of_x.part((slot * tokens, 0), (tokens, STEP)).T
                total += lego.mma(numbers, right, lego.zeros(f32, (ROWS, tokens))) * factor
            else:
                shared_by_lanes = f2.MmaOperand(0, warps, groups).layout((ROWS, groups))
                factor = lego.load(of_scales.T, (ROWS, groups), at=(0, slot * groups), pin=shared_by_lanes)
                scaled = numbers.to(activations).reshape(ROWS, groups, group) * factor.to(activations)[:, :, None]
                left = scaled.reshape(ROWS, STEP)
                right = lego.load(of_x, (tokens, STEP), at=(slot * tokens, 0)).T
                total.set(lego.mma(left, right, total))
        total.get().T.store(sums)
        lego.cluster_barrier()
        own = ROWS // parts
        for pair in lego.range(2 * lego.thread_id[0], tokens * own, 64 * WARPS):
            t, n = pair // own, part * own + pair % own
            found = sum((sums.of_block(b).load(t, n, width=2) for b in range(parts)), start=0.0)
            with lego.when((token + t < M) & (row + n < N)):
                y.store(found.to(y.dtype), token + t, row + n)
        lego.cluster_barrier()

    return multiplied


w4a16 = product("w4a16", i4, f16, f16, 128)
w4a16_many = product("w4a16_many", i4, f16, f16, 128, tokens=64)
w4a8 = product("w4a8", i4, f8e4m3fn, f16, 128)
mxfp4 = product("mxfp4", f4e2m1fn, bf16, f8e8m0fnu, 32)


FLOATS = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])  # of e2m1, by the low bits of a code


def numbers_of(w, kernel):
    """The weights of bytes, of two neighbours each; a call takes them where `shuffled` has put them."""
    codes = np.stack([w & 15, w >> 4], axis=-1).reshape(len(w), -1).astype(int)
    return FLOATS[codes & 7] * np.where(codes > 7, -1, 1) if kernel is mxfp4 else (codes + 8) % 16 - 8


def described(kernel, group):
    """Gives a kernel its reference and its inputs."""

    @kernel.reference(rtol=2e-3 if kernel is not mxfp4 else 1e-2, atol=2e-2)  # sums in another order, and rounded
    def expected(x, w, scales):
        factors = 2.0 ** (scales.astype(int) - 127) if kernel is mxfp4 else scales.astype(np.float32)
        return x.astype(np.float32) @ (numbers_of(w, kernel) * np.repeat(factors, group, axis=0).T).T

    @kernel.inputs
    def inputs(rng, M, N, K):
        scales = rng.integers(118, 124, (K // group, N)) if kernel is mxfp4 else rng.uniform(0.005, 0.02, (K // group, N))
        return {"x": rng.standard_normal((M, K)), "w": rng.integers(0, 256, (N, K // 2)), "scales": scales}


for kernel, group in ((w4a16, 128), (w4a16_many, 128), (w4a8, 128), (mxfp4, 32)):
    described(kernel, group)
