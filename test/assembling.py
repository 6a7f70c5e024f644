"""PTX through ptxas: the mark of tests that need it, which skips them by name, and the calls."""

import re
import subprocess
import tempfile
from pathlib import Path

import pytest

from lego_mlir.toolchain import ptxas, target_named


def needs_ptxas(test):
    """The test, skipped where there is no ptxas."""
    skipped = pytest.mark.skipif(ptxas.find() is None, reason=f"needs ptxas; {ptxas.REMEDY}")
    return pytest.mark.tools(skipped(test))


def assemble(text, target):
    """The resources of each kernel of a PTX text."""
    return ptxas.assemble(text, target_named(target))[1]


def machine_code(text, target="sm_90a"):
    """The resources of one kernel, whose products are not serialized for registers used early (C7510 .. C7519)."""
    with tempfile.TemporaryDirectory() as folder:
        source, code = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        source.write_text(text)
        command = [ptxas.required(), f"-arch={target}", "-v", source, "-o", code]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    report = done.stdout + done.stderr
    assert not re.search(r"C7\d\d\d", report)
    (resources,) = ptxas.parse_report(report)
    return resources
