"""What the interpreter records is what the layout says: both workloads simulate to the same counts."""

import numpy as np
import pytest

from lego_mlir import f32, interp, schedule
from lego_mlir.analysis.recorded_requests import RecordedTraces, in_order
from lego_mlir.caches import placement, simulation, workloads
from lego_mlir.caches.levels import CacheLevel
from lego_mlir.caches.simulation import Interleaving
from lego_mlir.kernels import dot_products

L1 = CacheLevel("L1", 64 * 128)


def traced(kernel, arrays, blocks=None):
    traces = RecordedTraces({name: array.nbytes for name, array in arrays.items()})
    interp.run_kernel(kernel, arrays, {}, blocks=blocks, checks=False, observe=traces, progress=traces.finished)
    return traces


@pytest.mark.parametrize("width", [None, 8, 32])
@pytest.mark.parametrize("kind", [Interleaving.SEQUENTIAL, Interleaving.FIFO])
def test_a_traced_product_is_the_workload_of_its_layouts(width, kind):
    m, n, k = 24, 40, 16
    order = schedule.columns(m, n, width=width or n)
    kernel = dot_products.build(m, n, k, f32, order=order, threads=64)
    arrays = {name: np.ones(size, np.float32) for name, size in (("a", m * k), ("b", k * n), ("c", m * n))}
    recorded = traced(kernel, arrays).workload("product", 64)
    exact = workloads.product(n, m, k)
    blocks = -(-m * n // 64)
    placed = placement.scattered(blocks, sms=2, slots=2)
    found = [
        simulation.simulate(w, o, 64, (L1,), placement=placed, interleaving=kind, hit=0, miss=0)
        for w, o in ((recorded, simulation.rows(recorded.width)), (exact, order))
    ]
    assert found[0].instructions == found[1].instructions
    assert found[0].compulsory == found[1].compulsory
    assert found[0].levels[0].reads == found[1].levels[0].reads
    if kind == Interleaving.SEQUENTIAL:  # the kernel loads 8 products of A, then of B: warps wait at other places
        assert found[0].levels[0].fetched == found[1].levels[0].fetched


def test_blocks_in_another_order_make_the_same_requests():
    m, n, k = 16, 64, 8
    kernel = dot_products.build(m, n, k, f32, threads=32)
    arrays = {name: np.ones(size, np.float32) for name, size in (("a", m * k), ("b", k * n), ("c", m * n))}
    recorded = traced(kernel, arrays).workload("product", 32)
    turned = in_order(recorded, np.arange(32)[::-1])
    found = [
        simulation.simulate(w, simulation.rows(w.width), 32, (L1,), interleaving=Interleaving.SEQUENTIAL)
        for w in (recorded, turned)
    ]
    assert found[0].levels[0].reads == found[1].levels[0].reads
    assert found[0].compulsory == found[1].compulsory
    assert np.array_equal(in_order(turned, np.arange(32)[::-1]).recorded.rows, recorded.recorded.rows)


def test_a_part_of_the_blocks():
    kernel = dot_products.build(16, 64, 8, f32, threads=32)
    arrays = {name: np.ones(size, np.float32) for name, size in (("a", 128), ("b", 512), ("c", 1024))}
    recorded = traced(kernel, arrays, blocks=range(5)).workload("product", 32)
    assert recorded.tasks == 5 * 32
    assert recorded.recorded.starts.size == 6
