"""A plugin of pytest: `LEGO_SANITIZE=1 pytest` runs a Triton project's tests in the emulator; a test fails by faults.

    LEGO_SANITIZE=1 pytest              the whole project
    def test_saxpy(sanitizer): ..       a fixture: the reports of this test's launches

Tensors of the device "cuda" are made on the CPU. `LEGO_SANITIZE_ARCH=80` chooses the target; `--sanitize-sarif FILE`
writes what was found. Without LEGO_SANITIZE, only the fixture is there.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from lego_mlir.interp.report import Report
    from lego_mlir.sanitize.sessions import Session

_found: list[Report] = []
"""The reports of all tests."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--sanitize-sarif`."""
    group = parser.getgroup("lego-mlir sanitize")
    group.addoption("--sanitize-sarif", metavar="FILE", help="write the faults of all tests' launches as SARIF")


def pytest_configure(config: pytest.Config) -> None:
    """Install the driver before a project's kernels are imported."""
    if os.environ.get("LEGO_SANITIZE", "0") not in ("", "0"):
        from lego_mlir import sanitize

        sanitize.triton(int(os.environ.get("LEGO_SANITIZE_ARCH", "90")), cuda=True)


@pytest.fixture
def sanitizer() -> Iterator[Session]:
    """The session of a test: its launches' faults fail it at the end, unless `sanitizer.on_fault` is `collect`."""
    from lego_mlir.sanitize.sessions import LaunchFaultError, session

    with session() as found:
        yield found
    _found.extend(found.reports)
    broken = next((report for report in found.reports if not report.clean), None)
    if broken is not None and found.on_fault != "collect":
        raise LaunchFaultError(broken)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the SARIF file."""
    path = session.config.getoption("--sanitize-sarif")
    if path:
        from importlib.metadata import version

        from lego_mlir.sanitize.findings import sarif
        from lego_mlir.sanitize.sessions import current
        from lego_mlir.store import replace_file

        found = sarif([*_found, *current().reports], version("lego-mlir"))
        replace_file(Path(path), json.dumps(found, indent=1).encode())
