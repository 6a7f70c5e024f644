"""`lockstep`: copies of all blocks meet equally often, every second tile goes backwards, and values stay."""

import re

import numpy as np
import pytest
from tiled_products import PRODUCTS, Tile, after, emulated, interpreted, require, run

import lego_mlir as lego
from lego_mlir import Col, f16
from lego_mlir.errors import ScheduleError
from lego_mlir.expr.evaluate import evaluate
from lego_mlir.interp.ptx import PtxRun
from lego_mlir.kernels import matmul
from lego_mlir.kernels.matmul import ProductTile
from lego_mlir.schedule import grouped
from lego_mlir.toolchain import compile_kernel
from lego_mlir.tracing.schedules.scheduled import words_in
from lego_mlir.tracing.trace.marks import Meeting, RingCopy
from lego_mlir.tracing.trace.trace import For, If, statements_in

T = Tile(64, 64, 16)
PIPELINE = "persistent(blocks={blocks}), warpgroups, pipeline(stages=2), "


def plain(tiles=5, k=320, blocks=2, then="lockstep(every=2), roles"):
    kernel, reference = PRODUCTS["plain"](64 * tiles, 64, k, T)
    return after(kernel, PIPELINE.format(blocks=blocks) + then), reference


# -- what the trace says, enumerated


def loops_of(kernel):
    """The loop over tiles of the trace, the staged loop in it, and the condition of a meeting."""
    tiles = next(s for s in kernel.trace().body if isinstance(s, For))
    steps = next(s for s in tiles.body if isinstance(s, For))
    due = next(s for s in steps.body if isinstance(s, If) and any(words_in(s.then, Meeting)))
    return tiles, steps, due


def walked(kernel, block):
    """For each step of a block: its tile, its number, whether it meets, and the K that it copies from."""
    tiles, steps, due = loops_of(kernel)
    at = next(m.at[1] for _, m in words_in(steps.body, RingCopy))
    for tile in range(block, int(tiles.hi), int(tiles.step)):
        for step in range(int(steps.lo), int(steps.hi)):
            place = {str(tiles.lo): block, str(tiles.symbol): tile, str(steps.symbol): step}
            yield tile, step, bool(evaluate(due.condition, place)), int(evaluate(at, place)) // 64


@pytest.mark.parametrize(("tiles", "blocks", "every"), [(5, 2, 2), (7, 3, 4), (4, 4, 1), (9, 2, 64)])
def test_all_blocks_meet_as_often_and_at_the_same_steps(tiles, blocks, every):
    kernel, _ = plain(tiles, blocks=blocks, then=f"lockstep(every={every})")
    met = [[(tile // blocks, step) for tile, step, meets, _ in walked(kernel, b) if meets] for b in range(blocks)]
    assert all(of_one == met[0] for of_one in met)
    assert met[0] == [(r, k) for r in range(tiles // blocks) for k in range(0, 5, every)]


@pytest.mark.parametrize("back", [True, False])
def test_every_second_tile_takes_its_steps_backwards(back):
    kernel, _ = plain(7, blocks=2, then=f"lockstep(every=2, back={back})")
    for block in range(2):
        orders = {}
        for tile, _, _, taken in walked(kernel, block):
            orders.setdefault(tile, []).append(taken)
        for turn, order in enumerate(orders.values()):
            assert order == (list(reversed(range(5))) if back and turn % 2 else list(range(5)))


# -- values


@pytest.mark.parametrize("machine", [interpreted, emulated])
@pytest.mark.parametrize(
    ("tiles", "then"),
    [
        (5, "lockstep(every=2), roles"),
        (4, "lockstep(every=1), clusters(blocks=2), roles"),
        (4, "clusters(blocks=2), lockstep(every=2, back=False), roles, dependent"),
        (3, "lockstep(every=3)"),
    ],
)
def test_values_stay(tiles, then, machine):
    kernel, reference = plain(tiles, then=then)
    assert run(kernel, reference, machine) == ([], 0)


@pytest.mark.parametrize("name", ["two_sums", "gated", "row_maximum", "biased"])
def test_values_of_other_products_stay(name):
    kernel, reference = PRODUCTS[name](192, 64, 192, T)
    kernel = kernel.schedule(PIPELINE.format(blocks=2) + "lockstep(every=2), roles")
    require(kernel, reference, emulated)


def test_sizes_that_are_known_at_launch():
    m, n, k = (lego.size(name, multiple_of=8) for name in "MNK")
    kernel = matmul.build(m, n, k, f16, b=Col(k, n), tiling=ProductTile(64, 64, 64, (4, 1)), blocks=2)
    kernel = kernel.schedule("warpgroups, pipeline(stages=2), lockstep(every=2), roles")
    rng = np.random.default_rng(0)
    a = (rng.integers(-8, 9, (200, 264)) / 16).astype(np.float16)
    b = (rng.integers(-8, 9, (264, 72)) / 16).astype(np.float16)
    given = {"a": a.ravel(), "b": b.ravel(order="F"), "c": np.zeros(200 * 72, np.float32)}
    report = PtxRun(target="sm_90a")(kernel, given, {"M": 200, "N": 72, "K": 264})
    assert report.clean, report.faults[0]
    np.testing.assert_allclose(given["c"].reshape(200, 72), a.astype("f4") @ b.astype("f4"), atol=1e-5)


# -- the machine's code


def long_product(cluster):
    order = grouped(4, 6, rows=2, snake=True)
    kernel = matmul.build(512, 768, 2048, f16, b=Col(2048, 768), tiling=ProductTile(128, 128, 64, (8, 1)), order=order)
    shared = "clusters(blocks=2), " if cluster else ""
    return kernel.schedule(f"persistent(blocks=6), warpgroups, pipeline(stages=3), {shared}lockstep(every=8), roles")


@pytest.mark.parametrize("cluster", [False, True])
def test_one_thread_counts_its_block_or_cluster_in(cluster):
    text = compile_kernel(long_product(cluster), target="sm_90a").text
    assert ".global .align 8 .u64 matmul_arrivals;" in text
    before = re.search(r"((?:.*\n){12}).*atom\S*\.add\.u64\s+%rd\d+, \[matmul_arrivals\], 1;", text)
    assert before is not None
    assert "elect.sync" in before[1]
    participants = 3 if cluster else 6
    assert re.search(rf"mad\.lo\.s64 .*, {participants}, {participants};", text)
    polls = len(re.findall(r"ld\.relaxed\.gpu\S*\s+%rd\d+, \[matmul_arrivals\]", text))
    assert 0 < polls <= len(re.findall(r"setp\.lt\.u32 .*, 256;", text))  # each of them bounded
    assert ("%cluster_ctarank" in text) == cluster


def test_a_kernel_without_meetings_has_no_counter():
    kernel, _ = plain(then="roles")
    assert "arrivals" not in compile_kernel(kernel, target="sm_90a").text


def test_other_targets_and_counts_see_no_meeting():
    """It has no statements: what the interpreter runs is the kernel with its tiles backwards."""
    kernel, _ = plain(then="lockstep(every=1)")
    assert not any(s.then for s, _ in words_in(kernel.trace().body, Meeting))
    assert "arrivals" not in kernel.mlir()


# -- refusals


@pytest.mark.parametrize(
    ("product", "text", "message"),
    [
        ("plain", "warpgroups, pipeline(stages=2), lockstep", r"apply persistent\(blocks\) before lockstep"),
        ("plain", "persistent(blocks=2), warpgroups, lockstep", r"apply pipeline\(stages\) before lockstep"),
        ("plain", PIPELINE + "lockstep, lockstep", "meet already; apply lockstep once"),
        ("plain", PIPELINE + "lockstep, ahead", "the copies of blocks meet, .* apply roles"),
        ("symmetric", PIPELINE + "lockstep", "different numbers of these steps, .*; leave out lockstep"),
        ("doubled", PIPELINE + "lockstep", r"depends on the order of the steps, .*; use lockstep\(back=False\)"),
    ],
)
def test_a_refusal_names_a_line_and_the_remedy(product, text, message):
    kernel, _ = PRODUCTS[product](128, 128, 192, T)
    with pytest.raises(ScheduleError, match=rf"tiled_products\.py:\d+: .*{message}"):
        kernel.schedule(text.format(blocks=2))


def test_a_product_that_knows_its_step_takes_it_in_order():
    kernel, reference = PRODUCTS["doubled"](192, 64, 192, T)
    kernel = kernel.schedule(PIPELINE.format(blocks=2) + "lockstep(every=1, back=False), roles")
    assert run(kernel, reference, emulated) == ([], 0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lockstep(every=0)", "lockstep: every=0 must be an int from 1 to 65536"),
        ("lockstep(back=2)", "lockstep: back=2 must be True or False"),
    ],
)
def test_options(text, message):
    with pytest.raises(ScheduleError, match=message):
        plain(then=text)


def test_statements_of_a_meeting_are_of_the_copies():
    kernel, _ = plain()
    (role,) = [s for s in kernel.trace().body if isinstance(s, If) and any(words_in(s.then, Meeting))]
    assert [m.warp for _, m in words_in(role.then, Meeting)] == [4]
    assert role.mark.first == 4
    assert any(isinstance(s, If) and isinstance(s.mark, RingCopy) for s in statements_in(role.then))
