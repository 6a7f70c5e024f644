"""A program under Nsight Compute, and the counts of each of its launches."""

from __future__ import annotations

import csv
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Launch:
    """One launch of a kernel, and what was counted of it."""

    kernel: str
    counts: dict[str, int]


def watch(program: Sequence[str], metrics: Mapping[str, str], *options: str) -> list[Launch]:
    """The launches of a Python program, in order; `metrics` are names of ours for ncu's. Exits where ncu fails."""
    command = ["ncu", "--clock-control", "none", "--csv", "--page", "raw", "--print-units", "base", *options]
    command += ["--metrics", ",".join(metrics.values()), sys.executable, *program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"ncu: exit code {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return launches(done.stdout, metrics)


def launches(text: str, metrics: Mapping[str, str]) -> list[Launch]:
    """What ncu's wide table says: a line of names, one of units, one a launch."""
    lines = list(csv.reader(line for line in text.splitlines() if line.startswith('"')))
    names, _, *rows = lines or [[], []]
    return [
        Launch(
            row[names.index("Kernel Name")],
            {name: int(float(row[names.index(metric)].replace(",", "") or 0)) for name, metric in metrics.items()},
        )
        for row in rows
    ]
