"""Completion scripts: valid for their shell, with every command and option, and a remedy where shtab is missing."""

import shutil
import subprocess
import sys

import pytest
from command_line import refusal_of

from lego_mlir.cli.completion import SHELLS
from lego_mlir.cli.main import COMMANDS, DONE, main


def script(capsys, shell):
    pytest.importorskip("shtab")
    assert main(["completion", shell]) == DONE
    return capsys.readouterr().out


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_has_every_command_and_their_options(capsys, shell):
    text = script(capsys, shell)
    assert all(name in text for name in COMMANDS)
    for option in ("--with-data", "--access", "--no-cache", "--json"):
        assert option in text or f"-l {option[2:]}" in text  # fish names long options so


@pytest.mark.parametrize("shell", SHELLS)
def test_the_shell_reads_the_script(capsys, tmp_path, shell):
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"needs {shell}")
    (tmp_path / "script").write_text(script(capsys, shell))
    subprocess.run([program, "-n", tmp_path / "script"], check=True)


def test_bash_completes_commands_options_and_choices(capsys, tmp_path):
    program = shutil.which("bash")
    if program is None:
        pytest.skip("needs bash")
    (tmp_path / "script").write_text(script(capsys, "bash"))
    (tmp_path / "kernel.py").touch()

    def completed(*words):
        quoted = " ".join(f"'{word}'" for word in words)
        code = (
            f". ./script; COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; "
            '$(complete -p lego-mlir | grep -o -- "-F [^ ]*" | cut -c4-) lego-mlir; echo "${COMPREPLY[@]}"'
        )
        done = subprocess.run([program, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
        return done.stdout.split()

    assert completed("lego-mlir", "an") == ["analyze"]
    assert "--with-data" in completed("lego-mlir", "compile", "--w")
    assert completed("lego-mlir", "compile", "ker") == ["kernel.py"]
    assert "cubin" in completed("lego-mlir", "compile", "--emit", "c")


def test_without_shtab_the_message_has_the_remedy(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert "shtab, which is missing: pip install shtab" in refusal_of(capsys, ["completion", "bash"])


def test_an_unknown_shell(capsys):
    assert "invalid choice: 'ksh'" in refusal_of(capsys, ["completion", "ksh"])
