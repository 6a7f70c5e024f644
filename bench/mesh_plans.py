"""Plans of redistributions over up to 10^5 ranks: time, memory and messages. Nothing is moved; no GPU.

    python bench/mesh_plans.py          plan and check each case in a process of its own, and write the table

The table is in docs/how-to/mesh.md. Seconds are of the processor, of the plan with its proof and its counts; memory is
what the process has more of at most than before.
"""

from __future__ import annotations

import datetime
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from resource import RUSAGE_SELF, getrusage
from time import process_time
from typing import Any

import mlir_kernels
import runner

PAGE = "how-to/mesh.md"
SHOWN = 3
"""Sizes of messages that are told apart in the table."""
Mesh = tuple[tuple[str, int], ...]
Split = tuple[str, int] | tuple[str, int, int]
"""An axis of the mesh and its parts; of blocks that are dealt out, their size as well."""


def side(shape: tuple[int, ...], *axes: Split | None) -> Any:
    """A distribution whose axes are divided over one axis of the mesh each, or not at all."""
    from lego_mlir.distributions import Chunks, Cyclic, Sharded

    splits = [[] if one is None else [(one[0], Chunks(one[1]) if len(one) == 2 else Cyclic(*one[1:]))] for one in axes]
    return Sharded(shape, {one[0]: one[1] for one in axes if one is not None}, splits)


CASES: tuple[tuple[str, tuple[int, ...], tuple[Split | None, ...], tuple[Split | None, ...]], ...] = (
    ("blocks of 64 in turn, to blocks", (1 << 30,), (("r", 8, 64),), (("r", 8),)),
    (
        "rows, to a 32 x 32 grid in blocks of 64", (1 << 16, 1 << 16),
        (("r", 1024), None), (("p", 32, 64), ("q", 32, 64)),
    ),
    ("rows, to a 64 x 64 grid", (1 << 18, 1 << 18), (("r", 4096), None), (("p", 64), ("q", 64))),
    ("rows, to a 128 x 128 grid", (1 << 18, 1 << 18), (("r", 16384), None), (("p", 128), ("q", 128))),
    (
        "320 x 320 in blocks of 64, to 256 x 400 in blocks of 128", (1 << 20, 1 << 20),
        (("p", 320, 64), ("q", 320, 64)), (("p", 256, 128), ("q", 400, 128)),
    ),
    ("rows, to a 320 x 320 grid", (1 << 20, 1 << 20), (("r", 102400), None), (("p", 320), ("q", 320))),
)  # fmt: skip


def planned(number: int) -> dict[str, Any]:
    """The figures of a case."""
    import lego_mlir as lego

    _, shape, *axes = CASES[number]
    source, target = (side(shape, *one) for one in axes)
    small = (64,) * len(shape)
    lego.redistribute(side(small, *([None] * len(small))), side(small, *([None] * len(small)))).check()  # imports
    before, began = getrusage(RUSAGE_SELF).ru_maxrss, process_time()
    plan = lego.redistribute(source, target)
    if not plan.check():
        raise SystemExit(f"{CASES[number][0]}: {plan.check().explanation}")
    found, seconds = plan.summary, process_time() - began
    began = process_time()
    one = plan.messages_from(plan.source.count // 2)
    return {
        "ranks": plan.source.count, "seconds": seconds, "MB": (getrusage(RUSAGE_SELF).ru_maxrss - before) / 1024,
        "messages": found.messages, "sizes": found.sizes, "of one rank": len(one), "s of one": process_time() - began,
    }  # fmt: skip


def sizes_in_words(sizes: dict[int, int]) -> str:
    """The most frequent sizes of messages, in elements."""
    most = Counter(sizes).most_common()
    shown = "; ".join(f"{count:,} of {size:,}" for size, count in most[:SHOWN])
    return shown if len(most) <= SHOWN else f"{shown}; other sizes: {len(most) - SHOWN}"


def plan(_: Sequence[str]) -> int:
    rows = []
    with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as pool:
        for (name, shape, *_), found in zip(CASES, pool.map(planned, range(len(CASES))), strict=True):
            n = 1
            for size in shape:
                n *= size
            memory = f"{found['MB']:.0f} MB" if found["MB"] >= 1 else "below 1 MB"
            rows.append([
                f"{found['ranks']:,}", f"2^{n.bit_length() - 1}", name, f"{found['seconds']:.2f}", memory,
                f"{found['messages']:,}", sizes_in_words(found["sizes"]),
                f"{found['of one rank']:,}, in {found['s of one']:.3f} s",
            ])  # fmt: skip
            print(" | ".join(rows[-1]), flush=True)
    columns = "ranks|elements|from, to|seconds|more memory|messages|of elements each|messages of one rank"
    when = f"Measured on {datetime.date.today()} on one core of a processor that had other work.\n\n"
    mlir_kernels.put_into(PAGE, "plans", when, mlir_kernels.table(columns, rows))
    return 0


BENCHMARK = runner.Benchmark("mesh_plans", steps={"plan": plan})

if __name__ == "__main__":
    sys.exit(runner.main(BENCHMARK))
