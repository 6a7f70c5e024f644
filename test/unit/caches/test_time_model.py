"""The time model: its parts by enumeration, its laws, and its agreement with published times."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench import schedule_model
from lego_mlir import schedule
from lego_mlir.caches import time_model, workloads
from lego_mlir.caches.simulation import rows
from lego_mlir.caches.time_model import Estimate, chip_named
from lego_mlir.caches.workloads import Boundary

H200, RTX_2080_SUPER = chip_named("h200"), chip_named("rtx2080super")
BLUR = workloads.stencil(4096, 4096, 9)


@pytest.mark.parametrize(
    ("width", "places", "passes"), [(4, 8, 8), (8, 4, 4), (16, 2, 2), (32, 1.88, 1), (48, 1.93, 1.37)]
)
def test_conflicts_of_columns(width, places, passes):
    order = schedule.columns(4096, 4096, width=width)
    assert time_model.conflicts(BLUR, order, 256)[:2] == pytest.approx((places, passes), rel=0.02)


@pytest.mark.parametrize(("width", "sectors"), [(16, 96), (32, 96), (64, 120), (128, 180), (256, 306), (None, 306)])
def test_sectors_of_a_block_are_those_of_the_closed_form(width, sectors):
    order = rows(4096) if width is None else schedule.columns(4096, 4096, width=width)
    assert time_model.block_sectors(BLUR, order, 256) == pytest.approx(sectors, rel=0.01)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 40), st.integers(1, 9), st.sampled_from(Boundary), st.sampled_from([1, 3, 5]))
def test_addresses_are_inside_the_arrays(width, height, boundary, size):
    boundary = Boundary.CLAMP if boundary == Boundary.NONE else boundary
    workload = workloads.stencil(width, height, size, boundary=boundary)
    x, y = rows(width)(np.arange(workload.tasks))
    for access in workload.accesses:
        address, real = workloads.addresses(workload, access, x, y)
        assert ((address[real] >= 0) & (address[real] < workload.bytes)).all()
        assert real.all() or boundary == Boundary.SKIP


def test_times_grow_with_what_they_are_made_of():
    order = schedule.columns(4096, 4096, width=32)
    free = time_model.estimate(BLUR, order, 256, H200)
    mapped = time_model.estimate(BLUR, order, 256, H200, mapping=35)
    assert mapped.mapping == pytest.approx(3.8)
    assert mapped.seconds > free.seconds
    assert time_model.estimate(BLUR, order, 256, H200, sectors=300).seconds > free.seconds
    few = time_model.estimate(BLUR, order, 1024, H200)
    assert few.seconds > free.seconds  # one block of 1024 threads an SM


def test_resident_blocks():
    assert [H200.resident(threads, 42) for threads in (64, 256, 1024)] == [21, 5, 1]
    assert H200.resident(1024, 32) == 2


def test_ranks_ignore_one_percent():
    def of(seconds):
        return Estimate(seconds, 0, 0, 0, 0, 0, 0)

    assert time_model.ranked({"a": of(1.001), "b": of(1.0), "c": of(0.9)}) == ["c", "a", "b"]


def test_simulated_sectors_of_a_stencil_are_near_those_of_its_blocks():
    workload = workloads.stencil(1024, 1024, 9)
    order = schedule.columns(1024, 1024, width=32)
    alone = time_model.block_sectors(workload, order, 256)
    assert 0.75 * alone < time_model.simulated_sectors(workload, order, 256, H200, sms=1) <= 1.1 * alone


@pytest.mark.parametrize(("title", "threads"), [("9x9 4096^2", 256), ("9x9 4037^2", 256)])
def test_the_model_chooses_the_published_best(title, threads):
    """Constants were fitted to the first row; the second was not used."""
    name, size, table = schedule_model.thesis_tables()[title]
    measured = {n: ms * 1e-3 for n, ms in table[threads].items() if n in ("naive", "8", "32", "48", "64", "128", "512")}
    orders = {n: schedule_model.order_named(n, size) for n in measured}
    predicted = schedule_model.predictions(schedule_model.workload_named(name, size), orders, threads, RTX_2080_SUPER)
    found = schedule_model.agreement(measured, predicted)
    assert found.choice == "32"
    assert found.loss == 0
    assert found.spearman > 0.9


def test_spearman():
    assert schedule_model.spearman([1, 2, 3], [10, 20, 30]) == pytest.approx(1)
    assert schedule_model.spearman([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    assert schedule_model.spearman([1, 1, 2], [1, 2, 3]) == pytest.approx(0.866, abs=1e-3)
