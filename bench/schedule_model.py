"""The time model against published times: rank correlation, and what its choice of an order loses.

    python -m bench.schedule_model stencils     the thesis's stencils, seconds
    python -m bench.schedule_model products     its matrix product, fills simulated, minutes
    python -m bench.schedule_model gains        the gains measured on an H200
    python -m bench.schedule_model RESULTS.json the times of `bench/columns.py time` on an H200

`loss` is the measured time of the order that the model puts first over the best measured time, less one; `of three`
the same for the best of its first three.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bench import published_times
from bench.published_times import BLOCKS, H200_GAINS, THESIS
from lego_mlir import schedule
from lego_mlir.caches import time_model, workloads
from lego_mlir.caches.simulation import rows

if TYPE_CHECKING:
    from lego_mlir.caches.simulation import OrderLike
    from lego_mlir.caches.time_model import Chip, Estimate
    from lego_mlir.caches.workloads import Workload

LISTING_5 = 35
"""Machine instructions of the thesis's mapping beyond those of the naive index: 61 - 26 (signed, sm_90)."""


MAPPINGS = {"ours": 8, "listing 5": LISTING_5}
"""The same of the kernels of `bench/columns.py`; ours has the sizes as constants: 4 to 12."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """How a prediction compares with measured times; `median` and `most` are relative errors of the times."""

    spearman: float
    median: float
    most: float
    choice: str
    loss: float
    of_three: float


def spearman(a: Sequence[float], b: Sequence[float]) -> float:
    """The correlation of ranks; equal values share their mean rank."""
    ra, rb = (_ranks(np.asarray(v, float)) for v in (a, b))
    return float(np.corrcoef(ra, rb)[0, 1])


def _ranks(values: np.ndarray) -> np.ndarray:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return ((ends - counts + ends - 1) / 2)[inverse]


def agreement(measured: Mapping[str, float], predicted: Mapping[str, Estimate]) -> Agreement:
    """Compare seconds by order."""
    names = list(measured)
    errors = [abs(predicted[n].seconds / measured[n] - 1) for n in names]
    first = time_model.ranked(predicted)
    best = min(measured.values())
    return Agreement(
        spearman([predicted[n].seconds for n in names], [measured[n] for n in names]),
        float(np.median(errors)),
        max(errors),
        first[0],
        measured[first[0]] / best - 1,
        min(measured[n] for n in first[:3]) / best - 1,
    )


def workload_named(name: str, size: int) -> Workload:
    """A workload of the tables: "9x9", "3x3" or "product"."""
    if name == "product":
        return workloads.product(size, size, size)
    return workloads.stencil(size, size, int(name.split("x")[0]))


def order_named(name: str, size: int) -> OrderLike:
    """ "naive", or columns of a width."""
    return rows(size) if name == "naive" else schedule.columns(size, size, width=int(name))


def predictions(
    workload: Workload, orders: Mapping[str, OrderLike], threads: int, chip: Chip, *, mapping: int = LISTING_5
) -> dict[str, Estimate]:
    """The estimate of each order; "naive" has no mapping. Fills of products are simulated."""
    found = {}
    for name, order in orders.items():
        sectors = None
        if workload.name.startswith("product"):
            sectors = time_model.simulated_sectors(workload, order, threads, chip)
        extra = 0 if name == "naive" else mapping
        found[name] = time_model.estimate(workload, order, threads, chip, mapping=extra, sectors=sectors)
    return found


def thesis(kind: str) -> list[tuple[str, int, Agreement]]:
    """Compare with the thesis's tables of stencils or products."""
    found = []
    for title, (name, size, table) in THESIS.items():
        if (name == "product") != (kind == "products"):
            continue
        workload = workload_named(name, size)
        for threads in BLOCKS:
            measured = {n: ms * 1e-3 for n, ms in table[threads].items()}
            orders = {n: order_named(n, size) for n in measured}
            predicted = predictions(workload, orders, threads, time_model.RTX_2080_SUPER)
            found.append((title, threads, agreement(measured, predicted)))
    return found


def gains() -> list[tuple[published_times.Gain, float]]:
    """The measured and the predicted gains on an H200."""
    found, naive = [], dict[tuple[str, int, int], float]()
    for row in H200_GAINS:
        workload, key = workload_named(row.workload, row.size), (row.workload, row.size, row.threads)
        orders = {str(row.width): order_named(str(row.width), row.size)}
        if key not in naive:
            orders["naive"] = rows(row.size)
        predicted = predictions(workload, orders, row.threads, time_model.H200)
        if "naive" in predicted:
            naive[key] = predicted["naive"].seconds
        found.append((row, naive[key] / predicted[str(row.width)].seconds))
    return found


def measured_here(path: Path) -> list[tuple[str, int, Agreement]]:
    """Compare with the tables of `bench/columns.py`: our kernels, and the thesis's listing 5."""
    times: dict[tuple[str, int, int, str], dict[str, float]] = {}
    for row in json.loads(path.read_text())["rows"]:
        if row["case"][0] == "tables" and row["kernel"] in MAPPINGS:
            key = row["kind"], row["n"], row["block"], row["kernel"]
            times.setdefault(key, {})[str(row["width"] or "naive")] = row["ms"] * 1e-3
    found = []
    for (kind, n, threads, kernel), measured in times.items():
        if "naive" in measured and len(measured) > 2:
            workload = workload_named("product" if kind == "product" else "9x9", n)
            orders = {name: order_named(name, n) for name in measured}
            predicted = predictions(workload, orders, threads, time_model.H200, mapping=MAPPINGS[kernel])
            found.append((f"{kind} {n}^2, {kernel}", threads, agreement(measured, predicted)))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", help="stencils, products, gains, or a file of results")
    what = parser.parse_args().what
    if what == "gains":
        print("| workload | size | threads | width | measured gain | predicted |\n|---|---|---|---|---|---|")
        for row, predicted in gains():
            print(f"| {row.workload} | {row.size} | {row.threads} | {row.width} | {row.gain} | {predicted:.3f} |")
        return
    print("| table | threads | Spearman | median / largest error | choice | loss | of three |")
    print("|---|---|---|---|---|---|---|")
    for title, threads, a in measured_here(Path(what)) if what.endswith(".json") else thesis(what):
        print(
            f"| {title} | {threads} | {a.spearman:.2f} | {100 * a.median:.1f} / {100 * a.most:.1f} % | {a.choice} | "
            f"{100 * a.loss:.1f} % | {100 * a.of_three:.1f} % |"
        )


if __name__ == "__main__":
    main()
