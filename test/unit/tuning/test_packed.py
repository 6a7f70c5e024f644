"""Candidates compiled into a folder, and several devices that share the sizes."""

import dataclasses
import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import lego_mlir as lego
from lego_mlir import Row, f32
from lego_mlir.errors import SpecError, UsageError
from lego_mlir.runtime import data_files
from lego_mlir.tuning import packed, several_devices
from lego_mlir.tuning.candidates import Candidate, Configuration, SearchSpace
from lego_mlir.tuning.gpu_workbench import Preparing
from lego_mlir.tuning.launch_counts import LaunchCounts
from lego_mlir.tuning.model import DEVICES, predict
from lego_mlir.tuning.several_devices import halve_on_devices, longest_first
from lego_mlir.tuning.simulated_device import MadeUpDevice
from lego_mlir.tuning.work_units import SizedProblem
from lego_mlir.tuning.workbench import halve, made_up_workbench


def tunable(name="doubled", most=128):
    def doubled(threads, each):
        N = lego.size("N")

        @lego.kernel(grid=lego.cdiv(N, threads * each), block=threads)
        def double(x: lego.Tensor(f32, Row(N)), y: lego.Tensor(f32, Row(N))):
            for k in lego.unroll(each):
                i = (lego.block_id.x * each + k) * threads + lego.thread_id.x
                with lego.when(i < N):
                    y[i] = 2 * x[i]

        @double.reference
        def expected(x):
            return 2 * x

        return double

    doubled.__name__ = name
    return lego.tune(space={"threads": [64, most], "each": [1, 2]}, key=["N"])(doubled)


def packed_into(folder, tuned, *sizes, toolchain="made-up"):
    problems = [SizedProblem(tuned.prune({"N": n}).kept, {"N": n}) for n in sizes]
    return packed.write(folder, tuned, problems, "sm_80", toolchain, Preparing("sm_80", small=True).trial)


@pytest.mark.tools
def test_a_folder_has_code_manifests_and_checks_and_needs_no_spec(tmp_path):
    tuned = tunable()
    found = packed_into(tmp_path, tuned, 1000, 1 << 20)
    assert [problem.sizes for problem in found.problems] == [{"N": 1000}, {"N": 1 << 20}]
    assert len(list((tmp_path / "code").glob("*.ptx"))) == 4  # the same code at both sizes
    again = packed.read(tmp_path)
    problem = again.problems[1]
    kept = tuned.prune({"N": 1 << 20}).kept
    assert [c.configuration.key for c in problem.candidates] == [c.configuration.key for c in kept]
    trial = again.trial(problem.candidates[0], problem.sizes)
    assert b".entry double" in trial.code
    assert dict(trial.sizes) == {"N": 1 << 20}
    other = again.trial(again.problems[0].candidates[0], {"N": 1000})
    assert trial.checks[0] == other.checks[0]  # of a small size, as data
    timed = [data_files.read(checks[1]) for checks in (trial.checks, other.checks)]
    assert [int(data["double/N"]) for data in timed] == [1 << 20, 1000]
    assert "double/x" not in timed[0]  # 4 MiB that follow from a seed
    assert sum(file.stat().st_size for file in (tmp_path / "checks").iterdir()) < 1 << 16
    assert [c.predicted for c in problem.candidates] == [c.predicted for c in kept]
    with pytest.raises(UsageError, match="is packed code; trace it from its spec"):
        _ = problem.candidates[0].built


@pytest.mark.tools
def test_a_size_that_is_packed_again_replaces_its_row(tmp_path):
    packed_into(tmp_path, tunable(), 1000, 2000)
    found = packed_into(tmp_path, tunable(), 1000)
    assert [row["sizes"]["N"] for row in found.rows] == [2000, 1000]


@pytest.mark.tools
def test_a_folder_of_another_tunable_space_or_toolchain_is_refused(tmp_path):
    packed_into(tmp_path, tunable(), 1000)
    with pytest.raises(UsageError, match=r"candidates of another tunable .doubled, not other.; pack them"):
        packed_into(tmp_path, tunable("other"), 1000)
    with pytest.raises(UsageError, match="candidates of another space"):
        packed_into(tmp_path, tunable(most=256), 1000)
    with pytest.raises(UsageError, match="candidates of another toolchain"):
        packed_into(tmp_path, tunable(), 1000, toolchain="newer")


@pytest.mark.tools
def test_a_candidate_that_does_not_compile_is_a_failure_where_it_is_measured(tmp_path):
    def refuse(candidate, sizes):
        raise UsageError("no such instruction")

    tuned = tunable()
    problem = SizedProblem(tuned.prune({"N": 1000}).kept, {"N": 1000})
    found = packed.write(tmp_path, tuned, [problem], "sm_80", "made-up", refuse)
    with pytest.raises(UsageError, match="no such instruction"):
        found.trial(found.problems[0].candidates[0], {"N": 1000})


@pytest.mark.parametrize("text", [None, "[]", "{", '{"format": 1}', '{"format": 7}'])
def test_a_folder_without_candidates_is_refused(tmp_path, text):
    if text is not None:
        (tmp_path / packed.INDEX).write_text(text)
    with pytest.raises(SpecError, match=r"candidates\.json: (not a folder of packed candidates|the candidates have)"):
        packed.read(tmp_path)


@pytest.mark.tools
def test_a_file_that_is_gone_is_named(tmp_path):
    found = packed_into(tmp_path, tunable(), 1000)
    for file in (tmp_path / "code").glob("*.ptx"):
        file.unlink()
    with pytest.raises(UsageError, match=r"\.ptx: a packed file cannot be read .*; pack the candidates again"):
        found.trial(found.problems[0].candidates[0], {"N": 1000})


def test_measuring_a_folder_loads_no_front_end():
    needed = "sympy", "jinja2", "z3", "islpy", "torch"
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({needed}))\n"
        "from lego_mlir.cli import tune, tune_jobs\n"
        "from lego_mlir.tuning import child, config_lookup, gpu_trials, packed, several_devices, time_budget\n"
        "from lego_mlir.tuning import triton_trials\n"
        "from lego_mlir.toolchain import triton_text"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# ---- several devices


def problems(count):
    candidates = [Candidate(Configuration.of({"tile": 16 * i}), lambda: None) for i in range(1, 5)]
    return [SizedProblem(candidates, {"M": 100 + m}) for m in range(count)]


def seconds_of(configuration, sizes):
    return 1e-6 * (sizes["M"] + abs(configuration["tile"] - 48))


@pytest.mark.parametrize("devices", [1, 2, 3])
def test_each_size_is_measured_once_whatever_the_number_of_devices(devices):
    benches = [made_up_workbench(seconds_of, noise=0.01) for _ in range(devices)]
    arrived, threads = [], set()

    def record(timing):
        arrived.append((timing.sizes["M"], timing.configuration.key))
        threads.add(threading.get_ident())

    found = halve_on_devices(
        benches, "example", problems(6), on_timing=record, digest=lambda c: c.configuration.key
    )  # fmt: skip
    assert [min(t, key=lambda t: t.median).configuration["tile"] for t in found] == [48] * 6
    assert sorted(arrived) == sorted((t.sizes["M"], t.configuration.key) for timings in found for t in timings)
    assert len(set(arrived)) == 24


class VirtualDevices:
    """Made-up devices on one virtual clock: a device that is done takes its next size when its time has come.

    `halve` races on a device, whose own clock advances. A thread whose race is over waits until every busy device is
    at the end of its race; the one with the least time goes on.
    """

    def __init__(self, count, problems, cost):
        self.benches = [made_up_workbench(cost, noise=0.01) for _ in range(count)]
        for device, workbench in enumerate(self.benches):
            workbench.bench.number = device
        self.left, self.busy, self.waiting = len(problems), count, {}
        self.turn = threading.Condition()
        self.sizes = {device: [] for device in range(count)}

    def halve(self, workbench, tunable, *, candidates, sizes, **more):
        device, bench = workbench.bench.number, workbench.bench
        with self.turn:
            self.left -= 1
        self.sizes[device].append(sizes["M"])
        found = halve(workbench, tunable, candidates, sizes, **more)
        with self.turn:
            if self.left == 0:
                self.busy -= 1
                self.turn.notify_all()
                return found
            self.waiting[device] = bench.seconds()
            self.turn.notify_all()
            assert self.turn.wait_for(lambda: self._is_next(device) or self.left == 0, timeout=60)
            self.waiting.pop(device, None)
            if self.left == 0:
                self.busy -= 1
            self.turn.notify_all()
        return found

    def _is_next(self, device):
        return len(self.waiting) == self.busy and device == min(self.waiting, key=self.waiting.__getitem__)

    def seconds(self):
        return [workbench.bench.seconds() for workbench in self.benches]


def test_two_devices_take_little_more_than_half_of_the_virtual_time_of_one(monkeypatch):
    given = twelve()
    spent = {}
    for count in (1, 2):
        devices = VirtualDevices(count, given, seconds_of)
        monkeypatch.setattr(several_devices, "halve", devices.halve)
        halve_on_devices(devices.benches, "example", given, digest=lambda c: c.configuration.key)
        spent[count] = devices.seconds()
        assert sorted(m for sizes in devices.sizes.values() for m in sizes) == sorted(p.sizes["M"] for p in given)
    assert sum(spent[2]) == pytest.approx(spent[1][0], rel=0.1)  # the same work
    assert max(spent[2]) <= 0.56 * spent[1][0]


def twelve():
    """Sizes in the order of a recipe, short races first: the last takes a quarter of the time of all."""
    counts = (4, 4, 4, 4, 6, 6, 6, 8, 8, 10, 14, 30)
    return [
        SizedProblem(
            [Candidate(Configuration.of({"tile": 16 * i}), lambda: None) for i in range(1, count + 1)], {"M": 100 + m}
        )
        for m, count in enumerate(counts)
    ]


def test_sizes_start_longest_first_and_results_keep_their_order():
    given = twelve()
    assert [len(given[n].candidates) for n in longest_first(given)] == [30, 14, 10, 8, 8, 6, 6, 6, 4, 4, 4, 4]
    assert longest_first(given)[-4:] == [0, 1, 2, 3]
    found = halve_on_devices(
        [made_up_workbench(seconds_of)], "example", given, digest=lambda c: c.configuration.key
    )  # fmt: skip
    assert [timings[0].sizes["M"] for timings in found] == [problem.sizes["M"] for problem in given]


def test_a_long_kernel_counts_more_than_many_short_ones():
    slow = [Candidate(Configuration.of({"tile": 1}), lambda: None, predicted(1e5))]
    quick = [Candidate(Configuration.of({"tile": i}), lambda: None, predicted(10.0)) for i in range(10)]
    given = [SizedProblem(quick, {"M": 1}), SizedProblem(slow, {"M": 2})]
    assert longest_first(given) == [1, 0]


def predicted(microseconds):
    counts = LaunchCounts(132, 128)
    return dataclasses.replace(predict(counts, DEVICES["h200"]), microseconds=microseconds)


def test_trials_are_prepared_once_while_earlier_races_run():
    prepared, given = [], problems(6)
    racing = threading.Event()

    def prepare(candidate, sizes):
        prepared.append((sizes["M"], candidate.configuration.key))
        if sizes["M"] == 105:
            racing.set()
        if candidate.configuration["tile"] == 64:
            raise UsageError("no such tile")
        return MadeUpDevice().trial(seconds_of(candidate.configuration, sizes))

    def first_waits(timing):
        assert racing.wait(60)  # the last size is prepared before the first race has ended

    bench = dataclasses.replace(made_up_workbench(seconds_of), prepare=prepare)
    found = halve_on_devices([bench], "example", given, on_timing=first_waits, digest=lambda c: c.configuration.key)
    assert len(prepared) == len(set(prepared)) == 24
    assert [sum(t.failure == "refused: no such tile" for t in timings) for timings in found] == [1] * 6


def test_devices_work_at_the_same_time():
    meeting = threading.Barrier(2, timeout=20)
    benches = [made_up_workbench(seconds_of) for _ in range(2)]

    def record(timing):
        pass

    made = []
    for bench in benches:
        start = bench.bench.start
        first = [True]

        def met(trial, start=start, first=first):
            if first:
                first.clear()
                meeting.wait()
            return start(trial)

        bench.bench.start = met
        made.append(bench)
    halve_on_devices(made, "example", problems(2), on_timing=record, digest=lambda c: c.configuration.key)
    assert not meeting.broken


def test_of_more_than_500_candidates_those_of_a_search_are_measured():
    space = SearchSpace({name: list(range(5)) for name in "abcd"})
    candidates = [Candidate(configuration, lambda: None) for configuration in space]
    given = [SizedProblem(candidates, {"M": 1}), SizedProblem(candidates[:40], {"M": 2})]

    def away(configuration, sizes):
        return 2e-5 + 2e-6 * sum((configuration[name] - 3) ** 2 for name in "abcd")

    found = halve_on_devices(
        [made_up_workbench(away, noise=0.01) for _ in range(2)], "example", given, space=space,
        digest=lambda c: c.configuration.key,
    )  # fmt: skip
    assert 400 < len(found[0]) <= 500
    assert len(found[1]) == 40
    assert away(min(found[0], key=lambda t: t.median).configuration, {}) <= 2.4e-5


def test_no_device_is_refused():
    with pytest.raises(UsageError, match="one workbench for each, got none"):
        halve_on_devices([], "example", problems(1))


def test_an_error_of_one_device_is_raised():
    def broken(configuration, sizes):
        raise ZeroDivisionError(str(sizes))

    other = dataclasses.replace(made_up_workbench(broken), device="another kind")
    for benches in ([made_up_workbench(broken)] * 2, [made_up_workbench(seconds_of), other]):
        with pytest.raises(ZeroDivisionError):
            halve_on_devices(benches, "example", problems(4), digest=lambda c: c.configuration.key)


def test_the_index_is_readable_json(tmp_path):
    (tmp_path / packed.INDEX).write_text(
        json.dumps({"format": 1, "tunable": "t", "space": "s", "toolchain": "c", "target": "sm_80", "jobs": []})
    )
    assert packed.read(Path(tmp_path)).problems == []
