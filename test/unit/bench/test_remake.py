"""Results remade by several processes, with benchmarks made up here: the order of their steps, GPUs, ends, failures."""

import importlib
import json
import sys
import time
from pathlib import Path

import harness
import mlir_kernels
import pytest
import remake
import runner
import suites

BENCH = Path(runner.__file__).parent
MADE = """
import json, os, pathlib, sys, time
sys.path.insert(0, {bench!r})
import harness, runner
harness.ARTIFACTS = pathlib.Path({artifacts!r})

def note(name, step, start, **facts):
    about = dict(name=name, step=step, start=start, end=time.monotonic(), gpus=os.environ.get("CUDA_VISIBLE_DEVICES"))
    (pathlib.Path({notes!r}) / f"{{name}}-{{step}}-{{os.getpid()}}.json").write_text(json.dumps(about | facts))

def made(name, seconds=0.0, wrong=False, broken=False, **given):
    def render(folder, cases):
        start = time.monotonic()
        for case, in cases:
            (folder / case).write_text(case)
        note(name, "render", start, cases=[case for case, in cases])
        if broken:
            raise SystemExit("no such kernel")

    def timed(words):
        start = time.monotonic()
        found = sorted(path.name for path in (harness.ARTIFACTS / name).iterdir())
        print("times of", *found, flush=True)
        if seconds > 60:
            note(name, "began", start)
        time.sleep(seconds)
        harness.save(name, {{"device": "Made Up", "rows": found}}, harness.results_path("Made Up", name))
        note(name, "time", start)
        return int(wrong)

    cases = [(f"c{{number}}",) for number in range(4)]
    return runner.Benchmark(name, cases, render=render, steps={{"time": timed}}, **given)

BENCHMARKS = {{one.name: one for one in ({made})}}
if __name__ == "__main__":
    sys.exit(runner.main_of(BENCHMARKS, ""))
"""


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine with two GPUs; call it with the benchmarks, which are made up, and words of the command line."""
    folder, notes = tmp_path / "bench", tmp_path / "notes"
    folder.mkdir()
    notes.mkdir()
    monkeypatch.setattr(harness, "ARTIFACTS", tmp_path / "artifacts")
    monkeypatch.setattr(mlir_kernels, "RESULTS", tmp_path / "results")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,7")
    monkeypatch.syspath_prepend(str(folder))

    def run(made, *words):
        given = {"bench": str(BENCH), "artifacts": str(harness.ARTIFACTS), "notes": str(notes), "made": made}
        (folder / "made_up.py").write_text(MADE.format(**given))
        importlib.invalidate_caches()
        sys.modules.pop("made_up", None)
        code = remake.main(list(words), folder)
        return code, [json.loads(path.read_text()) for path in sorted(notes.iterdir())]

    return run


def of(found, step):
    return [one for one in found if one["step"] == step]


def test_kernels_come_first_and_two_benchmarks_are_never_on_one_gpu(machine, capsys):
    names = ["a", "b", "c"]
    code, found = machine("".join(f"made({name!r}, 0.3)," for name in names), *names, "--jobs", "2")
    assert code == 0 and "3 finished, 0 not" in capsys.readouterr().out
    times = of(found, "time")
    assert {one["name"] for one in times} == set(names)
    for one in times:
        rendered = [other for other in of(found, "render") if other["name"] == one["name"]]
        assert [len(other["cases"]) for other in rendered] == [2, 2]
        assert {case for other in rendered for case in other["cases"]} == {"c0", "c1", "c2", "c3"}
        assert max(other["end"] for other in rendered) <= one["start"]
        assert one["gpus"] in ("4", "7")
        same = [other for other in times if other is not one and other["gpus"] == one["gpus"]]
        assert all(other["end"] <= one["start"] or one["end"] <= other["start"] for other in same)
        (path,) = mlir_kernels.RESULTS.glob(f"Made-Up/*-{one['name']}.json")
        assert json.loads(path.read_text())["rows"] == ["c0", "c1", "c2", "c3"]
        assert "times of c0 c1 c2 c3" in (harness.ARTIFACTS / "remake" / f"{one['name']}.log").read_text()


def test_what_is_alone_comes_last_with_all_gpus_and_one_process_renders_what_is_together(machine):
    made = "made('host', alone=True), made('one', 0.3, together=True), made('two', 0.3),"
    code, found = machine(made, "host", "one", "two", "--jobs", "3")
    assert code == 0
    ends = {one["name"]: one for one in of(found, "time")}
    assert ends["host"]["gpus"] == "4,7"
    assert ends["host"]["start"] >= max(ends["one"]["end"], ends["two"]["end"])
    assert [len(one["cases"]) for one in of(found, "render") if one["name"] == "one"] == [4]


def test_a_failure_is_kept_apart_and_the_others_go_on(machine, tmp_path, capsys):
    made = "made('wrong', wrong=True), made('broken', broken=True), made('right'),"
    code, found = machine(made, "wrong", "broken", "right", "--out", str(tmp_path / "out"), "--gpus", "1")
    assert code == 1 and {one["name"] for one in of(found, "time")} == {"wrong", "right"}
    said = capsys.readouterr().out
    assert f"wrong: failed, see {tmp_path}/out/wrong.log" in said and "broken: failed" in said
    assert "1 finished, 2 not" in said
    assert (tmp_path / "out" / "right.json").is_file() and not (tmp_path / "out" / "wrong.json").exists()
    assert (tmp_path / "out" / "failed" / "wrong" / "wrong.json").is_file()
    assert not mlir_kernels.RESULTS.exists()


def test_after_the_time_what_runs_is_ended_and_the_rest_is_listed(machine, capsys):
    began = time.monotonic()
    code, found = machine("made('long', 600.0), made('next'),", "long", "next", "--gpus", "1", "--seconds", "8")
    assert code == 1 and time.monotonic() - began < 60
    assert {one["name"] for one in of(found, "time")} <= {"next"}
    said = capsys.readouterr().out
    assert "long: not finished in time" in said
    assert not list(harness.ARTIFACTS.glob("remake/**/*.json"))


def test_steps_are_chosen_and_without_a_gpu_kernels_are_rendered(machine, monkeypatch, capsys):
    code, found = machine("made('a'),", "a", "--steps", "render")
    assert code == 0 and not of(found, "time")
    code, found = machine("made('a'),", "a", "--steps", "prepare,time")
    assert code == 0 and len(of(found, "time")) == 1
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    (harness.ARTIFACTS / "a" / "old").write_text("of a kernel that has changed")
    code, found = machine("made('a'),", "a")
    assert code == 0 and len(of(found, "time")) == 1 and not (harness.ARTIFACTS / "a" / "old").exists()
    assert "no GPU: kernels are rendered only" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [(["b"], "there is no b; there are a,"), (["a", "--steps", "run"], "there is no run"), ([], "--list")],
)
def test_names_and_steps_that_are_not_there(machine, capsys, words, said):
    with pytest.raises(SystemExit):
        machine("made('a'),", *words)
    assert said in capsys.readouterr().err


def test_the_kernels_of_a_benchmark_are_what_it_imports_and_the_examples_that_it_names():
    known = suites.timed(BENCH)
    assert {"hopper", "latent", "first_calls", "mesh", "transpose_bytes"} <= known.keys()
    places = {name: {str(path.relative_to(suites.ROOT)) for path in suites.sources(known[name].path)} for name in known}
    assert {"bench/latent.py", "lego_mlir/kernels/latent_attention.py"} <= places["latent"]
    assert {"examples/low_bits/few_bits.py", "examples/low_bits/many_tokens.py"} <= places["low_bits"]
    assert "lego_mlir/choices/warpgroup_tiles.py" in places["hopper"]
    assert not any(place.startswith("bench/harness") for place in places["hopper"])


DAY = 24 * 3600
STALE = "older than 1 of 1 files; the last is kernel.py: abc Change it"
NOON = time.mktime((2026, 1, 2, 12, 0, 0, 0, 0, -1))


@pytest.mark.parametrize(
    ("changed", "measured", "state"),
    [(0, 60, "current"), (60, 0, STALE), (DAY, 2 * DAY, STALE)],
)
def test_results_are_stale_after_a_commit_of_their_kernels(monkeypatch, tmp_path, changed, measured, state):
    """By the commit of the results, but no later than the end of the day in their name."""
    known, result = suites.timed(BENCH)["latent"], "Made-Up/2026-01-02-latent.json"
    found = {"kernel.py": (NOON + changed, "abc Change it"), result: (NOON + measured, "def Measure")}
    monkeypatch.setattr(suites, "ROOT", tmp_path)
    monkeypatch.setattr(mlir_kernels, "RESULTS", tmp_path)
    monkeypatch.setattr(suites, "sources", lambda path: {tmp_path / "kernel.py"})
    monkeypatch.setattr(suites, "commits", lambda: found)
    assert known.state() == "never measured"
    (tmp_path / result).parent.mkdir()
    (tmp_path / result).write_text("{}")
    assert known.state() == f"2026-01-02 on Made-Up, {state}"
