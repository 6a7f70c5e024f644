"""Figure 14 of LEGO: Rodinia's Needleman-Wunsch, in which only the layout of the score buffer changes.

Two kernels, over the growing and the shrinking diagonals of blocks; in a block all threads wait after each diagonal of
the buffer. `CUDA` is rivals/nw.py, where the anti-diagonal buffer is the array class of `lego_mlir.templates.header`,
as in the paper; `ours` is the same algorithm in the kernel language. ptxas makes the machine code of both.
"""

# mypy: disable-error-code="valid-type"
# (A kernel's annotations are declarations of tensors, evaluated when it is built, and are not types.)

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import comparison
import harness
import mlir_kernels
import nw
import runner
from rivals import nw as by_hand

NAME, TARGET = "nw_layouts", "sm_90"
SIZES, BLOCKS = nw.SIZES, (16, 32, 64)
LAYOUTS = ("row-major", "anti-diagonal", "padded")
HALVES = ("growing", "shrinking")
CASES = list(product(SIZES, BLOCKS))


def built(n: int, b: int, layout: str) -> dict[str, Any]:
    """The kernels of both halves, for n letters: `count` blocks of b threads, on one diagonal of blocks."""
    import lego_mlir as lego
    from lego_mlir import Row, i32
    from lego_mlir.templates.library.nw import buffer

    blocks, tile = n // b, buffer(layout, b)
    count = lego.size("count", min=1, max=blocks)
    matrix = lego.Tensor(i32, Row(n + 1, n + 1))

    def score(temp: Any, ref: Any, penalty: Any, i: Any, j: Any) -> None:
        gap = lego.maximum(temp[i, j - 1], temp[i - 1, j]) - penalty
        temp[i, j] = lego.maximum(temp[i - 1, j - 1] + ref[i - 1, j - 1], gap)

    def block(scores: Any, substitution: Any, penalty: Any, row: Any, column: Any) -> None:
        t, temp, ref = lego.thread_id[0], lego.shared(i32, tile), lego.shared(i32, Row(b, b))
        top, left = row * b, column * b
        for r in lego.unroll(b):
            ref[r, t] = substitution[top + r + 1, left + t + 1]
        with lego.when(t == 0):
            temp[0, 0] = scores[top, left]
        temp[t + 1, 0] = scores[top + t + 1, left]
        temp[0, t + 1] = scores[top, left + t + 1]
        lego.barrier()
        for m in lego.range(b):
            with lego.when(t <= m):
                score(temp, ref, penalty, m - t + 1, t + 1)
            lego.barrier()
        for past in lego.range(1, b):
            with lego.when(t < b - past):
                score(temp, ref, penalty, b - t, t + past + 1)
            lego.barrier()
        for r in lego.unroll(b):
            scores[top + r + 1, left + t + 1] = temp[r + 1, t + 1]

    @lego.kernel(grid=count, block=b)
    def growing(scores: matrix, substitution: matrix, penalty: i32):
        """Blocks (count - 1 - k, k): a diagonal up to the longest."""
        k = lego.block_id[0]
        block(scores, substitution, penalty, count - 1 - k, k)

    @lego.kernel(grid=count, block=b)
    def shrinking(scores: matrix, substitution: matrix, penalty: i32):
        """Blocks (blocks - 1 - k, blocks - count + k): a diagonal after the longest."""
        k = lego.block_id[0]
        block(scores, substitution, penalty, blocks - 1 - k, blocks - count + k)

    return {"growing": growing, "shrinking": shrinking}


def cuda(n: int, b: int, layout: str) -> str:
    """The CUDA text: a plain array for row-major and padded, the paper's array class for the anti-diagonal layout."""
    from lego_mlir import size
    from lego_mlir.layout import gallery
    from lego_mlir.templates.header import header

    if layout != "anti-diagonal":
        return by_hand.source(n, b, int(layout == "padded"))
    return by_hand.source(n, b, 0, header("AntiDiag", gallery.antidiagonal(size("n", max=1024))))


def shared_bytes(b: int, layout: str) -> int:
    return by_hand.shared_bytes(b, int(layout == "padded"))


def label(n: int, b: int, layout: str) -> str:
    return f"nw_layouts_{n}_{b}_{layout}"


def render(folder: Path, cases: Sequence[harness.Case]) -> None:
    for n, b, layout in product(SIZES, BLOCKS, LAYOUTS):
        name = label(n, b, layout)
        (folder / f"{name}.cu").write_text(cuda(n, b, layout))
        for kernel in built(n, b, layout).values():
            mlir_kernels.keep_cubin(folder / name, kernel, TARGET)


def static() -> list[dict[str, Any]]:
    from lego_mlir.templates.run import nvcc, triton
    from lego_mlir.toolchain import compile_kernel, sass

    rows = []
    for b, layout in product(BLOCKS, LAYOUTS):
        made = compile_kernel(built(2048, b, layout)["growing"], target=TARGET)
        ours = mlir_kernels.assembled(made.text, TARGET, mlir_kernels.shared_bytes(made))
        compiled = nvcc.compile_text(cuda(2048, b, layout), target=TARGET)
        listing = triton.listing(compiled.cubin).split("Function : nw_growing")[1].split("Function :")[0]
        growing = next(r for r in compiled.resources if r.kernel == "nw_growing")
        code = SimpleNamespace(code=sass.read(listing), resources=growing, shared_bytes=shared_bytes(b, layout))
        rows += [_row("ours", b, layout, ours), _row("CUDA", b, layout, code)]
    return rows


def _row(who: str, b: int, layout: str, code: Any) -> dict[str, Any]:
    """Figures of one kernel; of the loop over diagonals, if it is not unrolled, the instructions for one diagonal."""
    from lego_mlir.toolchain import sass

    row = harness.static_row(code, "MNMX", kernel=f"b = {b} {who}, {layout}", who=who, b=b, layout=layout)
    stores = sum(i.name == "STS" for i in sass.main_loop(code.code, "MNMX"))
    return {**row, "loop_instructions": row["loop_instructions"] / stores if stores else None}


# -- on the GPU machine


def timed(folder: Path, n: int, b: int) -> list[harness.Contender]:
    import cupy

    substitution = cupy.random.randint(-10, 11, (n + 1, n + 1), dtype=cupy.int32)
    scores = cupy.empty((n + 1, n + 1), cupy.int32)
    expected = cupy.asarray(nw.in_numpy(substitution.get())) if n <= nw.CHECKED else None
    rows = []
    for who, layout in product(("CUDA", "ours"), LAYOUTS):
        name = label(n, b, layout)
        if who == "CUDA":
            text = harness.rendered(folder / f"{name}.cu").read_text()
            launch = nw.captured(cupy, text, scores, substitution, n // b, b, shared_bytes(b, layout))
        else:
            launch = captured(cupy, folder / name, scores, substitution, n // b, b)
        expected = nw.checked(cupy, launch, scores, expected, f"nw {n} {b} {who} {layout}")
        rows.append(harness.contender(launch, kernel=f"{who}, {layout}", who=who, layout=layout, n=n, b=b))
    return rows


def captured(cupy: Any, folder: Path, scores: Any, substitution: Any, blocks: int, b: int) -> Any:
    """All launches of our kernels as a CUDA graph."""
    modules = [cupy.RawModule(path=str(harness.rendered(folder / f"{half}.cubin"))) for half in HALVES]
    facts = [json.loads((folder / f"{half}.json").read_text())["kernels"][0] for half in HALVES]
    halves = [module.get_function(fact["entry"]) for module, fact in zip(modules, facts, strict=True)]

    def given(d: int, count: int) -> tuple[Any, ...]:
        return scores, substitution, cupy.int32(nw.PENALTY), cupy.int64(count)

    return nw.graph_of(cupy, halves, [fact["dynamic_shared_bytes"] for fact in facts], blocks, b, given, modules)


def table() -> None:
    rows, lines = comparison.rows_of(NAME), []
    for n, b in CASES:
        found = {key: comparison.find(rows, kernel=f"{key}", n=n, b=b) for key in CONTENDERS}
        ours = found.pop("CUDA, anti-diagonal")
        lines.append(comparison.Line((str(n), str(b)), ours, found, {"ours: row-major / anti-diagonal": _gain(found)}))
    comparison.write(NAME, ["n", "b"], lines, ours="CUDA, anti-diagonal")


CONTENDERS = [f"{who}, {layout}" for who, layout in product(("CUDA", "ours"), LAYOUTS)]


def _gain(found: dict[str, Any]) -> str:
    before, after = (found[f"ours, {layout}"] for layout in LAYOUTS[:2])
    return "" if before is None or after is None else f"{before['ms'] / after['ms']:.2f}"


BENCHMARK = runner.Benchmark(NAME, CASES, timed, table, render, static, counts=True)

if __name__ == "__main__":
    sys.exit(runner.main(BENCHMARK))
