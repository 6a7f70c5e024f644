"""Kernels one after the other on a stream, each of which begins before the previous one has ended.

A launch begins when every block of the one before has let it, or has ended. Turns are drawn at random among the
launches that run, so that they overlap as on a device with room for both. Global memory is theirs together: a kernel
that reads what the previous one writes must wait for it (`griddepcontrol.wait`); one that does not finds what was there
before, and the access is a fault while the previous kernel runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from lego_mlir.interp.ptx.address_spaces import GlobalMemory
from lego_mlir.interp.ptx.instructions.dependent_launches import WAITS
from lego_mlir.interp.ptx.ptx_launch import EmulatedLaunch, EmulatorOptions, PtxArgument, prepared
from lego_mlir.interp.ptx.ptx_reader import read_ptx

if TYPE_CHECKING:
    from lego_mlir.interp.report import Report

NEWEST: Final = 0.5
"""How often the launch that began last has the turn, so that it reaches its accesses before the others end."""


@dataclass(frozen=True, slots=True)
class StreamLaunch:
    """A launch with the `early` attribute, or without: it then begins when the previous one has ended."""

    ptx: str
    args: Sequence[PtxArgument]
    grid: Sequence[int]
    block: Sequence[int] | None = None
    dynamic_shared: int = 0
    early: bool = True


def emulate_stream(launches: Sequence[StreamLaunch], seed: int = 0) -> list[Report]:
    """Run launches of one stream on arrays, in place; a report for each. Raises InterpreterError as `emulate` does."""
    memory = GlobalMemory()
    runs = [
        prepared(
            read_ptx(launch.ptx, "<ptx>"), None, memory, launch.args, (launch.grid, launch.block, None),
            launch.dynamic_shared, (), EmulatorOptions(seed + number),
        )
        for number, launch in enumerate(launches)
    ]  # fmt: skip
    memory.allocate()
    with np.errstate(all="ignore"):
        _overlap(runs, [launch.early for launch in launches], np.random.default_rng(seed))
        memory.write_back()
    return [run.report() for run in runs]


def _overlap(runs: Sequence[EmulatedLaunch], early: Sequence[bool], random: np.random.Generator) -> None:
    """Take turns until all have ended."""
    turns = [run.turns() for run in runs]
    begun, ended = 0, 0
    while ended < len(runs):
        if begun == ended or (begun < len(runs) and early[begun] and runs[begun - 1].triggered):
            begun += 1
        number = begun - 1 if random.random() < NEWEST else int(random.integers(ended, begun))
        try:
            next(turns[number])
        except StopIteration:
            if number == ended:
                ended += 1
        _tell(runs[ended:begun])


def _tell(running: Sequence[EmulatedLaunch]) -> None:
    """All but the first of the running launches have one before them that runs."""
    for position, run in enumerate(running):
        machine = run.machine
        if machine is None:
            continue
        machine.previous_runs = position > 0
        if position == 0:
            for gang in [gang for gang in machine.parked if gang.waits == WAITS]:
                machine.wake(gang)
