"""Random products whose tiles, steps and branches come from memory, as kernels and as NumPy computes them.

A block computes one tile. The tile of A, that of B and the step along K are numbers: of the block, or loaded from
`data` at a number, straight, through another element, through a shared tile that one thread writes, or through a
register that a branch sets. The steps may stand in a branch, a loop or a `lego.while_`, and their count may be loaded.
`kernel_of` calls the words of the language; `values_of` follows the same description with integers.
"""

from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from ptx_runs import memories_of
from tiled_products import Tile, inputs

import lego_mlir as lego
from lego_mlir import Col, Row, f16, i32

T = Tile(64, 64, 16)
BLOCKS, TILES, STEPS = 4, 2, 2
NUMBERS = {
    "0": lambda block: 0 * block,
    "block": lambda block: block,
    "block // 2": lambda block: block // 2,
    "block % 2": lambda block: block % 2,
    "block // 4": lambda block: block // 4,
}
"""Numbers below BLOCKS, of a block."""
FORMS = ("straight", "indirect", "by one thread", "in a branch", "chosen")
AROUND = ("nothing",) * 4 + ("branch", "branch on a number", "loop", "while")


@dataclass(frozen=True)
class Product:
    """`row`, `column`, `depth`: (form, number), form None for a number that is not loaded; others likewise."""

    row: tuple[str | None, str]
    column: tuple[str | None, str]
    depth: tuple[str | None, str]
    around: tuple[str, str]
    steps: str | None
    schedule: str


def drawn(choose):
    """A description; places that blocks have in common are frequent, or most would be refused."""

    def place():
        if choose.random() < 0.75:
            return choose.choice((None, "straight", "indirect")), choose.choice(("0", "block // 2", "block // 4"))
        return choose.choice((None, *FORMS)), choose.choice(tuple(NUMBERS))

    blocks = choose.choice((2, 2, 4))
    steps = choose.choice((None,) * 6 + tuple(NUMBERS))
    around = choose.choice(AROUND), choose.choice(("0", "0", "0", *NUMBERS))
    words = [
        f"persistent(blocks={blocks})" if choose.random() < 0.3 else "",
        "warpgroups",
        "copied_out" if choose.random() < 0.3 else "",
        f"pipeline(stages={choose.choice((2, 3))})",
        f"clusters(blocks={blocks})" if choose.random() < 0.85 else "",
        "roles" if choose.random() < 0.7 else "",
    ]
    return Product(place(), place(), place(), around, steps, ", ".join(filter(None, words)))


def kernel_of(p):
    """The description as a kernel of BLOCKS tiles of 64 x 64, unscheduled."""

    @lego.kernel(grid=BLOCKS, block=T.threads)
    def product(
        a: lego.Tensor(f16, Row(TILES * 64, TILES * 64)), data: lego.Tensor(i32, Row(BLOCKS), range=(0, TILES)),
        b: lego.Tensor(f16, Col(TILES * 64, TILES * 64)), c: lego.Tensor(f16, Row(BLOCKS * 64, 64)),
    ):  # fmt: skip
        block, acc, (row, column) = lego.block_id.x, T.accumulator(), T.part_of_warp()
        (ta, tb), out = T.operands(), lego.shared(f16, Row(64, 64))
        of_a, of_b, first = (_place(data, block, *given) for given in (p.row, p.column, p.depth))
        steps = STEPS if p.steps is None else data[NUMBERS[p.steps](block)]
        with _around(p, data, block):
            for step in lego.range(steps):
                k = (first + step) % TILES
                lego.stage(a, (of_a, k), ta)
                lego.stage(b, (k, of_b), tb)
                lego.barrier()
                lego.mma(ta.part((row, 0), (64, 64)), tb.part((0, column), (64, T.columns)), acc)
                lego.barrier()
        acc.store(out, at=(row, column))
        lego.barrier()
        lego.store_tile(out, c, (block, 0))

    return product


def _place(data, block, form, number):
    at = NUMBERS[number](block)
    match form:
        case None:
            return at % TILES
        case "straight":
            return data[at]
        case "indirect":
            return data[data[at]]
        case "by one thread":
            held = lego.shared(i32, Row(1))
            with lego.when(lego.thread_id.x == 0):
                held[0] = data[at]
            lego.barrier()
            return lego.index(held[0], range=(0, TILES))
        case "in a branch":
            found = lego.register(i32, 0)
            with lego.when(block < 2):
                found.set(data[at])
            return lego.index(found.get(), range=(0, TILES))
    return lego.index(lego.where(lego.index(at) < 1, data[0], 1 - data[1]), range=(0, TILES))


@contextmanager
def _around(p, data, block):
    kind, number = p.around
    at = NUMBERS[number](block)
    match kind:
        case "branch":
            with lego.when(data[at] > 0):
                yield
        case "branch on a number":
            with lego.when(lego.index(at) < 1):
                yield
        case "loop":
            for _ in lego.range(data[at]):
                yield
        case "while":
            turn, running = lego.register(i32, 0), lego.register(lego.i1, data[at] > 0)
            with lego.while_(running):
                yield
                turn.set(turn.get() + 1)
                running.set(turn.get() < data[at])
        case _:
            yield


def values_of(p, a, data, b):
    """C as NumPy computes it, with the numbers of each block."""
    found = np.zeros((BLOCKS * 64, 64))
    for block in range(BLOCKS):
        of_a, of_b, first = (_number(data, block, *given) for given in (p.row, p.column, p.depth))
        kind, number = p.around
        at = NUMBERS[number](block)
        times = {"branch": data[at], "branch on a number": at < 1, "loop": data[at], "while": data[at]}.get(kind, 1)
        for step in range(STEPS if p.steps is None else int(data[NUMBERS[p.steps](block)])):
            k = (first + step) % TILES
            left = a[of_a * 64 :][:64, k * 64 :][:, :64]
            found[block * 64 :][:64] += times * (left @ b[k * 64 :][:64, of_b * 64 :][:, :64])
    return found


def _number(data, block, form, number):
    at = NUMBERS[number](block)
    match form:
        case None:
            return at % TILES
        case "indirect":
            return int(data[int(data[at])])
        case "in a branch":
            return int(data[at]) if block < 2 else 0
        case "chosen":
            return int(data[0] if at < 1 else 1 - data[1])
    return int(data[at])


def run(p, kernel, machine, seed):
    """The faults of a run with drawn data, and the largest difference of C to what NumPy computes."""
    given = inputs(kernel, seed)
    given["data"] = np.random.default_rng(seed).integers(0, TILES, BLOCKS).astype(np.int32)
    memories = memories_of(kernel, given)
    faults = machine(kernel, memories).faults
    want = values_of(p, given["a"].astype(float), given["data"], given["b"].astype(float))
    return faults, float(np.abs(memories["c"].astype(float).reshape(want.shape) - want).max())
