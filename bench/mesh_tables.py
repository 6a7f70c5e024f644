"""The tables of docs/results/mesh.md: moves over several GPUs, and their kernels on one."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import geometric_mean

import mlir_kernels
from mesh_kernels import BITS
from mesh_stage import NAME

PAGE = "results/mesh.md"
GPUS = (2, 4, 8)
KERNELS = ("pack", "unpack", "peers")


def table() -> None:
    """The tables of the documentation: moves over several GPUs, and the kernels on one; f32 and f16 in a cell."""
    mlir_kernels.put_into(PAGE, "moves", *(part for ranks in GPUS for part in moves_over(ranks)))
    one = mlir_kernels.latest(f"{NAME}-alone")
    if one is not None:
        of_copy = {(row["pair"], row["kernel"], row["dtype"]): row["of a copy"] for row in one["rows"]}
        cells = [
            [pair, *(in_cell([of_copy[pair, kernel, dtype] for dtype in BITS], 2) for kernel in KERNELS)]
            for pair in dict.fromkeys(pair for pair, *_ in of_copy)
        ]
        mlir_kernels.put_into(PAGE, "alone", mlir_kernels.table("pair|" + "|".join(KERNELS), cells))


def moves_over(ranks: int) -> list[str | mlir_kernels.Table]:
    """Circumstances, ceilings and rates of the newest run on this many GPUs; nothing where there is none."""
    run = mlir_kernels.latest(f"{NAME}-{ranks}")
    if run is None or run["device"] == "CPU":
        return []
    copy, cells, every = run["ceilings"]["copy"]["steady"], [], []
    for pair in dict.fromkeys(row["pair"] for row in run["rows"]):
        found = {
            (row["contender"], row["dtype"]): row["GB/s"]["steady"]
            for row in run["rows"] if row["pair"] == pair and "GB/s" in row
        }  # fmt: skip
        rates = {way: [found.get((way, dtype)) for dtype in BITS] for way in ("exchange", "peers", "DTensor")}
        by_torch = ratios(rates["peers"], rates["DTensor"])
        every += [ratio for ratio in by_torch if ratio]
        shares = in_cell([rate / copy if rate else None for rate in rates["peers"]], 2)
        cells.append([pair, *(in_cell(values, 0) for values in rates.values()), shares, in_cell(by_torch, 2)])
    cells.append(["geometric mean", *[""] * 4, f"{geometric_mean(every):.2f}"])
    rates_text = ", ".join(f"{way} {rate['steady']:.0f}" for way, rate in run["ceilings"].items())
    columns = "pair|exchange|peers|DTensor|peers / copy|peers / DTensor"
    return [
        f"{circumstances_of(NAME, ranks)}. Ceilings, GB/s: {rates_text}.\n\n", mlir_kernels.table(columns, cells)
    ]  # fmt: skip


def ratios(ours: Sequence[float | None], others: Sequence[float | None]) -> list[float | None]:
    """Ours by others, where both were measured."""
    return [a / b if a and b else None for a, b in zip(ours, others, strict=True)]


def in_cell(values: Sequence[float | None], digits: int) -> str:
    """The values of f32 and f16; nothing where none was measured."""
    return ", ".join(f"{value:.{digits}f}" for value in values if value is not None)


def circumstances_of(name: str, ranks: int) -> str:
    """Number of GPUs, device, date and versions of the newest run on this many GPUs."""
    run = mlir_kernels.latest(f"{name}-{ranks}")
    assert run is not None
    where = mlir_kernels.circumstances(f"{name}-{ranks}", run, "torch")
    return f"**{ranks} GPUs**, {where}, NCCL {run['nccl']}, CUDA {run['cuda']}"
