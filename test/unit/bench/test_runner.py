"""The runner of the benchmarks: which steps a benchmark has, which cases words choose, and laws over all of them."""

import ast
import doctest
import importlib
from pathlib import Path

import harness
import pytest
import runner

BENCH = Path(__file__).resolve().parents[3] / "bench"

DOCUMENTS = {"op_counts", "layout_tables"}
"""Programs that write a document by `runner.document`."""
OTHERS = {"pages", "remake", "schedule_model"}
"""Programs with a command line of their own: all pages, all results, and models of caches."""


def assigned(path):
    """The names that a module assigns, without importing it."""
    targets = [t for node in ast.parse(path.read_text()).body if isinstance(node, ast.Assign) for t in node.targets]
    return {t.id for t in targets if isinstance(t, ast.Name)}


NAMED = {path.stem: assigned(path) & {"BENCHMARK", "BENCHMARKS"} for path in BENCH.glob("*.py")}
MODULES = sorted(name for name, found in NAMED.items() if found and name != "pages")


def benchmarks(name):
    module = importlib.import_module(name)
    return list(getattr(module, "BENCHMARKS", {}).values()) or [module.BENCHMARK]


def test_what_launches_kernels_is_over_the_runner():
    """A program that takes times of a GPU by itself is one of the mesh, or calls of a process."""
    timed = {path.stem for path in BENCH.glob("*.py") if "harness.times_ms" in path.read_text()}
    assert not timed


def test_every_program_is_over_the_runner():
    programs = {
        path.stem for path in BENCH.glob("*.py") if "__main__" in path.read_text().partition("if __name__ ==")[2]
    }
    assert programs - set(MODULES) == DOCUMENTS | OTHERS
    assert all("runner.document(" in (BENCH / f"{name}.py").read_text() for name in DOCUMENTS)


@pytest.mark.parametrize("name", MODULES)
def test_a_program_lists_its_cases_without_building_anything(name, capsys):
    for one in benchmarks(name):
        assert runner.main(one, ["list"]) == 0
        first, *lines = capsys.readouterr().out.splitlines()
        assert first == f"{one.name}: {', '.join(one.known_steps)}; {len(one.cases)} cases"
        assert lines == [" ".join(harness.words_of(case)) for case in one.cases]


def test_the_examples_of_the_runner():
    assert doctest.testmod(runner).failed == 0


def test_options_are_words(capsys):
    given = runner.options(["a", "seed=5"], seed=0, to="")
    assert (given.words, given.seed, given.to) == (["a"], 5, "")
    with pytest.raises(SystemExit, match="no option sed; there are seed"):
        runner.options(["sed=5"], seed=0)


def test_a_document_is_written_or_compared(tmp_path, capsys):
    path = tmp_path / "made.md"
    assert runner.document({path: "text"}, arguments=["--check"]) == 1 and not path.exists()
    assert "made.md is out of date" in capsys.readouterr().out
    assert runner.document({path: "text"}, arguments=[]) == 0 and path.read_text() == "text"
    assert runner.document({path: "text"}, arguments=["--check"]) == 0
    assert runner.document({path: "text"}, ["wrong: a case"], []) == 1
    assert capsys.readouterr().out == "wrong: a case\n"


def test_a_benchmark_with_one_step_needs_no_name_of_it():
    done = []
    one = runner.Benchmark("made", steps={"count": done.extend})
    assert runner.main(one, []) == 0 and runner.main(one, ["count", "a"]) == 0
    assert done == ["a"]


@pytest.mark.parametrize("name", MODULES)
def test_a_benchmark_has_steps_and_each_case_a_name_of_its_own(name):
    for one in benchmarks(name):
        assert one.known_steps
        named = [tuple(harness.words_of(case)) for case in one.cases]
        assert len(set(named)) == len({repr(case) for case in one.cases})
        assert one.chosen([]) == list(one.cases)
        for case in one.cases[:: max(1, len(one.cases) // 5)]:
            assert case in one.chosen(harness.words_of(case)), "a case is chosen by its words"


def made(**given):
    cases = [("f16", 64, "NN"), ("f16", 128, "NT"), ("f32", 64, "NT")]
    return runner.Benchmark("made", cases, groups={"small": cases[::2]}, **given)


def test_words_choose_cases():
    one = made()
    assert one.chosen(["f16"]) == one.cases[:2]
    assert one.chosen(["64", "NT"]) == [("f32", 64, "NT")]
    assert one.chosen(["small", "f16"]) == [("f16", 64, "NN")]
    assert one.chosen(["f64"]) == []
    names = runner.Benchmark("made", [("a-1",), ("b-1",), ("c-2",)])
    assert names.chosen(["a-1", "c-2"]) == [("a-1",), ("c-2",)]
    assert names.chosen(["1"]) == [("a-1",), ("b-1",)]


def test_a_step_gets_the_chosen_cases_or_the_words(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(harness, "ARTIFACTS", tmp_path)
    done = []
    one = made(render=lambda folder, cases: done.append((folder, cases)), steps={"own": lambda words: len(words)})
    assert one.known_steps == ["list", "render", "own"]
    assert runner.main(one, ["render", "f32"]) == 0
    assert done == [(tmp_path / "made", [("f32", 64, "NT")])]
    assert runner.main(one, ["own", "a", "b"]) == 2
    with pytest.raises(SystemExit):
        runner.main(one, ["time"])
    assert "invalid choice: 'time'" in capsys.readouterr().err


def test_results_have_their_run_date_and_device(tmp_path, monkeypatch):
    monkeypatch.setenv("OUT", str(tmp_path))
    path = harness.save("made", {"device": "Made Up", "rows": []})
    assert path == tmp_path / "made.json"
    monkeypatch.delenv("OUT")
    monkeypatch.setattr(harness, "BENCH", tmp_path)
    path = harness.save("made", {"device": "Made Up", "rows": []})
    assert path.parent.name == "Made-Up" and path.name.endswith("-made.json")
    assert '"run": "made"' in path.read_text() and '"date": "' in path.read_text()
