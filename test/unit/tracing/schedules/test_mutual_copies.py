"""Blocks of a cluster that copy the same number of bytes to each other: each expects all of them at its own barrier."""

import re
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
from tiled_products import PRODUCTS, Tile, after, emulated, interpreted, run

import lego_mlir as lego
from lego_mlir import Col, Row, f16, i1, i32
from lego_mlir.errors import InterpreterError, ScheduleError, TraceError
from lego_mlir.kernels import matmul
from lego_mlir.kernels.matmul import ProductTile
from lego_mlir.schedule import nested
from lego_mlir.toolchain import compile_kernel
from lego_mlir.transforms.passes import lower_tile_copies

T = Tile(64, 64, 16)
TILE_BYTES = 64 * 64 * 2
ROLES = "warpgroups, pipeline(stages=2), clusters(blocks={}), roles"


def clustered(blocks, text=ROLES):
    kernel, reference = PRODUCTS["plain"](64 * blocks, 64, 192, T)
    return after(kernel, text.format(blocks)), reference


@pytest.mark.parametrize("blocks", [2, 4])
def test_a_block_expects_what_all_blocks_copy_to_it(blocks):
    text = compile_kernel(clustered(blocks)[0], target="sm_90a").text
    assert "shared::cluster.b64 [there], " not in text  # bytes that are expected elsewhere
    expected = re.findall(r"mov\.b32\s+(%r\d+), (\d+);\n\s*mbarrier\.expect_tx\S*\s+\[[^]]*\], \1;", text)
    assert {int(count) for _, count in expected} == {TILE_BYTES}  # of A, its own, and of B, in parts from all blocks
    counts = re.findall(r"mov\.b32\s+%r\d+, (\d+);\n\s*mbarrier\.init", text)
    assert [int(n) for n in counts] == [1, blocks]  # one block fills a stage; all of them release it


def test_warps_that_all_copy_expect_bytes_in_each_block():
    kernel, reference = clustered(2, "warpgroups, pipeline(stages=2), clusters(blocks={})")
    assert "shared::cluster.b64 [there], " in compile_kernel(kernel, target="sm_90a").text
    assert run(kernel, reference, emulated) == ([], 0)


@pytest.mark.parametrize(("down", "across"), [(2, 2), (1, 4), (4, 2)])
def test_blocks_share_rows_and_columns(down, across):
    """Blocks in a row share A, those in a column B: each expects the parts of those that share with it alone."""
    m, n, k = 64 * down + 8, 64 * across - 8, 192
    order = nested(Row(-(-m // (64 * down)), 1), Col(down, across))
    kernel = matmul.build(m, n, k, f16, b=Col(k, n), result=f16, tiling=ProductTile(64, 64, 64, (4, 1)), order=order)
    text = (
        f"persistent(blocks={down * across}), warpgroups, copied_out, pipeline(stages=2), clusters(blocks={{}}), roles"
    )
    found = kernel.schedule(text.format(down * across))
    assert run(found, lambda a, b: a @ b, emulated) == ([], 0)
    text = compile_kernel(found, target="sm_90a").text
    assert text.count("multicast::cluster [") == 3 * ((down > 1) + (across > 1))  # in each step
    expected = re.findall(r"mov\.b32\s+(%r\d+), (\d+);\n\s*mbarrier\.expect_tx\S*\s+\[[^]]*\], \1;", text)
    assert {int(count) for _, count in expected} == {TILE_BYTES}


def experts(of, steps=lambda which: 1):
    """Tiles of A times the matrix of B that the data names: the tile's own, or one for all."""

    @lego.kernel(grid=2, block=T.threads)
    def product(
        a: lego.Tensor(f16, Row(128, 64)), which: lego.Tensor(i32, Row(2), range=(0, 2)),
        b: lego.Tensor(f16, Col(128, 64)), c: lego.Tensor(f16, Row(128, 64)),
    ):  # fmt: skip
        (ta, tb), out, at = T.operands(), lego.shared(f16, Row(T.m, T.n)), (lego.block_id.x, 0)
        acc, expert, (row, column) = T.accumulator(), which[of(lego.block_id.x)], T.part_of_warp()
        for step in lego.range(steps(which)):
            lego.stage(a, (at[0], step), ta)
            lego.stage(b, (expert + step, 0), tb)
            lego.barrier()
            lego.mma(ta.part((row, 0), (64, 64)), tb.part((0, column), (64, T.columns)), acc)
            lego.barrier()
        acc.store(out, at=(row, column))
        lego.barrier()
        lego.store_tile(out, c, at)

    def reference(a, which, b):
        return np.concatenate([a[64 * i :][:64] @ b[64 * int(which[of(i)]) :][:64] for i in range(2)])

    return product, reference


@pytest.mark.parametrize("machine", [interpreted, emulated])
def test_data_from_one_place_is_the_same_for_all_blocks(machine):
    kernel, reference = experts(lambda block: 0)
    found = kernel.schedule(ROLES.format(2))
    assert all(run(found, reference, machine, seed) == ([], 0) for seed in range(2))


def test_data_of_each_block_is_not_taken_for_common():
    with pytest.raises(ScheduleError, match="no tile is the same for 2 blocks that follow each other"):
        experts(lambda block: block)[0].schedule(ROLES.format(2))


@pytest.mark.parametrize("steps", [lambda which: which[lego.block_id.x], lambda which: 1 - lego.block_id.x])
def test_blocks_that_share_take_the_same_steps(steps):
    kernel, _ = experts(lambda block: 0, steps)
    with pytest.raises(ScheduleError, match=r"may differ between the 2 blocks of a cluster, .*leave out clusters"):
        kernel.schedule(ROLES.format(2))


def decided(around, written=False):
    """Two steps in what `around` opens for numbers in memory, which the kernel writes at its end if so."""

    @lego.kernel(grid=2, block=T.threads)
    def product(
        a: lego.Tensor(f16, Row(128, 64)), b: lego.Tensor(f16, Col(64, 64)), steps: lego.Tensor(i32, Row(2)),
        c: lego.Tensor(f16, Row(128, 64)),
    ):  # fmt: skip
        (ta, tb), acc, out, at = T.operands(), T.accumulator(), lego.shared(f16, Row(T.m, T.n)), (lego.block_id.x, 0)
        row, column = T.part_of_warp()
        with around(steps):
            for _ in lego.range(2):
                lego.stage(a, at, ta)
                lego.stage(b, (0, 0), tb)
                lego.barrier()
                lego.mma(ta.part((row, 0), (64, 64)), tb.part((0, column), (64, T.columns)), acc)
                lego.barrier()
        T.store(T.kept(acc, out), c, at)
        if written:
            with lego.when(lego.thread_id.x == 0):
                steps[0] = 0

    return product


@contextmanager
def once(steps):
    running = lego.register(i1, steps[0] > 0)
    with lego.while_(running):
        yield
        running.set(steps[1] > 0)


WAYS = {
    "one element": (lambda steps: lego.when(steps[0] > 0), {}, None),
    "a sum of elements": (lambda steps: lego.when(steps[0] + 2 * steps[1] > 3), {}, None),
    "an element that the kernel writes": (lambda steps: lego.when(steps[0] > 0), {"written": True}, "threads"),
    "an element of each block": (lambda steps: lego.when(steps[lego.block_id.x] > 0), {}, "condition"),
    "a register": (once, {}, "condition of this loop"),
}


@pytest.mark.parametrize("way", WAYS)
def test_blocks_of_a_cluster_have_to_go_one_way(way):
    around, more, refused = WAYS[way]
    kernel = decided(around, **more)
    if refused is None:
        assert kernel.schedule(ROLES.format(2)).cluster == (2,)
        return
    who = "differs between the threads" if refused == "threads" else f"the {refused} may differ between the 2 blocks"
    with pytest.raises((ScheduleError, TraceError), match=rf"\.py:\d+: .*{who}"):
        kernel.schedule(ROLES.format(2))


def test_blocks_of_a_cluster_take_equal_numbers_of_turns():
    @lego.kernel(grid=2, block=T.threads)
    def product(a: lego.Tensor(f16, Row(512, 64)), b: lego.Tensor(f16, Col(64, 64)), c: lego.Tensor(f16, Row(512, 64))):
        (ta, tb), acc, out = T.operands(), T.accumulator(), lego.shared(f16, Row(T.m, T.n))
        row, column = T.part_of_warp()
        for tile in lego.range(2 * lego.block_id.x, 8, 2):  # 4 turns and 3
            for step in lego.range(2):
                lego.stage(a, (tile, 0 * step), ta)
                lego.stage(b, (0 * step, 0), tb)
                lego.barrier()
                lego.mma(ta.part((row, 0), (64, 64)), tb.part((0, column), (64, T.columns)), acc)
                lego.barrier()
        T.store(T.kept(acc, out), c, (lego.block_id.x, 0))

    with pytest.raises(ScheduleError, match=r"may differ between the 2 blocks of a cluster"):
        product.schedule(ROLES.format(2))


@pytest.mark.parametrize(("blocks", "machine"), [(2, interpreted), (2, emulated), (4, emulated)])
def test_values_stay(blocks, machine):
    assert run(*clustered(blocks), machine) == ([], 0)


def test_bytes_that_are_not_expected_are_reported(monkeypatch, fresh_cache):
    """A block that expects its own part alone would multiply tiles whose other part is on its way."""
    described = lower_tile_copies._described
    alone = lambda *given: replace(found := described(*given), mutual=min(found.mutual, 1))  # noqa: E731
    monkeypatch.setattr(lower_tile_copies, "_described", alone)
    try:
        faults, _ = run(*clustered(2), emulated)
    except InterpreterError as error:
        assert re.search("wait|deadlock", str(error)), error
    else:
        assert faults
