"""Warps on SMs: the simulator against a plain one, and the laws that do not depend on the interleaving."""

import heapq
from dataclasses import replace

import numpy as np
import pytest
from cache_reference import NAMES, Hierarchy
from hypothesis import given, settings
from hypothesis import strategies as st

from lego_mlir.caches import placement, simulation, workloads
from lego_mlir.caches.levels import CacheLevel, Eviction, WritePolicy
from lego_mlir.caches.simulation import Interleaving, simulate
from lego_mlir.caches.workloads import Boundary, TaskAccess

L1 = CacheLevel("L1", 12 * 128)
L2 = CacheLevel("L2", 64 * 128, ways=4, shared=True, write=WritePolicy.BACK, fetched_together=2)


def columns(width, height, column):
    def order(i):
        c = i // (height * column)
        w = np.minimum(column, width - c * column)
        r = i - c * height * column
        return c * column + r % w, r // w

    return order


def inside(v, n, boundary):
    match boundary:
        case Boundary.NONE:
            return v
        case Boundary.CLAMP:
            return min(max(v, 0), n - 1)
        case Boundary.MIRROR:
            period = [*range(n), *range(n - 2, 0, -1)] if n > 1 else [0]
            return period[v % len(period)]
        case Boundary.WRAP:
            return v % n
        case Boundary.SKIP:
            return v if 0 <= v < n else None


def coalesced(workload, access, tasks, level):
    """Lines and sectors of one instruction, in the order of the lanes."""
    found = {}
    for x, y in tasks:
        column, row = (
            inside(v + d, n, access.boundary)
            for v, d, n in ((x, access.dx, access.width), (y, access.dy, access.height))
        )
        if column is None or row is None:
            continue
        if access.table >= 0:
            address = access.base + access.across * int(workload.positions[access.table + row * access.width + column])
        else:
            address = access.base + access.across * column + access.down * row
        sector = address // level.sector
        found.setdefault(sector // level.sectors, set()).add(sector % level.sectors)
    return [(line, sectors, access.store) for line, sectors in found.items()]


def plain(workload, order, threads, levels, placed, kind, hit, miss):
    """Counters and clocks of all SMs; without RANDOM. Written for few blocks."""
    xs, ys = order(np.arange(workload.tasks))
    caches = Hierarchy(levels, placed.sms)
    private = sum(not level.shared for level in levels)
    shared, clocks = [], []
    for sm in range(placed.sms):
        blocks = [b for b in placed.start if placed.sm[b] == sm]
        clock, number, ready, slots, current = 0, 0, [], {}, None
        left = list(blocks)
        while True:
            for slot in range(placed.slots):
                if slot not in slots and left:
                    block = left.pop(0)
                    first = block * threads
                    warps = [range(w, min(w + 32, first + threads)) for w in range(first, first + threads, 32)]
                    slots[slot] = len(warps)
                    for w in warps:
                        tasks = [(int(xs[i]), int(ys[i])) for i in w if i < workload.tasks]
                        heapq.heappush(ready, (clock + hit, 0, number, [slot, tasks, 0]))
                        number += 1
            if current is None:
                if not ready:
                    break
                when, _, _, current = heapq.heappop(ready)
                clock = max(clock, when)
            slot, tasks, pc = current
            missed = False
            for access in workload.accesses[pc : pc + workload.together]:
                requests = coalesced(workload, access, tasks, levels[0])
                clock += max(len(requests), 1)
                passed = [q for r in requests for q in caches.request(sm, [r], 0, 1 if private else 0)]
                passed = caches.request(sm, passed, 1, private) if private > 1 else passed
                missed |= any(not store for _, _, store in passed)
                shared += [(clock, sm, len(shared), r) for r in passed]
            current[2] = pc + workload.together
            if current[2] >= len(workload.accesses):
                slots[slot] -= 1
                if not slots[slot]:
                    del slots[slot]
                current = None
            elif not (kind == Interleaving.SEQUENTIAL or (kind == Interleaving.GREEDY and not missed)):
                heapq.heappush(ready, (clock + (miss if missed else hit), int(missed), number, current))
                number, current = number + 1, None
        clocks.append(clock)
    for _, _, _, request in sorted(shared, key=lambda found: found[0]):
        caches.request(0, [request], private)
    return caches.counts(), clocks


WORKLOADS = {
    "stencil": workloads.stencil(37, 11, 3),
    "mirrored": workloads.stencil(40, 9, 5, boundary=Boundary.MIRROR, element=2),
    "wrapped": workloads.stencil(33, 8, 3, boundary=Boundary.WRAP, element=8),
    "skipped": workloads.stencil(33, 8, 3, boundary=Boundary.SKIP),
    "product": workloads.product(40, 12, 9),
    "dense": workloads.dense(
        "shift", 33, 7, [TaskAccess(128, 4, 160, dx=-1, dy=1), TaskAccess(2048, 8, 320, store=True)], element=4
    ),
}


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from(list(WORKLOADS)),
    st.sampled_from([7, 32, 64, 96]),
    st.integers(1, 3),
    st.integers(1, 3),
    st.sampled_from([Interleaving.FIFO, Interleaving.GREEDY, Interleaving.SEQUENTIAL]),
    st.sampled_from([(0, 0), (5, 40), (30, 300)]),
    st.integers(3, 50),
    st.sampled_from([(L1,), (L1, L2), (L2,), (L1, replace(L1, name="L1b", capacity=40 * 128), L2)]),
)
def test_the_plain_simulator_agrees(name, threads, sms, slots, kind, latency, column, levels):
    workload = WORKLOADS[name]
    order = columns(workload.width, workload.height, column)
    blocks = -(-workload.tasks // threads)
    placed = placement.scattered(blocks, sms=sms, slots=slots, seed=1)
    hit, miss = latency
    found = simulate(
        workload, order, threads, levels, placement=placed, interleaving=kind, hit=hit, miss=miss, workers=2
    )
    counts, clocks = plain(workload, order, threads, levels, placed, kind, hit, miss)
    for level, wanted in zip(found.levels, counts, strict=True):
        if level.name != "L2" or sms == 1:
            assert {n: getattr(level, n) for n in NAMES} == wanted
        else:  # requests of one clock reach a shared level in any order of the SMs
            assert {n: getattr(level, n) for n in ("reads", "writes")} == {n: wanted[n] for n in ("reads", "writes")}
    assert list(found.clocks) == clocks


@pytest.mark.parametrize("kind", Interleaving)
def test_what_no_interleaving_changes(kind):
    workload = WORKLOADS["stencil"]
    order = columns(37, 11, 8)
    huge = (CacheLevel("L1", 1 << 20), CacheLevel("L2", 1 << 20, shared=True))
    placed = placement.scattered(13, sms=3, slots=2)
    found = simulate(workload, order, 32, huge, placement=placed, interleaving=kind)
    assert found.instructions == 13 * 10
    assert found.levels[1].fetched == found.compulsory == -(-37 * 11 * 4 // 32)
    assert found.levels[0].fetched == found.levels[1].reads >= found.compulsory
    assert found.written == found.levels[0].writes if 37 % 8 == 0 else found.written == -(-37 * 11 * 4 // 32)


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 2000), st.integers(1, 3), st.sampled_from(Interleaving))
def test_the_size_of_a_batch_changes_nothing(batch, workers, kind):
    workload, placed = WORKLOADS["stencil"], placement.scattered(13, sms=3, slots=2)
    order = columns(37, 11, 8)
    arguments = {"placement": placed, "interleaving": kind, "workers": workers}
    whole = simulate(workload, order, 32, (L1,), **arguments)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(simulation, "BATCH_TASKS", batch)
        patch.setattr(simulation, "OUT_ROWS", batch)
        parts = simulate(workload, order, 32, (L1, L2), **arguments)
    assert parts.levels[0] == whole.levels[0]
    assert parts.clocks == whole.clocks


def test_a_sample_of_sms_counts_what_they_count_in_the_whole():
    workload, placed = WORKLOADS["stencil"], placement.scattered(13, sms=3, slots=2)
    run = [
        simulate(workload, columns(37, 11, 8), 32, (L1,), placement=placed, sample=sample)
        for sample in (None, [0], [1], [2])
    ]
    assert run[0].levels[0].fetched == sum(part.levels[0].fetched for part in run[1:])
    assert run[0].clocks == tuple(part.clocks[0] for part in run[1:])


def test_a_layout_moves_the_addresses():
    class ColumnMajor:
        def apply(self, row, column):
            return column * 8 + row

    strided = workloads.dense("columns", 16, 8, [TaskAccess(0, 32, 4), TaskAccess(512, 4, 64, store=True)], element=4)
    table = workloads.stencil(16, 8, 1, layout=ColumnMajor())
    found = [simulate(w, simulation.rows(16), 32, (L1,)).levels[0] for w in (strided, table)]
    assert found[0].reads == found[1].reads
    assert found[0].fetched == found[1].fetched


def test_a_recorded_workload_replays_its_requests():
    workload = WORKLOADS["stencil"]
    order = columns(37, 11, 8)
    xs, ys = order(np.arange(workload.tasks))
    starts, rows = [0], []
    for warp in range(13):
        lanes = [(int(xs[i]), int(ys[i])) for i in range(warp * 32, min(warp * 32 + 32, workload.tasks))]
        for access in workload.accesses:
            found = coalesced(workload, access, lanes, L1)
            rows += [
                (line, sum(1 << s for s in sectors), store, k == len(found) - 1)
                for k, (line, sectors, store) in enumerate(found)
            ]
        starts.append(len(rows))
    replayed = replace(workload, recorded=workloads.Recorded(np.array(starts), np.array(rows, np.int64), 1))
    placed = placement.scattered(13, sms=3, slots=2)
    both = [simulate(w, order, 32, (L1, L2), placement=placed) for w in (workload, replayed)]
    assert both[0] == both[1]


def test_a_recorded_placement_is_replayed_in_the_order_of_its_clocks():
    sm, clock = np.array([7, 3, 7, 3]), np.array([4, 3, 2, 1])
    placed = placement.recorded(sm, clock, slots=1)
    assert placed.sm.tolist() == [1, 0, 1, 0]
    assert placed.start.tolist() == [3, 2, 1, 0]
    assert placed.sms == 2


def test_progress_counts_blocks():
    seen = []
    simulate(WORKLOADS["stencil"], simulation.rows(37), 32, (L1,), progress=lambda *n: seen.append(n))
    assert seen[-1] == (13, 13)


def test_random_eviction_fetches_more_than_lru_on_a_stream_that_fits():
    cached = CacheLevel("L1", 16 * 32, line=32, sector=32)
    random = replace(cached, eviction=Eviction.RANDOM, evicted_together=4)
    loop = workloads.dense("loop", 1, 40, [TaskAccess(32 * k, 0, 0) for k in range(16)], element=4)
    counts = [
        simulate(loop, simulation.rows(1), 1, (c,), interleaving=Interleaving.SEQUENTIAL).levels[0].fetched
        for c in (cached, random)
    ]
    assert counts == [16, 16]
    longer = workloads.dense("loop", 1, 40, [TaskAccess(32 * k, 0, 0) for k in range(20)], element=4)
    lru, spread = (
        simulate(longer, simulation.rows(1), 1, (c,), interleaving=Interleaving.SEQUENTIAL).levels[0].fetched
        for c in (cached, random)
    )
    assert lru == 20 * 40
    assert spread < lru
