"""`lego_mlir.kernels.fused_attention`, heads first and rows first, against FlashAttention-3 and cuDNN.

    python bench/flash_attention.py render [WORD ..]   the kernels as cubins for sm_90a, no GPU; words choose cases
    python bench/flash_attention.py time [WORD ..]     on the GPU machine, with the package fa3-fwd: errors, then times
    python bench/flash_attention.py table              the table of docs/results/attention.md, from the newest times

A case is the features of a head, the mask and the length; 16,384 positions and 2,048 features in all, bf16. Arrays are
[batch, heads, positions, features] (heads first) or [batch, positions, heads, features] (rows first), which is what
FlashAttention-3 reads; one kernel of ours reads both by their strides, and takes all lengths.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from functools import partial
from itertools import product
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import harness
import mlir_kernels
import runner

NAME, TARGET, FOLDER = "flash_attention", "sm_90a", harness.ARTIFACTS / "flash_attention"
POSITIONS, FEATURES, BLOCKS = 16384, 2048, 132  # of all batches, of all heads, of an H200
LENGTHS, MASKS = (512, 777, 2048, 3001, 6100, 8192, 16384), ("full", "causal")
CASES = [*product((64, 96, 128, 192, 256), MASKS, LENGTHS)]
PROTOCOL = harness.Protocol(patience_ms=800)
TOLERANCE = 2e-2
BASELINES = {"fa3": "FlashAttention-3", "torch cudnn": "cuDNN"}


def kernel_of(features: int, mask: str, length: int) -> tuple[Path, Any]:
    """Where the kernel of a case is kept, and the kernel: one for all lengths that have its tile and its blocks."""
    from lego_mlir import bf16
    from lego_mlir.kernels.attention_forms import AttentionForm, HeadSizes, fastest
    from lego_mlir.kernels.fused_attention import build

    form = AttentionForm(features, bf16, causal=mask == "causal")
    tile, blocks = fastest(form, HeadSizes(*batch_of(features, length), length, length), BLOCKS)
    shown = f"{tile.groups}-{tile.keys}-{tile.stages}{'-turns' * tile.turns}"
    return FOLDER / f"{features}-{mask}-{shown}-{blocks or 'each'}", partial(build, form, tile, blocks=blocks)


def batch_of(features: int, length: int) -> tuple[int, int]:
    """Batches and heads."""
    return max(POSITIONS // length, 1), FEATURES // features


def render(folder: Path, cases: Sequence[harness.Case]) -> None:
    """The cubins, and which one a case takes."""
    taken = {}
    for case in cases:
        kept, build = kernel_of(*case)
        taken["-".join(map(str, case))] = kept.name
        if not kept.is_dir():
            mlir_kernels.keep_cubin(kept, build(), TARGET)
    (folder / "taken.json").write_text(json.dumps(taken, indent=1) + "\n")


def timed(folder: Path, features: int, mask: str, length: int) -> list[harness.Contender]:
    """The contenders of a case, each compared with the result in f32 for the first and the last head."""
    import torch

    import lego_mlir

    taken = json.loads((folder / "taken.json").read_text())["-".join(map(str, (features, mask, length)))]
    kernel = lego_mlir.load_kernels(str(folder / taken))["attention"]
    batch, heads = batch_of(features, length)
    rows_first = [torch.randn(batch, length, heads, features, device="cuda", dtype=torch.bfloat16) for _ in range(3)]
    views, heads_first = zip(*((x.transpose(1, 2), x.transpose(1, 2).contiguous()) for x in rows_first), strict=True)
    runs = {"lego": partial(kernel, *heads_first)}
    strides = dict(zip(("o_batch", "o_head", "o_row"), views[0].stride(), strict=False))
    runs["lego rows first"] = partial(kernel, *views, **strides)
    runs |= {"fa3": _flash(rows_first, mask), "torch cudnn": _cudnn(heads_first, mask)}
    exact = {at: _exact([x[at] for x in views], mask) for at in ((0, 0), (batch - 1, heads - 1))}
    found = []
    for name, run in runs.items():
        try:
            result = run()
        except Exception as error:  # a size that a baseline does not take
            print(f"  no {name}: {str(error).splitlines()[0][:100]}", file=sys.stderr)
            continue
        o = result[0] if isinstance(result, tuple) else result
        o = o.transpose(1, 2) if name == "fa3" else o
        error = max(harness.require_close(o[at].float(), e, TOLERANCE, name) for at, e in exact.items())
        facts = {"features": features, "mask": mask, "length": length, "taken": taken, "error": error}
        found.append(harness.contender(run, kernel=name, **facts))
    return found


def _flash(given: list[Any], mask: str) -> Any:
    import fa3_fwd_interface

    return partial(fa3_fwd_interface.flash_attn_func, *given, causal=mask == "causal")


def _cudnn(given: tuple[Any, ...], mask: str) -> Any:
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def attend() -> Any:
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return torch.nn.functional.scaled_dot_product_attention(*given, is_causal=mask == "causal")

    return attend


def _exact(given: list[Any], mask: str) -> Any:
    import torch

    q, k, v = (x.float() for x in given)
    scores = q @ k.T / math.sqrt(q.shape[-1])
    if mask == "causal":
        scores = scores.masked_fill(~torch.ones_like(scores, dtype=torch.bool).tril(), -math.inf)
    return torch.softmax(scores, -1) @ v


def table() -> None:
    """Teraflops, and times over ours: of rows first for FlashAttention-3, of heads first for cuDNN."""
    measured, rows, ratios = mlir_kernels.by_case(mlir_kernels.newest(NAME)), [], {}
    for case in CASES:
        found, (features, mask, length) = measured.get(tuple(harness.words_of(case)), {}), case
        if "lego" not in found:
            continue
        ours = {"torch cudnn": found["lego"]["ms"], "fa3": found["lego rows first"]["ms"]}
        batch, heads = batch_of(features, length)
        speed = 4 * batch * heads * features * length**2 / (2 if mask == "causal" else 1) / ours["fa3"] / 1e9
        cells = {name: found[name]["ms"] / ours[name] for name in BASELINES if name in found}
        for name, ratio in cells.items():
            ratios.setdefault((features, mask, name), []).append(ratio)
        shown = [f"{cells[name]:.2f}" if name in cells else "" for name in BASELINES]
        first = [str(features), mask, str(length), mlir_kernels.time_cell(found["lego rows first"]), f"{speed:.0f}"]
        rows.append([*first, *shown, f"{ours['torch cudnn'] / ours['fa3']:.2f}"])
    columns = f"head|mask|length|ms (10th to 90th percentile)|Tflop/s|{'|'.join(BASELINES.values())}|heads first"
    means = [f"{k[0]} {k[1]} {BASELINES[k[2]]} {geometric_mean(r):.3f}, least {min(r):.3f}" for k, r in ratios.items()]
    note = f"; above 1.00 ours is faster. Geometric means: {'; '.join(means)}"
    mlir_kernels.put_results("results/attention.md", NAME, NAME, mlir_kernels.table(columns, rows), "torch", note=note)


BENCHMARK = runner.Benchmark(NAME, CASES, timed, table, render, target=TARGET, protocol=PROTOCOL)

if __name__ == "__main__":
    sys.exit(runner.main(BENCHMARK))
