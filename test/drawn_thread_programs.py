"""Random programs of threads: kernels whose indices and branches are data."""

from __future__ import annotations

import random

from thread_programs import WARP, Program, Step, Term, executed


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
                yield from executed(step.inside, env, memory)

        text = f"b * {n} + {at.text}"
        if guard and self.rng.random() < 0.5:
            return [Step(f"with lego.when({text} < N):", when, [Step(f"y[{text}] = 1", store)])]
        return [Step(f"y.halo()[{text}] = 1", masked)]

    # -- control

    def when(self, depth: int) -> list[Step]:
        condition = self.condition()

        def run(step, env, memory):
            if condition.value(env):
                yield from executed(step.inside, env, memory)

        return [Step(f"with lego.when({condition.text}):", run, self.scoped(depth - 1, 2))]

    def sides(self, depth: int) -> list[Step]:
        condition, taken = self.condition(), self.fresh("taken")

        def run(step, env, memory):
            env[taken] = condition.value(env)
            if env[taken]:
                yield from executed(step.inside, env, memory)

        def other(step, env, memory):
            if not env[taken]:
                yield from executed(step.inside, env, memory)

        store = self.store(0)
        first = store if self.rng.random() < 0.5 else self.scoped(depth - 1, 1)
        second = self.store(0) if self.rng.random() < 0.5 else self.scoped(depth - 1, 1)
        return [Step(f"with lego.when({condition.text}):", run, first), Step("with lego.otherwise():", other, second)]

    def _looped(self, head, name: str, begin, end, stride: int, most: int, depth: int) -> list[Step]:
        def run(step, env, memory):
            for number in range(begin(env), end(env), stride):
                env[name] = number
                yield from executed(step.inside, env, memory)

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
                yield from executed(step.inside, env, memory)

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
                    yield from executed(step.inside, env, memory)

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
