"""Random layouts, templates that use them in every way, and what NumPy says that the rendered text must compute.

A case is drawn from a seed. Its layout is made twice by one function: with sizes that are symbols, for the template,
and with numbers, for the expected values; what is simplified, printed and run meets what was only ever evaluated.
"""

import random
from dataclasses import dataclass, field

import numpy as np

from lego_mlir import cdiv, schedule, size
from lego_mlir.layout import Col, GroupBy, OrderBy, Padded, RegP, Row, TileBy, TileOrderBy, gallery
from lego_mlir.templates import Template, block, index

POINTS = 6
AROUND = (
    ("", "", 1, 0),
    ("2 * ", "", 2, 0),
    ("(3 -\n        ", ")", -1, 3),
    ("(", "\n * 2)", 2, 0),
    ("1 - ", " * 3", -3, 1),
)
UNTOUCHED = -(2**40)
MAXIMA = (None, 37, 4096, 40000, 60000, 2**20)
TRITON = """\
import triton
import triton.language as tl

{{{{ helpers }}}}

@triton.jit
def f(in_ptr, out_ptr, data_ptr, to_ptr{{{{ sizes }}}}TABLES):
    pid = tl.program_id(0)
    in_ptr += pid * {inputs}
    out_ptr += pid * {outputs}
{body}
"""
C = """\
{{{{ helpers }}}}
{declared}
template <class I> inline void f(const long long *in, long long *out{{{{ sizes }}}}) {{
  USED
{body}
}}
"""


@dataclass
class Case:
    """A template's text, what it is filled in with, and what it must compute: `expected[point]` and where it counts.

    `inputs` are the values of its index variables, a row a point; `values` those of its sizes.
    """

    seed: int
    layout: object
    numbers: object
    values: dict
    language: str
    names: list = field(default_factory=list)
    columns: list = field(default_factory=list)
    body: list = field(default_factory=list)
    declared: list = field(default_factory=list)
    given: dict = field(default_factory=dict)
    expected: list = field(default_factory=list)
    counts: list = field(default_factory=list)
    stored: object = None
    wide: bool = False

    @property
    def inputs(self):
        return np.stack(self.columns, axis=1) if self.columns else np.zeros((POINTS, 1), np.int64)

    @property
    def outputs(self):
        return sum(e.shape[1] for e in self.expected)

    def template(self):
        shape = C if self.language == "cuda" else TRITON
        text = shape.format(
            inputs=self.inputs.shape[1],
            outputs=self.outputs,
            body="\n".join(self.body),
            declared="".join(self.declared),
        )
        suffix = "cu" if self.language == "cuda" else "py"
        return Template.of(text, f"case{self.seed}.{suffix}.jinja", A=self.layout, **self.given)

    def variable(self, column, **declared):
        """A new index variable with these values."""
        name = f"x{len(self.names)}"
        kind = "[[maybe_unused]] const I " if self.language == "cuda" else ""
        read = f"(I)in[{len(self.names)}];" if self.language == "cuda" else f"tl.load(in_ptr + {len(self.names)})"
        self.body.append(f"  {kind}{name} = {read}" if kind else f"    {name} = {read}")
        self.names.append(name)
        self.columns.append(np.broadcast_to(np.asarray(column, dtype=np.int64), (POINTS,)))
        self.given[name] = index(name, **declared)
        return name

    def vector(self, columns):
        """A new block variable whose elements have these values, a column each."""
        at, name = len(self.names), f"v{len(self.names)}"
        self.body.append(f"    {name} = tl.load(in_ptr + {at} + tl.arange(0, {len(columns)}))")
        self.names += [f"{name}_{k}" for k in range(len(columns))]
        self.columns += [np.asarray(column, dtype=np.int64) for column in columns]
        self.given[name] = block(name, len(columns))
        return name

    def scalar(self, text, expected, counts=True):
        """One value that is written out."""
        at = self.outputs
        self.body.append(
            f"  out[{at}] = {text};" if self.language == "cuda" else f"    tl.store(out_ptr + {at}, {text})"
        )
        self._expect(np.asarray(expected).astype(np.int64).reshape(-1, 1), np.asarray(counts).reshape(-1, 1))

    def block(self, text, expected, counts, shape):
        """A block that is written out, and broadcast to its whole shape."""
        where = " + ".join(
            f"(tl.arange(0, {n}) * {int(np.prod(shape[k + 1 :]))})"
            + (f"[{', '.join(':' if a == k else 'None' for a in range(len(shape)))}]" if len(shape) > 1 else "")
            for k, n in enumerate(shape)
        )
        self.body.append(f"    tl.store(out_ptr + {self.outputs} + {where}, {text})")
        whole = (POINTS, *shape)
        self._expect(
            *(np.broadcast_to(v, whole).reshape(POINTS, -1) for v in (np.asarray(expected).astype(np.int64), counts))
        )

    def _expect(self, expected, counts):
        self.expected.append(np.broadcast_to(expected, (POINTS, expected.shape[1])))
        self.counts.append(np.broadcast_to(counts, self.expected[-1].shape).astype(bool))


def case(seed, language):
    """The case of a seed."""
    rng = random.Random(f"{language} {seed}")
    make, sizes, values = rng.choice([_static, _static, _matrix, _ragged, _ragged, _symbolic])(rng, language)
    numbers = make(**values)
    drawn = Case(seed, make(**{**values, **sizes}), numbers, {n: values[n] for n in sizes}, language)
    drawn.wide = rng.random() < 0.5
    many = [_position, _mask, _inverse, _holds]
    many += (
        [_function, _class, _expression]
        if language == "cuda"
        else [_block, _block, _block, _moved, _expression, _gather]
    )
    for use in rng.choices(many, k=rng.randint(2, 4)):
        use(rng, drawn)
    return drawn


# -- layouts: a function of the sizes, the sizes that are symbols, and a value of each size


def _parts(rng, n, rank):
    sizes = []
    for _ in range(rank - 1):
        sizes.append(rng.choice([d for d in range(1, n + 1) if n % d == 0]))
        n //= sizes[-1]
    sizes.append(n)
    rng.shuffle(sizes)
    return sizes


def _shuffled(rng, rank):
    return rng.sample(range(1, rank + 1), rank)


def _permutation(rng, n):
    """A permutation of n elements; no large Hilbert curves, for one of another has a text without end."""
    dims = _parts(rng, n, rng.randint(1, 3))
    root, power = round(n**0.5), n & (n - 1) == 0
    kinds = ["regular", "regular", "reverse", "table", "swizzle"]
    kinds += (
        ["antidiagonal"] * (2 * (root * root == n)) + ["morton"] * power + ["hilbert"] * (power and root**2 == n <= 16)
    )
    columns = rng.choice([d for d in range(1, n + 1) if n % d == 0])
    vec = rng.choice([d for d in (1, 2, 3, 4) if columns % d == 0])
    match rng.choice(kinds):
        case "regular":
            return RegP(dims, _shuffled(rng, len(dims)))
        case "reverse":
            return gallery.reverse(*dims)
        case "table":
            return gallery.table(dims, rng.sample(range(n), n))
        case "swizzle":
            return gallery.xor_swizzle(n // columns, columns, vec=vec, per_phase=rng.randint(1, 3))
        case "antidiagonal":
            return gallery.antidiagonal(root)
        case "morton":
            return gallery.morton(*(rng.choice([(1, n), (2, n // 2), (n, 1)]) if n > 1 else (1, 1)))
    return gallery.hilbert(root)


def _static(rng, language):
    n = rng.choice([rng.randint(1, 120), 16, 64, 64, 256, 36, 96, 128])
    match rng.choice(["chain", "chain", "chain", "tile_by", "tile_order_by", "padded"]):
        case "tile_by":
            rank = rng.randint(1, 2)
            made = TileBy(*([rng.choice([1, 2, 3, 4, 8]) for _ in range(rank)] for _ in range(rng.randint(1, 3))))
        case "tile_order_by":
            tiles = [[rng.choice([1, 2, 3, 4, 8]) for _ in range(2)] for _ in range(2)]
            rows, columns = (tiles[0][k] * tiles[1][k] for k in range(2))
            view = rng.choice([[rows, columns], [rows * columns]])
            made = TileOrderBy(*(rng.choice([Row, Col])(*t) for t in tiles)).GroupBy(view)
        case kind:
            orders = [OrderBy(*(_permutation(rng, m) for m in _parts(rng, n, rng.randint(1, 2)))) for _ in range(2)]
            made = GroupBy(_parts(rng, n, rng.randint(1, 3)), orders=tuple(orders[: rng.randint(0, 2)]))
            if kind == "padded":
                made = Padded(made, [rng.randint(1, d) for d in made.dims()])
    return (lambda **_: made), {}, {}


def _sizes(rng, names, multiple_of=(1, 1, 1, 2, 4, 8, 32)):
    """Sizes of these names, some of them symbols, and their values."""
    sizes, values = {}, {}
    for name in names:
        divisor, largest = rng.choice(multiple_of), rng.choice(MAXIMA)
        largest = largest and largest // divisor * divisor
        values[name] = divisor * rng.randint(1, max(1, min(largest or 10**6, rng.choice([20, 300, 10**6])) // divisor))
        if rng.random() < 0.75:
            sizes[name] = size(name, max=largest, multiple_of=divisor)
    return sizes, values


def _matrix(rng, language):
    """Rows, columns or any order of two or three sizes, perhaps with rows further apart than they are long."""
    names = "MNK"[: rng.randint(2, 3)]
    sizes, values = _sizes(rng, names, (1, 1, 2, 8))
    if len(names) == 3:
        values["K"] = min(values["K"], 16)
        sizes.pop("K", None)
    sigma, pitched = _shuffled(rng, len(names)), rng.random() < 0.3
    pitch = rng.randint(1, 8)

    def make(**n):
        dims = [n[name] for name in names]
        if pitched:
            return Padded(Row(*dims[:-1], dims[-1] + pitch), dims)
        return OrderBy(RegP(dims, sigma)).GroupBy(dims)

    return make, sizes, values


def _ragged(rng, language):
    """A matrix in tiles that need not divide it; in Triton a tile's size may be a constexpr."""
    sizes, values = _sizes(rng, "MN")
    tile = {"BM": rng.choice([2, 4, 8, 16]), "BN": rng.choice([2, 4, 8, 16])}
    if language == "cuda":
        tile = {name: rng.choice([n, 3, 5]) for name, n in tile.items()}
    else:
        sizes |= {name: size(name, max=rng.choice([None, 64])) for name in tile if rng.random() < 0.2}
    order = rng.choice([Row, Col])
    by_division = rng.random() < 0.3

    def make(M, N, BM, BN):
        counts = [cdiv(M, BM), cdiv(N, BN)]
        if by_division and values["M"] % tile["BM"] == 0 and values["N"] % tile["BN"] == 0 and not sizes:
            counts = [M // BM, N // BN]
        return order(M, N).tile_by(counts, [BM, BN])

    return make, sizes, {**values, **tile}


def _symbolic(rng, language):
    """The gallery, grids and tiles of symbolic sizes."""
    sizes, values = _sizes(rng, "MN", (8,))
    kind = rng.choice(["antidiagonal", "reverse", "swizzle", "grouped", "columns", "tiled"])
    rows = rng.choice([2, 3, 8])
    perms = [rng.choice([Row, Col]) for _ in range(2)]
    if kind == "antidiagonal":
        values["M"] = min(values["M"], 2048)
        sizes = {"M": size("M", max=rng.choice([2048, 60000]), multiple_of=8)}

    def make(M, N):
        match kind:
            case "antidiagonal":
                return OrderBy(gallery.antidiagonal(M)).GroupBy([M, M])
            case "reverse":
                return OrderBy(gallery.reverse(M, N)).GroupBy([M, N])
            case "swizzle":
                return OrderBy(gallery.xor_swizzle(M, 64, vec=8)).GroupBy([M, 64])
            case "grouped":
                return schedule.grouped(M, N, rows=rows)
            case "columns":
                return schedule.columns(M, N, width=rows)
        return TileOrderBy(perms[0](M // 8, N // 4), perms[1](8, 4)).GroupBy([M, N])

    if kind in ("grouped", "columns"):
        made = make
        return (lambda **n: as_grid(made(**n))), sizes, values
    return make, sizes, values


def as_grid(found):
    from lego_mlir.layout import as_layout

    return as_layout(found)


# -- uses


def _drawn(rng, n):
    """Indices of an axis of n elements, its ends among them."""
    return np.array([0, n - 1, *(rng.randrange(n) for _ in range(POINTS - 2))])[rng.sample(range(POINTS), POINTS)]


def _indices(rng, drawn, sliced=frozenset()):
    """For every axis but the sliced ones a variable or a number, with its values."""
    found = []
    for axis, n in enumerate(drawn.numbers.dims()):
        if axis in sliced:
            found.append(None)
        elif rng.random() < 0.15:
            found.append(("0", 0))
        elif rng.random() < 0.15:
            column = _drawn(rng, n)
            stop = drawn.layout.dims()[axis]
            name = drawn.variable(n - 1 - column, stop=stop)
            found.append((f"A.shape[{axis}] - 1 - {name}", column))
        else:
            column = _drawn(rng, n)
            found.append((drawn.variable(column), column))
    return found


def _called(found):
    return f"A[{', '.join(text for text, _ in found)}]"


def _inside(drawn, at):
    mask = drawn.numbers.mask(*at)
    return np.full(POINTS, mask) if isinstance(mask, (bool, np.bool_)) else mask


def _at(found):
    return np.broadcast_arrays(*(np.broadcast_to(column, (POINTS,)) for _, column in found))


def _position(rng, drawn):
    found = _indices(rng, drawn)
    at = _at(found)
    before, after, factor, term = rng.choice(AROUND) if not drawn.values else ("", "", 1, 0)
    value = drawn.numbers.apply(*at) * factor + term
    drawn.scalar(f"{before}{{{{ {_called(found)} }}}}{after}", value, _inside(drawn, at))


def _mask(rng, drawn):
    found = _indices(rng, drawn)
    drawn.scalar("{{ " + _called(found).replace("A[", "A.mask[") + " }}", _inside(drawn, _at(found)))


def _expression(rng, drawn):
    """Arithmetic of the template's own."""
    low, high = rng.choice([(-9, 10), (0, 100), (-40000, 40000), (0, 3 * 10**9), (-(2**35), 2**35)])
    column = np.array([low, high - 1, *(rng.randrange(low, high) for _ in range(POINTS - 2))])
    drawn.wide |= high > 2**31
    name, other = drawn.variable(column, start=low, stop=high), drawn.variable(np.arange(POINTS), stop=100)
    d, c = rng.choice([2, 3, 7, 8, 700, 1024]), rng.choice([0, 1, 50, 5000])
    text, value = rng.choice(
        [
            (f"{other} + {name} // {d} - {c}", np.arange(POINTS) + column // d - c),
            (f"({other} - {c}) * ({name} // {d})", (np.arange(POINTS) - c) * (column // d)),
            (f"{name} % {d} - {other} * {c}", column % d - np.arange(POINTS) * c),
            (f"({name} + {c}) // {d} * {other}", (column + c) // d * np.arange(POINTS)),
            (f"{name} * {d} + {other} % ({c} + 1)", column * d + np.arange(POINTS) % (c + 1)),
        ]
    )
    drawn.scalar("{{ " + text + " }}", value)


def _inverse(rng, drawn):
    """The index of a position that an element has."""
    at = _at([("", _drawn(rng, n)) for n in drawn.numbers.dims()])
    inside = _inside(drawn, at)
    position = np.where(inside, drawn.numbers.apply(*at), 0)
    p = drawn.variable(position)
    targets = [f"y{len(drawn.names)}_{axis}" for axis in range(len(at))]
    drawn.body.append(
        ("  " if drawn.language == "cuda" else "    ") + f'{{{{ assign("{", ".join(targets)}", A.inv({p})) }}}}'
    )
    for target, expected in zip(targets, drawn.numbers.inv(position), strict=True):
        drawn.scalar(target, np.broadcast_to(expected, (POINTS,)), inside)


def _holds(rng, drawn):
    """Whether a position of padded memory holds an element."""
    if isinstance(drawn.numbers, Padded):
        position = _drawn(rng, drawn.numbers.physical_size())
        drawn.scalar(f"{{{{ A.holds({drawn.variable(position)}) }}}}", drawn.numbers.holds(position))


def _function(rng, drawn):
    """A C function of the layout."""
    name = f"at{len(drawn.declared)}"
    drawn.declared.append(f'{{{{ device_function("{name}", A) }}}}\n')
    at = _at([("", _drawn(rng, n)) for n in drawn.numbers.dims()])
    names = [drawn.variable(column) for column in at]
    drawn.scalar(f"{name}({', '.join([*names, 'SIZES'])})", drawn.numbers.apply(*at), _inside(drawn, at))


def _class(rng, drawn):
    """A C++ class of the layout."""
    name = f"At{len(drawn.declared)}"
    drawn.declared.append(f'{{{{ layout_class("{name}", A) }}}}\n')
    at = _at([("", _drawn(rng, n)) for n in drawn.numbers.dims()])
    names = [drawn.variable(column) for column in at]
    drawn.body.append(f"  const {name} {name.lower()}{{SIZES}};")
    drawn.scalar(f"{name.lower()}.apply({', '.join(names)})", drawn.numbers.apply(*at), _inside(drawn, at))
    drawn.scalar(f"{name.lower()}.size()", np.full(POINTS, drawn.numbers.physical_size()))
    inside = _inside(drawn, at)
    position = np.where(inside, drawn.numbers.apply(*at), 0)
    p, targets = drawn.variable(position), [f"{name.lower()}_{axis}" for axis in range(len(at))]
    drawn.body.append(f"  typename {name}::index {', '.join(targets)};")
    drawn.body.append(f"  {name.lower()}.inv({', '.join([p, *targets])});")
    for target, coordinate in zip(targets, drawn.numbers.inv(position), strict=True):
        drawn.scalar(target, np.broadcast_to(coordinate, (POINTS,)), inside)


def _runs(rng, n):
    """A slice whose length is a power of two: its text, start, step and count."""
    step = rng.choice([1, 1, 1, 2, 3, -1])
    count = rng.choice([c for c in (1, 2, 4, 8, 16) if (c - 1) * abs(step) < n])
    span = (count - 1) * step
    start = rng.randint(max(0, -span), n - 1 - max(0, span))
    stop = start + span + (1 if step > 0 else -1)
    return f"{start}:{stop if stop >= 0 else ''}:{step}", start, step, count


def _slices(rng, drawn):
    """The texts of an index with one to three slices, the values of every place and the block's shape."""
    dims = list(zip(drawn.numbers.dims(), drawn.layout.dims(), strict=True))
    able = [k for k, (n, m) in enumerate(dims) if isinstance(m, int) or str(m) in ("BM", "BN")]
    taken = sorted(rng.sample(able, min(len(able), rng.randint(1, 3))))
    if not taken:
        return None
    found = _indices(rng, drawn, set(taken))
    places, shape = [], []
    for axis in taken:
        n, m = dims[axis]
        whole = n & (n - 1) == 0 and (not isinstance(m, int) or rng.random() < 0.7) and n <= 64
        text, start, step, count = (":", 0, 1, n) if whole else _runs(rng, n)
        found[axis] = (text, None)
        places.append((axis, start, step))
        shape.append(count)
    if np.prod(shape) > 1024:
        return None
    at = [None if column is None else np.broadcast_to(column, (POINTS,)) for _, column in found]
    at = [a if a is None else a.reshape(-1, *[1] * len(shape)) for a in at]
    for k, (axis, start, step) in enumerate(places):
        at[axis] = (start + step * np.arange(shape[k])).reshape(
            [-1 if a == k + 1 else 1 for a in range(len(shape) + 1)]
        )
    return found, np.broadcast_arrays(*at), shape


def _block(rng, drawn):
    """A block: its positions, assigned or not, its base and offsets, its mask, what it loads."""
    taken = _slices(rng, drawn)
    if taken is None:
        return
    found, at, shape = taken
    at = np.broadcast_arrays(*at, np.zeros((POINTS, *shape)))[:-1]
    positions = np.asarray(drawn.numbers.apply(*at))
    mask = drawn.numbers.mask(*at)
    inside = np.broadcast_to(mask, positions.shape)
    text = _called(found)
    first = (slice(None), *[slice(0, 1)] * len(shape))
    match rng.choice(["plain", "assign", "base", "mask", "load", "store"]):
        case "plain":
            drawn.block("{{ " + text + " }}", positions, inside, shape)
        case "assign":
            name = f"z{len(drawn.body)}"
            drawn.body.append(f'    {{{{ assign("{name}", {text}) }}}}')
            drawn.block(name, positions, inside, shape)
        case "base":
            drawn.scalar(f"{{{{ {text}.base }}}}", positions[first].reshape(-1), inside[first].reshape(-1))
            both = inside & inside[first]
            drawn.block(f"{{{{ {text}.offsets }}}}", positions - positions[first], both, shape)
            drawn.block(f"{{{{ {text}.base }}}} + {{{{ {text}.offsets }}}}", positions, both, shape)
        case "mask":
            drawn.block(f"1 * {{{{ {text}.mask }}}}", inside, np.True_, shape)
        case "load" | "store" as word if drawn.numbers.physical_size() <= 2**16:
            if word == "load":
                data = data_of(drawn)
                loaded = np.where(inside, data[np.where(inside, positions, 0)], -7)
                masked = f'{{{{ load("data_ptr", {text}, other="-7") }}}}'
                drawn.block(masked, loaded, inside if np.all(mask) else np.True_, shape)
            else:
                if drawn.stored is None:
                    drawn.stored = np.full(drawn.numbers.physical_size(), UNTOUCHED)
                drawn.stored[positions[inside]] = 5
                drawn.body.append(f'    {{{{ store("to_ptr", {text}, "5") }}}}')


def _gather(rng, drawn):
    """A vector of indices along one axis: its positions and what it loads."""
    axis, count = rng.randrange(len(drawn.numbers.dims())), rng.choice([1, 2, 4, 8])
    found = _indices(rng, drawn, {axis})
    columns = [_drawn(rng, drawn.numbers.dims()[axis]) for _ in range(count)]
    found[axis] = (drawn.vector(columns), None)
    at = [None if c is None else np.broadcast_to(c, (POINTS,)).reshape(-1, 1) for _, c in found]
    at[axis] = np.stack(columns, axis=1)
    at = np.broadcast_arrays(*at)
    positions = np.asarray(drawn.numbers.apply(*at))
    inside = np.broadcast_to(drawn.numbers.mask(*at), positions.shape)
    drawn.block("{{ " + _called(found) + " }}", positions, inside, (count,))
    if drawn.numbers.physical_size() <= 2**16:
        loaded = np.where(inside, data_of(drawn)[np.where(inside, positions, 0)], -7)
        text = f'{{{{ load("data_ptr", {_called(found)}, other="-7") }}}}'
        drawn.block(text, loaded, inside if np.all(drawn.numbers.mask(*at)) else np.True_, (count,))


def _moved(rng, drawn):
    """A block that steps along an axis, where all of it moves alike."""
    taken = _slices(rng, drawn)
    if taken is None:
        return
    found, at, shape = taken
    moving = [k for k, (text, c) in enumerate(found) if c is not None and text in drawn.names]
    moving = [k for k in moving if drawn.numbers.dims()[k] > 1]
    if not moving:
        return
    axis = rng.choice(moving)
    k = found[axis][0]
    onward = [a + (place == axis) for place, a in enumerate(at)]
    exists = onward[axis] < drawn.numbers.dims()[axis]
    onward[axis] = np.where(exists, onward[axis], 0)
    whole = (POINTS, *shape)
    here, there = (np.broadcast_to(drawn.numbers.apply(*np.broadcast_arrays(*a)), whole) for a in (at, onward))
    both = np.broadcast_to(drawn.numbers.mask(*at), whole) & np.broadcast_to(drawn.numbers.mask(*onward), whole)
    both = both & np.broadcast_to(exists, whole)
    text = _called(found)
    other = "tl.full((1,), " + str(UNTOUCHED) + ", tl.int64)"
    step = f"{{{{ {text}.step({k}) if {text}.steps({k}) else '{other}' }}}}"
    drawn.block(step, there - here, both, shape)


def data_of(drawn):
    """What the kernel reads: a different number at every position."""
    return np.arange(min(drawn.numbers.physical_size(), 2**16), dtype=np.int64) * 3 + 1
