"""Needleman-Wunsch: the buffer row-major, anti-diagonal and padded by layout, against the same two kernels by hand."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import comparison
import harness
import mlir_kernels
import runner
from rivals import nw as by_hand

SIZES = [2048, 4096, 8192, 16384, 32768]
BLOCKS = [16, 32, 64, 128]
KINDS = ["row-major", "anti-diagonal", "padded"]
PENALTY = 10
CASES = list(product(SIZES, BLOCKS))
CHECKED = 4096  # sizes up to this are compared with NumPy, larger ones with the kernel by hand, on the device
RIVALS = {"by hand": 0, "by hand, padded": 1}  # Rodinia's buffer, and with a column more


def label(n: int, b: int, kind: str) -> str:
    return f"nw_{n}_{b}_{kind}"


def ranked(b: int) -> list[Any]:
    """The buffers of a block, the best first, with their wavefronts."""
    from lego_mlir.analysis import choosing
    from lego_mlir.analysis.repair import TileAccess
    from lego_mlir.templates.library.nw import WORD, accesses, buffer

    uses = [TileAccess(*access) for access in accesses(b)]
    return choosing.ranked({kind: buffer(kind, b) for kind in KINDS}, uses, WORD)


def render(folder: Path, cases: Sequence[harness.Case]) -> None:
    from lego_mlir.templates.library.nw import nw

    for n, b in product(SIZES, BLOCKS):
        for kind in KINDS:
            harness.keep(folder, label(n, b, kind), nw(n, b, kind).render())
    facts = {}
    for b in BLOCKS:
        best_first = ranked(b)
        facts[b] = {
            "chosen": best_first[0].name,
            "wavefronts": {candidate.name: candidate.wavefronts for candidate in best_first},
            "shared_bytes": {candidate.name: candidate.bytes for candidate in best_first},
        }
    (folder / "facts.json").write_text(json.dumps(facts, indent=1))


def static() -> list[dict[str, Any]]:
    from lego_mlir.templates.library.nw import buffer, nw, shared_bytes
    from lego_mlir.templates.run import nvcc, triton
    from lego_mlir.toolchain import sass

    rows = []
    for b in BLOCKS:
        texts = {kind: nw(2048, b, kind).render().text for kind in KINDS}
        texts |= {who: by_hand.source(2048, b, pad) for who, pad in RIVALS.items()}
        counted = {candidate.name: candidate.wavefronts for candidate in ranked(b)}
        for who, text in texts.items():
            compiled = nvcc.compile_text(text)
            growing = next(r for r in compiled.resources if r.kernel == "nw_growing")
            listing = triton.listing(compiled.cubin).split("Function : nw_growing")[1].split("Function :")[0]
            code, ours = sass.read(listing), who in KINDS
            loop, steps = _sweep_loop(code, ours)
            rows.append({
                "kernel": f"b = {b} {'rendered, ' if ours else ''}{who}", "who": who, "b": b,
                "registers": growing.registers, "spill_bytes": growing.spill_stores + growing.spill_loads,
                "shared_bytes": shared_bytes(buffer(who, b)) if ours else by_hand.shared_bytes(b, RIVALS[who]),
                "instructions": len(code), "loop_instructions": len(loop) / steps or None,
                "wavefronts": counted.get(who), "chosen": who == next(iter(counted)),
                "loop": dict(sass.mix(loop)), "all": dict(sass.mix(code)),
            })  # fmt: skip
    return rows


def _sweep_loop(code: Any, ours: bool) -> tuple[Any, int]:
    """The instructions of the loop over anti-diagonals, none where it is unrolled, and how many of them a pass does."""
    from lego_mlir.toolchain import sass

    loop = sass.main_loop(code, "SHFL" if ours else "MNMX")
    stores = sum(i.name == "STS" for i in loop)
    return loop, max(1, stores)


def timed(folder: Path, n: int, b: int) -> list[harness.Contender]:
    import cupy

    facts = json.loads((folder / "facts.json").read_text())[str(b)]
    entries = [(who, by_hand.source(n, b, pad), by_hand.shared_bytes(b, pad)) for who, pad in RIVALS.items()]
    entries += [(k, (folder / f"{label(n, b, k)}.cu").read_text(), facts["shared_bytes"][k]) for k in KINDS]
    substitution = cupy.random.randint(-10, 11, (n + 1, n + 1), dtype=cupy.int32)
    scores = cupy.empty((n + 1, n + 1), cupy.int32)  # one for all: a launch writes every score anew
    expected = cupy.asarray(in_numpy(substitution.get())) if n <= CHECKED else None
    rows = []
    for who, text, shared in entries:
        launch = captured(cupy, text, scores, substitution, n // b, b, shared)
        expected = checked(cupy, launch, scores, expected, f"nw {n} {b} {who}")
        found = {"wavefronts": facts["wavefronts"].get(who), "chosen": who == facts["chosen"]}
        rows.append(harness.contender(launch, kernel=who, n=n, b=b, **found))
    return rows


def checked(cupy: Any, launch: Any, scores: Any, expected: Any, name: str) -> Any:
    """The expected scores, those of this launch if none are known yet. Raises WrongResultError for other scores."""
    border = -PENALTY * cupy.arange(scores.shape[0], dtype=cupy.int32)
    scores.fill(0)
    scores[0], scores[:, 0] = border, border
    cupy.cuda.get_current_stream().synchronize()
    launch()
    cupy.cuda.Device().synchronize()
    expected = scores.copy() if expected is None else expected
    wrong = int((scores != expected).sum())
    if wrong:
        raise harness.WrongResultError(f"{name}: {wrong} wrong scores; nothing is timed")
    return expected


DECLARED = 48 * 1024  # shared memory that a kernel has without asking for it at the launch


def captured(cupy: Any, text: str, scores: Any, substitution: Any, blocks: int, b: int, needed: int) -> Any:
    """All launches of one run of both kernels of a CUDA text."""
    shared = needed if needed > DECLARED else 0
    module = cupy.RawModule(code=text, options=("--std=c++17",))
    halves = [module.get_function(f"nw_{name}") for name in ("growing", "shrinking")]

    def given(d: int, count: int) -> tuple[Any, ...]:
        return scores, substitution, cupy.int32(PENALTY), cupy.int32(d)

    return graph_of(cupy, halves, [shared, shared], blocks, b, given, module)


def graph_of(
    cupy: Any, halves: Sequence[Any], shared: Sequence[int], blocks: int, b: int,
    given: Callable[[int, int], tuple[Any, ...]], module: Any,
) -> Any:  # fmt: skip
    """All launches of one run as a CUDA graph, so that no launch waits for Python: the growing half, the shrinking one.

    `given` has the arguments of the launch of a diagonal, and `module` is kept: a graph holds no references.
    """
    for function, needed in zip(halves, shared, strict=True):
        if needed:
            function.max_dynamic_shared_size_bytes = needed
    stream, alive = cupy.cuda.Stream(non_blocking=True), [module]
    with stream:
        stream.begin_capture()
        for d in range(2 * blocks - 1):
            half, count = (0, d + 1) if d < blocks else (1, 2 * blocks - 1 - d)
            alive.append(given(d, count))
            halves[half]((count,), (b,), alive[-1], shared_mem=shared[half])
        graph = stream.end_capture()
    return lambda alive=alive: graph.launch()


def in_numpy(substitution: Any) -> Any:
    """The scores, one anti-diagonal at a time."""
    import numpy as np

    n = substitution.shape[0] - 1
    scores = np.zeros((n + 1, n + 1), np.int32)
    scores[0] = scores[:, 0] = -PENALTY * np.arange(n + 1)
    for d in range(2, 2 * n + 1):
        i = np.arange(max(1, d - n), min(n, d - 1) + 1)
        j = d - i
        gap = np.maximum(scores[i, j - 1], scores[i - 1, j]) - PENALTY
        scores[i, j] = np.maximum(scores[i - 1, j - 1] + substitution[i, j], gap)
    return scores


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


BENCHMARK = runner.Benchmark("nw", CASES, timed, table, render, static, counts=True)

if __name__ == "__main__":
    sys.exit(runner.main(BENCHMARK))
