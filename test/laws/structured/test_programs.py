"""Random programs in LL, as text: what compiles computes what NumPy does, and arrays that overlap are refused.

test_kernels.py draws one statement at a time as values. Here are several statements on shared operands, names that the
generated code uses itself, nested `tril`, `symmetric` and solves, and the whole way from text to the Python callable. A
program that is refused must be refused with an LLError. Nothing that an operand does not store may be touched.
"""

import random
import time

import numpy as np
import pytest
from random_programs import Draw

from lego_mlir import structured
from lego_mlir.errors import UsageError
from lego_mlir.expr.verdict import Refuted
from lego_mlir.runtime.comparing import compare
from lego_mlir.structured import entry_point, error_bounds, reference
from lego_mlir.structured.build import ArgumentError
from lego_mlir.structured.claims import claims
from lego_mlir.structured.syntax import LLError
from lego_mlir.structured.vector.generate import Variant

PROGRAMS = 30  # compiled in the everyday run; with --long as many as fit into LONG seconds
LONG = 300

VARIANTS = {
    "f8": (None, None, Variant(8, 8, 2, True), Variant(4, 4, 2), Variant(2, 4, 2, True), "scalar"),
    "f4": (None, None, Variant(16, 8, 2, True), Variant(8, 8, 2), Variant(4, 8, 1, True), "scalar"),
}


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
