"""The keys of sequences in equal parts, one for a block: which part a block has, and how parts are combined.

With S parts wanted in all, a sequence has length / share equal parts, rounded to the nearest number from 1 on, where
share = ceil(sum of lengths / S); S + B blocks suffice for B sequences of any lengths. A scan tells which is whose:

    lengths   700  90  260     S = 4     share = 263     parts   3  1  1     blocks   0 1 2 | 3 | 4 | without a part ..

Each part has the logarithm of the sum of its weights, and values divided by this sum. The last block of a sequence that
arrives at its counter combines them, and resets the counter for the next launch.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import lego_mlir as lego
from lego_mlir import Row, f32, i32
from lego_mlir.aliases import Operand
from lego_mlir.hardware.limits import WARP

TOGETHER: Final = 8
"""Parts whose loads are under way together."""
LOADS: Final = 4
"""Lengths that a lane loads together."""
LEAST: Final = 256
"""Keys of a part, where its sequence has several."""
LOWEST: Final = -1e30
"""The maximum before the first key: finite, so that differences of maxima are numbers."""

Found = tuple["Operand", "Operand"]
"""The logarithm of a sum of weights, in units of log 2, and a vector of weighted values divided by the sum."""


@dataclass(frozen=True, slots=True)
class KeyPart:
    """Keys `begin` to `end` of sequence `b`, whose `parts` are those of the blocks from `first` on.

    `exists` is 0 for a block without a part, whose other numbers mean nothing. `plan` is shared memory.
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


def part_of_block(lengths: Operand, number: Operand, count: Operand, blocks: Operand, step: int) -> KeyPart:
    """The part of the block with this number, of `blocks` for `count` sequences; parts are multiples of `step` keys.

    The first warp finds it, a sequence in each lane.
    """
    plan, number_, lane = lego.shared(i32, Row(5), "plan"), lego.i32(number), lego.lane_id
    with lego.when(lego.warp_id == 0):
        own = lego.register(i32, 0)
        for turn in lego.range(0, count, WARP * LOADS):
            for k in lego.unroll(LOADS):
                own += lengths.halo("zero")[turn + k * WARP + lane]
        wanted = lego.i32(lego.maximum(blocks - count, 1))
        share = lego.maximum((lego.warp_reduce(own.get()) + wanted - 1) // wanted, LEAST)
        with lego.when(lane < 5):
            plan[lane] = lego.where(lane == 4, 1, lego.where(lane == 2, number_, 0))
        lego.warp_sync()
        begun = lego.register(i32, 0)
        for turn in lego.range(0, count, WARP):
            length = lengths.halo("zero")[turn + lane]
            parts = lego.where(turn + lane < count, lego.maximum((length + share // 2) // share, 1), 0)
            end = lego.warp_scan(parts) + begun.get()
            first = end - parts
            with lego.when((first <= number_) & (number_ < end)):
                for k, value in enumerate((1, lego.i32(turn + lane), first, length, parts)):
                    plan[k] = value
            begun.set(lego.shuffle(end, WARP - 1))
    lego.barrier()
    b, before = lego.index(plan[1], range=(0, count)), lego.index(plan[2], range=(0, number + 1))
    length, several = lego.index(plan[3], range=(0, 2**30)), lego.index(plan[4], range=(1, 2**30))
    size = lego.cdiv(lego.cdiv(length, several), step) * step
    begin = (number - before) * size
    return KeyPart(plan, plan[0], b, before, length, several, begin, lego.minimum(length, begin + size))


@dataclass(frozen=True, slots=True)
class EvenShare:
    """Steps `begin` to `end` of all sequences, one after the other, which are those of a block; each has `share`.

    The block's sequences are `first` to `last`, and the first one begins at step `start`.
    """

    share: Operand
    begin: Operand
    end: Operand
    first: Operand
    last: Operand
    start: Operand

    def parts(self, lengths: Operand, step: int) -> Iterator[SequencePart]:
        """The parts of its sequences that the block has, in a loop."""
        start = lego.register(i32, self.start)
        for b in lego.range(self.first, self.last + 1):
            length, before = lengths[b], start.get()
            after = before + steps_of(length, step)
            begin, end = lego.maximum(self.begin, before) - before, lego.minimum(self.end, after) - before
            block = before // self.share
            yield SequencePart(b, length, begin, end, block + lego.i32(b), (after - 1) // self.share - block + 1)
            start.set(after)


@dataclass(frozen=True, slots=True)
class SequencePart:
    """Steps `begin` to `end` of sequence `b`, whose `parts` have the numbers from `first` on: block + sequence."""

    b: Operand
    length: Operand
    begin: Operand
    end: Operand
    first: Operand
    parts: Operand


def steps_of(length: Operand, step: int) -> Operand:
    """The steps of a sequence, at least one."""
    return lego.maximum((length + (step - 1)) // step, 1)


def share_of_block(lengths: Operand, number: Operand, count: Operand, blocks: Operand, step: int) -> EvenShare:
    """The share of the block with this number: the steps of `count` sequences, divided evenly among `blocks`.

    The first warp finds it, a sequence in each lane.
    """
    plan, number_, lane = lego.shared(i32, Row(5), "plan"), lego.i32(number), lego.lane_id
    with lego.when(lego.warp_id == 0):
        own = lego.register(i32, 0)
        for turn in lego.range(0, count, WARP):
            length = lengths.halo("zero")[turn + lane]
            own += lego.where(turn + lane < count, steps_of(length, step), 0)
        total = lego.warp_reduce(own.get())
        share = (total + lego.i32(blocks - 1)) // lego.i32(blocks)
        begin = lego.minimum(number_ * share, total)
        end = lego.minimum(begin + share, total)
        with lego.when(lane < 5):
            plan[lane] = lego.where(lane == 0, share, lego.where(lane == 1, end, lego.where(lane == 3, -1, 0)))
        lego.warp_sync()
        before = lego.register(i32, 0)
        for turn in lego.range(0, count, WARP):
            length = lengths.halo("zero")[turn + lane]
            steps = lego.where(turn + lane < count, steps_of(length, step), 0)
            after = lego.warp_scan(steps) + before.get()
            first = after - steps
            with lego.when((first <= begin) & (begin < after)):
                plan[2] = lego.i32(turn + lane)
                plan[4] = first
            with lego.when((begin < end) & (first < end) & (end <= after)):
                plan[3] = lego.i32(turn + lane)
            before.set(lego.shuffle(after, WARP - 1))
    lego.barrier()
    share, end = plan[0], plan[1]
    first, last = lego.index(plan[2], range=(0, count)), lego.index(plan[3], range=(-1, count))
    return EvenShare(share, lego.minimum(number_ * share, end), end, first, last, plan[4])


def combined(first: Operand, count: Operand, read: Callable[[Operand], Found], width: int) -> Found:
    """The combination of `count` parts from `first` on: the logarithm of all weights, and the weighted values."""
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
