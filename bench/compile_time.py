"""How long the compiler takes on this machine: measured, printed, and compared with what we aim for.

    python bench/compile_time.py

Each row is one function below that returns seconds; the median of several runs is shown with their spread. The rows
marked cold start a new Python process for each run, as a shell does.
"""

from __future__ import annotations

import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class Measurement:
    """One row: what is measured, how many times, and the seconds that we aim to stay under."""

    name: str
    once: Callable[[], float]
    repetitions: int
    aim: float


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def process(*arguments: str) -> float:
    return seconds(lambda: subprocess.run([sys.executable, *arguments], check=True, capture_output=True, cwd=ROOT))


def help_cold() -> float:
    return process("-m", "lego_mlir.cli.main", "--help")


def transpose_cold() -> float:
    options = ["--emit", "ptx", "--target", "sm_90", "--no-cache"]
    return process("-m", "lego_mlir.cli.main", "compile", "examples/transpose.py", *options)


def transpose_warm() -> float:
    """The spec loaded, traced, derived, emitted and compiled anew, in a process that has done it before."""
    from lego_mlir import spec
    from lego_mlir.toolchain import compile_kernel

    def work() -> None:
        kernels = spec.load(ROOT / "examples" / "transpose.py").kernels_named(None)
        compile_kernel(kernels, target="sm_90")

    return seconds(work)


def transpose_stages() -> dict[str, float]:
    """Seconds of each stage of one warm compilation."""
    from lego_mlir import spec
    from lego_mlir.toolchain import compile_kernel

    kernels = spec.load(ROOT / "examples" / "transpose.py").kernels_named(None)
    compile_kernel(kernels, target="sm_90")
    return dict(compile_kernel(kernels, target="sm_90").seconds)


MEASUREMENTS = [
    Measurement("lego-mlir --help, cold", help_cold, 5, 0.3),
    Measurement("examples/transpose.py from spec to PTX, cold", transpose_cold, 5, 3.0),
    Measurement("examples/transpose.py from spec to PTX, warm", transpose_warm, 9, 1.0),
]


def main() -> int:
    print(f"Python {platform.python_version()}, {platform.machine()}, {platform.processor() or platform.system()}")
    late = False
    for row in MEASUREMENTS:
        row.once()  # the first run reads files that the others find in memory
        runs = [row.once() for _ in range(row.repetitions)]
        median = statistics.median(runs)
        late |= median > row.aim
        verdict = "ok" if median <= row.aim else "OVER"
        print(f"{row.name:<50} {median * 1e3:8.1f} ms  ({min(runs) * 1e3:.1f} .. {max(runs) * 1e3:.1f})", end="")
        print(f"  aim {row.aim * 1e3:.0f} ms  {verdict}")
    for stage, taken in transpose_stages().items():
        print(f"  stage {stage:<12} {taken * 1e3:8.1f} ms")
    return int(late)


if __name__ == "__main__":
    sys.exit(main())
