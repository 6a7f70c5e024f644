"""How long it takes to render a shipped kernel: simplification, proofs, printing. Medians, printed.

    python bench/render.py

Cold is the first time in a process that has imported everything, with no tables of expressions; warm is any later time
for the same sizes; new sizes is a warm process that has not seen these. The goal is 150 ms, warm.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

REPETITIONS = 15


def kernels() -> dict[str, Callable[[int], Any]]:
    """Each kernel for sizes that differ from call to call."""
    from lego_mlir import size
    from lego_mlir.templates.library.attention import attention
    from lego_mlir.templates.library.matmul import batched_matmul, grouped_gemm, matmul, matmul_fp8
    from lego_mlir.templates.library.nw import nw
    from lego_mlir.templates.library.rows import layer_norm, softmax
    from lego_mlir.templates.library.stencil import bricks, stencil

    def symbols(k: int) -> list[Any]:
        return [size(name, max=16384 + 128 * k, multiple_of=128) for name in "MNK"]

    return {
        "matmul": lambda k: matmul(4096 + 256 * k, 4096, 4096, b="T"),
        "matmul, descriptors": lambda k: matmul(4096 + 256 * k, 4096, 4096, a="T", descriptors=True),
        "matmul, sizes as arguments": lambda k: matmul(*symbols(k)),
        "matmul, ragged": lambda k: matmul(4001 + k, 4001, 4001),
        "matmul fp8, the copy": lambda k: matmul_fp8(4096 + 256 * k, 4096, 4096).copy_b,
        "batched matmul": lambda k: batched_matmul(16, 512, 512 + 64 * k, 512),
        "grouped gemm": lambda k: grouped_gemm(largest=8192 + 64 * k),
        "softmax": lambda k: softmax(4096, 1000 + k),
        "layer norm": lambda k: layer_norm(4096, 1000 + k),
        "layer norm, rows in parts": lambda k: layer_norm(4096, 16001 + k),
        "attention": lambda k: attention(4, 16, 1000 + k, 64, causal=True),
        "attention, descriptors": lambda k: attention(4, 16, 1000 + k, 64, causal=True, descriptors=True),
        "needleman-wunsch": lambda k: nw(2048 + 32 * k, 32, "anti-diagonal"),
        "27-point stencil in bricks": lambda k: stencil(
            64 + 8 * k, "27-point", bricks(64 + 8 * k), block=(1, 8, 2), each=(4, 4)
        ),
    }


def timed(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    run()
    return (time.perf_counter() - start) * 1000


def main() -> None:
    from lego_mlir.expr.context import forget

    made = kernels()
    next(iter(made.values()))(99).render()  # imports
    print(f"{'milliseconds':30}{'cold':>8}{'warm':>8}{'new sizes':>11}")
    for name, make in made.items():
        forget()
        template = make(0)
        cold = timed(template.render)
        warm = median(timed(template.render) for _ in range(REPETITIONS))
        new = median(timed(make(k).render) for k in range(1, REPETITIONS))
        print(f"{name:30}{cold:8.1f}{warm:8.1f}{new:11.1f}")


if __name__ == "__main__":
    main()
