"""Needleman-Wunsch in layouts of its score buffer, against Rodinia's two kernels, by hand in rivals/nw.py.

    python bench/nw.py NAME STEP [WORD ..]      the steps of `runner.py`

nw          the shipped template, its buffer row-major, anti-diagonal and padded, against Rodinia's buffer and the usual
            remedy of one column more
nw_layouts  figure 14 of LEGO: only the layout of Rodinia's buffer changes; its anti-diagonal one is the array class of
            `lego_mlir.templates.header`, as in the paper (`CUDA`); `ours` is the same algorithm in the kernel language

Two kernels, over the growing and the shrinking diagonals of blocks, all launches of a run in one CUDA graph. ptxas
makes the machine code of all.
"""

# mypy: disable-error-code="valid-type"
# (A kernel's annotations are declarations of tensors, evaluated when it is built, and are not types.)

import json
import sys
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import comparison
import harness
import mlir_kernels
import runner
from rivals import nw as by_hand

TARGET, PENALTY = "sm_90", 10
SIZES, BLOCKS = (2048, 4096, 8192, 16384, 32768), (16, 32, 64, 128)
KINDS = ("row-major", "anti-diagonal", "padded")
HALVES = ("growing", "shrinking")
CASES, LAYOUT_CASES = list(product(SIZES, BLOCKS)), list(product(SIZES, BLOCKS[:3]))
CHECKED = 4096  # sizes up to this are compared with NumPy, larger ones with the first contender, on the device
RIVALS = {"by hand": 0, "by hand, padded": 1}  # Rodinia's buffer, and with a column more
CONTENDERS = [f"{who}, {layout}" for who, layout in product(("CUDA", "ours"), KINDS)]
DECLARED = 48 * 1024  # shared memory that a kernel has without asking for it at the launch


def label(n: int, b: int, kind: str) -> str:
    return f"nw_{n}_{b}_{kind}"


# -- the template, and the CUDA of both


def ranked(b: int) -> list[Any]:
    """The buffers of a block, the best first, with their wavefronts."""
    from lego_mlir.analysis import choosing
    from lego_mlir.analysis.repair import TileAccess
    from lego_mlir.templates.library.nw import WORD, accesses, buffer

    uses = [TileAccess(*access) for access in accesses(b)]
    return choosing.ranked({kind: buffer(kind, b) for kind in KINDS}, uses, WORD)


def render_templates(folder: Path, cases: Sequence[harness.Case]) -> None:
    from lego_mlir.templates.library.nw import nw

    for n, b, kind in product(SIZES, BLOCKS, KINDS):
        harness.keep(folder, label(n, b, kind), nw(n, b, kind).render())
    facts = {}
    for b in BLOCKS:
        found = ranked(b)
        facts[b] = {"chosen": found[0].name, "wavefronts": {one.name: one.wavefronts for one in found},
                    "shared_bytes": {one.name: one.bytes for one in found}}  # fmt: skip
    (folder / "facts.json").write_text(json.dumps(facts, indent=1))


def cuda(n: int, b: int, layout: str) -> str:
    """The CUDA text: a plain array for row-major and padded, the paper's array class for the anti-diagonal layout."""
    from lego_mlir import size
    from lego_mlir.layout import gallery
    from lego_mlir.templates.header import header

    if layout != "anti-diagonal":
        return by_hand.source(n, b, int(layout == "padded"))
    return by_hand.source(n, b, 0, header("AntiDiag", gallery.antidiagonal(size("n", max=1024))))


def shared_of(b: int, layout: str) -> int:
    """The shared memory of a block of `cuda`."""
    return by_hand.shared_bytes(b, int(layout == "padded"))


def growing_by_nvcc(text: str, shared_bytes: int, target: str = TARGET) -> Any:
    """What `harness.static_row` reads of the growing half."""
    from lego_mlir.templates.run import nvcc, triton
    from lego_mlir.toolchain import sass

    made = nvcc.compile_text(text, target=target)
    listing = triton.listing(made.cubin).split("Function : nw_growing")[1].split("Function :")[0]
    growing = next(one for one in made.resources if one.kernel == "nw_growing")
    return SimpleNamespace(code=sass.read(listing), resources=growing, shared_bytes=shared_bytes)


def static_row(code: Any, work: str, **facts: Any) -> dict[str, Any]:
    """Figures of one kernel; of the loop over diagonals, if it is not unrolled, the instructions for one diagonal."""
    from lego_mlir.toolchain import sass

    row = harness.static_row(code, work, **facts)
    stores = sum(i.name == "STS" for i in sass.main_loop(code.code, work))
    return {**row, "loop_instructions": row["loop_instructions"] / max(1, stores) if row["loop_instructions"] else None}


def static_templates() -> list[dict[str, Any]]:
    from lego_mlir.templates.library.nw import buffer, nw, shared_bytes

    rows = []
    for b in BLOCKS:
        counted = {candidate.name: candidate.wavefronts for candidate in ranked(b)}
        texts = {kind: (nw(2048, b, kind).render().text, shared_bytes(buffer(kind, b))) for kind in KINDS}
        texts |= {who: (by_hand.source(2048, b, pad), by_hand.shared_bytes(b, pad)) for who, pad in RIVALS.items()}
        for who, given in texts.items():
            facts = {"kernel": f"b = {b} {'rendered, ' * (who in KINDS)}{who}", "who": who, "b": b}
            row = static_row(growing_by_nvcc(*given), "SHFL" if who in KINDS else "MNMX", **facts)
            rows.append({**row, "wavefronts": counted.get(who), "chosen": who == next(iter(counted))})
    return rows


def timed_templates(folder: Path, n: int, b: int) -> list[harness.Contender]:
    facts = json.loads((folder / "facts.json").read_text())[str(b)]
    entries = {who: (by_hand.source(n, b, pad), by_hand.shared_bytes(b, pad)) for who, pad in RIVALS.items()}
    entries |= {k: ((folder / f"{label(n, b, k)}.cu").read_text(), facts["shared_bytes"][k]) for k in KINDS}
    launches = {who: by_texts(*given) for who, given in entries.items()}
    more = {who: {"wavefronts": facts["wavefronts"].get(who), "chosen": who == facts["chosen"]} for who in entries}
    return compared(n, b, launches, more)


# -- figure 14: our kernels


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


def render_layouts(folder: Path, cases: Sequence[harness.Case]) -> None:
    for n, b, layout in product(SIZES, BLOCKS[:3], KINDS):
        name = label(n, b, layout)
        (folder / f"{name}.cu").write_text(cuda(n, b, layout))
        for kernel in built(n, b, layout).values():
            mlir_kernels.keep_cubin(folder / name, kernel, TARGET)


def static_layouts() -> list[dict[str, Any]]:
    from lego_mlir.toolchain import compile_kernel

    rows = []
    for b, layout in product(BLOCKS[:3], KINDS):
        made = compile_kernel(built(2048, b, layout)["growing"], target=TARGET)
        codes = {
            "ours": mlir_kernels.assembled(made.text, TARGET, mlir_kernels.shared_bytes(made)),
            "CUDA": growing_by_nvcc(cuda(2048, b, layout), shared_of(b, layout)),
        }
        for who, code in codes.items():
            name = f"b = {b} {who}, {layout}"
            rows.append(static_row(code, "MNMX", kernel=name, who=who, b=b, layout=layout))
    return rows


def timed_layouts(folder: Path, n: int, b: int) -> list[harness.Contender]:
    launches, more = {}, {}
    for who, layout in product(("CUDA", "ours"), KINDS):
        name, key = label(n, b, layout), f"{who}, {layout}"
        if who == "CUDA":
            launches[key] = by_texts(harness.rendered(folder / f"{name}.cu").read_text(), shared_of(b, layout))
        else:
            launches[key] = by_cubins(folder / name)
        more[key] = {"who": who, "layout": layout}
    return compared(n, b, launches, more)


# -- launches

Halves = tuple[Any, list[Any], list[int], Callable[[int, int], Any]]
"""The modules (kept alive: a graph holds no references), both kernels, their shared memory, the last argument."""


def by_texts(text: str, needed: int) -> Halves:
    """Both kernels of a CUDA text, whose last argument is the diagonal."""
    import cupy

    module = cupy.RawModule(code=text, options=("--std=c++17",))
    halves = [module.get_function(f"nw_{half}") for half in HALVES]
    return module, halves, [needed if needed > DECLARED else 0] * 2, lambda d, count: cupy.int32(d)


def by_cubins(folder: Path) -> Halves:
    """Our kernels, whose last argument is the number of blocks."""
    import cupy

    modules = [cupy.RawModule(path=str(harness.rendered(folder / f"{half}.cubin"))) for half in HALVES]
    facts = [json.loads((folder / f"{half}.json").read_text())["kernels"][0] for half in HALVES]
    halves = [module.get_function(fact["entry"]) for module, fact in zip(modules, facts, strict=True)]
    return modules, halves, [fact["dynamic_shared_bytes"] for fact in facts], lambda d, count: cupy.int64(count)


def compared(n: int, b: int, launches: dict[str, Halves], more: dict[str, dict[str, Any]]) -> list[harness.Contender]:
    """All launches of a run of each as a CUDA graph, so that none waits for Python, and whose scores are right."""
    import cupy

    substitution = cupy.random.randint(-10, 11, (n + 1, n + 1), dtype=cupy.int32)
    scores = cupy.zeros((n + 1, n + 1), cupy.int32)  # one for all: a launch writes every score anew
    fill_border(scores)
    expected = cupy.asarray(in_numpy(scores.get(), substitution.get(), PENALTY)) if n <= CHECKED else None
    found = []
    for who, (modules, halves, shared, last) in launches.items():
        for function, needed in zip(halves, shared, strict=True):
            if needed:
                function.max_dynamic_shared_size_bytes = needed
        stream, alive, blocks = cupy.cuda.Stream(non_blocking=True), [modules], n // b
        with stream:
            stream.begin_capture()
            for d in range(2 * blocks - 1):
                half, count = (0, d + 1) if d < blocks else (1, 2 * blocks - 1 - d)
                alive.append((scores, substitution, cupy.int32(PENALTY), last(d, count)))
                halves[half]((count,), (b,), alive[-1], shared_mem=shared[half])
            graph = stream.end_capture()
        expected = checked(graph.launch, scores, expected, f"nw {n} {b} {who}")
        run = lambda graph=graph, alive=alive: graph.launch()  # noqa: E731
        found.append(harness.contender(run, kernel=who, n=n, b=b, **more[who]))
    return found


def fill_border(scores: Any) -> None:
    """Scores of gaps alone in the first row and column."""
    import cupy

    scores[0] = scores[:, 0] = -PENALTY * cupy.arange(scores.shape[0], dtype=cupy.int32)


def checked(launch: Callable[[], Any], scores: Any, expected: Any, name: str) -> Any:
    """The expected scores, those of this launch if none are known yet. Raises WrongResultError for other scores."""
    import cupy

    scores.fill(0)
    fill_border(scores)
    cupy.cuda.get_current_stream().synchronize()
    launch()
    cupy.cuda.Device().synchronize()
    expected = scores.copy() if expected is None else expected
    wrong = int((scores != expected).sum())
    if wrong:
        raise harness.WrongResultError(f"{name}: {wrong} wrong scores; nothing is timed")
    return expected


def in_numpy(scores: Any, substitution: Any, penalty: int) -> Any:
    """The scores, one anti-diagonal at a time; the first row and column are given."""
    import numpy as np

    found, n = scores.copy(), scores.shape[0]
    for d in range(2, 2 * n - 1):
        i = np.arange(max(1, d - n + 1), min(d, n))
        j = d - i
        gap = np.maximum(found[i, j - 1], found[i - 1, j]) - penalty
        found[i, j] = np.maximum(found[i - 1, j - 1] + substitution[i, j], gap)
    return found


# -- the pages


def table() -> None:
    rows, lines = comparison.rows_of("nw"), []
    for n, b in CASES:
        found = {who: comparison.find(rows, kernel=who, n=n, b=b) for who in (*RIVALS, *KINDS)}
        chosen = next((row for row in found.values() if row and row["chosen"]), None)
        fastest = min((row["ms"] for kind in KINDS if (row := found[kind])), default=None)
        more = {f"{kind} ms": mlir_kernels.time_cell(found.pop(kind)) for kind in KINDS} | {
            "chosen": "" if chosen is None else chosen["kernel"],
            "fastest / chosen": "" if chosen is None or fastest is None else f"{fastest / chosen['ms']:.2f}",
        }
        lines.append(comparison.Line((str(n), str(b)), chosen, found, more))
    comparison.write("nw", ["n", "b"], lines, ours="chosen")


def layouts_table() -> None:
    rows, lines = comparison.rows_of("nw_layouts"), []
    for n, b in LAYOUT_CASES:
        found = {key: comparison.find(rows, kernel=key, n=n, b=b) for key in CONTENDERS}
        before, after = (found[f"ours, {layout}"] for layout in KINDS[:2])
        gain = "" if before is None or after is None else f"{before['ms'] / after['ms']:.2f}"
        by_class = found.pop("CUDA, anti-diagonal")
        lines.append(comparison.Line((str(n), str(b)), by_class, found, {"ours: row-major / anti-diagonal": gain}))
    comparison.write("nw_layouts", ["n", "b"], lines, ours="CUDA, anti-diagonal")


BENCHMARKS = {one.name: one for one in (
    runner.Benchmark("nw", CASES, timed_templates, table, render_templates, static_templates, counts=True,
                     together=True),
    runner.Benchmark("nw_layouts", LAYOUT_CASES, timed_layouts, layouts_table, render_layouts, static_layouts,
                     counts=True, together=True),
)}  # fmt: skip

if __name__ == "__main__":
    sys.exit(runner.main_of(BENCHMARKS, __doc__))
