"""Matrices of a warp: loads, products, elementwise operations and stores against NumPy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lego_mlir import interp
from lego_mlir.errors import InterpreterError
from lego_mlir.interp import Kind

DTYPES = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "i8": np.int8, "i32": np.int32}
SHAPES = {  # the types of operands and result: m, k, n
    ("f16", "f32"): (16, 16, 16),
    ("f16", "f16"): (32, 16, 8),
    ("f64", "f64"): (8, 4, 8),
    ("i8", "i32"): (16, 16, 16),
}


WHOLE = 48
"""Rows and columns of the matrices of which windows are multiplied."""


def kernel(body, *memrefs, module=""):
    arguments = ", ".join(f"%m{n}: {memref}" for n, memref in enumerate(memrefs))
    return f"""
{module}
gpu.module @m {{ gpu.func @k({arguments}) kernel {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %t = gpu.thread_id x
{body}
    gpu.return }} }}"""


def random(shape, dtype, seed=0):
    numbers = np.random.default_rng(seed).integers(-4, 5, shape)
    return (numbers / (1 if np.dtype(dtype).kind == "i" else 4)).astype(dtype)


@given(
    st.sampled_from(list(SHAPES)), st.booleans(), st.booleans(), st.booleans(),
    st.integers(0, 3), st.integers(0, 5), st.sampled_from(["ui", "si"]),
)  # fmt: skip
@settings(max_examples=40)
def test_a_product_of_windows(types, a_turned, b_turned, c_turned, row, column, signed):
    """c = a @ b + c on windows of larger matrices, each of them stored by rows or by columns."""
    (kind, total), (m, k, n) = types, SHAPES[types]
    element = signed + "8" if kind == "i8" else kind
    shapes = ((m, k), (k, n), (m, n))
    turned = (a_turned, b_turned, c_turned)
    matrices = [
        f'!gpu.mma_matrix<{rows}x{columns}x{type_}, "{role}Op">'
        for (rows, columns), type_, role in zip(shapes, (element, element, total), "ABC", strict=True)
    ]
    memrefs = [f"memref<{WHOLE}x{WHOLE}x{t}>" for t in (kind, kind, total)]
    flags = [f"{{leadDimension = {WHOLE} : index{', transpose' if by_columns else ''}}}" for by_columns in turned]
    body = f"%i = arith.constant {row} : index\n%j = arith.constant {column} : index\n"
    for number, (flag, memref, matrix) in enumerate(zip(flags, memrefs, matrices, strict=True)):
        body += f"%x{number} = gpu.subgroup_mma_load_matrix %m{number}[%i, %j] {flag} : {memref} -> {matrix}\n"
    body += f"""
    %d = gpu.subgroup_mma_compute %x0, %x1, %x2 : {matrices[0]}, {matrices[1]} -> {matrices[2]}
    gpu.subgroup_mma_store_matrix %d, %m2[%i, %j] {flags[2]} : {matrices[2]}, {memrefs[2]}"""
    a, b, c = (random((WHOLE, WHOLE), DTYPES[t], seed) for seed, t in enumerate((kind, kind, total)))
    windows = []
    for array, shape, by_columns in zip((a, b, c), shapes, turned, strict=True):
        rows, columns = shape[::-1] if by_columns else shape
        window = array[row : row + rows, column : column + columns]
        windows.append(window.T if by_columns else window)
    wide = [np.ascontiguousarray(window) for window in windows]
    if signed == "ui" and kind == "i8":
        wide[:2] = [window.view(np.uint8) for window in wide[:2]]
    expected = wide[0].astype(np.float64) @ wide[1].astype(np.float64) + wide[2].astype(np.float64)
    report = interp.launch(kernel(body, *memrefs), grid=1, block=32, args=[a, b, c])
    assert report.clean, report.faults
    assert (windows[2].astype(np.float64) == expected.astype(DTYPES[total]).astype(np.float64)).all()


def square():
    return random((16, 16), np.float32)


MATRIX = '!gpu.mma_matrix<16x16xf32, "COp">'
LEAD = "{leadDimension = 16 : index}"
LOAD = f"%a = gpu.subgroup_mma_load_matrix %m0[%c0, %c0] {LEAD} : memref<16x16xf32> -> {MATRIX}\n"
STORE = f"gpu.subgroup_mma_store_matrix %r, %m0[%c0, %c0] {LEAD} : {MATRIX}, memref<16x16xf32>\n"


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ("addf %a, %k", lambda a: a + 3), ("subf %a, %k", lambda a: a - 3), ("mulf %a, %k", lambda a: a * 3),
        ("divf %a, %k", lambda a: a / np.float32(3)), ("maxf %a, %k", lambda a: np.maximum(a, 3)),
        ("minf %a, %k", lambda a: np.minimum(a, 3)), ("negatef %a", lambda a: -a),
    ],
)  # fmt: skip
def test_elementwise(operation, expected):
    a = random((16, 16), np.float32) * 4
    operands = ", ".join([MATRIX] * operation.count("%"))
    body = (
        LOAD
        + f"""
    %three = arith.constant 3.0 : f32
    %k = gpu.subgroup_mma_constant_matrix %three : {MATRIX}
    %r = gpu.subgroup_mma_elementwise {operation} : ({operands}) -> {MATRIX}
    """
        + STORE
    )
    wanted = expected(a.copy())
    report = interp.launch(kernel(body, "memref<16x16xf32>"), grid=1, block=32, args=[a])
    assert report.clean and (a == wanted).all()


def test_a_matrix_is_carried_by_loops_and_its_elements_are_read_by_lanes():
    body = (
        LOAD
        + f"""
    %c4 = arith.constant 4 : index
    %s = scf.for %i = %c0 to %c4 step %c1 iter_args(%x = %a) -> ({MATRIX}) {{
      %y = gpu.subgroup_mma_elementwise addf %x, %a : ({MATRIX}, {MATRIX}) -> {MATRIX}
      scf.yield %y : {MATRIX}
    }}
    %e = gpu.subgroup_mma_extract_thread_local %s[%c2] : {MATRIX} -> f32
    %z = arith.negf %e : f32
    %r = gpu.subgroup_mma_insert_thread_local %z, %s[%c2] : f32, {MATRIX} -> {MATRIX}
    """
        + STORE
    )
    a = random((16, 16), np.float32)
    wanted = 5 * a
    assert interp.launch(kernel(body, "memref<16x16xf32>"), grid=1, block=32, args=[a]).clean
    changed = a != wanted
    assert (a[changed] == -wanted[changed]).all()
    assert changed.sum() == 32 - (wanted.reshape(32, 8)[:, 2] == 0).sum()  # one element of each lane


def test_a_load_beyond_the_matrix_and_a_partial_warp_are_faults():
    outside = LOAD.replace("[%c0, %c0]", "[%c2, %c0]").replace("%a =", "%r =")
    report = interp.launch(kernel(outside, "memref<16x16xf32>"), grid=1, block=32, args=[square()])
    assert report.kinds() == {Kind.OUT_OF_BOUNDS}
    partial = "%some = arith.cmpi slt, %t, %c2 : index\nscf.if %some {\n" + LOAD + "}"
    report = interp.launch(kernel(partial, "memref<16x16xf32>"), grid=1, block=32, args=[square()])
    assert report.kinds() == {Kind.SHUFFLE}
    assert "2 of the 32 lanes of a warp reach this load of a matrix" in report.faults[0].message


def test_two_warps_that_store_one_matrix_race():
    report = interp.launch(
        kernel(LOAD + STORE.replace("%r", "%a"), "memref<16x16xf32>"), grid=1, block=64, args=[square()]
    )
    assert Kind.RACE in report.kinds()


def test_blocks_in_clusters():
    """Every block stores its place; the size is the kernel's own."""
    names = [f"{name} {axis}" for name in ("id", "block_id", "dim", "dim_blocks") for axis in "xy"]
    body = "%b = gpu.block_id x\n" + "".join(
        f"""
    %n{i} = gpu.cluster_{name}
    %v{i} = arith.index_cast %n{i} : index to i32
    %p{i} = arith.constant {i} : index
    memref.store %v{i}, %m0[%b, %y, %p{i}] : memref<4x2x8xi32>"""
        for i, name in enumerate(names)
    )
    body = "%y = gpu.block_id y\n" + body
    attribute = "kernel attributes {known_cluster_size = array<i32: 2, 2, 1>} {"
    text = kernel(body, "memref<4x2x8xi32>").replace("kernel {", attribute)
    x = np.zeros((4, 2, 8), np.int32)
    assert interp.launch(text, grid=(4, 2), block=1, args=[x]).clean
    for bx in range(4):
        for by in range(2):
            assert x[bx, by].tolist() == [bx // 2, 0, bx % 2, by, 2, 1, 2, 2]
    plain = np.zeros((4, 2, 8), np.int32)
    assert interp.launch(kernel(body, "memref<4x2x8xi32>"), grid=(4, 2), block=1, args=[plain]).clean
    assert plain[3, 1].tolist() == [3, 1, 0, 0, 4, 2, 1, 1]
    with pytest.raises(InterpreterError, match=r"clusters of \(2, 2, 1\) blocks do not divide the grid"):
        interp.launch(text, grid=(3, 2), block=1, args=[x])
