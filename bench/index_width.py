"""What 32-bit indices do to the shipped kernels: registers, PTX and machine instructions, before and after.

    python bench/index_width.py count [WORD ..]   compile and assemble; only kernels with all these words in their name
    python bench/index_width.py table             the tables of docs/reference/irs.md

`count` prints a line for each kernel and updates bench/results/static/index_width-sm_90.json. No GPU.
Before: every index in 64 bits, and addresses of shared memory too.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import harness
import mlir_kernels
import runner

NAME, PAGE, TARGET = "index_width", "reference/irs.md", "sm_90"
MULTIPROCESSORS = 132  # of an H200, for persistent kernels
EXAMPLES = harness.BENCH.parent / "examples"
QUANTITIES = ("registers", "ptx", "instructions")
_INSTRUCTION = re.compile(r"^\t(?:@!?%p\d+ )?[a-z][\w.]*\b.*;$", re.MULTILINE)
_OF_OURS, _WIDE = "lego-narrow-indices", "--nvptx-short-ptr=0"


def kernels() -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """Family and name, the kernel, and how it is compiled."""
    from lego_mlir import Col, f16, f32, size, spec
    from lego_mlir.kernels import copy, transpose

    shapes = {
        "whole": (4096, 4096), "ragged": (4001, 4100), "symbolic": (size("M"), size("N")),
        "bounded": (size("M", max=16384), size("N", max=16384)),
    }  # fmt: skip
    for variant in transpose.VARIANTS:
        for shape, dtype in (("whole", f32), ("whole", f16), ("ragged", f32), ("symbolic", f32), ("bounded", f32)):
            kernel = transpose.build(variant, *shapes[shape], dtype)
            yield f"transpose, {shape} tiles | {variant} {dtype}", kernel, {}
    for width in (1, 4):
        yield f"copy | f32, {width} at once", copy.build(4096, 4096, f32, width=width), {}
    yield "copy | f32, rows to columns", copy.build(4096, 4096, f32, destination=Col(4096, 4096)), {}
    for example in ("matrix_copy", "transpose", "antidiagonal", "symbolic"):
        for name, kernel in spec.load(EXAMPLES / f"{example}.py").kernels.items():
            yield f"examples | {name} of {example}.py", kernel, {}
    pipelined = {"transform": "matmul_sm80.mlir"}
    product = spec.load(EXAMPLES / "matmul.py").kernels["matmul"]
    yield "examples | matmul.py", product, {**pipelined, "parameters": {"stages": 3}}
    yield from _products(pipelined)


def _products(pipelined: dict[str, Any]) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """The fastest product of each size that was measured, each choice once for each layout."""
    import product_tables

    from lego_mlir import Col, Row, f16
    from lego_mlir.kernels import matmul

    seen = set()
    for layouts, (m, n, k), choice in product_tables.fastest_sync():
        if (layouts, choice) in seen:
            continue
        seen.add((layouts, choice))
        a, b = ((Col if x == "T" else Row)(*shape) for x, shape in zip(layouts, ((m, k), (k, n)), strict=True))
        blocks = choice.blocks(MULTIPROCESSORS)
        tiling = {"tiling": choice, "order": choice.order, "blocks": blocks}
        kernel = matmul.build(m, n, k, f16, a=a, b=b, result=f16, **tiling)
        persistent = ", persistent" if blocks else ""
        tile = f"{choice.m}x{choice.n}x{choice.k}, {choice.warps[0]}x{choice.warps[1]} warps"
        name = f"{layouts} {m}x{n}x{k}, {tile}"
        yield f"matmul{persistent} | {name}", kernel, {**pipelined, "parameters": {"stages": choice.stages}}


def measured(job: tuple[str, str, bool]) -> dict[str, int]:
    """The figures of a module at the stage `transformed`."""
    from lego_mlir.hardware.targets import target_named
    from lego_mlir.toolchain import llvm, llvm_options, lowering

    _, text, narrow = job
    if not narrow:
        llvm_options.CHOSEN = (_WIDE,)  # before LLVM is set up: this process compiles nothing else
    lowerings = [each for each in lowering.LOWERINGS if narrow or each.name != _OF_OURS]
    ptx = llvm.to_ptx(lowering.to_llvm(lowering.to_nvvm(text, lowerings=lowerings)), target_named(TARGET))
    made = mlir_kernels.assembled(ptx, TARGET, 0)
    return {
        "registers": made.resources.registers,
        "ptx": len(_INSTRUCTION.findall(ptx)),
        "instructions": len(made.code),
        "spilled": made.resources.spill_stores,
    }


def count(words: list[str]) -> None:
    from lego_mlir.toolchain import compile_kernel

    chosen = [
        (name, compile_kernel(kernel, target=TARGET, emit="transformed", **how).outputs["transformed"].decode())
        for name, kernel, how in kernels()
        if all(word in name for word in words)
    ]
    rows: list[dict[str, Any]] = [{"kernel": name} for name, _ in chosen]
    for when, narrow in (("before", False), ("after", True)):
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            for row, found in zip(rows, pool.map(measured, [(*job, narrow) for job in chosen]), strict=True):
                row[when] = found
    for row in rows:
        print(f"{row['kernel']:75}", *(f"{row['before'][q]:5} -> {row['after'][q]:5}" for q in QUANTITIES))
    path = mlir_kernels.RESULTS / "static" / f"{NAME}-{TARGET}.json"
    found = {row["kernel"]: row for row in (json.loads(path.read_text()) if path.is_file() else []) + rows}
    order = [name for name, *_ in kernels()]
    path.write_text(json.dumps([found[name] for name in order if name in found], indent=1) + "\n")
    print(path)


def table() -> None:
    """By family: how many kernels, the sum of each figure, the largest growth of each."""
    rows = mlir_kernels.static_results(NAME, TARGET)
    families: dict[str, list[Any]] = {}
    for row in rows:
        families.setdefault(row["kernel"].split(" | ")[0], []).append(row)
    cells = [[name, str(len(found)), *_cells(found)] for name, found in [*families.items(), ("all", rows)]]
    heads = ["kernels", "number", *(f"{q}|worst" for q in ("registers", "PTX instructions", "machine instructions"))]
    mlir_kernels.put_into(PAGE, f"{NAME} static", mlir_kernels.table("|".join(heads), cells))


def _cells(rows: list[Any]) -> list[str]:
    """The geometric mean of after / before, and the largest difference."""
    cells = []
    for quantity in QUANTITIES:
        ratios = [math.log(row["after"][quantity] / row["before"][quantity]) for row in rows]
        worst = max(row["after"][quantity] - row["before"][quantity] for row in rows)
        cells += [f"x {math.exp(sum(ratios) / len(ratios)):.2f}", f"{worst:+d}"]
    return cells


BENCHMARK = runner.Benchmark(NAME, table=table, steps={"count": count})

if __name__ == "__main__":
    sys.exit(runner.main(BENCHMARK))
