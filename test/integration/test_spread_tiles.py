"""Spread tiles of the lego dialect, lowered by the plugin and run: elements of each register, and whole programs."""

import random
import re
from math import prod
from pathlib import Path

import numpy as np
import pytest
from lego_plugin import mlir_opt, needs_plugin

from lego_mlir import interp

pytestmark = needs_plugin
LANE_BITS = 5
CONVERSIONS, BOXES, PROGRAMS = 120, 80, 60
FOLDED = 5000762, 9000190, 9000271
"""Programs of which canonicalization transposes or removes tiles."""
TIMES = [1, pytest.param(10, marks=pytest.mark.long)]
"""Of these numbers of cases; more than one time draws new ones."""
TYPES = {"f32": np.float32, "f16": np.float16, "i64": np.int64, "i8": np.int8, "f64": np.float64, "i32": np.int32}


def numbers(count, times):
    """The seeds of cases."""
    first = 0 if times == 1 else random.SystemRandom().randrange(10**9)
    return range(first, first + count * times)


def spread_text(bases, shape):
    """The encoding of one basis for each bit: (registers, lanes, warps), each a list of row-major elements."""
    listed, padded = [], padded_shape(shape)
    for name, columns in zip(("register", "lane", "warp"), bases, strict=True):
        each = [[int(i) for i in np.unravel_index(column, padded)] for column in columns]
        listed.append(f"{name} = {each}")
    places, reached = sum(map(len, bases)), prod(padded).bit_length() - 1
    copies = f", copies = {1 << (places - reached)}" if places > reached else ""
    box = "" if padded == tuple(shape) else f", box = {[*shape]}"
    return f"#lego.spread<{', '.join(listed)}{copies}{box}>"


def padded_shape(shape):
    """The next powers of two."""
    return tuple(1 << (n - 1).bit_length() for n in shape)


def held(bases):
    """The element of each thread's registers, by enumeration: (threads, registers)."""
    registers, threads = bases[0], [*bases[1], *bases[2]]
    thread, register = np.meshgrid(np.arange(1 << len(threads)), np.arange(1 << len(registers)), indexing="ij")
    found = np.zeros_like(thread)
    for number, columns in ((thread, threads), (register, registers)):
        for k, column in enumerate(columns):
            found ^= np.where(number >> k & 1, column, 0)
    return found


def mixed(rng, columns, times):
    """Columns with some added to others: as many are independent as before."""
    columns = list(columns)
    for _ in range(times if len(columns) > 1 else 0):
        a, b = rng.sample(range(len(columns)), 2)
        columns[a] ^= columns[b]
    return columns


def random_bases(rng, element_bits, warp_bits, plain=False):
    """Bases that reach all elements, with copies where there are more places."""
    least = max(0, element_bits - LANE_BITS - warp_bits)
    register_bits = least + rng.choice((0, 0, 0, 1, 2))
    places = register_bits + LANE_BITS + warp_bits
    columns = [1 << k for k in range(element_bits)] + [0] * (places - element_bits)
    if rng.random() < 0.7:
        rng.shuffle(columns)
    if not plain and rng.random() < 0.6:
        columns = mixed(rng, columns, rng.randrange(1, 12))
    return columns[:register_bits], columns[register_bits : places - warp_bits], columns[places - warp_bits :]


def within_warps(rng, bases):
    """Other bases, with which each warp holds what it held."""
    columns = [*bases[0], *bases[1]]
    rng.shuffle(columns)
    columns = mixed(rng, columns, rng.randrange(8))
    warps = [warp ^ rng.choice((0, *columns)) for warp in bases[2]]
    return columns[: len(bases[0])], columns[len(bases[0]) :], warps


def in_threads(rng, bases):
    """Other bases, with which each thread holds what it held, in other registers."""
    registers = mixed(rng, bases[0], rng.randrange(8))
    return registers, *([column ^ rng.choice((0, *registers)) for column in columns] for columns in bases[1:])


def random_shape(rng, element_bits, rank):
    cuts = sorted(rng.randrange(element_bits + 1) for _ in range(rank - 1))
    return tuple(1 << (b - a) for a, b in zip([0, *cuts], [*cuts, element_bits], strict=True))


def conversion(number):
    """The text of a conversion that stores each thread's registers in order, and what it was made of."""
    rng = random.Random(number)
    element_bits, warp_bits = rng.randrange(3, 10), rng.randrange(3)
    shape = random_shape(rng, element_bits, rng.randrange(1, 4))
    source = random_bases(rng, element_bits, warp_bits)
    target = rng.choice(
        (random_bases(rng, element_bits, warp_bits), within_warps(rng, source), in_threads(rng, source))
    )
    kind = rng.choice(list(TYPES))
    text = conversion_text(
        f"k{number}", shape, kind, (source, target), 1 << (LANE_BITS + warp_bits), 1 << len(target[0])
    )
    return text, shape, kind, source, target


def conversion_text(name, shape, kind, layouts, threads, registers):
    """The kernel that stores what each thread holds after a conversion: one row of registers a thread."""
    tile = "x".join(map(str, shape))
    types = [f"tensor<{tile}x{kind}, {spread_text(bases, shape)}>" for bases in layouts]
    raw = f"memref<{threads}x{registers}x{kind}>"
    zeros = ", ".join(["%zero"] * len(shape))
    return f"""gpu.func @{name}(%in: memref<{tile}x{kind}>, %out: {raw}) kernel
        attributes {{known_block_size = array<i32: {threads}, 1, 1>}} {{
      %zero = arith.constant 0 : index
      %thread = gpu.thread_id x
      %x = lego.tile_load %in[{zeros}] : memref<{tile}x{kind}>, {types[0]}
      %y = lego.convert %x : {types[0]} to {types[1]}
      %v = builtin.unrealized_conversion_cast %y : {types[1]} to vector<{registers}x{kind}>
      vector.store %v, %out[%thread, %zero] : {raw}, vector<{registers}x{kind}>
      gpu.return
    }}"""


def boxed_bases(rng, box, warp_bits):
    """Bases of a padded layout: what ends the box is in registers, or, along the first axis, in warps."""
    padded = padded_shape(box)
    whole, ending = [], []
    for bit in range(prod(padded).bit_length() - 1):
        at = np.unravel_index(1 << bit, padded)
        inside = all(i < (n & -n) or n == m for i, n, m in zip(at, box, padded, strict=True))
        (whole if inside else ending).append(1 << bit)
    least = max(0, len(whole) - LANE_BITS - warp_bits)
    more = least + rng.choice((0, 0, 1))
    whole += [0] * (more + LANE_BITS + warp_bits - len(whole))
    rng.shuffle(whole)
    whole = mixed(rng, whole, rng.randrange(8))
    registers = [column ^ rng.choice((0, *whole)) for column in ending] + whole[:more]
    rng.shuffle(registers)
    return registers, whole[more : more + LANE_BITS], whole[more + LANE_BITS :]


def boxed_conversion(number):
    """A conversion of a tile whose sizes are no powers of two; or one that warps end, of which the last is missing."""
    rng = random.Random(number)
    warp_bits, kind = rng.randrange(3), rng.choice(list(TYPES))
    if number % 4 == 0:  # 3 or 5 to 7 warps, each with its part of the first axis
        warp_bits, warps = rng.choice(((2, 3), (3, 5), (3, 6), (3, 7)))
        part, columns = rng.choice((1, 2, 4)), rng.choice((8, 16, 32))
        box, layouts = (warps * part, columns), []
        for _ in range(2):
            registers, lanes, _ = boxed_bases(rng, (part, columns), 0)
            layouts.append((registers, lanes, [(part * columns) << k for k in range(warp_bits)]))
        return number, box, kind, layouts, 32 * warps
    box = tuple(rng.choice((3, 4, 5, 6, 8, 12, 16, 20, 24)) for _ in range(rng.choice((1, 2, 2))))
    box = (*box[:-1], box[-1] if padded_shape(box) != box else 7)
    layouts = [boxed_bases(rng, box, warp_bits) for _ in range(2)]
    return number, box, kind, layouts, 1 << (LANE_BITS + warp_bits)


def elements_of(bases, box):
    """The elements of each thread's registers inside of the box: row-major numbers over the box."""
    found = held(bases)
    at = np.unravel_index(found, padded_shape(box))
    inside = np.all([i < n for i, n in zip(at, box, strict=True)], axis=0)
    present = inside[:, 0]
    made = inside[present].all(axis=0)
    assert (inside[present] == made).all(), "a register is inside for some threads"
    wide = [np.where(inside, i, 0) for i in at]
    return np.ravel_multi_index(wide, box)[:, made]


def lowered(kernels, passes="", options=""):
    text = "module attributes {gpu.container_module} { gpu.module @m {\n" + "\n".join(kernels) + "} }"
    ending = "reconcile-unrealized-casts,canonicalize,cse"
    return mlir_opt(text, f"gpu.module({passes}lego-lower-spread{options},{ending})")


def bodies(text):
    """The text of each kernel."""
    parts = text.split("gpu.func @")[1:]
    return {part.split("(")[0]: part for part in parts}


@pytest.mark.parametrize("shuffles", [True, False])
@pytest.mark.parametrize("times", TIMES)
def test_each_register_holds_the_element_of_its_layout(shuffles, times):
    chosen = numbers(CONVERSIONS, times)
    cases = [conversion(number) for number in chosen]
    text = lowered([case[0] for case in cases], options=f"{{shuffles={str(shuffles).lower()}}}")
    compiled, kernels = interp.compile_module(text), bodies(text)
    seen = {"in a thread": 0, "shuffles": 0, "memory": 0}
    for number, (_, shape, kind, source, target) in zip(chosen, cases, strict=True):
        threads, registers = held(target).shape
        values = np.arange(prod(shape)).astype(TYPES[kind])
        out = np.zeros((threads, registers), TYPES[kind])
        name = f"k{number}"
        report = interp.launch(compiled, name, grid=1, block=threads, args=[values.reshape(shape), out], counts=False)
        assert report.clean, (name, report)
        assert np.array_equal(out, values[held(target)]), name
        memory, moved = "gpu.barrier" in kernels[name], "gpu.shuffle" in kernels[name]
        seen["memory" if memory else "shuffles" if moved else "in a thread"] += 1
        one_to_one = all(sum(map(len, bases)) == prod(shape).bit_length() - 1 for bases in (source, target))
        if shuffles and one_to_one:
            before, after = (held(b).reshape(-1, 1 << LANE_BITS, 1 << len(b[0])) for b in (source, target))
            kept = all(set(a.flat) <= set(b.flat) for a, b in zip(after, before, strict=True))
            assert kept != memory, (name, "a warp that keeps its elements needs no memory")
    assert seen["memory"] > 10
    assert seen["in a thread"] > 3
    assert (seen["shuffles"] > 10) == shuffles


@pytest.mark.parametrize("shuffles", [True, False])
@pytest.mark.parametrize("times", TIMES)
def test_registers_of_odd_tiles_hold_their_elements(shuffles, times):
    cases = [boxed_conversion(number) for number in numbers(BOXES, times)]
    wanted = [elements_of(layouts[1], box) for _, box, _, layouts, _ in cases]
    texts = [
        conversion_text(f"k{number}", box, kind, layouts, threads, elements.shape[1])
        for (number, box, kind, layouts, threads), elements in zip(cases, wanted, strict=True)
    ]
    compiled = interp.compile_module(lowered(texts, options=f"{{shuffles={str(shuffles).lower()}}}"))
    for (number, box, kind, _, threads), elements in zip(cases, wanted, strict=True):
        values, out = np.arange(prod(box)).astype(TYPES[kind]), np.zeros((threads, elements.shape[1]), TYPES[kind])
        arrays = [values.reshape(box), out]
        report = interp.launch(compiled, f"k{number}", grid=1, block=threads, args=arrays, counts=False)
        assert report.clean, (number, report)
        assert np.array_equal(out, values[elements[:threads]]), (number, box)


class Program:
    """A random kernel on tiles of i32 without layouts, computed by NumPy beside it."""

    def __init__(self, number, warp_bits):
        self.rng, self.lines, self.tiles = random.Random(number), [], []
        self.name, self.warp_bits, self.arguments, self.inputs = f"p{number}", warp_bits, [], []
        for _ in range(2):
            self.load(random_shape(self.rng, self.rng.randrange(4, 9), self.rng.randrange(1, 4)))
        steps = [self.elementwise, self.transpose, self.reduce, self.broadcast, self.reshape, self.pin, self.loop]
        with np.errstate(over="ignore"):  # i32 wraps around
            for _ in range(self.rng.randrange(4, 10)):
                self.rng.choice(steps)()
        self.outputs = [tile for tile in self.tiles[2:] or self.tiles if self.rng.random() < 0.5] or self.tiles[-1:]

    def add(self, text, value):
        name = f"%t{len(self.tiles)}"
        self.lines.append(f"{name} = {text}")
        self.tiles.append((name, value))

    def pick(self):
        return self.rng.choice(self.tiles)

    def load(self, shape):
        value = np.random.default_rng(len(self.tiles)).integers(-1000, 1000, shape, dtype=np.int32)
        memref = f"memref<{'x'.join(map(str, shape))}xi32>"
        name = f"%a{len(self.inputs)}"
        self.arguments.append(f"{name}: {memref}")
        self.inputs.append(value)
        self.add(f"lego.tile_load {name}[{', '.join(['%zero'] * len(shape))}] : {memref}, {tensor(value)}", value)

    def elementwise(self):
        left, a = self.pick()
        right, b = self.rng.choice([tile for tile in self.tiles if tile[1].shape == a.shape])
        name, value = self.rng.choice([("addi", a + b), ("muli", a * b), ("maxsi", np.maximum(a, b))])
        self.add(f"arith.{name} {left}, {right} : {tensor(a)}", value)

    def transpose(self):
        name, a = self.pick()
        axes = self.rng.sample(range(a.ndim), a.ndim)
        if not axes:  # upstream's linalg.transpose has at least one
            return
        value = a.transpose(axes)
        self.into("linalg.transpose", name, a, value, f"permutation = {axes}")

    def broadcast(self):
        name, a = self.pick()
        axis, size = self.rng.randrange(a.ndim + 1), self.rng.choice((2, 4))
        if a.size * size > 1024 or a.ndim > 3:
            return
        value = np.repeat(np.expand_dims(a, axis), size, axis)
        self.into("linalg.broadcast", name, a, value, f"dimensions = [{axis}]")

    def into(self, op, name, a, value, rest):
        empty = f"%e{len(self.lines)}"
        self.lines.append(f"{empty} = tensor.empty() : {tensor(value)}")
        self.add(f"{op} ins({name} : {tensor(a)}) outs({empty} : {tensor(value)}) {rest}", value)

    def reduce(self):
        name, a = self.pick()
        axes = sorted(self.rng.sample(range(a.ndim), self.rng.randrange(1, a.ndim + 1))) if a.ndim else []
        op, function, start = self.rng.choice([("addi", np.add, 7), ("maxsi", np.maximum, -500)])
        if not axes:
            return
        value = function(function.reduce(a, tuple(axes), dtype=np.int32), np.int32(start))
        init = f"%c{len(self.lines)}"
        self.lines.append(f"{init} = arith.constant dense<{start}> : {tensor(value)}")
        self.add(
            f"linalg.reduce {{ arith.{op} }} ins({name} : {tensor(a)}) outs({init} : {tensor(value)}) "
            f"dimensions = {axes}",
            np.asarray(value),
        )

    def reshape(self):
        name, a = self.pick()
        wide = [k for k, n in enumerate(a.shape) if n > 2]
        if not wide:
            return
        axis = self.rng.choice(wide)
        groups = [[k + (k > axis)] for k in range(a.ndim)]
        groups[axis] = [axis, axis + 1]
        value = a.reshape(*a.shape[:axis], 2, a.shape[axis] // 2, *a.shape[axis + 1 :])
        if self.rng.random() < 0.5:
            self.add(
                f"tensor.expand_shape {name} {groups} output_shape {list(value.shape)} : "
                f"{tensor(a)} into {tensor(value)}",
                value,
            )
        elif a.ndim > 1:
            value = a.reshape(-1)
            self.add(f"tensor.collapse_shape {name} [{list(range(a.ndim))}] : {tensor(a)} into {tensor(value)}", value)

    def pin(self):
        name, a = self.pick()
        bases = random_bases(self.rng, a.size.bit_length() - 1, self.warp_bits)
        if not a.ndim:
            return
        pinned = f"tensor<{'x'.join(map(str, a.shape))}xi32, {spread_text(bases, a.shape)}>"
        self.lines.append(f"%p{len(self.lines)} = lego.convert {name} : {tensor(a)} to {pinned}")
        self.add(f"lego.convert %p{len(self.lines) - 1} : {pinned} to {tensor(a)}", a)

    def loop(self):
        name, a = self.pick()
        other, b = self.rng.choice([tile for tile in self.tiles if tile[1].shape == a.shape])
        self.add(
            f"scf.for %i = %zero to %three step %one iter_args(%s = {other}) -> ({tensor(a)}) {{\n"
            f"  %n = arith.addi %s, {name} : {tensor(a)}\n  scf.yield %n : {tensor(a)}\n}}",
            b + 3 * a,
        )

    def text(self):
        arguments, lines = list(self.arguments), list(self.lines)
        for k, (name, a) in enumerate(self.outputs):
            memref = f"memref<{'x'.join(map(str, (*a.shape, 'i32')))}>"
            arguments.append(f"%o{k}: {memref}")
            lines.append(f"lego.tile_store {name}, %o{k}[{', '.join(['%zero'] * a.ndim)}] : {memref}, {tensor(a)}")
        threads, body = 1 << (LANE_BITS + self.warp_bits), "\n      ".join(lines)
        return f"""gpu.func @{self.name}({", ".join(arguments)}) kernel
        attributes {{known_block_size = array<i32: 16, {threads // 16}, 1>}} {{
      %zero = arith.constant 0 : index
      %one = arith.constant 1 : index
      %three = arith.constant 3 : index
      {body}
      gpu.return
    }}"""


def tensor(a):
    return f"tensor<{'x'.join(map(str, (*a.shape, 'i32')))}>"


@pytest.mark.parametrize("warp_bits", [0, 2])
@pytest.mark.parametrize("times", TIMES)
def test_programs_without_layouts_compute_what_numpy_does(warp_bits, times):
    programs = [Program(number, warp_bits) for number in (*numbers(PROGRAMS, times), *FOLDED)]
    passes = f"lego-propagate-spread{{warps={1 << warp_bits}}},canonicalize,cse,lego-propagate-spread,"
    compiled = interp.compile_module(lowered([program.text() for program in programs], passes))
    for program in programs:
        outputs = [np.zeros_like(a, order="C") for _, a in program.outputs]
        threads = 1 << (LANE_BITS + warp_bits)
        report = interp.launch(
            compiled, program.name, grid=1, block=(16, threads // 16, 1), args=[*program.inputs, *outputs], counts=False
        )
        assert report.clean, (program.name, report)
        for (name, a), b in zip(program.outputs, outputs, strict=True):
            assert np.array_equal(a, b), (program.name, name)


def test_the_tiles_of_the_reference_page():
    page = (Path(__file__).parents[2] / "docs/reference/dialect-tiles.md").read_text()
    encodings, odd, body, masked, product = re.findall(r"```mlir\n([^`]*)```", page)
    text = f"""{encodings}module attributes {{gpu.container_module}} {{ gpu.module @m {{
      gpu.func @square(%m: memref<4x16xf32>) kernel attributes {{known_block_size = array<i32: 32, 1, 1>}} {{
        %i = arith.constant 0 : index
        {body}
        gpu.return }} }} }}"""
    passes = "lego-propagate-spread{warps=1},canonicalize,cse,lego-propagate-spread,lego-lower-spread"
    lowered = mlir_opt(text, f"gpu.module({passes})")
    x = np.arange(64, dtype=np.float32).reshape(4, 16)
    expected = x * x
    assert interp.launch(lowered, "square", grid=1, block=32, args=[x]).clean
    assert np.array_equal(x, expected)
    assert "box = [4, 12]" in mlir_opt(f"{odd}func.func private @f(tensor<4x12xf32, #odd>)", "")
    assert "nvgpu" not in mlir_opt(product, "canonicalize")
    arguments = "%m: memref<4x12xf32>, %i: index, %ends: tensor<4x16xindex, #rows>, %zero: f32"
    assert mlir_opt(f"{encodings}func.func @f({arguments}) {{\n{masked}return }}", "canonicalize").count(" mask ") == 2
