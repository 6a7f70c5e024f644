"""Products at 40 sizes on a GPU: what the time model of products is fitted to (half of them) and judged on (the other).

    python bench/product_tuning.py render [SIZE ..]    every candidate as a cubin into artifacts/product_tuning
    python bench/product_tuning.py time [SIZE ..]      on the GPU machine: correctness, then all candidates in turns

No size is a power of two: they are odd, skinny, and between powers of two. Candidates are the tiles of both families,
`mma.sync` (sm_90) and warpgroups (sm_90a, where rows are whole 16-byte words). Sizes alternate between the halves.
`time` needs torch and lego_mlir.runtime; the results come to $OUT/product_tuning.json, or bench/results.
"""

from __future__ import annotations

import json
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import harness
import mlir_kernels

NAME = "product_tuning"
FOLDER = harness.ARTIFACTS / NAME
Size = tuple[int, int, int]
SIZES: tuple[Size, ...] = (
    # between powers of two
    (448, 448, 448), (576, 576, 2304), (896, 896, 896), (1152, 1152, 1152), (1408, 1408, 1408), (1664, 1664, 1664),
    (1920, 1920, 1920), (2176, 2176, 2176), (2816, 2816, 2816), (3328, 3328, 3328), (4352, 4352, 4352),
    (704, 1408, 2816), (1344, 1344, 4032), (2304, 4608, 1152), (2688, 896, 6144), (5376, 5376, 1792),
    (6656, 6656, 832), (3456, 6912, 576),
    # odd numbers of rows, and rows that are not whole lines of 128 bytes
    (1111, 2200, 3304), (777, 1000, 1288), (1777, 1784, 5000), (3999, 4000, 2000), (3000, 3000, 3000),
    (1640, 3280, 656), (7000, 1400, 1400), (1200, 6400, 800),
    # skinny and deep
    (72, 5120, 5120), (24, 6144, 6144), (48, 14336, 4096), (200, 10240, 4096), (264, 3080, 1032), (333, 5120, 2560),
    (12288, 96, 4096), (9216, 40, 3072), (200, 200, 8192), (384, 640, 10240),
    # rows that are not whole words of 16 bytes
    (1234, 1234, 1234), (500, 700, 900), (3006, 1002, 2002), (1002, 2004, 1502),
)  # fmt: skip
ALL_OF, MOST, SPREAD = 24, 12, 4
SMS, SHARED_PER_BLOCK, F16_BYTES = 132, 227 * 1024, 2
TOLERANCE = 0.01
REPETITIONS, WARM_UP = 60, 10
FIRST, SLOW = 3, 2.5
"""Launches of every candidate; those slower than the fastest by this factor are not timed again."""
LONG_MS, TURN_MS, TURNS = 0.5, 60, 3
"""What takes longer runs in turns, so that each candidate has the clock that its own power allows."""


def halves() -> tuple[tuple[Size, ...], tuple[Size, ...]]:
    """The sizes to fit to, and those to judge on."""
    return SIZES[::2], SIZES[1::2]


# -- candidates, where the compiler is


def candidates(size: Size) -> list[tuple[str, Any]]:
    """The tiles of both families for a size, with the name of the family."""
    from lego_mlir.kernels import choices, family_choices, warpgroup_choices

    found = [choices.fitting(choice, size[2], SHARED_PER_BLOCK, F16_BYTES) for choice in choices.CANDIDATES]
    rows: list[tuple[str, Any]] = [("mma.sync", choice) for choice in dict.fromkeys(found)]
    if family_choices.can(size, "NN"):
        rows += [("warpgroups", warpgroup_choices.tile_of(*size, tile, SMS)) for tile in warpgroup_choices.TILES]
    return rows


def block_of(family: str, choice: Any) -> Any:
    """What the time model takes."""
    return choice.block_tile(F16_BYTES) if family == "mma.sync" else choice.block_tile


def entered(size: Size) -> list[tuple[str, Any]]:
    """All candidates; of the sizes from ALL_OF on MOST of them: the best predicted, and some spread over the rest."""
    from lego_mlir.kernels.product_counts import ProductSize
    from lego_mlir.kernels.product_time import product_time

    found = candidates(size)
    if SIZES.index(size) < ALL_OF or len(found) <= MOST:
        return found
    ranked = sorted(found, key=lambda row: product_time(ProductSize(*size), block_of(*row)).microseconds)
    best, rest = ranked[: MOST - SPREAD], ranked[MOST - SPREAD :]
    return best + rest[:: -(-len(rest) // SPREAD)]


def compiled(size: Size, family: str, choice: Any) -> Any:
    from lego_mlir.kernels import matmul
    from lego_mlir.kernels.scheduled_products import ScheduledProduct
    from lego_mlir.toolchain import compile_kernel
    from lego_mlir.tracing.dtypes import f16

    if family == "warpgroups":
        kernel = ScheduledProduct(choice, "NN").kernel(size, choice.clusters(SMS))
        return compile_kernel(kernel, target="sm_90a", emit="cubin")
    kernel = matmul.build(*size, f16, result=f16, tiling=choice.tiling, order=choice.order, blocks=choice.blocks(SMS))
    given = {"stages": choice.stages}
    return compile_kernel(kernel, transform="matmul_sm80.mlir", parameters=given, target="sm_90", emit="cubin")


def described(family: str, choice: Any) -> dict[str, Any]:
    """A candidate as the results record it."""
    block = block_of(family, choice)
    return {
        "family": family, "tile": [block.m, block.n, block.k], "warps": list(block.warps), "stages": choice.stages,
        "order": choice.order if family == "mma.sync" else "grouped", "resident": block.resident,
    }  # fmt: skip


def rendered(task: tuple[Size, str, Any]) -> dict[str, Any] | str:
    """A row of the index, its code written; or why there is no kernel."""
    from lego_mlir.errors import LegoError

    size, family, choice = task
    row = described(family, choice)
    tile, warps = ("x".join(map(str, row[name])) for name in ("tile", "warps"))
    name = f"{'x'.join(map(str, size))}-{family}-{tile}-{warps}w-{row['stages']}s-{row['resident']}r"
    if not (FOLDER / f"{name}.json").is_file():
        try:
            made = compiled(size, family, choice)
        except LegoError as error:
            return f"{name}: {str(error).splitlines()[0][:200]}"
        (FOLDER / f"{name}.cubin").write_bytes(made.bytes)
        (FOLDER / f"{name}.json").write_text(json.dumps(made.manifest))
    return {"size": size, "file": name, **row}


def render(sizes: list[Size]) -> None:
    """Compile what is not in the folder yet; the index grows with each size."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    index = []
    with ProcessPoolExecutor(2) as pool:
        for size in sizes:
            for row in pool.map(rendered, [(size, *row) for row in entered(size)]):
                if isinstance(row, str):
                    print(f"left out {row}", flush=True)
                else:
                    index.append(row)
            (FOLDER / "index.json").write_text("[\n" + ",\n".join(map(json.dumps, index)) + "\n]\n")
    print(f"{len(index)} kernels in {FOLDER}")


# -- on the GPU machine


def time(sizes: list[Size]) -> None:
    """Check and time the rendered cases; exit code 1 where a candidate is wrong."""
    import torch

    index = json.loads(harness.rendered(FOLDER / "index.json").read_text())
    device = torch.cuda.get_device_name()
    out = os.environ.get("OUT")
    path = Path(out) / f"{NAME}.json" if out else harness.todays_results(device, NAME)
    report: dict[str, Any] = {"device": device, "torch": torch.__version__, "rows": []}
    wrong = 0
    for size in sizes:
        ours = [entry for entry in index if tuple(entry["size"]) == size]
        if not ours:
            continue
        rows, failed = timed(size, ours)
        wrong += failed
        report["rows"] += rows
        best = min(rows[1:], key=lambda row: row["ms"], default=None)
        shown = f"{best['file']} {best['ms']:.4f}" if best else "none"
        print(f"{'x'.join(map(str, size))}: cuBLAS {rows[0]['ms']:.4f} ms, best of {len(rows) - 1} {shown}", flush=True)
        path.write_text(json.dumps({**report, "clocks": harness.clocks()}, indent=1) + "\n")
    print(f"{path}: {len(report['rows'])} rows, {wrong} left out")
    sys.exit(1 if wrong else 0)


def timed(size: Size, ours: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], int]:
    """The rows of one size, cuBLAS first, and the number of candidates that were wrong or did not load."""
    import torch

    from lego_mlir.runtime.packs import load_kernels

    m, n, k = size
    torch.manual_seed(0)
    a, b = (torch.randn(dims, device="cuda", dtype=torch.float16) for dims in ((m, k), (k, n)))
    expected, c = torch.mm(a, b), torch.empty((m, n), device="cuda", dtype=torch.float16)
    runs: dict[int, Any] = {-1: lambda: torch.mm(a, b, out=c)}
    failed = 0
    for number, entry in enumerate(ours):
        try:
            (kernel,) = load_kernels(FOLDER / f"{entry['file']}.cubin").values()
            c.fill_(float("nan"))
            kernel(a, b, c)
            harness.require_close(c, expected, TOLERANCE, entry["file"])
        except Exception as error:  # whatever the driver refuses, and wrong results
            print(f"  left out {entry['file']}: {str(error).splitlines()[0][:150]}", file=sys.stderr)
            failed += 1
            continue
        runs[number] = kernel.prepare(a, b, c)
    found = harness.times_ms(runs, FIRST, 2)
    first = {number: median(times) for number, times in found.items()}
    worth = {number: run for number, run in runs.items() if first[number] <= SLOW * min(first.values())}
    longest = max(first[number] for number in worth)
    turn = max(1, int(TURN_MS / longest)) if longest > LONG_MS else 1
    repetitions = TURNS * turn if turn > 1 else REPETITIONS
    found |= harness.times_ms(worth, repetitions, min(WARM_UP, repetitions), turn)
    rows = []
    for number, times in found.items():
        facts = ours[number] if number >= 0 else {"size": size, "family": "cuBLAS"}
        spread = quantiles(times, n=4)
        rows.append({**facts, "ms": median(times), "quartiles": [spread[0], spread[-1]], "repetitions": len(times)})
    return rows, failed


STEPS = {step.__name__: step for step in (render, time)}


def size_of(text: str) -> Size:
    m, n, k = (int(part) for part in text.split("x"))
    return m, n, k


if __name__ == "__main__":
    mlir_kernels.main(__doc__, STEPS, SIZES, size_of)
