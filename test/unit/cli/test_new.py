"""`lego-mlir new`: each example is copied, names its own file in its commands, and checks as it is."""

import pytest
from command_line import output_of, refusal_of

from lego_mlir.cli.main import DONE, main
from lego_mlir.cli.new import EXAMPLES


@pytest.mark.parametrize("like", EXAMPLES)
def test_a_new_spec_names_itself(tmp_path, monkeypatch, capsys, like):
    monkeypatch.chdir(tmp_path)
    assert main(["new", "mine.py", "--like", like]) == DONE
    text = (tmp_path / "mine.py").read_text()
    assert "lego-mlir" in text and " mine.py" in text and "examples/" not in text
    assert not text[3].isdigit()
    compile(text, "mine.py", "exec")


def test_a_new_spec_is_proved(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["new", "mine.py"]) == DONE
    assert "0 refuted, 0 unknown" in output_of(capsys, ["check", "mine.py"])


@pytest.mark.parametrize(
    ("name", "message"),
    [("mine.py", "exists already, and new replaces nothing"), ("mine.txt", "a spec is a Python file"), (".", "folder")],
)
def test_nothing_is_replaced(tmp_path, monkeypatch, capsys, name, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text("kept")
    assert message in refusal_of(capsys, ["new", name])
    assert (tmp_path / "mine.py").read_text() == "kept"
