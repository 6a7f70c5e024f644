"""Simulated sectors of L1 and ncu's, with blocks placed as a chip recorded them and as a random placement has them.

    python -m bench.placement_replay COUNTERS.json PLACEMENT.npz [--sms 4]

The files are those of `bench/columns.py count` and `placement`. The recording is of the naive stencil of 4096 x 4096
elements, 256 threads a block; it is replayed for every width of the columns. Sectors are per block.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from lego_mlir import schedule
from lego_mlir.caches import placement, simulation, time_model, workloads
from lego_mlir.caches.time_model import H200

SIZE, THREADS = 4096, 256


def slots_of(sm: np.ndarray, start: np.ndarray, end: np.ndarray) -> int:
    """The most blocks that ran on one SM at once, at the median time of its launch."""
    found = []
    for number in np.unique(sm):
        mine = sm == number
        middle = np.median(start[mine])
        found.append(int(((start[mine] <= middle) & (end[mine] > middle)).sum()))
    return int(np.median(found))


def compared(rows: list[dict[str, Any]], recorded: Any, sms: int) -> Iterator[tuple[int, float, float, float, float]]:
    """Width, ncu's sectors, those simulated with the recording and at random, and those of the closed form."""
    workload = workloads.stencil(SIZE, SIZE, 9)
    blocks = workload.tasks // THREADS
    sm, start, end = (recorded[f"{name}_{THREADS}"].astype(np.int64) for name in ("sm", "start", "end"))
    slots = slots_of(sm, start, end)
    print(f"{slots} blocks on an SM at once, {np.unique(sm).size} SMs")
    replayed = placement.recorded(sm, start, slots=slots)
    random = placement.scattered(blocks, sms=replayed.sms, slots=slots)
    sample = np.linspace(0, replayed.sms - 1, sms).round().astype(int).tolist()
    for row in rows:
        kernel, size, width = row["kernel"].rsplit("-", 2)
        if (kernel, int(size), row["block"]) != ("stencil", SIZE, THREADS):
            continue
        order = schedule.columns(SIZE, SIZE, width=int(width)) if int(width) else simulation.rows(SIZE)
        found = [
            simulation.simulate(workload, order, THREADS, H200.levels[:1], placement=placed, sample=sample)
            for placed in (replayed, random)
        ]
        measured = (row["L1 sectors"] - row["L1 hits"]) / blocks
        alone = time_model.block_sectors(workload, order, THREADS)
        yield int(width), measured, *(f.levels[0].fetched / f.blocks for f in found), alone


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("counters", type=Path)
    parser.add_argument("placement", type=Path)
    parser.add_argument("--sms", type=int, default=4)
    options = parser.parse_args()
    rows = json.loads(options.counters.read_text())["rows"]
    print("| width | ncu | replayed | random | a block alone |\n|---|---|---|---|---|")
    with np.load(options.placement) as recorded:
        for width, measured, *found in compared(rows, recorded, options.sms):
            cells = " | ".join(f"{value:.1f} ({100 * (value / measured - 1):+.1f} %)" for value in found)
            print(f"| {width or 'naive'} | {measured:.1f} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
