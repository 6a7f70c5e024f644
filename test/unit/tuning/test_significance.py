"""The rank test keeps its level under noise that is far from normal, and the bounds of a median contain it."""

import itertools
import random

import pytest

from lego_mlir.tuning.significance import median_bounds, slower_by_chance


def draws(drawn, count, factor=1.0):
    return [factor * drawn.lognormvariate(0, 0.1) * (5 if drawn.random() < 0.05 else 1) for _ in range(count)]


def exact(these, those):
    """By all ways to choose which of the samples are `these`: the share with a rank sum at least as large."""
    values = [*these, *those]
    rank = {v: i for i, v in enumerate(sorted(values))}
    found = sum(rank[v] for v in these)
    sums = [sum(chosen) for chosen in itertools.combinations(range(len(values)), len(these))]
    return sum(s >= found for s in sums) / len(sums)


@pytest.mark.parametrize("seed", range(8))
def test_the_probability_is_not_below_the_exact_one_where_decisions_are_made(seed):
    drawn = random.Random(seed)
    these, those = draws(drawn, 8, 1 + 0.1 * seed), draws(drawn, 8)
    by_ranks, by_counting = slower_by_chance(these, those), exact(these, those)
    assert by_ranks >= 0.9 * by_counting
    assert by_ranks <= by_counting + 0.02


def test_equal_distributions_are_seldom_told_apart():
    drawn = random.Random(1)
    found = sum(slower_by_chance(draws(drawn, 12), draws(drawn, 12)) <= 0.05 for _ in range(2000))
    assert found / 2000 <= 0.06


def test_a_slower_one_is_found_despite_disturbances_of_the_faster():
    drawn = random.Random(2)
    assert slower_by_chance(draws(drawn, 40, 1.3), draws(drawn, 40)) < 1e-4


def test_too_few_samples_or_equal_ones_decide_nothing():
    assert slower_by_chance([9.0] * 7, [1.0] * 40) == 1
    assert slower_by_chance([1.0] * 20, [1.0] * 20) == 1


def test_the_bounds_contain_the_median_as_often_as_stated():
    drawn = random.Random(3)
    inside = 0
    for _ in range(1000):
        low, high = median_bounds([drawn.lognormvariate(0, 1) for _ in range(20)], 0.95)
        inside += low <= 1 <= high
    assert inside >= 950
