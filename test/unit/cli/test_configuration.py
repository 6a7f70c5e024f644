"""Defaults of pyproject.toml: as if given on the command line, which has the last word; faults name file and key."""

import argparse

import pytest
from command_line import refusal_of

from lego_mlir.cli import configuration
from lego_mlir.cli.main import COMMANDS, DONE, main, parser_of

KNOWN = {"check": None, "compile": None}


def parsed(folder, table, command="compile", arguments=()):
    """The arguments of a command whose table has this text."""
    (folder / "pyproject.toml").write_text(f"[tool.lego-mlir.{command}]\n{table}\n")
    parser, loaded = parser_of({command})
    configuration.apply(loaded[command].parser, command, COMMANDS, folder)
    return parser.parse_args([command, *arguments])


def test_values_of_each_kind(tmp_path):
    args = parsed(tmp_path, 'target = "sm_90a"\nlocations = true\nparam = ["stages=3", "warps=8"]', arguments=["k.py"])
    assert (args.target, args.locations, args.param) == ("sm_90a", True, ["stages=3", "warps=8"])
    assert parsed(tmp_path, "seed = 7", "run", ["k.py"]).seed == 7


def test_the_command_line_has_the_last_word(tmp_path):
    args = parsed(tmp_path, 'target = "sm_90a"\nparam = "stages=3"', arguments=["k.py", "--target", "sm_80"])
    assert (args.target, args.param) == ("sm_80", ["stages=3"])
    assert parsed(tmp_path, 'param = "a=1"', arguments=["k.py", "--param", "b=2"]).param == ["a=1", "b=2"]


def test_specs_may_have_a_default(tmp_path):
    assert parsed(tmp_path, 'specs = ["a.py", "b*.py"]', "check").specs == ["a.py", "b*.py"]
    assert parsed(tmp_path, 'specs = ["a.py"]', "check", ["c.py"]).specs == ["c.py"]
    assert parsed(tmp_path, 'spec = "k.py"').spec == "k.py"


def test_the_nearest_file_counts(tmp_path, monkeypatch, capsys):
    inner = tmp_path / "one" / "two"
    inner.mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text('[tool.lego-mlir.check]\nspecs = ["t.py"]\n')
    (inner / "t.py").write_text("from lego_mlir import Row\ntile = Row(4, 8)\n")
    monkeypatch.chdir(inner)
    assert main(["check"]) == DONE
    (tmp_path / "one" / "pyproject.toml").write_text("[project]\nname = 'p'\n")
    assert "the following arguments are required: spec" in refusal_of(capsys, ["check"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[tool.lego-mlir.check]\nsraif = 'x'", "check] sraif: check has no such option; did you mean sarif?"),
        ("[tool.lego-mlir.chekc]\njson = true", "has tables of commands only, not chekc; did you mean check?"),
        ("[tool.lego-mlir]\njson = true", "has tables of commands only, not json"),
        ("[tool.lego-mlir.check]\njson = 1", "check] json = 1: a flag is true or false"),
        ("[tool.lego-mlir.check]\nkernel = ['a']", "check] kernel = ['a']: give text or a number"),
        ("[tool.lego-mlir.check]\ncache-dir = 'x'", "check] cache-dir: this is for the command line only"),
        ("[tool.lego-mlir.check", "cannot be read as TOML"),
    ],
)
def test_faults_end_with_the_key_and_the_remedy(tmp_path, monkeypatch, capsys, text, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text(text)
    err = refusal_of(capsys, ["check", "a.py"])
    assert message in err and "pyproject.toml" in err and len(err.splitlines()) <= 2


def test_choices_and_types_are_those_of_the_option(tmp_path):
    with pytest.raises(Exception, match="the choices are interp, ptx, cuda"):
        parsed(tmp_path, 'on = "moon"', "run", ["k.py"])
    with pytest.raises(Exception, match="must be an integer of at least 0"):
        parsed(tmp_path, "seed = -1", "run", ["k.py"])


def test_no_file_changes_nothing(tmp_path):
    parser = argparse.ArgumentParser()
    parser.add_argument("--x")
    configuration.apply(parser, "check", KNOWN, tmp_path / "none")
    assert parser.parse_args([]).x is None
