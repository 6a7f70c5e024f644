"""Redistribution plans: what each rank of a mesh sends to each rank of another, as strided boxes of their memory.

    plan = lego.redistribute(source, target)       two divisions of one array over ranks
    plan.message(s, t)                             boxes of s's part and of t's part, element for element
    plan.summary                                   messages, elements moved, and how many messages have which size

An array is divided axis by axis, so a message is a product of runs along the axes (`axis_moves`): a plan holds the runs
of each axis and no message, however many ranks and elements there are. A target rank takes each element from itself
where it has it, else from the copy with its own coordinates along the axes of copies; parts of a sum come from all of
them and are added.

>>> from lego_mlir.distributions import Chunks, Sharded
>>> rows = Sharded([4, 6], {"rank": 2}, [[("rank", Chunks(2))], []])
>>> columns = Sharded([4, 6], {"rank": 2}, [[], [("rank", Chunks(2))]])
>>> plan = redistribute(rows, columns)
>>> plan.elements.tolist(), plan.summary.moved, [box.sizes for box in plan.message(0, 1).source]
([[6, 6], [6, 6]], 12, [(1, 2, 1, 3)])
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Final, NamedTuple

import numpy as np

from lego_mlir.aliases import Array
from lego_mlir.distributions.base import Distribution
from lego_mlir.distributions.sharded import Sharded
from lego_mlir.errors import LayoutError
from lego_mlir.expr.index import as_expr
from lego_mlir.expr.verdict import Proved, Refuted, Verdict
from lego_mlir.layout.base import all_of
from lego_mlir.mesh.axis_moves import AxisMoves, MovedRun, axis_moves

MOST_PAIRS: Final = 1 << 26
"""Pairs of ranks up to which the matrix of traffic is made."""


class StridedBox(NamedTuple):
    """A part of a rank's memory: `offset` and `strides` in elements; two sizes for each axis, repeats and length."""

    offset: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def elements(self) -> int:
        """How many elements it has."""
        return prod(self.sizes)

    def of(self, memory: Array) -> Array:
        """The view of a flat NumPy array."""
        steps = [stride * memory.itemsize for stride in self.strides]
        return np.lib.stride_tricks.as_strided(memory[self.offset :], self.sizes, steps)


@dataclass(frozen=True, slots=True)
class Message:
    """What one rank sends to another: boxes of both, in one order of elements, which are added there if it `adds`."""

    sender: int
    receiver: int
    source: tuple[StridedBox, ...]
    target: tuple[StridedBox, ...]
    adds: bool = False

    @property
    def elements(self) -> int:
        """How many elements are sent."""
        return sum(box.elements for box in self.source)


@dataclass(frozen=True, slots=True)
class Traffic:
    """Numbers of a plan: messages between different ranks, elements in them, elements that stay, messages by size."""

    messages: int
    moved: int
    stays: int
    sizes: dict[int, int]


class Ranks:
    """The ranks of one side, numbered in row-major order of the mesh, and their coordinates along the array's axes."""

    def __init__(self, distribution: Sharded) -> None:
        self.distribution, mesh = distribution, {name: int(n) for name, n in distribution.mesh.items()}
        self.count, self.names, self.sizes = prod(mesh.values()), list(mesh), list(mesh.values())
        self.copies = {c.name: c.combined for c in distribution.copies}
        self.split_names = [[name for name, _ in axis] for axis in distribution.splits]

    def mesh_of(self, rank: Array) -> list[Array]:
        """The coordinates of ranks in the mesh."""
        return list(np.unravel_index(rank, self.sizes)) if self.sizes else []

    def along(self, rank: Array) -> list[Array]:
        """The coordinates of ranks along each axis of the array."""
        mesh = dict(zip(self.names, self.mesh_of(rank), strict=True))
        found = []
        for axis in self.split_names:
            number = np.zeros_like(rank)
            for name in axis:
                number = number * self.sizes[self.names.index(name)] + mesh[name]
            found.append(number)
        return found

    def local_shape(self, rank: int) -> tuple[int, ...]:
        """The sizes of a rank's part."""
        mesh = dict(zip(self.names, map(int, self.mesh_of(np.asarray(rank))), strict=True))
        return tuple(int(n) for n in self.distribution.local_shape(**mesh))

    def strides(self, rank: int) -> tuple[int, ...]:
        """The strides of a rank's part, in elements."""
        sizes, d = self.local_shape(rank), self.distribution
        if d.pitch is not None:
            return 1, int(d.pitch)
        steps = [prod(sizes[k + 1 :]) if d.order == "C" else prod(sizes[:k]) for k in range(len(sizes))]
        return tuple(steps)

    def capacity(self, rank: int) -> int:
        """The elements of memory of a rank's part."""
        sizes = self.local_shape(rank)
        return int(self.distribution.pitch) * sizes[1] if self.distribution.pitch is not None else prod(sizes)


class RedistributionPlan:
    """The moves from one division of an array over ranks to another. Built by `redistribute`."""

    def __init__(self, source: Sharded, target: Sharded) -> None:
        self.source, self.target = Ranks(source), Ranks(target)
        self.shape = tuple(int(n) for n in source.shape)
        self.axes: tuple[AxisMoves, ...] = tuple(
            axis_moves(n, [split for _, split in s], [split for _, split in t])
            for n, s, t in zip(self.shape, source.splits, target.splits, strict=True)
        )
        self.parts = {name for name, how in self.source.copies.items() if how is not None}

    def __repr__(self) -> str:
        found = self.summary
        ranks = f"from {self.source.count} to {self.target.count} ranks"
        return f"<plan {ranks}: {found.messages} messages, {found.moved} elements>"

    @property
    def leaves_gaps(self) -> bool:
        """Whether new parts must be zero at first: parts of a sum are added, or a pitch leaves gaps."""
        return bool(self.parts) or self.target.distribution.pitch is not None

    # -- who sends

    def senders(self, receiver: int) -> Iterator[tuple[int, tuple[int, ...]]]:
        """The ranks that send to a rank, each with its coordinates along the axes; itself where it keeps elements."""
        wanted = [int(c) for c in self.target.along(np.asarray(receiver))]
        held = [np.flatnonzero(axis.counts[:, c]).tolist() for axis, c in zip(self.axes, wanted, strict=True)]
        for along in itertools.product(*held):
            for rank in self._holders(along, receiver):
                yield rank, along

    def _holders(self, along: Sequence[int], receiver: int) -> Iterator[int]:
        """The ranks with these coordinates that send to a rank: one copy, and every part of a sum."""
        own = self.source.mesh_of(np.asarray(receiver % self.source.count))
        mesh = dict(zip(self.source.names, map(int, own), strict=True))
        for number, names in zip(along, self.source.split_names, strict=True):
            for name in reversed(names):
                number, mesh[name] = divmod(number, self.source.sizes[self.source.names.index(name)])
        parts = [name for name in self.source.names if name in self.parts]
        for each in itertools.product(*(range(self.source.sizes[self.source.names.index(name)]) for name in parts)):
            chosen = mesh | dict(zip(parts, each, strict=True))
            coordinates = [chosen[name] for name in self.source.names]
            yield int(np.ravel_multi_index(coordinates, self.source.sizes)) if coordinates else 0

    # -- what is sent

    def message(self, sender: int, receiver: int) -> Message:
        """What a rank sends to another; without boxes where that is nothing."""
        along = [int(c) for c in self.source.along(np.asarray(sender))]
        if sender not in self._holders(along, receiver):
            return Message(sender, receiver, (), ())
        wanted = [int(c) for c in self.target.along(np.asarray(receiver))]
        pairs = zip(self.axes, along, wanted, strict=True)
        runs = [axis.runs.get((here, there), []) for axis, here, there in pairs]
        steps = self.source.strides(sender), self.target.strides(receiver)
        boxes = [self._boxes(chosen, steps) for chosen in itertools.product(*runs)]
        here, there = (tuple(box[side] for box in boxes) for side in (0, 1))
        return Message(sender, receiver, here, there, adds=bool(self.parts))

    @staticmethod
    def _boxes(
        runs: Sequence[MovedRun], strides: tuple[tuple[int, ...], tuple[int, ...]]
    ) -> tuple[StridedBox, StridedBox]:
        sizes = tuple(n for run in runs for n in (run.repeats, run.length))
        found = []
        for steps, sides in zip(strides, ([run.source for run in runs], [run.target for run in runs]), strict=True):
            offset = sum(side.first * step for side, step in zip(sides, steps, strict=True))
            found.append(
                StridedBox(
                    offset,
                    sizes,
                    tuple(n for side, step in zip(sides, steps, strict=True) for n in (side.step * step, step)),
                )
            )
        return found[0], found[1]

    def messages_to(self, receiver: int) -> list[Message]:
        """All messages to a rank, by sender, its own included."""
        found = [self.message(sender, receiver) for sender, _ in self.senders(receiver)]
        return sorted((m for m in found if m.elements), key=lambda m: m.sender)

    def messages_from(self, sender: int) -> list[Message]:
        """All messages from a rank, by receiver, to itself included."""
        along = [int(c) for c in self.source.along(np.asarray(sender))]
        every = self.target.along(np.arange(self.target.count))
        some = np.ones(self.target.count, bool)
        for axis, here, there in zip(self.axes, along, every, strict=True):
            some &= axis.counts[here, there] > 0
        found = [self.message(sender, int(receiver)) for receiver in np.flatnonzero(some)]
        return [m for m in found if m.elements]

    # -- numbers

    @cached_property
    def elements(self) -> Array:
        """Elements from each rank to each rank, [sources, targets]. Raises LayoutError for too many pairs."""
        if self.source.count * self.target.count > MOST_PAIRS:
            raise LayoutError(
                f"a matrix of {self.source.count} x {self.target.count} ranks is not made; `summary` counts messages"
            )
        found = np.zeros((self.source.count, self.target.count), np.int64)
        for receiver in range(self.target.count):
            wanted = [int(c) for c in self.target.along(np.asarray(receiver))]
            for sender, along in self.senders(receiver):
                counts = (axis.counts[s, t] for axis, s, t in zip(self.axes, along, wanted, strict=True))
                found[sender, receiver] = prod(map(int, counts))
        return found

    @cached_property
    def summary(self) -> Traffic:
        """The traffic, counted by axes: no pair of ranks is visited."""
        sizes: Counter[int] = Counter({1: 1})
        for axis in self.axes:
            along = Counter(axis.counts[axis.counts > 0].tolist())
            sizes = _times(sizes, along)
        others = prod(
            n for name, n in zip(self.target.names, self.target.sizes, strict=True) if name in self.target.copies
        )
        parts = prod(n for name, n in zip(self.source.names, self.source.sizes, strict=True) if name in self.parts)
        every = Counter({size: count * others * parts for size, count in sizes.items()})
        own = Counter(n for n in self._kept().tolist() if n)
        every.subtract(own)
        left = {size: count for size, count in sorted(every.items()) if count}
        return Traffic(
            sum(left.values()), sum(n * c for n, c in left.items()), sum(n * c for n, c in own.items()), left
        )

    def _kept(self) -> Array:
        """The elements that each rank keeps."""
        ranks = np.arange(min(self.source.count, self.target.count))
        found = np.ones(len(ranks), np.int64)
        for axis, s, t in zip(self.axes, self.source.along(ranks), self.target.along(ranks), strict=True):
            found *= axis.counts[s, t]
        return found

    def check(self) -> Verdict:
        """Whether every element of the array reaches each of its target places, exactly once."""
        for d, (axis, n) in enumerate(zip(self.axes, self.shape, strict=True)):
            wrong = _uncovered([run for runs in axis.runs.values() for run in runs], n)
            if wrong is not None:
                return Refuted({f"index {d}": wrong}, f"element {wrong} of axis {d} does not move exactly once")
        return Proved("the runs along each axis cover it, without a gap and without overlap")

    # -- execution on arrays of one process

    def move(self, parts: Sequence[Array]) -> list[Array]:
        """The target's parts, for the flat NumPy arrays of the source's: the plan carried out in one process."""
        found = [np.zeros(self.target.capacity(t), parts[0].dtype) for t in range(self.target.count)]
        for receiver, memory in enumerate(found):
            for message in self.messages_to(receiver):
                for here, there in zip(message.source, message.target, strict=True):
                    given, taken = here.of(parts[message.sender]), there.of(memory)
                    taken[...] = taken + given if message.adds else given
        return found


def _times(a: Counter[int], b: Counter[int]) -> Counter[int]:
    """How often each product of two sizes comes."""
    found: Counter[int] = Counter()
    for (n, i), (m, j) in itertools.product(a.items(), b.items()):
        found[n * m] += i * j
    return found


def _uncovered(runs: Sequence[MovedRun], n: int) -> int | None:
    """An element that no run has, or two; None if there is none. Runs that repeat tile whole periods together."""
    at, ordered = 0, sorted(runs, key=lambda run: run.first)
    k = 0
    while k < len(ordered):
        repeats, period, start = ordered[k].repeats, ordered[k].period, ordered[k].first
        if start != at:
            return min(start, at)
        if repeats == 1:
            at, k = at + ordered[k].length, k + 1
            continue
        while k < len(ordered) and at < start + period:
            if ordered[k].first != at or (ordered[k].repeats, ordered[k].period) != (repeats, period):
                return at
            at, k = at + ordered[k].length, k + 1
        if at != start + period:
            return at
        at = start + repeats * period
    return None if at == n else min(at, n)


def redistribute(source: Distribution, target: Distribution) -> RedistributionPlan:
    """The plan that moves an array from one division over ranks to another, of the same shape.

    Ranks are numbered in row-major order of each mesh. The source may hold copies, or parts that are summed; the target
    may hold copies. Raises LayoutError for other distributions, symbolic sizes, and shapes that differ.
    """
    for name, d in (("source", source), ("target", target)):
        if not isinstance(d, Sharded):
            raise LayoutError(
                f"redistribute: the {name} is {d!r}; state it as Sharded, or by from_torch, from_scalapack"
            )
        if not all(isinstance(n, int) for n in (*d.shape, *d.mesh.values())):
            raise LayoutError(
                f"redistribute: the {name} has symbolic sizes, {d.shape} over {d.mesh}; substitute numbers"
            )
    assert isinstance(source, Sharded) and isinstance(target, Sharded)
    if source.shape != target.shape:
        raise LayoutError(f"redistribute: the source is {source.shape} and the target {target.shape}; they must agree")
    wrong = [how for how in (c.combined for c in source.copies) if how not in (None, "sum")]
    if wrong or any(c.combined for c in target.copies):
        raise LayoutError(
            "redistribute: parts are added, and a target holds elements; got "
            + (f"a source of parts by {wrong[0]!r}" if wrong else "a target of parts")
        )
    return RedistributionPlan(source, target)


def exactly_once(source: Distribution, target: Distribution) -> Verdict:
    """Whether every element reaches each of its target places exactly once, for all symbolic sizes at once.

    Where both are bijections of elements and copies onto places, so is the target after the source's inverse. The plan
    for numbers has this map as runs, which its own `check` covers. Raises LayoutError for shapes that differ.
    """
    if list(map(as_expr, source.shape)) != list(map(as_expr, target.shape)):
        raise LayoutError(f"exactly_once: the source is {source.shape} and the target {target.shape}; they must agree")
    return all_of([source.check(), target.check()])
