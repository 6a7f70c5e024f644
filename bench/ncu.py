"""A program under Nsight Compute, and the counts of each of its launches."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent))  # the package, which need not be installed here

from lego_mlir.tuning.profiler import CountedLaunch as Launch
from lego_mlir.tuning.profiler import command, launches

__all__ = ["Launch", "launches", "watch"]


def watch(program: Sequence[str], metrics: Mapping[str, str], *options: str) -> list[Launch]:
    """The launches of a Python program, in order; `metrics` are names of ours for ncu's. Exits where ncu fails."""
    done = subprocess.run(command(program, metrics, *options), capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"ncu: exit code {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return launches(done.stdout, metrics)
