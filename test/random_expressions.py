"""Random index expressions with ranges, negative values included, and random values of their symbols.

Plain `random` with a seed: one C file holds a hundred of them, compiled once, which does not suit Hypothesis.
"""

import random

import numpy as np
import sympy

from lego_mlir.expr import nodes
from lego_mlir.expr.intervals import bounds
from lego_mlir.expr.ranges import Range

SYMBOLS = sympy.symbols("a b c", integer=True)
ENDS = [(0, 8), (0, 100), (-9, 10), (1, 33), (-1000, 5), (0, 50000), (-40000, 40000), (3, 4), (0, 2**20)]
TABLE = (3, 1, 4, 1, 5, 9, 2, 6)


def draw(seed):
    """An expression, the ranges of its symbols, and 64 values of each symbol within them."""
    rng = random.Random(seed)
    ranges = {s: Range(*rng.choice(ENDS)) for s in SYMBOLS}
    expr = _expression(rng, 4, ranges)
    values = {}
    for symbol, r in ranges.items():
        drawn = [rng.randrange(r.lo, r.hi) for _ in range(60)]
        values[str(symbol)] = np.array([*drawn, r.lo, r.hi - 1, r.lo, r.hi - 1], dtype=np.int64)
    return expr, ranges, values


def _expression(rng, depth, ranges):
    if depth == 0 or rng.random() < 0.1:
        return rng.choice([*SYMBOLS, sympy.Integer(rng.choice([-7, -1, 0, 1, 2, 5, 32, 100]))])
    kind = rng.choice(
        ["add", "sub", "mul", "div", "div", "mod", "mod", "bits", "shift", "min", "where", "isqrt", "table"]
    )
    a, b = (_expression(rng, depth - 1, ranges) for _ in range(2))
    constant = sympy.Integer(rng.choice([1, 2, 3, 7, 8, 32, 33, -3, -4]))
    match kind:
        case "add":
            made = a + b
        case "sub":
            made = a - b
        case "mul":
            made = a * (b if rng.random() < 0.3 else constant)
        case "div":
            made = nodes.FloorDiv(a, b if rng.random() < 0.3 and _never_zero(b, ranges) else constant)
        case "mod":
            made = nodes.FloorMod(a, b if rng.random() < 0.3 and _never_zero(b, ranges) else constant)
        case "bits":
            made = rng.choice([nodes.BitXor, nodes.BitAnd, nodes.BitOr])(a, b)
        case "shift":
            made = rng.choice([nodes.ShiftLeft, nodes.ShiftRight])(a, rng.choice([0, 1, 3]))
        case "min":
            made = rng.choice([nodes.Smaller, nodes.Larger])(a, b)
        case "where":
            made = nodes.Select(_condition(rng, a, b), a, b)
        case "isqrt":
            made = nodes.ISqrt(nodes.Larger(a, 0))
        case "table":
            made = nodes.Table("lut", nodes.FloorMod(a, 8), 8, 10, TABLE)
    known = bounds(made, ranges)
    fits = known.lo is not None and known.hi is not None and known.lo > -(2**40) and known.hi < 2**40
    return made if fits else a


def _condition(rng, a, b):
    compare = rng.choice([nodes.Lt, nodes.Le, nodes.Eq, nodes.Ne])(a, b)
    other = nodes.Lt(b, 5)
    return rng.choice([compare, sympy.And(compare, other), sympy.Or(compare, other), sympy.Not(compare)])


def _never_zero(expr, ranges):
    known = bounds(expr, ranges)
    return (known.lo is not None and known.lo > 0) or (known.hi is not None and known.hi < 0)
