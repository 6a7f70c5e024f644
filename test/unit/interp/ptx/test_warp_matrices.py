"""Products by wmma: every shape, layout and type against NumPy."""

import ml_dtypes
import numpy as np
import pytest
from ptx_kernels import entry

from lego_mlir.interp.ptx import emulate

SHAPES = {"m16n16k16": (16, 16, 16), "m32n8k16": (32, 8, 16), "m8n32k16": (8, 32, 16)}
TYPES = {  # the type of A and B, its dtype, registers of A and B by shape, the sum's type
    "f16": (np.float16, {"m16n16k16": (8, 8), "m32n8k16": (8, 8), "m8n32k16": (8, 8)}, "f32"),
    "bf16": (ml_dtypes.bfloat16, {"m16n16k16": (4, 4), "m32n8k16": (8, 2), "m8n32k16": (2, 8)}, "f32"),
    "s8": (np.int8, {"m16n16k16": (2, 2), "m32n8k16": (4, 1), "m8n32k16": (1, 4)}, "s32"),
}


def registers(prefix: str, first: int, count: int) -> str:
    names = ", ".join(f"%{prefix}{first + i}" for i in range(count))
    return f"{{{names}}}"


def kernel(shape: str, type_: str, left: str, right: str) -> str:
    _, counts, total = TYPES[type_]
    a, b = (registers("r", first, count) for first, count in zip((10, 20), counts[shape], strict=True))
    d = registers("f" if total == "f32" else "r", 30, 8)
    types = "f32.f32" if type_ == "f16" else f"{total}.{type_}.{type_}.{total}"
    m, n, k = SHAPES[shape]
    strides = {"left": k if left == "row" else m, "right": n if right == "row" else k}
    return entry(
        f"""mov.u32 %r1, {strides["left"]}; mov.u32 %r2, {strides["right"]}; mov.u32 %r3, {n};
wmma.load.a.sync.aligned.{left}.{shape}.global.{type_} {a}, [%rd1], %r1;
wmma.load.b.sync.aligned.{right}.{shape}.global.{type_} {b}, [%rd2], %r2;
wmma.load.c.sync.aligned.row.{shape}.global.{total} {d}, [%rd3], %r3;
wmma.mma.sync.aligned.{left}.{right}.{shape}.{types} {d}, {a}, {b}, {d};
wmma.store.d.sync.aligned.row.{shape}.global.{total} [%rd3], {d}, %r3; ret;""",
        "a b c",
    )


@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("left", "right"), [("row", "col"), ("col", "row")])
def test_products_are_right(shape, type_, left, right):
    m, n, k = SHAPES[shape]
    dtype, _, total = TYPES[type_]
    random = np.random.default_rng(0)
    a, b = (random.integers(-9, 9, size).astype(dtype) for size in ((m, k), (k, n)))
    c = random.integers(-9, 9, (m, n)).astype(np.float32 if total == "f32" else np.int32)
    wanted = a.astype(np.float64) @ b.astype(np.float64) + c
    arrays = [np.ascontiguousarray(x if way == "row" else x.T) for x, way in ((a, left), (b, right))]
    report = emulate(kernel(shape, type_, left, right), args=[*arrays, c], names=["a", "b", "c"], grid=1, block=32)
    assert report.clean
    assert np.array_equal(c, wanted)


def test_a_matrix_that_is_too_small_is_a_fault():
    arrays = [np.zeros(255, np.float16), np.zeros(256, np.float16), np.zeros(256, np.float32)]
    report = emulate(kernel("m16n16k16", "f16", "row", "col"), args=arrays, names=["a", "b", "c"], grid=1, block=32)
    assert "a[255] is outside" in report.faults[0].message
