"""Accesses of the threads of a group as accesses of whole stages.

    row of thread t: 64 (k mod 4) + (t mod 32 xor 8),  stages of 64 rows   -->   rows 64 (k mod 4) .. 64 (k mod 4) + 63

The order of stages does not depend on the rows inside of one. Where all threads touch one stage, at a place that is the
multiple of its size which no thread changes, the access is one of all its rows: a product's reads, one a fragment, are
then one access of each operand. The part that depends on the thread alone is evaluated for each thread.
"""

from __future__ import annotations

import numpy
import sympy

from lego_mlir.aliases import Expr, Symbol
from lego_mlir.expr.evaluate import evaluate
from lego_mlir.proofs.rings.values import KnownRanges, simplified


def whole_stage(row: Expr, size: int, thread: Symbol, ranges: KnownRanges) -> Expr | None:
    """The first row of the stage of `size` rows that all threads touch; None if it is not shown that there is one."""
    terms = sympy.Add.make_args(row)
    mixed = [term for term in terms if len(term.free_symbols) > 1 and thread in term.free_symbols]
    terms = (*(term for term in terms if term not in mixed), *_terms(simplified(sympy.Add(*mixed), ranges)))
    own = [term for term in terms if not term.free_symbols - {thread}]
    stage = [term for term in terms if term not in own]
    if any(thread in term.free_symbols or not _is_multiple(term, size) for term in stage):
        return None
    threads = numpy.arange(int(ranges[thread].lo), int(ranges[thread].hi))
    numbers = numpy.unique(numpy.asarray(evaluate(sympy.Add(*own), {thread: threads})) // size)
    return sympy.Add(*stage, size * int(numbers[0])) if len(numbers) == 1 else None


def _terms(expr: Expr) -> tuple[Expr, ...]:
    return sympy.Add.make_args(sympy.expand(expr))


def _is_multiple(term: Expr, size: int) -> bool:
    factor = term.as_coeff_Mul()[0]
    return bool(factor.is_Integer and factor % size == 0)
