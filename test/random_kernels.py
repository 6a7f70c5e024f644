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
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import ml_dtypes
import numpy as np
from hypothesis import strategies as st

import lego_mlir as lego
from lego_mlir import (
    Col,
    OrderBy,
    RegP,
    Row,
    bf16,
    f8e4m3fn,
    f8e5m2,
    f16,
    f32,
    f64,
    gallery,
    i1,
    i8,
    i16,
    i32,
    i64,
    u8,
    u16,
    u32,
    u64,
)  # fmt: skip

from strategies import permutations

FLOATS = (f16, bf16, f32, f64)
UNSIGNED = (u8, u16, u32, u64)
INTEGERS = (i8, i16, i32, i64, *UNSIGNED)
STORED_ONLY = {f8e4m3fn: 448.0, f8e5m2: 57344.0}  # the largest number of each
UNTOUCHED = -77
DEEPEST = 2  # branches and loops inside each other
GLOBALS = {"lego": lego, **{d.name: d for d in (*FLOATS, *INTEGERS, *STORED_ONLY, i1)}}
APPROXIMATE = {
    **{name: getattr(np, name) for name in ("exp", "exp2", "expm1", "log", "log2", "log1p", "sinh", "cosh", "tanh")},
    **{name: getattr(np, name) for name in ("sin", "cos", "tan")},
    "atan": np.arctan,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "erf": lambda x: np.array([math.erf(v) for v in x]),
    "pow(_, 1.5)": lambda x: np.power(x, 1.5),
    "pow(2.5, _)": lambda x: np.power(2.5, x),
    "atan2(_, -0.75)": lambda x: np.arctan2(x, -0.75),
    "asin(_ * 0.25)": lambda x: np.arcsin(x * 0.25),
    "acos(_ * -0.25)": lambda x: np.arccos(x * -0.25),
}
EXACT_OF_FLOATS = {"floor": np.floor, "ceil": np.ceil, "round": np.rint, "trunc": np.trunc, "sign": np.sign}
TESTS = {"isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite}
MANTISSA = {"f16": 10, "bf16": 7, "f32": 23, "f64": 52}


# ---- numbers


def double(exact):
    """The double nearest to a fraction."""
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def odd_double(exact):
    """A fraction as the double beside it with an odd last bit, if no double equals it: may be rounded once more."""
    near = double(exact)
    if math.isinf(near) or Fraction(near) == exact:
        return near
    down = near if abs(Fraction(near)) < abs(exact) else math.nextafter(near, 0.0)
    return float((np.float64(down).view(np.uint64) | np.uint64(1)).view(np.float64))


def narrowed(numbers, dtype):
    """Doubles rounded once to a float type: ml_dtypes would round to f32 first. An f8 saturates."""
    numbers = np.asarray(numbers, np.float64)
    if dtype in STORED_ONLY:
        return odd_single(np.clip(numbers, -STORED_ONLY[dtype], STORED_ONLY[dtype])).astype(dtype.numpy)
    if dtype is not bf16:
        return numbers.astype(dtype.numpy)
    return odd_single(numbers).astype(ml_dtypes.bfloat16)


def odd_single(numbers):
    """Doubles as f32 with an odd last bit where it does not hold them: may be rounded once more."""
    single = numbers.astype(np.float32)
    towards = np.abs(single.astype(np.float64)) > np.abs(numbers)
    down = np.where(towards, np.nextafter(single, np.float32(0)), single)
    inexact = np.isfinite(numbers) & np.isfinite(down) & (single.astype(np.float64) != numbers)
    odd = (np.ascontiguousarray(down).view(np.uint32) | np.uint32(1)).view(np.float32)
    return np.where(inexact, odd, single)


def exactly(fractions, dtype):
    """Fractions rounded once to a float type."""
    return narrowed([double(x) if dtype is f64 else odd_double(x) for x in fractions], dtype)


def fused(a, b, c, dtype):
    plain = a.astype(np.float64) * b.astype(np.float64) + c.astype(np.float64)
    finite = np.isfinite(a.astype(np.float64)) & np.isfinite(b.astype(np.float64)) & np.isfinite(c.astype(np.float64))
    parts = [[Fraction(float(v)) if ok else Fraction(0) for v, ok in zip(x, finite, strict=True)] for x in (a, b, c)]
    sums = [x * y + z for x, y, z in zip(*parts, strict=True)]
    negative_zero = np.signbit(plain)  # of an exact zero, whose sign a fraction does not have
    rounded = exactly(sums, dtype)
    zero = np.array([s == 0 for s in sums])
    rounded = np.where(zero & negative_zero, np.negative(np.zeros_like(rounded)), rounded)
    return np.where(finite, rounded, plain.astype(dtype.numpy)).astype(dtype.numpy)


def convert(values, source, dtype):
    """What `.to(dtype)` means: floats to nearest even, integers modulo their bits."""
    if source is dtype:
        return values
    if source in FLOATS and dtype in FLOATS:
        return narrowed(values.astype(np.float64), dtype)
    if source in INTEGERS and dtype in FLOATS:
        return exactly([Fraction(int(v)) for v in values], dtype)
    return values.astype(dtype.numpy)


def bit_counts(values, dtype, name):
    """popcount, clz and ctz."""
    counts = {
        "popcount": int.bit_count,
        "clz": lambda b: dtype.bits - b.bit_length(),
        "ctz": lambda b: (b & -b).bit_length() - 1 if b else dtype.bits,
    }
    return np.array([counts[name](int(v) % 2**dtype.bits) for v in values]).astype(dtype.numpy)


def truncated(values, divisors, dtype, wants_quotient):
    """C's division of integers, and its remainder."""
    found = []
    for a, b in zip(values.tolist(), divisors.tolist(), strict=True):
        quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        found.append(quotient if wants_quotient else a - quotient * b)
    return np.array([n % 2**dtype.bits for n in found], f"uint{dtype.bits}").view(dtype.numpy)


def chosen(values, other, dtype, smaller):
    """minimum and maximum: NaN if one is, and -0.0 below 0.0."""
    if dtype in INTEGERS:
        return np.minimum(values, other) if smaller else np.maximum(values, other)
    below = (values < other) | ((values == other) & np.signbit(values) & ~np.signbit(other))
    best = np.where(below == smaller, values, other)
    nan = np.isnan(values.astype(np.float64)) | np.isnan(other.astype(np.float64))
    return np.where(nan, dtype.numpy.type(np.nan), best)


# ---- nodes


@dataclass(frozen=True)
class Node:
    """Text, and the value in every thread; `kind` is a DType, "index" or "condition"; a vector adds an axis."""

    text: str
    kind: Any
    value: Callable[[Any], np.ndarray] = field(repr=False)
    width: int | None = None


@dataclass
class Tensor:
    """A tensor of the signature: `dims` are its logical sizes, numbers also where the layout's are symbols."""

    name: str
    dtype: Any
    layout: Any
    dims: tuple
    array: np.ndarray
    ragged: tuple | None = None  # tiles of tile_by that reach past the end


class Run:
    """The state of a run in NumPy: arrays by name, and one number a thread for ids, loops and registers."""

    def __init__(self, case):
        self.memory = {t.name: t.array.copy() for t in case.tensors}
        self.block, self.thread = np.divmod(np.arange(case.blocks * case.threads), case.threads)
        gx, bx = case.grid[0], case.block[0]
        self.ids = {"bx": self.block % gx, "by": self.block // gx, "tx": self.thread % bx, "ty": self.thread // bx}
        self.count = self.block.size
        self.local = {}  # registers and loop variables
        self.active = np.ones(self.count, bool)
        self.blocks = case.blocks

    def spread(self, value):
        return np.broadcast_to(np.asarray(value), (self.count,))


@dataclass(repr=False)
class Case:
    """A drawn kernel: `kernel` builds it, `expected` runs it in NumPy. Hypothesis shows its text, not its arrays."""

    name: str
    grid: tuple
    block: tuple
    tensors: list = field(default_factory=list)
    scalars: list = field(default_factory=list)  # (name, dtype, number)
    body: list = field(default_factory=list)  # (lines, run)
    sizes: dict = field(default_factory=dict)
    tiles: dict = field(default_factory=dict)  # the layouts of shared tiles by name
    loose: set = field(default_factory=set)  # outputs that went through a function known to a few ulps only
    outputs: set = field(default_factory=set)
    cpu: bool = True
    form: str = "affine"

    def __repr__(self):
        return f"<{self.text()}>"

    @property
    def blocks(self):
        return math.prod(self.grid)

    @property
    def threads(self):
        return math.prod(self.block)

    def text(self):
        layouts = [f"# L{n} = {t.layout!r}" for n, t in enumerate(self.tensors)]
        sizes = [f'{name} = lego.size("{name}", min=1)' for name in self.sizes]
        declared = [f"{t.name}: lego.Tensor({t.dtype}, L{n})" for n, t in enumerate(self.tensors)]
        declared += [f"{name}: {dtype}" for name, dtype, _ in self.scalars]
        ids = [f"b{'xy'[a]} = lego.block_id[{a}]" for a in range(len(self.grid))]
        ids += [f"t{'xy'[a]} = lego.thread_id[{a}]" for a in range(len(self.block))]
        lines = [f"    {line}" for line in (*ids, *(line for lines, _ in self.body for line in lines))]
        launch = f"grid={self.grid}, block={self.block}, contract=False"  # NumPy rounds each operation
        head = [f"@lego.kernel({launch})", f"def {self.name}({', '.join(declared)}):"]
        return "\n".join([*layouts, *sizes, *head, *lines, ""])

    @cached_property
    def built(self):
        """The kernel, once: tracing costs more than most of what a test does with it."""
        names = {**GLOBALS, **self.tiles, **{f"L{n}": t.layout for n, t in enumerate(self.tensors)}}
        names |= {name: lego.size(name, min=1) for name in self.sizes}
        exec(compile(self.text(), f"<{self.name}>", "exec"), names)  # the text that a reader of the failure sees
        return names[self.name]

    def kernel(self):
        return self.built

    def expected(self):
        run = Run(self)
        with np.errstate(all="ignore"):
            for _, step in self.body:
                step(run)
        return [run.memory[t.name] for t in self.tensors]

    def arrays(self):
        return [t.array.copy() for t in self.tensors] + [number for _, _, number in self.scalars]


# ---- drawing


class Drawer:
    """Draws one kernel. `draw` is Hypothesis's."""

    def __init__(self, draw, name):
        self.draw = draw
        self.case = Case(name, self._extents(3), self._extents(8, 12))
        self.case.form = self.of("affine", "affine", "index", "arith")
        self.registers = []  # (name, dtype)
        self.loops = []
        self.made = 0
        self.depth = 0

    def of(self, *choices):
        return self.draw(st.sampled_from(choices))

    def integer(self, low, high):
        return self.draw(st.integers(low, high))

    def fresh(self, prefix):
        self.made += 1
        return f"{prefix}{self.made}"

    def _extents(self, *limits):
        first = self.integer(1, limits[0])
        return (first, self.integer(1, limits[-1])) if self.draw(st.booleans()) else (first,)

    # -- indices and conditions

    def index(self, depth=2):
        kind = self.of("id", "id", "number", "add", "sub", "mul", "div", "mod", "where", "min", "data")
        if depth == 0 or kind in ("id", "number"):
            return self._leaf_index(kind)
        a = self.index(depth - 1)
        if kind in ("mul", "div", "mod"):
            n = self.integer(1, 9)
            sign = {"mul": "*", "div": "//", "mod": "%"}[kind]
            compute = {"mul": lambda x: x * n, "div": lambda x: x // n, "mod": lambda x: x % n}[kind]
            return Node(f"({a.text} {sign} {n})", "index", lambda r: compute(a.value(r)))
        if kind == "data":
            data, n = self.data(self.of(i32, i64, i8, u8, u16, u32), 1), self.integer(1, 64)
            return Node(f"(lego.index({data.text}) % {n})", "index", lambda r: data.value(r).astype(np.int64) % n)
        b = self.index(depth - 1)
        if kind == "where":
            c = self.index_condition(depth - 1)
            return Node(
                f"lego.where({c.text}, {a.text}, {b.text})",
                "index",
                lambda r: np.where(c.value(r), a.value(r), b.value(r)),
            )
        if kind == "min":
            small = self.draw(st.booleans())
            name = "minimum" if small else "maximum"
            f = np.minimum if small else np.maximum
            return Node(f"lego.{name}({a.text}, {b.text})", "index", lambda r: f(a.value(r), b.value(r)))
        if kind == "add":
            return Node(f"({a.text} + {b.text})", "index", lambda r: a.value(r) + b.value(r))
        return Node(f"({a.text} - {b.text})", "index", lambda r: a.value(r) - b.value(r))

    def _leaf_index(self, kind):
        if kind == "number":
            n = self.integer(-3, 40)
            return Node(str(n), "index", lambda r: r.spread(np.int64(n)))
        names = [f"b{'xy'[a]}" for a in range(len(self.case.grid))]
        names += [f"t{'xy'[a]}" for a in range(len(self.case.block))]
        name = self.of(*names, *self.loops)
        return Node(name, "index", lambda r: r.ids[name] if name in r.ids else r.local[name])

    def index_condition(self, depth=1):
        sign, f = self.of(*COMPARISONS.items())
        a, b = self.index(depth), self.index(depth)
        single = Node(f"({a.text} {sign} {b.text})", "condition", lambda r: f(a.value(r), b.value(r)))
        if depth and self.integer(0, 2) == 0:
            other = self.index_condition(0)
            joined = self.of("&", "|")
            g = np.logical_and if joined == "&" else np.logical_or
            return Node(
                f"({single.text} {joined} {other.text})", "condition", lambda r: g(single.value(r), other.value(r))
            )
        return single

    def condition(self, depth=1):
        """Of indices, or of data."""
        if self.draw(st.booleans()):
            return self.index_condition(depth)
        if self.integer(0, 3) == 0:
            single = self._load(i1) if self.draw(st.booleans()) else self._test(depth)
            return Node(f"(~{single.text})", "condition", lambda r: ~single.value(r))
        sign, f = self.of(*COMPARISONS.items())
        dtype = self.of(*FLOATS, *INTEGERS)
        a, b = self.data(dtype, depth), self.operand(dtype, depth)
        single = Node(f"({a.text} {sign} {b.text})", "condition", lambda r: f(a.value(r), b.value(r)))
        if self.integer(0, 2) == 0:
            return Node(f"(~{single.text})", "condition", lambda r: ~single.value(r))
        return single

    def _test(self, depth):
        """Whether a float is NaN, infinite or finite."""
        a, (name, f) = self.data(self.of(*FLOATS), depth), self.of(*TESTS.items())
        return Node(f"lego.{name}({a.text})", "condition", lambda r: f(a.value(r).astype(np.float64)))

    # -- data

    def number(self, dtype):
        """A constant of a type, as Python writes it, and as the type holds it."""
        if dtype is i1:
            truth = self.draw(st.booleans())
            return str(truth), np.bool_(truth)
        if dtype in INTEGERS:
            low, high = (
                (0, 2**dtype.bits - 1) if dtype in UNSIGNED else (-(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1) - 1)
            )
            n = self.draw(st.integers(max(low, -5), 9) | st.sampled_from([low, high, low + 1]) | st.integers(low, high))
            return str(n), dtype.numpy.type(n)
        kind = self.of("small", "decimal", "bits", "special")
        if kind == "small":
            x = float(self.integer(-4, 4))
        elif kind == "decimal":
            x = self.of(0.1, 0.3, 1 / 3, 2**0.5, math.pi, 1e-3, -0.7, 1.0009765625, 6.1e-5, 1234.567)
        elif kind == "special":
            x = self.of(math.inf, -math.inf, math.nan, -0.0, 0.0)
        else:
            bits = self.draw(st.integers(0, 2**dtype.bits - 1))
            x = float(np.array([bits], f"uint{dtype.bits}").view(dtype.numpy)[0])
        text = f"float('{x}')" if not math.isfinite(x) else repr(x)
        return text, narrowed([x], dtype)[0]

    def constant(self, dtype):
        text, number = self.number(dtype)
        return Node(f"{dtype}({text})", dtype, lambda r: np.full(r.count, number))

    def operand(self, dtype, depth):
        """Data, or a Python number that takes the type of the data it meets."""
        if self.integer(0, 3) == 0:
            text, number = self.number(dtype)
            return Node(f"({text})", dtype, lambda r: np.full(r.count, number))
        return self.data(dtype, depth)

    def data(self, dtype, depth=2):
        if depth <= 0 or self.integer(0, 4) == 0:
            return self._leaf(dtype)
        makers = [self._binary, self._binary, self._unary, self._where, self._conversion]
        makers += [self._fma, self._through_f8] if dtype in FLOATS else []
        return self.of(*makers)(dtype, depth - 1)

    def _leaf(self, dtype):
        makers = [self.constant, self._from_index, self._load, self._load]
        if any(d is dtype for _, d in self.registers):
            makers += [self._register, self._register]
        makers += [self._scalar] if len(self.case.scalars) < 3 else []
        return self.of(*makers)(dtype)

    def _register(self, dtype):
        name = self.of(*(n for n, d in self.registers if d is dtype))
        return Node(name, dtype, lambda r: r.local[name])

    def _scalar(self, dtype):
        name = f"s{len(self.case.scalars)}"
        _, number = self.number(dtype)
        self.case.scalars.append((name, dtype, number))
        return Node(name, dtype, lambda r: np.full(r.count, number))

    def _from_index(self, dtype):
        a = self.index(1)

        def value(r):
            found = np.asarray(a.value(r), np.int64)
            return found.astype(dtype.numpy) if dtype in INTEGERS else convert(found, i64, dtype)

        return Node(f"{dtype}({a.text} + 0 * tx)", dtype, value)

    def _load(self, dtype):
        tensor = self.tensor(dtype)
        if tensor.ragged is not None:
            tiles, size = tensor.ragged
            n, (text, other) = tensor.dims[0], self.number(dtype)
            if dtype is bf16 and 0 < abs(float(other)) < 2.0**-126:
                self.case.cpu = False  # AVX512-BF16 flushes it: see test_a_denormal_bf16_beside_a_mask_is_kept
            a, b = self.index(1), self.index(1)
            tiled = f"{tensor.name}.tile_by([{tiles}], [{size}])"
            count = -(-n // size)

            def masked(r):
                at = a.value(r) % count * size + (b.value(r) + r.ids["tx"]) % size
                return np.where(at < n, r.memory[tensor.name][np.minimum(at, n - 1)], other)

            return Node(f"{tiled}.load(({a.text}) % {tiles}, ({b.text} + tx) % {size}, other={text})", dtype, masked)
        at = [self.index(1) for _ in tensor.dims]
        where = ", ".join(f"({a.text}) % {n}" for a, n in zip(at, tensor.dims, strict=True))

        def value(r):
            return r.memory[tensor.name][tuple(a.value(r) % n for a, n in zip(at, tensor.dims, strict=True))]

        return Node(f"{tensor.name}[{where}]", dtype, value)

    def _binary(self, dtype, depth):
        a = self.data(dtype, depth)
        if dtype in INTEGERS and self.integer(0, 2) == 0:
            return self._integer_binary(dtype, a, depth)
        b = self.operand(dtype, depth)
        name = self.of("+", "-", "*", "minimum", "maximum", *(["/"] if dtype in FLOATS else ["&", "|", "^"]))
        if name in ("minimum", "maximum"):
            small = name == "minimum"
            return Node(
                f"lego.{name}({a.text}, {b.text})", dtype, lambda r: chosen(a.value(r), b.value(r), dtype, small)
            )
        f = ARITHMETIC[name]
        if self.draw(st.booleans()):
            a, b = b, a
            if a.kind is b.kind and not any(c.isalpha() for c in a.text) and name in "&|^":
                a, b = b, a
        return Node(f"({a.text} {name} {b.text})", dtype, lambda r: f(a.value(r), b.value(r)).astype(dtype.numpy))

    def _integer_binary(self, dtype, a, depth):
        name = self.of("//", "%", "<<", ">>", "div_trunc", "rem_trunc")
        constant = self.draw(st.booleans())
        if name in ("<<", ">>"):
            f = np.left_shift if name == "<<" else np.right_shift
            if constant:
                n = self.integer(0, dtype.bits - 1)
                return Node(f"({a.text} {name} {n})", dtype, lambda r: f(a.value(r), dtype.numpy.type(n)))
            b, n = self.data(dtype, depth), dtype.bits - 1
            return Node(
                f"({a.text} {name} ({b.text} & {n}))", dtype, lambda r: f(a.value(r), b.value(r) & dtype.numpy.type(n))
            )
        divided = name in ("//", "div_trunc")
        if name in ("//", "%"):
            f, form = np.floor_divide if divided else np.mod, f"({{}} {name} {{}})"
        else:
            f, form = lambda x, y: truncated(x, np.broadcast_to(y, x.shape), dtype, divided), f"lego.{name}({{}}, {{}})"
        if constant:
            n = self.draw(st.integers(1, 100) if dtype in UNSIGNED else st.integers(1, 100) | st.integers(-100, -2))
            return Node(form.format(a.text, n), dtype, lambda r: f(a.value(r), dtype.numpy.type(n)))
        b, sign = self.data(dtype, depth), "" if dtype in UNSIGNED else self.of("", "-")

        def value(r):
            divisor = (b.value(r) & dtype.numpy.type(15)) + dtype.numpy.type(2)
            return f(a.value(r), -divisor if sign else divisor)

        return Node(form.format(a.text, f"({sign}(({b.text} & 15) + 2))"), dtype, value)

    def _unary(self, dtype, depth):
        a = self.data(dtype, depth)
        name = self.of("-", "abs", *(["sqrt", *EXACT_OF_FLOATS] if dtype in FLOATS else ["~", *COUNTS, "sign"]))
        if name in COUNTS:
            return Node(f"lego.{name}({a.text})", dtype, lambda r: bit_counts(a.value(r), dtype, name))
        if name in EXACT_OF_FLOATS:
            exact = EXACT_OF_FLOATS[name]
            return Node(f"lego.{name}({a.text})", dtype, lambda r: exact(a.value(r)).astype(dtype.numpy))
        if name == "sqrt":
            # f16 and bf16 in f32, rounded once, which is exact
            def root(r):
                given = np.abs(a.value(r))
                wide = given if dtype.bits > 16 else given.astype(np.float32)
                return np.sqrt(wide).astype(dtype.numpy)

            return Node(f"lego.sqrt(abs({a.text}))", dtype, root)
        f = {"-": np.negative, "abs": np.abs, "~": np.invert}[name]
        text = f"abs({a.text})" if name == "abs" else f"({name}{a.text})"
        return Node(text, dtype, lambda r: f(a.value(r)))

    def _where(self, dtype, depth):
        c, a, b = self.condition(depth), self.data(dtype, depth), self.operand(dtype, depth)
        return Node(
            f"lego.where({c.text}, {a.text}, {b.text})", dtype, lambda r: np.where(c.value(r), a.value(r), b.value(r))
        )

    def _conversion(self, dtype, depth):
        source = self.of(*(d for d in (*FLOATS, *INTEGERS) if d is not dtype))
        a = self.data(source, depth)
        if not (source in FLOATS and dtype in INTEGERS):
            return Node(f"{a.text}.to({dtype})", dtype, lambda r: convert(a.value(r), source, dtype))
        limit = 100.0  # fits every integer type; a NaN becomes it as well

        def value(r):
            given = a.value(r).astype(np.float64)
            held = np.where(np.abs(given) < limit, np.abs(given) if dtype in UNSIGNED else given, limit)
            return np.trunc(held).astype(dtype.numpy)

        name = self.fresh("c")
        kept = f"abs({name})" if dtype in UNSIGNED else name
        inside = f"(lambda {name}: lego.where(abs({name}) < {limit}, {kept}, {limit}))({a.text})"
        return Node(f"{inside}.to({dtype})", dtype, value)

    def _fma(self, dtype, depth):
        a, b, c = self.data(dtype, depth), self.operand(dtype, depth), self.operand(dtype, depth)
        return Node(
            f"lego.fma({a.text}, {b.text}, {c.text})", dtype, lambda r: fused(a.value(r), b.value(r), c.value(r), dtype)
        )

    def _through_f8(self, dtype, depth):
        """A number rounded to f8 and widened again."""
        a, narrow = self.data(dtype, depth), self.of(*STORED_ONLY)

        def value(r):
            return narrowed(narrowed(a.value(r).astype(np.float64), narrow).astype(np.float64), dtype)

        return Node(f"{a.text}.to({narrow}).to({dtype})", dtype, value)

    # -- tensors

    def layout(self, dims):
        n = math.prod(dims)
        kind = self.of("row", "row", "column", "order", "padded")
        if kind == "column":
            return Col(*dims)
        if kind == "padded" and len(dims) == 2:
            return gallery.padded(*dims, self.integer(1, 3))
        if kind == "order" and n <= 128:
            return OrderBy(self.draw(permutations(n))).GroupBy(list(dims))
        if kind == "order":
            return RegP(list(dims), self.draw(st.permutations(range(1, len(dims) + 1))))
        return Row(*dims)

    def fill(self, dtype, dims):
        """An input: few bits of entropy, all kinds of values."""
        random = np.random.default_rng(self.integer(0, 99))
        if dtype is i1:
            return random.integers(0, 2, dims).astype(bool)
        if dtype in INTEGERS:
            low, high = np.iinfo(dtype.numpy).min, np.iinfo(dtype.numpy).max
            small = random.integers(-20, 20, dims).astype(dtype.numpy)
            whole = random.integers(low, high, dims, dtype.numpy, endpoint=True)
            return np.where(random.random(dims) < 0.7, small, whole)
        small = random.integers(-20, 20, dims) / 4
        bits = random.integers(0, 2**dtype.bits, dims, np.uint64, endpoint=False) if dtype.bits < 64 else None
        bits = random.integers(0, 2**63, dims, np.uint64) if bits is None else bits
        raw = bits.astype(f"uint{dtype.bits}").view(dtype.numpy)
        return np.where(random.random(dims) < 0.8, small.astype(dtype.numpy), raw).astype(dtype.numpy)

    def tensor(self, dtype):
        """An input of this type: one that is there, or a new one."""
        there = [t for t in self.case.tensors if t.dtype is dtype and t.name.startswith("x")]
        if there and (len(self.case.tensors) > 6 or self.draw(st.booleans())):
            return self.of(*there)
        name = f"x{len(self.case.tensors)}"
        kind = self.of("plain", "plain", "ragged", "symbolic")
        if kind == "plain":
            dims = tuple(self.integer(1, 9) for _ in range(self.integer(1, 3)))
            tensor = Tensor(name, dtype, self.layout(dims), dims, self.fill(dtype, dims))
        else:
            n, size = self.integer(1, 40), self.integer(1, 9)
            tensor = Tensor(name, dtype, Row(n), (n,), self.fill(dtype, (n,)), (f"lego.cdiv({n}, {size})", size))
            if kind == "symbolic":
                symbol = f"N{len(self.case.sizes)}"
                self.case.sizes[symbol] = n
                tensor.layout = Row(lego.size(symbol, min=1))
                tensor.ragged = (f"lego.cdiv({symbol}, {size})", size)
        self.case.tensors.append(tensor)
        return tensor

    # -- statements

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
        first, last = (low, end) if wrap else (_number(self.integer(-2, 2)), _number(self.integer(-2, 6)))
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
            name = self.of(*(n for n, d in self.registers if d is dtype))
            return Node(name, dtype, lambda r: r.local[name])
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
            compute = _bounded_function(name, value, dtype)
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


COUNTS = ("popcount", "clz", "ctz")
COMPARISONS = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "==": np.equal,
    "!=": np.not_equal,
}
ARITHMETIC = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "&": np.bitwise_and,
    "|": np.bitwise_or,
    "^": np.bitwise_xor,
}


def _number(n):
    return Node(str(n), "index", lambda r: r.spread(np.int64(n)))


def _bounded_function(name, given, dtype):
    """A function of the hardware between 0.25 and 4."""
    f = APPROXIMATE[name]

    def value(r):
        low, high = (np.full(r.count, narrowed([limit], dtype)[0]) for limit in (0.25, 4.0))
        inside = chosen(chosen(given.value(r), low, dtype, False), high, dtype, True)
        return narrowed(f(inside.astype(np.float64)), dtype)

    return value


@st.composite
def cases(draw, name="k"):
    """One random kernel."""
    drawer = Drawer(draw, name)
    drawer.case.body = list(drawer.statements(drawer.integer(0, 4)))
    drawer.case.body += [drawer.store() for _ in range(drawer.integer(1, 2))]
    return drawer.case


def wrong(case, found):
    """What differs from NumPy, in words, or nothing. NaNs are equal; functions of the hardware agree to a few ulps."""
    for tensor, got, wanted in zip(case.tensors, found, case.expected(), strict=False):
        with np.errstate(invalid="ignore"):  # of a signalling NaN, which becomes a quiet one
            a, b = (
                np.asarray(v).astype(np.float64) if tensor.dtype in FLOATS else np.asarray(v) for v in (got, wanted)
            )
        same = (a == b) & (np.signbit(a) == np.signbit(b)) if tensor.dtype in FLOATS else a == b
        if tensor.dtype in FLOATS:
            same |= np.isnan(a) & np.isnan(b)
            if tensor.name in case.loose:
                same |= np.isclose(
                    a, b, rtol=2.0 ** (4 - MANTISSA[tensor.dtype.name]), atol=2.0 ** -MANTISSA[tensor.dtype.name]
                )
        if not same.all():
            at = tuple(int(i) for i in np.argwhere(~same)[0])
            return f"{tensor.name}{list(at)} is {got[at]!r}, NumPy has {wanted[at]!r}"
    return ""
