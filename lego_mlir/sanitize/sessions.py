"""Reports of launches in a session: they are kept, and a fault raises, warns, or waits to be asked for."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from lego_mlir.errors import KernelFaultWarning
from lego_mlir.interp.ptx.checks import Checks
from lego_mlir.interp.ptx.ptx_launch import BUDGET

if TYPE_CHECKING:
    from lego_mlir.interp.ptx.recorded_launches import RecordedLaunch
    from lego_mlir.interp.report import Report

OnFault = Literal["raise", "warn", "collect"]


class LaunchFaultError(AssertionError):
    """A launch had faults; `report` has them."""

    def __init__(self, report: Report) -> None:
        super().__init__(str(report))
        self.report = report


@dataclass(slots=True)
class Session:
    """The options of launches, and their reports in order.

    `on_fault` is for launches that return no report, those of Triton. `seed` draws the order in which warps run and
    copies land; `budget` is the instructions of gangs after which a launch is stopped; `blocks` runs a sample only.
    `record` is given each launch as data before it runs (`RecordedLaunch`), to keep and to run again.
    `cores` is the number of processes of a long launch; with 1 its orders are the same in each run.
    """

    on_fault: OnFault = "raise"
    seed: int = 0
    budget: int = BUDGET
    blocks: int | None = None
    checks: Checks = field(default_factory=Checks)
    reports: list[Report] = field(default_factory=list)
    record: Callable[[RecordedLaunch], None] | None = None
    cores: int | None = None

    def add(self, report: Report, *, quiet: bool = False) -> Report:
        """Keep a report; `quiet` where the caller gets it. Raises LaunchFaultError where `on_fault` says so."""
        self.reports.append(report)
        if report.clean or quiet or self.on_fault == "collect":
            return report
        if self.on_fault == "warn":
            warnings.warn(KernelFaultWarning(str(report)), stacklevel=2)
            return report
        raise LaunchFaultError(report)

    @property
    def clean(self) -> bool:
        return all(report.clean for report in self.reports)


_current = Session()


def current() -> Session:
    """The session that launches belong to."""
    return _current


@contextmanager
def session(**options: object) -> Iterator[Session]:
    """A session for the launches inside a `with`: its reports are theirs.

    >>> with session(on_fault="collect", seed=3) as found:
    ...     pass
    >>> found.clean
    True
    """
    global _current
    before, _current = _current, Session(**options)  # type: ignore[arg-type]
    try:
        yield _current
    finally:
        _current = before
