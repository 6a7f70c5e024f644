"""Fit the time model of products (`lego_mlir.kernels.product_time`) to recorded sizes, and judge its choices.

    python bench/product_fit.py fit       the constants from all recorded sizes
    python bench/product_fit.py judge     the choice at each size by constants fitted to the other half of the sizes
    python bench/product_fit.py table     the same as the table of docs/results/product-choices.md

Residuals are logarithms of predicted over measured times; a candidate counts the less, the slower it is than the best
of its size: the model has to rank the fast ones. Damped least squares (Levenberg and Marquardt) over the logarithms of
the constants, which stay positive; residuals beyond HUBER count linearly.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from statistics import geometric_mean
from typing import Any

import mlir_kernels
import numpy as np
import product_tuning

from lego_mlir.kernels.choices import choice_from
from lego_mlir.kernels.product_time import H200, BlockTile, MatrixPath, ProductDevice, ProductSize, product_time

PAGE = "results/product-choices.md"
GOOD = 1.05
F16_BYTES = 2
HUBER, DAMPING, ITERATIONS, STEP = 0.05, 1e-2, 60, 1e-4
SHARPNESS = 8.0
"""A candidate that takes 1 + x times the best has the weight 1 / (1 + SHARPNESS x)."""
FIXED = ("sms", "frequency", "paths")
START = ProductDevice(
    sms=H200.sms, frequency=H200.frequency, dram=4e6, latency=0.5, l2=1e5, start=5.0, cluster=H200.cluster, rounds=20.0,
    limits=2.0,
    paths={
        "mma.sync": MatrixPath(
            matrix=1.6, issue=1.0, shared=0.5, line=1.0, wait=50.0, chain=5.0, fill=1000.0, drain=100.0, store=1.0,
            units=2.0,
        ),
        "warpgroups": MatrixPath(
            matrix=1.0, issue=0.01, shared=0.5, line=1.0, wait=50.0, chain=5.0, fill=1000.0, drain=100.0, store=1.0,
            units=4.0,
        ),
    },
)  # fmt: skip
"""Round guesses, which no fit has seen."""
LOOSE, NEAR = 0.3, 1e-9
"""The prior: constants stay within a factor e^(1/LOOSE) of their start unless the data speak against it."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One candidate of a size and its time in microseconds, absolute and over the best of the size."""

    product: ProductSize
    tile: BlockTile
    us: float
    ratio: float


def recorded(sizes: Iterable[tuple[int, int, int]]) -> list[Measured]:
    """The rows of these sizes."""
    results = mlir_kernels.latest(product_tuning.NAME)
    if results is None:
        sys.exit(f"no results of {product_tuning.NAME}; run its step `time` on a GPU")
    wanted, found = set(sizes), []
    by_size: dict[tuple[int, int, int], list[dict[str, Any]]] = {}
    for row in results["rows"]:
        if row["family"] != "cuBLAS" and tuple(row["size"]) in wanted:
            by_size.setdefault(tuple(row["size"]), []).append(row)
    for size, rows in by_size.items():
        best = min(row["ms"] for row in rows)
        found += [
            Measured(ProductSize(*size), tile_of(r["family"], r), 1e3 * r["ms"], r["ms"] / best) for r in rows
        ]  # fmt: skip
    return found


def tile_of(family: str, row: Mapping[str, Any]) -> BlockTile:
    """The tile of a row."""
    if family == "mma.sync":
        return choice_from(dict(row)).block_tile(F16_BYTES)
    m, n, k = row["tile"]
    return BlockTile("warpgroups", m, n, k, tuple(row["warps"]), 0, row["stages"], resident=1)


def earlier() -> list[Measured]:
    """The products of `bench/tuning_spaces.py`, all `mma.sync`; but for one whose order has changed since."""
    found = []
    spaces: dict[tuple[int, int, int], list[dict[str, Any]]] = {}
    for row in mlir_kernels.latest("tuning_spaces")["rows"]:
        if row["kernel"] == "matmul":
            spaces.setdefault(tuple(row["sizes"]), []).append(row)
    for size, rows in spaces.items():
        best = min(row["ms"] for row in rows)
        found += [
            Measured(ProductSize(*size), tile_of("mma.sync", r["config"]), 1e3 * r["ms"], r["ms"] / best)
            for r in rows
            if not (size == (2304, 1152, 4608) and r["config"]["resident"])
        ]
    return found


# -- constants as a vector


def names_of(device: ProductDevice) -> list[tuple[str, str]]:
    own = [("", f.name) for f in fields(ProductDevice) if f.name not in FIXED]
    return own + [(family, f.name) for family in device.paths for f in fields(MatrixPath)]


def vector_of(device: ProductDevice) -> Any:
    values = [
        getattr(device.paths[family] if family else device, name) for family, name in names_of(device)  # type: ignore[index]
    ]  # fmt: skip
    return np.log(np.maximum(values, NEAR))


def device_of(vector: Any, start: ProductDevice) -> ProductDevice:
    values = dict(zip(names_of(start), np.exp(vector).tolist(), strict=True))
    paths = {
        family: replace(path, **{name: v for (f, name), v in values.items() if f == family})
        for family, path in start.paths.items()
    }
    return replace(start, paths=paths, **{name: v for (f, name), v in values.items() if not f})


# -- the fit


def predicted(device: ProductDevice, rows: list[Measured]) -> Any:
    return np.array([product_time(r.product, r.tile, device).microseconds for r in rows])


def fitted(rows: list[Measured], start: ProductDevice = START, iterations: int = ITERATIONS) -> ProductDevice:
    """The device whose constants explain the rows."""
    weight = np.array([1 / (1 + SHARPNESS * (row.ratio - 1)) for row in rows])
    measured, origin = np.log([row.us for row in rows]), vector_of(start)

    def residuals(x: Any) -> Any:
        found = weight * (np.log(predicted(device_of(x, start), rows)) - measured)
        size = np.abs(found)
        huber = np.where(size > HUBER, np.sign(found) * np.sqrt(np.maximum(2 * HUBER * size - HUBER**2, 0)), found)
        return np.concatenate([huber, LOOSE * HUBER * (x - origin)])

    x, damping = origin.copy(), DAMPING
    here = residuals(x)
    for _ in range(iterations):
        jacobian = np.stack([(residuals(x + STEP * unit) - here) / STEP for unit in np.eye(len(x))], axis=1)
        normal, slope = jacobian.T @ jacobian, jacobian.T @ here
        while damping < 1e6:
            step = np.linalg.solve(normal + damping * np.diag(np.diag(normal) + NEAR), -slope)
            there = residuals(x + np.clip(step, -0.5, 0.5))
            if there @ there < here @ here:
                break
            damping *= 4
        else:
            break
        gain = 1 - (there @ there) / (here @ here)
        x, here, damping = x + np.clip(step, -0.5, 0.5), there, damping / 4
        if gain < 1e-5:
            break
    return device_of(x, start)


# -- judging


def chosen(device: ProductDevice, rows: list[Measured]) -> dict[ProductSize, tuple[Measured, Measured]]:
    """The model's choice and the best of each size."""
    times = predicted(device, rows)
    sizes: dict[ProductSize, list[tuple[float, Measured]]] = {}
    for time, row in zip(times, rows, strict=True):
        sizes.setdefault(row.product, []).append((time, row))
    return {
        product: (min(found, key=lambda f: f[0])[1], min((row for _, row in found), key=lambda row: row.us))
        for product, found in sizes.items()
    }


def good(device: ProductDevice, rows: list[Measured]) -> tuple[int, int]:
    """At how many sizes the choice is within 5 % of the best, of how many."""
    found = chosen(device, rows)
    return sum(choice.ratio <= GOOD for choice, _ in found.values()), len(found)


def error(device: ProductDevice, rows: list[Measured]) -> float:
    """The root mean square of the relative error of candidates within 1.5 times the best."""
    near = [row for row in rows if row.ratio <= 1.5]
    return float(np.sqrt(np.mean(np.log(predicted(device, near) / [row.us for row in near]) ** 2)))


def cross_validated() -> tuple[list[Measured], dict[ProductSize, tuple[Measured, Measured]]]:
    """All rows, and the choice at each size by constants that were fitted to the other half of the sizes."""
    halves = [recorded(half) for half in product_tuning.halves()]
    before, found = earlier(), {}
    sizes = list(dict.fromkeys(row.product for row in before))
    parts = [[row for row in before if row.product in sizes[half::2]] for half in (0, 1)]
    for there, here in ((0, 1), (1, 0)):
        device = fitted(halves[there] + parts[there])
        found |= chosen(device, halves[here] + parts[here])
    return halves[0] + halves[1] + before, found


def fit() -> None:
    """The constants from all recorded sizes."""
    rows = recorded(product_tuning.SIZES) + earlier()
    found = fitted(rows)
    for (family, name), value in zip(names_of(found), np.exp(vector_of(found)), strict=True):
        print(f"{family or 'device'} {name} = {value:.3g}")
    print("{} of {} sizes within 5 %, rms error {:.3f}".format(*good(found, rows), error(found, rows)))


def judge() -> None:
    """The choices of cross-validation."""
    _, found = cross_validated()
    for product, (choice, best) in found.items():
        mark = "" if choice.ratio <= GOOD else f"  best: {_label(best.tile)}"
        print(f"{product.m} x {product.n} x {product.k}: {choice.ratio:.3f} {_label(choice.tile)}{mark}")
    ratios = [choice.ratio for choice, _ in found.values()]
    print(f"{sum(ratio <= GOOD for ratio in ratios)} of {len(ratios)} within 5 %, mean {geometric_mean(ratios):.3f}")


def table() -> None:
    """The page of the choices."""
    rows, found = cross_validated()
    new = {row.product for row in recorded(product_tuning.SIZES)}
    shipped = chosen(H200, rows)
    cells = [
        [
            f"{p.m} x {p.n} x {p.k}", str(sum(row.product == p for row in rows)), _label(best.tile), f"{best.us:.1f}",
            _label(choice.tile), f"{choice.ratio:.3f}", f"{shipped[p][0].ratio:.3f}",
        ]
        for p, (choice, best) in found.items()
    ]  # fmt: skip
    lines = []
    for what, products in (("new sizes", new), ("earlier sizes, `mma.sync` alone", set(found) - new)):
        held, all_ = ([f[p][0].ratio for p in products] for f in (found, shipped))
        worst, mean = max(held), geometric_mean(held) - 1
        lines.append(
            f"- {what}: within 5 % of the best at {sum(r <= GOOD for r in held)} of {len(held)} where the constants "
            f"were fitted to other sizes, the worst {worst:.2f} times the best, on average {mean:.1%} slower; "
            f"with the shipped constants at {sum(r <= GOOD for r in all_)} of {len(all_)}"
        )
    results = mlir_kernels.latest(product_tuning.NAME)
    head = (
        f"{results['device']}, {mlir_kernels.latest_path(product_tuning.NAME).name[:10]}, PyTorch {results['torch']}."
    )
    columns = "M x N x K|candidates|best|us|choice|choice / best|shipped / best"
    text = "\n".join([head, "", *lines, "", mlir_kernels.table(columns, cells)])
    mlir_kernels.put_into(PAGE, "choices", text + "\n")


def _label(tile: BlockTile) -> str:
    persistent = ", persistent" if tile.family == "mma.sync" and tile.resident else ""
    return f"{tile.family} {tile.m}x{tile.n}x{tile.k}, {tile.stages} stages{persistent}"


STEPS = {step.__name__: step for step in (fit, judge, table)}

if __name__ == "__main__":
    if sys.argv[1:] and sys.argv[1] in STEPS:
        STEPS[sys.argv[1]]()
    else:
        sys.exit(f"give a step: {', '.join(STEPS)}")
