"""The GitHub action and the pre-commit hook call the command line as it is."""

import re
import shlex
from pathlib import Path

import pytest
from ptx_kernels import entry

from lego_mlir.cli.main import main

FOLDER = Path(__file__).parents[3] / "packaging" / "sanitize"
yaml = pytest.importorskip("yaml", reason="needs PyYAML (pip install pyyaml)")


@pytest.fixture
def launches(tmp_path):
    (tmp_path / "k.ptx").write_text(entry("ret;", ""))
    path = tmp_path / "launches.toml"
    path.write_text('[[launch]]\nfile = "k.ptx"\ngrid = 1\nblock = 32\n')
    return path


def test_the_action_runs_a_command_that_works(launches, tmp_path):
    action = yaml.safe_load((FOLDER / "action.yml").read_text())
    values = {name: given.get("default", str(launches)) for name, given in action["inputs"].items()}
    values["sarif"] = str(tmp_path / "found.sarif")
    (command,) = [s["run"] for s in action["runs"]["steps"] if "sanitize " in s["run"]]
    for name, value in values.items():
        command = command.replace(f"${{{{ inputs.{name} }}}}", value)
    program, *words = shlex.split(command)
    assert program == "lego-mlir"
    assert main(words) == 0
    assert (tmp_path / "found.sarif").exists()


def test_the_hook_runs_on_launch_files(launches):
    (hook,) = yaml.safe_load((FOLDER / "pre-commit-hooks.yaml").read_text())

    assert re.search(hook["files"], launches.name)
    assert main([*shlex.split(hook["entry"])[1:], str(launches)]) == 0
