"""The keys of sequences in equal parts, one for a block: which part a block has, and how parts are combined.

With S parts wanted in all, a sequence has ceil(length / share) equal parts, share = ceil(sum of lengths / S), and at
least one; for B sequences S + B blocks suffice whatever the lengths. They find their parts by a scan over the lengths:

    lengths   700  90  260     S = 4     share = 263     parts   3  1  1     blocks   0 1 2 | 3 | 4 | without a part ..

Each part has the logarithm of the sum of its weights, and values divided by this sum. The last block of a sequence that
arrives at its counter combines them, and resets the counter for the next launch.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import lego_mlir as lego
from lego_mlir import Row, f32, i32
from lego_mlir.aliases import Operand

TOGETHER: Final = 8
"""Parts whose loads are under way together."""
LEAST: Final = 256
"""Keys of a part, where its sequence has several."""
LOWEST: Final = -1e30
"""The maximum before the first key: finite, so that differences of maxima are numbers."""

Found = tuple["Operand", "Operand"]
"""The logarithm of a sum of weights, in units of log 2, and a vector of weighted values divided by the sum."""


@dataclass(frozen=True, slots=True)
class KeyPart:
    """Keys `begin` to `end` of sequence `b`, whose `parts` are those of the blocks from `first` on.

    `exists` is 0 for a block without a part, whose other numbers are those of no part. `plan` is shared memory.
    """

    plan: Operand
    exists: Operand
    b: Operand
    first: Operand
    length: Operand
    parts: Operand
    begin: Operand
    end: Operand

    def is_last(self, counters: Operand, head: Operand) -> Operand:
        """Whether this block is the last one of its sequence and head to store its part."""
        last, counter = lego.i32(self.parts - 1), (self.b, head)
        lego.barrier()
        with lego.when(lego.thread_id[0] < 1):
            lego.fence()  # for the whole block: the barrier orders its stores before it
            self.plan[0] = counters.atomic_add(1, *counter)
            lego.fence()
            with lego.when(self.plan[0] == last):
                counters.atomic_store(0, *counter)
        lego.barrier()
        return self.plan[0] == last


def part_of_block(
    lengths: Operand, number: Operand, count: Operand, blocks: Operand, step: int, threads: int
) -> KeyPart:
    """The part of the block with this number, of `blocks` for `count` sequences; parts are multiples of `step` keys."""
    t, plan = lego.thread_id[0], lego.shared(i32, Row(4), "plan")
    own = lego.register(i32, 0)
    for b in lego.range(t, count, threads):
        own += lengths[b]
    keys = lego.index(lego.block_reduce(own.get()), range=(0, 2**30))
    share = lego.maximum(lego.cdiv(keys, lego.maximum(blocks - count, 1)), LEAST)
    with lego.when(t < 1):
        for k, value in enumerate((0, 0, lego.i32(number), 1)):
            plan[k] = value
    lego.barrier()
    begun = lego.register(i32, 0)
    for turn in lego.range(lego.cdiv(count, threads)):
        b, parts = turn * threads + t, lego.register(i32, 0)
        with lego.when(b < count):
            parts.set(lego.i32(lego.maximum(lego.cdiv(lego.index(lengths[b]), share), 1)))
        first = lego.block_scan(parts.get(), exclusive=True) + begun.get()
        with lego.when((first <= lego.i32(number)) & (lego.i32(number) < first + parts.get())):
            for k, value in enumerate((1, lego.i32(b), first, parts.get())):
                plan[k] = value
        begun += lego.block_reduce(parts.get())
    lego.barrier()
    mine, before = lego.index(plan[1], range=(0, count)), lego.index(plan[2], range=(0, number + 1))
    length, several = lego.index(lengths[mine]), lego.index(plan[3], range=(1, 2**30))
    size = lego.cdiv(lego.cdiv(length, several), step) * step
    begin = (number - before) * size
    return KeyPart(plan, plan[0], mine, before, length, several, begin, lego.minimum(length, begin + size))


def combined(first: Operand, count: Operand, read: Callable[[Operand], Found], width: int) -> Found:
    """Of the parts from `first` on, all of them together."""
    best, total, out = lego.register(f32, LOWEST), lego.register(f32, 0.0), lego.register(f32, 0.0, width)
    for begin in lego.range(0, count, TOGETHER):
        given = [read(first + lego.minimum(begin + k, count - 1)) for k in range(TOGETHER)]
        logs = [lego.where(begin + k < count, log, -math.inf) for k, (log, _) in enumerate(given)]
        top = functools.reduce(lego.maximum, logs, best.get())
        fade = lego.exp2(best.get() - top, fast=True)
        sums, vector = total.get() * fade, out.get() * fade
        for log, (_, values) in zip(logs, given, strict=True):
            weight = lego.exp2(log - top, fast=True)
            sums, vector = sums + weight, vector + values * weight
        best.set(top)
        total.set(sums)
        out.set(vector)
    sums = total.get()
    return best.get() + lego.log2(sums), out.get() * lego.where(sums > 0.0, 1.0 / sums, 0.0)
