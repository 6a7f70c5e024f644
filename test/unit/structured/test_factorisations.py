"""chol, lu and inv as compositions: every size up to two tiles and beyond, bands, storages, widths, rolled or not."""

import ctypes

import numpy as np
import pytest

from lego_mlir.runtime import cpu
from lego_mlir.structured import generate, reference
from lego_mlir.structured.generate import Variant
from lego_mlir.structured.language import parse
from lego_mlir.structured.lower import lower

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
        texts.append(generate.emit(lowered, f"k{number}", "f64", variant).text())
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
    text = generate.emit(lower(program), "k", "f64", Variant(8, 8, 2, True)).text()
    library = cpu.load(cpu.assemble(text, ("k",)), ("k",))
    arrays = reference.sample(program)
    want = reference.evaluate(program, arrays)["A"]
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(arrays))(library.address("k"))
    call(*(arrays[operand.name].ctypes.data for operand in program.operands))
    assert np.abs(arrays["A"] - want).max() <= 1e-12 * np.abs(want).max()
