"""The paper's scalar path, run: every kind of step against NumPy, with NaN wherever nothing may be read."""

import ctypes

import numpy as np
import pytest

from lego_mlir.runtime import cpu
from lego_mlir.structured import mlir_text, reference
from lego_mlir.structured.language import parse
from lego_mlir.structured.lower import lower
from lego_mlir.structured.paper import scalar_code

PROGRAMS = [
    "A = Matrix(4, 4); L = LowerTriangular(4); S = Symmetric(L, 4); U = UpperTriangular(4); A = L*U + S;",
    "A = Matrix(4, 4); S = Symmetric(L, 4); x = Vector(4); M = LowerTriangular(4); N = LowerTriangular(4); "
    "A = (M + N)*S + x*x';",
    "L = LowerTriangular(9); x = Vector(9); x = L \\ x;",
    "L = UnitUpper(9, storage=packed); X = Matrix(9, 3, storage=column_major); X = L \\ (2*X);",
    "L = LowerTriangular(6); X = UpperTriangular(6); B = Diagonal(6); X = L' \\ (B \\ L');",
    "S = Symmetric(U, 7); A = Matrix(7, 4); S = A*A' + S;",
    "A = Matrix(5, 5); S = Symmetric(L, 5); A = lu(S);",
    "A = Matrix(6, 6); T = Tridiagonal(6, storage=band); A = lu(T) - A;",
    "U = UpperTriangular(5); V = UnitUpper(5); A = Matrix(5, 5); A = inv(U)*inv(V)';",
    "L = LowerTriangular(5, storage=packed_columns); S = Symmetric(U, 5); L = chol(S);",
    "L = Banded(6, 6, 2, 0, storage=band); S = SymmetricBanded(L, 6, 2, storage=band); L = chol(S);",
    "A = Matrix(5, 5); B = Banded(5, 5, 1, 2, storage=band); D = Diagonal(5, storage=packed); "
    "C = Blocked([Symmetric(L, 2), Matrix(2, 3)], [Zero(3, 2), UnitLower(3)]); A = B*C - 2*D*C' + A;",
    "A = Matrix(5, 5); B = Matrix(5, 5); A = A*B - 3*(A*B*A)';",
    "a = Scalar(); x = Vector(5); A = Matrix(5, 5); a = x'*x; A = a*x*x' + 2*A; x = -A*x;",
    "A = Matrix(4, 4); I = Identity(4); L = UnitLower(4); Z = Zero(4, 4); A = I - L + Z*A;",
    "A = Matrix(4, 3); B = Matrix(3, 4); U = UpperTriangular(4); A = U*A + B' - U*(U*B');",
]  # fmt: skip


def build(programs, element):
    """All programs as one module, compiled once."""
    functions = []
    for number, program in enumerate(programs):
        functions.append(mlir_text.text(scalar_code.emit(lower(program), f"k{number}", element)))
    names = [f"k{number}" for number in range(len(programs))]
    return cpu.load(cpu.assemble("\n".join(functions), names), names)


@pytest.mark.parametrize(("element", "dtype", "tolerance"), [("f64", np.float64, 1e-13), ("f32", np.float32, 1e-5)])
def test_programs_against_numpy(element, dtype, tolerance):
    programs = list(map(parse, PROGRAMS))
    library = build(programs, element)
    for number, program in enumerate(programs):
        arrays = reference.sample(program, dtype, number)
        before = {name: array.copy() for name, array in arrays.items()}
        want = reference.evaluate(program, arrays)
        call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(arrays))(library.address(f"k{number}"))
        call(*(arrays[operand.name].ctypes.data for operand in program.operands))
        for operand in program.operands:
            got, right = reference.dense(operand, arrays[operand.name]), want[operand.name]
            assert np.abs(got - right).max() <= tolerance * max(np.abs(right).max(), 1.0), (str(program), operand.name)
            held = operand.storage.positions(operand.structure)
            outside = np.setdiff1d(np.arange(arrays[operand.name].size), held[held >= 0])
            assert np.isnan(arrays[operand.name].ravel()[outside]).all(), (str(program), operand.name)
            if operand.name not in program.written:
                assert np.array_equal(arrays[operand.name], before[operand.name], equal_nan=True)


def test_a_layout_is_read_through_its_positions():
    from lego_mlir.layout import gallery
    from lego_mlir.structured import structures as st
    from lego_mlir.structured.syntax import Operand, assign, program

    A = Operand("A", st.general(4, 4)).stored(gallery.morton(4, 4))
    B = Operand("B", st.general(4, 4)).stored("column_major")
    made = program(assign(B, A @ A))
    library = build([made], "f64")
    arrays = reference.sample(made)
    want = reference.evaluate(made, arrays)["B"]
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(library.address("k0"))
    call(*(arrays[operand.name].ctypes.data for operand in made.operands))
    assert np.allclose(reference.dense(B, arrays["B"]), want, rtol=1e-14)
