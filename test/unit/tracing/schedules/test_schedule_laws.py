"""Laws of schedules: values stay, in any composition; those that must commute do; a block's tiles do not race."""

import random

import numpy as np
import pytest
from tiled_products import PRODUCTS, Tile, after, emulated, interpreted, require, run

import lego_mlir as lego
from lego_mlir import Col, Row, f16, f32
from lego_mlir.interp.ptx import PtxRun
from lego_mlir.kernels import matmul
from lego_mlir.kernels.matmul import ProductTile
from lego_mlir.tracing.trace.trace import Barrier

T = Tile(64, 64, 16)
LONG = pytest.mark.long


def some(values, pushed):
    """Parameters of which all but the first `pushed` run with --long."""
    return [pytest.param(v, marks=() if n < pushed else LONG) for n, v in enumerate(values)]


@pytest.mark.parametrize("stages", some([5, 2, 3, 4, 6], 1))
@pytest.mark.parametrize("rest", ["", ", roles"])
def test_a_pipeline_of_any_depth_keeps_values(stages, rest):
    kernel, reference = PRODUCTS["plain"](64, 64, 256, T)
    faults, difference = run(after(kernel, f"warpgroups, pipeline(stages={stages}){rest}"), reference, interpreted)
    assert (faults, difference) == ([], 0)


def drawn(seed):
    """A product, a composition that takes it, and a machine."""
    rng = random.Random(seed)
    name = rng.choice(sorted(PRODUCTS.keys() - {"softmax"}))  # whose rows are as many as its threads
    warpgroups = rng.random() < 0.5
    blocks = rng.randint(1, 2)
    parts = [f"persistent(blocks={blocks})"] if rng.random() < 0.3 else []
    parts.append("warpgroups" if warpgroups else "warps")
    parts += [f"exact(every={rng.randint(1, 4)})"] if rng.random() < 0.3 else []
    stages, resident = rng.randint(2, 4), bool(parts and parts[0].startswith("persistent"))
    parts.append(f"pipeline(stages={stages})")
    parts += [] if resident or rng.random() < 0.5 else ["overlay"]
    parts.append("roles" if warpgroups else "ahead")
    m = 128 if name == "symmetric" else 64 * rng.randint(1, 2)
    target = "sm_90a" if warpgroups else "sm_80"
    machine = rng.choice([interpreted, lambda kernel, memories: PtxRun(target=target)(kernel, memories, {})])
    return PRODUCTS[name](m, 64, 64 * rng.randint(1, 5), T), ", ".join(parts), machine


@pytest.mark.parametrize("seed", some(range(24), 1))
def test_drawn_compositions_keep_values(seed):
    (kernel, reference), schedule, machine = drawn(seed)
    require(kernel.schedule(schedule), reference, machine)


COMMUTING = [
    ("persistent(2), warpgroups", "warpgroups, persistent(2)"),
    ("warpgroups, exact(2), persistent(1)", "persistent(1), warpgroups, exact(2)"),
    ("warpgroups, pipeline(2), overlay, clusters(2), roles", "warpgroups, pipeline(2), clusters(2), overlay, roles"),
]


@pytest.mark.parametrize(("one", "other"), [pytest.param(*c, marks=() if n else LONG) for n, c in enumerate(COMMUTING)])
def test_schedules_of_different_things_commute(one, other):
    kernel, _ = PRODUCTS["plain"](128, 64, 128, T)
    assert kernel.schedule(one).mlir() == kernel.schedule(other).mlir()


@pytest.mark.parametrize(
    "order", ["warpgroups, copied_out, pipeline(2), roles", "warpgroups, pipeline(2), copied_out, roles"]
)
def test_results_are_copied_out_before_or_after_the_pipeline(order):
    kernel = matmul.build(
        64, 72, 128, f16, b=Col(128, 72), result=f16, tiling=ProductTile(m=64, n=64, k=64, warps=(1, 4))
    )
    require(kernel.schedule(order), lambda a, b: a @ b, emulated)


# -- a shared tile of the block, in each of its tiles of the grid


def flipped(*, first=False, steps=1):
    """Each row backwards through a shared row; with `first`, a barrier begins the kernel."""

    @lego.kernel(grid=4, block=128)
    def flip(a: lego.Tensor(f32, Row(4, 128)), b: lego.Tensor(f32, Row(4, 128))):
        row, i = lego.shared(f32, Row(128)), lego.thread_id.x
        for _ in lego.range(steps):
            if first:
                lego.barrier()
            row[i] = a[lego.block_id.x, i]
            lego.barrier()
            b[lego.block_id.x, i] = row[127 - i]

    return flip


def barriers(kernel):
    return sum(isinstance(s, Barrier) for s in kernel.trace().statements())


@pytest.mark.parametrize(("options", "more"), [({}, 1), ({"first": True}, 0), ({"first": True, "steps": 0}, 0)])
def test_a_persistent_block_meets_where_its_tiles_share_memory(options, more):
    kernel = flipped(**options)
    scheduled = kernel.schedule("persistent(blocks=2)")
    assert barriers(scheduled) == barriers(kernel) + more
    a = np.arange(512, dtype=np.float32).reshape(4, 128)
    if options.get("steps") != 0:
        np.testing.assert_array_equal(scheduled(a, check=True), a[:, ::-1])


def test_tiles_that_barriers_order_need_no_other_one():
    kernel, _ = PRODUCTS["plain"](128, 64, 128, T)
    assert barriers(kernel.schedule("persistent(blocks=2)")) == barriers(kernel)


@pytest.mark.parametrize(
    "text", ["warpgroups, pipeline(2), persistent(1)", "warpgroups, pipeline(2), roles, persistent(1)"]
)
def test_rings_of_a_tile_are_not_made_again(text):
    kernel, _ = PRODUCTS["plain"](128, 64, 128, T)
    with pytest.raises(
        lego.errors.ScheduleError, match=r"\.py:\d+: the kernel has rings already, .* apply persistent be"
    ):
        kernel.schedule(text)
