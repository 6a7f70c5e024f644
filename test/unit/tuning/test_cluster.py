"""Jobs on a Dask cluster of this machine: a killed worker costs its work alone, and each job is counted once."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from functools import partial

import pytest
from trials import Recorded, Unreadable, WaitingBench, leave, refuse

from lego_mlir.errors import DependencyError, LayoutError, UsageError
from lego_mlir.tuning import cluster
from lego_mlir.tuning.candidates import Candidate, Configuration
from lego_mlir.tuning.cluster import ClusterJob, run_jobs
from lego_mlir.tuning.cluster_tuning import WorkerDevice, halve_on
from lego_mlir.tuning.halving import RaceRules
from lego_mlir.tuning.simulated_device import MadeUpDevice
from lego_mlir.tuning.work_units import SizedProblem

pytestmark = pytest.mark.filterwarnings("ignore")  # of Dask's own dependencies
ONE_RUNG = RaceRules(rungs=1)
MADE_UP = partial(WorkerDevice, "made-up", 132, "none", "t", "sm_90")


@pytest.fixture(scope="module")
def client():
    with cluster.local_cluster(compiling=0, measuring=2) as made:
        yield made


def chosen(outcome):
    return [result.fate for result in outcome.results].index("best")


def test_a_worker_killed_in_the_middle_loses_nothing_and_no_job_is_counted_twice(client, tmp_path):
    device = MadeUpDevice(noise=0.01, pace=0.002)
    record = tmp_path / "record"
    jobs = [
        ClusterJob(
            f"job {j}",
            [partial(Recorded, str(record), f"{j}.{i}", device.trial((2 + abs(i - j)) * 1e-5)) for i in range(3)],
            ONE_RUNG,
        )
        for j in range(6)
    ]
    counted, seen = Counter(), []
    workers = client.run(os.getpid)

    def kill_one():
        while not record.is_file():
            time.sleep(0.02)
        opened_by = int(record.read_text().split()[1])
        victim = opened_by if opened_by in workers.values() else next(iter(workers.values()))
        os.kill(victim, signal.SIGKILL)

    killer = threading.Thread(target=kill_one)
    killer.start()
    outcomes = run_jobs(client, jobs, lambda outcome: counted.update([outcome.name]), seen.append)
    killer.join()
    assert set(client.run(os.getpid).values()) != set(workers.values())
    assert counted == {job.name: 1 for job in jobs}
    assert [chosen(outcomes[f"job {j}"]) for j in range(3)] == [0, 1, 2]
    assert not any(outcome.failure for outcome in outcomes.values())
    opened = Counter(line.split()[0] for line in record.read_text().splitlines())
    assert set(opened) == {f"{j}.{i}" for j in range(6) for i in range(3)}
    assert sum(opened.values()) > 18  # what the lost worker had begun was begun again
    assert (seen[-1].built, seen[-1].builds, seen[-1].measured, seen[-1].left) == (18, 18, 6, 0)
    assert str(seen[-1]) == "18 of 18 compiled, 6 of 6 jobs measured, about 0 s left"


def test_a_build_that_fails_costs_its_candidate(client):
    device = MadeUpDevice(noise=0.01)
    builds = [
        refuse, partial(device.trial, 2e-5), partial(device.trial, 3e-5), partial(device.trial, 1e-5, "crashed"),
        partial(repr, Unreadable()),
    ]  # fmt: skip
    outcome = run_jobs(client, [ClusterJob("one", builds, ONE_RUNG), ClusterJob("none", [])])["one"]
    assert [result.fate for result in outcome.results] == ["refused", "best", "slower", "crashed", "crashed"]
    assert outcome.results[0].reason == "sigma must order the axes"
    assert outcome.results[4].reason.startswith("ModuleNotFoundError: No module named 'a_module_that_is_not_there'")
    assert outcome.worker.startswith("measure-")


def test_results_of_candidates_arrive_while_the_race_of_their_job_runs(client, tmp_path):
    device, path, arrived = MadeUpDevice(noise=0.01), tmp_path / "heard", []

    def heard(name, result):
        arrived.append((name, result.number, result.fate))
        path.touch()

    bench = partial(WaitingBench, str(path))
    job = ClusterJob("job", [refuse, partial(device.trial, 2e-5)], ONE_RUNG, bench)
    outcome = run_jobs(client, [job], on_result=heard)["job"]
    assert [result.fate for result in outcome.results] == ["refused", "best"]
    assert arrived == [("job", 0, "refused"), ("job", 1, "best")]


def test_a_build_that_ends_every_worker_is_given_up(client):
    device = MadeUpDevice(noise=0.01)
    builds = [leave, partial(device.trial, 2e-5)]
    outcome = run_jobs(client, [ClusterJob("job", builds, ONE_RUNG)])["job"]
    assert [result.fate for result in outcome.results] == ["crashed", "best"]
    assert "KilledWorker" in outcome.results[0].reason


def test_messages(client, monkeypatch):
    job = ClusterJob("job", [])
    with pytest.raises(UsageError, match="two jobs have the name 'job'"):
        run_jobs(client, [job, job])
    with pytest.raises(UsageError, match="at least one worker that measures, got compiling=1 and measuring=0"):
        cluster.local_cluster(1, 0).__enter__()
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(DependencyError, match=r"Dask is not installed .*; run: pip install dask distributed"):
        cluster.local_cluster(1).__enter__()


WITHOUT_GPU = """
import sys
from lego_mlir.errors import UsageError
from lego_mlir.tuning import cluster

if __name__ == "__main__":
    with cluster._distributed().LocalCluster(n_workers=1, processes=False, dashboard_address=None) as made:
        for scheduler in (made.scheduler_address, "tcp://127.0.0.1:9"):
            try:
                with cluster.connected(scheduler, timeout=1.0) as client:
                    cluster.run_jobs(client, [])
            except UsageError as error:
                print(error)
"""


def test_a_cluster_without_gpu_and_an_address_without_scheduler_have_a_remedy(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(WITHOUT_GPU)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120, check=True)
    first, second = done.stdout.splitlines()
    assert first.startswith("none of the 1 workers of the cluster has the resource gpu; start those on machines with")
    assert second.startswith("no Dask scheduler answers at tcp://127.0.0.1:9")
    assert second.endswith("start one with: dask scheduler")


def test_candidates_of_several_sizes_come_back_as_timings(client):
    candidates = [Candidate(Configuration.of({"tile": tile}), lambda: None) for tile in range(4)]
    problems = [SizedProblem(candidates, {"M": n}) for n in range(3)]
    device, arrived = MadeUpDevice(noise=0.01), []

    def build(candidate, sizes, where):
        if candidate.configuration["tile"] == 3:
            raise LayoutError("sigma must order the axes")
        return partial(device.trial, (2 + abs(candidate.configuration["tile"] - sizes["M"])) * 1e-5)

    options = {
        "digest": lambda candidate: str(candidate.configuration), "identify": MADE_UP, "build": build,
        "on_timing": arrived.append, "known": [],
    }  # fmt: skip
    found = halve_on(client, "example", problems, **options)
    assert [min(timings, key=lambda t: t.median).configuration["tile"] for timings in found] == [0, 1, 2]
    assert sorted(map(id, arrived)) == sorted(id(timing) for timings in found for timing in timings)
    assert {(t.device, t.multiprocessors, t.toolchain) for t in arrived} == {("made-up", 132, "t")}
    assert [t.failure for t in found[0] if t.failure] == ["refused: sigma must order the axes"]
    known = [timing for timings in found for timing in timings]
    arrived.clear()
    assert halve_on(client, "example", problems, **{**options, "known": known}) == found  # in the order of the tiles
    assert arrived == []
