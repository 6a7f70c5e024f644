"""What the printer emits computes what the expression means: compiled by LLVM, run, and compared with `evaluate`."""

import ctypes
import math
import random

import numpy
import pytest
import sympy

from lego_mlir import bindings
from lego_mlir.errors import PrintError
from lego_mlir.expr import nodes
from lego_mlir.expr.evaluate import evaluate
from lego_mlir.expr.intervals import bounds
from lego_mlir.expr.ranges import Range
from lego_mlir.printers.mlir import MlirPrinter

FORMS = [("arith", "index"), ("arith", "i64"), ("arith", "smallest"), ("index", "index"), ("affine", "index")]
LOWERING = (
    "builtin.module(lower-affine,func.func(arith-expand,convert-math-to-llvm),convert-index-to-llvm,"
    "convert-arith-to-llvm,finalize-memref-to-llvm,convert-func-to-llvm,reconcile-unrealized-casts)"
)

i, j, m, n = (sympy.Symbol(name, integer=True) for name in "ijmn")
RANGES = {i: Range(0, 1024), j: Range(-77, 90), m: Range(1, 2**20), n: Range(-(2**33), 2**33)}
TABLE = nodes.Table("perm", nodes.FloorMod(i, 7), 7, 300, (4, 0, 299, 1, 17, 255, 256))


def run(expressions, points, form, integer="index", ranges=RANGES, kind="i64"):
    """Every expression at every point, an array of shape (expressions, points), through LLVM's JIT on the CPU."""
    mlir = bindings.load()
    ir = mlir.ir
    symbols = list(ranges)
    arguments = ", ".join(f"%a{k}: {kind}" for k in range(len(symbols)))
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(
            f"func.func @f({arguments}, %out: memref<{len(expressions)}xi64>) attributes {{llvm.emit_c_interface}} "
            "{ return }"
        )
        entry = module.body.operations[0].regions[0].blocks[0]
        *values, out = entry.arguments
        with ir.InsertionPoint(entry.operations[0]):
            printer = MlirPrinter(dict(zip(symbols, values, strict=True)), ranges, form=form, integer=integer)
            for k, expr in enumerate(expressions):
                value = printer.value(expr, "i64")
                printer.build.operation("memref.store", (value, out, printer.build.constant(k, "index")))
        module.operation.verify()
        mlir.passmanager.PassManager.parse(LOWERING).run(module.operation)
        engine = mlir.execution_engine.ExecutionEngine(module, opt_level=0)
        rows = []
        for point in zip(*(points[s] for s in symbols), strict=True):
            result = numpy.full(len(expressions), -1, dtype=numpy.int64)
            descriptor = mlir.module("runtime").get_ranked_memref_descriptor(result)
            packed = [ctypes.pointer(ctypes.c_int64(int(v))) for v in point]
            engine.invoke("f", *packed, ctypes.pointer(ctypes.pointer(descriptor)))
            rows.append(result)
    return numpy.array(rows).T


def draw(rng, depth):
    """A random expression whose values stay far inside 64 bits."""
    if depth == 0:
        return rng.choice([i, j, m, n, TABLE, sympy.Integer(rng.randint(-40, 40))])
    a, b = draw(rng, depth - 1), draw(rng, rng.randrange(depth))
    return rng.choice(
        [
            lambda: a + b,
            lambda: a - b,
            lambda: a * rng.choice([-3, -1, 2, 8]) + 5,
            lambda: nodes.FloorMod(a, 1000) * nodes.FloorMod(b, 77),
            lambda: nodes.FloorMod(a, 50) ** rng.randint(2, 4),
            lambda: nodes.FloorDiv(a, rng.choice([1, 3, 8, -5, m])),
            lambda: nodes.FloorMod(a, rng.choice([4, 9, -6, m])),
            lambda: nodes.BitXor(a, b),
            lambda: nodes.BitAnd(a, b),
            lambda: nodes.BitOr(a, b),
            lambda: nodes.ShiftLeft(nodes.FloorMod(a, 100), rng.choice([1, 5, nodes.FloorMod(b, 6)])),
            lambda: nodes.ShiftRight(a, rng.choice([1, 4, nodes.FloorMod(b, 6)])),
            lambda: nodes.Smaller(a, b),
            lambda: nodes.Larger(a, b),
            lambda: nodes.Select(condition(rng, a, b), a, b),
            lambda: nodes.ISqrt(nodes.FloorMod(a, rng.choice([30, 10**6, 2**40]))),
        ]
    )()


def condition(rng, a, b):
    first = rng.choice([nodes.Lt, nodes.Le, nodes.Eq, nodes.Ne])(a, b)
    second = nodes.Lt(i, 500)
    return rng.choice([first, sympy.Not(first), sympy.And(first, second), sympy.Or(first, sympy.Not(second))])


def sample(rng, count, ranges=RANGES):
    """Points of the ranges, their corners among them."""
    points = {s: [r.lo, r.hi - 1] + [rng.randrange(r.lo, r.hi) for _ in range(count - 2)] for s, r in ranges.items()}
    for column in points.values():
        rng.shuffle(column)
    return points


@pytest.mark.parametrize(("form", "integer"), FORMS)
@pytest.mark.parametrize("seed", [0, *(pytest.param(k, marks=pytest.mark.long) for k in range(1, 40))])
def test_random_expressions_compute_what_they_mean(form, integer, seed):
    rng = random.Random(f"{form} {integer} {seed}")
    expressions = [draw(rng, rng.randint(1, 4)) for _ in range(250)]
    points = sample(rng, 12)
    got = run(expressions, points, form, integer)
    arrays = {s: numpy.array(v) for s, v in points.items()}
    for expr, row in zip(expressions, got, strict=True):
        want = numpy.broadcast_to(evaluate(expr, arrays), row.shape)
        assert (row == want).all(), f"{expr}: got {row}, want {want} at {points}"


def test_the_square_root_is_exact_around_every_square_that_f32_is_trusted_with():
    x = sympy.Symbol("x", integer=True)
    ranges = {x: Range(0, 2**22)}
    near = sorted({v for r in range(1, 2048, 13) for v in (r * r - 1, r * r, r * r + 1)} | {0, 2**22 - 1})
    got = run([nodes.ISqrt(x)], {x: near}, "arith", ranges=ranges)[0]
    assert got.tolist() == [sympy.integer_nthroot(v, 2)[0] for v in near]


@pytest.mark.parametrize("limit", [2**26, 2**51, 2**62])
def test_the_square_root_is_exact_beyond_what_f32_and_f64_are_trusted_with(limit):
    x = sympy.Symbol("x", integer=True)
    top = sympy.integer_nthroot(limit - 1, 2)[0]
    near = [v for r in (*range(top - 40, top), 94906265, 94906266, 67108865) for v in (r * r - 1, r * r, r * r + 1)]
    near = [v for v in near if v < limit] + [limit - 1]
    got = run([nodes.ISqrt(x)], {x: near}, "index", ranges={x: Range(0, limit)})[0]
    assert got.tolist() == [sympy.integer_nthroot(v, 2)[0] for v in near]


def test_the_float_root_alone_is_wrong_beyond_its_limit_so_the_correction_is_needed():
    beyond = 94906267**2 - 1  # above 2**53: the nearest f64 is the square itself
    assert int(numpy.sqrt(numpy.float64(beyond))) == 94906267
    x = sympy.Symbol("x", integer=True)
    assert run([nodes.ISqrt(x)], {x: [beyond]}, "index", ranges={x: Range(0, 2**62)})[0].tolist() == [94906266]


def test_narrow_arithmetic_widens_where_thirty_two_bits_do_not_suffice():
    expr = m * m + i  # up to 2**40 from operands of 20 bits
    assert bounds(expr, RANGES).hi > 2**31
    points = {i: [1023], j: [0], m: [2**20 - 1], n: [0]}
    assert run([expr], points, "arith", "smallest")[0].tolist() == [(2**20 - 1) ** 2 + 1023]


def test_the_square_root_around_perfect_squares():
    """test_roots.py has those of Triton and C."""
    last = math.isqrt(2**63 - 1)
    values = [x for r in (1, 46341, 2**26, 94906266, 2**31, last - 1, last) for x in (r * r - 1, r * r, r * r + 2 * r)]
    values = [*(x for x in values if x < 2**63), 2**63 - 1]
    rows = run([nodes.ISqrt(n)], {n: values}, "arith", ranges={n: Range(0, 2**63)})
    assert rows[0].tolist() == list(map(math.isqrt, values))


@pytest.mark.parametrize(("form", "integer"), FORMS)
def test_an_operand_that_wraps_around_is_refused(form, integer):
    """n*n exceeds 64 bits: its remainder would be a different number, a difference that cancels would not."""
    with pytest.raises(PrintError, match=r"n\*\*2.* which no integer type holds"):
        run([nodes.FloorMod(n * n, 1009)], {s: [1] for s in RANGES}, form, integer)
