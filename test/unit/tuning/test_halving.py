"""The made-up device's optimum is found under noise and with failing candidates, within the seconds given."""

import random
from collections import Counter

import pytest

from lego_mlir.errors import UsageError
from lego_mlir.tuning.halving import Race, RaceRules, race
from lego_mlir.tuning.simulated_device import MadeUpDevice

FAILING = ("crashed", "timed out", "wrong", "refused")


def space(seed, count=40, failing=0.15):
    """True times, behaviours and trials of one made-up space."""
    drawn = random.Random(seed)
    device = MadeUpDevice(noise=0.05)
    device.made = 1000 * seed
    times = [drawn.uniform(20e-6, 60e-6) for _ in range(count)]
    kinds = [drawn.choice(FAILING) if drawn.random() < failing else "fine" for _ in times]
    late = [drawn.random() < 0.3 and kind in ("crashed", "timed out") for kind in kinds]
    trials = [device.trial(*given) for given in zip(times, kinds, late, strict=True)]
    return device.bench(), times, kinds, trials


def chosen(results):
    (best,) = (result for result in results if result.fate == "best")
    return best


def test_the_best_is_found_as_often_as_the_confidence_says():
    found = 0
    for seed in range(40):
        bench, times, kinds, trials = space(seed)
        best = chosen(race(bench, trials, RaceRules(confidence=0.95, worth=0.01)))
        right = min(t for t, kind in zip(times, kinds, strict=True) if kind == "fine")
        found += times[best.number] <= 1.01 * right
    assert found >= 38


def test_every_failure_is_recorded_with_its_reason_and_costs_only_its_candidate():
    bench, _, kinds, trials = space(7, failing=0.4)
    results = race(bench, trials)
    assert bench.open == 0
    for result, kind in zip(results, kinds, strict=True):
        assert result.reason
        assert (result.fate == kind) == (kind != "fine")
    assert set(FAILING) <= {result.fate for result in results}


def test_results_come_once_each_as_they_are_final():
    bench, _, _, trials = space(3)
    seen = []
    results = race(bench, trials, on_result=seen.append)
    assert sorted(result.number for result in seen) == list(range(len(trials)))
    assert sorted(seen, key=lambda result: result.number) == results


def test_most_are_dropped_after_the_first_rung():
    bench, _, _, trials = space(5, failing=0)
    results = race(bench, trials, RaceRules(first=10))
    assert sum(len(result.samples) == 10 for result in results) > 0.7 * len(trials)


def test_the_seconds_bound_the_race_and_what_was_not_tried_is_named():
    bench, _, _, trials = space(5, count=60, failing=0)
    results = race(bench, trials, RaceRules(seconds=20))
    fates = Counter(result.fate for result in results)
    assert bench.seconds() < 25
    assert fates["best"] == 1
    assert 10 < fates["untried"] < 50
    assert all(result.fate == "untried" for result in results if not result.samples)


def test_without_seconds_for_another_rung_the_slower_half_goes_and_says_that():
    device = MadeUpDevice(noise=0.3)
    bench = device.bench(live=64)
    trials = [device.trial(20e-6 * (1 + 0.0001 * i)) for i in range(32)]
    results = race(bench, trials, RaceRules(seconds=17))
    halved = [result for result in results if result.fate == "halved"]
    assert halved
    assert "not proved slower" in halved[0].reason
    assert chosen(results)


def test_candidates_of_one_speed_are_tied_and_the_race_ends():
    device = MadeUpDevice(noise=0.002, spikes=0, drift=0)
    bench = device.bench()
    results = race(bench, [device.trial(50e-6) for _ in range(4)], RaceRules(worth=0.02))
    assert Counter(result.fate for result in results) == {"best": 1, "tied": 3}
    assert "and not faster by 2.0%" in next(r.reason for r in results if r.fate == "tied")
    assert max(len(result.samples) for result in results) < 10 * 2**5


def test_one_that_is_slower_is_not_tied_because_the_race_has_ended():
    device = MadeUpDevice(noise=0.05)
    results = race(device.bench(), [device.trial(20e-6 + 2e-6 * abs(i - 5)) for i in range(12)])
    assert {result.fate for result in results if abs(result.number - 5) > 0} == {"slower"}
    assert any("medians apart" in result.reason for result in results)


def test_one_that_cannot_be_told_apart_is_not_called_within_reach():
    device = MadeUpDevice(noise=0.3)
    results = race(device.bench(), [device.trial(50e-6), device.trial(50.2e-6)], RaceRules(rungs=2, worth=0.001))
    (tied,) = (result for result in results if result.fate == "tied")
    assert "not told from it" in tied.reason


def test_nothing_is_chosen_where_all_fail():
    device = MadeUpDevice()
    results = race(device.bench(), [device.trial(1e-5, kind) for kind in FAILING])
    assert [result.fate for result in results] == list(FAILING)
    assert race(device.bench(), []) == []


def test_the_slow_drift_of_the_device_does_not_decide():
    found = 0
    for seed in range(20):
        device = MadeUpDevice(noise=0.01, drift=0.5)
        device.made = 100 * seed
        results = race(device.bench(live=4), [device.trial(1e-3 * (1 + 0.03 * ((i + seed) % 12))) for i in range(12)])
        found += (chosen(results).number + seed) % 12 == 0
    assert found == 20


def test_a_race_is_the_same_for_the_same_seed():
    runs = [Race(bench, trials, seed=3).run() for bench, _, _, trials in (space(2), space(2))]
    assert runs[0] == runs[1]


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"confidence": 1.0}, "at least 0.5 and less than 1, got 1.0"),
        ({"worth": -0.1}, "worth is a relative difference, at least 0 and less than 1, got -0.1"),
        ({"first": 4}, "at least 8 first samples"),
        ({"seconds": 0}, "a positive number of seconds, got 0"),
    ],
)
def test_rules_are_validated(rules, message):
    with pytest.raises(UsageError, match=message):
        RaceRules(**rules)
