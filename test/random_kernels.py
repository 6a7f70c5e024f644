"""Random kernels, and what NumPy says that they compute.

A kernel is drawn by Hypothesis as a tree whose nodes are pairs: the Python text that a spec would hold, and a function
that computes the node's value for all threads at once, in NumPy, from what the language means and from nothing of the
package. So a failing case is shrunk, and what is left prints as a spec:

    @lego.kernel(grid=(2,), block=(8,), contract=False)
    def k0(x0: lego.Tensor(f32, L0), y0: lego.Tensor(f32, L1)):
        ...

Every operation is total, so that any answer but NumPy's is a fault: indices are reduced modulo sizes, divisors are kept
from 0, floats are clamped before they become integers. Threads write only their own elements and exchange values
through shared tiles between barriers.
"""

import math

import numpy as np
from hypothesis import strategies as st
from kernel_cases import Node, Tensor
from kernel_expressions import ARITHMETIC, ExpressionDrawer, bounded_function, number_node
from number_meaning import APPROXIMATE, FLOATS, INTEGERS

from lego_mlir import Row, i1

UNTOUCHED = -77
DEEPEST = 2  # branches and loops inside each other


class Drawer(ExpressionDrawer):
    """Draws one kernel: statements, and results that they store."""

    def statement(self):
        kinds = ["set", "set", *(["when", "loop"] if self.depth < DEEPEST else [])]
        if self.depth == 0:
            kinds += ["register", "register", "exchange", "vector"]
        return self.of(*kinds)

    def statements(self, count):
        for _ in range(count):
            kind = self.statement()
            if kind in ("set", "when", "loop") and not self.registers:
                kind = "register" if self.depth == 0 else "set"
            if kind != "set" or self.registers:
                yield getattr(self, f"_{kind}")()

    def _register_statement(self, dtype, first):
        name = self.fresh("r")

        def run(r):
            r.local[name] = np.array(first.value(r))

        self.registers.append((name, dtype))
        return [f"{name} = lego.register({dtype}, {first.text})"], run

    def _set(self):
        name, dtype = self.of(*self.registers)
        if self.integer(0, 1):
            sign = self.of("+", "-", "*")
            value, f = self.operand(dtype, 2), ARITHMETIC[sign]

            def change(r):
                r.local[name] = np.where(r.active, f(r.local[name], value.value(r)).astype(dtype.numpy), r.local[name])

            return [f"{name} {sign}= {value.text}"], change
        value = self.data(dtype, 3)

        def run(r):
            r.local[name] = np.where(r.active, value.value(r), r.local[name])

        return [f"{name}.set({value.text})"], run

    def _nested(self, count):
        self.depth += 1
        inner = list(self.statements(count)) or [self._set()]
        self.depth -= 1
        return [f"    {line}" for lines, _ in inner for line in lines], [run for _, run in inner]

    def _when(self):
        condition = self.condition(1)
        lines, then = self._nested(self.integer(1, 2))
        lines = [f"with lego.when({condition.text}):", *lines]
        otherwise = []
        if self.draw(st.booleans()):
            other, otherwise = self._nested(1)
            lines += ["with lego.otherwise():", *other]

        def run(r):
            holds, before = condition.value(r), r.active
            for steps, active in ((then, before & holds), (otherwise, before & ~holds)):
                r.active = active
                for step in steps:
                    step(r)
            r.active = before

        return lines, run

    def _loop(self):
        low, high, step = self.index(1), self.index(1), self.integer(1, 3)
        name, most = self.fresh("k"), self.integer(1, 5)
        wrap = self.draw(st.booleans())
        end = Node(f"({low.text} + ({high.text}) % {most})", "index", lambda r: low.value(r) + high.value(r) % most)
        first, last = (low, end) if wrap else (number_node(self.integer(-2, 2)), number_node(self.integer(-2, 6)))
        self.loops.append(name)
        lines, steps = self._nested(self.integer(1, 2))
        self.loops.remove(name)

        def run(r):
            before, at, stop = r.active, np.array(first.value(r)), last.value(r)
            while (before & (at < stop)).any():
                r.active = before & (at < stop)
                r.local[name] = at
                for statement in steps:
                    statement(r)
                at = at + step
            r.active = before

        return [f"for {name} in lego.range({first.text}, {last.text}, {step}):", *lines], run

    def _exchange(self):
        """Every thread stores a value in a shared tile, and after a barrier reads another's."""
        dtype, name, got = self.of(*FLOATS, *INTEGERS), self.fresh("tile"), self.fresh("r")
        dims = tuple(reversed(self.case.block))
        shape = self.of(dims, (math.prod(dims),))
        layout = self.layout(shape)
        key = f"L{name}"
        self.case.tiles[key] = layout
        stored = self.data(dtype, 2)
        own = ", ".join(f"t{'xy'[a]}" for a in reversed(range(len(self.case.block))))
        if len(shape) == 1 and len(dims) == 2:
            own = f"ty * {self.case.block[0]} + tx"
        at = [self.index(2) for _ in shape]
        where = ", ".join(f"({a.text}) % {n}" for a, n in zip(at, shape, strict=True))
        rounds = self.of(0, 0, 2)

        def once(r):
            tile = np.zeros((r.blocks, *shape), dtype.numpy)
            tile.reshape(r.blocks, -1)[r.block, r.thread] = stored.value(r)
            r.local[got] = tile[(r.block, *(a.value(r) % n for a, n in zip(at, shape, strict=True)))]

        def run(r):
            r.local[got] = np.zeros(r.count, dtype.numpy)
            for _ in range(max(1, rounds)):
                once(r)

        body = [f"{name}[{own}] = {stored.text}", "lego.barrier()", f"{got}.set({name}[{where}])", "lego.barrier()"]
        if rounds:
            body = [f"for {self.fresh('k')} in lego.range({rounds}):", *(f"    {line}" for line in body)]
        self.registers.append((got, dtype))
        lines = [f"{name} = lego.shared({dtype}, {key})  # {layout!r}", f"{got} = lego.register({dtype}, 0)", *body]
        return lines, run

    def _vector(self):
        """A vector is loaded, computed with and stored; one of its elements becomes a register."""
        dtype = self.of(*FLOATS, *INTEGERS)
        width = self.of(*(w for w in (2, 4, 8, 16) if w * dtype.bytes <= 16))
        rows, columns = self.integer(1, 6), self.integer(1, 3)
        source = Tensor(f"x{len(self.case.tensors)}", dtype, None, (rows, columns * width), None)
        source.layout, source.array = Row(*source.dims), self.fill(dtype, source.dims)
        self.case.tensors.append(source)
        row, column = self.index(1), self.index(1)
        factor, text = self.operand(dtype, 1), self.fresh("v")
        sign = self.of("+", "-", "*")
        f, lane, got = ARITHMETIC[sign], self.integer(0, width - 1), self.fresh("r")
        out = self._output(dtype, (width,), plain=True)

        def run(r):
            at = column.value(r)[:, None] % columns * width + np.arange(width)
            given = r.memory[source.name][row.value(r)[:, None] % rows, at]
            found = f(given, factor.value(r)[:, None]).astype(dtype.numpy)
            r.memory[out.name].reshape(r.count, width)[:] = found
            r.local[got] = found[:, lane].copy()

        at = f"({row.text}) % {rows}, ({column.text}) % {columns} * {width}"
        self.registers.append((got, dtype))
        return [
            f"{text} = {source.name}.load({at}, width={width}) {sign} {factor.text}",
            f"{out.name}.store({text}, {self._own()}, 0)",
            f"{got} = lego.register({dtype}, {text}[{lane}])",
        ], run

    def _own(self):
        ids = [f"b{'xy'[a]}" for a in reversed(range(len(self.case.grid)))]
        return ", ".join(ids + [f"t{'xy'[a]}" for a in reversed(range(len(self.case.block)))])

    def _output(self, dtype, more=(), plain=False):
        dims = (*reversed(self.case.grid), *reversed(self.case.block), *more)
        layout = Row(*dims) if plain else self.layout(dims)
        array = np.full(dims, UNTOUCHED).astype(dtype.numpy)
        tensor = Tensor(f"y{len(self.case.tensors)}", dtype, layout, dims, array)
        self.case.tensors.append(tensor)
        self.case.outputs.add(tensor.name)
        return tensor

    def _register(self, dtype=None):
        if dtype is not None:
            return super()._register(dtype)
        dtype = self.of(*FLOATS, *INTEGERS)
        return self._register_statement(dtype, self.data(dtype, 2))

    def store(self):
        """The end of a kernel: a value, perhaps through a function of the hardware, in each thread's element."""
        dtype = self.of(*FLOATS, *INTEGERS, i1)
        if dtype is i1:
            truth = self.condition(2)
            value = Node(f"i1({truth.text})", i1, truth.value)
        else:
            value = self.data(dtype, 3)
        text, compute = value.text, value.value
        approximate = dtype in FLOATS and self.integer(0, 3) == 0
        if approximate:
            name = self.of(*APPROXIMATE)
            given = f"lego.minimum(lego.maximum({text}, 0.25), 4.0)"
            text = f"lego.{name.replace('_', given)}" if "(" in name else f"lego.{name}({given})"
            compute = bounded_function(name, value, dtype)
        kind = self.of("plain", "plain", "ragged", "guarded")
        if kind == "ragged":
            return self._store_ragged(dtype, text, compute, approximate)
        out = self._output(dtype)
        if approximate:
            self.case.loose.add(out.name)
        guard = self.condition(1) if kind == "guarded" else None

        def run(r):
            flat = r.memory[out.name].reshape(-1)
            flat[:] = np.where(guard.value(r), compute(r), flat) if guard else compute(r)

        line = f"{out.name}[{self._own()}] = {text}"
        return ([f"with lego.when({guard.text}):", f"    {line}"] if guard else [line]), run

    def _store_ragged(self, dtype, text, compute, approximate):
        """A store through tiles that reach past the end of the output."""
        total = self.case.blocks * self.case.threads
        n = self.integer(1, total)
        out = Tensor(f"y{len(self.case.tensors)}", dtype, Row(n), (n,), np.full(n, UNTOUCHED).astype(dtype.numpy))
        self.case.tensors.append(out)
        self.case.outputs.add(out.name)
        if approximate:
            self.case.loose.add(out.name)
        block = "bx" if len(self.case.grid) == 1 else f"by * {self.case.grid[0]} + bx"
        thread = "tx" if len(self.case.block) == 1 else f"ty * {self.case.block[0]} + tx"
        tiled = f"{out.name}.tile_by([{self.case.blocks}], [{self.case.threads}])"

        def run(r):
            r.memory[out.name][:] = compute(r)[:n]

        return [f"{tiled}[{block}, {thread}] = {text}"], run


@st.composite
def cases(draw, name="k"):
    """One random kernel."""
    drawer = Drawer(draw, name)
    drawer.case.body = list(drawer.statements(drawer.integer(0, 4)))
    drawer.case.body += [drawer.store() for _ in range(drawer.integer(1, 2))]
    return drawer.case
