"""LLVM's options and the width of indices: what they do to machine code, registers and spilled bytes. No GPU.

    python bench/llvm_options.py compare [target=sm_90a] [OPTIONS ..]   sets of options over all examples
    python bench/llvm_options.py count [WORD ..]   the shipped kernels with indices in 64 bits, and in 32 where they fit
    python bench/llvm_options.py table             the tables of docs/reference/irs.md, of what `count` kept

Options are global to a process, so each set compiles in one of its own; give those that begin with `-` after `--`.
`lego_mlir/toolchain/llvm_options.py` has those that were chosen. `count` chooses kernels by words of their names,
prints a line for each, and updates bench/results/static/index_width-sm_90.json; before: every index in 64 bits, and
addresses of shared memory too.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import harness
import mlir_kernels
import runner

NAME, PAGE, TARGET = "index_width", "reference/irs.md", "sm_90"
MULTIPROCESSORS = 132  # of an H200, for persistent kernels
EXAMPLES = harness.BENCH.parent / "examples"
QUANTITIES = ("registers", "ptx", "instructions")
PADDING = ("NOP", "BRA")
"""`NOP` fills the end of a function, and a `BRA` to itself follows its last instruction."""
TRIED = (
    "-disable-machine-sink", "-instcombine-code-sinking=0", "-disable-machine-sink -instcombine-code-sinking=0",
    "-nvptx-sched4reg", "-disable-machine-licm", "-disable-lsr",
)  # fmt: skip
_INSTRUCTION = re.compile(r"^\t(?:@!?%p\d+ )?[a-z][\w.]*\b.*;$", re.MULTILINE)
_OF_OURS, _WIDE = "lego-narrow-indices", "--nvptx-short-ptr=0"


def choose(options: Sequence[str]) -> None:
    """Take LLVM's options, before it is set up: this process compiles nothing else."""
    from lego_mlir.toolchain import llvm_options

    llvm_options.CHOSEN = tuple(options)


def in_own_process(options: Sequence[str] | None, work: Any, jobs: Sequence[Any]) -> list[Any]:
    """The results of jobs in a process with these options, by default those that were chosen."""
    given = {} if options is None else {"initializer": choose, "initargs": (options,)}
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), **given) as pool:
        return list(pool.map(work, jobs))


# -- options over the examples


def texts(target: str) -> dict[str, str]:
    """The LLVM IR of every kernel of the examples that compiles without a transform script."""
    from lego_mlir import spec
    from lego_mlir.toolchain import compile_kernel

    found = {}
    for folder in (EXAMPLES / "first_day", EXAMPLES / "second_week", EXAMPLES):
        for path in sorted(folder.glob("*.py")):
            with skipped(path):
                for name, kernel in spec.load(path).kernels.items():
                    with skipped(path):
                        found[f"{path.stem}:{name}"] = compile_kernel((kernel,), target=target, emit="llvm").text
    return found


@contextlib.contextmanager
def skipped(path: Path) -> Iterator[None]:
    """Leave out what has no kernels, or needs a transform script or another target, with the message."""
    from lego_mlir.errors import LegoError

    try:
        yield
    except LegoError as error:
        print(f"{path.name}: {error!s:.80}", file=sys.stderr)


def figures(job: tuple[str, str]) -> tuple[int, int, int]:
    """Instructions, registers and spilled bytes of LLVM IR."""
    from lego_mlir.hardware.targets import target_named
    from lego_mlir.toolchain import llvm, ptxas, sass

    text, target = job
    cubin, (resources, *_) = ptxas.assemble(llvm.emit(text, target_named(target)), target_named(target))
    return sum(i.name not in PADDING for i in sass.disassemble(cubin)), resources.registers, resources.spill_stores


def compare(words: Sequence[str]) -> None:
    from lego_mlir.toolchain import llvm, llvm_options, ptxas

    target = runner.options([word for word in words if word.startswith("target=")], target="sm_90a").target
    tried = [word for word in words if not word.startswith("target=")]  # sets of options, which have `=` too
    kernels, first = texts(target), llvm_options.CHOSEN[0]
    jobs = [(text, target) for text in kernels.values()]
    plain = dict(zip(kernels, in_own_process(first.split(), figures, jobs), strict=True))
    print(f"{len(plain)} kernels, {target}, {llvm.version()}, {ptxas.version()}; next to {first}")
    for options in tried or TRIED:
        try:
            found = dict(zip(kernels, in_own_process(f"{first} {options}".split(), figures, jobs), strict=True))
        except Exception as error:  # whatever LLVM refuses
            print(f"{options}: {error}")
            continue
        ratios = [geometric_mean(found[n][k] / plain[n][k] for n in plain) for k in range(2)]
        spills = sum(found[n][2] for n in plain), sum(plain[n][2] for n in plain)
        shown = f"instructions {ratios[0]:.4f}, registers {ratios[1]:.4f}, spilled bytes {spills[0]} of {spills[1]}"
        print(f"{options}: {shown}")
        for name in sorted(plain, key=lambda n: found[n][1] / plain[n][1]):
            if abs(found[name][1] - plain[name][1]) > 2 or found[name][0] > 1.03 * plain[name][0]:
                print(f"    {name:40} {plain[name]} -> {found[name]}")


# -- the width of indices


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
    from lego_mlir.toolchain import llvm, lowering

    _, text, narrow = job
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
        jobs = [(*job, narrow) for job in chosen]
        for row, found in zip(rows, in_own_process(None if narrow else [_WIDE], measured, jobs), strict=True):
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


BENCHMARK = runner.Benchmark(NAME, table=table, steps={"compare": compare, "count": count})

if __name__ == "__main__":
    sys.exit(runner.main(BENCHMARK))
