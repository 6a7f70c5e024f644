"""What the models and the simulator of caches refuse, and with which message."""

from types import SimpleNamespace

import numpy as np
import pytest

from lego_mlir import Row
from lego_mlir.analysis import recorded_requests
from lego_mlir.caches import bounds, placement, simulation, space_time, time_model, workloads
from lego_mlir.caches.levels import CacheLevel
from lego_mlir.errors import UsageError

L1 = CacheLevel("L1", 1024)
BLUR = workloads.stencil(16, 16, 3)


def simulate(workload=BLUR, threads=32, levels=(L1,), **options):
    return simulation.simulate(workload, simulation.rows(16), threads, levels, **options)


@pytest.mark.parametrize("bad", [0, -1, 1.5, True])
def test_extents_are_positive_integers(bad):
    with pytest.raises(UsageError, match=r"stencil_columns: column must be a positive integer, got"):
        bounds.stencil_columns(16, 16, bad, bounds.Stencil(7, 7), 4)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CacheLevel("L1", 0), r"cache L1: capacity must be at least 1, got 0"),
        (lambda: CacheLevel("L1", 960, line=96), r"lines and sectors are powers of two, got 96 and 32 bytes"),
        (lambda: CacheLevel("L1", 64, line=16), r"1 to 32 whole sectors, got a line of 16 and sectors of 32 bytes"),
        (lambda: CacheLevel("L1", 1000), r"1000 bytes are not whole sets of 1 lines of 128 bytes"),
        (lambda: CacheLevel("L1", 1024, evicted_together=3), r"evicted_together must divide 8, got 3"),
        (lambda: CacheLevel("L1", 1024, fetched_together=3), r"fetched_together must divide 4, got 3"),
        (lambda: workloads.stencil(16, 16, 4), r"stencil: the window has a centre, so its size is odd, got 4"),
        (lambda: workloads.product(16, 0, 4), r"product: height must be at least 1, got 0"),
        (lambda: workloads.dense("f", 4, 4, [], element=4), r"dense: f needs at least one access, got none"),
        (
            lambda: workloads.dense("f", 4, 4, [workloads.TaskAccess(0, 4, 16, dx=-1)], element=4),
            r"reaches below address 0",
        ),
        (lambda: placement.round_robin(4, sms=0, slots=1), r"at least 1 block, SM and slot, got 4, 0 and 1"),
        (lambda: placement.recorded(np.array([[1]]), slots=1), r"one SM for each block, at least 0, got .*\(1, 1\)"),
        (lambda: placement.recorded(np.arange(3), np.arange(2), slots=1), r"3 blocks, but clocks of shape \(2,\)"),
        (lambda: simulate(levels=()), r"a hierarchy needs at least one level of cache, got none"),
        (lambda: simulate(levels=(L1, CacheLevel("L2", 1024, sector=64))), r"sectors of one size, got L1 32, L2 64"),
        (
            lambda: simulate(levels=(CacheLevel("L2", 1024, shared=True), L1)),
            r"one SM come before shared ones, got L2, L1",
        ),
        (lambda: simulate(threads=2048), r"a block has 1 to 1024 threads, got 2048"),
        (lambda: simulate(placement=placement.round_robin(3, sms=1, slots=1)), r"of 3 blocks, .* has 8 of 32 tasks"),
        (lambda: simulate(sample=[1]), r"the sample needs SMs within 0..0, got \[1\]"),
    ],
)
def test_a_refusal_gives_values_and_remedy(make, message):
    with pytest.raises(UsageError, match=message):
        make()


def test_a_recorded_workload_has_its_block():
    recorded = workloads.Recorded(np.zeros(17, np.int64), np.zeros((0, 4), np.int64), 2)
    workload = workloads.Workload("copy", 16, 16, (), 1024, 4, recorded=recorded)
    with pytest.raises(UsageError, match=r"copy was recorded with 2 warps in a block, not with 32 threads"):
        simulate(workload)


def test_diagrams_and_chips_refuse():
    wide = CacheLevel("L2", 1024, line=64, shared=True)
    with pytest.raises(UsageError, match=r"needs lines of one size, got L1 128, L2 64 bytes"):
        space_time.space_time(BLUR, simulation.rows(16), (L1, wide))
    with pytest.raises(UsageError, match=r"a spatial-temporal diagram of 1048576 tasks and 32768 lines has more than"):
        space_time.space_time(workloads.stencil(1024, 1024, 1), simulation.rows(1024), (L1,))
    with pytest.raises(UsageError, match=r"no constants were fitted for chip 'b200'; there are h200, rtx2080super"):
        time_model.chip_named("b200")
    with pytest.raises(UsageError, match=r"a layout of its 16 x 16 tasks, got .* of \(8, 8\)"):
        simulate_with(Row(8, 8))


def simulate_with(order):
    return simulation.simulate(BLUR, order, 32, (L1,))


def test_a_picture_has_a_known_suffix(tmp_path):
    from lego_mlir.viz.cache_diagram import CacheDiagram

    with pytest.raises(UsageError, match=r"a diagram is written as \.svg or \.png, got '\.jpg'"):
        CacheDiagram(8, 8).save(tmp_path / "a.jpg")


def test_a_trace_is_bounded_and_not_empty(monkeypatch):
    traces = recorded_requests.RecordedTraces({"x": 4096})
    with pytest.raises(UsageError, match=r"kernel k made no request of global memory"):
        traces.workload("k", 32)
    monkeypatch.setattr(recorded_requests, "MOST_ROWS", 3)
    site = SimpleNamespace(space="global", buffer="x", kind="read")
    traces(site, np.arange(32).reshape(1, 1, 32) * 128, None, 4)
    with pytest.raises(UsageError, match=r"more than 3 requests of lines; take fewer blocks \(--blocks N\)"):
        traces.finished(1, 1)
    with pytest.raises(UsageError, match=r"stencil 3x3 16x16 is not recorded"):
        recorded_requests.in_order(BLUR, [0])
