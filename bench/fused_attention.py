"""`lego_mlir.kernels.fused_attention` and its gradients on warpgroups, against torch's back ends.

A case is a direction, the size of a head, the length and the mask; 16,384 positions and 2,048 features in all, f16.
Kernels are those that `lego_mlir.attention` runs; those forward are for fixed sizes. The goal is at least 1.0 of the
fastest of torch's back ends.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import harness
import mlir_kernels
import runner

NAME, TARGET, FOLDER = "fused_attention", "sm_90a", harness.ARTIFACTS / "fused_attention"
POSITIONS, FEATURES = 16384, 2048  # of all batches, of all heads
LENGTHS, MASKS = (1024, 2048, 4096, 8192, 16384), ("full", "causal")
TOLERANCE = 1e-2
BLOCKS = 132  # of an H200
CASES = [
    *product(("forward",), (128, 64), LENGTHS, MASKS),
    *product(("backward",), (128, 64), (1024, 4096, 16384), MASKS),
]
LIBRARIES = {"torch cudnn": "torch cuDNN", "torch flash": "torch flash"}


def heads_of(features: int, length: int) -> int:
    """Heads of all batches."""
    return POSITIONS // length * FEATURES // features


def render(folder: Path, cases: Sequence[harness.Case]) -> None:
    """The cubins, each in a folder with its manifest."""
    from lego_mlir.kernels import added_gradients, fused_attention
    from lego_mlir.kernels.attention_forms import AttentionForm, HeadSizes, fastest

    for direction, features, length, mask in cases:
        form = AttentionForm(features, causal=mask == "causal")
        sizes = HeadSizes(1, heads_of(features, length), length, length)
        if direction == "forward":
            tile, blocks = fastest(form, sizes, BLOCKS)
            kernel = fused_attention.build(form, tile, sizes, blocks)
            mlir_kernels.keep_cubin(FOLDER / f"{features}-{length}-{mask}", kernel, TARGET)
        else:
            kernels = added_gradients.build(form)
            for kernel in (kernels.prepare, kernels.main, kernels.round):
                mlir_kernels.keep_cubin(FOLDER / f"gradients-{features}-{mask}", kernel, TARGET)


class Tensors:
    """One problem on the GPU, and every way to compute it."""

    def __init__(self, features: int, length: int, mask: str) -> None:
        import torch

        self.features, self.length, self.mask = features, length, mask
        self.heads = heads_of(features, length)
        shape = (1, self.heads, length, features)
        self.q, self.k, self.v, self.slope = (torch.randn(shape, device="cuda", dtype=torch.float16) for _ in range(4))

    def exact(self, head: int) -> list[Any]:
        """o and the gradients of one head, in f32."""
        import torch

        q, k, v = (x[0, head].float().requires_grad_() for x in (self.q, self.k, self.v))
        scores = q @ k.T / math.sqrt(self.features)
        if self.mask == "causal":
            seen = torch.ones_like(scores, dtype=torch.bool).tril()
            scores = scores.masked_fill(~seen, -math.inf)
        o = torch.softmax(scores, -1) @ v
        o.backward(self.slope[0, head].float())
        return [o.detach(), q.grad, k.grad, v.grad]

    def forward(self) -> Callable[[], Any]:
        """Ours; returns o and the log-sum-exps."""
        import lego_mlir

        folder = FOLDER / f"{self.features}-{self.length}-{self.mask}"
        return partial(lego_mlir.load_kernels(str(folder))["attention"], self.q, self.k, self.v)

    def backward(self) -> Callable[[], Any]:
        """Ours, from the results of the kernel forward; returns the gradients."""
        import lego_mlir

        o, lse = self.forward()()
        kernels = lego_mlir.load_kernels(str(FOLDER / f"gradients-{self.features}-{self.mask}"))
        prepare, main, round_ = (kernels[f"attention_{name}_gradients"] for name in ("prepared", "added", "rounded"))
        q, k, v, slope = self.q, self.k, self.v, self.slope

        def run() -> Any:
            delta, sums = prepare(o, slope)
            sums, dk, dv = main(q, k, v, slope, lse, delta, sums)
            return round_(sums), dk, dv

        return run

    def torch(self, direction: str) -> dict[str, Callable[[], Any]]:
        """Torch's back ends that take this problem."""
        import torch
        from torch.nn.attention import SDPBackend, sdpa_kernel

        given = [x.clone().requires_grad_(direction == "backward") for x in (self.q, self.k, self.v)]

        def attend(backend: Any) -> Any:
            with sdpa_kernel(backend):
                return torch.nn.functional.scaled_dot_product_attention(*given, is_causal=self.mask == "causal")

        found = {}
        for backend in (SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION):
            try:
                result = attend(backend)
            except RuntimeError as error:
                print(f"  no {backend.name}: {str(error).splitlines()[0][:100]}", file=sys.stderr)
                continue
            run = partial(attend, backend)
            if direction == "backward":
                run = partial(torch.autograd.grad, result, given, self.slope, retain_graph=True)
            found[f"torch {backend.name.removesuffix('_ATTENTION').lower()}"] = run
        return found


def timed(folder: Path, direction: str, features: int, length: int, mask: str) -> list[harness.Contender]:
    """The contenders of a case, ours right for the first and the last head."""
    case = Tensors(features, length, mask)
    facts = {"direction": direction, "features": features, "length": length, "mask": mask}
    run = case.forward() if direction == "forward" else case.backward()
    results = run()
    errors = []
    for head in (0, case.heads - 1):
        o, *gradients = case.exact(head)
        pairs = [(results[0], o)] if direction == "forward" else zip(results, gradients, strict=True)
        what = f"{direction} head {head}"
        errors += [harness.require_close(x[0, head].float(), e, TOLERANCE, what) for x, e in pairs]
    ours = harness.contender(run, kernel="lego", error=max(errors), **facts)
    others = (harness.contender(run, kernel=kernel, **facts) for kernel, run in case.torch(direction).items())
    return [ours, *others]


def table() -> None:
    """Milliseconds, teraflops, and times over ours."""
    measured, rows = mlir_kernels.by_case(mlir_kernels.newest(NAME)), []
    for case in CASES:
        found = measured.get(tuple(harness.words_of(case)), {})
        if "lego" not in found:
            continue
        direction, features, length, mask = case
        ours, products = found["lego"]["ms"], {"forward": 4, "backward": 10}[direction]
        speed = products * POSITIONS * FEATURES * length / (2 if mask == "causal" else 1) / ours / 1e9
        ratios = [f"{found[k]['ms'] / ours:.2f}" if k in found else "" for k in LIBRARIES]
        cells = [direction, str(features), str(length), mask, mlir_kernels.time_cell(found["lego"]), f"{speed:.0f}"]
        rows.append([*cells, *ratios])
    columns = f"|head|length|mask|ms (10th to 90th percentile)|Tflop/s|{'|'.join(LIBRARIES.values())}"
    made, note = mlir_kernels.table(columns, rows), "; above 1.00 ours is faster"
    mlir_kernels.put_results("results/attention.md", NAME, NAME, made, "torch", note=note)


BENCHMARK = runner.Benchmark(NAME, CASES, timed, table, render, protocol=harness.Protocol(patience_ms=1200))

if __name__ == "__main__":
    sys.exit(runner.main(BENCHMARK))
