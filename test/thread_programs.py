"""Random kernels whose indices are data, and each thread of them evaluated alone.

A program is a tree of statements that is written as a kernel of the language and evaluated as plain Python, one
generator for each thread, which stops at barriers and at exchanges of its warp. The evaluation uses nothing of the
package: a claim about the kernel is compared with what the threads do.

    d1 = lego.index(e[t % 8])           a value of the tensor e, whose range is declared
    with lego.when(d1 < 2):             data in a branch
        y[d1, t] = 1                    data in an index

Indices are made of ids, rounds and data: elements of tensors with and without a declared range, a scalar argument, old
values of atomic updates, registers, shuffled values, elements of shared tiles, and values of a curve at data.
"""

from __future__ import annotations

import itertools
import math
import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

WARP, EXTENT, MOST_ROUNDS = 32, 8, 40


@dataclass(frozen=True)
class Term:
    """An index: its text, and its value from the variables of a thread. `most` is one more than its greatest value."""

    text: str
    value: object = field(repr=False)
    most: int


@dataclass
class Step:
    """A statement: its text, statements inside, and `run`, which yields what the thread does."""

    text: str
    run: object = field(repr=False)
    inside: list[Step] = field(default_factory=list)
    line: int = 0


@dataclass
class Program:
    """A kernel as text and as threads. `tensors` has (elements, declared range or None) of each integer tensor."""

    grid: int
    block: int
    cluster: int | None
    shape: tuple
    sized: bool
    tensors: dict[str, tuple[int, tuple[int, int] | None]]
    tile: int
    steps: list[Step] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"<{self.text()}>"

    def text(self) -> str:
        """The spec. Sets the line of each statement."""
        declared = [
            f"{name}: lego.Tensor(i32, Row({n}){'' if within is None else f', range={within}'})"
            for name, (n, within) in self.tensors.items()
        ]
        shape = ", ".join("N" if n is None else str(n) for n in self.shape)
        cluster = "" if self.cluster is None else f", cluster={self.cluster}"
        grid = f"lego.cdiv(N, {self.block})" if self.sized else self.grid
        lines = [
            "import lego_mlir as lego",
            "from lego_mlir import Row, gallery, i1, i32",
            'N, curve = lego.size("N"), lego.as_layout(gallery.morton(4))',
            f"@lego.kernel(grid={grid}, block={self.block}{cluster})",
            f"def k({', '.join(declared)}, n: i32, y: lego.Tensor(i32, Row({shape}))):",
            "    b, t = lego.block_id[0], lego.thread_id[0]",
            f'    tile, r0 = lego.shared(i32, Row({self.tile}), "tile"), lego.register(i32, 0)',
            *(["    rank = lego.cluster_rank"] if self.cluster else []),
        ]
        _write(self.steps, lines, 1)
        if not any("tile" in line for line in lines[7:]):
            lines[6] = "    r0 = lego.register(i32, 0)"
        return "\n".join([*lines, ""])

    def kernel(self, name: str):
        """The traced kernel, whose sources are in the file `name`."""
        names: dict = {}
        exec(compile(self.text(), name, "exec"), names)
        return names["k"]

    def drawn(self, rng: random.Random, size: int) -> dict:
        """Memory: constants, permutations, and values over the whole range."""
        found: dict = {"n": rng.choice([0, 1, 2, 3, 5, -1])}
        for name, (count, within) in self.tensors.items():
            lo, hi = within or (-3, 9)
            whole = list(range(lo, hi))
            kind = rng.choice(["constant", "permutation", "any", "ends"])
            if kind == "constant":
                values = [rng.choice(whole)] * count
            elif kind == "permutation":
                values = list(itertools.islice(itertools.cycle(rng.sample(whole, len(whole))), count))
            else:
                values = [rng.choice(whole if kind == "any" else [lo, hi - 1]) for _ in range(count)]
            found[name] = values
        found["N"] = size
        return found

    def blocks(self, size: int) -> int:
        return -(-size // self.block) if self.sized else self.grid

    def dims(self, size: int) -> tuple[int, ...]:
        return tuple(size if n is None else n for n in self.shape)


def _write(steps: list[Step], lines: list[str], depth: int) -> None:
    for step in steps:
        lines.append("    " * depth + step.text)
        step.line = len(lines)
        if step.text.endswith(":"):
            _write(step.inside or [Step("pass", None)], lines, depth + 1)


class OutsideError(Exception):
    """An access outside of its memory: what comes after it means nothing."""


class Memory:
    """What the threads of a launch did: accesses of elements, and the claims that they violate."""

    def __init__(self, program: Program, data: dict) -> None:
        self.program, self.data = program, data
        self.values: dict = {(name, i): v for name in program.tensors for i, v in enumerate(data[name])}
        self.tiles: dict = {}
        self.accesses: dict = defaultdict(list)
        self.violated: set = set()
        self.stopped = False

    def touch(self, env: dict, buffer: str, index: tuple[int, ...], kind: str, line: int, value=None):
        """One access, by position in memory, as claims are; returns what the element held."""
        dims = {"y": self.program.dims(self.data["N"]), "tile": (self.program.tile,)}
        extents = dims.get(buffer) or (self.program.tensors[buffer][0],)
        position = 0
        for i, n in zip(index, extents, strict=True):
            position = position * n + i
        if not 0 <= position < math.prod(extents):
            self.violated.add(("inside", line))
            raise OutsideError
        element = (buffer, position, *([env["b"]] if buffer == "tile" else []))
        held = self.values.get(element)
        if kind == "read" and buffer == "tile" and held is None:
            self.violated.add(("initialised", "tile"))
        self.accesses[element].append((env["b"], env["t"], env["epoch"], env["warp_epoch"], kind, line))
        if kind != "read":
            self.values[element] = (held or 0) + 1 if kind == "atomic" else value
        return held or 0


def violations(program: Program, data: dict) -> set | None:
    """The claims that a launch on this memory shows to be false; None if it runs too long.

    With ("stopped", 0) if an access is outside or threads do not meet: what comes after that means nothing. A tile with
    a race may have been read before a write of the same interval, and what was read may lead threads apart.
    """
    memory = Memory(program, data)
    try:
        for block in range(program.blocks(data["N"])):
            if not _block(memory, block):
                break
    except OutsideError:
        memory.stopped = True
    except TimeoutError:
        return None
    if memory.stopped:
        apart = ("race", "tile") in set(_of_accesses(program, memory, data["N"]))
        left_out = ("initialised", "reached") if apart else ("initialised",)
        return {v for v in memory.violated if v[0] not in left_out} | {("stopped", 0)}
    found = memory.violated | set(_of_accesses(program, memory, data["N"]))
    return found - ({("initialised", "tile")} if ("race", "tile") in found else set())


def _block(memory: Memory, block: int) -> bool:
    """Run the threads of a block from sync to sync; False if they do not meet."""
    program = memory.program
    envs = [
        {**memory.data, "b": block, "t": t, "rank": block % (program.cluster or 1), "r0": 0, "epoch": 0}
        for t in range(program.block)
    ]
    for env in envs:
        env["warp_epoch"] = 0
    threads = [executed(program.steps, env, memory) for env in envs]
    waiting: list = [next(thread, None) for thread in threads]
    for _ in range(10_000):
        if all(w is None for w in waiting):
            return True
        turns = [lane for lane, w in enumerate(waiting) if w and w[0] == "turn"]
        for lane in turns:  # atomic updates take turns, so that no thread has all of its own first
            waiting[lane] = next(threads[lane], None)
        moved = bool(turns)
        for first in range(0, program.block, WARP):
            lanes = range(first, min(first + WARP, program.block))
            at = {waiting[lane][:2] for lane in lanes if waiting[lane] and waiting[lane][0] in ("shuffle", "warp")}
            for what, line in at:
                if any(waiting[lane] is None or waiting[lane][:2] != (what, line) for lane in lanes):
                    continue
                if what == "shuffle" and _past_the_end([waiting[lane] for lane in lanes]):
                    memory.violated.add(("reached", line))
                answers = _exchanged(what, [waiting[lane] for lane in lanes])
                for lane, answer in zip(lanes, answers, strict=True):
                    envs[lane]["warp_epoch"] += what == "warp"
                    waiting[lane] = _sent(threads[lane], answer)
                moved = True
                break
        if moved:
            continue
        if len(set(waiting)) == 1 and waiting[0][0] == "block":
            for env in envs:
                env["epoch"] += 1
            waiting = [next(thread, None) for thread in threads]
            continue
        sites = {w[1] for w in waiting if w is not None}
        if len(sites) == 1:  # of several, some may be where all threads would meet
            memory.violated |= {("reached", line) for line in sites}
        memory.stopped = True
        return False
    raise TimeoutError


def _sent(thread, answer):
    try:
        return thread.send(answer)
    except StopIteration:
        return None


def _exchanged(what: str, lanes: list[tuple]) -> list:
    """The results of a shuffle: a lane outside of its group keeps its value."""
    if what == "warp":
        return [None] * len(lanes)
    found = []
    for lane, (_, _, value, kind, distance, width) in enumerate(lanes):
        place = lane % width
        source = {"xor": place ^ distance, "up": place - distance, "down": place + distance, "idx": distance}[kind]
        source = source + lane - place if 0 <= source < width else lane
        found.append(lanes[source][2] if source < len(lanes) else value)
    return found


def _past_the_end(lanes: list[tuple]) -> bool:
    """Whether a lane of a partial warp takes the value of one that the block does not have."""
    for lane, (_, _, _, kind, distance, width) in enumerate(lanes):
        place = lane % width
        source = {"xor": place ^ distance, "up": place - distance, "down": place + distance, "idx": distance}[kind]
        if 0 <= source < width and source + lane - place >= len(lanes):
            return True
    return False


def executed(steps: list[Step], env: dict, memory: Memory) -> Iterator:
    for step in steps:
        yield from step.run(step, env, memory)


def _of_accesses(program: Program, memory: Memory, size: int) -> Iterator[tuple]:
    """Races, and elements of y that are written twice or not at all."""
    for element, accesses in memory.accesses.items():
        buffer = element[0]
        writers = [(a[:2], a[5]) for a in accesses if a[4] == "write"]
        if len({who for who, _ in writers}) > 1 or len(set(writers)) < len(writers):
            yield "once", buffer
        for one, other in itertools.combinations(dict.fromkeys(a[:5] for a in accesses), 2):
            if one[4] == other[4] and one[4] in ("read", "atomic"):
                continue
            if one[0] != other[0]:
                yield "race across", buffer
                continue
            together = one[1] // WARP != other[1] // WARP or one[3] == other[3]
            if one[1] != other[1] and one[2] == other[2] and together:
                yield "race", buffer
    for position in range(math.prod(program.dims(size))):
        if not any(a[4] == "write" for a in memory.accesses.get(("y", position), ())):
            yield "written", "y"
            return
