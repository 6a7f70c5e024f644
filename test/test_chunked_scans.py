"""Recurrences in chunks, `examples/chunked_scans`: as the plain recurrence, in the interpreter and by their PTX."""

import runpy
from pathlib import Path

import ml_dtypes
import numpy as np
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


def test_the_delta_net_of_keys_that_are_alike():
    """Powers of their matrix are beyond f16, though the outputs are near the values."""
    found = runpy.run_path(str(FOLDER / "gated_delta_net.py"))
    rng, steps = np.random.default_rng(0), 70
    keys = rng.standard_normal(128) + rng.standard_normal((1, steps, 128)) * [[[0.0]] * 35 + [[1.0]] * 35]
    keys = (keys / np.linalg.norm(keys, axis=-1, keepdims=True)).astype(ml_dtypes.bfloat16)
    values = rng.standard_normal((1, steps, 128)).astype(ml_dtypes.bfloat16)
    gates = np.zeros((1, 1, steps), np.float32), np.ones((1, 1, steps), np.float32)
    given = keys, keys, values, *gates, 1.0
    for one, wanted in zip(found["gated_delta_net"](*given, check=True), found["expected"](*given), strict=True):
        np.testing.assert_allclose(one.astype(np.float32), wanted, atol=4e-2)
