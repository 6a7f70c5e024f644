"""The comparison with ncu's counters: what it takes from a recording. The published times, and their example."""

import doctest

import numpy as np

from bench import schedule_model


def test_blocks_on_an_sm_at_once():
    sm = np.array([0, 1] * 6)
    start = np.repeat([0, 0, 0, 10, 10, 10], 2)
    assert schedule_model.slots_of(sm, start, start + 10) == 3


def test_a_comparison_of_counters_and_simulation(monkeypatch):
    monkeypatch.setattr(schedule_model, "REPLAYED", (256, 256))
    blocks = np.arange(256)
    recorded = {"sm_256": blocks % 16, "start_256": blocks // 16, "end_256": blocks // 16 + 4}
    rows = [
        {"kernel": "stencil-256-32", "block": 256, "L1 sectors": 256 * 1000, "L1 hits": 256 * 900},
        {"kernel": "stencil-4096-32", "block": 256, "L1 sectors": 1, "L1 hits": 1},
        {"kernel": "stencil-256-32", "block": 64, "L1 sectors": 1, "L1 hits": 1},
    ]
    ((width, measured, replayed, random, alone),) = schedule_model.replayed(rows, recorded, 2)
    assert (width, measured) == (32, 100)
    for found in (replayed, random):
        assert 0.5 * alone < found <= alone * 1.02


def test_the_published_times_are_whole():
    assert doctest.testmod(schedule_model).failed == 0
    tables = schedule_model.thesis_tables()
    assert {title: (len(table), {len(times) for times in table.values()}) for title, (*_, table) in tables.items()} == {
        "9x9 4096^2": (6, {17}), "9x9 4037^2": (6, {17}), "product 1024^2": (6, {17}),
    }  # fmt: skip
    assert tables["product 1024^2"][2][1024]["2048"] == 2.38 and tables["9x9 4037^2"][2][32]["naive"] == 2.04
    assert len(schedule_model.published("h200_gains")) == 21
