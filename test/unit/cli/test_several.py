"""Several specs in one call: each runs, the worst exit code wins, JSON is one object, findings reach a code host."""

import io
import json

import pytest
from command_line import output_of, refusal_of

from lego_mlir.cli.json_output import SCHEMA
from lego_mlir.cli.main import BAD_INPUT, CHECK_FAILED, DONE, NOT_PROVED, main

GOOD = "from lego_mlir import Row\ntile = Row(4, 8)\n"
RACE = """import lego_mlir as lego
from lego_mlir import Row, i32


@lego.kernel(grid=1, block=32)
def race(y: lego.Tensor(i32, Row(4))):
    y[lego.thread_id[0] % 4] = lego.i32(lego.thread_id[0])


@race.reference
def expected(y):
    return y
"""


UNKNOWN = """import lego_mlir as lego
from lego_mlir import Row, i32


@lego.kernel(grid=1, block=32)
def moved(at: lego.Tensor(i32, Row(32), range=(0, 64)), y: lego.Tensor(i32, Row(64))):
    with lego.when(lego.thread_id[0] == 0):
        y[at[0]] = 1
"""


@pytest.fixture
def specs(tmp_path, monkeypatch):
    """Two good specs, one refuted and one that does not load."""
    monkeypatch.chdir(tmp_path)
    for name, text in (("a", GOOD), ("b", GOOD), ("race", RACE), ("wrong", "1 / 0\n")):
        (tmp_path / f"{name}.py").write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("names", "code"),
    [
        (["a.py", "b.py"], DONE),
        (["a.py", "race.py", "b.py"], CHECK_FAILED),
        (["wrong.py", "race.py", "b.py"], BAD_INPUT),
    ],
)
def test_each_is_checked_and_the_worst_code_returned(specs, capsys, names, code):
    assert main(["check", *names]) == code
    out, err = capsys.readouterr()
    assert [line[3:] for line in out.splitlines() if line.startswith("== ")] == names
    assert out.count("1 proved, 0 refuted, 0 unknown") == sum(name in ("a.py", "b.py") for name in names)
    assert ("wrong.py:1: ZeroDivisionError" in err) == ("wrong.py" in names)


def test_unknown_claims_count_by_strict_alone(specs, capsys):
    (specs / "data.py").write_text(UNKNOWN)
    assert ", 0 refuted, " in output_of(capsys, ["check", "data.py"])
    assert main(["check", "data.py", "--strict"]) == NOT_PROVED
    assert main(["check", "a.py", "--strict"]) == DONE
    assert main(["check", "data.py", "race.py", "a.py", "--strict"]) == CHECK_FAILED
    assert main(["check", "data.py", "wrong.py", "a.py", "--strict"]) == BAD_INPUT


def test_patterns_are_expanded_and_each_file_is_checked_once(specs, capsys):
    assert main(["check", "[ab].py", "a.py"]) == DONE
    assert [line for line in capsys.readouterr().out.splitlines() if line.startswith("==")] == ["== a.py", "== b.py"]
    assert "c*.py: no file has such a name" in refusal_of(capsys, ["check", "c*.py"])


def test_one_spec_has_no_title(specs, capsys):
    assert main(["check", "a.py"]) == DONE
    assert capsys.readouterr().out.startswith("layout tile")


def test_the_objects_of_all_specs_are_one(specs, capsys):
    assert main(["check", "a.py", "--json"]) == DONE
    one = json.loads(capsys.readouterr().out)
    assert (one["schema"], one["command"], one["spec"]) == (SCHEMA, "check", "a.py")
    assert main(["check", "a.py", "wrong.py", "b.py", "--json"]) == BAD_INPUT
    both = json.loads(capsys.readouterr().out)
    assert [found["spec"] for found in both["results"]] == ["a.py", "b.py"]
    assert both["results"][0].items() <= one.items()


def test_a_refuted_claim_is_shown_at_its_line(specs, capsys):
    assert main(["check", "a.py", "race.py", "--sarif", "found.sarif", "--annotate"]) == CHECK_FAILED
    shown = [line for line in capsys.readouterr().out.splitlines() if line.startswith("::")]
    assert any(line.startswith("::error file=race.py,line=") for line in shown)
    (run,) = json.loads((specs / "found.sarif").read_text())["runs"]
    assert len(run["results"]) == len(shown)
    assert "::error file=race.py,line=7," in "".join(shown)  # where the refutation says that it is
    assert {rule["id"] for rule in run["tool"]["driver"]["rules"]} >= {found["ruleId"] for found in run["results"]}
    for found in run["results"]:
        (place,) = found["locations"]
        assert place["physicalLocation"]["artifactLocation"]["uri"] == "race.py"
        assert place["physicalLocation"]["region"]["startLine"] in (5, 7)


def test_all_proved_is_an_empty_log(specs):
    assert main(["check", "a.py", "--sarif", "found.sarif"]) == DONE
    assert json.loads((specs / "found.sarif").read_text())["runs"][0]["results"] == []


def test_a_page_is_of_one_spec(specs, capsys):
    assert "is the page of one spec" in refusal_of(capsys, ["analyze", "a.py", "b.py", "--html", "page.html"])
    assert not (specs / "page.html").exists()


def test_run_reads_a_spec_on_standard_input(specs, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(RACE.encode())))
    assert "race" in output_of(capsys, ["run", "-"], CHECK_FAILED)
