"""Products with weights of 4 bits for few tokens: W4A16 and W4A8 with a scale for 128 weights, MXFP4 with one for 32.

The weights are the left operand, so that each becomes a half once for all tokens. They are stored as lanes take them:
16 bytes of a lane are its rows n and n + 8 of 64 columns. Each warp streams 16 rows straight into registers, groups of
columns ahead; tokens and scales go through shared memory. The blocks of a cluster divide K; each adds up its part of
the rows from the shared memory of all.

lego-mlir run examples/low_bits/few_bits.py --size M=5 --size N=144 --size K=512 --size E=3 --size Z=2
"""

import numpy as np

import lego_mlir as lego
from lego_mlir import Row, bf16, f2, f4e2m1fn, f8e4m3fn, f8e8m0fnu, f16, f32, gallery, i4, i32

STEP = 128  # columns of a group
M, N = lego.size("M", max=1 << 16), lego.size("N", max=1 << 20, multiple_of=16)
K = lego.size("K", max=1 << 20, multiple_of=STEP)
E, Z = lego.size("E", max=1 << 10), lego.size("Z", max=1 << 16)  # experts, and tiles of their tokens
TILE = (8, 4, 2, 2, 2, 4)  # row, four columns, .. of 16 x 64 weights as they are stored, 32 of a lane


def stored(rows):
    """16 x 64 weights are next to each other; neighbours along K are in the two halves of a word, for one mask."""
    return Row(rows // 16, K // 64, 1024)


def arranged(tiles):
    """[n, k] of stored weights, without movement."""
    n, k, _ = tiles.shape
    return tiles.reshape(n, k, *TILE).transpose((0, 5, 2, 1, 4, 3, 7, 6)).reshape(16 * n, 64 * k)


def streamed(x, w, scales, y, group, tokens, parts, warps, ahead, row_of_x, row_of_y, expert=0):
    """The tile of a block: `row_of_x` and `row_of_y` say which rows its tokens are, padding those past the end."""
    rows, groups, scale, wide = 16 * warps, STEP // group, scales.dtype, y.dtype
    part, row = lego.block_id[0], rows * lego.block_id[1]
    first, end = part * (K // STEP) // parts, (part + 1) * (K // STEP) // parts
    of_x = lego.shared(x.dtype, gallery.xor_swizzle(2 * ahead * tokens, STEP, 32), name="of_x")
    of_scales = lego.shared(scale, Row(2 * ahead * groups, rows), name="of_scales")
    sums = lego.shared(f32, Row(tokens, rows), name="sums")
    total = lego.register(lego.zeros(f32, (rows, tokens)))
    factors, ring = (t.bytes if scale is f8e8m0fnu else t for t in (scales, of_scales))

    of_lanes = f2.MmaOperand(0, f2.MmaSync((warps, 1)), groups).layout((rows, groups))

    def weights(step):
        return lego.load(w, (rows // 16, STEP // 64, 1024), at=((expert * N + row) // 16, STEP // 64 * step, 0))

    def stage(following, free):
        for step, slot in [(following + k, free + k) for k in range(ahead)]:
            with lego.when(step < end):
                tile = of_x.part((slot * tokens, 0), (tokens, STEP))
                lego.copy_async(x, tile, at=lambda t, step=step: (row_of_x(t), step * STEP))
                at = (expert, groups * step, row)[3 - len(scales.dims()) :]
                lego.copy_async(factors, ring.part((slot * groups, 0), (groups, rows)), at=at)
        lego.commit_copies()

    def multiply(slot, found):
        if groups == 1:
            factor = lego.load(of_scales, (rows,), at=(slot, 0)).to(f32)[:, None]
            right = of_x.part((slot * tokens, 0), (tokens, STEP)).T
            total.set(total + lego.mma(found, right, lego.zeros(f32, (rows, tokens))) * factor)
        else:
            factor = lego.load(of_scales.T, (rows, groups), at=(0, slot * groups), pin=of_lanes).to(wide)
            scaled = found.to(wide).reshape(rows, groups, group) * factor[:, :, None]
            right = lego.load(of_x, (tokens, STEP), at=(slot * tokens, 0)).T
            total.set(lego.mma(scaled.reshape(rows, STEP), right, total))

    held = [lego.register(weights(first + k)) for k in range(ahead)]
    stage(first, 0)
    for step in lego.range(first, end, ahead):
        turn = (step - first) // ahead
        slot = turn % 2 * ahead
        lego.wait_copies()
        lego.barrier()  # all have multiplied what the next copies replace
        stage(step + ahead, (turn + 1) % 2 * ahead)
        found = [arranged(numbers.get()) for numbers in held]
        with lego.when(step + ahead < end):  # all at once: a wait for one of them is a wait for all
            for k, numbers in enumerate(held):
                numbers.set(weights(step + ahead + k))
        for k in range(ahead):
            with lego.when(step + k < end):
                multiply(slot + k, found[k])
    total.get().T.store(sums)
    lego.cluster_barrier()
    own = rows // parts
    for pair in lego.range(2 * lego.thread_id[0], tokens * own, 64 * warps):
        t, n = pair // own, part * own + pair % own
        found = sum((sums.of_block(b).load(t, n, width=2) for b in range(parts)), start=0.0)
        with lego.when((row_of_y(t) < y.dims()[0]) & (row + n < N)):
            y.store(found.to(wide), row_of_y(t), row + n)
    lego.cluster_barrier()


def product(name, weights, activations, scale, group, tokens=16, parts=4, warps=8, ahead=4):
    """y = x w.T of `tokens` rows of x a block; a `scale` belongs to `group` weights of a row of w."""
    blocks = parts, lego.cdiv(N, 16 * warps), lego.cdiv(M, tokens)

    @lego.kernel(grid=blocks, block=32 * warps, cluster=parts, name=name)
    def multiplied(
        x: lego.Tensor(activations, Row(M, K)),
        w: lego.Tensor(weights, stored(N)),
        scales: lego.Tensor(scale, Row(K // group, N)),
        y: lego.Tensor(bf16 if activations is bf16 else f16, Row(M, N)),
    ):
        own = lambda t: tokens * lego.block_id[2] + t  # noqa: E731
        streamed(x, w, scales, y, group, tokens, parts, warps, ahead, own, own)

    return multiplied


def by_expert(name, weights, activations, scale, group, best, tokens=16, parts=4, warps=8, ahead=2):
    """y[p] = x[p // best] w[e].T: each token has `best` experts, and `pairs` lists those of an expert in tiles.

    A tile has `tokens` pairs of one of the `experts`; past its last one it is padded with the number of pairs.
    """

    @lego.kernel(grid=(parts, lego.cdiv(N, 16 * warps), Z), block=32 * warps, cluster=parts, name=name)
    def multiplied(
        x: lego.Tensor(activations, Row(M, K)),
        w: lego.Tensor(weights, stored(E * N)),
        scales: lego.Tensor(scale, Row(E, K // group, N)),
        experts: lego.Tensor(i32, Row(Z), range=(0, E)),
        pairs: lego.Tensor(i32, Row(Z, tokens), range=(0, best * M + 1)),
        y: lego.Tensor(bf16 if activations is bf16 else f16, Row(best * M, N)),
    ):
        tile = lego.block_id[2]
        pair = lambda t: lego.index(pairs[tile, t])  # noqa: E731
        of_x, expert = lambda t: pair(t) // best, lego.index(experts[tile])
        streamed(x, w, scales, y, group, tokens, parts, warps, ahead, of_x, pair, expert)

    return multiplied


w4a16 = product("w4a16", i4, f16, f16, 128)
w4a16_many = product("w4a16_many", i4, f16, f16, 128, tokens=64, ahead=2)
w4a8 = product("w4a8", i4, f8e4m3fn, f16, 128)
mxfp4 = product("mxfp4", f4e2m1fn, bf16, f8e8m0fnu, 32)
mxfp4_by_expert = by_expert("mxfp4_by_expert", f4e2m1fn, bf16, f8e8m0fnu, 32, best=2)
FLOATS = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])  # of e2m1, by the low bits of a code


def multiplied_by(x, w, scales, group, floats):
    """x w.T in f32, of weights as they are stored."""
    codes = np.stack([w & 15, w >> 4], axis=-1).reshape(*w.shape[:2], *TILE).transpose(0, 5, 2, 1, 4, 3, 7, 6)
    codes = codes.reshape(-1, x.shape[1]).astype(int)
    numbers = FLOATS[codes & 7] * np.where(codes > 7, -1, 1) if floats else (codes + 8) % 16 - 8
    factors = 2.0 ** (scales.astype(int) - 127) if floats else scales.astype(np.float32)
    return x.astype(np.float32) @ (numbers * np.repeat(factors, group, axis=0).T).T


def drawn(rng, m, k, rows, floats):
    scales = rng.integers(118, 124, rows) if floats else rng.uniform(0.005, 0.02, rows)
    return {"x": rng.standard_normal((m, k)), "scales": scales}


def codes(rng, rows, k):
    return rng.integers(0, 256, (rows // 16, k // 64, 512))


def described(kernel, group, floats=False):
    """Gives a kernel its reference and its inputs."""

    @kernel.reference(rtol=1e-2 if floats else 2e-3, atol=2e-2)  # sums in another order, and rounded
    def expected(x, w, scales):
        return multiplied_by(x, w, scales, group, floats)

    @kernel.inputs
    def inputs(rng, M, N, K):
        return drawn(rng, M, K, (K // group, N), floats) | {"w": codes(rng, N, K)}


for kernel, group, floats in ((w4a16, 128, False), (w4a16_many, 128, False), (w4a8, 128, False), (mxfp4, 32, True)):
    described(kernel, group, floats)


@mxfp4_by_expert.reference(rtol=1e-2, atol=2e-2)
def expected(x, w, scales, experts, pairs):
    of_experts, n = w.reshape(len(scales), -1, *w.shape[1:]), scales.shape[2]
    y = np.zeros((2 * len(x), n), np.float32)
    for expert, listed in zip(experts, pairs, strict=True):
        held = listed[listed < len(y)]
        y[held] = multiplied_by(x[held // 2], of_experts[expert], scales[expert], 32, floats=True)
    return y


@mxfp4_by_expert.inputs
def inputs(rng, M, N, K, E, Z):
    pairs = np.full((Z, 16), 2 * M)
    for tile, listed in zip(pairs, np.array_split(rng.permutation(2 * M), Z), strict=True):
        tile[: len(listed)] = listed  # Z is large enough
    tables = {"experts": rng.integers(0, E, Z), "pairs": pairs, "w": codes(rng, E * N, K)}
    return drawn(rng, M, K, (E, K // 32, N), floats=True) | tables
