"""Needleman-Wunsch: the buffer row-major, anti-diagonal and padded by layout, against the same two kernels by hand."""

from __future__ import annotations

import json
import sys
from itertools import product
from pathlib import Path
from typing import Any

import harness
from rivals import nw as by_hand

SIZES = [2048, 4096, 8192, 16384, 32768]
BLOCKS = [16, 32, 64, 128]
KINDS = ["row-major", "anti-diagonal", "padded"]
PENALTY = 10
CHECKED = 4096  # sizes up to this are compared with NumPy, larger ones with each other


def label(n: int, b: int, kind: str) -> str:
    return f"nw_{n}_{b}_{kind}"


def wavefronts(kind: str, b: int) -> int:
    """Shared-memory wavefronts of one block's sweep over its anti-diagonals, counted from the layout."""
    import numpy as np

    from lego_mlir.analysis import banks
    from lego_mlir.templates.library.nw import WORD, buffer

    layout, lanes = buffer(kind, b), -(-b // banks.WARP) * banks.WARP
    lane, total = np.arange(lanes), 0
    for diagonal in range(2 * b - 1):
        row = diagonal - lane
        active = (row >= 0) & (row < b) & (lane < b)
        r, c = np.where(active, row, 0), np.where(active, lane, 0)
        scores = [layout.apply(r + dr, c + dc) for dr, dc in ((0, 0), (1, 0), (0, 1), (1, 1))]
        for place in (*scores, r * b + c):  # three reads and the write; the substitution score
            grouped = (v.reshape(-1, banks.WARP) for v in (place * WORD, active))
            total += int(banks.wavefronts(next(grouped), WORD, next(grouped)).sum())
    return total


def choose(b: int) -> str:
    """The buffer with the fewest wavefronts; of equals, the one whose index costs least."""
    return min(KINDS, key=lambda kind: (wavefronts(kind, b), ["row-major", "padded", "anti-diagonal"].index(kind)))


def render(folder: Path) -> None:
    from lego_mlir.templates.library.nw import buffer, nw, shared_bytes

    for n, b in product(SIZES, BLOCKS):
        for kind in KINDS:
            harness.keep(folder, label(n, b, kind), nw(n, b, kind).render())
    facts = {
        str(b): {
            "chosen": choose(b),
            "wavefronts": {kind: wavefronts(kind, b) for kind in KINDS},
            "shared_bytes": {kind: shared_bytes(buffer(kind, b), b) for kind in KINDS},
        }
        for b in BLOCKS
    }
    (folder / "facts.json").write_text(json.dumps(facts, indent=1))


def static() -> list[dict[str, Any]]:
    from lego_mlir.templates.library.nw import nw
    from lego_mlir.toolchain import nvcc, sass, triton

    rows = []
    for b in BLOCKS:
        texts = {f"rendered, {kind}": nw(2048, b, kind).render().text for kind in KINDS}
        texts |= {"by hand": by_hand.source(2048, b, 0), "by hand, padded": by_hand.source(2048, b, 1)}
        for who, text in texts.items():
            compiled = nvcc.compile_text(text)
            growing = next(r for r in compiled.resources if r.kernel == "nw_growing")
            listing = triton.listing(compiled.cubin).split("Function : nw_growing")[1].split("Function :")[0]
            code = sass.read(listing)
            kind = who.removeprefix("rendered, ") if who in texts and "rendered" in who else None
            rows.append({
                "kernel": f"b = {b} {who}", "registers": growing.registers,
                "spill_bytes": growing.spill_stores + growing.spill_loads,
                "shared_bytes": None, "instructions": len(code), "loop_instructions": None,
                "wavefronts": wavefronts(kind, b) if kind else None,
                "chosen": kind == choose(b) if kind else None, "all": dict(sass.mix(code)),
            })  # fmt: skip
    return rows


def timed(folder: Path, n: int, b: int) -> list[harness.Contender]:
    import cupy

    facts = json.loads((folder / "facts.json").read_text())[str(b)]
    texts = {kind: (folder / f"{label(n, b, kind)}.cu").read_text() for kind in KINDS}
    texts |= {"by hand": by_hand.source(n, b, 0), "by hand, padded": by_hand.source(n, b, 1)}
    substitution = cupy.random.randint(-10, 11, (n + 1, n + 1), dtype=cupy.int32)
    border = -PENALTY * cupy.arange(n + 1, dtype=cupy.int32)
    expected = _in_numpy(substitution.get()) if n <= CHECKED else None
    rows = []
    for who, text in texts.items():
        scores = cupy.zeros((n + 1, n + 1), cupy.int32)
        scores[0], scores[:, 0] = border, border
        shared = max(facts["shared_bytes"].values())
        launch = _captured(cupy, text, scores, substitution, n // b, b, shared if shared > 48 * 1024 else 0)
        launch()
        cupy.cuda.get_current_stream().synchronize()
        found = scores.get()
        expected = found if expected is None else expected
        if not (found == expected).all():
            raise harness.WrongResultError(
                f"nw {n} {b} {who}: {(found != expected).sum()} wrong scores; nothing is timed"
            )
        chosen = who == facts["chosen"]
        waves = facts["wavefronts"].get(who)
        rows.append(harness.contender(launch, kernel=who, n=n, b=b, chosen=chosen, wavefronts=waves))
    return rows


def _captured(cupy: Any, text: str, scores: Any, substitution: Any, blocks: int, b: int, shared: int) -> Any:
    """All launches of one run as a CUDA graph, so that no launch waits for Python."""
    module = cupy.RawModule(code=text, options=("--std=c++17",))
    growing, shrinking = (module.get_function(f"nw_{name}") for name in ("growing", "shrinking"))
    if shared:
        growing.max_dynamic_shared_size_bytes = shrinking.max_dynamic_shared_size_bytes = shared
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        for d in range(2 * blocks - 1):
            kernel, count = (growing, d + 1) if d < blocks else (shrinking, 2 * blocks - 1 - d)
            given = (scores, substitution, cupy.int32(PENALTY), cupy.int32(d))
            kernel((count,), (b,), given, shared_mem=shared)
        graph = stream.end_capture()
    alive = (module, scores, substitution)  # a graph holds no references to what its kernels use
    return lambda alive=alive: graph.launch()


def _in_numpy(substitution: Any) -> Any:
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


if __name__ == "__main__":
    sys.exit(harness.main("nw", render, static, list(product(SIZES, BLOCKS)), timed))
