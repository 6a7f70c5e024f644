"""Row-wise softmax, 4096 rows of 256 to 16384 floats: rendered, by hand, and torch.softmax."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import comparison
import harness
import runner

ROWS = 4096
WIDTHS = [256, 384, 512, 768, 1000, 1024, 1536, 2048, 3000, 4096, 6144, 8192, 12288, 16384]
AT_A_TIME = [1, 2, 4, 8]  # rows a program takes
WARPS = [1, 2, 4, 8, 16, 32]
LARGEST_BLOCK = 16384


def label(columns: int, at_a_time: int) -> str:
    return f"softmax_{columns}_{at_a_time}"


def shapes() -> list[tuple[int, int]]:
    return [(c, r) for c, r in product(WIDTHS, AT_A_TIME) if c * r <= LARGEST_BLOCK]


def render(folder: Path, cases: Sequence[harness.Case]) -> None:
    from lego_mlir.templates.library.rows import softmax

    for columns, at_a_time in shapes():
        harness.keep(folder, label(columns, at_a_time), softmax(ROWS, columns, at_a_time=at_a_time).render())


def static() -> list[dict[str, Any]]:
    from rivals.triton_rows import softmax as hand

    from lego_mlir.templates.library.rows import block_of, softmax
    from lego_mlir.templates.run import triton

    rows = []
    types = {"x_ptr": "*fp32:16", "y_ptr": "*fp32:16"}
    for columns in (256, 1000, 1024, 4096, 16384):
        options = {"num_warps": 4 if columns <= 2048 else 8 if columns <= 8192 else 16}
        divisible = "i32:16" if columns % 16 == 0 else "i32"
        signature = types | dict.fromkeys(("x_stride", "y_stride", "columns"), divisible)
        by_hand = triton.compile_for(hand, signature, {"BLOCK": block_of(columns)}, **options)
        rendered = triton.compile_for(triton.load(softmax(ROWS, columns).render(), "softmax"), types, {}, **options)
        for who, compiled in (("by hand", by_hand), ("rendered", rendered)):
            rows.append(
                harness.static_row(compiled, "none", kernel=f"{columns} wide {who}", columns=columns, **options)
            )
    return rows


def timed(folder: Path, columns: int) -> list[harness.Contender]:
    import torch
    from rivals.triton_rows import softmax as hand

    x = torch.randn(ROWS, columns, device="cuda")
    y, block = torch.empty_like(x), 1 << (columns - 1).bit_length()

    def rendered(at_a_time: int, warps: int) -> Any:
        launch = harness.load(folder, label(columns, at_a_time), "softmax")[(-(-ROWS // at_a_time),)]
        return lambda: launch(x, y, num_warps=warps)

    def by_hand(warps: int) -> Any:
        return lambda: hand[(ROWS,)](x, y, x.stride(0), y.stride(0), columns, block, num_warps=warps)

    runs = {
        "rendered": {(r, w): rendered(r, w) for r, w in product(AT_A_TIME, WARPS) if (columns, r) in shapes()},
        "by hand": {w: by_hand(w) for w in WARPS},
    }
    results = [(y, torch.softmax(x, dim=1))]
    rows = [harness.fastest(who, choices, results, 1e-4, columns=columns) for who, choices in runs.items()]
    return [*rows, harness.contender(lambda: torch.softmax(x, dim=1), kernel="torch", columns=columns)]


def table() -> None:
    rows, lines = comparison.rows_of("triton_softmax"), []
    for columns in WIDTHS:
        ours, hand, torch = (comparison.find(rows, kernel=k, columns=columns) for k in ("rendered", "by hand", "torch"))
        config = {"rows, warps": comparison.configuration(ours)}
        lines.append(comparison.Line((str(columns),), ours, {"by hand": hand, "torch": torch}, config))
    comparison.write("triton_softmax", ["width"], lines)


CASES = [(columns,) for columns in WIDTHS]
BENCHMARK = runner.Benchmark("triton_softmax", CASES, timed, table, render, static, counts=True)

if __name__ == "__main__":
    sys.exit(runner.main(BENCHMARK))
