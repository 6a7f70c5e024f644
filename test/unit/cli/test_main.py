"""The command line as a whole: help, version, exit codes, and how an exception becomes one message."""

import gc
import importlib
import os
import re
import subprocess
import sys

import pytest

from lego_mlir.cli import main as cli
from lego_mlir.cli.main import BAD_INPUT, COMMANDS, DONE, INTERRUPTED
from lego_mlir.errors import UsageError


def test_help_lists_every_command_and_warns_that_a_spec_is_executed(capsys):
    assert cli.main(["--help"]) == DONE
    out = capsys.readouterr().out
    for row in COMMANDS.values():
        assert re.search(rf"^    {row.name}\s", out, re.MULTILINE)
        assert row.help in re.sub(r"\n +", " ", out)
    assert "A spec is a Python file, and it is executed" in out


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_help_with_an_example_of_itself(name, capsys):
    module = importlib.import_module(COMMANDS[name].module)
    assert cli.main([name, "--help"]) == DONE
    out = capsys.readouterr().out
    assert COMMANDS[name].help == module.HELP
    assert module.HELP in out
    assert f"example: {module.EXAMPLE}" in out
    assert module.EXAMPLE.startswith(f"lego-mlir {name}")
    assert ("it is executed" in out) == COMMANDS[name].runs_spec


def test_help_imports_no_command_and_nothing_heavy():
    heavy = "{'sympy', 'numpy', 'z3', 'torch_mlir', 'llvmlite', 'lego_mlir.cli.compile', 'lego_mlir.toolchain'}"
    code = (
        f"import sys; from lego_mlir.cli.main import main; main(['--help']); sys.exit(bool({heavy} & set(sys.modules)))"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def test_version(capsys):
    assert cli.main(["--version"]) == DONE
    assert capsys.readouterr().out.startswith("lego-mlir ")


def test_nothing_at_all_shows_the_help(capsys):
    assert cli.main([]) == DONE
    assert "usage: lego-mlir" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments", [["nope"], ["compile"], ["compile", "a.py", "--emit", "sass"], ["compile", "a", "b"]]
)
def test_usage_errors_are_one_line_with_the_place_to_look(arguments, capsys):
    assert cli.main(arguments) == BAD_INPUT
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "--help" in error


def failing(monkeypatch, error):
    from lego_mlir.cli import doctor

    def run(args):
        raise error

    monkeypatch.setattr(doctor, "run", run)


def test_an_error_of_the_family_is_one_message(monkeypatch, capsys):
    failing(monkeypatch, UsageError("the tile is too large; take 32"))
    assert cli.main(["doctor"]) == BAD_INPUT
    assert capsys.readouterr().err == "lego-mlir doctor: the tile is too large; take 32\n"


def test_a_defect_is_said_to_be_one(monkeypatch, capsys):
    failing(monkeypatch, KeyError("x"))
    assert cli.main(["doctor"]) == BAD_INPUT
    error = capsys.readouterr().err
    assert "internal error: KeyError: 'x'" in error
    assert "--debug" in error
    assert "Traceback" not in error


def test_too_little_memory_is_no_defect(monkeypatch, capsys):
    failing(monkeypatch, MemoryError("Unable to allocate 8.00 TiB"))
    assert cli.main(["doctor"]) == BAD_INPUT
    assert "not enough memory: Unable to allocate 8.00 TiB; use smaller sizes" in capsys.readouterr().err


def test_debug_shows_the_traceback(monkeypatch):
    failing(monkeypatch, UsageError("bad"))
    with pytest.raises(UsageError):
        cli.main(["doctor", "--debug"])


def test_an_interruption(monkeypatch, capsys):
    failing(monkeypatch, KeyboardInterrupt())
    assert cli.main(["doctor"]) == INTERRUPTED
    assert "interrupted" in capsys.readouterr().err


def test_a_library_that_an_interruption_kept_from_loading_is_an_interruption(monkeypatch, capsys):
    error = UsageError("no MLIR bindings")
    error.__cause__ = ImportError("initialization failed")
    error.__cause__.__context__ = KeyboardInterrupt()
    failing(monkeypatch, error)
    assert cli.main(["doctor"]) == INTERRUPTED
    assert capsys.readouterr().err == "lego-mlir doctor: interrupted\n"


def test_causes_that_form_a_cycle_end(monkeypatch, capsys):
    error, cause = UsageError("outer"), ValueError("inner")
    error.__cause__, cause.__context__ = cause, error
    failing(monkeypatch, error)
    assert cli.main(["doctor"]) == BAD_INPUT
    assert capsys.readouterr().err == "lego-mlir doctor: outer\n"


STUB = """
import importlib, os, signal, sys
os.kill(os.getpid(), signal.SIGINT)
sys.path.remove({folder!r})
del sys.modules[{name!r}]
importlib.import_module({name!r})
"""


@pytest.mark.parametrize("name", ["argparse", "hashlib", "sympy", "lego_mlir_spec_itself"])
def test_an_interruption_while_modules_are_loaded_is_one_line(tmp_path, name):
    stubs = tmp_path / "stubs"
    stubs.mkdir()
    (stubs / f"{name}.py").write_text(STUB.format(folder=str(stubs), name=name))
    spec = tmp_path / "spec.py"
    spec.write_text("import sympy\nimport lego_mlir_spec_itself\n")
    done = started("check", str(spec), path=str(stubs))
    assert done.returncode == INTERRUPTED
    assert done.stderr in ("lego-mlir: interrupted\n", "lego-mlir check: interrupted\n")


FORGOTTEN = (
    "import os, signal\nclass Dying:\n    def __del__(self):\n        os.kill(os.getpid(), signal.SIGINT)\n"
    "        for i in range(1000): pass\nDying()\n"
)
"""An interruption that Python would print and forget."""
AT_EXIT = (
    "import atexit, os, signal\nfrom lego_mlir import Row\ntile = Row(4, 4)\n"
    "atexit.register(lambda: os.kill(os.getpid(), signal.SIGINT))\n"
)


@pytest.mark.parametrize(
    ("text", "code", "said"), [(FORGOTTEN, INTERRUPTED, "lego-mlir: interrupted\n"), (AT_EXIT, DONE, "")]
)
def test_an_interruption_ends_the_program_and_is_silent_during_python_s_own_exit(tmp_path, text, code, said):
    spec = tmp_path / "spec.py"
    spec.write_text(text)
    done = started("check", str(spec))
    assert (done.returncode, done.stderr) == (code, said)


def started(*arguments, path=""):
    """The program itself, with a folder before all others on the import path."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [path, os.environ.get("PYTHONPATH")]))}
    command = [sys.executable, "-m", "lego_mlir.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


@pytest.mark.parametrize(("given", "meant"), [("chek", "check"), ("complie", "compile"), ("doctr", "doctor")])
def test_a_misspelt_command_is_told_the_one_that_was_meant(given, meant, capsys):
    assert cli.main([given, "spec.py"]) == BAD_INPUT
    assert capsys.readouterr().err == (
        f"lego-mlir: unknown command '{given}'; did you mean {meant}?; see: lego-mlir --help\n"
    )


def test_a_command_that_resembles_none_lists_them(capsys):
    assert cli.main(["zzz"]) == BAD_INPUT
    assert "unknown command 'zzz'; the commands are compile, check, explain, run," in capsys.readouterr().err


def test_a_reader_that_goes_away_is_no_error():
    command = f"{sys.executable} -m lego_mlir.cli.main doctor | head -c 1"
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.returncode == 0


def test_the_program_collects_cycles_rarely_and_not_at_its_end():
    code = (
        "import gc, sys; sys.argv = ['lego-mlir', '--version']\n"
        "from lego_mlir.cli.start import main\n"
        "code = main()\n"
        "print(code, gc.isenabled(), gc.get_threshold()[0] >= 100_000, gc.get_freeze_count() > 10_000)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "0 True True True"


def test_an_embedding_program_keeps_its_own_collection():
    before = gc.get_threshold()
    assert cli.main(["--version"]) == DONE
    assert gc.get_threshold() == before
