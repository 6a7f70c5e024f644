"""Orders of threads: box means and plain products in columns, against CUDA by hand, PyTorch and cuDNN.

    python bench/columns.py STEP [WORD ..]     the steps of `runner.py`
    python bench/columns.py count              on the GPU machine, with ncu: sectors and hits of L1 and L2, by kernel
    python bench/columns.py placement          there: the SM and the clock of each block of the naive stencil
    python bench/columns.py predict            the model's times and sectors for the tables, minutes, no GPU
    python bench/columns.py random             the table of docs/reference/schedule-caches.md: the model's choices

The thesis's tables 5.1 and 5.2 (9 x 9 means of 4096^2 and 4037^2, products of 1024^2; 16 widths and naive, 6 sizes of
a block), figures 5.3 and 5.4 (gain over naive by size), and the best versions of each kernel. WORD chooses: `tables`,
`figures`, `best`, or `random`: shapes that are drawn, on which the model is judged. Ours has the sizes and the width as
constants and the block as an argument. Of the baselines in rivals/columns.cu, `listing 5` has all as arguments, as in
the thesis; `constants` is the same with macros.
"""

import json
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import harness
import mlir_kernels
import ncu
import runner

NAME, PAGE, TARGET = "columns", "results/columns.md", "sm_90"
RIVALS = Path(__file__).parent / "rivals" / "columns.cu"
WIDTHS = (0, 4, 8, 16, 30, 31, 32, 33, 34, 48, 64, 96, 128, 256, 512, 1024, 2048)
"""Column widths of the thesis; 0 is row by row."""
BLOCKS = (32, 64, 128, 256, 512, 1024)
TABLES = (("stencil", 4096), ("stencil", 4037), ("product", 1024))
FIGURES = {
    "stencil": ((256, 512, 1024, 2048, 8192, 16384), (0, 32, 64, 128)),
    "product": ((256, 512, 2048, 4096, 8192), (0, 32, 64, 96, 192, 512, 1024)),
}
BEST = (("f32", 9, 4096), ("f32", 9, 4037), ("f16", 9, 4096), ("f64", 9, 4096), ("f32", 3, 16384))
TYPES = {"f32": ("float", "float"), "f16": ("__half", "float"), "f64": ("double", "double")}
DOWN = (4, 8, 16)
METRICS = {
    "L1 sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "L1 hits": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum",
    "L2 reads": "lts__t_sectors_op_read.sum",
    "L2 read hits": "lts__t_sectors_op_read_lookup_hit.sum",
    "L2 writes": "lts__t_sectors_op_write.sum",
    "DRAM bytes read": "dram__bytes_read.sum",
    "instructions": "smsp__inst_executed.sum",
}
SEED, SHAPES = 16, 5
Made = dict[str, Any]


def shapes() -> list[tuple[int, int, int, int]]:
    """Heights, widths, sides of the box and threads of a block, drawn once: nothing here was used to fit the model."""
    rng = random.Random(SEED)
    found: list[tuple[int, int, int, int]] = []
    for _ in range(SHAPES):
        height, width = rng.randint(1000, 9000), rng.randint(1000, 9000)
        found.append((height, width, rng.randrange(3, 12, 2), rng.choice((128, 256))))
    return found


# -- without a GPU


def ours() -> Iterator[tuple[str, str, tuple[Any, ...]]]:
    """The name, the group and the arguments of `build` of each of our kernels."""
    for kind, n in TABLES:
        for width in WIDTHS:
            yield f"{kind}-{n}-{width}", "tables", (kind, n, width)
    for kind, n in TABLES[:2]:
        for width in WIDTHS:  # a block of 1024 has half of an SM's registers, if its threads take 32 each
            yield f"{kind}-{n}-{width}-{BLOCKS[-1]}", "tables", (kind, n, width, BLOCKS[-1])
    for kind, (sizes, widths) in FIGURES.items():
        for n in sizes:
            for width in widths:
                yield f"{kind}-{n}-{width}", "figures", (kind, n, width)
    for shape in shapes():
        for width in narrower(shape):
            yield f"random-{'-'.join(map(str, shape))}-{width}", "random", ("random", *shape, width)
    for dtype, size, n in BEST:
        for version in versions(dtype, n):
            yield f"best-{dtype}-{size}-{n}-{version}", "best", (dtype, size, n, version)


def narrower(shape: tuple[int, int, int, int]) -> list[int]:
    """The widths of columns that are narrower than a matrix."""
    return [width for width in WIDTHS if width < shape[1]]


def versions(dtype: str, n: int) -> list[str]:
    """The versions of one stencil: one output a thread in four orders, shared memory, registers."""
    wide = {"f32": 4, "f16": 8, "f64": 2}[dtype]
    across = (1, wide) if n % wide == 0 else (1,)
    registers = [f"{down}x{a}" for a in across for down in DOWN]
    return ["row", "columns", "zigzag", "tiles", "shared", *registers]


def build(arguments: tuple[Any, ...]) -> Any:
    import lego_mlir as lego
    from lego_mlir import f32, schedule
    from lego_mlir.kernels import box_stencil, dot_products
    from lego_mlir.tracing.trace.dtypes import dtype_named

    if arguments[0] == "random":
        height, width, size, threads, column = arguments[1:]
        order = schedule.columns(height, width, width=column) if column else "row"
        return box_stencil.build(height, width, f32, size=size, order=order, threads=threads)
    if isinstance(arguments[1], int) and arguments[0] in FIGURES:
        kind, n, width, *block = arguments
        threads = block[0] if block else lego.size("threads", min=32, max=1024, multiple_of=32)
        order = schedule.columns(n, n, width=width) if width else "row"
        if kind == "product":
            return dot_products.build(n, n, n, f32, order=order, threads=threads)
        return box_stencil.build(n, n, f32, order=order, threads=threads)
    dtype, size, n, version = arguments
    element = dtype_named(dtype)
    if version == "shared":
        return box_stencil.build_shared(n, n, element, size=size)
    orders = {
        "row": "row",
        "columns": schedule.columns(n, n, width=32),
        "zigzag": schedule.columns(n, n, width=32, zigzag=True),
        "tiles": schedule.tiles(n, n, tile=(8, 32)),
    }
    if version in orders:
        return box_stencil.build(n, n, element, size=size, order=orders[version])
    down, across = map(int, version.split("x"))
    return box_stencil.build(n, n, element, size=size, down=down, across=across)


def compiled(job: tuple[str, tuple[Any, ...]]) -> tuple[str, Made]:
    """One kernel as a cubin in the folder; what a launch of it needs."""
    from lego_mlir.toolchain import ptxas, target_named

    name, arguments = job
    made = mlir_kernels.compiled(build(arguments), TARGET, "ptx")
    cubin, (resources,) = ptxas.assemble(made.text, target_named(TARGET))
    (BENCHMARK.folder / f"{name}.cubin").write_bytes(cubin)
    (kernel,) = made.manifest["kernels"]
    fixed = {"grid": kernel["grid"], "block": kernel["block"]} if not kernel["sizes"] else {}
    return name, {"entry": kernel["entry"], "registers": resources.registers, **fixed}


def by_hand(job: tuple[str, dict[str, Any]]) -> str:
    from lego_mlir.templates.run import nvcc

    name, macros = job
    defined = "".join(f"#define {macro} {value}\n" for macro, value in macros.items())
    made = nvcc.compile_text(defined + RIVALS.read_text(), target=TARGET, name=name)
    (BENCHMARK.folder / f"{name}.cubin").write_bytes(made.cubin)
    return name


def hand_jobs() -> Iterator[tuple[str, dict[str, Any]]]:
    plain = {"ELEMENT": "float", "TOTAL": "float"}
    for dtype, size in {(dtype, size) for dtype, size, _ in BEST} | {("f32", shape[2]) for shape in shapes()}:
        element, total = TYPES[dtype]
        yield f"hand-{dtype}-{size}", {"ELEMENT": element, "TOTAL": total, "SIZE": size}
    for n in sorted({n for _, n in TABLES}):
        for width in (0, 4, 16, 32, 48, 64, 96, 192):
            yield f"constants-{n}-{width}", {**plain, "EXTENT": n, "COLUMN": width}


def render(folder: Path, cases: Sequence[harness.Case]) -> None:
    path, groups = folder / "kernels.json", {group for group, *_ in cases}
    found: dict[str, Made] = json.loads(path.read_text()) if path.is_file() else {}
    jobs = [(name, arguments) for name, group, arguments in ours() if group in groups and name not in found]
    with ProcessPoolExecutor(2) as pool:
        for name, made in pool.map(compiled, jobs):
            found[name] = made
            path.write_text(json.dumps(found, indent=1) + "\n")
        list(pool.map(by_hand, [job for job in hand_jobs() if not (folder / f"{job[0]}.cubin").is_file()]))


# -- on the GPU machine


class Launcher:
    """The cubins of the folder, loaded once each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.made: dict[str, Made] = json.loads(harness.rendered(folder / "kernels.json").read_text())
        self.loaded: dict[str, Any] = {}

    def function(self, cubin: str, entry: str) -> Any:
        import cupy as cp

        if cubin not in self.loaded:
            self.loaded[cubin] = cp.RawModule(path=str(self.folder / f"{cubin}.cubin"))
        return self.loaded[cubin].get_function(entry)

    def ours(self, name: str, arrays: tuple[Any, ...], tasks: int, block: int) -> Callable[[], None]:
        import numpy as np

        made = self.made[name]
        function = self.function(name, made["entry"])
        if "grid" in made:
            grid, threads = (tuple(map(int, made[key])) for key in ("grid", "block"))
            return lambda: function(grid, threads, arrays)
        return lambda: function((-(-tasks // block),), (block,), (*arrays, np.int64(block)))

    def hand(self, cubin: str, entry: str, grid: tuple[int, ...], block: tuple[int, ...], *given: Any) -> Any:
        function = self.function(cubin, entry)
        return lambda: function(grid, block, given)


class Problem:
    """The arrays of one problem, its result, and the check of a contender."""

    def __init__(self, kind: str, n: int, dtype: str = "f32", size: int = 9, wide: int | None = None) -> None:
        import cupy as cp
        import torch

        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        torch.backends.cudnn.benchmark = True
        element = {"f32": torch.float32, "f16": torch.float16, "f64": torch.float64}[dtype]
        self.kind, self.n, self.dtype, self.size, r = kind, n, dtype, size, size // 2
        shape = n, n if wide is None else wide
        given = [torch.randn(shape, device="cuda", dtype=element) for _ in range(2 if kind == "product" else 1)]
        self.target = torch.empty_like(given[0])
        if kind == "product":
            self.right = given[0] @ given[1]
            self.tolerance = 1e-6 * n
        else:
            self.padded = torch.nn.functional.pad(given[0][None, None], (r, r, r, r), mode="replicate")
            wide = self.padded.float() if dtype == "f16" else self.padded
            self.right = torch.nn.functional.avg_pool2d(wide, size, stride=1)[0, 0].to(element)
            self.tolerance = {"f32": 1e-5, "f16": 4e-3, "f64": 1e-12}[dtype]
        self.arrays = tuple(cp.from_dlpack(a) for a in (*given, self.target))

    def contender(self, run: Callable[[], Any], **facts: Any) -> harness.Contender:
        """A contender, after one launch whose result must be right."""
        self.target.zero_()
        run()
        error = ((self.target.double() - self.right.double()).abs().max() / self.right.double().abs().max()).item()
        if not error <= self.tolerance:
            raise harness.WrongResultError(f"{facts}: wrong by {error:.3g} of the largest value; nothing is timed")
        return harness.contender(run, kind=self.kind, n=self.n, dtype=self.dtype, size=self.size, **facts)


def table_contenders(launch: Launcher, kind: str, n: int, block: int, widths: tuple[int, ...]) -> list[Any]:
    """Ours and the baselines at every width, for one size of a block."""
    import numpy as np

    problem, tasks = Problem(kind, n), n * n
    grid, found = (-(-tasks // block),), []
    sizes = [np.int32(n)] * (3 if kind == "product" else 2)
    for width in widths:
        facts = {"width": width, "block": block}
        name = f"{kind}-{n}-{width}-{block}"
        run = launch.ours(name if name in launch.made else f"{kind}-{n}-{width}", problem.arrays, tasks, block)
        found.append(problem.contender(run, kernel="ours", **facts))
        entry, more = (f"{kind}_columns", [np.int32(width)]) if width else (f"{kind}_naive", [])
        run = launch.hand("hand-f32-9", entry, grid, (block,), *problem.arrays, *sizes, *more)
        found.append(problem.contender(run, kernel="listing 5", **facts))
        if (launch.folder / f"constants-{n}-{width}.cubin").is_file():
            run = launch.hand(f"constants-{n}-{width}", f"{kind}_constant", grid, (block,), *problem.arrays)
            found.append(problem.contender(run, kernel="constants", **facts))
    return found


def best_contenders(launch: Launcher, dtype: str, size: int, n: int) -> list[Any]:
    """Every version of one stencil, and the libraries."""
    import numpy as np
    import torch

    problem, found = Problem("stencil", n, dtype, size), []
    for version in versions(dtype, n):
        run = launch.ours(f"best-{dtype}-{size}-{n}-{version}", problem.arrays, 0, 0)
        found.append(problem.contender(run, kernel=f"ours {version}"))
    sizes, cubin = (np.int32(n), np.int32(n)), f"hand-{dtype}-{size}"

    def hand(version: str, tile: tuple[int, int], block: tuple[int, ...]) -> None:
        grid = tuple(-(-n // side) for side in tile)
        run = launch.hand(cubin, f"stencil_{version}", grid, block, *problem.arrays, *sizes)
        found.append(problem.contender(run, kernel=f"CUDA {version}"))

    hand("blocks", (32, 8), (32, 8))
    hand("shared", (64, 32), (256,))
    for down in DOWN:
        hand(f"registers_{down}", (32, 8 * down), (32, 8))
        if n % 4 == 0 and size // 2 <= 4:
            hand(f"quads_{down}", (128, 8 * down), (32, 8))
    pool = torch.nn.functional.avg_pool2d
    found.append(
        problem.contender(lambda: problem.target.copy_(pool(problem.padded, size, 1)[0, 0]), kernel="torch pool")
    )
    weights = torch.full((1, 1, size, size), 1 / size**2, device="cuda", dtype=problem.padded.dtype)
    down, across = (
        torch.full(s, 1 / size, device="cuda", dtype=weights.dtype) for s in ((1, 1, size, 1), (1, 1, 1, size))
    )
    conv = torch.nn.functional.conv2d
    ways = {
        "cuDNN": lambda: conv(problem.padded, weights),
        "cuDNN separable": lambda: conv(conv(problem.padded, down), across),
    }
    for name, way in ways.items():
        difference = (way()[0, 0].double() - problem.right.double()).abs().max().item()
        if difference < 10 * problem.tolerance:
            found.append(harness.contender(way, kernel=name, kind="stencil", n=n, dtype=dtype, size=size))
    return found


def random_contenders(launch: Launcher, *shape: int) -> list[Any]:
    """Ours and listing 5 by hand at every width of a shape drawn at random."""
    import numpy as np

    height, width, size, threads = shape
    problem, tasks, found = Problem("stencil", height, size=size, wide=width), height * width, []
    for column in narrower(shape):
        facts = {"width": column, "block": threads}
        run = launch.ours(f"random-{'-'.join(map(str, shape))}-{column}", problem.arrays, tasks, threads)
        found.append(problem.contender(run, kernel="ours", **facts))
        entry, more = ("stencil_columns", [np.int32(column)]) if column else ("stencil_naive", [])
        grid, extents = (-(-tasks // threads),), (np.int32(width), np.int32(height))
        run = launch.hand(f"hand-f32-{size}", entry, grid, (threads,), *problem.arrays, *extents, *more)
        found.append(problem.contender(run, kernel="listing 5", **facts))
    return found


CASES: list[harness.Case] = [
    *(("best", *case) for case in BEST),
    *(("tables", kind, n, block) for kind, n in TABLES for block in (256, 64, 1024, 128, 512, 32)),
    *(("figures", kind, n, 256) for kind, (sizes, _) in FIGURES.items() for n in sizes),
    *(("random", *shape) for shape in shapes()),
]


def timed(folder: Path, group: str, *case: Any) -> list[Any]:
    launch = launcher(folder)
    if group in ("best", "random"):
        return {"best": best_contenders, "random": random_contenders}[group](launch, *case)
    return table_contenders(launch, *case, FIGURES[case[0]][1] if group == "figures" else WIDTHS)


@cache
def launcher(folder: Path) -> Launcher:
    return Launcher(folder)


def counted() -> Iterator[tuple[str, str, int, int]]:
    """The kernels that ncu profiles: name, kind, n, block."""
    for kind, n in TABLES:
        for width in WIDTHS:
            yield f"{kind}-{n}-{width}", kind, n, 256
    yield "stencil-4096-0", "stencil", 4096, 64
    yield "stencil-4096-32", "stencil", 4096, 64


def profiled(_: Sequence[str]) -> None:
    """Launch each counted kernel once, for ncu."""
    import cupy as cp

    launch = Launcher(BENCHMARK.folder)
    for name, kind, n, block in counted():
        arrays = tuple(cp.zeros((n, n), cp.float32) for _ in range(3 if kind == "product" else 2))
        launch.ours(name, arrays, n * n, block)()
        cp.cuda.get_current_stream().synchronize()


def count(_: Sequence[str]) -> None:
    found = ncu.watch([__file__, "profiled"], METRICS, "--kernel-name", "regex:^(stencil|dot_products)$")
    wanted = list(counted())
    if len(found) != len(wanted):
        raise SystemExit(f"ncu saw {len(found)} of {len(wanted)} kernels")
    rows = [
        {"kernel": name, "block": block, **seen.counts} for (name, _, _, block), seen in zip(wanted, found, strict=True)
    ]
    print(harness.save(f"{NAME}-counters", {"device": harness.device_name(), "metrics": METRICS, "rows": rows}))


def placement(_: Sequence[str]) -> None:
    """The SM of each block, and when it started and ended, in nanoseconds; as NumPy arrays next to the results."""
    import cupy as cp
    import numpy as np

    launch, n, found = Launcher(BENCHMARK.folder), 4096, {}
    source, target = cp.zeros((n, n), cp.float32), cp.zeros((n, n), cp.float32)
    for block in (64, 256, 1024):
        blocks = cp.zeros((n * n // block, 3), cp.int64)
        given = (source, target, np.int32(n), np.int32(n), blocks)
        run = launch.hand("hand-f32-9", "stencil_placement", (len(blocks),), (block,), *given)
        run()
        run()
        taken = blocks.get()
        found[f"sm_{block}"] = taken[:, 0].astype(np.uint8)
        found[f"start_{block}"], found[f"end_{block}"] = (
            (taken[:, k] - taken[:, 1].min()).astype(np.uint32) for k in (1, 2)
        )
    path = harness.results_path(harness.device_name(), f"{NAME}-placement")
    np.savez_compressed(path.with_suffix(".npz"), **found)
    print(path.with_suffix(".npz"))


# -- predictions


PREDICTIONS = harness.BENCH / "results" / "static" / f"{NAME}-predictions.json"


def predicted(case: tuple[str, int, int]) -> list[Made]:
    """The model's time of ours at every width, for one size of a block, and the sectors that L1 fetches."""
    sys.path.insert(0, str(harness.BENCH.parent))
    from bench import schedule_model
    from lego_mlir.caches import time_model

    kind, n, block = case
    workload = schedule_model.workload_named("product" if kind == "product" else "9x9", n)
    names = {str(width or "naive"): width for width in WIDTHS}
    orders = {name: schedule_model.order_named(name, n) for name in names}
    mapping = schedule_model.MAPPINGS["ours"]
    found = schedule_model.predictions(workload, orders, block, time_model.chip_named("h200"), mapping=mapping)
    blocks = -(-n * n // block)
    return [
        {"kind": kind, "n": n, "block": block, "width": names[name], "ms": round(estimate.seconds * 1e3, 4),
         "sectors": round(estimate.sectors * blocks)}
        for name, estimate in found.items()
    ]  # fmt: skip


def predict(_: Sequence[str]) -> None:
    """Predict every cell of the tables."""
    rows: list[Made] = []
    with ProcessPoolExecutor(2) as pool:
        for found in pool.map(predicted, [(kind, n, block) for kind, n in TABLES for block in BLOCKS]):
            rows += found
            PREDICTIONS.write_text(json.dumps(rows, indent=1) + "\n")
    print(f"{len(rows)} predictions in {PREDICTIONS}")


# -- the pages


def agreements(rows: list[Made]) -> list[list[str]]:
    """A line for each shape and kernel: how the model ranks its orders, and what its choice loses."""
    sys.path.insert(0, str(harness.BENCH.parent))
    from bench import schedule_model
    from lego_mlir import schedule
    from lego_mlir.caches import simulation, time_model, workloads

    lines = []
    for height, width, size, threads in shapes():
        case = harness.words_of(("random", height, width, size, threads))
        workload = workloads.stencil(width, height, size)
        for kernel, mapping in schedule_model.MAPPINGS.items():
            mine = [row for row in rows if row["case"][-4:] == case[-4:] and row["kernel"] == kernel]
            measured = {str(row["width"] or "naive"): row["ms"] * 1e-3 for row in mine}
            if not measured:
                continue
            orders = {
                name: simulation.rows(width) if name == "naive" else schedule.columns(height, width, width=int(name))
                for name in measured
            }
            predicted = schedule_model.predictions(
                workload, orders, threads, time_model.chip_named("h200"), mapping=mapping
            )
            found = schedule_model.agreement(measured, predicted)
            best = min(measured, key=lambda name: measured[name])
            gains = [f"{measured['naive'] / measured[name]:.3f}" for name in (best, found.choice)]
            title = f"{size} x {size}, {height} x {width}, {kernel}"
            losses = [f"{100 * loss:.1f} %" for loss in (found.loss, found.of_three)]
            ranks = f"{found.spearman:.2f}"
            lines.append([title, str(threads), ranks, f"{best} ({gains[0]})", f"{found.choice} ({gains[1]})", *losses])
    return lines


def random_table() -> None:
    """How the model ranks the orders of shapes drawn at random; once they had results of their own."""
    known = mlir_kernels.newest(NAME)["rows"]
    rows = [row for row in known if row["case"][0] == "random"] or mlir_kernels.newest(f"{NAME}-random")["rows"]
    heads = "means|threads|Spearman|best (gain)|choice (gain)|loss|of three"
    made = mlir_kernels.table(heads, agreements(rows))
    mlir_kernels.put_into("reference/schedule-caches.md", f"{NAME}-random", made)


def table() -> None:
    """The tables of the page, from the newest results."""
    results, counters = mlir_kernels.newest(NAME), mlir_kernels.latest(f"{NAME}-counters")
    about = f"{mlir_kernels.circumstances(NAME, results)}; in ms.\n\n"
    parts: list[str | mlir_kernels.Table] = [about, best_table(results["rows"])]
    for kind, n in TABLES:
        rows = [row for row in results["rows"] if row["case"][:3] == ["tables", kind, str(n)]]
        title = f"9 x 9 means of {n} x {n}" if kind == "stencil" else f"The product of {n} x {n} matrices"
        parts.append(
            f"**{title}**, f32, by the width of a column and the threads of a block: measured / of the model\n"
        )
        parts.append(
            "(listing 5 by hand over ours), and with 256 threads the hits of L1, ncu's / of the model, and of L2.\n\n"
        )
        parts.append(width_table(rows, kind, n, [] if counters is None else counters["rows"]))
    mlir_kernels.put_into(PAGE, NAME, *parts)


def cell(rows: list[Made], **facts: Any) -> Made | None:
    """The row with these facts, or None."""
    return next((row for row in rows if all(row.get(key) == value for key, value in facts.items())), None)


def width_table(rows: list[Made], kind: str, n: int, counters: list[Made]) -> mlir_kernels.Table:
    """Ours and the model, and listing 5 by hand over ours, by width and block; the hits of the caches."""
    model = [
        row for row in json.loads(harness.rendered(PREDICTIONS).read_text()) if (row["kind"], row["n"]) == (kind, n)
    ]
    lines = []
    for width in WIDTHS:
        texts = [str(width) if width else "naive"]
        for block in BLOCKS:
            found = [cell(rows, width=width, block=block, kernel=kernel) for kernel in ("ours", "listing 5")]
            expected = cell(model, width=width, block=block)
            known = "" if expected is None else f" / {expected['ms']:.3f}"
            ratio = "" if None in found else f" ({found[1]['ms'] / found[0]['ms']:.2f})"
            texts.append("" if found[0] is None else f"{found[0]['ms']:.3f}{known}{ratio}")
        seen = cell(counters, kernel=f"{kind}-{n}-{width}", block=256)
        lines.append([*texts, *hits(seen, cell(model, width=width, block=256))])
    return mlir_kernels.table("|".join(["width", *map(str, BLOCKS), "L1 hits", "L2 hits"]), lines)


def hits(seen: Made | None, expected: Made | None) -> tuple[str, str]:
    """The counted hit rates of L1, those of the model, and of the reads of L2."""
    if seen is None:
        return "", ""
    first = f"{100 * seen['L1 hits'] / seen['L1 sectors']:.1f}"
    if expected is not None:
        first += f" / {100 * (1 - expected['sectors'] / seen['L1 sectors']):.1f}"
    return f"{first} %", f"{100 * seen['L2 read hits'] / seen['L2 reads']:.1f} %"


def best_table(rows: list[Made]) -> mlir_kernels.Table:
    """Every version of each stencil."""
    cases = [harness.words_of(("best", *case)) for case in BEST]
    measured = [row for row in rows if row["case"][0] == "best"]
    names = list(dict.fromkeys(row["kernel"] for row in measured))
    lines = []
    for name in names:
        found = [cell(measured, kernel=name, case=case) for case in cases]
        lines.append([name, *("" if row is None else f"{row['ms']:.4f}" for row in found)])
    heads = [f"{dtype}, {size} x {size}, {n}^2" for dtype, size, n in BEST]
    return mlir_kernels.table("|".join(["means", *heads]), lines)


BENCHMARK = runner.Benchmark(
    NAME, CASES, timed, table, render, groups={group: [c for c in CASES if c[0] == group] for group, *_ in CASES},
    steps={"count": count, "profiled": profiled, "placement": placement, "predict": predict,
           "random": lambda _: random_table()}, together=True,
)  # fmt: skip

if __name__ == "__main__":
    sys.exit(runner.main(BENCHMARK))
