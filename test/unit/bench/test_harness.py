"""How the GPU benchmarks take times, on a device made up here: each launch takes as long as the test says."""

import itertools
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import harness  # bench/ is a folder of scripts, not a package
import pytest


class Device:
    """A clock that launches advance, under the names that PyTorch gives to it; it slows down with every launch."""

    def __init__(self):
        self.now, self.slower, self.launched, self.heats = 0.0, 0.0, [], 0.001

    def launch(self, name, takes):
        def run():
            self.launched.append(name)
            self.now += takes + self.slower
            self.slower += self.heats

        return run

    def event(self, enable_timing):
        assert enable_timing
        return Event(self)


class Event:
    def __init__(self, device):
        self.device, self.at = device, None

    def record(self):
        self.at = self.device.now

    def elapsed_time(self, end):
        return end.at - self.at


@pytest.fixture
def device(monkeypatch, tmp_path):
    made = Device()
    cuda = SimpleNamespace(Event=made.event, synchronize=lambda: None, get_device_name=lambda: "Made Up")
    flushed = SimpleNamespace(zero_=lambda: None)
    torch = SimpleNamespace(cuda=cuda, empty=lambda *size, **options: flushed, int8=None, __version__="0")
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "triton", SimpleNamespace(__version__="0"))
    monkeypatch.setattr(harness, "BENCH", tmp_path)
    monkeypatch.setattr(harness, "clocks", list)
    return made


def test_repetitions_alternate_so_that_a_heating_device_slows_all_rivals_alike(device):
    first, second = harness.measured([
        harness.contender(device.launch("a", 0.2), kernel="a"), harness.contender(device.launch("b", 0.2), kernel="b"),
    ])  # fmt: skip
    single = harness.REPETITIONS * 2
    last = device.launched[: 4 + 2 * harness.WARM_UP + single][-40:]
    rounds = [last[i : i + 2] for i in range(0, 40, 2)]
    assert all(sorted(launched) == ["a", "b"] for launched in rounds)
    assert ["a", "b"] in rounds and ["b", "a"] in rounds
    assert first["ms"] == pytest.approx(second["ms"], abs=0.01)
    assert first["p10"] < first["ms"] < first["p90"]


def test_a_slow_case_gets_fewer_repetitions_and_says_so(device):
    (row,) = harness.measured([harness.contender(device.launch("slow", 50.0), kernel="slow")])
    assert row["turn"] == 3 and row["repetitions"] == 81  # 79 fit, and a turn is whole
    (row,) = harness.measured([harness.contender(device.launch("slower", 5000.0), kernel="slower")])
    assert row["repetitions"] == harness.FEWEST


def test_those_close_to_the_fastest_are_compared_again(device):
    runs = {name: device.launch(name, takes) for name, takes in (("a", 0.1), ("b", 0.104), ("c", 0.5))}
    device.heats = 0
    harness.best(runs)
    assert device.launched.count("a") == device.launched.count("b") > harness.REPETITIONS > device.launched.count("c")


def test_the_fastest_of_those_that_can_be_launched(device, capsys):
    def refused():
        raise RuntimeError("out of resource: shared memory")

    runs = {"slow": device.launch("slow", 2.0), "fast": device.launch("fast", 1.0), "large": refused}
    assert harness.best(runs) == "fast"
    assert "left out large: out of resource" in capsys.readouterr().err


def test_a_wrong_case_is_named_and_the_others_are_kept(device, capsys):
    def timed(folder, name, n):
        if n == 2:
            raise harness.WrongResultError("wrong by 1 of the largest value")
        return [harness.contender(device.launch(name, n), kernel=name, n=n)]

    assert harness.time_cases("made", Path(), [("a", 1), ("a", 2), ("a", 3)], timed) == 1
    assert "a 2: WrongResultError: wrong by 1" in capsys.readouterr().err
    (path,) = (harness.BENCH / "results" / "Made-Up").iterdir()
    assert [row["n"] for row in json.loads(path.read_text())["rows"]] == [1, 3]


def test_cases_timed_later_the_same_day_join_the_others(device, monkeypatch):
    def timed(folder, kind, n):
        return [harness.contender(device.launch("x", float(n)), kernel="x", n=n)]

    def timed_now():
        (path,) = (harness.BENCH / "results" / "Made-Up").iterdir()
        return [(row["case"], round(row["ms"])) for row in json.loads(path.read_text())["rows"]]

    device.heats = 0.0
    harness.time_cases("made", Path(), [("a", 1), ("a", 2)], timed)
    harness.time_cases("made", Path(), [("a", 2), ("a", 3)], timed)
    assert timed_now() == [(["a", "1"], 1), (["a", "2"], 2), (["a", "3"], 3)]
    monkeypatch.setattr(sys.modules["triton"], "__version__", "1")
    harness.time_cases("made", Path(), [("a", 3)], timed)
    assert timed_now() == [(["a", "3"], 3)]  # times by another compiler are not mixed in


def test_words_choose_cases():
    assert harness.words_of(("f16", (16, 512, 64), 4096)) == ["f16", "16x512x64", "4096"]


def test_what_runs_for_long_has_turns_of_its_own(device):
    device.heats = 0.0
    rows = harness.measured(
        [harness.contender(device.launch(name, takes), kernel=name) for name, takes in (("a", 20.0), ("b", 30.0))]
    )
    assert [row["turn"] for row in rows] == [6, 6]
    runs = ["".join(group) for _, group in itertools.groupby(device.launched)]
    assert all(len(run) >= 6 for run in runs[4:8])
    assert [row["ms"] for row in rows] == [20.0, 30.0]


def test_what_has_turns_has_several(device):
    rows = harness.measured([harness.contender(device.launch(name, 0.8), kernel=name) for name in "abc"])
    assert all(row["repetitions"] >= 5 * row["turn"] for row in rows)


def test_the_fastest_is_launched_into_emptied_results_and_must_be_right(device, monkeypatch):
    class Result:
        value = 7

        def zero_(self):
            self.value = 0

    def judged(found, expected, tolerance, what):
        assert (tolerance, what) == (0.01, "ours {'n': 4}")
        return abs(found.value - expected)

    written, untouched = Result(), Result()

    def run():
        device.launch("fast", 0.1)()
        written.value = 5

    monkeypatch.setattr(harness, "require_close", judged)
    runs = {"slow": device.launch("slow", 0.5), "fast": run}
    found = harness.fastest("ours", runs, [(written, 5), (untouched, 2)], 0.01, n=4)
    assert found.facts == {"kernel": "ours", "config": "fast", "error": 2, "n": 4}
    assert found.run is run and untouched.value == 0
