"""Products as users write them through `matmul_sm80.mlir`: right values, no race, tensor cores, nothing spilled."""

import re

import numpy as np
import pytest
from assembling import needs_ptxas
from tiled_products import PRODUCTS, Tile, interpreted, require, run

import lego_mlir as lego
from lego_mlir import Col, Row, f16, f32, i32
from lego_mlir.errors import ScheduleError
from lego_mlir.hardware.targets import target_named
from lego_mlir.interp.ptx import PtxRun
from lego_mlir.interp.traced_kernels import run_kernel
from lego_mlir.kernels import matmul
from lego_mlir.kernels.matmul import ProductTile
from lego_mlir.toolchain import compile_kernel, ptxas
from lego_mlir.tracing.schedules.replay import Replay
from lego_mlir.tracing.schedules.scheduled import Scheduled, words_in
from lego_mlir.tracing.trace.marks import TileProduct
from lego_mlir.tracing.trace.trace import Barrier, MlirOperation

SMALL = Tile(64, 64, 32)
SCRIPT, STAGES = "matmul_sm80.mlir", {"stages": 2}


def products(*pushed):
    """All names; those that are not `pushed` run with --long."""
    return pytest.mark.parametrize(
        "name", [pytest.param(n, marks=() if n in pushed else pytest.mark.long) for n in PRODUCTS]
    )


def made(name, tile=SMALL, steps=3):
    m = tile.m * (2 if name == "symmetric" else 1)
    return PRODUCTS[name](m, m, 64 * steps, tile)


def emulated(kernel, memories):
    return PtxRun(target="sm_80")(kernel, memories, {})


def interpreted_after_script(kernel, memories):
    module = compile_kernel(kernel, target="sm_80", transform=SCRIPT, parameters=STAGES, emit="transformed").text
    return run_kernel(kernel, memories, module=module, counts=False)


def emulated_after_script(kernel, memories):
    return PtxRun("sm_80", SCRIPT, STAGES)(kernel, memories, {})


@products("two_sums", "doubled", "symmetric")  # loops that share tiles, stores of threads, a loop in a branch
def test_values_and_races(name):
    kernel, reference = made(name)
    require(kernel, reference, interpreted_after_script)
    require(kernel, reference, emulated_after_script)


@needs_ptxas
@products("doubled")
def test_instructions_and_registers(name):
    kernel, _ = made(name, Tile(columns=32) if name == "gated" else Tile())  # two sums in a thread's registers
    text = compile_kernel(kernel, target="sm_80", transform=SCRIPT, parameters=STAGES).text
    assert "cp.async.cg.shared.global" in text
    assert re.search(r"\bmma\.sync", text)
    assert "ldmatrix" in text
    assert "mbarrier" not in text
    _, (resources,) = ptxas.assemble(text, target_named("sm_80"))
    assert resources.spill_stores == resources.spill_loads == 0


@pytest.mark.parametrize(("stages", "steps"), [(4, 1), (2, 3), pytest.param(6, 9, marks=pytest.mark.long)])
def test_loops_shorter_and_longer_than_the_ring(stages, steps):
    kernel, reference = made("plain", steps=steps)
    require(kernel.schedule(f"warps, pipeline(stages={stages}), overlay, ahead"), reference, interpreted, 0)


def test_a_persistent_block_fills_the_stages_again():
    kernel, reference = PRODUCTS["plain"](128, 64, 128, SMALL)
    require(kernel.schedule("persistent(blocks=1), warps, pipeline(stages=2), ahead"), reference, interpreted)


@pytest.mark.parametrize("order", [Row, pytest.param(Col, marks=pytest.mark.long)])
def test_the_shipped_product_at_sizes_that_tiles_do_not_divide(order):
    kernel = matmul.build(
        72, 136, 96, f16, b=order(96, 136), result=f16, tiling=ProductTile(m=64, n=64, k=32, warps=(2, 2))
    )
    require(kernel.schedule("warps, pipeline(stages=3), ahead"), lambda a, b: a @ b, emulated)


def test_steps_that_are_read_from_memory_and_a_register_that_the_loop_changes():
    """The copies follow a list of steps, and the stride of a running sum: both run ahead of the products."""
    m, n, k = 64, 64, 256

    @lego.kernel(grid=1, block=SMALL.threads)
    def listed(
        a: lego.Tensor(f16, Row(m, k)), steps: lego.Tensor(i32, Row(4), range=(0, 4)), b: lego.Tensor(f16, Col(k, n)),
        c: lego.Tensor(f16, Row(m, n)),
    ):  # fmt: skip
        (ta, tb), out = SMALL.operands(), lego.shared(f16, Row(m, n))
        acc = SMALL.accumulator()
        row, column = SMALL.part_of_warp()
        last = lego.register(i32, 0)
        for turn in lego.range(4):
            lego.stage(a, (0, lego.index(steps[turn], range=(0, 4))), ta)
            lego.stage(b, (lego.index(last, range=(0, 4)), 0), tb)
            last.set(last + 1)
            lego.barrier()
            lego.mma(ta.part((row, 0), (64, 64)), tb.part((0, column), (64, 32)), acc)
            lego.barrier()
        acc.store(out, at=(row, column))
        lego.barrier()
        SMALL.store(out, c, (0, 0))

    def reference(a, steps, b):
        each = np.split(a, 4, axis=1)
        return sum(each[int(s)] @ part for s, part in zip(steps, np.split(b, 4), strict=True))

    require(listed.schedule("warps, pipeline(stages=3), ahead"), reference, interpreted)


class Without(Replay):
    """The kernel without the statements, in loops with a product, that `without` chooses."""

    def __init__(self, without):
        self.without = without

    def loop(self, loop):
        inside = any(words_in(loop.body, TileProduct))
        body = tuple(s for s in loop.body if not (inside and self.without(s)))
        super().loop(type(loop)(loop.symbol, loop.lo, loop.hi, loop.step, body, loop.source))


def named(name):
    return lambda s: isinstance(s, MlirOperation) and s.name == name


WORDS = {
    "wait": named("nvvm.cp.async.wait.group"),
    "commit": named("nvvm.cp.async.commit.group"),
    "barrier": lambda s: isinstance(s, Barrier),
}


@pytest.mark.parametrize("machine", [interpreted, emulated])
@pytest.mark.parametrize("word", WORDS)
def test_a_word_that_is_left_out_is_reported(word, machine):
    kernel, reference = made("plain", steps=4)
    found = Scheduled(kernel.schedule("warps, pipeline(stages=2), ahead"), Without(WORDS[word]), "without")
    faults, _ = run(found, reference, machine)
    assert faults


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ahead", r"no copy of this kernel completes on a ring; apply pipeline\(stages\) before ahead"),
        ("warps, pipeline(stages=2), ahead, roles", "no copy of this kernel completes on a ring; apply pipeline"),
        (
            "warps, pipeline(stages=2), clusters(blocks=2), ahead",
            "the blocks of a cluster share this copy; apply roles",
        ),
    ],
)
def test_messages(text, message):
    kernel, _ = PRODUCTS["plain"](128, 64, 128, SMALL)
    with pytest.raises(ScheduleError, match=rf"\.py:\d+: .*{message}"):
        kernel.schedule(text)


def test_three_warps_along_an_axis():
    kernel = matmul.build(96, 96, 96, f16, tiling=ProductTile(m=96, n=96, k=96, warps=(3, 1)))
    with pytest.raises(ScheduleError, match=r"\d: 3 warps divide the rows of a product; use a power of two of them"):
        kernel.schedule("warps")


def test_copies_of_the_kernel_itself():
    @lego.kernel(grid=1, block=SMALL.threads)
    def own(a: lego.Tensor(f16, Row(64, 64)), b: lego.Tensor(f16, Col(64, 64)), c: lego.Tensor(f32, Row(64, 64))):
        (ta, tb), out, other = SMALL.operands(), lego.shared(f32, Row(64, 64)), lego.shared(f16, Row(64, 64))
        acc = SMALL.accumulator()
        lego.copy_async(a, other)
        lego.commit_copies()
        lego.wait_copies()
        SMALL.multiply(a, b, ta, tb, acc, (0, 0), 64)
        acc.store(out, at=SMALL.part_of_warp())
        lego.barrier()
        for i, j in SMALL.elements():
            c[i, j] = out[i, j]

    with pytest.raises(ScheduleError, match="asynchronous copies of its own, which ahead would not wait for; apply ro"):
        own.schedule("warps, pipeline(stages=2), ahead")
