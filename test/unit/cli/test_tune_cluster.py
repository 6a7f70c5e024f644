"""`lego-mlir tune` on a Dask cluster of this machine, with the made-up device in place of a GPU."""

import json
from functools import partial

import pytest

from lego_mlir.cli import main as cli
from lego_mlir.cli.main import BAD_INPUT, DONE
from lego_mlir.tuning import cluster_tuning
from lego_mlir.tuning.cluster_tuning import WorkerDevice
from lego_mlir.tuning.made_up import MadeUpDevice
from lego_mlir.tuning.timings import TimingStore

pytestmark = pytest.mark.filterwarnings("ignore")  # of Dask's own dependencies
SPEC = """
import lego_mlir as lego
from lego_mlir import Row, f32

@lego.tune(space={"threads": [32, 64, 128]}, key=["N"])
def doubled(threads, N):
    @lego.kernel(grid=lego.cdiv(N, threads), block=threads)
    def double(x: lego.Tensor(f32, Row(N)), y: lego.Tensor(f32, Row(N))):
        i = lego.block_id.x * threads + lego.thread_id.x
        with lego.when(i < N):
            y[i] = 2 * x[i]
    return double
"""


def test_candidates_are_measured_on_the_workers_and_stored(tmp_path, monkeypatch, capsys):
    device = MadeUpDevice(noise=0.01)

    def build(candidate, sizes, where):
        return partial(device.trial, 1e-5 + 1e-7 * abs(candidate.configuration["threads"] - 64))

    monkeypatch.setattr(cluster_tuning, "gpu_device", partial(WorkerDevice, "made-up", 132, "none", "t", "sm_90"))
    monkeypatch.setattr(cluster_tuning, "gpu_build", build)
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    spec, store = tmp_path / "spec.py", TimingStore(tmp_path / "timings.jsonl")
    spec.write_text(SPEC)
    arguments = ["tune", str(spec), "--size", "N=5000", "--local-cluster", "--json", "--store", str(store.path)]
    assert cli.main(arguments) == DONE
    timings = json.loads(capsys.readouterr().out)["timings"]
    kept = {timing["configuration"]["threads"] for timing in timings}
    assert min(timings, key=lambda timing: timing["us"])["configuration"]["threads"] == (64 if 64 in kept else 128)
    assert {t.configuration["threads"] for t in store} == kept
    assert {t.device for t in store} == {"made-up"}


def test_messages(tmp_path, capsys):
    spec = tmp_path / "spec.py"
    spec.write_text(SPEC)
    given = ["tune", str(spec), "--size", "N=5000"]
    assert cli.main([*given, "--local-cluster", "0"]) == BAD_INPUT
    assert "a local cluster has at least one worker that measures" in capsys.readouterr().err
    assert cli.main([*given, "--local-cluster", "--scheduler", "tcp://host:8786"]) == BAD_INPUT
    assert "not allowed with argument" in capsys.readouterr().err
