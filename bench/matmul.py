"""Matrix multiplication against cuBLAS and Triton.

    python bench/matmul.py build              compile every kernel into artifacts/matmul (needs the compiler, no GPU)
    python bench/matmul.py static             registers, shared memory and main loops into results/static/matmul.json
    python bench/matmul.py run [SIZE ..]      time on a GPU what was built (needs CuPy and torch, and Triton as a rival)
    python bench/matmul.py choose             write the table that lego_mlir.matmul chooses from
    python bench/matmul.py table              write the tables of docs/matmul.md

A size is M or MxNxK. `choose` takes the newest measured results; without any it ranks the kernels by a model over their
static figures, and the table says so.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(Path(__file__).parent))

ARTIFACTS = ROOT / "artifacts" / "matmul"
DOCUMENT = ROOT / "docs" / "matmul.md"
TARGET = "sm_90"
SCRIPT = "matmul_sm80.mlir"
SQUARES = (512, 1024, 2048, 4096, 8192, 16384)
MODELS = ((4096, 11008, 4096), (8192, 28672, 8192), (32, 4096, 4096))
SIZES = (*((n, n, n) for n in SQUARES), *MODELS)
LAYOUTS = ("NN", "NT", "TN", "TT")
ORDERS = ("row", "column", "grouped", "morton")
TRIED = 4  # candidates for each size and layout: the best of the model's ranking
BEST, FLOOR = 0.65, 0.55  # of cuBLAS, from 2048 up

# Of an H200: CUDA C++ Programming Guide and NVIDIA's data sheet; the rate of mma.sync is 62 % of the full one.
SMS, CLOCK_GHZ, BYTES_PER_NS = 132, 1.755, 4800
SHARED_PER_SM = 228 * 1024
HMMA_CYCLES, SHARED_CYCLES, L2_BYTES_PER_CYCLE, BARRIER_CYCLES, START_CYCLES = 6.5, 4, 32, 40, 2500


# -- which kernels


def label(choice: Any) -> str:
    t = choice.tiling
    return f"{t.m}x{t.n}x{t.k}-{t.warps[0]}x{t.warps[1]}w-{choice.stages}s-{choice.order}"


def build_kernel(choice: Any, size: tuple[int, int, int], layouts: str, dtype: str = "f16", result: str = "f16") -> Any:
    from lego_mlir import Col, Row
    from lego_mlir.kernel.dtypes import dtype_named
    from lego_mlir.kernels import matmul

    m, n, k = size
    a, b = ((Col if letter == "T" else Row)(*dims) for letter, dims in zip(layouts, ((m, k), (k, n)), strict=True))
    return matmul.build(
        m, n, k, dtype_named(dtype), a=a, b=b, result=dtype_named(result), tiling=choice.tiling, order=choice.order
    )


def contestants(figures: dict[str, Any], size: tuple[int, int, int], layouts: str) -> list[Any]:
    """What is built for a size: the best by the model; at 4096, NN, also every order and depth of the best."""
    from lego_mlir.kernels.choices import CANDIDATES, fitting

    ranked = sorted(CANDIDATES, key=lambda c: estimate(c, figures[label(c) + layouts], size))[:TRIED]
    if layouts == "NN" and size == (4096, 4096, 4096):
        best = ranked[0]
        ranked += [replace(best, order=order) for order in ORDERS]
        ranked += [replace(best, stages=stages) for stages in (2, 3)]
    return list(dict.fromkeys(fitting(c, size[2], SHARED_PER_SM - 1024) for c in ranked))


def static_rows() -> Iterator[dict[str, Any]]:
    """Every candidate in every layout, at 4096, f16 to f16; the best of them also as bf16 and into f32."""
    import static_figures

    from lego_mlir.kernels.choices import CANDIDATES

    size = (4096, 4096, 4096)
    for choice in CANDIDATES:
        for layouts in LAYOUTS:
            kinds = [("f16", "f16")] + ([("bf16", "bf16"), ("f16", "f32")] if choice == CANDIDATES[0] else [])
            for dtype, result in kinds:
                kernel = build_kernel(choice, size, layouts, dtype, result)
                figures, _ = static_figures.of_kernel(
                    kernel, TARGET, "HMMA", transform=SCRIPT, parameters={"stages": choice.stages}
                )
                row = {**choice.to_data(), "layouts": layouts, "dtype": dtype, "result": result, **figures}
                row["blocks_per_sm"] = static_figures.resident_blocks(figures, choice.tiling.threads, SHARED_PER_SM)
                print(f"{label(choice)} {layouts} {dtype} -> {result}: {figures}", flush=True)
                yield row


def by_label(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The static figures of f16 kernels by label and layouts."""
    from lego_mlir.kernels.choices import choice_from

    return {label(choice_from(r)) + r["layouts"]: r for r in rows if r["dtype"] == r["result"] == "f16"}


def estimate(choice: Any, figures: dict[str, Any], size: tuple[int, int, int]) -> float:
    """Microseconds by a model: the slowest of matrix unit, issue, shared memory and L2 for each step, whole waves of
    blocks, and not faster than the device's memory. It ranks kernels; it predicts no time."""
    m, n, k = size
    t, loop, blocks = choice.tiling, figures["loop"], figures["blocks_per_sm"]
    warps, steps = t.threads // 32, -(-k // t.k)
    tiles = -(-m // t.m) * -(-n // t.n)
    here = min(blocks, max(1, -(-tiles // SMS)))
    matrix = warps * loop["HMMA"] * HMMA_CYCLES / 4
    issue = warps * loop["instructions"] / 4
    shared = warps * (loop["LDSM"] + loop["LDGSTS"]) * SHARED_CYCLES
    level2 = (t.m + t.n) * t.k * 2 / L2_BYTES_PER_CYCLE
    step = here * max(matrix, issue, shared, level2) + BARRIER_CYCLES
    waves = -(-tiles // (SMS * here))
    cycles = waves * (steps * step + START_CYCLES + here * t.m * t.n * 2 / L2_BYTES_PER_CYCLE)
    return max(cycles / CLOCK_GHZ, 2 * (m * k + k * n + m * n) / BYTES_PER_NS) / 1000


# -- commands


def static(options: argparse.Namespace) -> None:
    import static_figures

    rows = list(static_rows())
    print(static_figures.write("matmul", TARGET, rows))


def read_static() -> dict[str, Any]:
    path = Path(__file__).parent / "results" / "static" / "matmul.json"
    if not path.is_file():
        raise SystemExit(f"{path} is not there; run: python bench/matmul.py static")
    return by_label(json.loads(path.read_text())["rows"])


def build(options: argparse.Namespace) -> None:
    """PTX and manifests, and an index of what each is."""
    from lego_mlir.toolchain import Cache, compile_kernel, default_folder

    figures = read_static()
    ARTIFACTS.mkdir(parents=True, exist_ok=True)
    index = []
    for size in options.sizes or SIZES:
        for layouts in LAYOUTS:
            for choice in contestants(figures, size, layouts):
                name = f"{'x'.join(map(str, size))}-{layouts}-{label(choice)}"
                kernel = build_kernel(choice, size, layouts)
                compiled = compile_kernel(
                    kernel, transform=SCRIPT, parameters={"stages": choice.stages}, target=TARGET,
                    cache=Cache(default_folder()),
                )  # fmt: skip
                (ARTIFACTS / f"{name}.ptx").write_bytes(compiled.bytes)
                (ARTIFACTS / f"{name}.json").write_text(json.dumps(compiled.manifest))
                index.append({"file": f"{name}.ptx", "size": size, "layouts": layouts, **choice.to_data()})
                print(name, flush=True)
    (ARTIFACTS / "index.json").write_text(json.dumps(index, indent=1))


def run(options: argparse.Namespace) -> None:
    """Correctness first, then the times, ours and the rivals' in turns."""
    import cupy as cp
    import timing
    import torch

    index = json.loads((ARTIFACTS / "index.json").read_text())
    rows = []
    for size in options.sizes or SIZES:
        for layouts in LAYOUTS:
            ours = [entry for entry in index if tuple(entry["size"]) == size and entry["layouts"] == layouts]
            if not ours:
                print(f"{size} {layouts}: nothing was built")
                continue
            rows += list(_race(cp, torch, timing, ours, size, layouts))
    print(timing.write("matmul", rows))


def _race(cp: Any, torch: Any, timing: Any, ours: list[Any], size: Any, layouts: str) -> Iterator[dict[str, Any]]:
    from lego_mlir.runtime import cuda

    m, n, k = size
    draw = torch.Generator(device="cuda").manual_seed(0)
    stored = [
        torch.randn(dims if letter == "N" else dims[::-1], device="cuda", dtype=torch.float16, generator=draw)
        for letter, dims in zip(layouts, ((m, k), (k, n)), strict=True)
    ]
    a, b = (x if letter == "N" else x.T for letter, x in zip(layouts, stored, strict=True))
    expected = torch.matmul(a.float(), b.float()) if m * n <= 2**26 else torch.matmul(a, b).float()
    out = torch.empty((m, n), device="cuda", dtype=torch.float16)
    memory = [cp.from_dlpack(x.reshape(-1)) for x in (*stored, out)]
    runs = {"cublas": lambda: torch.matmul(a, b, out=out)}
    triton = _triton_rival(a, b, out)
    if triton is not None:
        runs["triton"] = triton
    described: dict[str, Any] = {"cublas": {}, "triton": {}}
    for entry in ours:
        launch = cuda.load(ARTIFACTS / entry["file"]).kernel()
        name = Path(entry["file"]).stem
        runs[name] = lambda launch=launch: launch(*memory)
        described[name] = entry
    for name, call in runs.items():
        out.zero_()
        call()
        error = ((out.float() - expected).norm() / expected.norm()).item()
        if error > 2e-3:
            raise SystemExit(f"{name}: relative error {error:.2e}")
    times = timing.compare(runs)
    flops = 2.0 * m * n * k
    for name, time in times.items():
        ratio = times["cublas"]["median"] / time["median"]
        rate = flops / time["median"] / 1e9
        print(
            f"{size} {layouts} {name}: {time['median']:.4f} ms, {rate:.0f} TFLOP/s, {ratio:.3f} of cuBLAS", flush=True
        )
        row = {key: value for key, value in described[name].items() if key != "file"}
        yield {"name": name, "size": size, "layouts": layouts, **row, **time, "tflops": rate, "of_cublas": ratio}


def _triton_rival(a: Any, b: Any, out: Any) -> Any:
    """The rival kernel with the fastest of a few configurations, or None where Triton is missing or K has a tail."""
    try:
        from rivals import triton_matmul
    except ImportError:
        return None
    import timing

    (m, k), n = a.shape, b.shape[1]
    if k % 64:
        return None
    calls = {}
    for block_m, block_n, warps, stages in ((128, 256, 8, 3), (128, 128, 4, 3), (64, 128, 4, 4), (64, 64, 4, 4)):
        grid = (-(-m // block_m) * -(-n // block_n),)

        def call(
            block_m: int = block_m, block_n: int = block_n, warps: int = warps, stages: int = stages, grid: Any = grid
        ) -> None:
            triton_matmul.matmul[grid](
                a, b, out, m, n, k, *a.stride(), *b.stride(), *out.stride(), BLOCK_M=block_m, BLOCK_N=block_n,
                BLOCK_K=64, GROUP_M=8, num_warps=warps, num_stages=stages,
            )  # fmt: skip

        if m % block_m == 0 and n % block_n == 0:
            calls[block_m, block_n] = call
    if not calls:
        return None
    times = timing.compare({str(key): call for key, call in calls.items()}, repetitions=10)
    return calls[min(calls, key=lambda key: times[str(key)]["median"])]


def choose(options: argparse.Namespace) -> None:
    """The table of `lego_mlir.matmul`, measured where there is something to go by."""
    import timing

    from lego_mlir.kernels import choices

    measured = timing.latest("matmul")
    rows = []
    if measured is None:
        figures = read_static()
        for size in SIZES:
            for layouts in LAYOUTS:
                best = min(choices.CANDIDATES, key=lambda c: estimate(c, figures[label(c) + layouts], size))
                rows.append(choices.Row(layouts, *size, best))
        table = choices.Table("static", None, tuple(rows))
    else:
        head, results = measured
        for size in SIZES:
            for layouts in LAYOUTS:
                mine = [r for r in results if tuple(r["size"]) == size and r["layouts"] == layouts and "tile" in r]
                if mine:
                    best = choices.choice_from(min(mine, key=lambda r: r["median"]))
                    rows.append(choices.Row(layouts, *size, best))
        table = choices.Table("measured", head["device"], tuple(rows))
    path = ROOT / "lego_mlir" / "kernels" / choices.FILE
    path.write_text(choices.to_text(table, "bench/matmul.py choose"))
    print(f"{path}: {len(rows)} rows, {table.basis}")


def table(options: argparse.Namespace) -> None:
    """The tables of the documentation, from the newest results."""
    import timing

    static_path = Path(__file__).parent / "results" / "static" / "matmul.json"
    rows = json.loads(static_path.read_text())["rows"]
    head = "tile, warps, stages|layouts|types|registers|spills|shared KiB|blocks an SM"
    lines = _head(f"{head}|main loop: all / HMMA / LDSM / LDGSTS")
    for r in rows:
        loop = r["loop"]
        tile = "x".join(map(str, r["tile"]))
        shared = (r["static_shared_bytes"] + r["dynamic_shared_bytes"]) / 1024
        warps = "x".join(map(str, r["warps"]))
        cells = [f"{tile}, {warps}, {r['stages']}", r["layouts"], f"{r['dtype']} to {r['result']}"]
        cells += [str(r["registers"]), str(r["spilled_bytes"]), f"{shared:.0f}", str(r["blocks_per_sm"])]
        cells.append(" / ".join(str(loop[name]) for name in ("instructions", "HMMA", "LDSM", "LDGSTS")))
        lines.append(f"| {' | '.join(cells)} |")
    timing.put_into(DOCUMENT, "static", "\n".join(lines) + "\n")
    timing.put_into(DOCUMENT, "measured", _measured_table(timing.latest("matmul")))


def _head(columns: str) -> list[str]:
    names = columns.split("|")
    return [f"| {' | '.join(names)} |", "|" + "---|" * len(names)]


def _measured_table(measured: Any) -> str:
    lines = _head("M x N x K|layouts|cuBLAS ms|ours ms|of cuBLAS|Triton ms|kernel")
    results = [] if measured is None else measured[1]
    for size in SIZES:
        for layouts in LAYOUTS:
            here = [r for r in results if tuple(r["size"]) == size and r["layouts"] == layouts]
            ours = min((r for r in here if "tile" in r), key=lambda r: r["median"], default=None)
            named = {r["name"]: r for r in here}
            cells = [_cell(named.get("cublas")), _cell(ours), "" if ours is None else f"{ours['of_cublas']:.2f}"]
            cells += [_cell(named.get("triton")), "" if ours is None else ours["name"].split("-", 2)[2]]
            lines.append(f"| {' x '.join(map(str, size))} | {layouts} | {' | '.join(cells)} |")
    note = "Not measured yet: the cells are empty.\n\n" if measured is None else f"On {measured[0]['device']}.\n\n"
    return note + "\n".join(lines) + "\n"


def _cell(row: Any) -> str:
    return "" if row is None else f"{row['median']:.3f} ({row['lower']:.3f} to {row['upper']:.3f})"


COMMANDS = {"build": build, "static": static, "run": run, "choose": choose, "table": table}


def size_of(text: str) -> tuple[int, int, int]:
    sizes = tuple(int(part) for part in text.split("x"))
    if len(sizes) == 1:
        sizes *= 3
    if len(sizes) != 3:
        raise argparse.ArgumentTypeError(f"a size is M or MxNxK, not {text!r}")
    return sizes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("sizes", nargs="*", type=size_of, help="only these sizes")
    options = parser.parse_args()
    COMMANDS[options.command](options)


if __name__ == "__main__":
    main()
