"""Warp roles, rings of barriers and tile copies: run in the interpreter, where every planted fault is found."""

import numpy as np
import pytest
from role_kernels import COLUMNS, ROWS, staged, stored

import lego_mlir as lego
from lego_mlir import Row, f32
from lego_mlir.errors import UsageError
from lego_mlir.interp.report import Kind
from lego_mlir.interp.traced_kernels import run_kernel


def run(kernel, rows=ROWS, columns=COLUMNS):
    x = np.random.default_rng(0).standard_normal((rows, columns)).astype(np.float16)
    y = np.full((ROWS, COLUMNS), 7, np.float16)
    report = run_kernel(kernel, {"x": x.reshape(-1), "y": y.reshape(-1)})
    return report, x * np.float16(2), y


def test_a_ring_between_a_producer_and_consumers():
    report, expected, y = run(staged())
    assert report.faults == []
    assert np.array_equal(y, expected)


def test_elements_outside_of_the_tensor_are_zeros():
    report, expected, y = run(staged(rows=100, columns=200), 100, 200)
    assert report.faults == []
    assert np.array_equal(y[:100, :200], expected)
    assert not y[100:].any() and not y[:, 200:].any()


@pytest.mark.parametrize(
    ("planted", "kind", "words"),
    [
        ({"full_wait": False}, Kind.RACE, "read of ring[0], written by a copy of warp 0"),
        ({"empty_wait": False}, Kind.PENDING, "copy of ring[0] while an asynchronous copy"),
        ({"arrival": False}, Kind.DEADLOCK, "2 of the 2 arrivals of phase 0 of barrier 0 are missing, and every other"),
        ({"early": True}, Kind.RACE, "copy of ring[0], read by warp 1"),
        ({"arrivals": 1}, Kind.MBARRIER, "2 arrivals at barrier 0, whose phase has 1 of 1 left"),
        ({"arrivals": 3}, Kind.DEADLOCK, "1 of the 3 arrivals"),
        ({"on_barrier": False}, Kind.PENDING, "read of ring[0] while an asynchronous copy"),
    ],
)
def test_planted_faults_are_found(planted, kind, words):
    report, _, _ = run(staged(**planted))
    found = [fault for fault in report.faults if fault.kind is kind and words in fault.message]
    assert found, [(fault.kind, fault.message) for fault in report.faults]
    assert found[0].place.file.endswith("role_kernels.py")


@pytest.mark.parametrize("groups", [1, 2])
def test_barriers_and_reductions_of_a_role_are_those_of_its_warps(groups):
    @lego.kernel(grid=(1,), block=160)
    def sums(x: lego.Tensor(f32, Row(160)), y: lego.Tensor(f32, Row(160))):
        with lego.warps(0, 1):
            y[lego.thread_id[0]] = 0.0
        with lego.warps(1 if groups == 1 else 2, 5 if groups == 1 else 4, groups=groups):
            y[lego.thread_id[0]] = lego.block_reduce(x[lego.thread_id[0]])

    x, y = np.arange(160, dtype=np.float32), np.full(160, -1, np.float32)
    report = run_kernel(sums, {"x": x, "y": y})
    assert report.faults == []
    if groups == 1:
        assert (y[32:] == x[32:].sum()).all()
    else:
        assert (y[64:96] == x[64:96].sum()).all() and (y[96:128] == x[96:128].sum()).all() and (y[128:] == -1).all()
    assert not y[:32].any()


def test_a_role_that_reads_another_ones_tile_without_a_barrier_is_a_race():
    @lego.kernel(grid=(1,), block=64)
    def unordered(y: lego.Tensor(f32, Row(32))):
        tile = lego.shared(f32, Row(32), "tile")
        with lego.warps(0, 1):
            tile[lego.lane_id] = 1.0
        with lego.warps(1, 2):
            y[lego.lane_id] = tile[lego.lane_id]

    report = run_kernel(unordered, {"y": np.zeros(32, np.float32)})
    assert any(f.kind is Kind.RACE and "written by warp 0" in f.message for f in report.faults)


def test_a_barrier_of_the_block_ends_the_roles():
    @lego.kernel(grid=(1,), block=64)
    def exchanged(y: lego.Tensor(f32, Row(64))):
        tile = lego.shared(f32, Row(64), "tile")
        with lego.warps(0, 1):
            tile[lego.lane_id] = 1.0
        with lego.warps(1, 2):
            tile[lego.lane_id + 32] = 2.0
        lego.barrier()
        y[lego.thread_id[0]] = tile[63 - lego.thread_id[0]]

    y = np.zeros(64, np.float32)
    assert run_kernel(exchanged, {"y": y}).faults == []
    assert (y[:32] == 2).all() and (y[32:] == 1).all()


@pytest.mark.parametrize("warps", [4, 8])
def test_shared_tiles_are_copied_to_global_memory(warps):
    y = np.zeros((100, 64), np.float16)
    assert run_kernel(stored(warps), {"y": y.reshape(-1)}).faults == []
    assert np.array_equal(y, (np.arange(64) + (np.arange(100)[:, None] >= 64)).astype(np.float16))


def test_the_module_carries_roles_and_tensor_maps():
    text = staged().mlir(locations=False)
    assert text.count("lego.warps = array<i32: 1, 3>") == 1
    assert "box = array<i64: 64, 64>" in text and "swizzle = 128" in text and "sizes = array<i64: 256, 128>" in text


def test_the_cpu_refuses_what_runs_concurrently():
    x, y = np.ones((ROWS, COLUMNS), np.float16), np.ones((ROWS, COLUMNS), np.float16)
    with pytest.raises(UsageError, match=r"warp roles and barriers in memory have no form on a CPU, .* check=True"):
        staged()(x, y)
    assert (staged()(x, y, check=True) == 2).all()
