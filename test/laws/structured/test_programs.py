"""Random programs in LL, as text: what compiles computes what NumPy does, and arrays that overlap are refused.

test_kernels.py draws one statement at a time as values. Here are several statements on shared operands, names that the
generated code uses itself, nested `tril`, `symmetric` and solves, and the whole way from text to the Python callable. A
program that is refused must be refused with an LLError. Nothing that an operand does not store may be touched.
"""

import random
import time

import numpy as np
import pytest

from lego_mlir import structured
from lego_mlir.errors import UsageError
from lego_mlir.expr.verdict import Refuted
from lego_mlir.runtime.comparing import compare
from lego_mlir.structured import entry_point, error_bounds, reference
from lego_mlir.structured.build import ArgumentError
from lego_mlir.structured.claims import claims
from lego_mlir.structured.syntax import LLError
from lego_mlir.structured.vector.generate import Variant

PROGRAMS = 130  # compiled in the everyday run; with --long as many as fit into LONG seconds
LONG = 300

NAMES = [
    "int", "for", "c0", "c2", "k0", "t0", "t1", "copy0", "one", "row", "column", "i0", "r1", "A_full", "x", "A", "B",
    "S", "L", "mask1", "true", "double", "_", "func", "chol", "inv", "symmetric", "tril", "Matrix", "kernel", "class",
]  # fmt: skip
SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 11, 13, 16, 17, 19, 23, 24, 25, 31, 32, 33, 37, 40)
SQUARE = (
    "Matrix({n}, {n}", "LowerTriangular({n}", "UpperTriangular({n}", "UnitLower({n}", "UnitUpper({n}",
    "Symmetric(L, {n}", "Symmetric(U, {n}", "Diagonal({n}", "Tridiagonal({n}", "Banded({n}, {n}, {a}, {b}",
    "SymmetricBanded(L, {n}, {a}", "SymmetricBanded(U, {n}, {a}", "Identity({n}", "Zero({n}, {n}",
)  # fmt: skip
STORAGES = ("", "", ", storage=column_major", ", storage=packed", ", storage=packed_columns")
VARIANTS = {
    "f8": (None, None, Variant(8, 8, 2, True), Variant(4, 4, 2), Variant(2, 4, 2, True), "scalar"),
    "f4": (None, None, Variant(16, 8, 2, True), Variant(8, 8, 2), Variant(4, 8, 1, True), "scalar"),
}


class Draw:
    """One random program: its operands by name, as (rows, columns, type)."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.sizes = [*self.random.choices(SIZES, k=2), 1]
        self.operands = {}
        for name in self.random.sample(NAMES, self.random.randint(3, 7)):
            rows, columns = self.random.choice(self.sizes), self.random.choice(self.sizes)
            self.operands[name] = rows, columns, self.type(rows, columns)

    def type(self, rows, columns):
        storage = self.random.choice(STORAGES)
        if rows == columns and self.random.random() < 0.8:
            a, b = self.random.randint(0, 3), self.random.randint(0, 3)
            return self.random.choice(SQUARE).format(n=rows, a=a, b=b) + storage + ")"
        if columns == 1:
            return f"Vector({rows})" if rows > 1 else "Scalar()"
        return f"Matrix({rows}, {columns}{storage})"

    def leaf(self, rows, columns):
        fitting = [name for name, (m, n, _) in self.operands.items() if (m, n) == (rows, columns)]
        fitting += [f"{name}'" for name, (m, n, _) in self.operands.items() if (n, m) == (rows, columns)]
        return self.random.choice(fitting) if fitting else None

    def expression(self, rows, columns, depth):
        """The text of an expression of this shape, None where the operands make none."""
        choice = self.random.random()
        if depth <= 0 or choice < 0.25:
            return self.leaf(rows, columns)
        if choice < 0.5:
            return self.joined(self.random.choice("+-"), (rows, columns), (rows, columns), depth)
        if choice < 0.75:
            inner = self.random.choice(self.sizes)
            return self.joined("*", (rows, inner), (inner, columns), depth)
        argument = self.expression(rows, columns, depth - 1)
        if argument is None:
            return None
        if choice < 0.82:
            return f"(-{self.random.choice(['2', '0.5', '1e-3'])} * {argument})"
        if rows == columns and choice < 0.95:
            return f"{self.random.choice(['tril', 'triu', 'unit_tril', 'unit_triu', 'symmetric'])}({argument})"
        triangle = self.leaf(rows, rows)
        return triangle and f"({self.random.choice(['tril', 'triu'])}({triangle}) \\ {argument})"

    def joined(self, sign, left, right, depth):
        first, second = self.expression(*left, depth - 1), self.expression(*right, depth - 1)
        return f"({first} {sign} {second})" if first and second else None

    def text(self):
        """The whole program, None where no statement came about."""
        statements = []
        for _ in range(self.random.randint(1, 3)):
            target = self.random.choice(list(self.operands))
            value = self.expression(*self.operands[target][:2], self.random.randint(1, 3))
            statements += [f"{target} = {value};"] if value else []
        declared = [f"{name} = {kind};" for name, (_, _, kind) in self.operands.items()]
        return " ".join([*declared, *statements]) if statements else None


def compiled(seed):
    """The kernel of a random program and what to show of it; None if there is no program, or LL refuses it."""
    draw = Draw(seed)
    text, dtype = draw.text(), draw.random.choice(["f8", "f4"])
    variant = draw.random.choice(VARIANTS[dtype])
    about = f"seed {seed}: {text} {variant} {dtype}"
    if text is None:
        return None
    try:
        return structured.compile(text, cache=None, variant=variant, dtype=dtype), about
    except LLError:
        return None
    except Exception as error:
        raise AssertionError(about) from error


def agrees(kernel, seed, about):
    """Run a kernel and compare with NumPy; whether there was something to compare."""
    program = kernel.program
    arrays = reference.sample(program, kernel.dtype, seed)
    before = {name: array.copy() for name, array in arrays.items()}
    element = {"float64": "f64", "float32": "f32"}[kernel.dtype.name]
    try:
        judged = error_bounds.allowed(program, arrays, element)
    except UsageError:  # a triangle that is singular
        return False
    kernel(*(arrays[o.name].reshape(entry_point.array_shape(o)) for o in program.operands))
    finite = all(np.isfinite(expected).all() for expected, _ in judged.values())
    for operand in program.operands:
        array, old = arrays[operand.name], before[operand.name]
        if operand.name not in judged:
            assert np.array_equal(array, old, equal_nan=True), f"{operand.name} is only read; {about}"
            continue
        expected, bound = judged[operand.name]
        found = compare(reference.dense(operand, array), expected, element, bound)
        assert found or not finite, f"{operand.name}: {found}; {about}"
        held = operand.storage.positions(operand.structure)
        outside = np.setdiff1d(np.arange(array.size), held[held >= 0])
        assert np.isnan(array.ravel()[outside]).all(), f"{operand.name} is written where it stores nothing; {about}"
    return finite


def refuses_overlaps(kernel, rand, about):
    """Give a written operand and another one the same memory, in part or as a whole: refused, and nothing changes."""
    operands = kernel.program.operands
    pairs = entry_point.overlapping_pairs(kernel.program)
    for a, b in pairs:
        shapes = [entry_point.array_shape(operand) for operand in operands]
        sizes = [int(np.prod(shape)) for shape in shapes]
        memory = np.ones(2 * max(sizes[a], sizes[b]), kernel.dtype)
        shift = rand.randrange(sizes[a])  # b begins inside a
        arrays = [np.ones(shape, kernel.dtype) for shape in shapes]
        arrays[a] = memory[: sizes[a]].reshape(shapes[a])
        arrays[b] = memory[shift : shift + sizes[b]].reshape(shapes[b])
        with pytest.raises(ArgumentError, match=r"is written, and its array shares memory with that of"):
            kernel(*arrays)
        assert all((array == 1).all() for array in (memory, *arrays)), about
    return len(pairs)


def check(seeds, enough):
    """Check programs until `enough(how many)`; how many, and how many pairs of overlapping arrays were refused."""
    judged = refused = 0
    for seed in seeds:
        if (made := compiled(seed)) is not None:
            kernel, about = made
            assert not [c for c, verdict in claims(kernel.program) if isinstance(verdict, Refuted)], about
            refused += refuses_overlaps(kernel, random.Random(seed), about)
            judged += agrees(kernel, seed, about)
        if enough(judged):
            return judged, refused
    raise AssertionError("the seeds ran out")


def test_programs_agree_with_numpy_and_refuse_overlaps():
    _, refused = check(range(10_000), lambda judged: judged >= PROGRAMS)
    assert refused > PROGRAMS


@pytest.mark.long
def test_programs_for_long():
    seed, end = random.SystemRandom().randrange(10**9), time.monotonic() + LONG
    judged, _ = check(range(seed, seed + 10**6), lambda _: time.monotonic() > end)
    assert judged


def test_what_is_drawn_is_worth_it():
    """All constructs occur in what is drawn; otherwise the laws above would be empty."""
    texts = " ".join(text for seed in range(200) if (text := Draw(seed).text()))
    for word in ("\\", "symmetric(", "unit_tril(", "triu(", "'", "1e-3", "packed_columns", "Banded(", "Scalar()"):
        assert word in texts
