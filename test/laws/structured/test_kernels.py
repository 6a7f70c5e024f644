"""Every drawn program, in every drawn variant, agrees with NumPy and touches nothing that it must not.

One Hypothesis example is a batch of programs that are compiled as one module, so that the fixed cost of the JIT is
shared; all elements that no access may touch hold NaN, before and after.
"""

import ctypes
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as some

from lego_mlir.layout import Col, Row, gallery
from lego_mlir.runtime import cpu
from lego_mlir.structured import infer, mlir_text, reference
from lego_mlir.structured import structures as st
from lego_mlir.structured.lower import lower
from lego_mlir.structured.storage import StorageError, as_storage
from lego_mlir.structured.syntax import (
    Binary,
    Call,
    LLError,
    Name,
    Negated,
    Number,
    Operand,
    Transpose,
    assign,
    program,
)
from lego_mlir.structured.vector import generate
from lego_mlir.structured.vector.generate import Variant

BATCH, BATCHES, LONG = 25, 5, 150
FLAT = 400  # written-out kernels with more vector operations than this are rolled, for the sake of compile time

SQUARE = [
    st.lower, st.upper, st.unit_lower, st.unit_upper, st.diagonal, st.identity,
    lambda n: st.symmetric(n, "L"), lambda n: st.symmetric(n, "U"), lambda n: st.general(n, n),
    lambda n: st.banded(n, n, 1, 1), lambda n: st.banded(n, n, 2, 2), lambda n: st.banded(n, n, min(3, n), 0),
    lambda n: st.symmetric_banded(n, 1, "L"), lambda n: st.symmetric_banded(n, 2, "U"), lambda n: st.zero(n, n),
]  # fmt: skip
TRIANGLES = [
    st.lower, st.upper, st.unit_lower, st.unit_upper, st.diagonal, lambda n: st.banded(n, n, 2, 0),
    lambda n: st.banded(n, n, 0, 1),
]  # fmt: skip
STORAGES = [
    "full",
    "column_major",
    "packed",
    "packed_columns",
    "band",
    "band_columns",
    "tiled",
    "morton",
    "full",
    "full",
]


@some.composite
def structures(draw, rows, columns, depth=1):
    if rows >= 2 and columns >= 2 and depth and draw(some.integers(0, 5)) == 0:
        down, across = draw(some.integers(1, rows - 1)), draw(some.integers(1, columns - 1))
        return st.blocked(
            [[draw(structures(h, w, depth - 1)) for w in (across, columns - across)] for h in (down, rows - down)]
        )
    if rows == columns and draw(some.integers(0, 3)):
        return draw(some.sampled_from(SQUARE))(rows)
    return draw(some.sampled_from([st.general, st.general, lambda m, n: st.banded(m, n, 1, 2)]))(rows, columns)


def storage(structure, name):
    """The named storage, or the full one where it cannot hold the structure."""
    rows, columns = structure.rows, structure.columns
    try:
        if name == "tiled":
            even = rows % 2 == 0 and columns % 2 == 0
            return as_storage((Row if even else Col)(rows, columns))
        if name == "morton":
            power = rows == columns and rows & (rows - 1) == 0 and rows > 1
            return as_storage(gallery.morton(rows, rows) if power else Col(rows, columns))
        made = as_storage(name)
        made.shape(structure)
        return made
    except StorageError:
        return as_storage("full")


class Names:
    """Operands drawn so far."""

    def __init__(self):
        self.made = []

    def new(self, draw, structure):
        operand = Operand(f"M{len(self.made)}", structure, storage(structure, draw(some.sampled_from(STORAGES))))
        self.made.append(operand)
        return operand

    def leaf(self, draw, rows, columns):
        fitting = [o for o in self.made if o.shape == (rows, columns)]
        if fitting and draw(some.booleans()):
            return Name(draw(some.sampled_from(fitting)))
        return Name(self.new(draw, draw(structures(rows, columns))))


@some.composite
def expressions(draw, names, rows, columns, depth):
    choice = draw(some.integers(0, 9)) if depth else 0
    if choice == 0:
        return names.leaf(draw, rows, columns)
    deeper = depth - 1
    if choice == 1:
        return Negated(draw(expressions(names, rows, columns, deeper)))
    if choice == 2:
        return Transpose(draw(expressions(names, columns, rows, deeper)))
    if choice in (3, 4):
        left, right = (draw(expressions(names, rows, columns, deeper)) for _ in range(2))
        return Binary(draw(some.sampled_from("+-")), left, right)
    if choice == 5:
        scalar = Number(draw(some.sampled_from([2.0, -0.5, 3.0])))
        if draw(some.booleans()):
            scalar = Name(names.new(draw, st.general(1, 1)))
        return Binary("*", scalar, draw(expressions(names, rows, columns, deeper)))
    if choice == 6:
        triangle = Name(names.new(draw, draw(some.sampled_from(TRIANGLES))(rows)))
        left = Transpose(triangle) if draw(some.booleans()) else triangle
        return Binary("\\", left, draw(expressions(names, rows, columns, deeper)))
    if choice == 7 and rows == columns:
        function = draw(some.sampled_from(["chol", "lu", "inv"]))
        made = {"chol": lambda n: st.symmetric(n, "LU"[n % 2]), "lu": lambda n: st.general(n, n), "inv": None}[function]
        made = made or draw(some.sampled_from(TRIANGLES))
        return Call(function, Name(names.new(draw, made(rows))))
    inner = draw(some.sampled_from([1, 2, 3, 4, 5, 8, rows, columns, rows]))
    left = draw(expressions(names, rows, inner, deeper))
    if draw(some.integers(0, 5)) == 0 and rows == columns:
        return Binary("*", left, Transpose(left))
    return Binary("*", left, draw(expressions(names, inner, columns, deeper)))


@some.composite
def programs(draw):
    names = Names()
    sizes = some.one_of(some.integers(1, 9), some.integers(1, 9), some.integers(1, 17), some.integers(1, 40))
    rows, columns = draw(sizes), draw(sizes)
    if draw(some.booleans()):
        columns = rows
    if draw(some.integers(0, 3)) == 0:
        columns = 1
    value = draw(expressions(names, rows, columns, draw(some.integers(1, 3))))
    inferred = infer.infer(value)
    fitting = [o for o in names.made if o.shape == (rows, columns)]
    if fitting and draw(some.booleans()):
        target = draw(some.sampled_from(fitting))  # in place
    elif inferred.symmetric and draw(some.booleans()):
        target = names.new(draw, st.symmetric(rows, draw(some.sampled_from("LU"))))
    elif infer.letter(inferred) in "LU" and draw(some.booleans()):
        target = names.new(draw, {"L": st.lower, "U": st.upper}[infer.letter(inferred)](rows))
    else:
        target = names.new(draw, st.general(rows, columns))
    try:
        infer.check(assign(target, value))
    except LLError:
        target = names.new(draw, st.general(rows, columns))
    return program(assign(target, value))


@some.composite
def variants(draw, element):
    width = draw(some.sampled_from([1, 2, 4, 8, 8, 4] if element == "f64" else [1, 4, 8, 16, 16]))
    return Variant(width, draw(some.integers(1, 8)), draw(some.integers(1, 4)), draw(some.booleans()))


def magnitude(expression, values):
    """A bound on what rounding can add up: the value of the expression with all signs made positive."""
    match expression:
        case Name(operand):
            return np.abs(values[operand.name])
        case Number(number):
            return np.array([[abs(number)]])
        case Negated(argument):
            return magnitude(argument, values)
        case Transpose(argument):
            return magnitude(argument, values).T
        case Call(function, argument):
            result = np.abs(reference.value(expression, values))
            inner = np.linalg.cond(reference.value(argument, values)) if function != "lu" else 10.0
            return result * inner + magnitude(argument, values).max()
        case Binary("\\", left, right):
            return np.abs(np.linalg.inv(reference.value(left, values))) @ magnitude(right, values)
        case Binary("*", left, right):
            a, b = magnitude(left, values), magnitude(right, values)
            return a * b if (1, 1) in (a.shape, b.shape) else a @ b
        case Binary(_, left, right):
            return magnitude(left, values) + magnitude(right, values)


def check(made, element, variants_of):
    dtype, tolerance = (np.float64, 1e-13) if element == "f64" else (np.float32, 1e-5)
    texts, names = [], []
    for number, (drawn, variant) in enumerate(zip(made, variants_of, strict=True)):
        lowered = lower(drawn)
        if generate.work(lowered, variant.width) > FLAT:
            variant = replace(variant, rolled=True)
        texts.append(mlir_text.text(generate.emit(lowered, f"k{number}", element, variant)))
        names.append(f"k{number}")
    library = cpu.load(cpu.assemble("\n".join(texts), names), names)
    for number, drawn in enumerate(made):
        arrays = reference.sample(drawn, dtype, number)
        before = {name: array.copy() for name, array in arrays.items()}
        dense = {o.name: reference.dense(o, arrays[o.name]) for o in drawn.operands}
        statement = drawn.statements[0]
        want = reference.value(statement.value, dense)
        bound = tolerance * max(magnitude(statement.value, dense).max(), 1e-3)
        call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(arrays))(library.address(f"k{number}"))
        call(*(arrays[o.name].ctypes.data for o in drawn.operands))
        got = reference.dense(statement.target, arrays[statement.target.name])
        about = f"{drawn}\n{[(str(o.structure), str(o.storage)) for o in drawn.operands]}\n{variants_of[number]}"
        assert np.abs(got - want).max() <= bound, f"{about}\n{got}\n{want}"
        for operand in drawn.operands:
            array, old = arrays[operand.name].ravel(), before[operand.name].ravel()
            if operand.name != statement.target.name:
                assert np.array_equal(array, old, equal_nan=True), about
            held = operand.storage.positions(operand.structure)
            outside = np.setdiff1d(np.arange(array.size), held[held >= 0])
            assert np.isnan(array[outside]).all(), about


DRAWN = settings(
    deadline=None, derandomize=True, phases=[Phase.generate], suppress_health_check=list(HealthCheck), database=None
)  # a failing batch names its program, which is small enough as it is: shrinking would compile for minutes


def check_drawn(data, element):
    made = [data.draw(programs()) for _ in range(BATCH)]
    check(made, element, [data.draw(variants(element)) for _ in made])


@settings(DRAWN, max_examples=BATCHES * 4 // 5)
@given(some.data())
def test_doubles(data):
    check_drawn(data, "f64")


@settings(DRAWN, max_examples=BATCHES // 5)
@given(some.data())
def test_floats(data):
    check_drawn(data, "f32")


@pytest.mark.long
@pytest.mark.parametrize("element", ["f64", "f32"])
@settings(DRAWN, derandomize=False, max_examples=LONG)
@given(data=some.data())
def test_many_more_programs(data, element):
    check_drawn(data, element)
