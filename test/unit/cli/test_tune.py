"""`lego-mlir tune` and `lego-mlir bench` on a machine without a GPU."""

import json
from pathlib import Path

import pytest

from lego_mlir.cli import main as cli
from lego_mlir.cli.main import BAD_INPUT, DONE
from lego_mlir.tuning import baselines, gpu_workbench, profiler
from lego_mlir.tuning.timings import TimingStore
from lego_mlir.tuning.workbench import made_up_workbench

pytestmark = pytest.mark.usefixtures("fresh_cache")  # timings are stored there
SPEC = """
import lego_mlir as lego
from lego_mlir import Row, f32

@lego.tune(space={"threads": [64, 128, 2048], "each": [1, 2]}, where="N % each == 0", key=["N"])
def doubled(threads, each, N):
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

rivals = {"NumPy": lambda x: x + x, "wrong": lambda x: x, "broken": lambda x: 1 / 0}
"""


@pytest.fixture
def spec(tmp_path):
    path = tmp_path / "spec.py"
    path.write_text(SPEC)
    return str(path)


def call(capsys, *arguments):
    code = cli.main(list(arguments))
    out, err = capsys.readouterr()
    return code, out, err


@pytest.fixture
def no_gpu(monkeypatch):
    from lego_mlir.errors import DependencyError

    def refuse(*_, **__):
        raise DependencyError("no CUDA device is visible; a GPU and NVIDIA's driver are needed")

    monkeypatch.setattr(gpu_workbench, "gpu_workbench", refuse)


def test_a_dry_run_prints_what_would_be_measured_and_why_the_rest_is_not(spec, capsys):
    code, out, _ = call(capsys, "tune", spec, "--size", "N=1001", "--dry-run")
    assert code == DONE
    assert out.startswith("doubled N=1001: 2 of 6 configurations to measure, best predicted first by the model of h200")
    assert "  each=2 threads=64: condition: the condition 'N % each == 0' fails at N=1001, each=2" in out
    assert "  each=1 threads=2048: launch: " in out


def test_a_dry_run_as_json(spec, capsys):
    code, out, _ = call(capsys, "tune", spec, "--size", "N=1000", "--dry-run", "--json")
    plan = json.loads(out)
    assert code == DONE
    assert (plan["to_measure"], len(plan["kept"]), len(plan["pruned"])) == (4, 4, 2)
    assert {row["stage"] for row in plan["pruned"]} == {"launch"}
    assert all(row["predicted"]["us"] > 0 for row in plan["kept"])


def test_without_a_gpu_the_plan_is_printed_before_the_error(spec, capsys, no_gpu):
    code, out, err = call(capsys, "tune", spec, "--size", "N=1000")
    assert code == BAD_INPUT
    assert "4 of 6 configurations to measure" in out
    assert "lego-mlir tune: nothing was measured: no CUDA device is visible" in err
    assert "--dry-run prints the plan alone" in err
    code, out, err = call(capsys, "tune", spec, "--size", "N=1000", "--json")
    assert (code, json.loads(out)["to_measure"]) == (BAD_INPUT, 4)


def test_timings_are_stored_resumed_and_exported(spec, capsys, monkeypatch, tmp_path):
    bench = made_up_workbench(lambda c, sizes: 1e-5 * (1 + (c["threads"] != 128) + 0.5 * (c["each"] != 2)))
    monkeypatch.setattr(gpu_workbench, "gpu_workbench", lambda *_, **__: bench)
    store, choices = tmp_path / "timings.jsonl", tmp_path / "choices.json"
    tuned = ("tune", spec, "--size", "N=1000", "--store", str(store), "--budget", "10m")
    code, out, _ = call(capsys, *tuned, "--export", str(choices))
    assert code == DONE
    assert out.splitlines()[2].split()[:2] == ["each=2", "threads=128"]
    assert len(list(TimingStore(store))) == 4
    (row,) = json.loads(choices.read_text())["choices"]
    assert row["configuration"] == {"threads": 128, "each": 2}
    code, out, _ = call(capsys, *tuned, "--resume", "--json")
    assert code == DONE
    assert len(list(TimingStore(store))) == 4
    found = json.loads(out)
    assert len(found["timings"]) == 4
    assert found["devices"] == [
        {"name": bench.device, "multiprocessors": bench.multiprocessors, "driver": bench.driver}
    ]
    assert found["model"] == "h200"
    code, out, _ = call(
        capsys, "bench", spec, "--size", "N=1000", "--on", "cpu", "--choices", str(choices), "--budget", "0.01s"
    )
    assert out.startswith("doubled, each=2 threads=128, on cpu")


def test_a_configuration_is_timed_against_references_and_rivals(spec, capsys):
    code, out, _ = call(
        capsys, "bench", spec, "--size", "N=1000", "--on", "cpu", "--json", "--budget", "0.01s",
        "--configuration", "each=1 threads=64",
    )  # fmt: skip
    found = json.loads(out)
    rows = {row["name"]: row for row in found["rows"]}
    assert code == DONE
    assert found["kernel"] == "doubled, each=1 threads=64"
    assert list(rows) == ["double", "NumPy", "wrong", "broken", "reference"]
    assert all(rows[name]["error"] == 0 and rows[name]["us"] > 0 for name in ("double", "NumPy", "reference"))
    assert rows["wrong"]["failure"].startswith("wrong by 0.5 of the largest value")
    assert rows["broken"]["failure"] == "ZeroDivisionError: division by zero"
    code, out, _ = call(capsys, "bench", spec, "--size", "N=64", "--on", "cpu", "--budget", "0.01s")
    assert "  broken: ZeroDivisionError: division by zero" in out


def test_a_plain_kernel_is_timed_as_well(capsys):
    code, out, _ = call(capsys, "bench", "examples/transpose.py", "--on", "cpu", "--budget", "0.01s")
    assert code == DONE
    assert out.startswith("transpose, on cpu")


@pytest.mark.tools
def test_counters_are_counted_after_the_times(machine, spec, capsys, monkeypatch):
    """The rivals need a CUDA library, and ncu a GPU: both are replaced; the trial is that of the kernel."""
    counted = []

    def under_ncu(trial, metrics):
        counted.append(trial)
        return [profiler.CountedLaunch("double", dict.fromkeys(metrics, 7))]

    monkeypatch.setattr(
        baselines, "compared", lambda *_, **__: [baselines.RivalTime("double", 9.0, (8.0, 10.0), 5, 0.0)]
    )
    monkeypatch.setattr(profiler, "count", under_ncu)
    given = ("bench", spec, "--size", "N=1000", "--counters", "dram__bytes_read.sum, l1tex__sectors.sum")
    code, out, _ = call(capsys, *given, "--json")
    assert code == DONE
    assert json.loads(out)["counters"] == [
        {"kernel": "double", "dram__bytes_read.sum": 7, "l1tex__sectors.sum": 7}
    ]  # fmt: skip
    assert b".entry double" in counted[0]().code
    code, out, _ = call(capsys, *given)
    assert [line.split() for line in out.splitlines() if "sectors" in line] == [["double", "l1tex__sectors.sum", "7"]]


def test_what_is_left_becomes_the_configs_of_tritons_autotune(tmp_path, capsys):
    path = tmp_path / "spec.py"
    path.write_text(
        "import lego_mlir as lego\n"
        "from lego_mlir.templates.library.rows import softmax\n"
        "def counts(values, sizes):\n"
        "    return lego.LaunchCounts(4096 // values['rows'], 32 * values['num_warps'], touched=8e6)\n"
        "@lego.tune(space={'rows': [1, 2], 'num_warps': [4, 64]}, counts=counts, key=['N'])\n"
        "def rowwise(rows, N):\n"
        "    return softmax(4096, N, at_a_time=rows)\n"
    )
    code, out, _ = call(capsys, "tune", str(path), "--size", "N=512", "--autotune")
    assert code == DONE
    assert "triton.Config({'rows': 1}, num_warps=4)" in out
    assert "num_warps=64" not in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("tune", "{spec}"), "doubled: give a value for N, such as N=4096"),
        (("tune", "{spec}", "--size", "N=1000", "--budget", "soon"), "a budget is a time such as 90s, 10m or 1h"),
        (("tune", "{spec}", "--kernel", "halved"), "no tunable named 'halved'; it has: doubled"),
        (("tune", "examples/transpose.py"), "this spec has nothing to tune; decorate a function"),
        (("bench", "{spec}", "--size", "N=8", "--configuration", "each=3 threads=64"), "each=3: not a value"),
        (("bench", "examples/transpose.py", "--configuration", "a=1"), "--configuration applies to a tunable, and"),
        (("bench", "examples/symbolic.py", "--choices", "c.json"), "--choices applies to a tunable, and"),
        (("bench", "{spec}", "--on", "cpu", "--counters", "a.sum"), "--counters are those of a GPU; omit them"),
    ],
)  # fmt: skip
def test_bad_command_lines(arguments, message, spec, capsys):
    code, _, err = call(capsys, *(a.format(spec=spec) for a in arguments))
    assert code == BAD_INPUT
    assert message in err


def test_rivals_are_functions_by_name(tmp_path, capsys):
    path = tmp_path / "spec.py"
    path.write_text(Path("examples/transpose.py").read_text() + "\nrivals = [1]\n")
    code, _, err = call(capsys, "bench", str(path), "--on", "cpu")
    assert code == BAD_INPUT
    assert "rivals maps names to functions of the input arrays" in err
