"""Random tile programs: steps that run on tiles of a kernel, on NumPy's arrays, or are written as a Triton kernel.

A program has one block. It loads tiles of one element type, combines them by steps, and stores the last value, and now
and then a reduction of another. Values are small whole numbers, so that every order of operations gives the same.
"""

from dataclasses import dataclass

import numpy as np

import lego_mlir as lego
from lego_mlir import Row, f16, f32, i32

NUMPY = {f32: np.float32, f16: np.float16, i32: np.int32}
WHOLE_SIZES = ((16, 64), (32, 32), (64, 16), (8, 128), (64, 64), (32, 128))
ODD_SIZES = ((48, 32), (24, 48), (5, 64), (16, 80), (48, 96), (16, 112))
BLOCKS = (128, 128, 64, 256)
ODD_BLOCKS = (96, 160, 192, 224, 96)
"""Blocks of other numbers of warps than 1, 2, 4, .."""


@dataclass
class Program:
    """Steps, each (word, operands by number, a choice); shapes of inputs, and outputs as (value, reduced axis or None).

    `known` are the shapes of all values.
    """

    dtype: object
    block: int
    inputs: list
    steps: list
    outputs: list
    known: list

    @property
    def shapes(self):
        """The shapes of inputs and outputs."""
        found = [self.known[k] if axis is None else (self.known[k][1 - axis],) for k, axis in self.outputs]
        return [*self.inputs, *found]


def program(draw, sizes=WHOLE_SIZES + ODD_SIZES, blocks=BLOCKS):
    """A random program on tiles of one size, for a block of one of these numbers of threads."""
    shape, dtype = draw.choice(sizes), draw.choice([f32, f32, f16, i32])
    second = [shape] if draw.random() < 0.6 else []
    known = [shape, *second, (shape[draw.choice((0, 1))],)]
    inputs, steps = list(known), []
    for _ in range(draw.randint(2, 6)):
        tiles = [k for k, s in enumerate(known) if len(s) == 2]
        x = draw.choice(tiles[-3:])
        word, operands, choice, made = _step(draw, dtype, known, tiles, x)
        steps.append((word, operands, choice))
        known.append(made)
    outputs = [(len(known) - 1, None)]
    if draw.random() < 0.5:
        outputs.append((draw.choice([k for k, s in enumerate(known) if len(s) == 2]), draw.choice((0, 1))))
    return Program(dtype, draw.choice(blocks), inputs, steps, outputs, known)


def _step(draw, dtype, known, tiles, x):
    """A step on tile x: its word, operands and choice, and the shape of its result."""
    m, n = known[x]
    like = [k for k in tiles if known[k] == known[x]]
    vectors = [k for k, s in enumerate(known) if len(s) == 1 and s[0] in known[x]]
    words = ["add", "mul", "transpose", "reduce", "reduce", "scale", "mask", "loop", "scan", "cast"]
    words += ["vector"] * bool(vectors)
    if all(size & (size - 1) == 0 for size in (m, n)):
        words += ["reshape", "pairs", "quads", "sort", "flip", "gather"]
    if dtype is not i32 and m % 16 == 0 and n % 16 == 0 and m <= 64:
        words += ["product"]
    word = draw.choice(words)
    axis = draw.choice((0, 1))
    if word in ("add", "mul"):
        return word, (x, draw.choice(like)), None, known[x]
    if word == "transpose":
        return word, (x,), None, (n, m)
    if word == "reduce":
        return word, (x, draw.choice(like)), (axis, draw.choice(["sum", "max", "min"])), known[x]
    if word == "vector":
        v = draw.choice(vectors)
        return word, (x, v), draw.choice([k for k in (0, 1) if known[x][k] == known[v][0]]), known[x]
    if word == "reshape":
        rows = draw.choice([m * 2, max(1, m // 2)])
        return word, (x,), (rows, m * n // rows), (rows, m * n // rows)
    if word in ("scan", "sort", "flip", "gather"):
        return word, (x,), axis, known[x]
    return word, (x,), None, (m, m) if word == "product" else known[x]


def run(program, values, words):
    """The values of all steps, by the words of NumPy or of the kernel language."""
    for word, operands, choice in program.steps:
        x, *others = (values[k] for k in operands)
        if word == "add":
            values.append(words.wrap(x + others[0]))
        elif word == "mul":
            values.append(words.wrap(x * others[0]))
        elif word == "transpose":
            values.append(x.T)
        elif word == "reduce":
            axis, how = choice
            folded = getattr(others[0], how)(axis=axis)
            values.append(words.wrap(x - (folded[:, None] if axis else folded[None, :])))
        elif word == "vector":
            values.append(words.wrap(x + (others[0][None, :] if choice else others[0][:, None])))
        elif word == "reshape":
            values.append(x.reshape(*choice))
        elif word == "scale":
            values.append(words.wrap(x * 3))
        elif word in ("scan", "sort", "flip", "gather"):
            values.append(getattr(words, word)(x, choice))
        else:
            values.append(getattr(words, word)(x))
    return values


class Tiles:
    """The words on tiles of a kernel."""

    @staticmethod
    def wrap(x):
        return lego.minimum(lego.maximum(x, -8), 8)

    @staticmethod
    def mask(x):
        return lego.where(x.index(0) >= x.index(1), x, 0)

    @staticmethod
    def pairs(x):
        a, b = x.reshape(*x.shape[:-1], x.shape[-1] // 2, 2).split()
        return b.join(a).reshape(*x.shape)

    @staticmethod
    def quads(x):
        m, n = x.shape
        wide = x.reshape(m, n // 4, 4)
        return Tiles.wrap((wide - wide.max(axis=2)[:, :, None]).reshape(m, n))

    @staticmethod
    def loop(x):
        total = lego.register(x)
        for _ in lego.range(2):
            total.set(Tiles.wrap(total + x))
        return total.get()

    @staticmethod
    def scan(x, axis):
        return Tiles.wrap(x.cumsum(axis))

    @staticmethod
    def sort(x, axis):
        return x.sort(axis)

    @staticmethod
    def flip(x, axis):
        return x.flip(axis)

    @staticmethod
    def gather(x, axis):
        return lego.gather(x, x.to(i32) & (x.shape[axis] - 1), axis)

    @staticmethod
    def cast(x):
        return x.to(f32 if x.dtype is f16 else f16 if x.dtype is f32 else lego.i16).to(x.dtype)

    @staticmethod
    def product(x):
        half = x.to(f16)
        return Tiles.wrap(lego.mma(half, half.T, lego.zeros(f32, (x.shape[0],) * 2))).to(x.dtype)


class Arrays:
    """The same words on arrays."""

    @staticmethod
    def wrap(x):
        return np.clip(x, -8, 8).astype(x.dtype)

    @staticmethod
    def mask(x):
        return np.where(np.arange(x.shape[0])[:, None] >= np.arange(x.shape[1])[None, :], x, 0).astype(x.dtype)

    @staticmethod
    def pairs(x):
        return x.reshape(*x.shape[:-1], -1, 2)[..., ::-1].reshape(x.shape)

    @staticmethod
    def quads(x):
        wide = x.reshape(x.shape[0], -1, 4)
        return Arrays.wrap((wide - wide.max(2, keepdims=True)).reshape(x.shape))

    @staticmethod
    def loop(x):
        return Arrays.wrap(Arrays.wrap(x + x) + x)

    @staticmethod
    def scan(x, axis):
        return Arrays.wrap(x.cumsum(axis, dtype=x.dtype))

    @staticmethod
    def sort(x, axis):
        return np.sort(x, axis)

    @staticmethod
    def flip(x, axis):
        return np.flip(x, axis)

    @staticmethod
    def gather(x, axis):
        return np.take_along_axis(x, x.astype(np.int32) & (x.shape[axis] - 1), axis)

    @staticmethod
    def cast(x):
        return x

    @staticmethod
    def product(x):
        wide = x.astype(np.float32)
        return Arrays.wrap(wide @ wide.T).astype(x.dtype)


def kernel_of(made, tiles=1):
    """The program as a kernel of a grid, whose blocks have tiles of their own, one after the other in each tensor."""
    names = [f"x{k}" for k in range(len(made.inputs))] + [f"y{k}" for k in range(len(made.outputs))]

    def body(*tensors):
        count = len(made.inputs)
        values = [lego.load(t, shape, at=place(shape)) for t, shape in zip(tensors, made.inputs, strict=False)]
        values = run(made, values, Tiles)
        for t, (k, axis) in zip(tensors[count:], made.outputs, strict=True):
            found = values[k] if axis is None else values[k].max(axis=axis)
            found.store(t, at=place(found.shape))

    def place(shape):
        return (lego.block_id[0] * shape[0], *(0 for _ in shape[1:]))

    shapes = [(tiles * rows, *rest) for rows, *rest in made.shapes]
    scope = {f"t_{n}": lego.Tensor(made.dtype, Row(*s)) for n, s in zip(names, shapes, strict=True)}
    scope |= {"body": body}
    exec(f"def tiles({', '.join(f'{n}: t_{n}' for n in names)}):\n    body({', '.join(names)})", scope)
    return lego.kernel(grid=tiles, block=made.block)(scope["tiles"])


def arrays_of(made, seed):
    """The inputs, and the wanted outputs."""
    rng = np.random.default_rng(seed)
    inputs = [rng.integers(-4, 5, s).astype(NUMPY[made.dtype]) for s in made.inputs]
    values = run(made, list(inputs), Arrays)
    return inputs, [values[k] if axis is None else values[k].max(axis=axis) for k, axis in made.outputs]
