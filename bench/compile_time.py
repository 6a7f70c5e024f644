"""How long compilation's parts take on this machine: medians, printed.

    python bench/compile_time.py                    every measurement
    python bench/compile_time.py simplify import    only these

Nothing is asserted: a time is the machine's as much as the program's. A measurement is a function here that returns
milliseconds, one for each repetition, and is named in MEASUREMENTS.
"""

from __future__ import annotations

import argparse
import itertools
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles

REPETITIONS = 15
WARM_UP = 3
fresh = itertools.count()


def _timed(run: Callable[[], object], repetitions: int = REPETITIONS) -> list[float]:
    times = []
    for _ in range(WARM_UP + repetitions):
        start = time.perf_counter()
        run()
        times.append((time.perf_counter() - start) * 1000)
    return times[WARM_UP:]


def simplify() -> list[float]:
    """Matmul program id and A, B, C offsets: layouts built, applied and simplified. Warm imports, new symbols each."""
    from lego_mlir.expr.context import forget
    from lego_mlir.expr.index import index_symbol, size
    from lego_mlir.expr.ranges import Range
    from lego_mlir.expr.simplify import simplify_all
    from lego_mlir.layout import Col, Row, TileOrderBy

    def run() -> object:
        forget()
        tag = next(fresh)
        rows, columns, depth = size(f"rows{tag}"), size(f"columns{tag}"), size(f"depth{tag}")
        pid, k, i, j, x = (index_symbol(f"{name}{tag}") for name in ("pid", "k", "i", "j", "x"))
        pid_m, pid_n = TileOrderBy(Row(rows, 1), Col(8, columns)).GroupBy([rows * 8, columns]).inv(pid)
        m, n, kk = rows * 8 * 128, columns * 64, depth * 32
        a = Row(m, kk).tile_by([rows * 8, depth], [128, 32]).apply(pid_m, k, i, x)
        b = Row(kk, n).tile_by([depth, columns], [32, 64]).apply(k, pid_n, x, j)
        c = Row(m, n).tile_by([rows * 8, columns], [128, 64]).apply(pid_m, pid_n, i, j)
        ends = {pid: rows * 8 * columns, k: depth, i: 128, j: 64, x: 32}
        return simplify_all([pid_m, pid_n, a, b, c], {s: Range(0, end) for s, end in ends.items()})

    return _timed(run)


def import_() -> list[float]:
    """`import lego_mlir` in a new process, without the interpreter's own start."""
    code = "import time; t = time.perf_counter(); import lego_mlir; print((time.perf_counter() - t) * 1000)"

    def run() -> float:
        return float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)

    run()
    return [run() for _ in range(REPETITIONS)]


def transpose() -> list[float]:
    """The shared-memory transpose from its Python function to PTX: a warm process, no cache, new sizes each time."""
    from lego_mlir import f32
    from lego_mlir.expr.context import forget
    from lego_mlir.kernels.transpose import build
    from lego_mlir.toolchain import compile_kernel

    def run() -> object:
        forget()
        return compile_kernel(build("shared", 32 * (1 + next(fresh)), 2048, f32), target="sm_90", emit="ptx")

    return _timed(run)


def matmul() -> list[float]:
    """The tensor-core matmul, spec to PTX: traced, transformed and compiled; a warm process, new sizes each time."""
    return _matmul(None, 4)


def resident() -> list[float]:
    """That matmul with a block for each multiprocessor of an H200, which takes tile after tile."""
    return _matmul(132, 3)


def _matmul(blocks: int | None, stages: int) -> list[float]:
    from lego_mlir import f16
    from lego_mlir.expr.context import forget
    from lego_mlir.kernels.matmul import Tiling, build
    from lego_mlir.toolchain import compile_kernel

    tiling = Tiling(128, 256, 64, (2, 4))

    def run() -> object:
        forget()
        kernel = build(4096, 4096, 256 * (4 + next(fresh)), f16, result=f16, tiling=tiling, blocks=blocks)
        parameters = {"stages": stages}
        return compile_kernel(kernel, transform="matmul_sm80.mlir", parameters=parameters, target="sm_90", emit="ptx")

    return _timed(run)


def _shell(*arguments: str) -> list[float]:
    """Milliseconds of `lego-mlir` with these arguments in a new process, Python's start included."""

    def run() -> object:
        return subprocess.run([sys.executable, "-m", "lego_mlir.cli", *arguments], check=True, capture_output=True)

    return _timed(run)


def shell() -> list[float]:
    """`lego-mlir compile examples/transpose.py --emit ptx --no-cache` from the shell."""
    spec = Path(__file__).parent.parent / "examples" / "transpose.py"
    return _shell("compile", str(spec), "--emit", "ptx", "--no-cache", "-o", "-")


def help_() -> list[float]:
    """`lego-mlir --help` from the shell."""
    return _shell("--help")


MEASUREMENTS: dict[str, Callable[[], list[float]]] = {
    "simplify": simplify,
    "import": import_,
    "transpose": transpose,
    "matmul": matmul,
    "resident": resident,
    "shell": shell,
    "help": help_,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"any of {', '.join(MEASUREMENTS)}")
    names = parser.parse_args().names or list(MEASUREMENTS)
    unknown = set(names) - MEASUREMENTS.keys()
    if unknown:
        parser.error(f"no measurement named {', '.join(sorted(unknown))}; there are {', '.join(MEASUREMENTS)}")
    for name in names:
        times = MEASUREMENTS[name]()
        low, _, high = quantiles(times, n=4)
        what = (MEASUREMENTS[name].__doc__ or "").splitlines()[0]
        print(f"{name:<12} median {median(times):8.1f} ms, quartiles {low:.1f} to {high:.1f}, of {len(times)}: {what}")


if __name__ == "__main__":
    main()
