"""The shared tile of a linalg module, relaid by transform.lego.swizzle alone: right values, and no bank conflicts."""

import re
from pathlib import Path

import numpy as np
import pytest

from lego_mlir import interp
from lego_mlir.transforms import dialect_plugin

ROOT = Path(__file__).resolve().parents[2]
MODULE = (ROOT / "examples" / "linalg_transpose.mlir").read_text()
SCRIPT = (ROOT / "examples" / "linalg_transpose_swizzle.mlir").read_text()
SWIZZLE = re.compile(r"\n[^\n]*transform\.lego\.swizzle[^\n]*")

pytestmark = pytest.mark.skipif(
    dialect_plugin.find() is None or dialect_plugin.mlir_opt() is None,
    reason=f"the plugin of the lego dialect is not built: {dialect_plugin.BUILD}",
)


def transposed(script):
    """The report of the module after a script, which must give the transpose."""
    compiled = interp.compile_module(dialect_plugin.run_script(MODULE, script, "linalg_transpose_swizzle.mlir"))
    given = np.arange(128 * 128, dtype=np.float32).reshape(128, 128)
    out = np.zeros_like(given)
    report = interp.launch(compiled, "transpose", args=[given, out])
    assert report.clean, report
    assert np.array_equal(out, given.T)
    return report


def test_rows_have_conflicts():
    assert SWIZZLE.search(SCRIPT)
    assert transposed(SWIZZLE.sub("", SCRIPT)).totals.conflicts == 31 * 16 * 32


def test_the_swizzle_has_none():
    assert transposed(SCRIPT).totals.conflicts == 0
