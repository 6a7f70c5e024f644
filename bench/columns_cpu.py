"""The 9 x 9 box mean on a CPU: our kernel in several orders of its blocks, NumPy, SciPy and OpenCV.

    python bench/columns_cpu.py                      ours, the naive loop nest, SciPy and OpenCV where installed
    python bench/columns_cpu.py time threads=2       on two threads

Times are the least and the median of the repetitions: of the process on all cores (CPU time, which other programs
disturb little), and on the clock. `loops` is the naive loop nest in C by the machine's compiler with -O3.
"""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import runner

N, SIZE, REPETITIONS = 4096, 9, 9
RESULTS = Path(__file__).parent / "results"
LOOPS = """
static int at(int i, int n) { return i < 0 ? 0 : i < n ? i : n - 1; }
void mean(const float *x, float *y, int h, int w) {
  for (int i = 0; i < h; i++)
    for (int j = 0; j < w; j++) {
      float sum = 0;
      for (int a = -4; a <= 4; a++)
        for (int b = -4; b <= 4; b++) sum += x[at(i + a, h) * w + at(j + b, w)];
      y[i * w + j] = sum / 81;
    }
}
"""
Way = Callable[[], Any]


def ours(source: Any, target: Any, threads: int) -> dict[str, Way]:
    """Our kernel with its blocks row by row, in columns, and in zigzag columns."""
    from lego_mlir import f32, schedule
    from lego_mlir.kernels import box_stencil
    from lego_mlir.runtime.cpu_kernels import compile_kernels
    from lego_mlir.store import Cache, default_folder

    found: dict[str, Way] = {}
    rows, columns = tile = (4, 64)
    grid = (N // rows, N // columns)
    orders = {
        "row": "row",
        "columns of 256": schedule.columns(*grid, width=4),
        "zigzag columns of 256": schedule.columns(*grid, width=4, zigzag=True),
        "columns of 1024": schedule.columns(*grid, width=16),
    }
    for name, order in orders.items():
        kernel = box_stencil.build_strips(N, N, f32, size=SIZE, order=order, tile=tile)
        made = compile_kernels(kernel.mlir(), Cache(default_folder()))[kernel.name]
        blocks = [int(extent) for extent in kernel.grid]
        arrays = [source.reshape(-1), target.reshape(-1)]
        found[f"ours, {name}"] = lambda made=made, blocks=blocks, arrays=arrays: made(arrays, blocks, threads)
    return found


def naive(source: Any, target: Any, folder: Path) -> Way:
    (folder / "mean.c").write_text(LOOPS)
    library = folder / "mean.so"
    subprocess.run(["cc", "-O3", "-march=native", "-shared", "-fPIC", "-o", library, folder / "mean.c"], check=True)
    function = ctypes.CDLL(str(library)).mean
    return lambda: function(ctypes.c_void_p(source.ctypes.data), ctypes.c_void_p(target.ctypes.data), N, N)


def libraries(source: Any, target: Any, threads: int) -> dict[str, Way]:
    """SciPy and OpenCV, where they are installed."""
    found: dict[str, Way] = {}
    try:
        from scipy.ndimage import uniform_filter

        found["SciPy uniform_filter"] = lambda: uniform_filter(source, SIZE, mode="nearest", output=target)
    except ImportError:
        print("SciPy is not installed", file=sys.stderr)
    try:
        import cv2

        cv2.setNumThreads(threads)
        border = cv2.BORDER_REPLICATE
        found["OpenCV boxFilter"] = lambda: cv2.boxFilter(source, -1, (SIZE, SIZE), dst=target, borderType=border)
    except ImportError:
        print("OpenCV is not installed", file=sys.stderr)
    return found


def expected(source: Any) -> Any:
    import numpy as np

    wide = np.pad(source, SIZE // 2, "edge").astype(np.float64)
    rows = sum(wide[:, k : k + N] for k in range(SIZE))
    return sum(rows[k : k + N] for k in range(SIZE)) / SIZE**2


def timed(way: Way) -> dict[str, float]:
    """The least and the median of the repetitions, in ms of CPU time and on the clock."""
    spent, passed = [], []
    for _ in range(REPETITIONS):
        start, clock = time.process_time(), time.perf_counter()
        way()
        spent.append(1e3 * (time.process_time() - start))
        passed.append(1e3 * (time.perf_counter() - clock))
    return {"cpu_ms": min(spent), "cpu_median": median(spent), "ms": min(passed), "median": median(passed)}


def measure(words: Sequence[str]) -> None:
    import numpy as np

    threads = runner.options(words, threads=1).threads
    source = np.random.default_rng(0).standard_normal((N, N), np.float32)
    target = np.zeros_like(source)
    right, rows = expected(source), []
    with tempfile.TemporaryDirectory() as folder:
        ways = ours(source, target, threads) | {"loops": naive(source, target, Path(folder))}
        for name, way in (ways | libraries(source, target, threads)).items():
            target[:] = 0
            way()
            error = float(np.abs(target - right).max())
            if error > 1e-5:
                raise SystemExit(f"{name}: wrong by {error}; nothing is timed")
            rows.append({"kernel": name, "threads": threads, **timed(way)})
            print(f"{name:28} {rows[-1]['cpu_ms']:8.2f} ms of CPU time, {rows[-1]['ms']:8.2f} ms", flush=True)
    folder = RESULTS / "amd-epyc-zen5"
    path = folder / f"{time.strftime('%Y-%m-%d')}-columns-{threads}.json"
    path.write_text(json.dumps({"n": N, "size": SIZE, "rows": rows}, indent=1) + "\n")
    print(path)


BENCHMARK = runner.Benchmark("columns_cpu", steps={"time": measure})

if __name__ == "__main__":
    sys.exit(runner.main(BENCHMARK))
