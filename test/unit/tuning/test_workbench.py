"""Candidates to timings: what is known is not measured again, also after a kill in the middle."""

import math
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from lego_mlir.errors import LayoutError, UsageError
from lego_mlir.tuning.candidates import Candidate, Configuration
from lego_mlir.tuning.timings import TimingStore
from lego_mlir.tuning.workbench import halve, made_up_workbench

SIZES = {"M": 4096}


def seconds_of(configuration, sizes):
    return 2e-5 + 1e-6 * abs(configuration["tile"] - 11)


def space(count=24):
    return [Candidate(Configuration.of({"tile": tile}), lambda: None) for tile in range(count)]


def digest(candidate):
    return f"digest of {candidate.configuration}"


def measured(workbench, candidates, **options):
    return halve(workbench, "example", candidates, SIZES, digest=digest, **options)


def fastest(timings):
    return min(timings, key=lambda timing: timing.median).configuration["tile"]


def test_the_timings_have_all_that_identifies_them():
    seen = []
    timings = measured(made_up_workbench(seconds_of), space(), on_timing=seen.append)
    assert seen == timings
    assert fastest(timings) == 11
    one = timings[0]
    assert (one.tunable, dict(one.sizes), one.kernel) == ("example", SIZES, f"digest of {one.configuration}")
    assert (one.device, one.multiprocessors, one.driver, one.toolchain) == ("made-up", 132, "none", "made-up")
    low, high = one.quartiles
    assert low <= one.median <= high
    assert one.median == pytest.approx(1e6 * seconds_of(one.configuration, SIZES), rel=0.3)


def test_failures_are_timings_without_a_time():
    kinds = {3: "crashed", 4: "timed out", 11: "wrong"}
    workbench = made_up_workbench(seconds_of, lambda configuration: kinds.get(configuration["tile"], "fine"))
    timings = {t.configuration["tile"]: t for t in measured(workbench, space())}
    assert {tile for tile, t in timings.items() if t.failure} == set(kinds)
    assert timings[11].failure == "wrong: element 0 is 1, expected 0"
    assert math.isinf(timings[3].median)


def test_a_candidate_that_cannot_be_built_is_a_failure_with_its_reason():
    workbench = made_up_workbench(seconds_of)

    def prepare(candidate, sizes):
        if candidate.configuration["tile"] == 11:
            raise LayoutError("sigma must order the axes")
        return prepared(candidate, sizes)

    prepared = workbench.prepare
    object.__setattr__(workbench, "prepare", prepare)
    timings = {t.configuration["tile"]: t for t in measured(workbench, space())}
    assert timings[11].failure == "refused: sigma must order the axes"
    assert fastest(timings.values()) in (10, 12)


def test_equal_code_is_measured_once():
    twice = [*space(), *space()]
    assert len(measured(made_up_workbench(seconds_of), twice)) == 24


def test_known_timings_are_not_taken_again_but_the_fastest_runs_against_the_new_ones():
    workbench, candidates = made_up_workbench(seconds_of), space()
    known = measured(workbench, candidates[:12])
    seen = []
    timings = measured(workbench, candidates, known=known, on_timing=seen.append)
    assert {t.configuration["tile"] for t in seen} == {11, *range(12, 24)}
    assert len(timings) == 24
    assert fastest(timings) == 11
    seen.clear()
    by_tile = sorted(timings, key=lambda timing: timing.configuration["tile"])
    assert measured(workbench, candidates, known=timings, on_timing=seen.append) == by_tile
    assert seen == []


@pytest.mark.parametrize(
    "other", [{"device": "H200"}, {"multiprocessors": 78}, {"toolchain": "t"}, {"sizes": {"M": 1}}]
)
def test_timings_of_other_circumstances_are_not_known(other):
    from dataclasses import replace

    workbench, candidates = made_up_workbench(seconds_of), space(4)
    known = [replace(timing, **other) for timing in measured(workbench, candidates)]
    seen = []
    measured(workbench, candidates, known=known, on_timing=seen.append)
    assert len(seen) == 4


def test_the_seconds_are_those_of_the_bench():
    timings = measured(made_up_workbench(seconds_of), space(), seconds=5)
    assert 0 < len(timings) < 24
    with pytest.raises(UsageError, match="a positive number of seconds, got -1"):
        measured(made_up_workbench(seconds_of), space(), seconds=-1)


SESSION = """
import sys
sys.path[:0] = [{root!r}, {here!r}]
from test_workbench import digest, measured, seconds_of, space
from lego_mlir.tuning.timings import TimingStore
from lego_mlir.tuning.workbench import made_up_workbench

store = TimingStore(sys.argv[1])
workbench = made_up_workbench(seconds_of, pace=float(sys.argv[2]))
known = store.timings(kernels=[digest(c) for c in space()], toolchain=workbench.toolchain)
measured(workbench, space(), known=known, on_timing=lambda timing: store.add([timing]))
"""


def session(store, pace):
    code = SESSION.format(root=str(Path.cwd()), here=str(Path(__file__).parent))
    return subprocess.Popen([sys.executable, "-c", code, str(store.path), str(pace)])


def test_a_session_goes_on_after_kill_9(tmp_path):
    store = TimingStore(tmp_path / "timings.jsonl")
    first = session(store, 0.004)
    deadline = time.monotonic() + 60
    while len(list(store)) < 5 and time.monotonic() < deadline:
        time.sleep(0.01)
    first.send_signal(signal.SIGKILL)
    assert first.wait() == -signal.SIGKILL
    before = list(store)
    assert 5 <= len(before) < 24
    with store.path.open("ab") as file:
        file.write(b'{"schema": 2, "tunab')  # as a kill in the middle of a write leaves it
    assert session(store, 0).wait(60) == 0
    after = list(store)
    assert after[: len(before)] == before
    counts = Counter(timing.configuration["tile"] for timing in after)
    assert set(counts) == set(range(24))
    best = fastest(before)
    assert {tile for tile, count in counts.items() if count > 1} <= {best}
    assert fastest(after) == 11
