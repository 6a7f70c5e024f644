"""What the comparison with ncu's counters takes from a recording."""

import numpy as np

from bench import placement_replay


def test_blocks_on_an_sm_at_once():
    sm = np.array([0, 1] * 6)
    start = np.repeat([0, 0, 0, 10, 10, 10], 2)
    assert placement_replay.slots_of(sm, start, start + 10) == 3


def test_a_comparison_of_counters_and_simulation(monkeypatch):
    monkeypatch.setattr(placement_replay, "SIZE", 256)
    blocks = np.arange(256)
    recorded = {"sm_256": blocks % 16, "start_256": blocks // 16, "end_256": blocks // 16 + 4}
    rows = [
        {"kernel": "stencil-256-32", "block": 256, "L1 sectors": 256 * 1000, "L1 hits": 256 * 900},
        {"kernel": "stencil-4096-32", "block": 256, "L1 sectors": 1, "L1 hits": 1},
        {"kernel": "stencil-256-32", "block": 64, "L1 sectors": 1, "L1 hits": 1},
    ]
    ((width, measured, replayed, random, alone),) = placement_replay.compared(rows, recorded, 2)
    assert (width, measured) == (32, 100)
    for found in (replayed, random):
        assert 0.5 * alone < found <= alone * 1.02
