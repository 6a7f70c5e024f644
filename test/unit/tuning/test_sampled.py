"""A space of 1296 candidates: a good one is found among the few that are tried."""

from lego_mlir.tuning.candidates import Candidate, SearchSpace
from lego_mlir.tuning.sampling import halve_sampled
from lego_mlir.tuning.workbench import made_up_workbench

SPACE = SearchSpace({name: list(range(6)) for name in "abcd"})


def seconds_of(configuration, sizes):
    away = sum((configuration[name] - right) ** 2 for name, right in zip("abcd", (4, 1, 3, 2), strict=True))
    return 2e-5 + 2e-6 * away


def run(**options):
    workbench = made_up_workbench(seconds_of, lambda c: "crashed" if c["a"] == 0 else "fine", noise=0.01)
    candidates = [Candidate(configuration, lambda: None) for configuration in SPACE]
    seen = []
    timings = halve_sampled(
        workbench, "example", SPACE, candidates, {"M": 1}, on_timing=seen.append, digest=lambda c: str(c.configuration),
        **options,
    )  # fmt: skip
    return workbench, seen, timings


def test_a_good_configuration_is_found_after_few():
    _, seen, timings = run(most=200)
    assert len(timings) <= 200
    assert len({timing.kernel for timing in seen}) == len(timings)
    assert any(timing.failure for timing in timings)
    best = min(timings, key=lambda timing: timing.median)
    assert seconds_of(best.configuration, {}) <= 2.4e-5  # among the best 33 of 1296


def test_the_seconds_end_it():
    workbench, _, timings = run(seconds=60)
    assert workbench.bench.seconds() < 80
    assert 20 < len(timings) < 1296


def test_what_is_known_is_not_tried_again():
    _, _, known = run(most=100)
    _, seen, timings = run(most=100, known=known)
    again = {timing.kernel for timing in seen} & {timing.kernel for timing in known}
    assert len(again) <= 2  # the fastest so far, in each batch
    assert len(timings) == 200
