"""The attention of examples/attention_spread.py by the layout engine, next to the same with its layouts by hand.

python bench/attention_layouts.py render          cubins of both, no GPU
python bench/attention_layouts.py time [CASE ..]  on the GPU machine: equal results, then times in turns
python bench/attention_layouts.py table           the times of docs/reference/layout-engine.md
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import geometric_mean

import harness
import mlir_kernels
import runner

NAME, TARGET = "attention_layouts", "sm_90a"
WAYS = {"engine": harness.BENCH.parent / "examples" / "attention_spread.py",
        "by hand": harness.BENCH / "rivals" / "attention_by_hand.py"}  # fmt: skip
FORMS = {"causal": {"causal": True}, "not causal": {}, "always rescaled": {"causal": True, "lazy": False}}
SIZES = ((64, 2048), (64, 4000))
CASES = [f"{form}, {heads} x {positions}" for form in FORMS for heads, positions in SIZES]


def render(folder: Path, _: Sequence[harness.Case]) -> None:
    """The kernels of each form, for any length."""
    sys.path[:0] = [str(path.parent) for path in WAYS.values()]
    for way, path in WAYS.items():
        module = __import__(path.stem)
        for form, options in FORMS.items():
            kernel = module.build(**options)
            scheduled = kernel.schedule("warpgroups") if way == "engine" else kernel
            mlir_kernels.keep_cubin(folder / f"{form} {way}".replace(" ", "-"), scheduled, TARGET)


def contenders(folder: Path, case: str) -> list[harness.Contender]:
    import cupy
    import torch

    from lego_mlir.runtime import cuda

    form, _, sizes = case.partition(", ")
    heads, positions = map(int, sizes.split(" x "))
    q, k, v = (torch.randn(heads, positions, 64, device="cuda").half() for _ in range(3))
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal="not" not in form)
    found = []
    for way in WAYS:
        kernel = cuda.load(harness.rendered(folder / f"{form} {way}".replace(" ", "-") / "attention.cubin")).kernel()
        out = torch.empty_like(q)
        arrays = [cupy.from_dlpack(x).reshape(-1) for x in (q, k, v, out)]
        launch = partial(kernel, *arrays, sizes={"H": heads, "S": positions})
        launch()
        torch.cuda.synchronize()
        harness.require_close(out, expected, 5e-3, f"{way} {case}")
        found.append(harness.contender(launch, kernel=way))
    return found


def table() -> None:
    """The time by hand over that by the engine."""
    times = {case: {way: row["ms"] for way, row in found.items()}
             for (case, *_), found in mlir_kernels.by_case(mlir_kernels.newest(NAME)).items()}  # fmt: skip
    ratios = {case: found["by hand"] / found["engine"] for case, found in times.items()}
    lines = [[case, *(f"{1000 * times[case][way]:.1f}" for way in WAYS), f"{r:.3f}"] for case, r in ratios.items()]
    made = mlir_kernels.table("heads x positions|engine, us|by hand, us|by hand over engine", lines)
    note = f". In geometric mean {geometric_mean(ratios.values()):.3f}"
    mlir_kernels.put_results("reference/layout-engine.md", "attention-layouts", NAME, made, "torch", note=note)


BENCHMARK = runner.Benchmark(NAME, [(case,) for case in CASES], contenders, table, render, target=TARGET)

if __name__ == "__main__":
    sys.exit(runner.main(BENCHMARK))
