"""The tables of docs/results/mesh.md: moves over several GPUs, and their kernels on one."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import geometric_mean
from typing import Any

import mlir_kernels
from mesh_kernels import BITS
from mesh_stage import NAME

PAGE = "results/mesh.md"
RUNS = (NAME, "mesh-again")
"""The names of results: of all pairs, and of those that were measured again after a change."""
KERNELS = ("pack", "unpack", "peers")


def measured(ranks: int) -> dict[tuple[str, str], tuple[dict[str, Any], dict[str, float]]]:
    """For each pair and type the run that measured it last, and the steady rates by contender."""
    found = {}
    for name in RUNS:
        run = mlir_kernels.latest(f"{name}-{ranks}")
        if run is None or run["device"] == "CPU":
            continue
        for pair in dict.fromkeys((row["pair"], row["dtype"]) for row in run["rows"]):
            rows = [row for row in run["rows"] if (row["pair"], row["dtype"]) == pair and "GB/s" in row]
            found[pair] = run, {row["contender"]: row["GB/s"]["steady"] for row in rows}
    return found


def table(options: Any) -> int:
    """The tables of the documentation: moves over several GPUs, and the kernels on one; f32 and f16 in a cell."""
    cells, ceilings = [], ""
    for ranks in (2, 4, 8):
        found, every = measured(ranks), []
        for pair in dict.fromkeys(pair for pair, _ in found):
            runs = [found[pair, dtype] for dtype in BITS]
            rates = {way: [of.get(way) for _, of in runs] for way in ("exchange", "peers", "DTensor")}
            copies = [run["ceilings"]["copy"]["steady"] for run, _ in runs]
            by_torch = ratios(rates["peers"], rates["DTensor"])
            every += [ratio for ratio in by_torch if ratio]
            shares = in_cell(ratios(rates["peers"], copies), 2)
            shown = [in_cell(values, 0) for values in rates.values()]
            cells.append([f"{ranks} {runs[0][0]['device']}", pair, *shown, shares, in_cell(by_torch, 2)])
        if every:
            cells.append([f"{ranks} GPUs", "geometric mean", *[""] * 4, f"{geometric_mean(every):.2f}"])
            first = found["rows to columns", "f32"][0]["ceilings"]
            rates_text = ", ".join(f"{way} {rate['steady']:.0f}" for way, rate in first.items())
            ceilings += f"Ceilings of {ranks} GPUs, GB/s: {rates_text}.\n\n"
    columns = "GPUs|pair|exchange|peers|DTensor|peers / copy|peers / DTensor"
    mlir_kernels.put_into(PAGE, "moves", circumstances_of(*RUNS) + ceilings, mlir_kernels.table(columns, cells))
    one = mlir_kernels.latest(f"{NAME}-alone")
    if one is not None:
        of_copy = {(row["pair"], row["kernel"], row["dtype"]): row["of a copy"] for row in one["rows"]}
        cells = [
            [pair, *(in_cell([of_copy[pair, kernel, dtype] for dtype in BITS], 2) for kernel in KERNELS)]
            for pair in dict.fromkeys(pair for pair, *_ in of_copy)
        ]
        mlir_kernels.put_into(PAGE, "alone", mlir_kernels.table("pair|" + "|".join(KERNELS), cells))
    return 0


def ratios(ours: Sequence[float | None], others: Sequence[float | None]) -> list[float | None]:
    """Ours by others, where both were measured."""
    return [a / b if a and b else None for a, b in zip(ours, others, strict=True)]


def in_cell(values: Sequence[float | None], digits: int) -> str:
    """The values of f32 and f16; nothing where none was measured."""
    return ", ".join(f"{value:.{digits}f}" for value in values if value is not None)


def circumstances_of(*names: str) -> str:
    """Device, date and versions of the newest runs on two GPUs."""
    found = [(name, mlir_kernels.latest(f"{name}-2")) for name in names]
    lines = [
        f"{mlir_kernels.circumstances(f'{name}-2', run, 'torch')}, NCCL {run['nccl']}, CUDA {run['cuda']}"
        for name, run in found if run is not None
    ]  # fmt: skip
    return "; ".join(dict.fromkeys(lines)) + ".\n\n" if lines else ""
