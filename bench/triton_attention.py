"""Fused attention forward, f16, 64 features: rendered, by hand, and torch's scaled_dot_product_attention."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import comparison
import harness
import runner

BATCH, HEADS, FEATURES = 4, 16, 64
POSITIONS = [512, 1000, 1024, 2048, 4096, 8192]
CONFIGS = [((128, 64), 4, 3), ((128, 64), 8, 3), ((128, 128), 8, 2), ((64, 64), 4, 3)]
FORMS = ["pointers", "descriptors"]


def label(positions: int, tile: tuple[int, int], causal: bool, form: str) -> str:
    return f"attention_{positions}_{tile[0]}x{tile[1]}_{'causal' if causal else 'full'}_{form}"


def template(positions: int, tile: tuple[int, int], causal: bool, form: str) -> Any:
    from lego_mlir.templates.library.attention import attention

    return attention(BATCH, HEADS, positions, FEATURES, causal=causal, tile=tile, descriptors=form == "descriptors")


def render(folder: Path, cases: Sequence[harness.Case]) -> None:
    for positions, causal, form in product(POSITIONS, (False, True), FORMS):
        for tile in {tile for tile, _, _ in CONFIGS}:
            text = template(positions, tile, causal, form).render()
            harness.keep(folder, label(positions, tile, causal, form), text)


def static() -> list[dict[str, Any]]:
    from rivals.triton_attention import attention as hand

    from lego_mlir.templates.run import triton

    rows = []
    types = dict.fromkeys(("q_ptr", "k_ptr", "v_ptr", "o_ptr"), "*fp16:16") | {"lse_ptr": "*fp32:16"}
    tile, warps, stages = CONFIGS[0]
    options = {"num_warps": warps, "num_stages": stages}
    for positions, causal in ((4096, False), (4096, True), (1000, False)):
        numbers = {"scale": "fp32", "heads": "i32:16", "positions": "i32:16" if positions % 16 == 0 else "i32"}
        numbers |= dict.fromkeys(("stride_b", "stride_h", "stride_s"), "i32:16")
        constants = {"stride_d": 1, "D": FEATURES, "BLOCK_M": tile[0], "BLOCK_N": tile[1], "CAUSAL": causal}
        by_hand = triton.compile_for(hand, types | numbers, constants, **options)
        found = {"by hand": by_hand}
        for form in FORMS:
            kernel = triton.load(template(positions, tile, causal, form).render(), "attention")
            found[f"rendered, {form}"] = triton.compile_for(kernel, types, {}, **options)
        for who, compiled in found.items():
            what = f"{positions} positions, {'causal' if causal else 'full'}, {who}"
            rows.append(harness.static_row(compiled, "GMMA", kernel=what, tile=tile, **options))
    return rows


def timed(folder: Path, positions: int, mask: str) -> list[harness.Contender]:
    import torch
    from rivals.triton_attention import attention as hand

    causal, shape = mask == "causal", (BATCH, HEADS, positions, FEATURES)
    q, k, v = (torch.randn(shape, device="cuda", dtype=torch.float16) for _ in "qkv")
    o, lse = torch.empty_like(q), torch.empty(shape[:3], device="cuda")
    scale = math.log2(math.e) / math.sqrt(FEATURES)

    harness.descriptors_need_memory()

    def rendered(tile: Any, warps: int, stages: int, form: str) -> Any:
        kernel = harness.load(folder, label(positions, tile, causal, form), "attention")
        launch = kernel[(BATCH * HEADS * -(-positions // tile[0]),)]
        return lambda: launch(q, k, v, o, lse, num_warps=warps, num_stages=stages)

    def by_hand(tile: Any, warps: int, stages: int) -> Any:
        launch = hand[(-(-positions // tile[0]), BATCH * HEADS)]
        numbers = (scale, HEADS, positions, *q.stride(), FEATURES, *tile, causal)
        return lambda: launch(q, k, v, o, lse, *numbers, num_warps=warps, num_stages=stages)

    attend = lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)  # noqa: E731
    facts = {"positions": positions, "causal": causal}
    choices = {
        "rendered": {(*config, form): rendered(*config, form) for config in CONFIGS for form in FORMS},
        "by hand": {config: by_hand(*config) for config in CONFIGS},
    }
    results = [(o, attend())]
    rows = [harness.fastest(who, runs, results, 1e-2, **facts) for who, runs in choices.items()]
    return [*rows, harness.contender(attend, kernel="torch", **facts)]


def table() -> None:
    rows, lines = comparison.rows_of("triton_attention"), []
    for mask, positions in product(("full", "causal"), POSITIONS):
        facts = {"positions": positions, "causal": mask == "causal"}
        ours, hand, torch = (comparison.find(rows, kernel=k, **facts) for k in ("rendered", "by hand", "torch"))
        config = {"tile, warps, stages, form": comparison.configuration(ours)}
        lines.append(comparison.Line((mask, str(positions)), ours, {"by hand": hand, "torch": torch}, config))
    comparison.write("triton_attention", ["mask", "positions"], lines)


CASES = list(product(POSITIONS, ("full", "causal")))
BENCHMARK = runner.Benchmark("triton_attention", CASES, timed, table, render, static, counts=True)

if __name__ == "__main__":
    sys.exit(runner.main(BENCHMARK))
