"""The kernels of a decoder: a step of a Llama-like model for a few sequences, a token of each.

No layout is written: the engine chooses them, also for the operands of products, of which a lane holds 8 neighbours
along K. The sizes that a model fixes are arguments of the functions that make its kernels; how many sequences,
pages and columns there are is known at the launch. Each function makes a kernel once.
"""

import math
from collections.abc import Callable
from functools import cache

import lego_mlir as lego
from lego_mlir import Row, f8e4m3fn, f16, f32, gallery, i4, i32, u32

GROUP = 128  # weights of a column with one scale
ROWS, COLUMNS, STAGES = 16, 32, 8  # of a product's tile; groups of K in flight
PAGE, TILE = 16, 128  # positions of a page of the cache, and of a step of attention
PART, STEP = 512, 1024  # logits that one block compares, and gates that one block multiplies
WEIGHTS = {"f16": f16, "f8": f8e4m3fn, "i4": i4}
EPSILON, ROPE_BASE = 1e-5, 10_000.0

B = lego.size("B", max=1 << 12)  # sequences
N = lego.size("N", max=1 << 20, multiple_of=8)
K = lego.size("K", max=1 << 20, multiple_of=GROUP)
P, MOST = lego.size("P", max=1 << 20), lego.size("MOST", max=1 << 16)  # pages of the cache, of a sequence
OPERAND, SCALES = lego.Tensor(f16, Row(B, K)), lego.Tensor(f16, Row(K // GROUP, N))
POSITIONS, TABLE = lego.Tensor(i32, Row(B), range=(0, MOST * PAGE)), lego.Tensor(i32, Row(B, MOST), range=(0, P))


@cache
def embedding(vocabulary: int, width: int) -> lego.Kernel:
    """Rows of the table by the tokens, widened to f32: the stream that every layer adds to."""

    @lego.kernel(grid=B, block=128)
    def embed(
        tokens: lego.Tensor(i32, Row(B), range=(0, vocabulary)),
        table: lego.Tensor(f16, Row(vocabulary, width)),
        x: lego.Tensor(f32, Row(B, width)),
    ):
        b = lego.block_id[0]
        lego.load(table, (1, width), at=(lego.index(tokens[b]), 0)).to(f32).store(x, at=(b, 0))

    return embed


@cache
def rms_norm(width: int) -> lego.Kernel:
    """Rows divided by their root mean squares, weighted, in f16."""

    @lego.kernel(grid=B, block=128)
    def norm(
        x: lego.Tensor(f32, Row(B, width)),
        weight: lego.Tensor(f16, Row(width)),
        y: lego.Tensor(f16, Row(B, width)),
    ):
        at = (lego.block_id[0], 0)
        row = lego.load(x, (1, width), at=at)
        inverse = lego.rsqrt((row * row).sum(axis=1) * (1 / width) + EPSILON)
        (row * inverse[:, None] * lego.load(weight, (width,)).to(f32)[None, :]).to(f16).store(y, at=at)

    return norm


@cache
def linear(weights: str, finish: Callable[..., None], result: lego.DType) -> lego.Kernel:
    """x @ w.T, with a scale for each group of K unless the weights are f16; `finish` puts a tile of sums in y."""
    w_tensor, y_tensor = lego.Tensor(WEIGHTS[weights], Row(N, K)), lego.Tensor(result, Row(B, N))

    def multiplied(x, w, scales, y):
        row, column, groups = ROWS * lego.block_id[1], COLUMNS * lego.block_id[0], K // GROUP
        of_x = lego.shared(f16, gallery.xor_swizzle(STAGES * ROWS, GROUP, 32), name="of_x")
        of_w = lego.shared(w.dtype, gallery.xor_swizzle(STAGES * COLUMNS, GROUP, 32), name="of_w")
        moved = (w.bytes, of_w.bytes, GROUP // 2) if w.dtype is i4 else (w, of_w, GROUP)

        def stage(group):
            slot = group % STAGES
            with lego.when(group < groups):
                for (source, ring, size), n, first in (((x, of_x, GROUP), ROWS, row), (moved, COLUMNS, column)):
                    lego.copy_async(source, ring.part((slot * n, 0), (n, size)), at=(first, group * size))
            lego.commit_copies()

        for group in range(STAGES - 1):
            stage(group)
        total = lego.register(lego.zeros(f32, (ROWS, COLUMNS)))
        for group in lego.range(groups):
            lego.wait_copies(STAGES - 2)
            lego.barrier()  # all have multiplied what the next copies replace
            stage(group + STAGES - 1)
            left = of_x.part((group % STAGES * ROWS, 0), (ROWS, GROUP))
            right = lego.load(of_w.T, (GROUP, COLUMNS), at=(0, group % STAGES * COLUMNS))
            found = lego.mma(left, right, total.get() if scales is None else lego.zeros(f32, (ROWS, COLUMNS)))
            if scales is not None:
                scale = lego.load(scales, (COLUMNS,), at=(group, column)).to(f32)
                found = total.get() + found * scale[None, :]
            total.set(found)
        finish(total.get(), y, (row, column))

    if weights == "f16":

        def product(x: OPERAND, w: w_tensor, y: y_tensor):
            multiplied(x, w, None, y)
    else:

        def product(x: OPERAND, w: w_tensor, scales: SCALES, y: y_tensor):
            multiplied(x, w, scales, y)

    name = f"{finish.__name__}_{weights}"
    return lego.kernel(grid=(lego.cdiv(N, COLUMNS), lego.cdiv(B, ROWS)), block=128, name=name)(product)


def stored(sums, y, at):
    """The sums in the type of y."""
    (sums if y.dtype is f32 else sums.to(y.dtype)).store(y, at=at)


def added(sums, y, at):
    """The sums added to y: the residual connection."""
    (lego.load(y, (ROWS, COLUMNS), at=at) + sums).store(y, at=at)


@cache
def silu_and_mul(width: int) -> lego.Kernel:
    """silu(gate) * up, which are the halves of a row."""

    @lego.kernel(grid=(lego.cdiv(width, STEP), B), block=128)
    def activation(x: lego.Tensor(f16, Row(B, 2, width)), y: lego.Tensor(f16, Row(B, width))):
        first, b = lego.block_id[0] * STEP, lego.block_id[1]
        gate, up = (lego.load(x, (1, 1, STEP), at=(b, half, first)).reshape(1, STEP).to(f32) for half in range(2))
        (gate / (1.0 + lego.exp(-gate)) * up).to(f16).store(y, at=(b, first))

    return activation


@cache
def rope_and_cache(heads: int, shared: int, size: int) -> lego.Kernel:
    """Turns queries and keys by their position and puts keys and values in the pages of the cache.

    A thread turns the pair (i, i + size / 2) of a head of the queries or keys, or moves a pair of the values.
    """
    half = size // 2

    @lego.kernel(grid=(heads + 2 * shared, B), block=half)
    def turn(
        qkv: lego.Tensor(f16, Row(B, heads + 2 * shared, size)),
        positions: POSITIONS,
        table: TABLE,
        query: lego.Tensor(f16, Row(B, heads, size)),
        keys: lego.Tensor(f16, Row(P, shared, PAGE, size)),
        values: lego.Tensor(f16, Row(P, shared, PAGE, size)),
    ):
        (head, b), i = lego.block_id[:2], lego.thread_id[0]
        position = lego.index(positions[b])
        page, row = lego.index(table[b, position // PAGE]), position % PAGE
        x, y = qkv[b, head, i].to(f32), qkv[b, head, i + half].to(f32)
        angle = f32(position) * lego.exp2(f32(i) * (-math.log2(ROPE_BASE) / half))
        sine, cosine = lego.sin(angle), lego.cos(angle)
        turned = ((x * cosine - y * sine).to(f16), (x * sine + y * cosine).to(f16))
        with lego.when(head < heads):
            query[b, head, i], query[b, head, i + half] = turned
        with lego.when((head >= heads) & (head < heads + shared)):
            keys[page, head - heads, row, i], keys[page, head - heads, row, i + half] = turned
        with lego.when(head >= heads + shared):
            for j in (i, i + half):
                values[page, head - heads - shared, row, j] = qkv[b, head, j]

    return turn


@cache
def attention(heads: int, shared: int, size: int) -> lego.Kernel:
    """Attention of one query a head to the pages of its sequence; `heads // shared` heads have the same keys."""
    scale = math.log2(math.e) / math.sqrt(size)

    @lego.kernel(grid=(heads, B), block=128)
    def attend(
        query: lego.Tensor(f16, Row(B, heads, size)),
        keys: lego.Tensor(f16, Row(P, shared, PAGE, size)),
        values: lego.Tensor(f16, Row(P, shared, PAGE, size)),
        table: TABLE,
        positions: POSITIONS,
        out: lego.Tensor(f16, Row(B, heads, size)),
    ):
        head, b = lego.block_id[:2]
        of_keys, end = head // (heads // shared), lego.index(positions[b]) + 1
        q = lego.load(query, (1, 1, size), at=(b, head, 0)).reshape(1, size).to(f32)
        best = lego.register(f32, -math.inf)
        total = lego.register(f32, 0.0)
        found = lego.register(lego.zeros(f32, (size,)))
        features = lego.arange((size,))[None, :]
        for first in lego.range(0, end, TILE):
            position = first + lego.arange((TILE,))
            page = table.load(b, position // PAGE, mask=position < end)
            row = page[:, None], of_keys, (position % PAGE)[:, None], features
            s = (keys[row].to(f32) * q).sum(axis=1) * scale
            s = lego.where(position < end, s, -math.inf)
            top = lego.maximum(best.get(), s.max(axis=0))
            p, fade = lego.exp2(s - top), lego.exp2(best.get() - top)
            total.set(total * fade + p.sum(axis=0))
            weighted = lego.where((position < end)[:, None], values[row].to(f32) * p[:, None], 0.0)
            found.set(found.get() * fade + weighted.sum(axis=0))
            best.set(top)
        (found.get() / total.get()).to(f16).store(out, at=(b, head, 0))

    return attend


@cache
def candidates(vocabulary: int, chosen: int) -> lego.Kernel:
    """The `chosen` largest logits of each part of a row, and their tokens."""

    @lego.kernel(grid=(lego.cdiv(vocabulary, PART), B), block=128)
    def best_of_parts(
        logits: lego.Tensor(f32, Row(B, vocabulary)),
        best: lego.Tensor(f32, Row(B, lego.cdiv(vocabulary, PART) * chosen)),
        tokens: lego.Tensor(i32, Row(B, lego.cdiv(vocabulary, PART) * chosen)),
    ):
        part, b = lego.block_id[:2]
        found, which = lego.load(logits, (1, PART), at=(b, part * PART), other=-math.inf).topk(chosen, axis=1)
        found.store(best, at=(b, part * chosen))
        (which + i32(part * PART)).store(tokens, at=(b, part * chosen))

    return best_of_parts


@cache
def sampling(vocabulary: int, chosen: int, temperature: float, seed: int) -> lego.Kernel:
    """The next token: one of the `chosen` most probable, at random by their probabilities, and the position after it.

    The random number of a token is Philox's of its position and sequence, so a run is repeated exactly. The kernel
    advances what the next step reads; a recorded step is launched again and again with no other work.
    """
    given = -(-vocabulary // PART) * chosen
    whole = 1 << (given - 1).bit_length()

    @lego.kernel(grid=B, block=128)
    def sample(
        best: lego.Tensor(f32, Row(B, given)),
        candidates: lego.Tensor(i32, Row(B, given), range=(0, vocabulary)),
        tokens: lego.Tensor(i32, Row(B)),
        positions: lego.Tensor(i32, Row(B)),
        written: lego.Tensor(i32, Row(B, MOST * PAGE)),
    ):
        b, position = lego.block_id[0], positions[lego.block_id[0]]
        top, place = lego.load(best, (1, whole), at=(b, 0), other=-math.inf).topk(chosen, axis=1)
        which = candidates.load(b, place, mask=(place >= 0) & (place < given))
        powers = lego.exp((top - top.max(axis=1)[:, None]) * (1 / temperature))
        sums = powers.cumsum(axis=1)
        word = lego.philox(position.to(u32), b, key=(seed, 0))[0]
        aim = powers.sum(axis=1) * ((word >> 8).to(f32) * 2.0**-24)
        taken = (sums <= aim[:, None]).to(i32).sum(axis=1)
        taken = lego.minimum(taken, chosen - 1)  # sums in another order may be less than the last
        token = lego.where(lego.arange((chosen,))[None, :] == taken[:, None], which, 0).sum(axis=1)
        token.store(tokens, at=(b,))
        lego.barrier()  # all threads have read the position
        with lego.when(lego.thread_id[0] == 0):
            positions[b] = position + 1
            with lego.when(position + 1 < MOST * PAGE):
                written[b, lego.index(position) + 1] = tokens[b]

    return sample
