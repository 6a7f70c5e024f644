"""Instructions counted by ncu: what is read of its output, and which contender of a benchmark a launch belongs to."""

import json
from types import SimpleNamespace

import harness  # bench/ is a folder of scripts, not a package
import instructions
import mlir_kernels
import ncu
import pytest


def line(*cells):
    return ",".join(f'"{cell}"' for cell in cells)


def test_counts_are_read_by_their_metrics_names():
    text = "\n".join([
        "==PROF== Connected to process 1", line("ID", "Kernel Name", "b__x.sum", "a__x.sum"), line("", "", "", "inst"),
        line("0", "matmul", "7", "12,345"), line("1", "softmax", "8", ""),
    ])  # fmt: skip
    first, second = ncu.launches(text, {"a": "a__x.sum", "b": "b__x.sum"})
    assert first == ncu.Launch("matmul", {"a": 12345, "b": 7})
    assert second == ncu.Launch("softmax", {"a": 0, "b": 8})


def test_no_output_has_no_launches():
    assert ncu.launches("==ERROR== no permission", {"a": "a__x.sum"}) == []


@pytest.fixture
def watched(tmp_path, monkeypatch):
    """Results of a made-up benchmark, and what ncu is made to see of its launches."""
    path = tmp_path / "Made-Up" / "2026-01-01-bench.json"
    path.parent.mkdir()
    config = [[64, 64], 4]
    rows = [{"kernel": "rendered", "n": 8, "config": config, "ms": 1.0}, {"kernel": "torch", "n": 8, "ms": 2.0}]
    path.write_text(json.dumps({"device": "Made Up", "rows": rows}))
    launched = [{"kernel": "torch", "n": 8}, {"kernel": "rendered", "n": 8, "config": config}]
    (tmp_path / instructions.LAUNCHED).write_text(json.dumps(launched))
    monkeypatch.setattr(mlir_kernels, "RESULTS", tmp_path)
    seen = [(instructions.MARK, 1), ("cublas", 100), (instructions.MARK, 1), ("copy", 20), ("matmul", 50)]
    launches = [ncu.Launch(kernel, {"instructions": number}) for kernel, number in seen]
    monkeypatch.setattr(ncu, "watch", lambda *given: launches)
    return SimpleNamespace(path=path, launches=launches, folder=tmp_path)


def test_the_launches_after_a_mark_are_those_of_one_contender(watched):
    instructions.count("bench", watched.folder, [])
    rendered, torch = json.loads(watched.path.read_text())["rows"]
    assert (rendered["instructions"], torch["instructions"]) == (70, 100)
    assert rendered["ms"] == 1.0  # the times stay


def test_counts_of_other_contenders_are_refused(watched):
    before = watched.path.read_text()
    del watched.launches[2]
    with pytest.raises(SystemExit, match="ncu saw 1 contenders, and 2 were launched"):
        instructions.count("bench", watched.folder, [])
    assert watched.path.read_text() == before


def test_what_was_not_timed_is_not_counted(watched):
    (watched.folder / instructions.LAUNCHED).write_text(json.dumps([{"kernel": "torch", "n": n} for n in (8, 16)]))
    with pytest.raises(LookupError, match=r"not timed: .*16"):
        instructions.count("bench", watched.folder, [])


def test_the_configuration_that_was_timed_is_launched_again(monkeypatch):
    timed = {"kernel": "k", "n": 2, "config": [[64, 32], 8]}
    monkeypatch.setattr(harness, "CONFIGURED", lambda **facts: instructions.row_of([timed], facts)["config"])
    monkeypatch.setattr(harness, "require_close", lambda *given: 0.0)
    launched = []
    runs = {config: lambda config=config: launched.append(config) for config in (((64, 64), 4), ((64, 32), 8))}
    result = SimpleNamespace(zero_=lambda: None)
    found = harness.fastest("k", runs, [(result, result)], 0.0, n=2)
    found.run()
    assert launched == [((64, 32), 8)] * 2
    assert found.facts["config"] == ((64, 32), 8)
    with pytest.raises(LookupError, match="not timed"):
        harness.fastest("k", runs, [(result, result)], 0.0, n=3)
