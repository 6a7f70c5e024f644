"""The tables of the suites of `products.py`, from the newest results of each: time of others relative to ours."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, product
from statistics import geometric_mean
from typing import Any

import comparison
import mlir_kernels
from product_cases import MODELS, ODD, OTHERS, RANDOM, SMALL, SQUARES, SYNC_SIZES, WEIGHTS, Size
from product_runs import PLAIN_TARGET, TARGET, UNFUSED

PAGE, SHAPES = "results/matmul.md", "results/matmul-shapes.md"
PLAIN_DASHES = 3  # in the name of a product without an epilogue
Row = dict[str, Any]


def sized(size: Iterable[int]) -> str:
    return " x ".join(map(str, size))


def share(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def mean(values: Sequence[float]) -> str:
    return f"{geometric_mean(values):.3f}" if values else ""


def ratios(rows: Iterable[Row], theirs: str = "cuBLAS", ours: str = "chosen", field: str = "ms") -> dict[Any, float]:
    """The time of one kernel relative to that of another, by size, layouts and type."""
    typed = [{"dtype": "f16", **row} for row in rows]
    found: dict[Any, float] = comparison.ratios(typed, ("size", "layouts", "dtype"), [theirs], [ours], field)
    return found


# -- squares, other sizes, and those that nothing was fitted to


def hopper() -> None:
    cells = [
        [row["kernel"], str(row["registers"]), str(row["spill_bytes"]), f"{row['shared_bytes'] / 1024:.0f}",
         f"{row['loop_instructions']} / {row['loop']['HGMMA']}"]
        for row in mlir_kernels.static_results("hopper", TARGET)
    ]  # fmt: skip
    heads = "tile, layouts, type|registers|spills|shared KiB|main loop: all / HGMMA"
    mlir_kernels.put_into(PAGE, "warpgroups-static", mlir_kernels.table(heads, cells))
    parts = [by_layouts(group, called) for group, called in ((SQUARES, "squares"), (OTHERS, "other sizes"))]
    mlir_kernels.put_into(PAGE, "warpgroups", *chain.from_iterable(parts))
    mlir_kernels.put_into(PAGE, "warpgroups-fresh", of_fresh_sizes())


def newest_of(group: Sequence[Size]) -> tuple[str, list[Row]]:
    """The circumstances and the rows of the newest run that has most sizes of a group."""
    for path in reversed(mlir_kernels.all_paths("hopper")):
        results = json.loads(path.read_text())
        rows = [row for row in results["rows"] if tuple(row["size"]) in group]
        if 2 * len({tuple(row["size"]) for row in rows}) > len(group):
            return f"{results['device']}, {path.name[:10]}, PyTorch {results['torch']}.\n\n", rows
    raise SystemExit(f"no results of hopper for {group[0]}")


def by_layouts(group: Sequence[Size], called: str) -> tuple[str, mlir_kernels.Table]:
    """A group of sizes by layouts and types, back to back, and their means, as single launches too."""
    circumstances, rows = newest_of(group)
    steady, single = ratios(rows), ratios(rows, field="single_ms")
    ways = [("NT", "f16"), ("NN", "f16"), ("TN", "f16"), ("TT", "f16"), ("NT", "bf16"), ("NN", "bf16")]
    ways = [way for way in ways if any((size, *way) in steady for size in group)]
    cells = [[sized(size), *(share(steady.get((size, *way))) for way in ways)] for size in group]
    for of, kind in ((steady, ""), (single, ", single launches")):
        means = [mean([of[size, *way] for size in group if (size, *way) in of]) for way in ways]
        cells.append([f"geometric mean, {called}{kind}", *means])
    return circumstances, mlir_kernels.table("M x N x K|" + "|".join(" ".join(way) for way in ways), cells)


def of_fresh_sizes() -> mlir_kernels.Table:
    """Sizes drawn at random, and those of models: means, the worst and the best."""
    cells = []
    for group, called in ((RANDOM, "squares drawn at random"), (MODELS, "shapes of language models")):
        _, rows = newest_of(group)
        for field, kind in (("ms", "sustained"), ("single_ms", "single launches")):
            for baseline in ("cuBLAS", "cuBLAS, exact reductions"):
                of = ratios(rows, baseline, field=field)
                found = [ratio for (size, layouts, _), ratio in of.items() if size in group and layouts == "NT"]
                if found:
                    facts = [str(len(found)), mean(found), share(min(found)), share(max(found))]
                    cells.append([called, kind, baseline, *facts])
    return mlir_kernels.table("sizes|launches|against|number|geometric mean|worst|best", cells)


# -- the other suites


def hopper_types() -> None:
    cells = []
    for (case,), rows in mlir_kernels.by_case(mlir_kernels.newest("hopper_types")).items():
        ours, plain = rows.pop("lego"), case.count("-") == PLAIN_DASHES
        others = {name: row for name, row in rows.items() if plain or name != UNFUSED}
        times = ", ".join(f"{name} {row['ms'] / ours['ms']:.3f}" for name, row in others.items())
        errors = ", ".join(f"{row['error']:.2g}" for row in others.values())
        cells.append([case.replace("-", " "), f"{ours['ms']:.4f}", times, f"{ours['error']:.2g}", errors])
    made = mlir_kernels.table("M x N x K, layouts, types, epilogue|ms|time of PyTorch, relative|error|theirs", cells)
    mlir_kernels.put_results(PAGE, "warpgroups-types", "hopper_types", made, "torch")


def divided_products() -> None:
    cells, found = [], []
    for (case,), rows in mlir_kernels.by_case(mlir_kernels.newest("divided_products")).items():
        ours = rows.pop("lego")
        best = min(rows.values(), key=lambda row: float(row["ms"]))
        found.append(best["ms"] / ours["ms"])
        us = [f"{1e3 * best['ms']:.2f}", best["kernel"], f"{1e3 * ours['ms']:.2f}"]
        cells.append([case.replace("-", " "), *us, share(found[-1]), ours["tile"]])
    cells.append(["geometric mean", "", "", "", mean(found), ""])
    heads = "M x N x K, layouts, types, epilogue|PyTorch us|its call|ours us|relative|division"
    mlir_kernels.put_results(SHAPES, "divided", "divided_products", mlir_kernels.table(heads, cells), "torch")


def small_products() -> None:
    """Microseconds of cuBLAS, and its time relative to ours; the number of parts in brackets."""
    rows, cells, found = mlir_kernels.newest("small_products")["rows"], [], []
    for one in SMALL:
        here = {r["kernel"]: r for r in rows if (tuple(r["size"]), r["layouts"]) == (one.size, one.layouts)}
        if here:
            library = here.pop("cuBLAS")["ms"]
            shown = {name: f"{library / r['ms']:.3f} ({r['parts']})" for name, r in here.items()}
            found.append(library / here["chosen"]["ms"])
            first = [sized(one.size), one.layouts, f"{1000 * library:.1f}", shown.pop("chosen")]
            cells.append([*first, ", ".join(shown.values())])
    cells.append(["geometric mean", "", "", mean(found), ""])
    made = mlir_kernels.table("M x N x K|layouts|cuBLAS us|chosen (parts)|others", cells)
    mlir_kernels.put_results(SHAPES, "small", "small_products", made, "torch")


def relative(name: str, ways: Sequence[str], cases: Iterable[Any]) -> list[list[str]]:
    """A line for each case with the time of cuBLAS relative to each of our ways, and their geometric means."""
    rows = mlir_kernels.newest(name)["rows"]
    of = {way: ratios(rows, ours=way) for way in ways}
    cells = [[*shown, *(share(of[way].get(case)) for way in ways)] for case, shown in cases]
    return [*cells, ["geometric mean", "", *(mean(list(found.values())) for found in of.values())]]


def odd_products() -> None:
    ways = ["copies", "lines", "as it is", "mma.sync copies", "direct"]
    cases = [((p.size, p.layouts, p.dtype), (sized(p.size), f"{p.layouts} {p.dtype}")) for p in ODD]
    made = mlir_kernels.table("M x N x K|layouts|" + "|".join(ways), relative("odd_products", ways, cases))
    mlir_kernels.put_results(SHAPES, "odd", "odd_products", made, "torch")


def class_products() -> None:
    rows = mlir_kernels.newest("class_products")["rows"]
    cases = dict.fromkeys((tuple(row["size"]), row["layouts"], "f16") for row in rows)
    shown = [(case, (sized(case[0]), case[1])) for case in cases]
    made = mlir_kernels.table(
        "M x N x K|layouts|its own kernel|the kernel of its class",
        relative("class_products", ("fixed", "class"), shown),
    )
    mlir_kernels.put_results(PAGE, "classes", "class_products", made, "torch")


def product_choices() -> None:
    """Printed: each case with the choice of the model and the quickest, relative to cuBLAS."""
    by_case: dict[Any, dict[str, Row]] = {}
    for row in mlir_kernels.newest("product_choices")["rows"]:
        by_case.setdefault((tuple(row["size"]), row["layouts"]), {})[row["kernel"]] = row
    cells, lost = [], []
    for (size, layouts), rows in by_case.items():
        base = rows.pop("cuBLAS")["ms"]
        best, model = min(rows.values(), key=lambda row: float(row["ms"])), rows.get("model")
        lost += [model["ms"] / best["ms"]] if model else []
        today = f"{base / model['ms']:.3f} {model['tile']}" if model else ""
        cells.append([sized(size), layouts, today, share(base / best["ms"]), best["tile"]])
    print(mlir_kernels.table("size|layouts|choice|quickest|its tile", cells))
    print(f"the choice takes {mean(lost)} times as long as the quickest")


def product_rows() -> None:
    """Rows up to 300 by weights, and drawn sizes: by the kernel of a class, and by that of exactly these sizes."""
    cells: list[list[str]] = []
    groups: dict[tuple[str, str], list[list[float | None]]] = {}
    for (case,), rows in mlir_kernels.by_case(mlir_kernels.newest("product_rows")).items():
        theirs, ours = rows["cuBLAS"], [rows.get(way) for way in ("class", "exact")]
        found = [theirs[field] / row[field] if row else None for field in ("ms", "single_ms") for row in ours]
        (m, n, k), steady = theirs["size"], [f"{1e3 * row['ms']:.1f}" if row else "" for row in (theirs, *ours)]
        tile = ours[0]["tile"] if ours[0] else ""
        cells.append([case.rsplit("-", 1)[0].replace("-", " "), *steady, *map(share, found), tile])
        where = f"N = {n}, K = {k}" if (n, k) in WEIGHTS else "drawn"
        rows_of = "up to 64" if m <= 64 else "65 to 128" if m <= 128 else "129 to 300" if m <= 300 else "more"
        groups.setdefault((where, rows_of), []).append(found)
    means = []
    for group, of in groups.items():
        columns = [[ratio for ratio in column if ratio] for column in zip(*of, strict=True)]
        means.append([*group, str(len(of)), *(f"{mean(column)} ({share(min(column))})" for column in columns)])
    heads = "|".join(
        f"{kernel}, {launches}" for launches in ("back to back", "single") for kernel in ("class", "exact")
    )
    made = [
        mlir_kernels.table(f"weights|rows|cases|{heads}", means),
        mlir_kernels.table(f"M x N x K, layouts, type|cuBLAS us|class us|exact us|{heads}|tile of the class", cells),
    ]
    mlir_kernels.put_results(SHAPES, "rows", "product_rows", made[0], "torch")
    mlir_kernels.put_into(SHAPES, "every row", made[1])


# -- by mma.sync


def of_case(rows: Iterable[Row], size: Size, layouts: str) -> list[Row]:
    return [row for row in rows if tuple(row["size"]) == size and row["layouts"] == layouts]


def matmul() -> None:
    page, cells = "results/matmul-mma.md", []
    for r in mlir_kernels.static_results("matmul", PLAIN_TARGET):
        shape = f"{'x'.join(map(str, r['tile']))}, {'x'.join(map(str, r['warps']))}, {r['stages']}"
        loop = [r["loop_instructions"], *(r["loop"][name] for name in ("HMMA", "LDSM", "LDGSTS"))]
        cells.append([
            shape, r["layouts"], f"{r['dtype']} to {r['result']}", str(r["registers"]), str(r["spill_bytes"]),
            f"{r['shared_bytes'] / 1024:.0f}", str(r["blocks_per_sm"]), " / ".join(map(str, loop)),
        ])  # fmt: skip
    columns = "tile, warps, stages|layouts|types|registers|spills|shared KiB|blocks an SM"
    made = mlir_kernels.table(f"{columns}|main loop: all / HMMA / LDSM / LDGSTS", cells)
    mlir_kernels.put_into(page, "static", made)
    results = mlir_kernels.latest("matmul")
    rows, cells = [] if results is None else results["rows"], []
    for size, layouts in product(SYNC_SIZES, ("NN", "NT", "TN", "TT")):
        here = of_case(rows, size, layouts)
        ours = min((row for row in here if "tile" in row), key=lambda row: row["ms"], default=None)
        named = {row["kernel"]: row for row in here}
        times = [mlir_kernels.time_cell(row) for row in (named.get("cuBLAS"), ours, named.get("Triton"))]
        last = [share(named["cuBLAS"]["ms"] / ours["ms"]), ours["kernel"].split("-", 2)[2]] if ours else ["", ""]
        cells.append([sized(size), layouts, *times, *last])
    made = mlir_kernels.table("M x N x K|layouts|cuBLAS ms|ours ms|Triton ms|of cuBLAS|our kernel", cells)
    unmeasured = "Not measured yet: the cells are empty"
    about = unmeasured if results is None else mlir_kernels.circumstances("matmul", results, "torch")
    mlir_kernels.put_into(page, "measured", f"{about}.\n\n", made)
    here = of_case(rows, (4096, 4096, 4096), "NN")
    library = [row["ms"] for row in here if row["kernel"] == "cuBLAS"]
    ours = sorted((row for row in here if "tile" in row), key=lambda row: row["ms"])
    cells = [[r["kernel"].split("-", 2)[2], mlir_kernels.time_cell(r), share(library[0] / r["ms"])] for r in ours]
    mlir_kernels.put_into(page, "study", mlir_kernels.table("our kernel|ms|of cuBLAS", cells))


TABLES: Mapping[str, Callable[[], None]] = {
    "matmul": matmul, "hopper": hopper, "hopper_types": hopper_types, "divided_products": divided_products,
    "small_products": small_products, "odd_products": odd_products, "class_products": class_products,
    "product_choices": product_choices, "product_rows": product_rows,
}  # fmt: skip
