"""Routing of a mixture of experts: the best experts of each token, and the order in which experts take their tokens.

`top_experts` has the softmax of a token's scores and its K most probable experts. `permutation` sorts all M x K choices
by expert, those of one expert in their order, and pads each expert's part to whole tiles, as products by group take
them: `order` has the choice at each place, or N, their number, where there is none; `places` is its inverse, and
`of_tile` has the expert of each tile, or their number past the last one. Blocks count their choices, one block adds up
the counts, and blocks then place their choices: lanes of a warp with the same expert find each other by `match_any`.

lego-mlir run examples/language_models/routing.py --size M=100 --size N=3000
"""

import math
from functools import cache

import numpy as np

import lego_mlir as lego
from lego_mlir import Row, bf16, f32, i32, u32

ROWS = 4  # tokens of a block of `top_experts`, a warp each
THREADS, EACH = 256, 8  # threads of a block, and choices of each
WARPS, STEP = THREADS // 32, THREADS * EACH
M, N = lego.size("M"), lego.size("N", min=1, max=2**28)  # tokens; choices
BLOCKS = lego.cdiv(N, STEP)
TOGETHER = 16  # blocks whose counts are loaded at once


@lego.generic
def top_experts(T, E, K, among_chosen):
    """The K best of E experts by scores of T; the weights of a token's experts add up to 1 if `among_chosen`."""
    experts, chosen = (1 << (n - 1).bit_length() for n in (E, K))  # tiles of powers of two, masked at their ends

    @lego.kernel(grid=lego.cdiv(M, ROWS), block=32 * ROWS)
    def kernel(
        scores: lego.Tensor(T, Row(M, E)), weights: lego.Tensor(f32, Row(M, K)), which: lego.Tensor(i32, Row(M, K))
    ):
        at = (lego.block_id[0] * ROWS, 0)
        values = lego.load(scores, (ROWS, experts), at=at, other=-math.inf).to(f32)
        best, place = values.topk(chosen, axis=1)
        most = values.max(axis=1)[:, None]
        powers = lego.exp(best - most)
        of_all = lego.where(powers.index(1) < K, powers, 0.0) if among_chosen else lego.exp(values - most)
        (powers / of_all.sum(axis=1)[:, None]).store(weights, at=at)
        place.store(which, at=at)

    @kernel.reference(rtol=1e-5, atol=1e-7)
    def expected(scores):
        x = scores.astype(np.float64)
        which = np.argsort(-x, axis=1, kind="stable")[:, :K]
        powers = np.exp(x - x.max(1, keepdims=True))
        best = np.take_along_axis(powers, which, 1)
        return best / (best if among_chosen else powers).sum(1, keepdims=True), which.astype(np.int32)

    return kernel


@cache
def permutation(E, tile):
    """The choices of E experts in order, padded to tiles of this size. Raises ValueError for more than 256 experts."""
    if E > THREADS:
        raise ValueError(f"permutation has a thread for each expert: at most {THREADS}, got {E}")
    most = N + E * (tile - 1)  # places
    choices, of_blocks = lego.Tensor(i32, Row(N), range=(0, E)), lego.Tensor(i32, Row(BLOCKS, E))
    of_experts = lego.Tensor(i32, Row(E))
    places, tiles = lego.Tensor(i32, Row(most)), lego.Tensor(i32, Row(most // tile))

    @lego.kernel(grid=BLOCKS, block=THREADS, name=f"count_{E}")
    def count(choice: choices, counts: of_blocks):
        first, t, found = lego.block_id[0] * STEP, lego.thread_id[0], lego.shared(i32, Row(E), name="found")
        for e in lego.range(t, E, THREADS):
            found[e] = 0
        lego.barrier()
        for k in lego.unroll(EACH):
            with lego.when(first + k * THREADS + t < N):
                found.atomic_add(1, choice[first + k * THREADS + t])
        lego.barrier()
        for e in lego.range(t, E, THREADS):
            counts[lego.block_id[0], e] = found[e]

    @lego.kernel(grid=1, block=THREADS, name=f"add_up_{E}_{tile}")
    def add_up(
        counts: of_blocks, before: of_blocks, numbers: of_experts, starts: of_experts, order: places, of_tile: tiles
    ):
        e, total = lego.thread_id[0], lego.register(i32, 0)
        for first in lego.range(0, BLOCKS, TOGETHER):
            found = [counts.halo()[first + k, e] for k in range(TOGETHER)]  # 0 past the last block and expert
            for k, number in enumerate(found):
                before.halo()[first + k, e] = total.get()
                total += number
        whole = (total + (tile - 1)) // tile * tile
        start = lego.block_scan(whole, exclusive=True)
        rest = lego.index(lego.block_reduce(whole), range=(0, most + 1))
        for j in lego.range(rest + e, most, THREADS):
            order[j] = i32(N)
        for j in lego.range(rest // tile + e, most // tile, THREADS):
            of_tile[j] = E
        with lego.when(e < E):
            numbers[e], starts[e] = total.get(), start
            begin = lego.index(start, range=(0, most + 1))
            end = lego.index(start + whole, range=(0, most + 1))
            for j in lego.range(begin + lego.index(total.get(), range=(0, N + 1)), end):
                with lego.when(j < most):
                    order[j] = i32(N)
            for j in lego.range(begin // tile, end // tile):
                with lego.when(j < most // tile):
                    of_tile[j] = i32(e)

    @lego.kernel(grid=BLOCKS, block=THREADS, name=f"place_{E}")
    def place(choice: choices, before: of_blocks, starts: of_experts, order: places, places: lego.Tensor(i32, Row(N))):
        block, t, lane, warp = lego.block_id[0], lego.thread_id[0], lego.lane_id, lego.warp_id
        next_place = lego.shared(i32, Row(WARPS, E), name="next_place")
        for e in lego.range(t, WARPS * E, THREADS):
            next_place[e // E, e % E] = 0
        lego.barrier()
        entries = [block * STEP + warp * 32 * EACH + k * 32 + lane for k in range(EACH)]  # a warp has neighbours
        for n in entries:
            with lego.when(n < N):
                next_place.atomic_add(1, warp, choice[n])
        lego.barrier()
        for e in lego.range(t, E, THREADS):
            running = lego.register(i32, starts[e] + before[block, e])
            for w in lego.unroll(WARPS):
                own = next_place[w, e]
                next_place[w, e] = running.get()
                running += own
        lego.barrier()
        for n in entries:
            mine = lego.where(n < N, choice.halo()[n], E)  # past the end: of no expert
            peers = lego.match_any(mine)
            rank = i32(lego.popcount(peers & ((u32(1) << u32(lane)) - 1)))
            with lego.when(n < N):
                own = lego.index(next_place[warp, choice[n]] + rank, range=(0, most))
                places[n], order[own] = i32(own), i32(n)
            lego.warp_sync()
            with lego.when((rank == 0) & (n < N)):
                next_place[warp, choice[n]] += i32(lego.popcount(peers))
            lego.warp_sync()

    @lego.program
    def sorted_choices(
        choice: choices, numbers: of_experts, starts: of_experts, order: places, of_tile: tiles,
        places: lego.Tensor(i32, Row(N)),
    ):  # fmt: skip
        counts, before = (lego.empty(i32, Row(BLOCKS, E), name=name) for name in ("counts", "before"))
        count(choice, counts)
        add_up(counts, before, numbers, starts, order, of_tile)
        place(choice, before, starts, order, places)

    @sorted_choices.reference
    def expected(choice):
        numbers = np.bincount(choice, minlength=E)
        whole = -(-numbers // tile) * tile
        starts = np.cumsum(whole) - whole
        by_expert = np.argsort(choice, kind="stable")
        places = np.empty(len(choice), np.int32)
        places[by_expert] = np.concatenate([start + np.arange(n) for start, n in zip(starts, numbers, strict=True)])
        order = np.full(len(choice) + E * (tile - 1), len(choice))
        order[places] = np.arange(len(choice))
        of_tile = np.full(len(order) // tile, E)
        of_tile[: whole.sum() // tile] = np.repeat(np.arange(E), whole // tile)
        return numbers, starts, order, of_tile, places

    return sorted_choices


few, many = top_experts[f32, 8, 2, True], top_experts[bf16, 160, 6, False]
of_few, of_many = permutation(8, 16), permutation(160, 64)
