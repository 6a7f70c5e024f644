"""The kernels of `examples/language_models`: right in the interpreter and by their PTX at odd sizes, without a race."""

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lego_mlir.cli.main import main

FOLDER = Path(__file__).parents[1] / "examples" / "language_models"
SIZES = {
    "cross_entropy": [{"M": 1}, {"M": 2}],
    "norms": [{"M": 2}],
    "norm_gradients": [{"M": 1, "G": 1, "C": 300}, {"M": 5, "G": 3, "C": 1}],
    "rope": [{"S": 1, "P": 1}, {"S": 3, "P": 50}],
    "softmax": [{"M": 1}, {"M": 2}],
    "swiglu": [{"M": 1}, {"M": 3}],
}
CASES = [(name, sizes) for name, several in SIZES.items() for sizes in several]


@pytest.fixture(scope="module")
def row_parts():
    sys.path.insert(0, str(FOLDER))
    try:
        yield __import__("row_parts")
    finally:
        sys.path.remove(str(FOLDER))
        sys.modules.pop("row_parts", None)


def test_every_example_has_sizes():
    assert {path.stem for path in FOLDER.glob("*.py")} == {*SIZES, "row_parts"}


@pytest.mark.parametrize(("name", "sizes"), CASES, ids=str)
@pytest.mark.parametrize("on", ["interp", "ptx"])
def test_it_agrees_with_its_reference(name, sizes, on, capsys):
    words = [word for size, n in sizes.items() for word in ("--size", f"{size}={n}")]
    target = ["--target", "sm_90"] if on == "ptx" else []
    assert main(["run", str(FOLDER / f"{name}.py"), "--on", on, *target, *words]) == 0, capsys.readouterr().out


@given(columns=st.integers(1, 1 << 18), each=st.sampled_from([16, 32]))
def test_parts_cover_a_row_and_no_block_is_without_columns(row_parts, columns, each):
    found = row_parts.parts_of(columns, each)
    assert (found.blocks - 1) * found.part < columns <= found.blocks * found.part
    assert found.part % (row_parts.WIDTH * found.threads) == 0 and found.part <= 32 * found.threads
    assert found.blocks <= row_parts.BLOCKS and found.threads <= row_parts.THREADS


def test_a_row_that_no_cluster_holds_is_refused(row_parts):
    with pytest.raises(ValueError, match="a row of 262145 columns is longer than 262144, which a cluster holds"):
        row_parts.parts_of((1 << 18) + 1)
