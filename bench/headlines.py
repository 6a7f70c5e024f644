"""The headline of each page of results: the ratios that one plot shows, from the newest run on each device.

A point is one case; points have groups, which are the rows of the plot, a protocol and a device. Above 1 the second of
the two that the label names is faster. Each function here takes `newest`, which gives the newest results of a name on
one device, or None.

>>> rows = [{"case": "a", "kernel": "ours", "ms": 2.0}, {"case": "a", "kernel": "torch", "ms": 3.0}]
>>> ratios(rows, "case", ["torch"], ["ours"])
{'a': 1.5}
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import mlir_kernels

SINGLE, SUSTAINED = "single launches", "back to back"
HOST, WARM, COUNTED = "host time", "warm caches", "counts"
GPUS = ("NVIDIA H200", "NVIDIA H100")
CPUS = ("AMD EPYC, Zen 5", "AMD EPYC, Zen 4")
FOLDERS = {
    "NVIDIA H200": "NVIDIA-H200*", "NVIDIA H100": "NVIDIA-H100*",
    "AMD EPYC, Zen 5": "amd-epyc-zen5", "AMD EPYC, Zen 4": "amd-epyc-zen4",
}  # fmt: skip
"""Where the results of a device are; a device that was not measured has an empty column."""
EARLIER = {"formats": "formats_one_line"}
"""Names of runs before a change, where a device has no newer one; their pages say what changed."""
Rows = Sequence[Mapping[str, Any]]
Newest = Callable[[str], Any]


@dataclass(frozen=True, slots=True)
class Point:
    """One case: the row of the plot, how it was timed, and the ratio."""

    group: str
    protocol: str
    ratio: float


@dataclass(frozen=True, slots=True)
class Headline:
    """The plot of a page: what the ratio is of, its points on one device, and the devices."""

    label: str
    points: Callable[[Newest], Iterable[Point]]
    devices: Sequence[str] = GPUS


@dataclass(frozen=True, slots=True)
class Summary:
    """The cases of a group under one protocol on one device."""

    group: str
    protocol: str
    mean: float  # geometric
    least: float
    most: float
    number: int

    @property
    def text(self) -> str:
        """The mean, and the least and the most of several.

        >>> Summary("a", SINGLE, 1.021, 0.947, 1.2, 3).text
        '1.02 (0.95 to 1.20)'
        """
        several = self.number > 1
        return f"{self.mean:.2f} ({self.least:.2f} to {self.most:.2f})" if several else f"{self.mean:.2f}"


def ratios(rows: Rows, case: str | Sequence[str], theirs: Iterable[str], ours: Iterable[str], field: str = "ms") -> Any:
    """For each case the least time of some kernels over the least time of others; cases without either are left out."""
    keys, theirs, ours = ([case] if isinstance(case, str) else case), set(theirs), set(ours)
    best: dict[Any, dict[bool, float]] = {}
    for row in rows:
        for mine, names in ((True, ours), (False, theirs)):
            if row["kernel"] in names and row.get(field):
                name = _hashable(row[keys[0]]) if len(keys) == 1 else tuple(_hashable(row[key]) for key in keys)
                found = best.setdefault(name, {})
                found[mine] = min(row[field], found.get(mine, math.inf))
    return {name: found[False] / found[True] for name, found in best.items() if len(found) == len((True, False))}


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def summaries(points: Iterable[Point]) -> list[Summary]:
    """The points by group and protocol, in the order in which the groups come."""
    found: dict[tuple[str, str], list[float]] = {}
    for point in points:
        found.setdefault((point.group, point.protocol), []).append(point.ratio)
    return [
        Summary(group, protocol, geometric_mean(values), min(values), max(values), len(values))
        for (group, protocol), values in found.items()
    ]


def newest_path(device: str, name: str) -> Path | None:
    """Where the newest results of a name on a device are."""
    paths = mlir_kernels.RESULTS.glob(f"{FOLDERS[device]}/????-??-??-{name}.json")
    newest = max(paths, key=lambda path: path.name, default=None)
    return newest_path(device, EARLIER[name]) if newest is None and name in EARLIER else newest


def newest_on(device: str) -> Newest:
    """The newest results of a name on a device."""

    def newest(name: str) -> Any:
        path = newest_path(device, name)
        return None if path is None else json.loads(path.read_text())

    return newest


def measured(headline: Headline) -> dict[str, list[Summary]]:
    """The summaries of each device, none where nothing was measured."""
    return {device: summaries(headline.points(newest_on(device))) for device in headline.devices}


# -- products


def _products(newest: Newest) -> Iterator[Point]:
    import hopper

    groups = (
        ("squares of 512 and 1024", hopper.SQUARES[:2], None), ("squares, 2048 to 16384", hopper.SQUARES[2:], None),
        ("other sizes", hopper.OTHERS, None), ("squares drawn at random", hopper.RANDOM, "NT"),
        ("shapes of language models", hopper.MODELS, "NT"),
    )  # fmt: skip
    for field, protocol in (("single_ms", SINGLE), ("ms", SUSTAINED)):
        found = ratios(_rows(newest("hopper")), ("size", "layouts", "dtype"), ["cuBLAS"], ["chosen"], field)
        for group, sizes, only in groups:
            for (size, layouts, _), ratio in found.items():
                if size in sizes and only in (None, layouts):
                    yield Point(group, protocol, ratio)
    yield from _types(newest)


def _types(newest: Newest) -> Iterator[Point]:
    """Other types and epilogues against the fastest of PyTorch's calls, without products that promote sums."""
    for row in _rows(newest("hopper_types")):
        _, _, kind, _, *epilogue = row["case"].split("-")
        others = [ms for name, ms in row["ms"].items() if name != "lego"]
        if not others or "exact" in row["case"] or "positive" in row["case"]:
            continue
        group = {"f8e4m3fn": "fp8", "i8": "int8", "f32": "TF32"}.get(kind) or (
            "epilogues of f16 and bf16" if epilogue else ""
        )
        if group:
            yield Point(group, SUSTAINED, min(others) / row["ms"]["lego"])


def _shapes(newest: Newest) -> Iterator[Point]:
    rows = _rows(newest("odd_products"))
    for (size, *_), ratio in ratios(rows, ("size", "layouts", "dtype"), ["cuBLAS"], ["copies"]).items():
        yield Point("odd sizes, few rows" if size[0] <= 64 else "odd sizes", SUSTAINED, ratio)
    for row in _rows(newest("divided_products")):
        best = min(us for name, us in row["us"].items() if name != "lego")
        yield Point("few rows and long sums, warpgroups", SUSTAINED, best / row["us"]["lego"])
    found = ratios(_rows(newest("small_products")), ("size", "layouts"), ["cuBLAS"], ["chosen"])
    yield from (Point("few rows, mma.sync", SUSTAINED, ratio) for ratio in found.values())


def _by_mma(newest: Newest) -> Iterator[Point]:
    rows = _rows(newest("matmul"))
    ours = {row["kernel"] for row in rows if "tile" in row}
    for (_, layouts), ratio in ratios(rows, ("size", "layouts"), ["cuBLAS"], ours).items():
        yield Point(layouts, SINGLE, ratio)


def _scheduled(newest: Newest) -> Iterator[Point]:
    from scheduled_products import COMPOSITIONS

    found = ratios(_rows(newest("scheduled_products")), ("name", "n"), ["PyTorch"], COMPOSITIONS)
    yield from (Point(name.replace("_", " "), SINGLE, ratio) for (name, _), ratio in found.items())


def _grouped(newest: Newest) -> Iterator[Point]:
    rows = _rows(newest("grouped_products"))
    named = {"batched": "batched: torch.bmm", "grouped": "grouped: _grouped_mm", "depth": "along K: _grouped_mm"}
    for case, ratio in ratios(rows, "case", ["torch bmm", "torch grouped"], ["lego"]).items():
        yield Point(named[case[0]], SINGLE, ratio)


RUNS = {
    "product_tuning": ("odd and skinny sizes", SINGLE),
    "tuning_spaces": ("mma.sync, earlier sizes", SINGLE),
    "matmul": ("mma.sync, the papers' sizes", SINGLE),
    "hopper_study": ("tiles and clusters", SUSTAINED),
    "hopper_large": ("squares of powers of two", SUSTAINED),
    "choice_check 0": ("two tiles each", SUSTAINED),
    "choice_check 1": ("two tiles each", SUSTAINED),
    "product_choices 2026-11-22": ("this model and those before", SUSTAINED),
    "product_choices 2026-11-23": ("the first of each kind", SUSTAINED),
    "few_rows": ("few rows and tiles", SUSTAINED),
    "small_products": ("few rows, K in parts", SUSTAINED),
    "small_parts": ("few rows, K in parts", SUSTAINED),
}
"""What the runs of `product_fit` are called here, and how they timed."""


@cache
def _fitted() -> tuple[Point, ...]:
    """The time of the best candidate over that of the shipped choice, for each size of the runs."""
    import product_fit

    found = product_fit.chosen(product_fit.H200, product_fit.Runs(product_fit.recorded()))
    return tuple(Point(*RUNS[name], 1 / choice.ratio) for (name, *_), (choice, _) in found.items() if name in RUNS)


def _choices(newest: Newest) -> Iterable[Point]:
    results = newest("product_tuning")
    return _fitted() if results is not None and "H200" in results["device"] else ()


# -- other kernels


def _transposes(newest: Newest) -> Iterator[Point]:
    import transpose

    for name, sizes in (("transpose", ""), ("transpose_odd", ", 4097 and 8191")):
        found = ratios(_rows(newest(name)), ("dtype", "size"), transpose.COPIES, ["ours vectorised"])
        for (dtype, _), ratio in sorted(found.items()):
            yield Point(f"{dtype}{sizes}", SINGLE, ratio)


def _attention(newest: Newest) -> Iterator[Point]:
    for case, ratio in ratios(_rows(newest("fused_attention")), "case", ["torch cudnn"], ["lego"]).items():
        yield Point(f"{case[0]}, heads of {case[1]}: cuDNN", SINGLE, ratio)
    spread = _rows(newest("attention_spread"))
    for rival, called in (("Triton sm_80", "Triton"), ("torch flash", "flash")):
        found = ratios(spread, "case", [rival], ["lego"])
        yield from (Point(f"on mma.sync: {called}", SINGLE, ratio) for ratio in found.values())


def _conversions(newest: Newest) -> Iterator[Point]:
    baselines = ("unpadded", "padded", "swizzled")
    for name, called, library in (("conversions", "conversions", "Gluon"), ("gather", "gathers", "tl.gather")):
        rows = _rows(newest(name))
        for rivals, against in ((baselines, "shared memory"), ((library,), library)):
            found = ratios(rows, "case", rivals, ["ours"])
            yield from (Point(f"{called}: {against}", SINGLE, ratio) for ratio in found.values())


PACKED = ("gptq", "awq", "vllm.marlin", "vllm.marlin_int8", "gptoss.mxfp4", "deepseek.fp8", "hf.scales")
"""Formats of elements of 8 bits and fewer, and of scales; GGUF's and the names with scales are, too."""


def _formats(newest: Newest) -> Iterator[Point]:
    for (name, *_), ratio in ratios(_rows(newest("formats")), "case", ["copy"], ["ours"]).items():
        is_packed = name in PACKED or name.startswith("gguf.") or "scales" in name
        weights = "quantised, and scales" if is_packed else "weights of 16 bits"
        yield Point("caches" if name.startswith("kv.") else weights, SINGLE, ratio)


def _columns(newest: Newest) -> Iterator[Point]:
    rows = _rows(newest("columns"))
    tables = [row for row in rows if row["case"][0] != "best" and row["kernel"] == "ours" and row["block"] == 256]
    named = [{**row, "kernel": "columns" if row["width"] else "rows"} for row in tables]
    for (kind, _), ratio in ratios(named, ("kind", "n"), ["rows"], ["columns"]).items():
        yield Point({"stencil": "columns, 9 x 9 means", "product": "columns, products"}[kind], SINGLE, ratio)
    best = [row for row in rows if row["case"][0] == "best"]
    ours = {row["kernel"] for row in best if row["kernel"].startswith("ours ") and row["kernel"][-1].isdigit()}
    for rivals, called in ((["ours row"], "several outputs: row order"), (["cuDNN", "cuDNN separable"], "cuDNN")):
        found = ratios(best, "case", rivals, ours)
        yield from (Point(f"several outputs: {called.split(': ')[-1]}", SINGLE, ratio) for ratio in found.values())


def _softmax(newest: Newest) -> Iterator[Point]:
    yield from _rendered("triton_softmax", "columns")(newest)
    rows = _rows(newest("cluster_softmax"))
    clusters = {row["kernel"] for row in rows if row["kernel"].startswith("cluster")}
    found = ratios(rows, "case", ["torch"], clusters)
    yield from (Point("rows in clusters: PyTorch", SINGLE, ratio) for ratio in found.values())


AGAINST = {"by hand": ("by hand",), "PyTorch": ("torch", "torch, captured loop", "torch.bmm")}


def _rendered(name: str, *case: str, what: Sequence[str] = ("",)) -> Callable[[Newest], Iterator[Point]]:
    """Rendered Triton against the kernels by hand and the library; `what` begins the names of kernels."""

    def points(newest: Newest) -> Iterator[Point]:
        rows = _rows(newest(name))
        for kind in what:
            ours = [f"{kind}rendered", f"{kind}rendered, copied first"]
            for called, rivals in AGAINST.items():
                found = ratios(rows, case, [kind + rival for rival in rivals], ours)
                yield from (Point(f"{kind}{called}" if kind else called, SINGLE, r) for r in found.values())

    return points


def _triton_products(newest: Newest) -> Iterator[Point]:
    rows = _rows(newest("triton_matmul"))
    for rival, called in (("by hand", "by hand"), ("torch", "PyTorch")):
        found = ratios(rows, ("dtype", "n", "layout"), [rival], ["rendered", "rendered, copied first"])
        for (kind, *_), ratio in found.items():
            yield Point(f"{kind}: {called}", SINGLE, ratio)


def _triton_attention(newest: Newest) -> Iterator[Point]:
    rows = _rows(newest("triton_attention"))
    for rival, called in (("by hand", "by hand"), ("torch", "PyTorch")):
        for (causal, _), ratio in ratios(rows, ("causal", "positions"), [rival], ["rendered"]).items():
            yield Point(f"{'causal' if causal else 'full'}: {called}", SINGLE, ratio)


def _wavefront(newest: Newest) -> Iterator[Point]:
    rows = _rows(newest("nw"))
    named = [{**row, "kernel": "chosen" if row["chosen"] else row["kernel"]} for row in rows]
    for rival in ("by hand", "row-major"):
        for (b, _), ratio in sorted(ratios(named, ("b", "n"), [rival], ["chosen"]).items()):
            yield Point(f"{rival}, b = {b}", SINGLE, ratio)


def _layouts_alone(newest: Newest) -> Iterator[Point]:
    rows = _rows(newest("nw_layouts"))
    for who in ("CUDA", "ours"):
        for (b, _), ratio in sorted(ratios(rows, ("b", "n"), [f"{who}, row-major"], [f"{who}, anti-diagonal"]).items()):
            yield Point(f"{'Rodinia' if who == 'CUDA' else who}, b = {b}", SINGLE, ratio)


def _bricks(newest: Newest) -> Iterator[Point]:
    rows = _rows(newest("bricks"))
    for rival in ("by hand", "by hand, blocks", "row-major"):
        found = ratios(rows, ("stencil", "n"), [rival], ["bricks 4x4x32"])
        yield from (Point(rival, SINGLE, ratio) for ratio in found.values())


def _host(newest: Newest) -> Iterator[Point]:
    pairs = (
        ("call: torch.mul, out=", "torch.mul, out=", "call"),
        ("call with its result: torch.mul", "torch.mul", "call, result allocated"),
        ("operator: torch.mul", "torch.mul", "torch operator"),
        ("lego_mlir.matmul: torch.mm", "torch.mm", "lego_mlir.matmul"),
    )
    rows = [{**row, "kernel": row["name"]} for row in _rows(newest("launch"))]
    for group, theirs, ours in pairs:
        found = ratios(rows, "size", [theirs], [ours], "us")
        yield from (Point(group, HOST, ratio) for ratio in found.values())


def _first_day(newest: Newest) -> Iterator[Point]:
    rows = _rows(newest("first_day"))
    memory = {row["case"] for row in rows if row["memory"]}
    found = ratios(rows, "case", {row["kernel"] for row in rows} - {"lego"}, ["lego"])
    for limited, group in ((True, "limited by memory"), (False, "written for reading")):
        yield from (Point(group, SINGLE, r) for case, r in found.items() if (case in memory) == limited)


def _counters(newest: Newest) -> Iterator[Point]:
    for row in _rows(newest("counters")):
        for quantity, counted in row["predicted"].items():
            if row["measured"][quantity] and counted:
                yield Point(quantity, COUNTED, counted / row["measured"][quantity])


def _structured(newest: Newest) -> Iterator[Point]:
    import structured

    results = newest("structured")
    for row in [] if results is None else structured.ratios(results["points"], "ours"):
        if "rival" in row:
            yield Point(f"{row['case']}, {row['dtype'].replace('float', 'f')}", WARM, row["best"])


def _rows(results: Any) -> Rows:
    return [] if results is None else results["rows"]


HEADLINES: Mapping[str, Headline] = {
    "matmul": Headline("time of cuBLAS or PyTorch / ours", _products),
    "matmul-shapes": Headline("time of cuBLAS or PyTorch / ours", _shapes),
    "matmul-mma": Headline("time of cuBLAS (wgmma) / ours (mma.sync)", _by_mma),
    "scheduled-products": Headline("time of PyTorch / ours", _scheduled),
    "grouped-products": Headline("time of PyTorch / ours", _grouped),
    "product-choices": Headline("time of the best candidate / the choice's", _choices),
    "transpose": Headline("time of a copy of the same bytes / ours", _transposes),
    "attention": Headline("time of a rival / ours", _attention),
    "conversions": Headline("time of a rival / ours", _conversions),
    "formats": Headline("time of a copy of as many bytes / ours", _formats),
    "columns": Headline("time of rows, or of a rival / ours", _columns),
    "triton-matmul": Headline("time of a rival / the rendered kernel's", _triton_products),
    "triton-grouped": Headline(
        "time of a rival / the rendered kernel's",
        _rendered("triton_grouped", "case", what=("grouped ", "batched ")),
    ),
    "triton-softmax": Headline("time of a rival / ours", _softmax),
    "triton-layer-norm": Headline(
        "time of a rival / the rendered kernel's",
        _rendered("triton_layer_norm", "columns", what=("forward ", "backward ")),
    ),
    "triton-attention": Headline("time of a rival / the rendered kernel's", _triton_attention),
    "nw": Headline("time of a kernel / the chosen layout's", _wavefront),
    "nw-layouts": Headline("time of row-major / anti-diagonal, all else equal", _layouts_alone),
    "bricks": Headline("time of a kernel / that of bricks 4 x 4 x 32", _bricks),
    "launch": Headline("host time of PyTorch / ours", _host),
    "first-day": Headline("time of the fastest other / ours", _first_day),
    "counters": Headline("count of the interpreter / of the hardware", _counters),
    "structured": Headline("time of the best rival / ours", _structured, CPUS),
}


def pictured(page: str) -> str:
    """The plot of a page as SVG in docs/images, and the Markdown that shows it: its text has all numbers."""
    import plots

    headline = HEADLINES[page]
    found = measured(headline)
    name = f"headline-{page}"
    folder = Path(mlir_kernels.DOCS) / "images"
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.svg").write_text(plots.ranges(headline.label, found))
    about = "Geometric mean, and least to greatest, of the cases of a row ([protocol](index.md#protocol))."
    return f"![{described(headline, found)}](../images/{name}.svg)\n\n{about}\n"


def described(headline: Headline, found: Mapping[str, Sequence[Summary]]) -> str:
    """What the plot shows, in words."""
    parts = []
    for device, rows in found.items():
        lines = [f"{row.group}, {row.protocol}: {row.text}" for row in rows]
        parts.append(f"{device}: {'; '.join(lines) or 'not measured'}")
    return f"{headline.label}. {'. '.join(parts)}"
