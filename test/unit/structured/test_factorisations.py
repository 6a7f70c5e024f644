"""chol, lu and inv as compositions: every size up to two tiles and beyond, bands, storages, widths, rolled or not."""

import ctypes

import numpy as np
import pytest

from lego_mlir.runtime import cpu
from lego_mlir.structured import mlir_text, reference
from lego_mlir.structured.language import parse
from lego_mlir.structured.lower import lower
from lego_mlir.structured.vector import generate
from lego_mlir.structured.vector.generate import Variant

TEXTS = [
    "S = Symmetric(L, {n}); L = LowerTriangular({n}); L = chol(S);",
    "S = Symmetric(U, {n}, storage=packed); L = LowerTriangular({n}, storage=column_major); L = chol(S);",
    "S = SymmetricBanded(L, {n}, 2, storage=band); L = Banded({n}, {n}, 2, 0, storage=band); L = chol(S);",
    "S = Symmetric(L, {n}); A = Matrix({n}, {n}); A = chol(S)';",
    "A = Matrix({n}, {n}); A = lu(A);",
    "A = Matrix({n}, {n}, storage=column_major); B = Matrix({n}, {n}); B = lu(A);",
    "T = Tridiagonal({n}, storage=band); A = Matrix({n}, {n}); A = lu(T);",
    "L = LowerTriangular({n}); L = inv(L);",
    "U = UnitUpper({n}, storage=packed); A = Matrix({n}, {n}); A = inv(U)';",
    "D = Diagonal({n}); D = inv(D);",
    "S = Symmetric(L, {n}); x = Vector({n}); L = LowerTriangular({n}); L = chol(S); x = L \\ x; x = L' \\ x;",
]


TINY, TWO_TILES, LARGE = (1, 2, 3, 4, 5, 7, 8, 9), (16, 17), (40,)


@pytest.mark.parametrize(
    ("variant", "sizes"),
    [
        (Variant(1, 1, 1), TINY[:5]),
        (Variant(2, 4, 2), TINY[:6]),
        (Variant(4, 4, 2), TINY),
        (Variant(8, 8, 2), TINY[-3:]),
        (Variant(8, 8, 2, True), TWO_TILES),
        (Variant(4, 4, 2, True), TWO_TILES),
        (Variant(1, 4, 2, True), TWO_TILES),
        (Variant(8, 8, 2, True), LARGE),
    ],
    ids=str,
)
def test_against_numpy(sizes, variant):
    programs = [parse(text.format(n=n)) for text in TEXTS for n in sizes]
    texts, names = [], []
    for number, program in enumerate(programs):
        lowered = lower(program)
        texts.append(mlir_text.text(generate.emit(lowered, f"k{number}", "f64", variant)))
        names.append(f"k{number}")
    library = cpu.load(cpu.assemble("\n".join(texts), names), names)
    for number, program in enumerate(programs):
        arrays = reference.sample(program, seed=number)
        want = reference.evaluate(program, arrays)
        call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(arrays))(library.address(f"k{number}"))
        call(*(arrays[operand.name].ctypes.data for operand in program.operands))
        for name in program.written:
            operand = next(o for o in program.operands if o.name == name)
            got = reference.dense(operand, arrays[name])
            assert np.abs(got - want[name]).max() <= 1e-12 * np.abs(want[name]).max(), (str(program), operand.structure)
            held = operand.storage.positions(operand.structure)
            outside = np.setdiff1d(np.arange(arrays[name].size), held[held >= 0])
            assert np.isnan(arrays[name].ravel()[outside]).all(), (str(program), name)


def test_scratch_with_long_rows_keeps_its_columns():
    # rows of more than 32 elements may be a cache line longer than the vectors they hold
    program = parse("A = Matrix(64, 64); S = Symmetric(L, 64); L = LowerTriangular(64); A = (L + L)*S + 2*(S*A);")
    text = mlir_text.text(generate.emit(lower(program), "k", "f64", Variant(8, 8, 2, True)))
    library = cpu.load(cpu.assemble(text, ("k",)), ("k",))
    arrays = reference.sample(program)
    want = reference.evaluate(program, arrays)["A"]
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(arrays))(library.address("k"))
    call(*(arrays[operand.name].ctypes.data for operand in program.operands))
    assert np.abs(arrays["A"] - want).max() <= 1e-12 * np.abs(want).max()


CHOL_AND_LU = (
    "S = Symmetric(L, {n}); L = LowerTriangular({n}); A = Matrix({n}, {n}); B = Matrix({n}, {n});"
    "L = chol(S); B = lu(A);"
)
TOLERANCE = {
    "f64": 1e-13,
    "f32": 1e-5,
}  # relative to the largest element, for the well-conditioned matrices of `sample`


@pytest.mark.parametrize("element", ["f64", "f32"])
@pytest.mark.parametrize("n", [24, 25, 47, 64, 128])
def test_the_default_of_large_factorisations_is_rolled_and_right(n, element):
    program = parse(CHOL_AND_LU.format(n=n))
    lowered = lower(program)
    variant = generate.default(lowered, 8 if element == "f64" else 16, 32)
    assert variant.rolled == (n > generate.FLAT_ROWS)
    text = mlir_text.text(generate.emit(lowered, "k", element, variant))
    if n == 128:  # written out, there were over a million lines; in loops, the number of tiles does not matter
        half = mlir_text.text(generate.emit(lower(parse(CHOL_AND_LU.format(n=64))), "k", element, variant))
        assert text.count("\n") < 1.1 * half.count("\n") < 12_000
    library = cpu.load(cpu.assemble(text, ("k",)), ("k",))
    arrays = reference.sample(program, np.float64 if element == "f64" else np.float32)
    want = reference.evaluate(program, arrays)
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(arrays))(library.address("k"))
    call(*(arrays[operand.name].ctypes.data for operand in program.operands))
    for operand in program.operands:
        if operand.name in program.written:
            error = np.abs(reference.dense(operand, arrays[operand.name]) - want[operand.name]).max()
            assert error <= TOLERANCE[element] * np.abs(want[operand.name]).max(), operand.name


def test_a_transposed_copy_is_written_back_in_whole_rows():
    # lane by lane, the 256 masked stores of a 16 x 16 tile take LLVM longer than all the rest of chol
    text = mlir_text.text(generate.emit(lower(parse(TEXTS[0].format(n=64))), "k", "f32", Variant(16, 8, 2, True)))
    assert text.count("vector.maskedstore") < 100  # only the rows of tiles on the diagonal
