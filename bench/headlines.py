"""The headline of each page of results: the ratios that one plot shows, from the newest run on each device.

A point is one case; points have groups, which are the rows of the plot, a protocol and a device. Above 1 the second of
the two that the label names is faster. Each function here takes `newest`, which gives the newest results of a name on
one device, or None.

>>> rows = [{"case": "a", "kernel": "ours", "ms": 2.0}, {"case": "a", "kernel": "torch", "ms": 3.0}]
>>> ratios(rows, "case", ["torch"], ["ours"])
{'a': 1.5}
"""

import json
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import mlir_kernels
from comparison import hashable, ratios
from product_cases import MODELS, OTHERS, RANDOM, SQUARES
from scheduled_products import COMPOSITIONS
from transpose import COPIES, ODD

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


def summaries(points: Iterable[Point]) -> list[Summary]:
    """The points by group and protocol, in the order in which the groups come."""
    found: dict[tuple[str, str], list[float]] = {}
    for point in points:
        found.setdefault((point.group, point.protocol), []).append(point.ratio)
    return [
        Summary(group, protocol, geometric_mean(values), min(values), max(values), len(values))
        for (group, protocol), values in found.items()
    ]


BY_GROUPS = ("hopper",)
"""Runs whose groups of cases are measured at different times: the newest times of each case."""


def newest_path(device: str, name: str) -> Path | None:
    """Where the newest results of a name on a device are."""
    paths = mlir_kernels.RESULTS.glob(f"{FOLDERS[device]}/????-??-??-{name}.json")
    newest = max(paths, key=lambda path: path.name, default=None)
    return newest_path(device, EARLIER[name]) if newest is None and name in EARLIER else newest


def newest_on(device: str) -> Newest:
    """The newest results of a name on a device."""

    def newest(name: str) -> Any:
        path = newest_path(device, name)
        found = None if path is None else json.loads(path.read_text())
        if path is not None and name in BY_GROUPS:
            for earlier in sorted(path.parent.glob(f"????-??-??-{name}.json"), reverse=True)[1:]:
                known = {_size_of(row) for row in found["rows"]}
                found["rows"] += [row for row in json.loads(earlier.read_text())["rows"] if _size_of(row) not in known]
        return found

    return newest


def _size_of(row: Mapping[str, Any]) -> Hashable:
    return tuple(row["size"]), row["layouts"], row.get("dtype", "f16")


def measured(headline: Headline) -> dict[str, list[Summary]]:
    """The summaries of each device, none where nothing was measured."""
    return {device: summaries(headline.points(newest_on(device))) for device in headline.devices}


# -- where the points come from


def compared(
    name: str,
    case: str | Sequence[str],
    pairs: Mapping[str, tuple[Iterable[str], Iterable[str]]],
    group: Callable[..., str | None] = lambda called, case: called,
    protocol: str = SINGLE,
    field: str = "ms",
    row: Callable[[Mapping[str, Any]], Mapping[str, Any] | None] = lambda row: row,
    ordered: bool = False,
) -> Callable[[Newest], Iterator[Point]]:
    """Points of one benchmark: for each name of `pairs`, the times of its first kernels over those of its second.

    `group` names the row of the plot from the pair's name and the case, None for no row; `row` prepares a row of the
    results, None leaves it out; `ordered` takes the cases in their order.
    """

    def points(newest: Newest) -> Iterator[Point]:
        rows = [made for one in rows_of(newest(name)) if (made := row(one)) is not None]
        for called, (theirs, ours) in pairs.items():
            found = ratios(rows, case, theirs, ours, field).items()
            for key, ratio in sorted(found) if ordered else found:
                if (line := group(called, key)) is not None:
                    yield Point(line, protocol, ratio)

    return points


def together(*parts: Callable[[Newest], Iterable[Point]]) -> Callable[[Newest], Iterator[Point]]:
    return lambda newest: chain.from_iterable(part(newest) for part in parts)


def rows_of(results: Any) -> Rows:
    return [] if results is None else results["rows"]


# -- products


SIZES = (
    ("squares of 512 and 1024", SQUARES[:2], None), ("squares, 2048 to 16384", SQUARES[2:], None),
    ("other sizes", OTHERS, None), ("squares drawn at random", RANDOM, "NT"),
    ("shapes of language models", MODELS, "NT"),
)  # fmt: skip
"""The groups of sizes; of those that nothing was fitted to one layout."""


def _products(newest: Newest) -> Iterator[Point]:
    for field, protocol in (("single_ms", SINGLE), ("ms", SUSTAINED)):
        found = ratios(rows_of(newest("hopper")), ("size", "layouts", "dtype"), ["cuBLAS"], ["chosen"], field)
        for group, sizes, only in SIZES:
            yield from (Point(group, protocol, ratio) for (size, layouts, _), ratio in found.items()
                        if size in sizes and only in (None, layouts))  # fmt: skip
    for (case,), rows in _cases(newest("hopper_types")):
        _, _, kind, _, *epilogue = case.split("-")
        group = {"f8e4m3fn": "fp8", "i8": "int8", "f32": "TF32"}.get(kind)
        group = group or ("epilogues of f16 and bf16" if epilogue else None)
        if group and len(rows) > 1 and "exact" not in case and "positive" not in case:
            yield Point(group, SUSTAINED, _best(rows))


def _cases(results: Any) -> Iterable[tuple[Any, dict[str, Any]]]:
    return mlir_kernels.by_case({"rows": rows_of(results)}).items()


def _best(rows: Mapping[str, Any]) -> float:
    """The least time of another kernel over ours."""
    return min(row["ms"] for name, row in rows.items() if name != "lego") / rows["lego"]["ms"]


def _divided(newest: Newest) -> Iterator[Point]:
    for _, rows in _cases(newest("divided_products")):
        yield Point("few rows and long sums, warpgroups", SUSTAINED, _best(rows))


def _by_mma(newest: Newest) -> Iterator[Point]:
    rows = rows_of(newest("matmul"))
    ours = {row["kernel"] for row in rows if "tile" in row}
    for (_, layouts), ratio in ratios(rows, ("size", "layouts"), ["cuBLAS"], ours).items():
        yield Point(layouts, SINGLE, ratio)


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
    "product_sizes 2026-11-30": ("drawn sizes", SUSTAINED),
    "few_rows": ("few rows and tiles", SUSTAINED),
    "small_products": ("few rows, K in parts", SUSTAINED),
    "small_parts": ("few rows, K in parts", SUSTAINED),
}
"""What the runs of `product_fit` are called here, and how they timed."""


@cache
def _fitted() -> tuple[Point, ...]:
    """The time of the best candidate over that of the shipped choice, for each size of the runs."""
    import product_fit

    found = product_fit.chosen(product_fit.REFERENCE_DEVICE, product_fit.Runs(product_fit.recorded()))
    return tuple(Point(*RUNS[name], 1 / choice.ratio) for (name, *_), (choice, _) in found.items() if name in RUNS)


def _choices(newest: Newest) -> Iterable[Point]:
    results = newest("product_tuning")
    return _fitted() if results is not None and "H200" in results["device"] else ()


# -- other kernels

MOVES = ("unpadded", "padded", "swizzled")
PACKED = ("gptq", "awq", "vllm.marlin", "vllm.marlin_int8", "gptoss.mxfp4", "deepseek.fp8", "hf.scales")
"""Formats of elements of 8 bits and fewer, and of scales; GGUF's and the names with scales are, too."""


def _format(called: str, case: Any) -> str:
    (name, *_) = case
    is_packed = name in PACKED or name.startswith("gguf.") or "scales" in name
    return "caches" if name.startswith("kv.") else "quantised, and scales" if is_packed else "weights of 16 bits"


def _in_columns(row: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """A row of the tables of columns, called by its order."""
    if row["case"][0] == "best" or row["kernel"] != "ours" or row["block"] != 256:
        return None
    return {**row, "kernel": "columns" if row["width"] else "rows"}


def _several_outputs(newest: Newest) -> Iterator[Point]:
    best = [row for row in rows_of(newest("columns")) if row["case"][0] == "best"]
    ours = {row["kernel"] for row in best if row["kernel"].startswith("ours ") and row["kernel"][-1].isdigit()}
    for theirs, called in ((["ours row"], "row order"), (["cuDNN", "cuDNN separable"], "cuDNN")):
        found = ratios(best, "case", theirs, ours)
        yield from (Point(f"several outputs: {called}", SINGLE, ratio) for ratio in found.values())


def _clusters(newest: Newest) -> Iterator[Point]:
    rows = rows_of(newest("cluster_softmax"))
    clusters = {row["kernel"] for row in rows if row["kernel"].startswith("cluster")}
    found = ratios(rows, "case", ["torch"], clusters)
    yield from (Point("rows in clusters: PyTorch", SINGLE, ratio) for ratio in found.values())


def _rendered(name: str, *case: str, what: Sequence[str] = ("",)) -> Callable[[Newest], Iterator[Point]]:
    """Rendered Triton against the kernels by hand and the library; `what` begins the names of kernels."""
    against = {"by hand": ("by hand",), "PyTorch": ("torch", "torch, captured loop", "torch.bmm")}
    return compared(name, case, {
        f"{kind}{called}" if kind else called: (
            [kind + other for other in others], [f"{kind}rendered", f"{kind}rendered, copied first"]
        )
        for kind in what for called, others in against.items()
    })  # fmt: skip


def _first_day(newest: Newest) -> Iterator[Point]:
    rows = rows_of(newest("first_day"))
    memory = {hashable(row["case"]) for row in rows if row["memory"]}
    found = ratios(rows, "case", {row["kernel"] for row in rows} - {"lego"}, ["lego"])
    for limited, group in ((True, "limited by memory"), (False, "written for reading")):
        yield from (Point(group, SINGLE, r) for case, r in found.items() if (case in memory) == limited)


def _counters(newest: Newest) -> Iterator[Point]:
    for row in rows_of(newest("counters")):
        for quantity, counted in row["predicted"].items():
            if row["measured"][quantity] and counted:
                yield Point(quantity, COUNTED, counted / row["measured"][quantity])


def _structured(newest: Newest) -> Iterator[Point]:
    import structured

    results = newest("structured")
    for row in [] if results is None else structured.ratios(results["points"], "ours"):
        if "baseline" in row:
            yield Point(f"{row['case']}, {row['dtype'].replace('float', 'f')}", WARM, row["best"])


def _chosen(row: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**row, "kernel": "chosen"} if row["chosen"] else row


RENDERED = ["rendered", "rendered, copied first"]
LIBRARIES = {"by hand": (["by hand"], RENDERED), "PyTorch": (["torch"], RENDERED)}
HOST_TIMES = {
    "call: torch.mul, out=": (["torch.mul, out="], ["call"]),
    "call with its result: torch.mul": (["torch.mul"], ["call, result allocated"]),
    "operator: torch.mul": (["torch.mul"], ["torch operator"]),
    "lego_mlir.matmul: torch.mm": (["torch.mm"], ["lego_mlir.matmul"]),
}
GROUPED = {"batched": "batched: torch.bmm", "grouped": "grouped: _grouped_mm", "depth": "along K: _grouped_mm"}
HEADLINES: Mapping[str, Headline] = {
    "matmul": Headline("time of cuBLAS or PyTorch / ours", _products),
    "matmul-shapes": Headline("time of cuBLAS or PyTorch / ours", together(
        compared("odd_products", ("size", "layouts", "dtype"), {"odd sizes": (["cuBLAS"], ["copies"])},
                 lambda called, case: "odd sizes, few rows" if case[0][0] <= 64 else called, SUSTAINED),
        _divided,
        compared("small_products", ("size", "layouts"), {"few rows, mma.sync": (["cuBLAS"], ["chosen"])},
                 protocol=SUSTAINED),
    )),
    "matmul-mma": Headline("time of cuBLAS (wgmma) / ours (mma.sync)", _by_mma),
    "scheduled-products": Headline("time of PyTorch / ours", compared(
        "scheduled_products", ("name", "n"), {"": (["PyTorch"], COMPOSITIONS)},
        lambda called, case: case[0].replace("_", " "))),
    "decoder": Headline("time of torch.compile / ours", compared(
        "decoder", ("weights", "batch"), {"": (["torch.compile"], ["lego"])},
        lambda called, case: f"{case[0]} weights")),
    "grouped-products": Headline("time of PyTorch / ours", compared(
        "grouped_products", "case", {"": (["torch bmm", "torch grouped"], ["lego"])},
        lambda called, case: GROUPED[case[0]])),
    "product-choices": Headline("time of the best candidate / the choice's", _choices),
    "transpose": Headline("time of a copy of the same bytes / ours", together(*(
        compared(name, ("dtype", "size"), {"": (COPIES, ["ours vectorised"])},
                 lambda _, case: f"{case[0]}, 4097 and 8191" if case[1] in ODD else case[0], ordered=True)
        for name in ("transpose", "transpose_odd")))),
    "attention": Headline("time of a baseline / ours", together(
        compared("fused_attention", "case", {"cuDNN": (["torch cudnn"], ["lego"])},
                 lambda called, case: f"{case[0]}, heads of {case[1]}: {called}"),
        compared("attention_spread", "case", {"Triton": (["Triton sm_80"], ["lego"]),
                                              "flash": (["torch flash"], ["lego"])},
                 lambda called, case: f"on mma.sync: {called}"))),
    "conversions": Headline("time of a baseline / ours", together(*(
        compared(name, "case", {
            f"{called}: shared memory": (MOVES, ["ours"]), f"{called}: {other}": ([other], ["ours"])})
        for name, called, other in (("conversions", "conversions", "Gluon"), ("gather", "gathers", "tl.gather"))))),
    "formats": Headline("time of a copy of as many bytes / ours", compared(
        "formats", "case", {"": (["copy"], ["ours"])}, _format)),
    "columns": Headline("time of rows, or of a baseline / ours", together(
        compared("columns", ("kind", "n"), {"": (["rows"], ["columns"])}, lambda called, case: {
            "stencil": "columns, 9 x 9 means", "product": "columns, products"}[case[0]], row=_in_columns),
        _several_outputs)),
    "triton-matmul": Headline("time of a baseline / the rendered kernel's", compared(
        "triton_matmul", ("dtype", "n", "layout"), LIBRARIES, lambda called, case: f"{case[0]}: {called}")),
    "triton-grouped": Headline("time of a baseline / the rendered kernel's",
                               _rendered("triton_grouped", "case", what=("grouped ", "batched "))),
    "triton-softmax": Headline("time of a baseline / ours",
                               together(_rendered("triton_softmax", "columns"), _clusters)),
    "triton-layer-norm": Headline("time of a baseline / the rendered kernel's",
                                  _rendered("triton_layer_norm", "columns", what=("forward ", "backward "))),
    "triton-attention": Headline("time of a baseline / the rendered kernel's", compared(
        "triton_attention", ("causal", "positions"), LIBRARIES,
        lambda called, case: f"{'causal' if case[0] else 'full'}: {called}")),
    "nw": Headline("time of a kernel / the chosen layout's", compared(
        "nw", ("b", "n"), {other: ([other], ["chosen"]) for other in ("by hand", "row-major")},
        lambda called, case: f"{called}, b = {case[0]}", row=_chosen, ordered=True)),
    "nw-layouts": Headline("time of row-major / anti-diagonal, all else equal", compared(
        "nw_layouts", ("b", "n"),
        {called: ([f"{who}, row-major"], [f"{who}, anti-diagonal"])
         for who, called in (("CUDA", "Rodinia"), ("ours", "ours"))},
        lambda called, case: f"{called}, b = {case[0]}", ordered=True)),
    "bricks": Headline("time of a kernel / that of bricks 4 x 4 x 32", compared(
        "bricks", ("stencil", "n"),
        {other: ([other], ["bricks 4x4x32"]) for other in ("by hand", "by hand, blocks", "row-major")})),
    "launch": Headline("host time of PyTorch / ours", compared(
        "launch", "size", HOST_TIMES, protocol=HOST, field="us", row=lambda row: {**row, "kernel": row["name"]})),
    "first-day": Headline("time of the fastest other / ours", _first_day),
    "counters": Headline("count of the interpreter / of the hardware", _counters),
    "structured": Headline("time of the best baseline / ours", _structured, CPUS),
}  # fmt: skip


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
