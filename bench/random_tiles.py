"""The layout engine on random tile programs, next to Triton: instructions, conversions; and its time on the examples.

    python bench/random_tiles.py count FIRST LAST      compile programs of these seeds for sm_90, and keep the counts
    python bench/random_tiles.py choose [FILE ..]      seconds in which the layouts of each example are chosen
    python bench/random_tiles.py table                 the table of docs/results/layout-engine.md

The programs are those of `test/tile_programs.py`, whose values the tests compare with NumPy's; here they have sizes
that are powers of two, since Triton takes no others. Instructions are those of the machine code, by ptxas for both, of
one thread; conversions are the engine's that move elements, and Triton's `convert_layout` and `local_alloc` in its IR,
by which it stages operands. No GPU is needed.

`choose` takes the processor's time of the least of REPEATS choices in one process, each with the caches of layouts
emptied, and compares them. On a busy machine it rises with what shares the core; `loop` is the time of two million
additions in Python, for comparison.
"""

from __future__ import annotations

import gc
import json
import random
import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import _lru_cache_wrapper
from pathlib import Path
from statistics import geometric_mean
from time import process_time
from typing import Any

import harness
import mlir_kernels
import runner
from layout_tables import COUNTED, code_counts

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "test"))
PAGE, TARGET = "results/layout-engine.md", "sm_90"
KEPT = mlir_kernels.static_path("random_tiles", TARGET)
POINTERS = {"f32": "*fp32", "f16": "*fp16", "i32": "*i32"}
HEAD = """import triton
import triton.language as tl


@triton.jit
def wrap(x):
    return tl.minimum(tl.maximum(x, -8), 8).to(x.dtype)


@triton.jit
def tiles({arguments}):
"""


def drawn(seed: int) -> Any:
    """The program of a seed, of sizes that are powers of two."""
    import tile_programs

    return tile_programs.program(random.Random(seed), tile_programs.WHOLE_SIZES)


# -- Triton's text


def triton_text(made: Any) -> str:
    """The program as a Triton kernel."""
    names = [f"x{k}" for k in range(len(made.inputs))] + [f"y{k}" for k in range(len(made.outputs))]
    body = [f"v{k} = tl.load(x{k} + {_place(shape)})" for k, shape in enumerate(made.inputs)]
    for number, step in enumerate(made.steps, len(made.inputs)):
        body += [line.replace("$", f"v{number}") for line in _lines(made, step)]
    for k, (value, axis) in enumerate(made.outputs):
        shape = made.known[value] if axis is None else (made.known[value][1 - axis],)
        found = f"v{value}" if axis is None else f"tl.max(v{value}, {axis})"
        body.append(f"tl.store(y{k} + {_place(shape)}, {found})")
    return HEAD.format(arguments=", ".join(names)) + "".join(f"    {line}\n" for line in body)


def _place(shape: tuple[int, ...]) -> str:
    if len(shape) == 1:
        return f"tl.arange(0, {shape[0]})"
    return f"(tl.arange(0, {shape[0]})[:, None] * {shape[1]} + tl.arange(0, {shape[1]})[None, :])"


def _lines(made: Any, step: tuple[str, tuple[int, ...], Any]) -> Iterator[str]:
    """The lines of one step, whose value is `$`."""
    word, operands, choice = step
    x, *others = (f"v{k}" for k in operands)
    m, n = made.known[operands[0]]
    dtype = str(made.dtype)
    match word:
        case "add" | "mul":
            yield f"$ = wrap({x} {'+' if word == 'add' else '*'} {others[0]})"
        case "transpose":
            yield f"$ = tl.trans({x})"
        case "reduce":
            axis, how = choice
            yield f"$ = wrap({x} - tl.{how}({others[0]}, {axis}){'[:, None]' if axis else '[None, :]'})"
        case "vector":
            yield f"$ = wrap({x} + {others[0]}{'[None, :]' if choice else '[:, None]'})"
        case "reshape":
            yield f"$ = tl.reshape({x}, {choice})"
        case "scale":
            yield f"$ = wrap({x} * 3)"
        case "scan":
            yield f"$ = wrap(tl.cumsum({x}, {choice}))"
        case "sort" if choice == 1:
            yield f"$ = tl.sort({x}, 1)"
        case "sort":
            yield f"$ = tl.trans(tl.sort(tl.trans({x}), 1))"
        case "flip":
            yield f"$ = tl.flip({x}, {choice})"
        case "gather":
            yield f"$ = tl.gather({x}, {x}.to(tl.int32) & {(m, n)[choice] - 1}, {choice})"
        case "mask":
            yield f"$ = tl.where(tl.arange(0, {m})[:, None] >= tl.arange(0, {n})[None, :], {x}, 0).to({x}.dtype)"
        case "pairs":
            yield f"$a, $b = tl.split(tl.reshape({x}, ({m}, {n // 2}, 2)))"
            yield f"$ = tl.reshape(tl.join($b, $a), ({m}, {n}))"
        case "quads":
            yield f"$w = tl.reshape({x}, ({m}, {n // 4}, 4))"
            yield f"$ = wrap(tl.reshape($w - tl.max($w, 2)[:, :, None], ({m}, {n})))"
        case "loop":
            yield f"$ = {x}"
            yield "for _ in range(2):"
            yield f"    $ = wrap($ + {x})"
        case "cast":
            other = {"f32": "float16", "f16": "float32", "i32": "int16"}[dtype]
            yield f"$ = {x}.to(tl.{other}).to({x}.dtype)"
        case "product":
            yield f"$h = {x}.to(tl.float16)"
            yield f"$ = wrap(tl.dot($h, tl.trans($h))).to({x}.dtype)"


# -- counts


def ours(made: Any) -> dict[str, int]:
    """The counts of this project's kernel."""
    import tile_programs

    from lego_mlir.engine.operation_costs import plan
    from lego_mlir.f2.conversion import Renamed, Unchanged
    from lego_mlir.toolchain import compile_kernel

    kernel = tile_programs.kernel_of(made)
    cubin = compile_kernel(kernel, target=TARGET, emit="cubin").bytes
    assert kernel.layout_choice is not None
    moves = [plan(a, b, v.node.bits) for v in kernel.layout_choice.values.values() for a, b in v.moved]
    return {**code_counts(cubin), "conversions": sum(not isinstance(move, Unchanged | Renamed) for move in moves)}


def tritons(made: Any) -> dict[str, int]:
    """The counts of Triton's kernel."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "tiles.py").write_text(triton_text(made))
        kernel = harness.load(Path(folder), "tiles", "tiles")
        pointers = [POINTERS[str(made.dtype)]] * len(kernel.arg_names)
        found = mlir_kernels.by_triton(kernel, pointers, [], made.block // 32)
    ir = found.asm["ttgir"]
    return {
        **code_counts(found.asm["cubin"]),
        "conversions": ir.count("= ttg.convert_layout") + ir.count("= ttg.local_alloc"),
    }


def static(first: int, last: int) -> None:
    """Count the programs of some seeds, and keep the others that are there."""
    rows = {row["seed"]: row for row in json.loads(KEPT.read_text())} if KEPT.is_file() else {}
    for seed in range(first, last):
        made = drawn(seed)
        row: dict[str, Any] = {"seed": seed, "words": [word for word, _, _ in made.steps]}
        for who, count in (("ours", ours), ("Triton", tritons)):
            try:
                row[who] = count(made)
            except Exception as error:  # what one of them refuses is counted, too
                row[who] = {"refused": f"{type(error).__name__}: {str(error)[:200]}"}
        rows[seed] = row
        print(json.dumps(row), flush=True)
        KEPT.write_text("[\n" + ",\n".join(json.dumps(rows[seed]) for seed in sorted(rows)) + "\n]\n")


# -- the table


def summary() -> dict[str, Any]:
    """The figures of the kept counts."""
    rows = json.loads(KEPT.read_text())
    both = [row for row in rows if "refused" not in row["ours"] and "refused" not in row["Triton"]]
    ratios = [row["Triton"]["instructions"] / row["ours"]["instructions"] for row in both]
    totals = {
        kind: [sum(row[who][kind] for row in both) for who in ("ours", "Triton")]
        for kind in ("instructions", "conversions", *COUNTED)
    }
    return {
        "programs": len(rows),
        "refused": {who: sum("refused" in row[who] for row in rows) for who in ("ours", "Triton")},
        "fewer": sum(ratio > 1 for ratio in ratios),
        "equal": sum(ratio == 1 for ratio in ratios),
        "both": len(both),
        "mean": geometric_mean(ratios),
        "worst": min(ratios),
        "best": max(ratios),
        "totals": totals,
    }


def table() -> None:
    """Write the table into the page."""
    found = summary()
    refused = found["refused"]
    text = (
        f"{found['programs']} programs, of which ours refuses {refused['ours']} and Triton {refused['Triton']}. Of the "
        f"other {found['both']}, ours has fewer instructions in {found['fewer']}, as many in {found['equal']}. "
        f"Triton's over ours: {found['mean']:.2f} in geometric mean, {found['worst']:.2f} to {found['best']:.2f}.\n\n"
    )
    lines = [[kind, *(f"{n:,}" for n in pair)] for kind, pair in found["totals"].items()]
    mlir_kernels.put_into(PAGE, "random-tiles", text, mlir_kernels.table("all programs together|ours|Triton", lines))


def count(words: Sequence[str]) -> None:
    """Count the programs from one seed up to another."""
    static(*map(int, words))


# -- the time of the choice

REPEATS, MOST_SECONDS, EXAMPLES = 3, 0.5, ROOT / "examples"


def chosen_anew(graph: Any) -> tuple[float, Any]:
    """Seconds of a choice, and the choice, where functions of layouts remember nothing."""
    from lego_mlir.engine.layout_choice import chosen_layouts

    for found in gc.get_objects():
        if isinstance(found, _lru_cache_wrapper) and found.__module__.startswith(("lego_mlir.engine", "lego_mlir.f2")):
            found.cache_clear()
    start = process_time()
    choice = chosen_layouts(graph)
    return process_time() - start, choice


def loop_seconds() -> float:
    start, total = process_time(), 0
    for k in range(2_000_000):
        total += k & 3
    return process_time() - start


def choose(words: Sequence[str]) -> int:
    """A table of the examples that have tiles without a layout; 1 where a choice is slow, or not the same again."""
    from lego_mlir import spec

    files = [*map(Path, words)] or [*sorted(EXAMPLES.glob("*.py")), *sorted(EXAMPLES.glob("second_week/*.py"))]
    print(f"loop {loop_seconds():.2f} s")
    print("| example | values | seconds | rounds | the best of its candidates |\n|---|---|---|---|---|")
    failed = False
    for name, kernel in ((path.stem, kernel) for path in files for kernel in spec.load(path).kernels.values()):
        choice = kernel.layout_choice
        if choice is None:
            continue
        found = [chosen_anew(choice.alternatives.graph) for _ in range(REPEATS)]
        seconds = min(taken for taken, _ in found)
        chosen = [[(v.computed, v.moved) for v in again.values.values()] for _, again in found]
        same = all(one == chosen[0] for one in chosen)
        failed |= seconds > MOST_SECONDS or not same
        best = "yes" if choice.is_best else f"within {choice.slots / choice.bound - 1:.1%}"
        taken = f"{seconds:.2f}{'' if same else ', not the same'}"
        print(f"| {name} | {len(choice.values)} | {taken} | {choice.rounds} | {best} |", flush=True)
    print(f"loop {loop_seconds():.2f} s")
    return int(failed)


BENCHMARK = runner.Benchmark("random_tiles", table=table, steps={"count": count, "choose": choose})

if __name__ == "__main__":
    sys.exit(runner.main(BENCHMARK))
