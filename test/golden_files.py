"""Golden files: emitted texts that are kept, compared, and accepted with --update-golden once they have been read."""

from pathlib import Path

FOLDER = Path(__file__).parent / "golden"


def compare(text, path, request):
    """Fail where the text differs from its golden file; with --update-golden, write the file instead."""
    text = text.rstrip() + "\n"
    if request.config.getoption("--update-golden"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert path.exists(), f"no golden file {path.name}; read what is emitted, then accept it with --update-golden"
    assert text == path.read_text(), "read the difference, then accept it with --update-golden"
