"""Random tile programs without layouts: values are NumPy's in the interpreter, whatever layouts are chosen.

Each program is a kernel of one block: loads of tiles of several types, arithmetic, shape operations, reductions,
variables of loops and products, and stores. It is run with the engine's choice, which is then compared with NumPy, and
with another one: what forward propagation chooses. Every element keeps its value.
"""

import random
from dataclasses import dataclass

import numpy as np
import pytest

import lego_mlir as lego
from lego_mlir import Row, f16, f32, i32, interp
from lego_mlir.engine.layout_choice import chosen_layouts

NUMPY = {f32: np.float32, f16: np.float16, i32: np.int32}
SIZES = ((16, 64), (32, 32), (64, 16), (8, 128), (48, 32), (24, 48), (5, 64), (16, 80))
BLOCK = 128


@dataclass
class Program:
    """Steps, each (word, operands by number, a choice); shapes and types of the values."""

    inputs: list
    steps: list
    outputs: list


def program(draw):
    """A random program on tiles of one size; now and then one that is no power of two."""
    shape = draw.choice(SIZES)
    dtype = draw.choice([f32, f32, f32, i32])
    inputs = [
        (shape, dtype),
        *([(shape, dtype)] if draw.random() < 0.6 else []),
        ((shape[draw.choice((0, 1))],), dtype),
    ]
    known = [kind for kind, _ in inputs]
    whole = all(n & (n - 1) == 0 for n in shape)
    steps = []
    for _ in range(draw.randint(2, 6)):
        tiles = [k for k, s in enumerate(known) if len(s) == 2]
        x = draw.choice(tiles[-3:])
        like = [k for k in tiles if known[k] == known[x]]
        vectors = [k for k, s in enumerate(known) if len(s) == 1 and s[0] in known[x]]
        words = ["add", "mul", "transpose", "reduce", "scale", "mask", "loop"]
        words += ["vector"] * bool(vectors) + ["reshape", "pairs"] * whole
        word = draw.choice(words)
        if word in ("add", "mul"):
            steps.append((word, (x, draw.choice(like)), None))
            known.append(known[x])
        elif word == "transpose":
            steps.append((word, (x,), None))
            known.append(known[x][::-1])
        elif word == "reduce":
            axis = draw.choice((0, 1))
            steps.append((word, (x, draw.choice(like)), (axis, draw.choice(["sum", "max", "min"]))))
            known.append(known[x])
        elif word == "vector":
            v = draw.choice(vectors)
            steps.append((word, (x, v), draw.choice([k for k in (0, 1) if known[x][k] == known[v][0]])))
            known.append(known[x])
        elif word == "reshape":
            rows = draw.choice([known[x][0] * 2, max(1, known[x][0] // 2)])
            count = known[x][0] * known[x][1]
            steps.append((word, (x,), (rows, count // rows)))
            known.append((rows, count // rows))
        else:
            steps.append((word, (x,), None))
            known.append(known[x])
    last = len(known) - 1
    outputs = [(last, None)]
    if draw.random() < 0.5:
        outputs.append((draw.choice([k for k, s in enumerate(known) if len(s) == 2]), draw.choice((0, 1))))
    return Program(inputs, steps, outputs), dtype, known


def run(steps, values, words):
    """The values of all steps, by the words of NumPy or of the kernel language."""
    for word, operands, choice in steps:
        x, *others = (values[k] for k in operands)
        if word == "add":
            values.append(x + others[0])
        elif word == "mul":
            values.append(words.wrap(x * others[0]))
        elif word == "transpose":
            values.append(x.T)
        elif word == "reduce":
            axis, how = choice
            folded = getattr(others[0], how)(axis=axis)
            values.append(words.minus(x, folded[:, None] if axis else folded[None, :]))
        elif word == "vector":
            values.append(x + (others[0][None, :] if choice else others[0][:, None]))
        elif word == "reshape":
            values.append(x.reshape(*choice))
        elif word == "pairs":
            values.append(words.pairs(x))
        else:
            values.append(getattr(words, word)(x))
    return values


class Tiles:
    """The words on tiles of a kernel."""

    @staticmethod
    def wrap(x):
        return lego.minimum(lego.maximum(x, -8), 8)

    @staticmethod
    def minus(x, y):
        return Tiles.wrap(x - y)

    @staticmethod
    def scale(x):
        return Tiles.wrap(x * 3)

    @staticmethod
    def mask(x):
        return lego.where(x.index(0) >= x.index(1), x, 0)

    @staticmethod
    def pairs(x):
        a, b = x.reshape(*x.shape[:-1], x.shape[-1] // 2, 2).split()
        return b.join(a).reshape(*x.shape)

    @staticmethod
    def loop(x):
        total = lego.register(x)
        for _ in lego.range(2):
            total.set(Tiles.wrap(total + x))
        return total.get()


class Arrays:
    """The same words on arrays."""

    @staticmethod
    def wrap(x):
        return np.clip(x, -8, 8).astype(x.dtype)

    @staticmethod
    def minus(x, y):
        return Arrays.wrap(x - y)

    @staticmethod
    def scale(x):
        return Arrays.wrap(x * 3)

    @staticmethod
    def mask(x):
        return np.where(np.arange(x.shape[0])[:, None] >= np.arange(x.shape[1])[None, :], x, 0).astype(x.dtype)

    @staticmethod
    def pairs(x):
        return x.reshape(*x.shape[:-1], -1, 2)[..., ::-1].reshape(x.shape)

    @staticmethod
    def loop(x):
        return Arrays.wrap(Arrays.wrap(x + x) + x)


def kernel_of(made, dtype, known):
    """The program as a kernel."""
    names = [f"x{k}" for k in range(len(made.inputs))] + [f"y{k}" for k in range(len(made.outputs))]
    shapes = [shape for shape, _ in made.inputs]
    shapes += [known[k] if axis is None else (known[k][1 - axis],) for k, axis in made.outputs]

    def body(*tensors):
        count = len(made.inputs)
        values = [lego.load(t, shape) for t, (shape, _) in zip(tensors, made.inputs, strict=False)]
        values = run(made.steps, values, Tiles)
        for t, (k, axis) in zip(tensors[count:], made.outputs, strict=True):
            (values[k] if axis is None else values[k].max(axis=axis)).store(t)

    scope = {f"t_{n}": lego.Tensor(dtype, Row(*s)) for n, s in zip(names, shapes, strict=True)} | {"body": body}
    exec(f"def tiles({', '.join(f'{n}: t_{n}' for n in names)}):\n    body({', '.join(names)})", scope)
    return lego.kernel(grid=1, block=BLOCK)(scope["tiles"]), shapes


def launched(kernel, arrays, shapes, dtype):
    outputs = [np.zeros(s, NUMPY[dtype]) for s in shapes[len(arrays) :]]
    report = interp.launch(kernel.mlir(), grid=1, block=BLOCK, args=[a.reshape(-1) for a in (*arrays, *outputs)])
    assert report.clean, report
    return outputs


def check(seed):
    draw = random.Random(seed)
    made, dtype, known = program(draw)
    kernel, shapes = kernel_of(made, dtype, known)
    rng = np.random.default_rng(seed)
    arrays = [rng.integers(-4, 5, s).astype(NUMPY[dtype]) for s, _ in made.inputs]  # exact in f32 too
    values = run(made.steps, list(arrays), Arrays)
    wanted = [values[k] if axis is None else values[k].max(axis=axis) for k, axis in made.outputs]
    found = launched(kernel, arrays, shapes, dtype)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(a, b)
    if seed % 4 == 0:  # another choice, of fewer candidates
        other = kernel.placed(chosen_layouts(kernel.layout_choice.alternatives.graph, most=2))
        for a, b in zip(launched(other, arrays, shapes, dtype), wanted, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("part", range(4))
def test_values_are_those_of_numpy(part, request):
    count = 500 if request.config.getoption("--long") else 4
    for seed in range(part * count, (part + 1) * count):
        check(seed)


@pytest.mark.parametrize("shape", [(64, 64, 64), (32, 128, 64)])
def test_products_are_those_of_numpy(shape):
    m, n, k = shape

    @lego.kernel(grid=1, block=BLOCK)
    def product(a: lego.Tensor(f16, Row(m, k)), b: lego.Tensor(f16, Row(n, k)), c: lego.Tensor(f32, Row(m, n))):
        x, y = lego.load(a, (m, k)), lego.load(b, (n, k))
        s = lego.mma(x, y.T, lego.zeros(f32, (m, n)))
        (s - s.max(axis=1)[:, None]).store(c)

    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, (rows, k)).astype(np.float16) for rows in (m, n))
    c = np.zeros((m, n), np.float32)
    assert interp.launch(product.mlir(), grid=1, block=BLOCK, args=[x.reshape(-1) for x in (a, b, c)]).clean
    wanted = a.astype(np.float32) @ b.T.astype(np.float32)
    np.testing.assert_array_equal(c, wanted - wanted.max(axis=1, keepdims=True))
