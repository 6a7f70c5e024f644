"""Random expressions of a kernel, each with the function that computes its values in NumPy."""

import math

import numpy as np
from hypothesis import strategies as st
from kernel_cases import Case, Node, Tensor
from number_meaning import (
    APPROXIMATE,
    EXACT_OF_FLOATS,
    FLOATS,
    INTEGERS,
    STORED_ONLY,
    TESTS,
    UNSIGNED,
    bit_counts,
    chosen,
    convert,
    fused,
    narrowed,
    truncated,
)

import lego_mlir as lego
from lego_mlir import (
    Col,
    OrderBy,
    RegP,
    Row,
    bf16,
    gallery,
    i1,
    i8,
    i32,
    i64,
    u8,
    u16,
    u32,
)  # fmt: skip

from strategies import permutations


class ExpressionDrawer:
    """Draws expressions of one kernel, and the tensors that they read. `draw` is Hypothesis's."""

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


def number_node(n):
    return Node(str(n), "index", lambda r: r.spread(np.int64(n)))


def bounded_function(name, given, dtype):
    """A function of the hardware between 0.25 and 4."""
    f = APPROXIMATE[name]

    def value(r):
        low, high = (np.full(r.count, narrowed([limit], dtype)[0]) for limit in (0.25, 4.0))
        inside = chosen(chosen(given.value(r), low, dtype, False), high, dtype, True)
        return narrowed(f(inside.astype(np.float64)), dtype)

    return value
