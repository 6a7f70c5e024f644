"""Every operation of index expressions has every property: a failure names the node and what it lacks.

The meanings are written again here, by definitions that share no code with the table of `expr.integer_operations`.
"""

import functools
import itertools
import random
from fractions import Fraction
from math import floor

import numpy as np
import pytest
import sympy
from launching import launch, launch_emulated

import lego_mlir as lego
from lego_mlir import Row, i32
from lego_mlir.expr import index as words
from lego_mlir.expr import nodes, text
from lego_mlir.expr.context import PlainRanges, context_of
from lego_mlir.expr.cost import MODELS, quick_operations
from lego_mlir.expr.evaluate import evaluate
from lego_mlir.expr.index import Index
from lego_mlir.expr.integer_operations import OPERATIONS
from lego_mlir.expr.intervals import bounds
from lego_mlir.expr.ranges import Range
from lego_mlir.expr.samples import POINTS
from lego_mlir.expr.simplify import simplify
from lego_mlir.expr.solver import solve
from lego_mlir.printers.cuda import HELPERS as C_HELPERS
from lego_mlir.printers.cuda import CudaPrinter
from lego_mlir.printers.triton import HELPERS as TRITON_HELPERS
from lego_mlir.printers.triton import TritonPrinter
from lego_mlir.templates.readback import read_c, read_triton


def bitwise(truth):
    """An operation on each bit of two's complement numbers; bit 70 is the sign of all numbers here."""

    def combined(a, b):
        bits = [truth(a // 2**k % 2, b // 2**k % 2) for k in range(71)]
        return sum(bit * 2**k for k, bit in enumerate(bits[:70])) - bits[70] * 2**70

    return combined


MEANINGS = {
    "FloorDiv": lambda x, d: floor(Fraction(x, d)),
    "FloorMod": lambda x, d: x - d * floor(Fraction(x, d)),
    "BitXor": bitwise(lambda a, b: (a + b) % 2),
    "BitAnd": bitwise(lambda a, b: a * b),
    "BitOr": bitwise(lambda a, b: int(a + b > 0)),
    "ShiftLeft": lambda x, n: x * 2**n,
    "ShiftRight": lambda x, n: floor(Fraction(x, 2**n)),
    "ISqrt": lambda x: int(sympy.integer_nthroot(x, 2)[0]),
    "Smaller": lambda a, b: sorted((a, b))[0],
    "Larger": lambda a, b: sorted((a, b))[1],
    "Select": lambda condition, a, b: (b, a)[condition],
}
NODES = {node.__name__: node for node in nodes.OPERATION_NODES}
SMALL = (*range(-9, 10), 31, 32, 33, 100, -100)
SYMBOLS = sympy.symbols("x y z", integer=True)
THREADS = 64


def is_defined(name, operands):
    undefined = OPERATIONS[name].undefined
    return undefined is None or not undefined.where(*operands)


@functools.cache
def points(name):
    """Operands for which an operation is defined; a condition is a truth value."""
    choices = [SMALL] * OPERATIONS[name].operands
    if name == "Select":
        choices[0] = (False, True)
    every = [p for p in itertools.product(*choices) if is_defined(name, p)]
    return every if len(every) <= 500 else random.Random(name).sample(every, 500)


def narrow_points(name):
    """Those whose results int64 holds."""
    return [p for p in points(name) if not name.startswith("Shift") or p[1] <= 33][:100]


def applied(name, operands):
    """The node of some expressions."""
    return NODES[name](*operands)


def symbolic(name):
    """The node of symbols, and the symbols; a condition is `x < 0`."""
    symbols = SYMBOLS[: OPERATIONS[name].operands]
    first = nodes.Lt(symbols[0], 0) if name == "Select" else symbols[0]
    return applied(name, (first, *symbols[1:])), symbols


def values_of(name, point):
    """The values of the symbols of the symbolic node at a point."""
    given = (-1 if point[0] else 1, *point[1:]) if name == "Select" else point
    return dict(zip(SYMBOLS, given, strict=False))


def lacks(name):
    """Shown where a node has no meaning in this file."""
    return f"{name} needs a definition in MEANINGS"


def test_the_table_has_the_rows_of_the_nodes_and_only_those():
    assert OPERATIONS.keys() == NODES.keys()
    assert {o.__name__ for o in nodes.INTEGER_NODES} - OPERATIONS.keys() == {"Table"}  # which reads memory
    defined = {c.__name__ for c in vars(nodes).values() if isinstance(c, type) and hasattr(c, "operation")}
    assert {name for name in defined if name in OPERATIONS} == set(NODES), "a node is missing in OPERATION_NODES"
    assert NODES.keys() == MEANINGS.keys(), [lacks(name) for name in NODES.keys() - MEANINGS.keys()]


def folds(name):
    for point in points(name):
        operands = [sympy.true if p is True else sympy.false if p is False else sympy.Integer(p) for p in point]
        assert applied(name, operands) == MEANINGS[name](*point), point


def evaluates_numbers_and_arrays(name):
    expr, symbols = symbolic(name)
    for scale in (1, 3**37):  # of 59 bits: int64 holds operands, not all results
        given = [p for p in points(name) if scale == 1 or not name.startswith("Shift")]
        scaled = [tuple(v if isinstance(v, bool) else v * scale for v in p) for p in given]
        columns = {s: np.array([values_of(name, p)[s] for p in scaled], object) for s in symbols}
        expected = [MEANINGS[name](*p) for p in scaled]
        assert [int(v) for v in evaluate(expr, columns)] == expected
        assert [evaluate(expr, values_of(name, p)) for p in scaled[:50]] == expected[:50]


def bounds_hold(name):
    expr, symbols = symbolic(name)
    drawn = random.Random(name)
    for _ in range(300):
        base = values_of(name, drawn.choice(points(name)))
        ranges = {s: Range(base[s] - drawn.randint(0, 3), base[s] + drawn.randint(1, 9)) for s in symbols}
        known = bounds(expr, {s: r for s, r in ranges.items() if drawn.random() < 0.9})
        value = evaluate(expr, base)
        assert known.lo is None or known.lo <= value
        assert known.hi is None or value <= known.hi
        assert value % known.modulus == known.remainder if known.modulus else value == known.remainder


def bounds_are_known(name):
    expr, symbols = symbolic(name)
    known = bounds(expr, {s: Range(1, 9) for s in symbols})
    assert known.lo is not None and known.hi is not None


def simplifies(name):
    expr, symbols = symbolic(name)
    ranges = {s: Range(1, 6) for s in symbols}
    found = simplify(expr + 4 * symbols[-1], ranges).expr
    for point in itertools.product(range(1, 6), repeat=len(symbols)):
        given = dict(zip(symbols, point, strict=True))
        assert evaluate(found, given) == evaluate(expr, given) + 4 * point[-1]


def samples(name):
    expr, symbols = symbolic(name)
    context = context_of({s: Range(1, 6) for s in symbols})
    poly = context.terms.read(expr)
    assert all(context.facts.samples.value(poly, point) is not None for point in range(POINTS))


def solver_is_sound(name):
    expr, symbols = symbolic(name)
    for point in points(name)[::25]:
        given = values_of(name, point)
        ranges = PlainRanges({s: Range(given[s], given[s] + 1) for s in symbols})
        value = MEANINGS[name](*point)
        assert not solve(nodes.Ne(expr, value), ranges, 200).proved


def costs(name):
    expr, _ = symbolic(name)
    assert all(quick_operations(expr, model) >= 1 for model in MODELS.values())


def reads_back_as_text(name):
    expr, _ = symbolic(name)
    parsed = text.parse(text.write(expr))
    for point in narrow_points(name):
        given = {str(s): v for s, v in values_of(name, point).items()}
        assert parsed.fold(given, int, text.PYTHON) == (MEANINGS[name](*point),)
        arrays = {n: np.array([v, v]) for n, v in given.items()}
        assert [int(v) for v in parsed.fold(arrays, int, text.ON_ARRAYS)[0]] == [MEANINGS[name](*point)] * 2


def has_a_word(name):
    """Python's reading of the printed node, by operators and by `lego`'s functions on ints, arrays and symbols."""
    expr, symbols = symbolic(name)
    functions = {name: getattr(lego, name, None) or getattr(words, name, None) for name in text.CALLS}
    for point in narrow_points(name):
        given = {str(s): v for s, v in values_of(name, point).items()}
        assert eval(str(expr), functions, given) == MEANINGS[name](*point)
        arrays = {n: np.array([v, v]) for n, v in given.items()}
        assert list(eval(str(expr), functions, arrays)) == [MEANINGS[name](*point)] * 2
    assert eval(str(expr), functions, {str(s): Index(s) for s in symbols}).same(expr)


def prints_for(printer, read, helpers, name):
    """The printed text, read back, at points within the ranges."""
    expr, symbols = symbolic(name)
    for low, high in ((0, 9), (-9, 9), (0, 2**31 - 5)):
        if low < 0 and (name == "ISqrt" or name.startswith("Shift")):
            continue
        ranges = {s: Range(low, high) for s in symbols[:-1] or symbols}
        ranges.setdefault(symbols[-1], Range(1, 9))
        made = printer(ranges)
        printed = made.expression(expr)
        assert made.helpers.keys() <= helpers.keys()
        drawn = random.Random(name)
        rows = [{s: drawn.randrange(int(r.lo), int(r.hi)) for s, r in ranges.items()} for _ in range(50)]
        given = {str(s): np.array([row[s] for row in rows]) for s in symbols}
        expected = [evaluate(expr, row) for row in rows]
        found = read.evaluate(printed, given)
        assert np.ravel(found).tolist() == expected


PROPERTIES = {
    "a constant folds": folds,
    "evaluation": evaluates_numbers_and_arrays,
    "bounds contain the value": bounds_hold,
    "bounds are known": bounds_are_known,
    "simplification keeps the value": simplifies,
    "values at sample points": samples,
    "Z3 proves nothing false": solver_is_sound,
    "a cost": costs,
    "a text": reads_back_as_text,
    "a word for ints, arrays and symbols": has_a_word,
    "C": functools.partial(prints_for, CudaPrinter, read_c, C_HELPERS),
    "Triton": functools.partial(prints_for, TritonPrinter, read_triton, TRITON_HELPERS),
}


@pytest.mark.parametrize("property_", PROPERTIES)
@pytest.mark.parametrize("name", NODES)
def test_every_node_has_every_property(name, property_):
    PROPERTIES[property_](name)


def kernel_of_all_nodes():
    """Each node of values that differ by thread, in a row of the result."""

    @lego.kernel(grid=1, block=THREADS)
    def every(out: lego.Tensor(i32, Row(len(NODES), THREADS))):
        t = lego.thread_id[0]
        for row, name in enumerate(NODES):
            out[row, t] = i32(Index(applied(name, operands_in(t, name))))

    return every


def operands_in(t, name):
    """What a thread applies a node to: expressions of its number; of an int, ints."""
    given = [t * 7 + 3, t % 5 + 1][: OPERATIONS[name].operands]
    given = [t % 3 < 1, *given] if name == "Select" else given
    return [v if isinstance(v, int) else v.expr for v in given]


@pytest.mark.parametrize("form", ["affine", "index", "arith"])
def test_every_node_is_interpreted(form):
    (found,) = launch(kernel_of_all_nodes(), np.zeros((len(NODES), THREADS)), form=form)
    expect(found)


def test_every_node_is_emulated_as_ptx():
    (found,) = launch_emulated(kernel_of_all_nodes(), np.zeros((len(NODES), THREADS)))
    expect(found)


def expect(found):
    for row, name in zip(found, NODES, strict=True):
        assert row.tolist() == [MEANINGS[name](*operands_in(t, name)) for t in range(THREADS)], name
