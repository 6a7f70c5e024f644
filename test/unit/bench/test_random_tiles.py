"""Random tile programs that are timed: other assignments, programs on a grid, and the figures of their times."""

import random

import numpy as np
import pytest
import random_tiles
import tile_programs

from lego_mlir import interp

TILES = 4


def test_other_assignments_on_a_grid_have_the_values_of_numpy():
    seed = 7
    made = random_tiles.drawn(seed)
    kernel = tile_programs.kernel_of(made, TILES)
    found = random_tiles.alternatives_of(kernel.layout_choice, seed)
    others = [kernel.placed(choice) for choice, _ in zip(found, range(3), strict=False)]
    slots = [random_tiles.slots_of(k.layout_choice) for k in (kernel, *others)]
    assert slots[0] == pytest.approx(kernel.layout_choice.slots, abs=0.01)
    assert len(others) == 3 and min(slots) >= kernel.layout_choice.bound - 0.01
    assert len({k.mlir() for k in (kernel, *others)}) > 1
    tiles = [tile_programs.arrays_of(made, number) for number in range(TILES)]
    inputs, outputs = ([np.concatenate(same) for same in zip(*kind, strict=True)] for kind in zip(*tiles, strict=True))
    for k in (kernel, *others):
        results = [np.zeros(y.shape, y.dtype) for y in outputs]
        args = [a.reshape(-1) for a in (*inputs, *results)]
        assert interp.launch(k.mlir(), grid=TILES, block=made.block, args=args).clean
        for result, wanted in zip(results, outputs, strict=True):
            np.testing.assert_array_equal(result, wanted)


def test_a_program_is_drawn_by_its_seed():
    (first,), (second,) = (random_tiles.case_of(random.Random(1)) for _ in range(2))
    assert first == second and random_tiles.drawn(first) == random_tiles.drawn(second)


def test_figures_of_times():
    times = {"a": {"ours": 2.0, "Triton": 3.0, "other 1": 1.9}, "b": {"ours": 4.0, "Triton": 3.0}}
    rows = [
        {"case": [case], "kernel": who, "place": "l2", "ms": ms} for case, by in times.items() for who, ms in by.items()
    ]
    cells = ["l2", "2", "1.06", "0.75", "1.50", "1", "1.05", "1.05", "0 of 1"]
    assert random_tiles.line_of("l2", rows) == cells
