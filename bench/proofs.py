"""Verdicts on every shipped kernel and example, and the time that they take: `python bench/proofs.py`.

The time is of one process's CPU, without tracing the kernel, the best of three. One JSON object a kernel, then the sum.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import runner

import lego_mlir as lego
from lego_mlir import f16, f32, spec
from lego_mlir.errors import SpecError
from lego_mlir.expr.simplify import forget
from lego_mlir.kernels import copy, matmul, transpose
from lego_mlir.proofs.claims import kernel_claims

EXAMPLES = Path(__file__).parents[1] / "examples"
REPEATS = 3


def kernels() -> Iterator[tuple[str, lego.Kernel]]:
    """The kernels that ship, with symbolic sizes where they can have them, and those of the examples."""
    M, N = lego.size("M"), lego.size("N")
    yield "copy", copy.build(M, N, f32)
    yield "copy, four at once", copy.build(M, lego.size("N", multiple_of=4), f32, width=4)
    for variant in transpose.VARIANTS:
        step = 4 if variant == "vectorised" else 1
        sizes = lego.size("M", multiple_of=step), lego.size("N", multiple_of=step)
        yield f"transpose, {variant}", transpose.build(variant, *sizes, f32)
        yield f"transpose, {variant}, 1024 x 2048", transpose.build(variant, 1024, 2048, f32)
    for order in ("row", "grouped", "morton"):
        yield f"matmul, {order}", matmul.build(1024, 1024, 512, f16, order=order)
    yield "matmul, 1000 x 1000 x 500", matmul.build(1000, 1000, 500, f16)
    yield "matmul, persistent", matmul.build(8192, 8192, 8192, f16, blocks=132)
    for path in sorted([*EXAMPLES.glob("*.py"), *EXAMPLES.glob("first_day/*.py")]):
        try:
            loaded = spec.load(path)
        except SpecError:
            continue
        for name, kernel in loaded.kernels.items():
            yield f"{path.relative_to(EXAMPLES)}: {name}", kernel


def verdicts(_: Sequence[str]) -> None:
    total: Counter[str] = Counter()
    for name, kernel in kernels():
        kernel.trace()
        best = float("inf")
        for _ in range(REPEATS):
            forget()
            start = time.process_time()
            found = list(kernel_claims(kernel, tried=False))
            best = min(best, time.process_time() - start)
        counts = Counter(type(verdict).__name__.lower() for _, verdict in found)
        total += counts
        unknown = [claim for claim, verdict in found if not verdict]
        print(json.dumps({"kernel": name, **counts, "seconds": round(best, 3), "not proved": unknown}), flush=True)
    print(json.dumps({"kernel": "all", **total, "share": round(total["proved"] / total.total(), 4)}))


BENCHMARK = runner.Benchmark("proofs", steps={"verdicts": verdicts})

if __name__ == "__main__":
    sys.exit(runner.main(BENCHMARK))
