"""The largest absolute value of a product: by mma.sync in the interpreter and on a CPU, by wgmma in the emulator."""

from types import SimpleNamespace

import numpy as np
import pytest
from gemm import launch, transformed
from ptx_runs import memories_of

import lego_mlir as lego
from lego_mlir import Col, Row, bf16, f8e4m3fn, f16, f32, i8, schedule
from lego_mlir.errors import UsageError
from lego_mlir.interp.ptx.traced_ptx import PtxRun
from lego_mlir.interp.traced_kernels import run_kernel
from lego_mlir.kernels import epilogues, matmul
from lego_mlir.kernels.cluster_k import ClusterK
from lego_mlir.kernels.matmul import ProductTile
from lego_mlir.kernels.split_k import SplitK

SCRIPT = "matmul_sm90.mlir"
SMALL = ProductTile(64, 64, 64, (4, 1))


def shifted(m, n):
    """max(|x + bias|), then the value scaled: elements outside of C would be as large as the bias."""
    return epilogues.bias(n).then(epilogues.amax()).then(epilogues.scale())


def operands(m, n, largest=0.0):
    draw = np.random.default_rng(n)
    return {"bias": draw.integers(-400, 400, n).astype(np.float32), "amax": np.float32([largest]), "alpha": 0.5}


def emulated(kernel, a, b, c, given, parameters, sizes=None):
    """C, and the operands after the run of the emitted PTX."""
    arrays = {x: np.array(v).ravel() if np.ndim(v) else v for x, v in given.items()}
    arrays = {"a": a.ravel(), "b": np.ravel(b, "F").copy(), "c": c, **arrays}
    report = PtxRun("sm_90a", SCRIPT, {"stages": 2, **parameters})(kernel, arrays, sizes or {})
    assert report.clean, [str(fault) for fault in report.faults]
    return arrays


CASES = [
    (f16, f16, (64, 64, 64), ProductTile(64, 64, 64, (4, 1)), {}),
    (bf16, bf16, (136, 136, 72), ProductTile(128, 64, 64, (8, 1)), {}),
    (f16, f32, (72, 72, 72), SMALL, {"dependent": True}),
    (f8e4m3fn, bf16, (72, 80, 144), ProductTile(64, 64, 128, (4, 1)), {}),
    (i8, f16, (65, 80, 144), ProductTile(64, 64, 128, (4, 1)), {}),
    (f16, f16, (40, 136, 72), ProductTile(64, 64, 64, (1, 4)), {"transposed": True}),
    (f16, f16, (200, 64, 72), ProductTile(128, 64, 64, (8, 1)), {"cluster": 2}),
]  # fmt: skip


@pytest.mark.parametrize(("dtype", "result", "size", "tiling", "parameters"), CASES)
def test_warpgroups_count_all_elements_and_no_others(dtype, result, size, tiling, parameters):
    m, n, k = size
    kernel = matmul.build(
        m, n, k, dtype, b=Col(k, n), result=result, tiling=tiling, blocks=2, order="row", epilogue=shifted(m, n),
    )  # fmt: skip
    draw = np.random.default_rng(m)
    a, b = (draw.integers(-2, 3, dims).astype(dtype.numpy) for dims in ((m, k), (k, n)))
    given = operands(m, n, 1e6 if parameters else 0.0)
    found = emulated(kernel, a, b, np.zeros(m * n, result.numpy), given, parameters)
    sums = a.astype(np.float32) @ b.astype(np.float32) + given["bias"]
    np.testing.assert_array_equal(found["c"].reshape(m, n), (sums * 0.5).astype(result.numpy))
    assert found["amax"][0] == max(given["amax"][0], np.abs(sums).max())


def test_one_kernel_of_a_class_counts_at_every_size():
    m, n, k = (lego.size(name, min=1, max=65536, multiple_of=d) for name, d in zip("MNK", (1, 8, 8), strict=True))
    order = schedule.grouped(lego.cdiv(m, 64), lego.cdiv(n, 64), rows=2)
    kernel = matmul.build(
        m, n, k, f16, b=Col(k, n), result=f16, tiling=SMALL, order=order, blocks=2, epilogue=shifted(m, n)
    )
    draw = np.random.default_rng(0)
    for size in ((1, 8, 8), (136, 72, 72)):
        rows, columns, depth = size
        a, b = (draw.integers(-2, 3, dims).astype(np.float16) for dims in ((rows, depth), (depth, columns)))
        given = operands(rows, columns)
        found = emulated(
            kernel, a, b, np.zeros(rows * columns, np.float16), given, {}, dict(zip("MNK", size, strict=True))
        )
        assert found["amax"][0] == np.abs(a.astype(np.float32) @ b.astype(np.float32) + given["bias"]).max()


def test_the_largest_of_several_values():
    """Before and after an activation; the second one is that of the result."""
    both = epilogues.amax("before").then(epilogues.relu()).then(epilogues.amax("after"))
    kernel = matmul.build(72, 72, 64, f16, b=Col(64, 72), result=f32, tiling=SMALL, epilogue=both)
    a, b = -np.ones((72, 64), np.float16), np.ones((64, 72), np.float16)
    a[3, 0] = 3
    b[0] = 40  # one row of positive sums
    found = emulated(
        kernel, a, b, np.zeros(72 * 72, np.float32), dict.fromkeys(("before", "after"), np.float32([0.0])), {}
    )
    sums = a.astype(np.float32) @ b.astype(np.float32)
    assert (float(found["before"][0]), float(found["after"][0])) == (np.abs(sums).max(), sums.max())
    assert sums.max() < np.abs(sums).max()


def test_nan_is_the_largest():
    kernel = matmul.build(64, 64, 64, f16, b=Col(64, 64), result=f16, tiling=SMALL, epilogue=epilogues.amax())
    a, b = np.ones((64, 64), np.float16), np.ones((64, 64), np.float16)
    a[5, 5] = np.nan
    found = emulated(kernel, a, b, np.zeros(64 * 64, np.float16), {"amax": np.float32([np.inf])}, {})
    assert np.isnan(found["amax"][0])


def built(m=70, n=72, k=64, c=Row, **given):
    return matmul.build(
        m, n, k, f16, b=Col(k, n), c=c(m, n), **{"result": f16, "tiling": ProductTile(32, 64, 32, (1, 2)), **given}
    )


@pytest.mark.parametrize(("c", "blocks"), [(Row, None), (Col, 2)])
@pytest.mark.parametrize("script", [None, "matmul_sm80.mlir"])
def test_mma_sync_counts_in_the_interpreter(script, c, blocks):
    kernel = built(c=c, blocks=blocks, epilogue=shifted(70, 72))
    draw, given = np.random.default_rng(1), operands(70, 72)
    a, b = draw.integers(-2, 3, (70, 64)), draw.integers(-2, 3, (64, 72))
    amax = given["amax"]
    sizes = a, b, np.zeros((70, 72)), given["bias"]
    arrays = [*sizes, amax, np.float32(0.5)]
    text = transformed(kernel, script, target="sm_80", **({"stages": 2} if script else {}))
    whole = SimpleNamespace(layout=None)  # passed as it is, to be read after the launch
    report, found = launch(SimpleNamespace(params=[*kernel.params[:4], whole, whole]), text, *arrays)
    assert report.clean, [str(fault) for fault in report.faults]
    expected, largest = kernel.expected(a, b, given["bias"], np.zeros(1, np.float32), np.float32(0.5))
    np.testing.assert_array_equal(found, expected)
    assert amax[0] == largest[0] == np.abs(a @ b + given["bias"]).max()


def test_a_call_updates_the_maximum():
    kernel = built(epilogue=epilogues.gelu().then(epilogues.amax()))
    draw = np.random.default_rng(2)
    a, b = (draw.standard_normal(dims).astype(np.float16) for dims in ((70, 64), (64, 72)))
    amax = np.float32([0.5])
    kernel(a, np.asfortranarray(b), np.zeros((70, 72), np.float16), amax, check=True)
    expected, largest = kernel.expected(a, b, np.float32([0.5]))
    assert expected.shape == (70, 72)
    np.testing.assert_allclose(amax, largest, rtol=1e-5)


@pytest.mark.parametrize("split", [SplitK(2), ClusterK(2)], ids=str)
def test_the_largest_of_the_whole_sums_is_kept_with_k_in_parts(split):
    kernel = built(split=split, epilogue=epilogues.amax())
    draw = np.random.default_rng(3)
    a, b = draw.integers(-2, 3, (70, 64)), draw.integers(-2, 3, (64, 72))
    given = {"a": a, "b": b, "amax": [0.5]}
    given |= {p.name: np.zeros(p.layout.dims()) for p in kernel.params if p.name in ("partial", "counters")}
    memories = memories_of(kernel, given)
    report = run_kernel(kernel, memories, counts=False)
    assert report.clean, [str(fault) for fault in report.faults]
    assert memories["amax"][0] == np.abs(a @ b).max()


def test_an_operand_has_one_name():
    with pytest.raises(UsageError, match="epilogues with two operands named amax; name one of them otherwise"):
        epilogues.amax().then(epilogues.amax())
