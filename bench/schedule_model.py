"""The model of caches and time under orders of threads, against published times, ncu's counters, and as pictures.

    python -m bench.schedule_model stencils      the thesis's stencils, seconds
    python -m bench.schedule_model products      its matrix product, fills simulated, minutes
    python -m bench.schedule_model gains         the gains measured on an H200
    python -m bench.schedule_model RESULTS.json  the times of `bench/columns.py time` on an H200
    python -m bench.schedule_model replay COUNTERS.json PLACEMENT.npz [SMS]      those of its `count` and `placement`
    python -m bench.schedule_model figures [FOLDER]                              docs/images/schedule-*.svg

The thesis is N. Prasetya, "Improving Cache Performance in Structured GPGPU Workloads via Specialized Thread Schedules"
(2022). `published/thesis.csv` has its tables 5.1 a, 5.1 b and 5.2, milliseconds on an RTX 2080 Super by the width of
the columns and the threads of a block; `published/h200_gains.csv` times of the naive order over those of columns on an
H200, of naive CUDA kernels with a one-dimensional index, one run. `loss` is the measured time of the order that the
model puts first over the best measured time, less one; `of three` the same for the best of its first three.

`replay` simulates the sectors of L1 with blocks placed as a chip recorded them (the naive stencil, for every width of
the columns) and at random; sectors are per block. `figures` are 3.1, 3.2, 3.3, 4.4 and 4.6, from tables 3.1 and 3.2: a
16 x 16 input; 24 lines of cache for the 7 x 7 stencil, 32 for the product; 4 elements a line; LRU. The tables give a
column width of 8, the captions of figures 4.4 and 4.6 give 4: both are drawn.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lego_mlir import schedule
from lego_mlir.caches import placement, simulation, time_model, workloads
from lego_mlir.caches.levels import CacheLevel
from lego_mlir.caches.simulation import rows
from lego_mlir.caches.space_time import SpaceTime, space_time
from lego_mlir.caches.time_model import chip_named

if TYPE_CHECKING:
    from lego_mlir.caches.simulation import OrderLike
    from lego_mlir.caches.time_model import Chip, Estimate
    from lego_mlir.caches.workloads import Workload

H200, RTX_2080_SUPER = chip_named("h200"), chip_named("rtx2080super")
BENCH: Final = Path(__file__).parent
LISTING_5 = 35
"""Machine instructions of the thesis's mapping beyond those of the naive index: 61 - 26 (signed, sm_90)."""
MAPPINGS = {"ours": 8, "listing 5": LISTING_5}
"""The same of the kernels of `bench/columns.py`; ours has the sizes as constants: 4 to 12."""
REPLAYED: Final = (4096, 256)
"""Side and threads of a block of the recorded stencil."""


def published(name: str) -> list[dict[str, str]]:
    """The rows of a published table."""
    with (BENCH / "published" / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def thesis_tables() -> dict[str, tuple[str, int, dict[int, dict[str, float]]]]:
    """By title: the workload, its size, and milliseconds by block and by order, "naive" or the width of the columns.

    >>> thesis_tables()["9x9 4096^2"][2][256]["32"]
    1.29
    """
    found: dict[str, tuple[str, int, dict[int, dict[str, float]]]] = {}
    for row in published("thesis"):
        name, size, width = row.pop("workload"), int(row.pop("size")), row.pop("width")
        _, _, table = found.setdefault(f"{name} {size}^2", (name, size, {}))
        for block, ms in row.items():
            table.setdefault(int(block), {})[width] = float(ms)
    return found


# -- the model of time


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
    first, best = time_model.ranked(predicted), min(measured.values())
    return Agreement(
        spearman([predicted[n].seconds for n in names], [measured[n] for n in names]), float(np.median(errors)),
        max(errors), first[0], measured[first[0]] / best - 1, min(measured[n] for n in first[:3]) / best - 1,
    )  # fmt: skip


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


def agreement_of(
    name: str, size: int, threads: int, ms: Mapping[str, float], chip: Chip, mapping: int = LISTING_5
) -> Agreement:
    """The agreement with the times of a workload by order."""
    measured = {order: time * 1e-3 for order, time in ms.items()}
    orders = {order: order_named(order, size) for order in measured}
    return agreement(measured, predictions(workload_named(name, size), orders, threads, chip, mapping=mapping))


def thesis(kind: str) -> Iterator[tuple[str, int, Agreement]]:
    """Compare with the thesis's tables of stencils or products."""
    for title, (name, size, table) in thesis_tables().items():
        if (name == "product") == (kind == "products"):
            for threads, ms in table.items():
                yield title, threads, agreement_of(name, size, threads, ms, RTX_2080_SUPER)


def gains() -> Iterator[tuple[dict[str, str], float]]:
    """The measured and the predicted gains on an H200."""
    naive = dict[tuple[str, int, int], float]()
    for row in published("h200_gains"):
        key = name, size, threads = row["workload"], int(row["size"]), int(row["threads"])
        wanted = [row["width"], *(["naive"] if key not in naive else [])]
        orders = {order: order_named(order, size) for order in wanted}
        predicted = predictions(workload_named(name, size), orders, threads, H200)
        if "naive" in predicted:
            naive[key] = predicted["naive"].seconds
        yield row, naive[key] / predicted[row["width"]].seconds


def measured_here(path: Path) -> Iterator[tuple[str, int, Agreement]]:
    """Compare with the tables of `bench/columns.py`: our kernels, and the thesis's listing 5."""
    times: dict[tuple[str, int, int, str], dict[str, float]] = {}
    for row in json.loads(path.read_text())["rows"]:
        if row["case"][0] == "tables" and row["kernel"] in MAPPINGS:
            key = row["kind"], row["n"], row["block"], row["kernel"]
            times.setdefault(key, {})[str(row["width"] or "naive")] = row["ms"]
    for (kind, n, threads, kernel), ms in times.items():
        if "naive" in ms and len(ms) > 2:
            name = "product" if kind == "product" else "9x9"
            found = agreement_of(name, n, threads, ms, H200, MAPPINGS[kernel])
            yield f"{kind} {n}^2, {kernel}", threads, found


# -- the model of L1, and ncu's counters


def slots_of(sm: np.ndarray, start: np.ndarray, end: np.ndarray) -> int:
    """The most blocks that ran on one SM at once, at the median time of its launch."""
    found = []
    for number in np.unique(sm):
        mine = sm == number
        middle = np.median(start[mine])
        found.append(int(((start[mine] <= middle) & (end[mine] > middle)).sum()))
    return int(np.median(found))


def replayed(
    counters: Sequence[Mapping[str, Any]], recorded: Any, sms: int
) -> Iterator[tuple[int, float, float, float, float]]:
    """Width, ncu's sectors, those simulated with the recording and at random, and those of the closed form."""
    size, threads = REPLAYED
    workload = workloads.stencil(size, size, 9)
    blocks = workload.tasks // threads
    sm, start, end = (recorded[f"{name}_{threads}"].astype(np.int64) for name in ("sm", "start", "end"))
    slots = slots_of(sm, start, end)
    print(f"{slots} blocks on an SM at once, {np.unique(sm).size} SMs")
    as_recorded = placement.recorded(sm, start, slots=slots)
    random = placement.scattered(blocks, sms=as_recorded.sms, slots=slots)
    sample = np.linspace(0, as_recorded.sms - 1, sms).round().astype(int).tolist()
    for row in counters:
        kernel, n, width = row["kernel"].rsplit("-", 2)
        if (kernel, int(n), row["block"]) != ("stencil", size, threads):
            continue
        order = order_named(width if int(width) else "naive", size)
        found = [
            simulation.simulate(workload, order, threads, H200.levels[:1], placement=placed, sample=sample)
            for placed in (as_recorded, random)
        ]
        measured = (row["L1 sectors"] - row["L1 hits"]) / blocks
        alone = time_model.block_sectors(workload, order, threads)
        yield int(width), measured, *(f.levels[0].fetched / f.blocks for f in found), alone


# -- the thesis's figures

SIZE: Final = 16
LINE: Final = 16  # bytes: 4 elements of 4 bytes


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure: a stencil or a product, `lines` of cache, columns of a width (0: rows)."""

    number: str
    kernel: str
    lines: int
    width: int

    @property
    def title(self) -> str:
        order = f"columns of {self.width}" if self.width else "rows in order"
        return f"{self.number}: {self.kernel}, {SIZE} x {SIZE}, {order}, {self.lines} lines of L1"

    @property
    def stem(self) -> str:
        return f"schedule-{self.number.replace(' ', '-')}"

    def data(self) -> SpaceTime:
        """The diagram's data."""
        workload = workload_named("product" if self.kernel == "product" else "7x7", SIZE)
        order = order_named(str(self.width or "naive"), SIZE)
        return space_time(workload, order, (CacheLevel("L1", self.lines * LINE, line=LINE, sector=LINE),))


FIGURES: Final = (
    Figure("3.1", "7 x 7 stencil", 24, 0), Figure("3.2a", "7 x 7 stencil", 28, 0),
    Figure("3.2b", "7 x 7 stencil", 14, 0), Figure("3.3", "product", 32, 0), Figure("4.4", "7 x 7 stencil", 24, 4),
    Figure("4.4 width 8", "7 x 7 stencil", 24, 8), Figure("4.6", "product", 32, 4),
    Figure("4.6 width 8", "product", 32, 8),
)  # fmt: skip


def draw(folder: Path) -> None:
    from lego_mlir.viz import cache_diagram

    folder.mkdir(parents=True, exist_ok=True)
    for figure in FIGURES:
        found, path = figure.data(), folder / f"{figure.stem}.svg"
        cache_diagram.draw(found, figure.title).save(path)
        print(f"{path}: {found.fetched[0]} lines fetched, {found.compulsory} compulsory")


def main(what: str = "", *words: str) -> None:
    match what:
        case "gains":
            print("| workload | size | threads | width | measured gain | predicted |\n|---|---|---|---|---|---|")
            for row, predicted in gains():
                print(f"| {' | '.join(row.values())} | {predicted:.3f} |")
        case "replay" if len(words) in (2, 3):
            print("| width | ncu | replayed | random | a block alone |\n|---|---|---|---|---|")
            counters, sms = json.loads(Path(words[0]).read_text())["rows"], int((*words, 4)[2])
            with np.load(words[1]) as recorded:
                for width, measured, *simulated in replayed(counters, recorded, sms):
                    shown = " | ".join(f"{value:.1f} ({100 * (value / measured - 1):+.1f} %)" for value in simulated)
                    print(f"| {width or 'naive'} | {measured:.1f} | {shown} |", flush=True)
        case "figures":
            draw(Path(words[0]) if words else BENCH.parent / "docs" / "images")
        case _ if what in ("stencils", "products") or what.endswith(".json"):
            heads = "| table | threads | Spearman | median / largest error | choice | loss | of three |"
            print(heads, "|---|---|---|---|---|---|---|", sep="\n")
            for title, threads, a in measured_here(Path(what)) if what.endswith(".json") else thesis(what):
                print(
                    f"| {title} | {threads} | {a.spearman:.2f} | {100 * a.median:.1f} / {100 * a.most:.1f} % | "
                    f"{a.choice} | {100 * a.loss:.1f} % | {100 * a.of_three:.1f} % |"
                )
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main(*sys.argv[1:])
