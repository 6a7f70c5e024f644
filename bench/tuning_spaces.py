"""Whole search spaces on a GPU, slow candidates included: what the pruning and the cost model are tested against.

    python bench/tuning_spaces.py STEP [WORD ..]    the steps of `runner.py`
    python bench/tuning_spaces.py count [WORD ..]   the counts of each candidate's launch into results/static, no GPU

The sizes are those that nothing was fitted to: odd ones, skinny ones, and between powers of two. Kinds: transpose
(variant, tile, threads, width, order), matmul (the candidates of the shipped table), softmax (rows and warps of a
Triton template). The spaces of stencils are those that bench/tuned_templates.py records.
"""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from typing import Any

import harness
import mlir_kernels
import recorded_tiles
import runner
import tuned_templates

NAME, TARGET, SCRIPT = "tuning_spaces", "sm_90", "matmul_sm80.mlir"
SMS, SHARED_PER_BLOCK, F16_BYTES = 132, 227 * 1024, 2
MATRICES = ((1000, 3000), (2056, 6152), (4096, 4096), (8192, 7168))
PRODUCTS = (
    (96, 96, 4096), (160, 4096, 1024), (640, 640, 640), (768, 768, 768), (1280, 1280, 1280), (1536, 1536, 1536),
    (1792, 768, 2304), (2560, 2560, 2560), (3072, 3072, 3072), (2304, 1152, 4608), (64, 8192, 4096),
    (16, 11008, 4096), (128, 11008, 4096), (4096, 4096, 512), (1000, 1000, 1000), (1336, 2008, 712),
    (5120, 5120, 5120), (6144, 1024, 6144), (520, 4104, 2056), (3584, 3584, 3584),
)  # fmt: skip
ROWS, WIDTHS = 4096, (384, 1000, 1536, 3000, 6144, 12288)
AT_A_TIME, WARPS, LARGEST_BLOCK = (1, 2, 4, 8), (1, 2, 4, 8, 16, 32), 16384
COUNTS, COUNTED_BLOCKS = harness.BENCH / "results" / "static" / "tuning_spaces.json", 3
TOLERANCE = {"transpose": 0.0, "matmul": 0.01, "softmax": 1e-4}


# -- the spaces


def transposes() -> list[dict[str, Any]]:
    """Five variants, and tiles, threads, widths and orders of the vectorised one."""
    plain = [
        {"variant": variant, "tile": (32, 32), "threads": threads, "width": 1, "order": order}
        for variant, threads, order in product(("naive", "shared", "padded", "swizzled"), (128, 256), ("row", "column"))
    ]
    wide = [
        {"variant": "vectorised", "tile": tile, "threads": threads, "width": width, "order": order}
        for tile, threads, width, order in product(
            ((32, 32), (64, 32), (64, 64), (128, 64), (128, 128)), (64, 128, 256), (2, 4), ("row", "column")
        )
        if tile[0] * tile[1] // width**2 % threads == 0
    ]
    return plain + wide


def cases_of(kind: str) -> list[tuple[int, ...]]:
    return {"transpose": MATRICES, "matmul": PRODUCTS, "softmax": tuple((w,) for w in WIDTHS)}[kind]


def space(kind: str, case: tuple[int, ...]) -> list[dict[str, Any]]:
    """The candidates of a case."""
    if kind == "transpose":
        return transposes()
    if kind == "softmax":
        return [{"rows": r, "warps": w} for r, w in product(AT_A_TIME, WARPS) if case[0] * r <= LARGEST_BLOCK]
    from lego_mlir.choices.warp_tiles import all_fitting

    fitted = all_fitting(case[2], SHARED_PER_BLOCK, F16_BYTES)
    return [recorded_tiles.as_row(choice) for choice in fitted]


def label(kind: str, case: tuple[int, ...], candidate: dict[str, Any]) -> str:
    values = ["x".join(map(str, v)) if isinstance(v, (list, tuple)) else str(v) for v in candidate.values()]
    return "-".join([kind, "x".join(map(str, case)), *values])


# -- render


def kernel_of(kind: str, case: tuple[int, ...], candidate: dict[str, Any]) -> Any:
    """The traced kernel of a transpose or a product."""
    from lego_mlir import f16, f32
    from lego_mlir.kernels import matmul, transpose

    if kind == "transpose":
        tile, threads, order = tuple(candidate["tile"]), candidate["threads"], candidate["order"]
        width = candidate["width"] if candidate["variant"] == "vectorised" else None
        return transpose.build(candidate["variant"], *case, f32, tile=tile, threads=threads, width=width, order=order)
    choice = recorded_tiles.of_row(candidate)
    return matmul.build(*case, f16, result=f16, tiling=choice, order=choice.order, blocks=choice.blocks(SMS))


def render(folder: Path, cases: Sequence[harness.Case]) -> None:
    """Each kind has an index of its candidates; those that cannot be compiled are left out with the reason."""
    index: dict[str, list[dict[str, Any]]] = {}
    for kind, size in cases:
        index.setdefault(kind, []).extend(rendered(folder, kind, size))
        (folder / f"index-{kind}.json").write_text(json.dumps(index[kind], indent=1))


def rendered(folder: Path, kind: str, case: tuple[int, ...]) -> Iterator[dict[str, Any]]:
    """The candidates of a case, in the folder."""
    from lego_mlir.errors import LegoError
    from lego_mlir.templates.library.rows import softmax

    for candidate in space(kind, case):
        name = label(kind, case, candidate)
        try:
            if kind == "softmax":
                harness.keep(folder, name, softmax(ROWS, *case, at_a_time=candidate["rows"]).render())
            elif not (folder / f"{name}.json").is_file():
                stages = {"transform": SCRIPT, "parameters": {"stages": candidate.get("stages")}}
                made = mlir_kernels.compiled(
                    kernel_of(kind, case, candidate), TARGET, **stages if kind == "matmul" else {}
                )
                mlir_kernels.keep_code(folder, name, made)
        except LegoError as error:
            print(f"{name}: {error}", file=sys.stderr)
            continue
        yield {"kind": kind, "sizes": case, "name": name, "configuration": candidate}


# -- count


def counted(kind: str, case: tuple[int, ...], candidate: dict[str, Any]) -> Any:
    """The counts of a candidate, as pruning takes them: of a product after its transform script."""
    from lego_mlir.tuning.launch_counts import counts_of

    counts = counts_of(kernel_of(kind, case, candidate), {}, COUNTED_BLOCKS)
    if kind == "transpose":
        return counts
    choice = recorded_tiles.of_row(candidate)
    shared = choice.shared_bytes(F16_BYTES)
    return replace(counts, shared_bytes=shared, rounds=counts.rounds / max(choice.stages - 1, 1))


def count(words: Sequence[str]) -> None:
    """The counts of transposes and products, of the kernels that `render` compiled: both steps go together.

    Those of softmax are arithmetic (`tuning.template_counts`).
    """
    chosen = [(kind, case) for kind, case in BENCHMARK.chosen(words) if kind != "softmax"]
    kinds = {kind for kind, _ in chosen}
    rows = [row for row in json.loads(COUNTS.read_text()) if row["kind"] not in kinds] if COUNTS.is_file() else []
    for kind, case in chosen:
        for candidate in space(kind, case):
            found = {k: v for k, v in asdict(counted(kind, case, candidate)).items() if k not in ("notes", "product")}
            rows.append({"kind": kind, "sizes": case, "config": candidate, "counts": found})
        COUNTS.write_text("[\n " + ",\n ".join(json.dumps(row) for row in rows) + "\n]\n")
        print(f"{kind} {case}: {len(rows)} rows", flush=True)


# -- time


def timed(folder: Path, kind: str, case: tuple[int, ...]) -> list[harness.Contender]:
    """Every candidate of a case, after a launch that must be right; one that fails is left out with the reason."""
    index = json.loads(harness.rendered(folder / f"index-{kind}.json").read_text())
    found = []
    launch, result, expected = {"transpose": _transpose, "matmul": _matmul, "softmax": _softmax}[kind](folder, case)
    for entry in index:
        if tuple(entry["sizes"]) != case:
            continue
        try:
            run = launch(entry)
            result.zero_()
            run()
            error = harness.require_close(result, expected, TOLERANCE[kind], entry["name"])
        except Exception as error:  # whatever the driver or Triton refuses, and wrong results
            print(f"  left out {entry['name']}: {str(error).splitlines()[0][:100]}", file=sys.stderr)
            continue
        found.append(harness.contender(run, kernel=kind, sizes=case, config=entry["configuration"], error=error))
    return found


def _prepared(folder: Path, *tensors: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda entry: mlir_kernels.kept_kernel(folder / f"{entry['name']}.cubin").prepare(*tensors)


def _transpose(folder: Path, case: tuple[int, ...]) -> Any:
    import torch

    x, y = torch.randn(case, device="cuda"), torch.empty(case[::-1], device="cuda")
    return _prepared(folder, x, y), y, x.t()


def _matmul(folder: Path, case: tuple[int, ...]) -> Any:
    import torch

    m, n, k = case
    a, b = (torch.randn(dims, device="cuda", dtype=torch.float16) for dims in ((m, k), (k, n)))
    c = torch.empty((m, n), device="cuda", dtype=torch.float16)
    return _prepared(folder, a, b, c), c, a @ b


def _softmax(folder: Path, case: tuple[int, ...]) -> Any:
    import torch

    x = torch.randn(ROWS, *case, device="cuda")
    y = torch.empty_like(x)

    def launch(entry: dict[str, Any]) -> Any:
        rows, warps = entry["configuration"]["rows"], entry["configuration"]["warps"]
        kernel = harness.load(folder, entry["name"], "softmax")[(-(-ROWS // rows),)]
        return lambda: kernel(x, y, num_warps=warps)

    return launch, y, torch.softmax(x, dim=1)


# -- what pruning makes of the spaces


def recorded() -> Iterator[tuple[str, tuple[int, ...], list[tuple[dict[str, Any], float, Any]]]]:
    """Each recorded space: its kind, its sizes, and for each candidate its values, microseconds and counts."""
    from lego_mlir.choices.product_counts import ProductSize
    from lego_mlir.tuning import template_counts
    from lego_mlir.tuning.launch_counts import LaunchCounts, TimedProduct

    known = {
        label(r["kind"], r["sizes"], r["config"]): LaunchCounts(**r["counts"]) for r in json.loads(COUNTS.read_text())
    }
    spaces: dict[tuple[str, tuple[int, ...]], list[tuple[dict[str, Any], float, Any]]] = {}
    for row in mlir_kernels.latest("tuning_spaces")["rows"]:
        kind, sizes, config = row["kernel"], tuple(row["sizes"]), row["config"]
        if kind != "softmax" and label(kind, sizes, config) not in known:
            continue  # not counted
        counts = (
            template_counts.softmax(ROWS, *sizes, rows=config["rows"], warps=config["warps"])
            if kind == "softmax"
            else known[label(kind, sizes, config)]
        )
        if kind == "matmul":
            choice = recorded_tiles.of_row(config)
            product = TimedProduct(ProductSize(*sizes), choice, choice.shared_bytes(F16_BYTES))
            counts = replace(counts, product=product)
        spaces.setdefault((kind, sizes), []).append((config, 1e3 * row["ms"], counts))
    for row in json.loads((mlir_kernels.RESULTS / "NVIDIA-H200" / "2026-11-20-nw.json").read_text())["rows"]:
        if row["wavefronts"]:
            counts = template_counts.needleman_wunsch(row["n"], b=row["b"], wavefronts=row["wavefronts"])
            config = {"buffer": row["kernel"], "b": row["b"]}
            spaces.setdefault(("Needleman-Wunsch", (row["n"],)), []).append((config, 1e3 * row["ms"], counts))
    for kind, sizes, config, us in stencils():
        counts = tuned_templates.stencil_counts(config, *sizes)
        spaces.setdefault((kind, sizes), []).append((config, us, counts))
    yield from ((*key, rows) for key, rows in spaces.items())


def stencils() -> Iterator[tuple[str, tuple[int, ...], dict[str, Any], float]]:
    """The whole spaces of stencils that bench/tuned_templates.py recorded; none before its first full run."""
    results = mlir_kernels.latest(tuned_templates.NAME)
    for row in results["rows"] if results is not None and not results["few"] else ():
        if row["tunable"] in tuned_templates.WHOLE:
            for key, us in row["us"].items():
                yield "stencil", tuple(row["sizes"].values()), row["configurations"][key], us


def pruned(rows: list[tuple[dict[str, Any], float, Any]]) -> tuple[int, float, float]:
    """How many candidates pruning keeps, the best of these over the best, and the model's first over the best."""
    from lego_mlir.tuning.candidates import Candidate, Configuration
    from lego_mlir.tuning.model import DEVICES
    from lego_mlir.tuning.pruning import prune

    found = {Configuration.of(config): (time, counts) for config, time, counts in rows}
    candidates = [Candidate(configuration, lambda: None) for configuration in found]
    for candidate in candidates:
        candidate.__dict__["digest"] = candidate.configuration.key  # each was compiled to code of its own
    left = prune(candidates, {}, DEVICES["h200"], counting=lambda configuration, sizes: found[configuration][1])
    times = [found[candidate.configuration][0] for candidate in left.kept]
    best = min(time for time, _ in found.values())
    return len(times), min(times) / best, times[0] / best


def table() -> None:
    """One line a space in docs/how-to/tuning.md."""
    cells = []
    for kind, sizes, rows in recorded():
        kept, least, first = pruned(rows)
        cells.append([kind, " x ".join(map(str, sizes)), str(len(rows)), str(kept), f"{least:.3f}", f"{first:.3f}"])
    columns = "space|sizes|candidates|kept|best kept / best|the model's first / best"
    mlir_kernels.put_into("how-to/tuning.md", "recorded", "\n", mlir_kernels.table(columns, cells), "")


BENCHMARK = runner.Benchmark(
    NAME, [(kind, case) for kind in TOLERANCE for case in cases_of(kind)], timed, table, render,
    steps={"count": count}, together=True,
)  # fmt: skip

if __name__ == "__main__":
    sys.exit(runner.main(BENCHMARK))
