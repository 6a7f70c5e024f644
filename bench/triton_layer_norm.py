"""Layer norm forward and backward, 4096 rows: rendered, by hand, and torch."""

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
WIDTHS = [512, 1000, 1024, 2048, 4096, 8192, 16384]
GROUPS = 132
BLOCK = 128
EPS = 1e-5
WARPS = [4, 8, 16]
STAGES = [1, 2, 3]  # of the rendered backward kernel: how many rows it reads ahead, and one


def template(columns: int, stages: int) -> Any:
    from lego_mlir.templates.library.rows import layer_norm

    return layer_norm(ROWS, columns, eps=EPS, groups=GROUPS, block=BLOCK, stages=stages)


def label(columns: int, stages: int) -> str:
    return f"layer_norm_{columns}_{stages}"


def render(folder: Path, cases: Sequence[harness.Case]) -> None:
    for columns, stages in product(WIDTHS, STAGES):
        harness.keep(folder, label(columns, stages), template(columns, stages).render())


def static() -> list[dict[str, Any]]:
    from rivals import triton_rows as hand

    from lego_mlir.templates.library.rows import block_of
    from lego_mlir.templates.run import triton

    rows = []
    vectors = dict.fromkeys(("mean_ptr", "rstd_ptr", "dw_ptr", "db_ptr"), "*fp32:16")
    arrays = dict.fromkeys(("x_ptr", "y_ptr", "dy_ptr", "dx_ptr", "w_ptr", "b_ptr"), "*fp16:16")
    for columns in (1000, 1024, 8192):
        options = {"num_warps": 4 if columns < 4096 else 8}
        numbers = {
            "stride": "i32:16" if columns % 16 == 0 else "i32",
            "columns": "i32:16" if columns % 16 == 0 else "i32",
        }
        numbers |= {"rows": "i32:16", "groups": "i32", "eps": "fp32"}
        types = vectors | arrays | numbers
        for name in ("layer_norm_forward", "layer_norm_backward"):
            by_hand = triton.compile_for(getattr(hand, name), types, {"BLOCK": block_of(columns)}, **options)
            found = {"by hand": by_hand}
            for stages in (1,) if name.endswith("forward") else (1, 3):
                kernel = triton.load(template(columns, stages).render(), name)
                found["rendered" if stages == 1 else "rendered, rows read ahead"] = triton.compile_for(
                    kernel, types, {}, **options
                )
            for who, compiled in found.items():
                what = f"{name.removeprefix('layer_norm_')} {columns} wide {who}"
                work = "none" if name.endswith("forward") else "LDG"
                rows.append(harness.static_row(compiled, work, kernel=what, columns=columns, **options))
    return rows


def timed(folder: Path, columns: int) -> list[harness.Contender]:
    import torch
    from rivals import triton_rows as hand

    x, dy = (torch.randn(ROWS, columns, device="cuda", dtype=torch.float16) for _ in "xy")
    w, b = (torch.randn(columns, device="cuda", dtype=torch.float16) for _ in "wb")
    y, dx, dw, db = torch.empty_like(x), torch.empty_like(x), torch.empty_like(w), torch.empty_like(b)
    mean, rstd = (torch.empty(ROWS, device="cuda") for _ in "mr")
    parts = [torch.empty(GROUPS, columns, device="cuda") for _ in "wb"]
    block, blocks = 1 << (columns - 1).bit_length(), (-(-columns // BLOCK),)
    names = ("layer_norm_forward", "layer_norm_backward", "sum_groups")
    ours_forward, _, ours_sum = (harness.load(folder, label(columns, 1), n) for n in names)
    ours_backward = {s: harness.load(folder, label(columns, s), "layer_norm_backward") for s in STAGES}

    def rendered_forward(warps: int) -> None:
        ours_forward[(ROWS,)](x, w, b, y, mean, rstd, num_warps=warps)

    def rendered_backward(warps: int, stages: int) -> None:
        ours_backward[stages][(GROUPS,)](dy, x, w, mean, rstd, dx, *parts, num_warps=warps)
        for part, out in zip(parts, (dw, db), strict=True):
            ours_sum[blocks](part, out)

    def forward_by_hand(warps: int) -> None:
        hand.layer_norm_forward[(ROWS,)](x, w, b, y, mean, rstd, columns, columns, EPS, block, num_warps=warps)

    def backward_by_hand(warps: int) -> None:
        numbers = (columns, ROWS, columns, GROUPS, block)
        hand.layer_norm_backward[(GROUPS,)](dy, x, w, mean, rstd, dx, *parts, *numbers, num_warps=warps)
        for part, out in zip(parts, (dw, db), strict=True):
            hand.sum_groups[blocks](part, out, columns, GROUPS, BLOCK)

    inputs = [t.clone().requires_grad_() for t in (x, w, b)]
    forward_torch = lambda: torch.nn.functional.layer_norm(*inputs[:1], (columns,), *inputs[1:], EPS)  # noqa: E731
    expected = forward_torch()
    backward_torch = lambda: torch.autograd.grad(expected, inputs, dy, retain_graph=True)  # noqa: E731
    one, ahead = [(w,) for w in WARPS], list(product(WARPS, STAGES))
    gradients = list(zip((dx, dw, db), backward_torch(), strict=True))
    rows = []
    for kernel, run, configs, results, tolerance in (
        ("forward rendered", rendered_forward, one, [(y, expected)], 5e-3),
        ("forward by hand", forward_by_hand, one, [(y, expected)], 5e-3),
        ("backward rendered", rendered_backward, ahead, gradients, 1e-2),
        ("backward by hand", backward_by_hand, one, gradients, 1e-2),
    ):
        runs = {config: lambda run=run, config=config: run(*config) for config in configs}
        rows.append(harness.fastest(kernel, runs, results, tolerance, columns=columns))
    rows.append(harness.contender(forward_torch, kernel="forward torch", columns=columns))
    return [*rows, harness.contender(backward_torch, kernel="backward torch", columns=columns)]


def table() -> None:
    rows, lines = comparison.rows_of("triton_layer_norm"), []
    for way, columns in product(("forward", "backward"), WIDTHS):
        ours, hand, torch = (
            comparison.find(rows, kernel=f"{way} {k}", columns=columns) for k in ("rendered", "by hand", "torch")
        )
        config = {"warps, stages": comparison.configuration(ours)}
        lines.append(comparison.Line((way, str(columns)), ours, {"by hand": hand, "torch": torch}, config))
    comparison.write("triton_layer_norm", ["direction", "width"], lines)


CASES = [(columns,) for columns in WIDTHS]
BENCHMARK = runner.Benchmark("triton_layer_norm", CASES, timed, table, render, static, counts=True)

if __name__ == "__main__":
    sys.exit(runner.main(BENCHMARK))
