"""Structured matrices as pictures: flops a cycle over the matrix size, one curve a rival, one picture a case.

Forms of one rival share a curve, which shows the fastest of them at each size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import plots

# curve: its process (None: either) and its entries
CURVES = {
    "ours": ("avx512", ("ours",)),
    "MKL, AVX-512": ("avx512", ("mkl",)),
    "MKL, default": ("as they come", ("mkl",)),
    "OpenBLAS": (None, ("openblas",)),
    "Eigen": ("avx512", ("eigen", "eigen_dense")),
    "C by clang": ("avx512", ("naive_clang", "rows_clang")),
    "C by gcc": ("avx512", ("naive_gcc", "rows_gcc")),
}
Flops = Callable[[int], float]


def speeds(points: Sequence[Any], flops: Flops) -> dict[str, dict[int, float]]:
    """Flops a cycle of every curve, by n."""
    found: dict[str, dict[int, float]] = {}
    for point in points:
        for name, (process, entries) in CURVES.items():
            times = [point["entries"].get(entry, {}).get("ns") for entry in entries]
            fastest = min((time for time in times if time is not None), default=None)
            if process in (None, point["process"]) and fastest is not None:
                value = flops(point["n"]) * point["cycle_ns"] / fastest
                curve = found.setdefault(name, {})
                curve[point["n"]] = max(value, curve.get(point["n"], 0.0))
    return {name: found[name] for name in CURVES if name in found}


def write(results: Sequence[Any], flops: Mapping[str, Flops], folder: Path) -> None:
    """All pictures of a run, into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for case, dtype in sorted({(point["case"], point["dtype"]) for point in results}):
        points = [point for point in results if (point["case"], point["dtype"]) == (case, dtype)]
        sizes = sorted({point["n"] for point in points})
        series = {name: [curve.get(n) for n in sizes] for name, curve in speeds(points, flops[case]).items()}
        picture = plots.lines(f"{case}, {dtype}: flops a cycle over n", list(map(str, sizes)), series)
        (folder / f"structured-{case}-{dtype}.svg").write_text(picture)
