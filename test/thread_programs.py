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


# ---- threads


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
    threads = [_body(program.steps, env, memory) for env in envs]
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


def _body(steps: list[Step], env: dict, memory: Memory) -> Iterator:
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


# ---- drawing


class Drawer:
    """Draws a program. With `bare`, values of registers and shared tiles are indices as they are, inside or not."""

    def __init__(self, rng: random.Random, bare: bool = False) -> None:
        self.rng, self.bare, self.in_role = rng, bare, False
        sized = rng.random() < 0.25
        block = rng.choice([8, 8, 16, 32, 64, 40])
        cluster = 2 if not sized and rng.random() < 0.1 else None
        grid = rng.choice([2, 4]) if cluster else rng.choice([1, 1, 2, 3])
        total = grid * block
        shape: tuple = rng.choice(
            [(None,)] if sized else [(total,), (grid, block), (4, block), (4, 4, block), (total,)]
        )
        tensors = {"e": (block, (0, rng.choice([2, 4, 16]))), "u": (block, None), "c": (4, None)}
        self.program = Program(grid, block, cluster, shape, sized, tensors, rng.choice([block, 2 * block]))
        block_term = Term("b", lambda env: env["b"], 1 << 20 if sized else grid)
        self.terms = [Term("t", lambda env: env["t"], block), block_term]
        if cluster:
            self.terms.append(Term("rank", lambda env: env["rank"], cluster))
        self.data: list[Term] = []
        self.made = 0

    def fresh(self, prefix: str) -> str:
        self.made += 1
        return f"{prefix}{self.made}"

    # -- indices

    def term(self, depth: int = 2) -> Term:
        """An index of ids, rounds and data."""
        leaves = [*self.terms, *self.data, *self.data]
        if depth == 0 or self.rng.random() < 0.4:
            return self.rng.choice(leaves)
        a, n = self.term(depth - 1), self.rng.choice([1, 2, 3, 4, 8])
        kind = self.rng.choice(["add", "mul", "div", "mod", "xor", "minus", "sum"])
        if kind == "sum":
            b = self.term(depth - 1)
            return Term(f"({a.text} + {b.text})", lambda env: a.value(env) + b.value(env), a.most + b.most - 1)
        f = {
            "add": (f"({a.text} + {n})", lambda v: v + n, a.most + n),
            "mul": (f"{a.text} * {n}", lambda v: v * n, (a.most - 1) * n + 1),
            "div": (f"({a.text} // {n})", lambda v: v // n, (a.most - 1) // n + 1),
            "mod": (f"({a.text} % {n})", lambda v: v % n, min(n, a.most)),
            "xor": (f"({a.text} ^ {n})", lambda v: v ^ n, 1 << max(a.most - 1, n).bit_length()),
            "minus": (f"({a.most - 1} - {a.text})", lambda v: a.most - 1 - v, a.most),
        }[kind]
        return Term(f[0], lambda env: f[1](a.value(env)), f[2])

    def within(self, n: int, depth: int = 2) -> Term:
        """An index below n, mostly."""
        a = self.term(depth)
        if a.most <= n or self.rng.random() < 0.03:
            return a
        return Term(f"({a.text}) % {n}", lambda env: a.value(env) % n, n)

    def condition(self) -> Term:
        a, n = self.term(), self.rng.randrange(5)
        sign = self.rng.choice(["<", ">=", "==", "!="])
        tests = {"<": lambda v: v < n, ">=": lambda v: v >= n, "==": lambda v: v == n, "!=": lambda v: v != n}
        return Term(f"({a.text} {sign} {n})", lambda env: tests[sign](a.value(env)), 2)

    # -- statements

    def body(self, depth: int, count: int) -> list[Step]:
        return [step for _ in range(count) for step in self.statement(depth)]

    def scoped(self, depth: int, count: int) -> list[Step]:
        """The statements of a branch or loop, whose values do not leave it."""
        known, of_data = list(self.terms), list(self.data)
        found = self.body(depth, count)
        self.terms, self.data = known, of_data
        return found

    def statement(self, depth: int) -> list[Step]:
        kinds = ["load"] * 4 + ["old", "kept", "held", "shuffled", "through", "curve", "scalar", "barrier", "warp"]
        kinds += ["store"] * 3 + ["tile"] * 2
        if depth:
            kinds += ["when", "when", "sides", "for", "for", "unroll", "while", "count", "roles"]
        return getattr(self, self.rng.choice(kinds))(depth)

    def known(self, name: str, most: int) -> None:
        self.data.append(Term(name, lambda env: env[name], most))

    def load(self, depth: int) -> list[Step]:
        buffer = self.rng.choice(["e", "e", "u"])
        count, within = self.program.tensors[buffer]
        at, name, n = self.within(count, 1), self.fresh("d"), self.rng.choice([2, 4])
        text = f"{name} = lego.index({buffer}[{at.text}])" + ("" if within else f" % {n}")

        def run(step, env, memory):
            value = memory.touch(env, buffer, (at.value(env),), "read", step.line)
            env[name] = value if within else value % n
            yield from ()

        self.known(name, within[1] if within else n)
        return [Step(text, run)]

    def old(self, depth: int) -> list[Step]:
        at, name = self.within(4, 1), self.fresh("d")

        def run(step, env, memory):
            yield "turn", step.line
            env[name] = memory.touch(env, "c", (at.value(env),), "atomic", step.line) % 4

        self.known(name, 4)
        return [Step(f"{name} = lego.index(c.atomic_add(1, {at.text})) % 4", run)]

    def stored(self, name: str) -> None:
        """A value of a register or the tile: of a bare program below 8, and hoped to be below less."""
        self.known(name, self.rng.choice([2, 4, 8]) if self.bare else 4)

    def kept(self, depth: int) -> list[Step]:
        """Write the register."""
        value = self.within(self.rng.choice([2, 4, 8]) if self.bare else 4)

        def run(step, env, memory):
            env["r0"] = value.value(env)
            yield from ()

        return [Step(f"r0.set(i32({value.text}))", run)]

    def held(self, depth: int) -> list[Step]:
        """Read the register."""
        name = self.fresh("d")

        bare = self.bare

        def run(step, env, memory):
            env[name] = env["r0"] if bare else env["r0"] % 4
            yield from ()

        self.stored(name)
        return [Step(f"{name} = lego.index(r0 + 0)" + ("" if bare else " % 4"), run)]

    def shuffled(self, depth: int) -> list[Step]:
        value, name = self.within(4, 1), self.fresh("d")
        kind, width = self.rng.choice(["xor", "up", "down", "idx"]), self.rng.choice([32, 32, 8])
        distance = self.rng.choice([0, 1, width // 2, width - 1])
        word = "shuffle" if kind == "idx" else f"shuffle_{kind}"

        def run(step, env, memory):
            env[name] = (yield ("shuffle", step.line, value.value(env), kind, distance, width)) % 4

        self.known(name, 4)
        text = f"{name} = lego.index(lego.{word}(i32({value.text}), {distance}, width={width})) % 4"
        return [Step(text, run)]

    def through(self, depth: int) -> list[Step]:
        """An element of the shared tile."""
        at, name = self.within(self.program.tile, 1), self.fresh("d")

        bare = self.bare

        def run(step, env, memory):
            value = memory.touch(env, "tile", (at.value(env),), "read", step.line)
            env[name] = value if bare else value % 4
            yield from ()

        self.stored(name)
        return [Step(f"{name} = lego.index(tile[{at.text}])" + ("" if bare else " % 4"), run)]

    def curve(self, depth: int) -> list[Step]:
        """The place of a number on a curve: its even and its odd bits."""
        at, row, column = self.within(16), self.fresh("d"), self.fresh("d")

        def run(step, env, memory):
            v = at.value(env)
            env[row], env[column] = (v >> 1 & 1) + (v >> 3 & 1) * 2, (v & 1) + (v >> 2 & 1) * 2
            yield from ()

        self.known(row, 4)
        self.known(column, 4)
        return [Step(f"{row}, {column} = curve.inv({at.text})", run)]

    def scalar(self, depth: int) -> list[Step]:
        name = self.fresh("d")

        def run(step, env, memory):
            env[name] = env["n"] % 4
            yield from ()

        self.known(name, 4)
        return [Step(f"{name} = lego.index(n) % 4", run)]

    def barrier(self, depth: int) -> list[Step]:
        if self.in_role:
            return self.warp(depth)

        def run(step, env, memory):
            yield "block", step.line

        return [Step("lego.barrier()", run)]

    def warp(self, depth: int) -> list[Step]:
        def run(step, env, memory):
            yield "warp", step.line

        return [Step("lego.warp_sync()", run)]

    def tile(self, depth: int) -> list[Step]:
        own = self.rng.random() < 0.6
        at = self.terms[0] if own else self.within(self.program.tile)
        value = self.within(self.rng.choice([2, 4, 8]) if self.bare else 8)

        def run(step, env, memory):
            memory.touch(env, "tile", (at.value(env),), "write", step.line, value.value(env))
            yield from ()

        barrier = self.barrier(depth) if self.rng.random() < 0.7 else []
        return [Step(f"tile[{at.text}] = i32({value.text})", run), *barrier]

    def store(self, depth: int) -> list[Step]:
        program, rng = self.program, self.rng
        if program.sized:
            return self._sized_store()
        t, b = self.terms[:2]
        n = program.block
        whole = Term(f"b * {n} + t", lambda env: env["b"] * n + env["t"], program.grid * n)
        reverse = Term(f"({n - 1} - t)", lambda env: n - 1 - env["t"], n)
        index = [
            rng.choice([x for x in (t, b, whole, reverse) if x.most == m] or [self.within(m)])
            if rng.random() < 0.55 else self.within(m)
            for m in program.shape
        ]  # fmt: skip

        def run(step, env, memory):
            memory.touch(env, "y", tuple(i.value(env) for i in index), "write", step.line, 1)
            yield from ()

        return [Step(f"y[{', '.join(i.text for i in index)}] = 1", run)]

    def _sized_store(self) -> list[Step]:
        n = self.program.block
        at = self.within(n) if self.rng.random() < 0.4 else self.terms[0]
        guard = self.rng.random() < 0.9

        def place(env):
            return env["b"] * n + at.value(env)

        def store(step, env, memory):
            memory.touch(env, "y", (place(env),), "write", step.line, 1)
            yield from ()

        def masked(step, env, memory):
            if 0 <= place(env) < env["N"]:
                yield from store(step, env, memory)

        def when(step, env, memory):
            if place(env) < env["N"]:
                yield from _body(step.inside, env, memory)

        text = f"b * {n} + {at.text}"
        if guard and self.rng.random() < 0.5:
            return [Step(f"with lego.when({text} < N):", when, [Step(f"y[{text}] = 1", store)])]
        return [Step(f"y.halo()[{text}] = 1", masked)]

    # -- control

    def when(self, depth: int) -> list[Step]:
        condition = self.condition()

        def run(step, env, memory):
            if condition.value(env):
                yield from _body(step.inside, env, memory)

        return [Step(f"with lego.when({condition.text}):", run, self.scoped(depth - 1, 2))]

    def sides(self, depth: int) -> list[Step]:
        condition, taken = self.condition(), self.fresh("taken")

        def run(step, env, memory):
            env[taken] = condition.value(env)
            if env[taken]:
                yield from _body(step.inside, env, memory)

        def other(step, env, memory):
            if not env[taken]:
                yield from _body(step.inside, env, memory)

        store = self.store(0)
        first = store if self.rng.random() < 0.5 else self.scoped(depth - 1, 1)
        second = self.store(0) if self.rng.random() < 0.5 else self.scoped(depth - 1, 1)
        return [Step(f"with lego.when({condition.text}):", run, first), Step("with lego.otherwise():", other, second)]

    def _looped(self, head, name: str, begin, end, stride: int, most: int, depth: int) -> list[Step]:
        def run(step, env, memory):
            for number in range(begin(env), end(env), stride):
                env[name] = number
                yield from _body(step.inside, env, memory)

        known = list(self.terms), list(self.data)
        self.terms = [*self.terms, Term(name, lambda env: env[name], most)]
        inside = self.body(depth - 1, self.rng.choice([1, 2, 2]))
        self.terms, self.data = known
        return [Step(head, run, inside)]

    def for_(self, depth: int) -> list[Step]:
        name, rng = self.fresh("k"), self.rng
        if rng.random() < 0.3:  # the threads share the rounds
            stride = rng.choice([self.program.block, self.program.block // 2])
            end = 2 * self.program.block
            head = f"for {name} in lego.range(t, {end}, {stride}):"
            return self._looped(head, name, lambda env: env["t"], lambda env: end, stride, end, depth)
        ends = [Term(str(n), lambda env, n=n: n, n + 1) for n in (1, 2, 4)]
        bounded = [term for term in self.data if term.most <= 16]
        end = rng.choice([*ends, *bounded[-2:]])
        head = f"for {name} in lego.range({end.text}):"
        return self._looped(head, name, lambda env: 0, end.value, 1, max(end.most - 1, 1), depth)

    def unroll(self, depth: int) -> list[Step]:
        name, count = self.fresh("k"), self.rng.choice([2, 4])
        head = f"for {name} in lego.unroll({count}):"
        return self._looped(head, name, lambda env: 0, lambda env: count, 1, count, depth)

    def while_(self, depth: int) -> list[Step]:
        running, name, end = self.fresh("w"), self.fresh("k"), self.rng.choice([1, 2])
        condition = self.rng.choice([Term("True", lambda env: True, 2), self.condition()])

        def start(step, env, memory):
            env[running], env[name] = condition.value(env), 0
            yield from ()

        def loop(step, env, memory):
            while env[running]:
                yield from _body(step.inside, env, memory)

        def count(step, env, memory):
            env[name] += 1
            yield from ()

        def check(step, env, memory):
            env[running] = env[name] < end
            yield from ()

        inside = [
            *self.scoped(depth - 1, self.rng.choice([1, 2])),
            Step(f"{name} += 1", count),
            Step(f"{running}.set({name} < {end})", check),
        ]
        head = f"{running}, {name} = lego.register(i1, {condition.text}), lego.register(i32, 0)"
        return [Step(head, start), Step(f"with lego.while_({running}):", loop, inside)]

    def count(self, depth: int) -> list[Step]:
        """A value that grows from round to round in the register, and is an index."""

        def run(step, env, memory):
            env["r0"] += 1
            yield from ()

        (loop,) = self.for_(depth)
        loop.inside += [Step("r0 += 1", run), *self.held(depth), *self.store(depth)]
        self.data.pop()
        return [loop]

    def roles(self, depth: int) -> list[Step]:
        """Two roles of one warp each."""
        if self.program.block != 2 * WARP or depth < 2:
            return self.when(depth)

        def role(first):
            def run(step, env, memory):
                if env["t"] // WARP == first:
                    yield from _body(step.inside, env, memory)

            return Step(f"with lego.warps({first}, {first + 1}):", run, self.scoped(0, 2))

        self.in_role = True  # a barrier would be the role's
        found = [role(0), role(1)]
        self.in_role = False
        return found


setattr(Drawer, "for", Drawer.for_)
setattr(Drawer, "while", Drawer.while_)


def drawn(seed: int, bare: bool = False) -> Program:
    """A random program; a `bare` one begins with a value that passes through a register and a tile."""
    rng = random.Random(seed)
    drawer = Drawer(rng, bare)
    if bare:
        passed = [drawer.kept, drawer.tile, drawer.barrier, drawer.held, drawer.through]
        drawer.program.steps = [step for one in (drawer.load, *passed, drawer.store) for step in one(2)]
    drawer.program.steps += drawer.body(2, rng.choice([1, 2, 3, 4]))
    if not any(step.text.startswith("y") for step in drawer.program.steps):
        drawer.program.steps += drawer.store(0)
    return drawer.program
