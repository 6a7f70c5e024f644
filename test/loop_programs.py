"""Random kernels with loops that copy tiles and use their elements: what `pipeline`, `ahead` and `roles` have to keep.

A kernel fills one to three shared tiles in each step, from rows and columns that are numbers, loaded, or in a register
that steps advance, and uses them in drawn ways: elements in branches and loops, through boundaries, in called
functions, with stores and updates of global memory that other threads read back after a barrier. The loop is plain,
stepped, descending, of a loaded count, nested, or followed by another. Numbers are small and whole.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import lego_mlir as lego
from lego_mlir import Row, f32, i32

COLUMNS = 8  # tiles beside each other in memory
USES = (
    "element", "element", "inner", "branch", "data", "boundary", "store", "read back", "update", "scratch", "function",
    "written by a function", "reduction",
)  # fmt: skip
LOOPS = ("plain", "plain", "from", "steps", "down", "data", "of block", "nested", "two")


@dataclass(frozen=True)
class Program:
    """`places`: of each tile, where its row and its column come from; `uses`: (use, tile, distance)."""

    threads: int
    shape: tuple[int, int]
    blocks: int
    loop: str
    count: int
    places: tuple[tuple[str, str], ...]
    uses: tuple[tuple[str, int, int], ...]
    schedule: str


def drawn(choose):
    tiles = choose.randint(1, 3)
    places = tuple(
        (choose.choice(("block", "zero", "loaded", "register")), choose.choice(("k", "k", "loaded", "last")))
        for _ in range(tiles)
    )
    uses = [(choose.choice(USES), choose.randrange(tiles), choose.randrange(8)) for _ in range(choose.randint(1, 4))]
    uses += [("element", tile, choose.randrange(8)) for tile in range(tiles)]
    choose.shuffle(uses)
    words = [
        f"persistent(blocks={choose.choice((1, 2))})" if choose.random() < 0.25 else "",
        f"pipeline(stages={choose.choice((2, 2, 3, 4))})",
        choose.choice(("", "ahead", "ahead", "roles", "roles")),
    ]
    return Program(
        choose.choice((32, 64, 128, 128, 256)), (choose.choice((8, 16, 32)), choose.choice((32, 64))),
        choose.choice((1, 2, 3)), choose.choice(LOOPS), choose.randint(1, 5), places, tuple(uses),
        ", ".join(filter(None, words)),
    )  # fmt: skip


@lego.function(inline=False)
def fetched(tile, i, j, value):
    return tile[i, j] + value


@lego.function(inline=False)
def put(memory, i, value):
    memory[i] = value


def kernel_of(p):
    """The program as a kernel, unscheduled."""
    rows, columns = p.shape

    @lego.kernel(grid=p.blocks, block=p.threads)
    def kernel(
        a: lego.Tensor(f32, Row(p.blocks * rows, COLUMNS * columns)),
        data: lego.Tensor(i32, Row(16), range=(0, COLUMNS)),
        which: lego.Tensor(i32, Row(16), range=(0, p.blocks)),
        counts: lego.Tensor(i32, Row(64)),
        y: lego.Tensor(f32, Row(p.blocks, 8 * 256)),
        z: lego.Tensor(f32, Row(p.blocks, p.threads)),
    ):
        t, block = lego.thread_id.x, lego.block_id.x
        acc, row = lego.register(f32, 0.0), lego.register(i32, 0)
        tiles = [lego.shared(f32, Row(rows, columns), f"tile{n}") for n in range(len(p.places))]
        scratch = lego.shared(f32, Row(p.threads), "scratch")

        def met(store, load):
            store()
            lego.barrier()
            acc.set(acc + load((t + 1) % p.threads))
            lego.barrier()

        def use(word, tile, distance, k):
            i, j = (t + distance) % rows, (t // 4 + distance + k) % columns
            match word:
                case "element":
                    acc.set(acc + tile[i, j])
                case "inner":
                    for column in lego.range(0, columns, 8):
                        acc.set(acc + tile[i, column])
                case "branch" | "data":
                    with lego.when(t < 16 + distance if word == "branch" else data[k] > distance % 4):
                        acc.set(acc * 0.5 + tile[i, j])
                case "boundary":
                    acc.set(acc + tile.halo("clamp")[i - 2, j])
                case "store":
                    y[block, k * 256 + t] = tile[i, j] + acc
                case "read back":
                    at = distance * 256
                    met(lambda: y.store(tile[i, j] + acc, block, at + t), lambda other: y[block, at + other])
                case "update":
                    counts.atomic_add(lego.where(tile[i, j] > 2, 1, 2), (t + distance) % 64)
                case "scratch":
                    met(lambda: scratch.store(tile[i, j], t), lambda other: scratch[other])
                case "function":
                    acc.set(fetched(tile, i, j, acc.get()))
                case "written by a function":
                    met(lambda: put(scratch, t, tile[i, j]), lambda other: scratch[other])
                case "reduction":
                    acc.set(acc * 0.5 + lego.block_reduce(tile[i, j]))

        def step(k):
            k = lego.index(k) % COLUMNS
            for tile, (of_row, of_column) in zip(tiles, p.places, strict=True):
                first = {"block": block, "zero": 0, "register": lego.index(row.get(), range=(0, 64)) % p.blocks}
                at = lego.index(which[k], range=(0, p.blocks)) if of_row == "loaded" else first[of_row]
                along = {"k": k, "last": COLUMNS - 1 - k, "loaded": lego.index(data[k], range=(0, COLUMNS))}[of_column]
                lego.copy_async(a, tile, at=(at * rows, along * columns))
            lego.commit_copies()
            lego.wait_copies()
            row.set((row + which[k] + 1) & 63)
            lego.barrier()
            for word, tile, distance in p.uses:
                use(word, tiles[tile], distance, k)
            lego.barrier()

        def steps(*bounds):
            for k in lego.range(*bounds):
                step(k)

        match p.loop:
            case "from":
                steps(2, 2 + p.count)
            case "steps":
                steps(0, 2 * p.count, 2)
            case "down":
                steps(p.count, 0, -1)
            case "data" | "of block":
                steps(lego.index(data[3 if p.loop == "data" else block], range=(0, COLUMNS)))
            case "nested":
                for outer in lego.range(2):
                    for k in lego.range(p.count):
                        step(k + outer)
            case _:
                steps(p.count)
        if p.loop == "two":
            steps(1, 3)
        z[block, t] = acc + row.get().to(f32)

    return kernel


def memories(p, seed):
    draw = np.random.default_rng(seed)
    rows, columns = p.shape
    return {
        "a": draw.integers(-4, 5, p.blocks * rows * COLUMNS * columns).astype(np.float32),
        "data": draw.integers(0, COLUMNS, 16).astype(np.int32),
        "which": draw.integers(0, p.blocks, 16).astype(np.int32),
        "counts": np.zeros(64, np.int32),
        "y": np.zeros(p.blocks * 8 * 256, np.float32),
        "z": np.zeros(p.blocks * p.threads, np.float32),
    }
