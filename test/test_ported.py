"""Kernels of public projects, ported by the pages of docs/how-to: right in the interpreter and by their PTX."""

from pathlib import Path

import pytest

from lego_mlir.cli.main import main

FOLDER = Path(__file__).parents[1] / "examples" / "ported"
RAGGED = {
    "adamw": [{"N": 1}, {"N": 300}],
    "awq_dequantise": [{"K": 128, "N": 8}, {"K": 256, "N": 520}],
    "causal_conv1d": [{"B": 1, "D": 1, "L": 8}, {"B": 2, "D": 3, "L": 1032}],
    "gated_delta_rule": [{"B": 1, "T": 1}, {"B": 2, "T": 3}],
    "merge_attention": [{"T": 1, "H": 1}, {"T": 5, "H": 3}],
    "nf4_dequantise": [{"B": 1}, {"B": 9}],
    "quantize_q8_1": [{"M": 1, "N": 32}, {"M": 3, "N": 544}],
    "reshape_and_cache": [{"L": 1, "P": 1}, {"L": 20, "P": 3}],
    "swiglu_gradients": [{"M": 1, "N": 8}, {"M": 3, "N": 1032}],
}
CASES = [(name, sizes) for name, several in RAGGED.items() for sizes in several]


def test_every_port_has_ragged_sizes():
    assert {path.stem for path in FOLDER.glob("*.py")} == set(RAGGED)


@pytest.mark.parametrize(("name", "sizes"), CASES, ids=str)
@pytest.mark.parametrize("on", ["interp", "ptx"])
def test_a_port_agrees_with_its_reference(name, sizes, on, capsys):
    words = [word for size, n in sizes.items() for word in ("--size", f"{size}={n}")]
    assert main(["run", str(FOLDER / f"{name}.py"), "--on", on, *words]) == 0, capsys.readouterr().out
