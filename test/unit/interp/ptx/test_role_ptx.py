"""Warp roles and tile copies as PTX: right on both kinds of targets, and what the copy unit cannot do is refused."""

from pathlib import Path

import numpy as np
import pytest
from role_kernels import COLUMNS, ROWS, heads, staged, stored

import lego_mlir as lego
from lego_mlir import Row, f16, gallery, spec
from lego_mlir.errors import ToolchainError
from lego_mlir.hardware.targets import target_named
from lego_mlir.interp.ptx import PtxRun
from lego_mlir.interp.report import Kind
from lego_mlir.toolchain.ptxas import assemble, find

EXAMPLES = Path(__file__).parents[4] / "examples"
TARGETS = ("sm_80", "sm_90a")


def run(kernel, target, rows=ROWS, columns=COLUMNS, seed=0):
    x = np.random.default_rng(seed).standard_normal((rows, columns)).astype(np.float16)
    y = np.full((ROWS, COLUMNS), 7, np.float16)
    report = PtxRun(target, seed=seed)(kernel, {"x": x.reshape(-1), "y": y.reshape(-1)}, {})
    return report, x * np.float16(2), y


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("seed", "stages"), [(0, 2), (1, 2), (0, 7)])
def test_a_ring_between_a_producer_and_consumers(target, seed, stages):
    report, expected, y = run(staged(stages=stages), target, seed=seed)  # 7 stages are in dynamic shared memory
    assert report.faults == []
    assert np.array_equal(y, expected)


@pytest.mark.parametrize("target", TARGETS)
def test_elements_outside_of_the_tensor_are_zeros(target):
    report, expected, y = run(staged(rows=100, columns=200), target, 100, 200)
    assert report.faults == []
    assert np.array_equal(y[:100, :200], expected)
    assert not y[100:].any() and not y[:, 200:].any()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("planted", "kind"),
    [({"full_wait": False}, Kind.RACE), ({"arrival": False}, Kind.DEADLOCK), ({"early": True}, Kind.RACE)],
)
def test_planted_faults_are_found(target, planted, kind):
    report, _, _ = run(staged(**planted), target)
    assert kind in report.kinds(), [(fault.kind, fault.message) for fault in report.faults]


@pytest.mark.parametrize("target", TARGETS)
def test_sizes_may_be_known_at_launch(target):
    kernel = heads()
    for h, s in ((2, 100), (3, 7)):
        x = np.random.default_rng(h).standard_normal((h, s, 64)).astype(np.float16)
        y = np.zeros_like(x)
        report = PtxRun(target)(kernel, {"x": x.reshape(-1), "y": y.reshape(-1)}, {"H": h, "S": s})
        assert report.faults == []
        assert np.array_equal(x, y)


@pytest.mark.parametrize("target", TARGETS)
def test_shared_tiles_are_copied_to_global_memory(target):
    y = np.zeros((100, 64), np.float16)
    assert PtxRun(target)(stored(), {"y": y.reshape(-1)}, {}).faults == []
    assert np.array_equal(y, (np.arange(64) + (np.arange(100)[:, None] >= 64)).astype(np.float16))


@pytest.mark.skipif(find() is None, reason="needs ptxas")
@pytest.mark.parametrize("target", [*TARGETS, "sm_90"])
def test_ptxas_accepts_both_forms(target):
    for kernel in (staged(), stored()):
        text = kernel.compile(target=target).text
        assert ("cp.async.bulk.tensor.2d" in text) == (target != "sm_80")
        _, (resources,) = assemble(text, target_named(target))
        assert resources.spill_stores == resources.stack == 0


def test_registers_move_between_roles():
    @lego.kernel(grid=(1,), block=384)
    def moved(y: lego.Tensor(f16, Row(384))):
        with lego.warps(0, 4, registers=24):
            y[lego.thread_id[0]] = 1.0
        with lego.warps(4, 12, registers=240):
            y[lego.thread_id[0]] = 2.0

    text = moved.compile(target="sm_90a").text
    assert "setmaxnreg.dec.sync.aligned.u32 \t24" in text or "setmaxnreg.dec.sync.aligned.u32 24" in text
    assert "setmaxnreg.inc.sync.aligned.u32" in text
    assert "setmaxnreg" not in moved.compile(target="sm_80").text
    y = np.zeros(384, np.float16)
    assert PtxRun("sm_90a")(moved, {"y": y}, {}).faults == []
    assert (y[:128] == 1).all() and (y[128:] == 2).all()


def copied_twice(second):
    """One tensor in two copies of equal boxes, of two heights, of two widths, or with another access."""

    @lego.kernel(grid=(1,), block=32)
    def twice(x: lego.Tensor(f16, Row(128, 64)), y: lego.Tensor(f16, Row(32))):
        one, full = lego.shared(f16, gallery.xor_swizzle(64, 64, 8)), lego.barriers(2)
        rows, columns = {"rows": (32, 64), "columns": (64, 32)}.get(second, (64, 64))
        other = lego.shared(f16, gallery.xor_swizzle(rows, columns, 8) if columns == 64 else Row(rows, columns))
        lego.copy_async(x, one, at=(0, 0), barrier=full[0])
        full[0].arrive()
        lego.copy_async(x, other, at=(64, 0), barrier=full[1])
        full[1].arrive()
        full[0].wait()
        full[1].wait()
        added = x[0, lego.lane_id] if second == "access" else lego.f16(0.0)
        y[lego.lane_id] = one[1, lego.lane_id] + other[2, lego.lane_id] + added

    return twice


@pytest.mark.parametrize("second", ["same", "rows"])
@pytest.mark.parametrize("target", TARGETS)
def test_a_tensor_is_copied_in_several_places(target, second):
    x, y = np.arange(128 * 64).astype(np.float16) % 99, np.zeros(32, np.float16)
    assert PtxRun(target)(copied_twice(second), {"x": x, "y": y}, {}).faults == []
    assert np.array_equal(y, x[64:96] + x[66 * 64 : 66 * 64 + 32])


def test_a_tensor_has_one_map():
    with pytest.raises(ToolchainError, match=r"copies x in boxes of two forms, .64, 64. and .32, 64., .* as two"):
        copied_twice("columns").compile(target="sm_90a")
    with pytest.raises(
        ToolchainError, match=r"x is copied by a tensor map and accessed by memref.load as well; pass it"
    ):
        copied_twice("access").compile(target="sm_90a")


def refused(layout, tensor=None):
    @lego.kernel(grid=(1,), block=32)
    def copied(x: lego.Tensor(f16, Row(64, 64) if tensor is None else tensor), y: lego.Tensor(f16, Row(64))):
        tile, full = lego.shared(f16, layout), lego.barriers(1)
        lego.copy_async(x, tile, at=(0, 0), barrier=full[0])
        full[0].arrive()
        full[0].wait()
        y[lego.thread_id[0]] = tile[0, lego.thread_id[0]]

    copied.compile(target="sm_80")
    with pytest.raises(ToolchainError) as error:
        copied.compile(target="sm_90a")
    return str(error.value)


def test_layouts_that_the_copy_unit_cannot_write_are_refused_with_the_element():
    padded = refused(gallery.padded(64, 64, 8))
    assert "the tensor copy unit cannot write this tile of 64 x 64 elements" in padded
    assert "swizzle of 128 bytes element (1, 8) would be at byte 128, and the tile has it at 160" in padded
    assert "change the tile's layout, or copy without barrier=" in padded
    wrong = refused(gallery.xor_swizzle(64, 64, 8, 2))
    assert "element (2, 0) would be at byte 256, and the tile has it at 272" in wrong
    assert "strides must be multiples of 16 bytes" in refused(Row(64, 64), Row(64, 68))


@pytest.mark.parametrize("target", TARGETS)
def test_the_example_multiplies(target):
    kernel = spec.load(EXAMPLES / "warp_roles.py").kernels["product"]
    (m, k), (_, n) = (kernel.signature[name].layout.dims() for name in "ab")
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal(shape).astype(np.float16) for shape in ((m, k), (k, n)))
    c = np.zeros((m, n), np.float32)
    report = PtxRun(target)(kernel, {"a": a.reshape(-1), "b": b.reshape(-1), "c": c.reshape(-1)}, {})
    assert report.faults == []
    np.testing.assert_allclose(c, a.astype(np.float64) @ b, atol=1e-3)
