"""The example at the end of every `--help` runs, in a folder with the examples of the repository.

That of `convert` needs a model and runs in `test/unit/formats/test_model_files.py`.
"""

import importlib
import shlex
import shutil

import page_commands
import pytest

from lego_mlir.cli.main import COMMANDS, DONE, main
from lego_mlir.viz.shown import VIEWS

NEEDS = {"completion": "shtab", "tune": "dask", "bench": "numba"}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "examples").symlink_to(page_commands.ROOT / "examples")
    return tmp_path


def example(name):
    return importlib.import_module(COMMANDS[name].module).EXAMPLE


@pytest.mark.parametrize("name", [n for n in COMMANDS if n not in ("explore", "sanitize", "convert")])
def test_the_example_runs(name, folder, monkeypatch):
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    monkeypatch.setenv("HOME", str(folder))
    command = example(name)
    if ">" in command:  # a shell's redirection: the folder must be there, as in a home
        (folder / ".local/share/bash-completion/completions").mkdir(parents=True)
    if name == "bench":
        command += " --budget 0.01s"
    code, shown = page_commands.run(command, folder)
    assert code == DONE, shown


def test_the_explorer_opens_its_example(folder):
    code, shown = page_commands.run(f"{example('explore')} --export page.html", folder)
    assert code == DONE, shown
    assert (folder / "page.html").stat().st_size > 1000


def test_the_sanitizer_checks_its_example(folder):
    if shutil.which("nvcc") is None and importlib.util.find_spec("nvidia.cuda_nvcc") is None:
        pytest.skip("needs nvcc: pip install nvidia-cuda-nvcc")
    (folder / "saxpy.cu").write_text(
        'extern "C" __global__ void saxpy(const float *x, float *y, float a, int n) {\n'
        "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i < n) y[i] = a * x[i] + y[i];\n}\n"
    )
    code, shown = page_commands.run(example("sanitize"), folder)
    assert code == DONE, shown


def test_the_examples_files_are_in_the_repository():
    for name in COMMANDS:
        for word in shlex.split(example(name)):
            if word.startswith("examples/"):
                assert (page_commands.ROOT / word).exists(), f"{name}: {word}"


def test_show_lists_every_view(capsys):
    assert main(["show", "--help"]) == DONE
    shown = capsys.readouterr().out
    assert [view for view in VIEWS if view not in shown] == []
