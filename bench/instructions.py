"""What a benchmark's contenders execute: instructions of all their warps, counted by ncu and kept with their times.

Each contender of a measured case is launched once, in the configuration that the step `time` found fastest. A kernel
that does nothing goes before each, so that a contender may be any number of launches.
"""

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import harness
import mlir_kernels
import ncu

METRICS = {"instructions": "smsp__inst_executed.sum"}
MARK = "next_contender"
LAUNCHED = "launched.json"


def count(name: str, folder: Path, words: Sequence[str]) -> int:
    """Count, and write the counts into the rows of the newest results."""
    path = mlir_kernels.latest_path(name)
    if path is None:
        raise SystemExit(f"{name} has no results; run the step `time` first")
    named = [name] if sys.argv[1:2] == [name] else []  # a program with several benchmarks
    seen = ncu.watch([sys.argv[0], *named, "launch", *words], METRICS, "--profile-from-start", "off")
    results, launched = json.loads(path.read_text()), json.loads((folder / LAUNCHED).read_text())
    counts = of_contenders(seen)
    if len(counts) != len(launched):
        raise SystemExit(f"ncu saw {len(counts)} contenders, and {len(launched)} were launched")
    for facts, number in zip(launched, counts, strict=True):
        row = row_of(results["rows"], facts)
        row["instructions"] = number
        print(f"{number:14,} {' '.join(str(value) for value in facts.values())}")
    path.write_text(json.dumps(results, indent=1) + "\n")
    print(path)
    return 0


def of_contenders(launches: Iterable[ncu.Launch]) -> list[int]:
    """The instructions between one mark and the next."""
    counts: list[int] = []
    for launch in launches:
        if launch.kernel.startswith(MARK):
            counts.append(0)
        else:
            counts[-1] += launch.counts["instructions"]
    return counts


def row_of(rows: Sequence[dict[str, Any]], facts: dict[str, Any]) -> dict[str, Any]:
    """The row of a contender. Raises LookupError where there is none: it was not timed."""
    wanted = json.loads(json.dumps(facts))
    found = [row for row in rows if all(row.get(key) == value for key, value in wanted.items())]
    if not found:
        raise LookupError(f"not timed: {wanted}")
    return found[0]


def launch(name: str, folder: Path, cases: Sequence[harness.Case], timed: harness.Timed) -> int:
    """Launch each contender of each timed case once: what ncu watches."""
    import cupy

    mark = cupy.RawKernel(f'extern "C" __global__ void {MARK}() {{}}', MARK)
    results, launched = mlir_kernels.latest(name), []
    rows = results["rows"] if results else []
    harness.CONFIGURED = lambda **facts: row_of(rows, facts)["config"]
    for case in cases:
        try:
            contenders = timed(folder, *case)
        except LookupError as error:
            print(f"{' '.join(harness.words_of(case))}: {error}", file=sys.stderr)
            continue
        cupy.cuda.profiler.start()
        for contender in contenders:
            mark((1,), (1,), ())
            contender.run()
            launched.append({key: value for key, value in contender.facts.items() if key != "error"})
        cupy.cuda.get_current_stream().synchronize()
        cupy.cuda.Device().synchronize()
        cupy.cuda.profiler.stop()
    (folder / LAUNCHED).write_text(json.dumps(launched))
    return 0
