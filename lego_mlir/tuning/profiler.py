"""Counters of a trial's kernels by Nsight Compute, on demand: a timing says how long, the counters say why.

    counted = count(trial, {"sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"})
    counted[0].kernel, counted[0].counts["sectors"]

The trial is opened in a process under `ncu`, and launched once without a check. Nsight Compute replays each kernel as
often as the metrics need, so these launches are never timed. It needs the permission to read counters.

docs.nvidia.com/nsight-compute, "Nsight Compute CLI"; error ERR_NVGPUCTRPERM is described at developer.nvidia.com.
"""

from __future__ import annotations

import csv
import json
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lego_mlir.errors import DependencyError, UsageError, brief
from lego_mlir.tuning.measuring import Trial

START: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from lego_mlir.tuning import profiler; "
    "profiler.launch_once(sys.argv[2])"
)
COMMAND: Final = ("ncu", "--clock-control", "none", "--csv", "--page", "raw", "--print-units", "base")
SECONDS: Final = 300.0


@dataclass(frozen=True, slots=True)
class CountedLaunch:
    """One launch of a kernel, and what was counted of it."""

    kernel: str
    counts: dict[str, int]


def count(trial: Trial, metrics: Mapping[str, str], *, options: Sequence[str] = ()) -> list[CountedLaunch]:
    """The launches of a trial, in order; `metrics` are names of the caller's for those of Nsight Compute.

    Raises DependencyError where ncu is not installed, UsageError where it fails, with what it printed.
    """
    with tempfile.TemporaryDirectory(prefix="lego-ncu-") as folder:
        path = Path(folder, "trial")
        path.write_bytes(pickle.dumps(trial))
        program = ["-c", START, json.dumps([str(entry) for entry in sys.path]), str(path)]
        try:
            done = subprocess.run(
                command(program, metrics, *options), capture_output=True, text=True, check=False, timeout=SECONDS
            )
        except FileNotFoundError as error:
            raise DependencyError(
                "counters are read by Nsight Compute, and ncu was not found; install NVIDIA's nsight-compute"
            ) from error
        except subprocess.TimeoutExpired as error:
            raise UsageError(f"ncu did not end within {SECONDS:g} s; count fewer metrics at a time") from error
    if done.returncode:
        lines = (done.stdout + done.stderr).strip().splitlines()
        said = next((line for line in lines if "ERR" in line or "==ERROR==" in line), lines[-1] if lines else "")
        raise UsageError(f"ncu failed with exit code {done.returncode}: {brief(said, 300)}")
    found = launches(done.stdout, metrics)
    if not found:
        raise UsageError(f"ncu saw no kernel with these metrics: {', '.join(metrics.values())}")
    return found


def command(program: Sequence[str], metrics: Mapping[str, str], *options: str) -> list[str]:
    """The command that runs a Python program under Nsight Compute."""
    return [*COMMAND, *options, "--metrics", ",".join(metrics.values()), sys.executable, *program]


def launches(text: str, metrics: Mapping[str, str]) -> list[CountedLaunch]:
    """What ncu's wide table holds: a line of names, one of units, one for each launch."""
    lines = list(csv.reader(line for line in text.splitlines() if line.startswith('"')))
    names, _, *rows = lines or [[], []]
    return [
        CountedLaunch(
            row[names.index("Kernel Name")],
            {name: int(float(row[names.index(metric)].replace(",", "") or 0)) for name, metric in metrics.items()},
        )
        for row in rows
    ]


def launch_once(path: str) -> None:
    """In the process under ncu: open the trial of a file, and launch it."""
    trial: Trial = pickle.loads(Path(path).read_bytes())
    trial.open().sample(1)
