"""Each word of the language that computes a value, at its edges: the interpreter, the CPU and the emulated PTX agree.

One kernel for an element type holds all its words, on all pairs of its edges. Results are compared by their bits; a NaN
equals a NaN. Functions with rounding have their bound in ulps, one more than the documentation's for the difference of
two results. `SILENT` names the words that have no value to compare, so that a new word must be listed in one place.
"""

import builtins
import operator
from functools import partial

import numpy as np
import pytest
from launching import launch, launch_emulated, launch_on_cpu

import lego_mlir as lego
from lego_mlir import Row, bf16, f8e4m3fn, f8e5m2, f16, f32, f64, i1, i8, i16, i32, i64, u8, u16, u32, u64

BACKENDS = {"CPU": launch_on_cpu, "PTX": launch_emulated}
INTEGERS = (i8, i16, i32, i64, u8, u16, u32, u64)
FLOATS = (f16, bf16, f32, f64)
STORED = (f8e4m3fn, f8e5m2)
ALL = (*INTEGERS, *FLOATS, *STORED, i1)
LANES = 32
BLOCK = 256

COMPARISONS = {name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")}
OF_BOTH = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "minimum": lego.minimum,
    "maximum": lego.maximum,
    "where": lambda a, b: lego.where(a < b, a, b),
    "neg": lambda a, b: -a,
    "abs": lambda a, b: abs(a),
    "sign": lambda a, b: lego.sign(a),
    "vector": lambda a, b: _packed(a, b),
}
DIVISIONS = {"//": operator.floordiv, "%": operator.mod, "div_trunc": lego.div_trunc, "rem_trunc": lego.rem_trunc}
OF_INTEGERS = {
    **{name: lambda a, b, divide=divide: divide(a, _divisor(a, b)) for name, divide in DIVISIONS.items()},
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "~": lambda a, b: ~a,
    "<<": lambda a, b: a << (b & (a.dtype.bits - 1)),  # by the width or more: undefined, as documented
    ">>": lambda a, b: a >> (b & (a.dtype.bits - 1)),
    "popcount": lambda a, b: lego.popcount(a),
    "clz": lambda a, b: lego.clz(a),
    "ctz": lambda a, b: lego.ctz(a),
}
OF_FLOATS = {
    "/": operator.truediv,
    "fma": lambda a, b: lego.fma(a, b, a),
    "contracted": lambda a, b: a * b - b,
    "rounded": lambda a, b: _rounded(a, b),
    "copysign": lego.copysign,
    **{name: lambda a, b, name=name: getattr(lego, name)(a) for name in ("floor", "ceil", "trunc", "round", "sqrt")},
}
TESTS = {name: lambda a, b, name=name: getattr(lego, name)(a) for name in ("isnan", "isinf", "isfinite")}
ULPS = {  # of f32, as docs/reference/kernels.md has them
    **dict.fromkeys(("rsqrt", "exp", "exp2", "log2", "tanh", "expm1", "sin", "cos", "asin", "acos", "atan"), 2),
    **dict.fromkeys(("log", "log1p"), 1),
    **dict.fromkeys(("sinh", "cosh", "tan", "erf"), 3),
    "pow": 2,
    "atan2": 2,
}
FUNCTIONS = {
    name: getattr(lego, name) if name in ("pow", "atan2") else lambda a, b, name=name: getattr(lego, name)(a)
    for name in ULPS
}
FAST = {
    "divide": lambda a, b, **fast: lego.divide(a, b, **fast),
    "reciprocal": lambda a, b, **fast: lego.divide(1.0, b, **fast),
    **{
        name: lambda a, b, name=name, **fast: getattr(lego, name)(a, **fast)
        for name in ("sqrt", "rsqrt", "exp", "exp2", "log", "log2", "sin", "cos")
    },
}
REDUCED = 2.0**40
"""sin, cos and tan are NaN beyond it on a GPU, as documented."""
PERIODIC = ("sin", "cos", "tan")


def _divisor(a, b):
    """Divisors for which a quotient is defined: not 0, nor -1 of signed numbers."""
    b = lego.where(b == 0, 1, b)
    return b if a.dtype.is_unsigned else lego.where(b == -1, 3, b)


def _rounded(a, b):
    with lego.rounded():
        return a * b - b


def _packed(a, b):
    """Arithmetic on a vector, which has packed instructions for 16 bits."""
    v, w = lego.vector(a, b), lego.vector(b, a)
    made = (lego.fma(v, w, v) if a.dtype.is_float else v * w + v, lego.minimum(v, w), lego.maximum(v, w))
    return lego.where(made[0][0] == made[0][0], made[1][1], made[2][0]) + made[0][1]


def edges(dtype):
    """Numbers at which an operation changes its behaviour."""
    if dtype is i1:
        return np.array([False, True])
    if not dtype.is_float:
        low, high = dtype.span
        near = (0, 1, 2, 3, 7, 31, 32, 63, 64, 2**24 + 1, 2**30 + 2**22 + 1, 2**53 + 1, 2**62 + 2**54 + 1)
        found = {low, low + 1, high, high - 1, *near, *(-n for n in near)}
        return np.array(sorted(n for n in found if low <= n <= high), dtype.numpy)
    import ml_dtypes

    of = ml_dtypes.finfo(dtype.numpy)
    found = [0, 0.5, 0.49999997, 1, 1.5, 2.5, 7, 127.5, 255.5, 3e4, 2**31, 2**32, 2**63, 2**64, np.inf, np.nan]
    found += [float(of.max), float(of.tiny), float(of.smallest_subnormal), 1 + float(of.eps), 1 - float(of.epsneg)]
    with np.errstate(over="ignore"):
        numbers = np.array([sign * float(n) for n in found for sign in (1, -1)]).astype(dtype.numpy)
    return numbers[~np.isnan(numbers.astype(np.float64)) | (np.cumsum(np.isnan(numbers.astype(np.float64))) == 1)]


def pairs(dtype):
    """All pairs of edges, filled up to whole blocks."""
    one, other = (side.ravel() for side in np.meshgrid(edges(dtype), edges(dtype), indexing="ij"))
    n = -(-len(one) // BLOCK) * BLOCK
    return np.resize(one, n), np.resize(other, n)


def words_of(dtype):
    """The words of an element type, by their names, with the type of their results."""
    found = [(f"to {to}", to, lambda a, b, to=to: a.to(to)) for to in ALL]
    if dtype in STORED:
        return found
    if dtype is i1:
        logic = {"&": operator.and_, "|": operator.or_, "^": operator.xor, "eq": operator.eq, "ne": operator.ne}
        return [*found, *((name, i1, word) for name, word in logic.items())]
    found += [(name, i1, word) for name, word in {**COMPARISONS, **(TESTS if dtype.is_float else {})}.items()]
    return found + [(n, dtype, w) for n, w in {**OF_BOTH, **(OF_FLOATS if dtype.is_float else OF_INTEGERS)}.items()]


def results(words, a, b, run, dtype):
    """The results of each word on pairs, one array for a word."""
    kinds = list(dict.fromkeys(to for _, to, _ in words))
    rows = {to: sum(of is to for _, of, _ in words) for to in kinds}

    def body(x, y, *outputs):
        t = lego.block_id[0] * BLOCK + lego.thread_id[0]
        left, right, row = x[t], y[t], dict.fromkeys(kinds, 0)
        for _, to, word in words:
            outputs[kinds.index(to)][row[to], t] = word(left, right)
            row[to] += 1

    names = [f"y{k}" for k in range(len(kinds))]
    space = {"body": body}
    exec(f"def words(x, y, {', '.join(names)}):\n    body(x, y, {', '.join(names)})\n", space)
    space["words"].__annotations__ = {
        **dict.fromkeys("xy", lego.Tensor(dtype, Row(len(a)))),
        **{name: lego.Tensor(to, Row(rows[to], len(a))) for name, to in zip(names, kinds, strict=True)},
    }
    kernel = lego.kernel(grid=len(a) // BLOCK, block=BLOCK)(space["words"])
    empty = [np.zeros((rows[to], len(a))).astype(to.numpy) for to in kinds]
    _, _, *made = run(kernel, a, b, *empty)
    numbered = dict.fromkeys(kinds, 0)
    found = []
    for _, to, _ in words:
        found.append(made[kinds.index(to)][numbered[to]])
        numbered[to] += 1
    return found


def ordered(values):
    """The numbers of floats in their order, so that neighbours differ by 1; -0.0 and 0.0 differ by 1 too."""
    bits = values.view(f"i{values.itemsize}").astype(object)
    least = -(1 << 8 * values.itemsize - 1)
    return np.where(bits < 0, least - bits - 1, bits)


def differing(expected, found, ulps=0):
    """Where two arrays differ: in a bit, in a NaN, in a sign, or by more ulps."""
    if expected.dtype.kind in "iub":
        return expected != found
    both = np.isnan(expected.astype(np.float64)) & np.isnan(found.astype(np.float64))
    one = np.isnan(expected.astype(np.float64)) ^ np.isnan(found.astype(np.float64))
    signs = np.signbit(expected) != np.signbit(found)
    far = np.abs(ordered(expected) - ordered(found)) > ulps
    return ~both & (one | signs | far.astype(bool))


def report(words, a, b, expected, found, ulps=None, skipped=None):
    """A line for each word that differs, with the first pair."""
    lines = []
    for (name, to, _), one, other in zip(words, expected, found, strict=True):
        wrong = differing(one, other, 0 if ulps is None else ulps(name)) & ~(skipped(name) if skipped else False)
        if wrong.any():
            k = int(np.flatnonzero(wrong)[0])
            lines.append(f"{name} -> {to} of {a[k]!r}, {b[k]!r}: {one[k]!r} and {other[k]!r} ({wrong.sum()} differ)")
    return lines


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_exact_words_agree_at_their_edges(dtype):
    words, (a, b) = words_of(dtype), pairs(dtype)
    if dtype in STORED:
        words = [w for w in words if w[1] is not dtype]
    expected = results(words, a, b, launch, dtype)
    for backend, run in BACKENDS.items():
        assert not report(words, a, b, expected, results(words, a, b, run, dtype)), backend


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_functions_agree_at_their_edges(dtype):
    words, (a, b) = [(name, dtype, word) for name, word in FUNCTIONS.items()], pairs(dtype)
    expected = results(words, a, b, launch, dtype)
    far = np.abs(a.astype(np.float64)) > REDUCED

    def ulps(name):
        return 1 + (ULPS[name] if dtype in (f32, f64) else 0)

    assert not report(words, a, b, expected, results(words, a, b, launch_on_cpu, dtype), ulps), "CPU"
    if dtype is f64:
        return  # libdevice's functions of f64 call others, which the emulator does not run
    found = results(words, a, b, launch_emulated, dtype)
    assert not report(words, a, b, expected, found, ulps, lambda name: far & (name in PERIODIC)), "PTX"


def fast_bound(name, x, result):
    """The documented absolute error of an approximate function of f32, at operands and for exact results."""
    ulp = np.spacing(np.abs(result).astype(np.float32)).astype(np.float64)
    near, size = (x >= 0.5) & (x <= 2), np.abs(result)
    return {
        "divide": 2 * ulp,
        "reciprocal": ulp,
        "sqrt": 2.0**-23 * size,
        "rsqrt": 2.0**-22.4 * size,
        "exp2": 2 * ulp,
        "exp": (2 + 1.173 * np.abs(x)) * ulp,
        "log2": 2.0**-22 * np.where(near, 1, size),
        "log": np.where(near, 2.0**-21.4, 3 * ulp),
        **dict.fromkeys(("sin", "cos"), np.where(np.abs(x) <= 2 * np.pi, 2.0**-20.5, 2.0**-14.7)),
    }[name]


EXACT = {
    "divide": np.divide,
    "reciprocal": lambda x, y: 1 / y,
    "rsqrt": lambda x, y: 1 / np.sqrt(x),
    **{n: lambda x, y, n=n: getattr(np, n)(x) for n in ("sqrt", "exp", "exp2", "log", "log2", "sin", "cos")},
}


@np.errstate(all="ignore")
def test_approximate_functions_keep_their_bounds():
    """NumPy in f64 is the oracle of the emulated instructions; the interpreter and the CPU compute exact functions."""
    draws, (x, y) = np.random.default_rng(3), pairs(f32)
    x[: len(x) // 2] = draws.uniform(-20, 20, len(x) // 2)
    x[: len(x) // 4] = 2 ** draws.uniform(-1, 1, len(x) // 4)
    y[: len(y) // 2] = 2 ** draws.uniform(-126, 126, len(x) // 2) * draws.choice((-1, 1), len(x) // 2)
    words = {fast: [(n, f32, partial(w, fast=fast)) for n, w in FAST.items()] for fast in (True, False)}
    for run in (launch, launch_on_cpu):
        assert not report(words[True], x, y, *(results(words[fast], x, y, run, f32) for fast in (True, False)))
    flush = lambda v: np.where(np.abs(v) < np.finfo(np.float32).tiny, np.copysign(0, v), v)  # noqa: E731
    one, other = flush(x).astype(np.float64), flush(y).astype(np.float64)
    for (name, *_), found in zip(words[True], results(words[True], x, y, launch_emulated, f32), strict=True):
        exact = EXACT[name](one, other)
        stored = flush(exact.astype(np.float32)).astype(np.float64)
        near = np.abs(found - exact) <= fast_bound(name, one, exact)
        near |= (np.abs(exact) <= 2.0**-125) & (found == 0)
        near |= np.isnan(exact) & np.isnan(found) | (found == stored)
        near |= (name in PERIODIC) & (np.abs(one) > 100 * np.pi)
        assert near.all(), (name, x[~near][:3], y[~near][:3], found[~near][:3], exact[~near][:3])


def test_a_fast_kernel_is_one_of_fast_calls():
    """Its narrow floats are computed in f32, f64 stays exact, and a call may ask for the exact function."""

    def k(x: lego.Tensor(f16, Row(LANES)), y: lego.Tensor(f32, Row(LANES)), z: lego.Tensor(f64, Row(LANES))):
        t = lego.thread_id[0]
        x[t] = lego.sqrt(x[t] / y[t].to(f16))
        y[t] = lego.exp(y[t], fast=False) / y[t]
        z[t] = lego.log(z[t])

    texts = [lego.kernel(grid=1, block=LANES, fast=fast)(k).mlir(locations=False) for fast in (True, False)]
    assert [text.count("fastmath<afn>") for text in texts] == [3, 0]
    approximate = [line for line in texts[0].splitlines() if "afn" in line]
    assert all("f32" in line and "exp" not in line for line in approximate)


@pytest.mark.parametrize("dtype", [i32, i64], ids=str)
@pytest.mark.parametrize("word", DIVISIONS)
@pytest.mark.parametrize(("divisor", "text"), [(0, "by zero"), (-1, r"of -\d+ by -1")])
def test_divisions_without_a_value_are_reported_and_end_no_process(word, divisor, text, dtype):
    @lego.kernel(grid=1, block=LANES)
    def k(a: lego.Tensor(dtype, Row(LANES)), b: lego.Tensor(dtype, Row(LANES)), y: lego.Tensor(dtype, Row(LANES))):
        t = lego.thread_id[0]
        y[t] = DIVISIONS[word](a[t], b[t])

    a, b, y = np.full(LANES, dtype.span[0]), np.full(LANES, divisor), np.zeros(LANES)
    with pytest.raises(AssertionError, match=rf"Kind.UNDEFINED at .*: arith.\w+ {text}"):
        launch(k, a, b, y)
    *_, found = launch_on_cpu(k, a, b, y)
    if divisor == -1:
        assert set(found) == {dtype.span[0] if word in ("//", "div_trunc") else 0}


DISTANCES = (-(2**31), -33, -1, 0, 1, 7, 8, 15, 16, 31, 32, 33, 2**31 - 1)
WIDTHS = (1, 8, 32)
SHUFFLES = {name: getattr(lego, name) for name in ("shuffle", "shuffle_up", "shuffle_down", "shuffle_xor")}


@pytest.mark.parametrize("dtype", [f16, bf16, f32], ids=str)
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_choices_between_pairs_agree_at_their_edges(dtype, target):
    """Pairs of 16 bits are compared by one instruction with two results."""
    a, b = pairs(dtype)

    @lego.kernel(grid=len(a) // BLOCK, block=BLOCK // 2)
    def k(
        x: lego.Tensor(dtype, Row(len(a))), y: lego.Tensor(dtype, Row(len(a))), z: lego.Tensor(dtype, Row(6, len(a)))
    ):
        t = (lego.block_id[0] * (BLOCK // 2) + lego.thread_id[0]) * 2
        v, w = x.load(t, width=2), y.load(t, width=2)
        for row, compare in enumerate(COMPARISONS.values()):
            z.store(lego.where(compare(v, w), v, w), row, t)

    empty = np.zeros((6, len(a)))
    expected = launch(k, a, b, empty)[2]
    assert not differing(expected, launch_emulated(k, a, b, empty, target=target)[2]).any()


@pytest.mark.parametrize("word", SHUFFLES)
def test_shuffles_agree_at_all_distances(word):
    constants = [(distance, width) for distance in (-1, 8, 31, 32, 33) for width in (8, 32)]
    drawn = np.random.default_rng(1).choice(DISTANCES, (len(WIDTHS), LANES))
    rows = len(constants) + len(WIDTHS)

    @lego.kernel(grid=1, block=LANES)
    def k(
        x: lego.Tensor(i32, Row(LANES)), d: lego.Tensor(i32, Row(*drawn.shape)), y: lego.Tensor(i32, Row(rows, LANES))
    ):
        t = lego.thread_id[0]
        for row, (distance, width) in enumerate(constants):
            y[row, t] = SHUFFLES[word](x[t], distance, width)
        for row, width in enumerate(WIDTHS):
            y[len(constants) + row, t] = SHUFFLES[word](x[t], d[row, t], width)

    x = np.arange(LANES) * 3 + 1
    wanted = [x[[_lane_read(word, lane, *given) for lane in range(LANES)]] for given in constants]
    for distances, width in zip(drawn, WIDTHS, strict=True):
        wanted.append(x[[_lane_read(word, lane, int(distances[lane]), width) for lane in range(LANES)]])
    for run in (launch, *BACKENDS.values()):
        *_, y = run(k, x, drawn, np.zeros((rows, LANES)))
        np.testing.assert_array_equal(y, wanted, run.__name__)


def _lane_read(word, lane, distance, width):
    """The documentation's definition, for one lane."""
    first = lane // width * width
    if word == "shuffle":
        return first + distance % width
    if not 0 <= distance < width:
        return lane
    read = {"shuffle_up": lane - distance, "shuffle_down": lane + distance, "shuffle_xor": lane ^ distance}[word]
    return read if first <= read < first + width else lane


@pytest.mark.parametrize("dtype", [i32, u32, i64, u64, f32, f64], ids=str)
def test_reductions_and_votes_agree_at_their_edges(dtype):
    operations = ("add", "mul", "min", "max") + (() if dtype.is_float else ("and", "or", "xor"))
    values = np.resize(edges(dtype), 2 * LANES)
    if dtype.is_float:  # the other warp's numbers are finite
        values[LANES:] = np.where(np.isfinite(values[LANES:]), values[LANES:], 1)
    words = [
        *((f"warp_reduce {op}", lambda v, op=op: lego.warp_reduce(v, op)) for op in operations),
        *((f"warp_scan {op}", lambda v, op=op: lego.warp_scan(v, op)) for op in ("max", operations[-1])),
        ("warp_reduce of 8", lambda v: lego.warp_reduce(v, "max", 8)),
        ("exclusive warp_scan", lambda v: lego.warp_scan(v, "min", exclusive=True)),
        ("block_reduce", lambda v: lego.block_reduce(v, "max")),
        ("block_scan", lambda v: lego.block_scan(v, "min", exclusive=True)),
    ]
    votes = (lego.warp_any, lego.warp_all, lego.warp_ballot)

    @lego.kernel(grid=1, block=2 * LANES)
    def k(
        x: lego.Tensor(dtype, Row(2 * LANES)),
        y: lego.Tensor(dtype, Row(len(words), 2 * LANES)),
        z: lego.Tensor(u32, Row(4, len(votes), 2 * LANES)),
    ):
        t = lego.thread_id[0]
        for row, (_, word) in enumerate(words):
            y[row, t] = word(x[t])
        for row, condition in enumerate((x[t] == x[t], x[t] < 0, t < 0, t >= 0)):
            for number, vote in enumerate(votes):
                z[row, number, t] = vote(condition).to(u32)

    given = (values, np.zeros((len(words), 2 * LANES)), np.zeros((4, 3, 2 * LANES)))
    _, *expected = launch(k, *given)
    for backend, run in BACKENDS.items():
        _, *found = run(k, *given)
        wrong = {words[row][0] for row, _ in np.argwhere(differing(expected[0], found[0]))}
        assert not wrong, (backend, wrong)
        np.testing.assert_array_equal(expected[1], found[1])


@pytest.mark.parametrize("dtype", [i32, u32, i64, u64, f32, f64], ids=str)
def test_atomic_updates_agree_at_their_edges(dtype):
    names = ("add", "min", "max", "exchange", "cas") + (() if dtype.is_float else ("and", "or", "xor"))
    (a, b), n = pairs(dtype), len(pairs(dtype)[0])

    @lego.kernel(grid=n // BLOCK, block=BLOCK)
    def k(
        x: lego.Tensor(dtype, Row(n)),
        y: lego.Tensor(dtype, Row(len(names) + 1, n)),
        old: lego.Tensor(dtype, Row(len(names), n)),
    ):
        t = lego.block_id[0] * BLOCK + lego.thread_id[0]
        for row, name in enumerate(names):
            given = (y[row, t], x[t]) if name == "cas" else (x[t],)
            old[row, t] = getattr(y, f"atomic_{name}")(*given, row, t)
        y.atomic_store(y.atomic_load(0, t), len(names), t)

    start = (np.stack([a] * (len(names) + 1)), np.zeros((len(names), n)))
    _, *expected = launch(k, b, *start)
    for backend, run in BACKENDS.items():
        _, *found = run(k, b, *start)
        for one, other in zip(expected, found, strict=True):
            wrong = {([*names, "load"])[row] for row, _ in np.argwhere(differing(one, other))}
            assert not wrong, (backend, wrong)


SILENT = {
    "a declaration or a decorator": (
        "DType DeviceFunction GenericKernel Kernel KernelProgram Spread Tensor assume_distinct empty function generic "
        "kernel program register require shared size symbols"
    ),
    "control, or a statement without a value": (
        "assert_ barrier barriers cluster_barrier commit_copies copy_async fence interleave otherwise prefetch printf "
        "range stage store_tile unroll wait_copies warp_sync warps when while_"
    ),
    "an index, whose arithmetic has its laws in test/laws": (
        "assume block_dim block_id block_in_cluster cdiv cluster_rank grid_dim group_id index isqrt lane_id thread_id "
        "warp_id"
    ),
    "elements move or are multiplied in tiles, as other tests compare": (
        "accumulator arange convert full gather load mma scan sort zeros"
    ),
    "codes and patterns of bits, as test_packed_types compares": ("bitcast f4e2m1fn f6e2m3fn f6e3m2fn f8e8m0fnu i4 u4"),
    "random words, as test_philox compares": "philox",
    "derivatives, as test_derivatives compares": "value_and_derivative",
    "lanes that run together, as test_active_lanes compares": "activemask",
    "numbers of the blocks of a cluster, as test_clustered_blocks compares": "cluster_reduce",
    "an operation of MLIR, not of the language": "mlir_op",
}


def test_each_word_is_compared_or_named():
    rooms = ("lego_mlir.tracing.", "lego_mlir.expr.index", "lego_mlir.expr.sizes", "lego_mlir.formats.convert_calls")
    words = {name for name, (module, _) in lego._NAMES.items() if module.startswith(rooms)}
    compared = {
        *OF_BOTH, *OF_INTEGERS, *OF_FLOATS, *TESTS, *FUNCTIONS, *SHUFFLES, "divide", *map(str, ALL),
        *("warp_reduce", "warp_scan", "block_reduce", "block_scan", "warp_any", "warp_all", "warp_ballot", "match_any"),
    }  # fmt: skip
    silent = {word for listed in SILENT.values() for word in listed.split()}
    assert words - compared == silent
    assert not builtins.set(silent) & compared
