"""Tables of results that no `table` step makes: host time of calls, and the kernels of a first day.

Each takes the recorded results and returns their circumstances and a table, which `bench/pages.py` puts into pages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import mlir_kernels

Recorded = tuple[str, mlir_kernels.Table]

CALLS = {
    "bare: ctypes, cuLaunchKernelEx": "the driver's call alone, as made here",
    "bare: cuda.core": "the same by cuda.core",
    "bare: CuPy": "by CuPy",
    "prepared, the same arrays": "`k.prepare(x, y, z)()`",
    "prepared": "`k.prepare(x, y, z)(x, y, z)`",
    "call": "`k(x, y, z)`",
    "call on a stream": "`k.on(stream)(x, y, z)`",
    "call, result allocated": "`k(x, y)`",
    "torch operator, out=True": "`lego.torch.op(k, out=True)(x, y, z)`",
    "torch operator": "`lego.torch.op(k)(x, y)`",
    "replay of a captured call": "replay of a captured call",
    "torch.mul, out=": "`torch.mul(x, y, out=z)`",
    "torch.mul": "`torch.mul(x, y)`",
    "lego_mlir.matmul": "`lego_mlir.matmul(a, b)`",
    "torch.mm": "`torch.mm(a, b)`",
    "torch.mm, out=": "`torch.mm(a, b, out=c)`",
}


def launch(results: Mapping[str, Any]) -> Recorded:
    """Microseconds of the host for each way to launch, by the size of the matrices."""
    sizes = sorted({row["size"] for row in results["rows"]})
    known = {(row["name"], row["size"]): row for row in results["rows"]}
    lines = []
    for name, shown in CALLS.items():
        found = [known.get((name, size)) for size in sizes]
        cells = ["" if r is None else f"{r['us']:.2f} ({r['p10']:.2f} to {r['p90']:.2f})" for r in found]
        lines.append([shown, *cells])
    about = f"{mlir_kernels.circumstances('launch', results)}, PyTorch {results['versions']['torch']}; in us.\n\n"
    return about, mlir_kernels.table("|".join(["call", *(f"{n} x {n}" for n in sizes)]), lines)


def first_day(results: Mapping[str, Any]) -> Recorded:
    """Ours beside the fastest of the others, case by case; above 1 ours is faster."""
    cases: dict[str, dict[str, Any]] = {}
    for row in results["rows"]:
        cases.setdefault(row["case"], {})[row["kernel"]] = row
    lines = []
    for case, found in cases.items():
        others = {name: row for name, row in found.items() if name != "lego"}
        if "lego" not in found or not others:
            continue
        best = min(others, key=lambda name: others[name]["ms"])
        ratio = others[best]["ms"] / found["lego"]["ms"]
        times = [mlir_kernels.time_cell(row) for row in (found["lego"], others[best])]
        lines.append([case, *times, best, f"{ratio:.2f}", "yes" if found["lego"]["memory"] else ""])
    about = f"{mlir_kernels.circumstances('first_day', results, 'torch')}.\n\n"
    heads = "case|ours ms|fastest other ms|which|other / ours|limited by memory"
    return about, mlir_kernels.table(heads, lines)


def cluster_softmax(results: Mapping[str, Any]) -> Recorded:
    """Milliseconds by the number of blocks that hold a row, beside PyTorch's softmax and a copy of the same bytes."""
    known = {(row["case"][0], row["kernel"]): row for row in results["rows"]}
    names = list(dict.fromkeys(name for _, name in known))
    cases = list(dict.fromkeys(case for case, _ in known))
    lines = [[case, *(mlir_kernels.time_cell(known.get((case, name))) for name in names)] for case in cases]
    about = f"{mlir_kernels.circumstances('cluster_softmax', results, 'torch')}; in ms.\n\n"
    return about, mlir_kernels.table("|".join(["rows x columns", *names]), lines)


# The function, the page, the name of the results and of the marker, and what was measured.
TABLES = (
    (launch, "launch", "launch", "host time of a call"),
    (first_day, "first-day", "first_day", "the kernels of a first day against PyTorch, cuSPARSE and CUB"),
    (cluster_softmax, "triton-softmax", "cluster_softmax", "softmax of rows that a cluster of blocks holds"),
)
