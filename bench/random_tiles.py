"""The layout engine on random tile programs, next to Triton: instructions, conversions; and its time on the examples.

    python bench/random_tiles.py count FIRST LAST      compile programs of these seeds for sm_90, and keep the counts
    python bench/random_tiles.py choose [FILE ..]      seconds in which the layouts of each example are chosen
    python bench/random_tiles.py render --drawn 110 --seed S     kernels of programs drawn by S, for a GPU
    python bench/random_tiles.py prepare --drawn 110 --seed S    on the GPU machine: Triton compiles the same programs
    python bench/random_tiles.py time --drawn 110 --seed S       there: values against NumPy's, then times
    python bench/random_tiles.py table                 the tables of docs/results/layout-engine.md

The programs are those of `test/tile_programs.py`, whose values the tests compare with NumPy's; here they have sizes
that are powers of two, since Triton takes no others. Instructions are those of the machine code, by ptxas for both, of
one thread; conversions are the engine's that move elements, and Triton's `convert_layout` and `local_alloc` in its IR,
by which it stages operands. No GPU is needed.

Timed are the programs on a grid, each block on its own tile, at three places: `memory`, as many tiles as fill
TIMED_BYTES; `l2`, L2_TILES of them in turns; `alone`, these with so much shared memory set aside that one block is
resident on a multiprocessor. The kernel is the same. CuPy launches the machine code of both, Triton's compiled by the
GPU machine's Triton. Of the first SEARCHED programs there are ALTERNATIVES other assignments of layouts: the engine's
choices among a part of its candidates, or at prices that are changed by chance. All outputs are compared with NumPy's
before a time is taken.

`choose` takes the processor's time of the least of REPEATS choices in one process, each with the caches of layouts
emptied, and compares them. On a busy machine it rises with what shares the core; `loop` is the time of two million
additions in Python, for comparison.
"""

import copy
import gc
import json
import random
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import _lru_cache_wrapper, partial
from math import exp, prod
from pathlib import Path
from statistics import geometric_mean, median
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
PLACES = ("memory", "l2", "alone")
TIMED_BYTES, FEWEST_BLOCKS, MOST_BLOCKS = 256 << 20, 8192, 65536
L2_TILES, CHECKED_TILES = 256, 16
ALONE_BYTES = 120 << 10
"""Shared memory of a block of which a multiprocessor has room for one: sm_90 has 228 KiB."""
SEARCHED, ALTERNATIVES, MOST_TRIES = 15, 20, 120
BEHIND = (
    138085434, 196197564, 286359138, 329789876, 354729230, 696902781, 726910895, 776086608, 934448602,
)  # fmt: skip
"""Seeds of programs that were the furthest behind Triton's at one of the places, with seed 20261201."""
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


def triton_text(made: Any, on_grid: bool = False) -> str:
    """The program as a Triton kernel, of one block or of a grid whose blocks have their own tiles."""
    names = [f"x{k}" for k in range(len(made.inputs))] + [f"y{k}" for k in range(len(made.outputs))]
    body = [f"{n} += tl.program_id(0) * {prod(s)}" for n, s in zip(names, made.shapes, strict=True) if on_grid]
    body += [f"v{k} = tl.load(x{k} + {_place(shape)})" for k, shape in enumerate(made.inputs)]
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


def compiled_by_triton(made: Any, folder: Path, name: str) -> Any:
    """Triton's kernel of a program, whose text is in a folder."""
    kernel = harness.load(folder, name, "tiles")
    pointers = [POINTERS[str(made.dtype)]] * len(kernel.arg_names)
    return mlir_kernels.by_triton(kernel, pointers, [], made.block // 32)


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
        found = compiled_by_triton(made, Path(folder), "tiles")
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


# -- kernels for a GPU


def case_of(draw: random.Random) -> harness.Case:
    """A program by its seed, which no cost was fitted to: programs with small seeds are counted."""
    return (draw.randrange(10**6, 10**9),)


def blocks_of(made: Any) -> int:
    """The tiles of a program that fill TIMED_BYTES, a power of two."""
    tile = sum(prod(shape) for shape in made.shapes) * made.dtype.bytes
    return max(FEWEST_BLOCKS, min(MOST_BLOCKS, 1 << (TIMED_BYTES // tile - 1).bit_length()))


def render(folder: Path, cases: Sequence[harness.Case]) -> None:
    """Our kernels and Triton's text of programs, and other assignments of the first."""
    import tile_programs

    for number, (seed,) in enumerate(cases):
        made = drawn(seed)
        (folder / f"{seed}_triton.py").write_text(triton_text(made, on_grid=True))
        kernel = tile_programs.kernel_of(made, blocks_of(made))
        codes = {keep_timed(folder, str(seed), kernel)}
        for choice in alternatives_of(kernel.layout_choice, seed) if number < SEARCHED else ():
            if len(codes) <= ALTERNATIVES:
                codes.add(keep_timed(folder, f"{seed}_{len(codes)}", kernel.placed(choice)))
        print(seed, *(word for word, _, _ in made.steps), f"{len(codes)} kernels", flush=True)


def keep_timed(folder: Path, name: str, kernel: Any) -> bytes:
    """Keep a kernel's machine code, and the slots that the engine predicts; the code."""
    found = mlir_kernels.compiled(kernel, TARGET)
    (facts,) = found.kernels
    keep_launch(
        folder, name, found.bytes, entry=kernel.name, shared=facts.dynamic_shared, unused=0,
        slots=slots_of(kernel.layout_choice),
    )  # fmt: skip
    return found.bytes


def keep_launch(folder: Path, name: str, code: bytes, **facts: Any) -> None:
    """Machine code, its entry, dynamic shared memory in bytes, and pointers that it takes after a program's."""
    (folder / f"{name}.cubin").write_bytes(code)
    (folder / f"{name}.json").write_text(json.dumps(facts))


def slots_of(choice: Any) -> float:
    """The slots of a choice by the engine's costs."""
    from lego_mlir.engine.operation_costs import converted_slots, operation_slots

    graph, total = choice.alternatives.graph, 0.0
    for n, value in choice.values.items():
        for (state, _), needed in zip(value.computed, value.needed, strict=True):
            total += n.weight * operation_slots(n, state, graph, needed)
        total += sum(converted_slots(n, a, b, choice.alternatives.ordered.get((n, b))) for a, b in value.moved)
    return round(total, 2)


def alternatives_of(choice: Any, seed: int) -> Iterator[Any]:
    """Other assignments: the best of a part of all ways, or at prices that are changed by chance; no two the same."""
    from lego_mlir.engine.layout_choice import best_of
    from lego_mlir.errors import LayoutError

    draw, known = random.Random(seed), {_key(choice)}
    for tries in range(MOST_TRIES):
        varied = copy.copy(choice.alternatives)
        change, part = (0.1, 0.2, 0.4, 0.8)[tries % 4], (0.0, 0.05, 0.2)[tries % 3]
        varied.options = {
            n: [o._replace(slots=o.slots * exp(draw.gauss(0, change))) for o in _some(options, part, draw)]
            for n, options in choice.alternatives.options.items()
        }
        try:
            other = best_of(varied)
        except LayoutError:  # what is left does not fit together
            continue
        if _key(other) not in known:
            known.add(_key(other))
            yield other


def _some(options: Sequence[Any], part: float, draw: random.Random) -> Sequence[Any]:
    """The options without a part of them, at least one."""
    return [o for o in options if draw.random() >= part] or [draw.choice(options)]


def _key(choice: Any) -> tuple[Any, ...]:
    return tuple((n.number, value.computed, value.moved) for n, value in choice.values.items())


def triton_code(folder: Path, seed: int) -> str:
    """The name of Triton's kernel, compiled where it is missing."""
    name = f"{seed}_triton"
    if not (folder / f"{name}.cubin").is_file():
        found = compiled_by_triton(drawn(seed), folder, name)
        parameters = found.asm["ptx"].split(".entry")[1].split(")")[0].count(".param")
        made = drawn(seed)
        keep_launch(
            folder, name, found.asm["cubin"], entry=found.metadata.name, shared=found.metadata.shared,
            unused=parameters - len(made.shapes), slots=None,
        )  # fmt: skip
    return name


# -- times


def timed(folder: Path, seed: int) -> list[harness.Contender]:
    """Ours, its alternatives and Triton's at all places, whose results are right."""
    seed = int(seed)
    names = {"Triton": triton_code(folder, seed), "ours": str(seed)}
    if harness.PREPARING:
        return []
    names |= {f"other {k}": f"{seed}_{k}" for k in range(1, MOST_TRIES) if (folder / f"{seed}_{k}.cubin").is_file()}
    made = drawn(seed)
    blocks = blocks_of(made)
    tensors, wanted = arrays(made, blocks)
    found = []
    for who, name in names.items():
        launches, facts = launches_of(folder, name, tensors, made.block, blocks)
        for tensor, _ in wanted:
            tensor.fill_(99)
        launches["memory"]()
        for tensor, expected in wanted:
            if not bool((tensor.view(-1, *expected.shape) == expected).all()):
                raise harness.WrongResultError(f"{who}, {name}: wrong; nothing is timed")
        found += [harness.contender(run, kernel=who, place=place, **facts) for place, run in launches.items()]
    return found


def arrays(made: Any, blocks: int) -> tuple[list[Any], list[tuple[Any, Any]]]:
    """The tensors of a program on the device, and of each output the values of CHECKED_TILES, which repeat."""
    import numpy as np
    import tile_programs
    import torch

    tiles = [tile_programs.arrays_of(made, number) for number in range(CHECKED_TILES)]
    kind = tile_programs.NUMPY[made.dtype]  # NumPy's sums of i32 are i64
    inputs, outputs = (
        [torch.from_numpy(np.stack(same).astype(kind)).cuda() for same in zip(*arrays, strict=True)]
        for arrays in zip(*tiles, strict=True)
    )
    given = [x.repeat(blocks // CHECKED_TILES, *(1 for _ in x.shape[1:])) for x in inputs]
    results = [torch.empty((blocks, *y.shape[1:]), dtype=y.dtype, device="cuda") for y in outputs]
    return [*given, *results], list(zip(results, outputs, strict=True))


def launches_of(
    folder: Path, name: str, tensors: Sequence[Any], block: int, blocks: int
) -> tuple[Mapping[str, Callable[[], Any]], dict[str, Any]]:
    """The launches of a kept kernel by place, and its facts: slots, registers, bytes of shared and of local memory."""
    import cupy
    import numpy as np

    about = json.loads(harness.rendered(folder / f"{name}.json").read_text())
    function = cupy.RawModule(path=str(folder / f"{name}.cubin")).get_function(about["entry"])
    given = (*(np.uint64(t.data_ptr()) for t in tensors), *(np.uint64(0) for _ in range(about["unused"])))
    alone = max(ALONE_BYTES - function.shared_size_bytes, about["shared"])
    function.max_dynamic_shared_size_bytes = alone
    grids = {"memory": (blocks, 1), "l2": (L2_TILES, blocks // L2_TILES), "alone": (L2_TILES, blocks // L2_TILES)}
    launches = {
        place: partial(function, grid, (block,), given, shared_mem=alone if place == "alone" else about["shared"])
        for place, grid in grids.items()
    }
    shared = about["shared"] + function.shared_size_bytes
    facts = {"registers": function.num_regs, "shared_bytes": shared, "local_bytes": function.local_size_bytes}
    return launches, {"slots": about["slots"], **facts}


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
    if results := mlir_kernels.latest("random_tiles"):
        about = f"{mlir_kernels.circumstances('random_tiles', results, 'torch', 'triton')}, seed {results['seed']}.\n\n"
        heads = (
            "tiles|programs|Triton's time over ours, geometric mean|least|most|searched|ours over the quickest, median"
        )
        seeds = {row["case"][0] for row in results["rows"]}
        sorting = {seed for seed in seeds if any(word == "sort" for word, _, _ in drawn(int(seed)).steps)}
        others = [row for row in results["rows"] if row["case"][0] not in sorting]
        lines = [line_of(place, results["rows"]) for place in PLACES]
        for place in PLACES:  # sorts are much slower in Triton, and hide the others in a mean
            name, *cells = line_of(place, others)
            lines.append([f"{name}, nothing sorted", *cells])
        made = mlir_kernels.table(f"{heads}|most|within 3 %", lines)
        mlir_kernels.put_into(PAGE, "random-tiles-times", about, made)


def line_of(place: str, rows: Sequence[dict[str, Any]]) -> list[str]:
    """The cells of a place: Triton's times over ours, and ours over the quickest of it and its alternatives."""
    by_program: dict[str, dict[str, float]] = {}
    for row in rows:
        if row["place"] == place:
            by_program.setdefault(row["case"][0], {})[row["kernel"]] = row["ms"]
    ratios = [times["Triton"] / times["ours"] for times in by_program.values()]
    searched = [times for times in by_program.values() if len(times) > 2]
    over = [times["ours"] / min(ms for who, ms in times.items() if who != "Triton") for times in searched]
    mean = [f"{x:.2f}" for x in (geometric_mean(ratios), min(ratios), max(ratios))]
    quickest = [f"{x:.2f}" for x in (median(over), max(over))] if over else ["", ""]
    close = f"{sum(x <= 1.03 for x in over)} of {len(over)}"
    return [place, str(len(ratios)), *mean, str(len(searched)), *quickest, close]


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


BENCHMARK = runner.Benchmark(
    "random_tiles", cases=[(seed,) for seed in BEHIND], timed=timed, table=table, render=render, draw=case_of,
    steps={"count": count, "choose": choose}, together=True,
    protocol=harness.Protocol("steady", turn_s=0.003, rounds=9, patience_ms=1),
)  # fmt: skip

if __name__ == "__main__":
    sys.exit(runner.main(BENCHMARK))
