"""Fit the time model of products (`lego_mlir.choices.product_time`) to all recorded runs, and judge its choices.

    python bench/product_fit.py fit       the constants from all runs, into the device's file
    python bench/product_fit.py scaled    those of products with scales of blocks, from the times of all their tiles
    python bench/product_fit.py validate  fit the constants for `judge` and `table`, each to other sizes
    python bench/product_fit.py judge     the choice at each size by constants that were fitted to other sizes
    python bench/product_fit.py table     the tables of docs/results/product-choices.md

Runs on an H200: all candidates of both families at 39 sizes (`product_tuning`), `mma.sync` at 20 (`tuning_spaces`) and
at the papers' sizes in four layouts (`matmul`), tiles and clusters of warpgroups (`hopper_study`, `choice_check`,
`product_choices`), the
kernels chosen at 158 products (`hopper`), and K in parts (`small_products`, `small_parts`).

Residuals are logarithms of predicted over measured times, and the same relative to the mean of a size's candidates: the
model has to rank them. A candidate counts the less, the slower it is than the best of its size. A third kind of
residual is what a choice loses, with candidates drawn by their predicted times. Damped least squares (Levenberg and
Marquardt) over the logarithms of the constants, which stay positive; residuals beyond HUBER count linearly.
"""

import hashlib
import json
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import date
from statistics import geometric_mean
from typing import Any

import mlir_kernels
import numpy as np
import recorded_tiles
import runner
import scaled_products
from product_runs import SMS

from lego_mlir.choices import product_device, scaled_tiles
from lego_mlir.choices.product_counts import ProductSize, TileCounts, counts_of
from lego_mlir.choices.product_device import Launches, LaunchKind, MatrixPath, ProductDevice, ScaledPath
from lego_mlir.choices.product_tile import ProductTile
from lego_mlir.choices.product_time import time_of
from lego_mlir.choices.warp_tiles import RESIDENT
from lego_mlir.choices.warpgroup_tiles import shares_rows
from lego_mlir.hardware import devices
from lego_mlir.hardware.memory import ELEMENT_BYTES

PAGE = "results/product-choices.md"
HELD_OUT = mlir_kernels.RESULTS / "static" / "product_fit_held_out.json"
GOOD, NEAR = 1.05, 1.5
REFERENCE_DEVICE = product_device.REFERENCE_DEVICE
F16_BYTES = 2
DEVICE = "NVIDIA H200"
HUBER, DAMPING, ITERATIONS, STEP = 0.05, 1e-2, 60, 1e-4
SHARPNESS = 8.0
"""A candidate that takes 1 + x times the best has the weight 1 / (1 + SHARPNESS x)."""
ABSOLUTE, RELATIVE, LOST, DRAWN = 0.7, 1.0, 2.0, 0.01
"""Weights of the three kinds of residuals, and how much slower than the first predicted is drawn e times less often."""
SCALED_LOST = 4.0
"""What a choice loses among tiles with scales of blocks, whose predictions are rougher."""
SCALED_RUNS = (scaled_products.TILES, scaled_products.TALL)
"""Times of all tiles but those of 256 rows, and of these beside four others."""
LOOSE = 0.3
"""The prior: constants stay within a factor e^(1/LOOSE) of their start unless the data speak against it."""
MOST_EXPONENT = 20.0  # beyond, a p-norm is the largest, and its powers overflow
FOLDS = 10
DATED = ("product_choices", "product_sizes", "product_parts", "product_kinds")
HOPPER_RUNS = ("hopper", "hopper_study", "hopper_large", "choice_check", *DATED)
"""Runs at other sizes each time."""
MOST_PARTED = 8
FEW_TILE = re.compile(r"(.+) (\d+) stages")
PRODUCT = re.compile(r"(\d+)x(\d+)x(\d+)-(..)-(\d+)x(\d+)x(\d+)-(\d)x(\d)w-(\d)s-grouped(-1r)?")

APART = ("publish", "gather", "reach")
"""Constants of kernels whose runs are not among the recorded ones; they come from races of such kernels alone."""
FITTED = {
    "device": ("l2", "latency", "cold", "cluster", "dram_power", "rounds"),
    "flushed": ("start", "power", "dirty"), "steady": ("start", "early"), "rotated": ("start",),
    "mma.sync": tuple(f.name for f in fields(MatrixPath) if f.name not in ("held", *APART)),
    "warpgroups": tuple(f.name for f in fields(MatrixPath) if f.name not in ("held", "issue", *APART)),
}  # fmt: skip
"""The constants that are fitted; others have sources."""
EXPONENTS = ("rounds", "units", "waits", "limits")
START = replace(
    REFERENCE_DEVICE, l2=1.3e5, latency=0.6, cold=0.6, cluster=0.6, dram_power=2e-8, rounds=20.0,
    launches={
        "flushed": LaunchKind(5.0, 5.0, 0.9, 1.0, 1.0, 2e7), "steady": LaunchKind(1.5, 1.0, 1.0, 0.0, 0.0, 0.0),
        "rotated": LaunchKind(2.5, 2.5, 1.0, 0.0, 1.0, 0.0),
    },
    paths={
        "mma.sync": MatrixPath(
            matrix=1.6, issue=1.0, shared=0.5, row=1.0, line=0.5, sector=0.5, wait=50.0, chain=5.0, fill=1000.0,
            drain=300.0, store=1.0, arrival=0.5, sum=0.1, held=1.0, matrix_power=1.0, line_power=0.5,
            shared_power=0.1, units=4.0, waits=4.0, limits=4.0,
        ),
        "warpgroups": MatrixPath(
            matrix=1.3, issue=0.0, shared=0.5, row=1.0, line=0.5, sector=0.5, wait=20.0, chain=3.0, fill=500.0,
            drain=300.0, store=1.0, arrival=0.5, sum=0.1, held=2.0, matrix_power=1.0, line_power=0.5,
            shared_power=0.1, units=4.0, waits=4.0, limits=4.0, publish=REFERENCE_DEVICE.paths["warpgroups"].publish,
            gather=REFERENCE_DEVICE.paths["warpgroups"].gather, reach=REFERENCE_DEVICE.paths["warpgroups"].reach,
        ),
    },
)  # fmt: skip
"""Round guesses, which no fit has seen."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One candidate in a run: its time in microseconds, absolute and over the best of the same size and run."""

    run: str
    product: ProductSize
    tile: ProductTile
    launches: Launches
    us: float
    ratio: float = 1.0
    dtype: str = "f16"

    @property
    def group(self) -> tuple[str, ProductSize, str, str]:
        """What is compared: the candidates of one size in one run."""
        return self.run, self.product, self.launches, self.dtype


# -- recorded runs


def recorded() -> list[Measured]:
    """All runs."""
    return compared(
        [row for row in (*_tuning(), *_spaces(), *_papers(), *_hopper(), *_small(), *_few()) if _counts(row)]
    )


def _counts(row: Measured) -> bool:
    """Whether the model has terms for a kernel: not for kinds that were slower on an H200 and are not candidates.

    These are parts of K in clusters of 8, two resident blocks of warpgroups, and two rows of tiles without clusters.
    """
    tile = row.tile
    if tile.family != "warpgroups" or row.run not in ("few_rows", "product_choices 2026-11-23"):
        return True
    size, tile = (row.product.turned(), tile.turned()) if tile.transposed else (row.product, tile)
    down, across = -(-size.m // tile.m), -(-size.n // tile.n)
    alone = down == 2 and tile.cluster[0] == 1 and down * across * tile.parts <= SMS
    return tile.parts < MOST_PARTED and tile.resident == 1 and not alone


def compared(rows: list[Measured]) -> list[Measured]:
    """The rows with the ratio of each to the best of its group."""
    best: dict[Any, float] = {}
    for row in rows:
        best[row.group] = min(row.us, best.get(row.group, row.us))
    return [replace(row, ratio=row.us / best[row.group]) for row in rows]


def _rows(name: str) -> list[dict[str, Any]]:
    results = mlir_kernels.latest(name)
    if results is None:
        sys.exit(f"no results of {name}; run its step `time` on a GPU")
    return results["rows"]


def _tuning() -> Iterable[Measured]:
    for row in _rows("product_tuning"):
        size = ProductSize(*row["size"], element=F16_BYTES)
        family = row.get("family")
        if family == "mma.sync":
            tile = recorded_tiles.of_row(row)
        elif family == "warpgroups":
            m, n, _ = row["tile"]
            tile = recorded_tiles.of_label((size.m, size.n, size.k), f"{m}x{n}", row["stages"])
        else:
            continue
        yield Measured("product_tuning", size, tile, "flushed", 1e3 * row["ms"])


def _spaces() -> Iterable[Measured]:
    """All products but one, whose order has changed since."""
    for row in _rows("tuning_spaces"):
        changed = row["sizes"] == [2304, 1152, 4608] and row["config"].get("resident")
        if row["kernel"] == "matmul" and not changed:
            tile = recorded_tiles.of_row(row["config"])
            yield Measured(
                "tuning_spaces", ProductSize(*row["sizes"], element=F16_BYTES), tile, "flushed", 1e3 * row["ms"]
            )


def _papers() -> Iterable[Measured]:
    for row in _rows("matmul"):
        found = PRODUCT.fullmatch(row["kernel"])
        if found:
            layouts, persistent = found[4], found[11] is not None
            size, tile, warps, stages = (
                [int(found[i]) for i in places] for places in ((1, 2, 3), (5, 6, 7), (8, 9), (10,))
            )
            block = ProductTile(*tile, (warps[0], warps[1]), stages[0], resident=int(persistent))
            product = ProductSize(size[0], size[1], size[2], layouts, F16_BYTES)
            yield Measured("matmul", product, block, "flushed", 1e3 * row["ms"])


def _hopper() -> Iterable[Measured]:
    """Tiles and clusters of warpgroups, and mma.sync where a row has its choice."""
    for name in HOPPER_RUNS:
        paths = mlir_kernels.all_paths(name)
        for path in paths[:1] if name == "hopper" else paths:  # its later runs judge the choices
            for row in json.loads(path.read_text())["rows"]:
                run, dtype = f"{name} {row['run']}" if "run" in row else name, row["dtype"]
                if name in DATED:
                    run = f"{name} {path.name[:10]}"
                yield from _of_row(run, dtype, row)


def _of_row(run: str, dtype: str, row: dict[str, Any]) -> Iterable[Measured]:
    m, n, k = row["size"]
    product = ProductSize(m, n, k * ELEMENT_BYTES[dtype] // F16_BYTES, row["layouts"], F16_BYTES)
    if "choice" in row:
        resident = RESIDENT if row["blocks"] else 0
        tile = replace(recorded_tiles.of_row(row["choice"]), parts=row["parts"])
        tile = replace(tile, resident=resident) if row["parts"] > 1 else tile
    elif "division" in row:
        tile = ProductTile.from_json(row["division"])
    elif "stages" in row:  # not of cuBLAS, or of a class
        tile = recorded_tiles.of_label((product.m, product.n, product.k), row["tile"], row["stages"])
    else:
        return
    yield Measured(run, product, tile, "steady", 1e3 * row["ms"], dtype=dtype)
    if row.get("single_ms"):
        yield Measured(run, product, tile, "flushed", 1e3 * row["single_ms"], dtype=dtype)


def _few() -> Iterable[Measured]:
    """Few rows and tiles by warpgroups."""
    for row in _rows("few_rows"):
        found = FEW_TILE.fullmatch(row["tile"])
        if found:  # not of cuBLAS
            (m, n, k), layouts = row["size"], row["layouts"]
            tile = recorded_tiles.of_label((m, n, k), found[1], int(found[2]))
            if (tile.group == 1 and tile.tiles(m, n)[0] > 1) or not shares_rows(tile, m, n):
                continue  # an order, or boxes outside of A, that the model has no term for
            yield Measured("few_rows", ProductSize(m, n, k, layouts), tile, "steady", 1e3 * row["ms"])


def _of_run(run: str) -> list[tuple[str, dict[str, Any]]]:
    return [(run, row) for row in _rows(run) if row["kernel"] != "cuBLAS"]


def _small() -> Iterable[Measured]:
    for run, row in (*_of_run("small_products"), *_of_run("small_parts")):
        tile, threads, stages = row["tile"].split("-")
        m, n, k = map(int, tile.split("x"))
        warps = (1, int(threads) // 32) if m < 64 else (2, int(threads) // 64)
        block = ProductTile(m, n, k, warps, int(stages[:-1]), parts=row["parts"])
        block = replace(block, resident=RESIDENT if row["blocks"] else 0)
        product = ProductSize(*row["size"], row["layouts"], F16_BYTES)
        yield Measured(run, product, block, "rotated", 1e3 * row["ms"])


# -- constants as a vector


def parts_of(device: ProductDevice) -> dict[str, Any]:
    return {"device": device, **device.launches, **device.paths}


def vector_of(device: ProductDevice) -> Any:
    parts = parts_of(device)
    return np.log([getattr(parts[part], name) for part, names in FITTED.items() for name in names])


def device_of(vector: Any, start: ProductDevice) -> ProductDevice:
    """The device with these constants; the start of dependent kernels is that of others unless launches are steady."""
    values, parts = iter(np.exp(vector).tolist()), parts_of(start)
    for part, names in FITTED.items():
        new = {name: next(values) for name in names}
        new |= {name: min(value, MOST_EXPONENT) for name, value in new.items() if name in EXPONENTS}
        if "dirty" in new or part == "rotated":
            new["early"] = new["start"]
        parts[part] = replace(parts[part], **new)
    return replace(
        parts["device"],
        launches={name: parts[name] for name in start.launches},
        paths={name: parts[name] for name in start.paths},
    )


# -- the fit


class Groups:
    """Rows as arrays: times, their ratios to the best of the same group, and the number of the group."""

    def __init__(self, rows: list[Measured]) -> None:
        self.rows = rows
        self.us, self.ratio = np.array([row.us for row in rows]), np.array([row.ratio for row in rows])
        number = {group: i for i, group in enumerate(dict.fromkeys(row.group for row in rows))}
        self.group = np.array([number[row.group] for row in rows])
        self.groups = list(number)

    def mean(self, values: Any, weight: Any) -> Any:
        """The weighted mean of each row's group."""
        return (np.bincount(self.group, weight * values) / np.bincount(self.group, weight))[self.group]


class Runs(Groups):
    """Rows with their counts as arrays."""

    def __init__(self, rows: list[Measured]) -> None:
        super().__init__(rows)
        counted = [counts_of(row.product, row.tile, REFERENCE_DEVICE) for row in rows]
        self.counts = TileCounts(*(np.array(column, dtype=float) for column in zip(*counted, strict=True)))
        self.families, self.kinds = [row.tile.family for row in rows], [row.launches for row in rows]
        self._places: dict[tuple[str, ...], tuple[Any, Any]] = {}

    def predicted(self, device: ProductDevice) -> Any:
        """Microseconds of all rows."""
        names = (*device.paths, *device.launches)
        if names not in self._places:
            self._places[names] = _places(device.paths, self.families), _places(device.launches, self.kinds)
        of_paths, of_launches = self._places[names]
        path, kind = _columns(device.paths, of_paths), _columns(device.launches, of_launches)
        return time_of(self.counts, MatrixPath(**path), device, LaunchKind(**kind)).microseconds


def _places(table: Any, names: list[Any]) -> Any:
    """The place in a table of each row's name."""
    number = {name: place for place, name in enumerate(table)}
    return np.array([number[name] for name in names])


def _columns(table: Any, places: Any) -> dict[str, Any]:
    """The constants that each row takes from a table, as arrays."""
    entries = list(table.values())
    return {f.name: np.array([getattr(e, f.name) for e in entries])[places] for f in fields(entries[0])}


def residuals(runs: Groups, predicted: Any, lost_weight: float = LOST) -> Any:
    """The residuals of predicted times, of the three kinds."""
    weight = 1 / (1 + SHARPNESS * (runs.ratio - 1))
    error = np.log(predicted / runs.us)
    found = np.concatenate([ABSOLUTE * weight * error, RELATIVE * weight * (error - runs.mean(error, weight))])
    size = np.abs(found)
    found = np.where(size > HUBER, np.sign(found) * np.sqrt(np.maximum(2 * HUBER * size - HUBER**2, 0)), found)
    first = np.full(len(runs.groups), np.inf)
    np.minimum.at(first, runs.group, np.log(predicted))
    drawn = np.exp((first[runs.group] - np.log(predicted)) / DRAWN)
    lost = np.bincount(runs.group, drawn * np.log(runs.ratio)) / np.bincount(runs.group, drawn)
    return np.concatenate([found, lost_weight * lost])


def fitted(runs: Runs, start: ProductDevice = START, iterations: int = ITERATIONS) -> ProductDevice:
    """The device whose constants explain the runs."""
    found = descended(lambda x: residuals(runs, runs.predicted(device_of(x, start))), vector_of(start), iterations)
    return device_of(found, start)


def descended(residuals_at: Callable[[Any], Any], origin: Any, iterations: int = ITERATIONS) -> Any:
    """Logarithms of constants with the least squares, near their origin."""

    def of(x: Any) -> Any:
        return np.concatenate([residuals_at(x), LOOSE * HUBER * (x - origin)])

    x, damping = origin.copy(), DAMPING
    here = of(x)
    for _ in range(iterations):
        jacobian = np.stack([(of(x + STEP * unit) - here) / STEP for unit in np.eye(len(x))], axis=1)
        normal, slope = jacobian.T @ jacobian, jacobian.T @ here
        while damping < 1e6:
            step = np.clip(np.linalg.solve(normal + damping * np.diag(np.diag(normal) + 1e-9), -slope), -0.5, 0.5)
            there = of(x + step)
            if there @ there < here @ here:
                break
            damping *= 4
        else:
            break
        gain = 1 - (there @ there) / (here @ here)
        x, here, damping = x + step, there, damping / 4
        if gain < 1e-5:
            break
    return x


# -- products with scales of blocks


def scaled_runs() -> Groups:
    """The times of all tiles of dense products, and of a few beside those of 256 rows."""
    named = {scaled_products.label("dense", tile): tile for tile in scaled_tiles.shapes()}
    rows = []
    for run in SCALED_RUNS:
        for row in _rows(run):
            form, _, *size = row["case"]
            if form == "dense" and row["tile"] != scaled_products.THEIRS:
                product = ProductSize(*map(int, size))
                rows.append(Measured(run, product, named[row["tile"]], "steady", 1e3 * row["ms"]))
    return Groups(compared(rows))


def scaled_fit(runs: Groups) -> ScaledPath:
    """The constants that explain the times, from 1 on."""

    def at(x: Any) -> Any:
        return residuals(runs, scaled_times(runs, ScaledPath(*np.exp(x))), SCALED_LOST)

    found = np.exp(descended(at, np.zeros(len(fields(ScaledPath)))))
    return ScaledPath(*(float(f"{value:.3g}") for value in found))


def scaled_times(runs: Groups, path: ScaledPath) -> Any:
    """The predicted microseconds of all rows."""
    device = replace(REFERENCE_DEVICE, scaled=path)
    sizes = [(row.product.m, 1, row.product.n, row.product.k) for row in runs.rows]
    pairs = zip(sizes, runs.rows, strict=True)
    return np.array([scaled_tiles.microseconds(size, row.tile, device) for size, row in pairs])


def scaled(_: Sequence[str]) -> None:
    """The constants of products with scales of blocks, into the device's file."""
    runs = scaled_runs()
    path, written = scaled_fit(runs), json.loads(devices.path_of(DEVICE).read_text())
    written["products"]["constants"]["scaled"] = asdict(path)
    from_runs = " and ".join(mlir_kernels.latest_path(run).name for run in SCALED_RUNS)
    by = f"bench/product_fit.py scaled, {date.today().isoformat()}, from {from_runs}"
    written["products"]["sources"]["scaled"] = by
    devices.path_of(DEVICE).write_text(json.dumps(written, indent=1) + "\n")
    print(f"the first of each size by its prediction takes {mean_loss(runs, scaled_times(runs, path)):.4f} of the best")


def mean_loss(runs: Groups, predicted: Any) -> float:
    """The geometric mean, over the groups, of the ratio of what is predicted to be the best."""
    first = [min(np.flatnonzero(runs.group == n), key=lambda i: predicted[i]) for n in range(len(runs.groups))]
    return geometric_mean(runs.ratio[first])


# -- judging


def chosen(device: ProductDevice, runs: Runs) -> dict[Any, tuple[Measured, Measured]]:
    """The model's choice and the best of each group that has several candidates."""
    times = runs.predicted(device)
    groups: dict[Any, list[tuple[float, Measured]]] = {}
    for time, row in zip(times, runs.rows, strict=True):
        groups.setdefault(row.group, []).append((time, row))
    return {
        group: (min(found, key=lambda f: f[0])[1], min((row for _, row in found), key=lambda row: row.us))
        for group, found in groups.items()
        if len(found) > 1
    }


def good(found: dict[Any, tuple[Measured, Measured]], run: str) -> tuple[int, int]:
    """At how many sizes of a run the choice is within 5 % of the best, of how many."""
    here = [choice.ratio for (name, *_), (choice, _) in found.items() if name == run]
    return sum(ratio <= GOOD for ratio in here), len(here)


def error(device: ProductDevice, runs: Runs) -> float:
    """The root mean square of the relative error of candidates within NEAR times the best."""
    near = runs.ratio <= NEAR
    return float(np.sqrt(np.mean(np.log(runs.predicted(device)[near] / runs.us[near]) ** 2)))


def _runs_digest(rows: list[Measured]) -> str:
    """A digest of what was measured, whatever classes describe it."""
    named = [(row.run, _computed_size(row), row.product.layouts, row.launches, row.us, row.dtype) for row in rows]
    return hashlib.sha256("\n".join(map(repr, named)).encode()).hexdigest()[:16]


def _computed_size(row: Measured) -> tuple[int, int, int]:
    """M, N and K as the kernel computes them: a transposed tile exchanges the first two."""
    product = row.product.turned() if row.tile.transposed else row.product
    return product.m, product.n, product.k


def validate(_: Sequence[str]) -> None:
    """Fit the constants of each fold to the sizes outside of it, and record them.

    The fit ends at another of some close minima where a processor rounds otherwise: its result is recorded, and pages
    are made from the record.
    """
    rows = recorded()
    constants = [vector_of(fitted(Runs(there))).tolist() for there, _ in _divided(rows, FOLDS)]
    record = {"runs": _runs_digest(rows), "constants": constants}
    HELD_OUT.write_text(json.dumps(record, indent=1) + "\n")


def _divided(rows: list[Measured], folds: int) -> Iterable[tuple[list[Measured], list[Measured]]]:
    """For each fold of the sizes, the runs outside of it and those of it."""
    sizes = sorted(set(map(_computed_size, rows)))
    fold = {size: i % folds for i, size in enumerate(sizes)}
    for out in range(folds):
        of = [fold[_computed_size(row)] == out for row in rows]
        there, here = ([row for row, held in zip(rows, of, strict=True) if held == wanted] for wanted in (False, True))
        yield there, here


def cross_validated(rows: list[Measured]) -> dict[Any, tuple[Measured, Measured]]:
    """The choice in each group by constants that were fitted to other sizes, in all layouts and runs."""
    record = json.loads(HELD_OUT.read_text())
    if record["runs"] != _runs_digest(rows):
        sys.exit(f"{HELD_OUT.name} is of other runs than those recorded now; run bench/product_fit.py validate")
    found: dict[Any, tuple[Measured, Measured]] = {}
    for constants, (_, here) in zip(record["constants"], _divided(rows, len(record["constants"])), strict=True):
        found |= chosen(device_of(constants, START), Runs(here))
    return {row.group: found[row.group] for row in rows if row.group in found}


def fit(_: Sequence[str]) -> None:
    """The constants from all runs."""
    runs = Runs(recorded())
    device = fitted(runs)
    path = devices.path_of(DEVICE)
    written = json.loads(path.read_text())
    by = {"by": "bench/product_fit.py fit", "date": date.today().isoformat(), "runs": _runs_digest(runs.rows)}
    written["products"] |= {"fitted": by, "constants": asdict(device, dict_factory=_rounded)}
    path.write_text(json.dumps(written, indent=1) + "\n")
    found = chosen(device, runs)
    for run in dict.fromkeys(group[0] for group in runs.groups):
        print(run, "{} of {} within 5 %".format(*good(found, run)))
    print(f"rms error {error(device, runs):.3f}")


def _rounded(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Constants with three digits."""
    return {name: float(f"{value:.3g}") if isinstance(value, float) else value for name, value in pairs}


def judge(_: Sequence[str]) -> None:
    """The choices of cross-validation."""
    found = cross_validated(recorded())
    for (run, product, _, _), (choice, best) in found.items():
        if choice.ratio > GOOD:
            size = f"{product.m} x {product.n} x {product.k} {product.layouts}"
            print(f"{run} {size}: {choice.ratio:.3f} {_label(choice.tile)}  best: {_label(best.tile)}")
    for run in dict.fromkeys(group[0] for group in found):
        ratios = [choice.ratio for (name, *_), (choice, _) in found.items() if name == run]
        print(f"{run}: {sum(r <= GOOD for r in ratios)} of {len(ratios)} within 5 %, mean {geometric_mean(ratios):.3f}")


RUNS = {
    "product_tuning": "both families at sizes that are odd, skinny or between powers of two",
    "tuning_spaces": "`mma.sync` at earlier sizes",
    "matmul": "`mma.sync` at the papers' sizes, in four layouts",
    "hopper_study": "tiles and clusters of warpgroups",
    "choice_check 0": "two tiles of warpgroups each",
    "choice_check 1": "the same in another run",
    "hopper_large": "tiles, groups and clusters at squares of powers of two",
    "product_choices 2026-11-22": "the choices of this model and those before",
    "product_choices 2026-11-23": "the first of each kind by this model, at other sizes",
    "product_sizes 2026-11-30": "kernels of classes in the leading tiles of 98 drawn sizes",
    "product_parts 2026-11-30": "72 to 300 rows, K whole and in parts",
    "product_kinds 2026-11-30": "129 to 300 rows, and 8-bit types, in tiles of every kind",
    "few_rows": "few rows and tiles by warpgroups",
    "small_products": "few rows, K in parts",
    "small_parts": "the same with more tiles and parts, in an earlier run",
}


def table() -> None:
    """The page of the choices."""
    rows = recorded()
    runs = Runs(rows)
    held, shipped = cross_validated(rows), chosen(REFERENCE_DEVICE, runs)
    summary = []
    for run, what in RUNS.items():
        there, here = ([c.ratio for (name, *_), (c, _) in found.items() if name == run] for found in (held, shipped))
        counts = [f"{sum(r <= GOOD for r in ratios)} of {len(ratios)}" for ratios in (there, here)]
        summary.append(
            [what, *counts, f"{max(there):.2f}", *(f"{100 * (geometric_mean(r) - 1):.1f} %" for r in (there, here))]
        )
    cells = []
    for group, (choice, best) in held.items():
        if group[0] in ("product_tuning", "tuning_spaces"):
            p = group[1]
            cells.append([
                f"{p.m} x {p.n} x {p.k}", str(sum(row.group == group for row in rows)), _label(best.tile),
                f"{best.us:.1f}", _label(choice.tile), f"{choice.ratio:.3f}", f"{shipped[group][0].ratio:.3f}",
            ])  # fmt: skip
    results = mlir_kernels.latest("product_tuning")
    head = f"{results['device']}, {mlir_kernels.latest_path('product_tuning').name[:10]}, PyTorch {results['torch']}."
    of_runs = mlir_kernels.table("candidates|held out|shipped|worst held out|mean loss|of shipped", summary)
    columns = "M x N x K|candidates|best|us|choice|choice / best|shipped / best"
    mlir_kernels.put_into(PAGE, "choices", f"{head}\n\n", of_runs, mlir_kernels.table(columns, cells))


def _label(tile: ProductTile) -> str:
    persistent = ", persistent" if tile.family == "mma.sync" and tile.resident else ""
    cluster = f" cluster {tile.cluster[0]}x{tile.cluster[1]}" if tile.cluster != (1, 1) else ""
    return f"{tile.family} {tile.m}x{tile.n}x{tile.k}{cluster}, {tile.stages} stages{persistent}"


BENCHMARK = runner.Benchmark(
    "product_fit", table=table, steps={"fit": fit, "scaled": scaled, "validate": validate, "judge": judge}
)

if __name__ == "__main__":
    sys.exit(runner.main(BENCHMARK))
