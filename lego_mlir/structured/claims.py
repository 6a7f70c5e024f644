"""Claims about a program, proved on isl sets before code generation, or assumed.

Inference checks sizes and structures. Two claims concern the statements: exactly one of them initializes each stored
element of a target, and they read only stored elements:

>>> from lego_mlir.structured.language import parse
>>> program = parse("L = LowerTriangular(3); A = Matrix(3, 3); S = Symmetric(L, 3); A = L*A; S = symmetric(A);")
>>> for claim, verdict in claims(program):
...     print(type(verdict).__name__, claim)
Proved A = L * A: A can hold the value
Proved S = symmetric(A): S can hold the value
Unknown S = symmetric(A): A is symmetric
Proved t0 = L * A: each stored element is computed once
Proved t0 = L * A: all reads are of stored elements
Proved A = t0: each stored element is computed once
Proved A = t0: all reads are of stored elements
Proved S = A: each stored element is computed once
Proved S = A: all reads are of stored elements
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import combinations

from lego_mlir.expr.verdict import Proved, Refuted, Unknown, Verdict
from lego_mlir.structured import infer
from lego_mlir.structured.lower import Update, lower
from lego_mlir.structured.paper import loops, statements
from lego_mlir.structured.sets import Region
from lego_mlir.structured.structures import STORED
from lego_mlir.structured.syntax import Binary, Call, Expression, LLError, Name, Negated, Number, Program, Transpose

ONCE = "each stored element is computed once"
READS = "all reads are of stored elements"


def claims(program: Program) -> Iterator[tuple[str, Verdict]]:
    """The claims about a program and their verdicts."""
    for statement in program.statements:
        claim = f"{statement}: {statement.target.name} can hold the value"
        try:
            infer.check(statement)
        except LLError as error:
            yield claim, Refuted({}, str(error))
            return
        yield claim, Proved("sizes agree; zeros, ones and symmetry of the value are inferred on isl sets")
        for argument in dict.fromkeys(_asserted_symmetric(statement.value)):
            yield f"{statement}: {argument} is symmetric", _symmetry(argument)
    for step in lower(program).steps:
        found = statements.statements(step)
        if isinstance(step, Update):
            yield f"{step}: {ONCE}", _once(step, found)
        yield f"{step}: {READS}", _reads(found)


def _asserted_symmetric(expression: Expression) -> Iterator[Expression]:
    """The arguments that the expression asserts to be symmetric."""
    match expression:
        case Name() | Number():
            return
        case Call(function, argument):
            if function == "symmetric":
                yield argument
            yield from _asserted_symmetric(argument)
        case Negated(argument) | Transpose(argument):
            yield from _asserted_symmetric(argument)
        case Binary(_, left, right):
            yield from _asserted_symmetric(left)
            yield from _asserted_symmetric(right)


def _symmetry(expression: Expression) -> Verdict:
    if infer.mirrored(expression):
        return Proved("by its form")
    return Unknown("asserted by the program, not checked; if it does not hold, the upper half is ignored")


def _once(step: Update, found: Sequence[statements.PolyhedralStatement]) -> Verdict:
    """Whether the initializing statements write each stored element of the target exactly once."""
    wanted = statements.own_elements(step.target.structure)
    written = [s.domain.along(f"{{ [{', '.join(s.space)}] -> [i, j] }}") for s in found if s.body.op == "="]
    whole = reduce(Region.__or__, written, Region("{ [i, j] : false }"))
    for left_over in (wanted - whole, whole - wanted, *(a & b for a, b in combinations(written, 2))):
        if not left_over.empty:
            return Refuted({}, f"violated at {left_over.points()[0]}")
    return Proved(f"{len(written)} disjoint regions make up the {wanted.count()} elements")


def _reads(found: Sequence[statements.PolyhedralStatement]) -> Verdict:
    """Whether the matrix stores each element that is read."""
    count = 0
    for statement in found:
        for read in (read for product in statement.body.products for read in product.reads):
            if read.leaf is None:
                continue
            space, row, column = ", ".join(statement.space), loops.text(read.row), loops.text(read.column)
            touched = statement.domain.along(f"{{ [{space}] -> [{row}, {column}] }}")
            outside = [(i, j) for i, j in touched.points() if not _stores(read, i, j)]
            if outside:
                return Refuted({}, f"{read} is read at {outside[0]}, which {read.leaf.structure} does not store")
            count += touched.count()
    return Proved(f"{count} elements, all stored")


def _stores(read: statements.ElementRead, i: int, j: int) -> bool:
    structure = read.leaf.structure if read.leaf is not None else None
    if structure is None or not (0 <= i < structure.rows and 0 <= j < structure.columns):
        return False
    return structure.kinds[i, j] == STORED and bool(structure.stored[i, j])
