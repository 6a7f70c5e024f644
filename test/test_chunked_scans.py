"""Recurrences in chunks, `examples/chunked_scans`: as the plain recurrence, in the interpreter and by their PTX."""

from pathlib import Path

import pytest

from lego_mlir.cli.main import main

FOLDER = Path(__file__).parents[1] / "examples" / "chunked_scans"
SIZES = {
    "gated_delta_net": [{"B": 1, "T": 1, "H": 1}, {"B": 1, "T": 130, "H": 2}],
    "state_space": [{"B": 1, "T": 1, "H": 1}, {"B": 2, "T": 130, "H": 1}],
}


def test_every_example_has_sizes():
    assert {path.stem for path in FOLDER.glob("*.py")} == set(SIZES)


@pytest.mark.parametrize(("name", "sizes"), [(name, sizes) for name, all_ in SIZES.items() for sizes in all_], ids=str)
@pytest.mark.parametrize("on", ["interp", "ptx"])
def test_it_agrees_with_the_recurrence(name, sizes, on, capsys):
    words = [word for size, n in sizes.items() for word in ("--size", f"{size}={n}")]
    target = ["--target", "sm_90"] if on == "ptx" else []  # the delta net takes more shared memory than sm_80 has
    assert main(["run", str(FOLDER / f"{name}.py"), "--on", on, *target, *words]) == 0, capsys.readouterr().out
