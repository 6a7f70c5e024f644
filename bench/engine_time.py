"""The time in which the layout engine chooses the layouts of each example, and whether it chooses the same again.

    python bench/engine_time.py [FILE ..]     a table, by examples with tiles without a layout; no GPU

The processor's time of the least of REPEATS choices in one process, each with the caches of layouts emptied. On a busy
machine it rises with what shares the core; `loop` is the time of two million additions in Python, for comparison.
"""

from __future__ import annotations

import gc
import sys
from functools import _lru_cache_wrapper
from pathlib import Path
from time import process_time
from typing import Any, Final

import harness

from lego_mlir import spec
from lego_mlir.engine.layout_choice import LayoutChoice, chosen_layouts

REPEATS: Final = 3
MOST_SECONDS: Final = 0.5
EXAMPLES = harness.BENCH.parent / "examples"


def empty_caches() -> None:
    """Forget what functions of layouts remember."""
    for found in gc.get_objects():
        if isinstance(found, _lru_cache_wrapper) and found.__module__.startswith(("lego_mlir.engine", "lego_mlir.f2")):
            found.cache_clear()


def timed(graph: Any) -> tuple[float, LayoutChoice]:
    empty_caches()
    start = process_time()
    choice = chosen_layouts(graph)
    return process_time() - start, choice


def loop_seconds() -> float:
    start, total = process_time(), 0
    for k in range(2_000_000):
        total += k & 3
    return process_time() - start


def main(paths: list[str]) -> int:
    files = [Path(p) for p in paths] or [*sorted(EXAMPLES.glob("*.py")), *sorted(EXAMPLES.glob("second_week/*.py"))]
    print(f"loop {loop_seconds():.2f} s")
    print("| example | values | seconds | rounds | the best of its candidates |\n|---|---|---|---|---|")
    failed = False
    for path in files:
        for kernel in spec.load(path).kernels.values():
            choice = kernel.layout_choice
            if choice is None:
                continue
            found = [timed(choice.alternatives.graph) for _ in range(REPEATS)]
            seconds = min(taken for taken, _ in found)
            chosen = [[(v.computed, v.moved) for v in again.values.values()] for _, again in found]
            same = all(one == chosen[0] for one in chosen)
            failed |= seconds > MOST_SECONDS or not same
            best = "yes" if choice.is_best else f"within {choice.slots / choice.bound - 1:.1%}"
            again = "" if same else ", not the same"
            print(
                f"| {path.stem} | {len(choice.values)} | {seconds:.2f}{again} | {choice.rounds} | {best} |", flush=True
            )
    print(f"loop {loop_seconds():.2f} s")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
