"""The errors of functions on a GPU: the comparison accepts what is right, and sees a wrong digit or infinity."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

import functions  # a program beside this file

from lego_mlir.runtime.comparing import numbers


@pytest.fixture(autouse=True)
def few_inputs(monkeypatch):
    monkeypatch.setattr(functions, "N", 4096)


@pytest.mark.parametrize("dtype", functions.FLOATS)
@pytest.mark.parametrize("name", ["floor", "expm1", "tan", "pow"])
def test_kernels_are_within_their_bounds(name, dtype):
    exact, bound = {**functions.FUNCTIONS, **functions.OF_TWO}[name]
    given = [functions.drawn(dtype, seed) for seed in range(2 if name in functions.OF_TWO else 1)]
    limit = functions.RANGE.get(name, np.inf)
    row = functions.row(f"{name}_{dtype}", dtype, exact, bound, given, functions.of_cpu(), limit)
    assert functions.shown([row], functions.LIBRARY) == 0


def test_conversions_are_exact():
    row = functions.converted("convert_f32_f8e5m2", "f32", "f8e5m2", functions.of_cpu())
    assert functions.shown([row]) == 0


@pytest.mark.parametrize(("change", "special"), [(1 + 2.0**-20, 0), (np.inf, 1), (np.nan, 1)])
def test_a_wrong_result_is_found(change, special):
    def launch(name, given):
        with np.errstate(over="ignore"):
            found = np.exp(numbers(given[0], "f32").astype(np.float64)).astype(np.float32)
        found[np.flatnonzero(np.isfinite(found) & (found > 1))[3]] *= np.float32(change)
        return found

    row = functions.row("exp_f32", "f32", np.exp, 2, [functions.drawn("f32", 0)], launch, np.inf)
    assert row["special"] == special
    assert functions.shown([row]) == 1


@pytest.mark.long
def test_all_functions_and_conversions():
    assert functions.shown(functions.check(functions.of_cpu()), functions.LIBRARY) == 0
