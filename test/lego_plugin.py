"""Run mlir-opt with the plugin of the lego dialect; tests that need it are skipped by name where it is missing."""

import subprocess

import pytest

from lego_mlir.transforms import dialect_plugin

PLUGIN, MLIR_OPT = dialect_plugin.find(), dialect_plugin.mlir_opt()
needs_plugin = pytest.mark.skipif(
    PLUGIN is None or MLIR_OPT is None, reason=f"the plugin of the lego dialect is not built: {dialect_plugin.BUILD}"
)
LOWER = "lego-lower-to-arith,lego-simplify,int-range-optimizations,canonicalize,cse"


def mlir_opt(text: str, passes: str, *options: str) -> str:
    """The module after these passes. Raises AssertionError with the diagnostics of mlir-opt."""
    command = [str(MLIR_OPT), f"--load-dialect-plugin={PLUGIN}", f"--pass-pipeline=builtin.module({passes})", *options]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr[:4000]
    return done.stdout
