"""`lego-mlir tune` on a Dask cluster of this machine, with the made-up device in place of a GPU."""

import json
from functools import partial
from pathlib import Path

import pytest

from lego_mlir.cli import main as cli
from lego_mlir.cli.main import BAD_INPUT, DONE
from lego_mlir.tuning import cluster_tuning, packed
from lego_mlir.tuning.cluster_tuning import WorkerDevice
from lego_mlir.tuning.simulated_device import MadeUpDevice
from lego_mlir.tuning.timings import TimingStore

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # of Dask's own dependencies
    pytest.mark.usefixtures("fresh_cache"),  # timings are stored there
]
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


@pytest.fixture
def workers(monkeypatch):
    """Workers whose device is made up: 64 threads are the fastest; templates have another toolchain."""
    device = MadeUpDevice(noise=0.01)

    def build(candidate, sizes, where):
        return partial(device.trial, 1e-5 + 1e-7 * abs(candidate.configuration["threads"] - 64))

    made_up = partial(WorkerDevice, "made-up", 132, "none")
    monkeypatch.setattr(cluster_tuning, "gpu_device", partial(made_up, "kernels", "sm_90"))
    monkeypatch.setattr(cluster_tuning, "template_device", partial(made_up, "templates", "sm_90"))
    monkeypatch.setattr(cluster_tuning, "gpu_build", build)
    monkeypatch.setattr("os.cpu_count", lambda: 1)


def test_candidates_are_measured_on_the_workers_and_stored(tmp_path, workers, capsys):
    spec, store = tmp_path / "spec.py", TimingStore(tmp_path / "timings.jsonl")
    spec.write_text(SPEC)
    arguments = ["tune", str(spec), "--size", "N=5000", "--local-cluster", "--json", "--store", str(store.path)]
    assert cli.main(arguments) == DONE
    timings = json.loads(capsys.readouterr().out)["timings"]
    kept = {timing["configuration"]["threads"] for timing in timings}
    assert min(timings, key=lambda timing: timing["us"])["configuration"]["threads"] == (64 if 64 in kept else 128)
    assert {t.configuration["threads"] for t in store} == kept
    assert {(t.device, t.toolchain) for t in store} == {("made-up", "kernels")}


TEMPLATE = """
import lego_mlir as lego
from lego_mlir import Row, f32
from lego_mlir.templates.library.rows import softmax

@lego.tune(space={"threads": [32, 64]}, key=["N"])
def rowwise(threads, N):
    X = lego.Tensor(f32, Row(threads, N))
    given = {"x_ptr": X, "y_ptr": X}
    return lego.TemplateLaunch(
        softmax(threads, N), "softmax", threads, given, writes=["y_ptr"], reference=lambda x_ptr: x_ptr
    )
"""


def test_a_recipe_of_templates_is_measured_on_the_workers(tmp_path, workers, capsys):
    (tmp_path / "spec.py").write_text(TEMPLATE)
    recipe = {"format": 1, "spec": "spec.py", "tunable": "rowwise", "sizes": [{"N": 100}, {"N": 300}],
              "export": "choices.json"}  # fmt: skip
    (tmp_path / "recipe.json").write_text(json.dumps(recipe))
    store = TimingStore(tmp_path / "timings.jsonl")
    assert cli.main(["tune", str(tmp_path / "recipe.json"), "--local-cluster", "--store", str(store.path)]) == DONE
    choices = json.loads((tmp_path / "choices.json").read_text())["choices"]
    assert [(row["sizes"]["N"], row["configuration"]["threads"]) for row in choices] == [(100, 64), (300, 64)]
    assert {(t.toolchain, t.sizes["N"]) for t in store} == {("templates", 100), ("templates", 300)}


def test_messages(tmp_path, capsys):
    spec = tmp_path / "spec.py"
    spec.write_text(SPEC)
    given = ["tune", str(spec), "--size", "N=5000"]
    assert cli.main([*given, "--local-cluster", "0"]) == BAD_INPUT
    assert "a local cluster has at least one worker that measures" in capsys.readouterr().err
    assert cli.main([*given, "--local-cluster", "--scheduler", "tcp://host:8786"]) == BAD_INPUT
    assert "not allowed with argument" in capsys.readouterr().err
    (tmp_path / "packed").mkdir()
    (tmp_path / "packed" / packed.INDEX).write_text(
        json.dumps({"format": 2, "tunable": "t", "space": "s", "toolchain": "c", "target": "sm_80", "jobs": []})
    )
    assert cli.main(["tune", str(tmp_path / "packed"), "--local-cluster"]) == BAD_INPUT
    assert "packed candidates are measured on the GPUs of this machine" in capsys.readouterr().err
    recipe = Path(__file__).parents[3] / "bench" / "recipes" / "structured-dtrsv.json"
    assert cli.main(["tune", str(recipe), "--local-cluster"]) == BAD_INPUT
    assert "dtrsv: structured programs are measured on the CPU of this machine" in capsys.readouterr().err
