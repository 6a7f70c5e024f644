"""`x.copy_out`, and tiles whose columns are any multiple of 8: values equal NumPy's on three machines."""

import re

import numpy as np
import pytest

import lego_mlir as lego
from lego_mlir import Row, f2, f16, f32
from lego_mlir.errors import LayoutError
from lego_mlir.interp.ptx import PtxRun
from lego_mlir.interp.traced_kernels import run_kernel
from lego_mlir.toolchain import compile_kernel
from lego_mlir.tracing.spread.copied_stores import buffers, lines, shares
from lego_mlir.tracing.trace.shared_lines import ring_layout

ROWS = 64
MACHINES = {
    "interpreter": lambda kernel, given: run_kernel(kernel, given, counts=False),
    "sm_80": lambda kernel, given: PtxRun(target="sm_80")(kernel, given, {}),
    "sm_90a": lambda kernel, given: PtxRun(target="sm_90a")(kernel, given, {}),
}
COPYING = [name for name in MACHINES if name != "sm_80"]  # tile copies to memory are sm_90's


def copied(columns, dtype=f16, count=2, *, rows=ROWS, outside=0):
    """2 x, loaded as an accumulator of `wgmma` and copied out; the tensor ends before the tile does."""
    layout = f2.MmaSync((4, 1)).layout((ROWS, columns))

    @lego.kernel(grid=1, block=128)
    def kernel(x: lego.Tensor(dtype, Row(ROWS, columns)), y: lego.Tensor(dtype, Row(rows, columns - outside))):
        through = lego.shared(dtype, buffers(dtype, ROWS, count, columns))
        (lego.load(x, layout) * 2.0).copy_out(y, at=(0, 0), through=through)

    return kernel


def arrays(kernel, seed=0):
    rng = np.random.default_rng(seed)
    return {p.name: rng.integers(-8, 9, int(p.size)).astype(p.dtype.numpy) for p in kernel.params}


@pytest.mark.parametrize("machine", COPYING)
@pytest.mark.parametrize(("columns", "dtype", "count"), [(64, f16, 2), (80, f16, 2), (96, f16, 3), (200, f16, 2),
                                                         (48, f32, 2), (80, f32, 4)])  # fmt: skip
def test_a_tile_is_copied_out(columns, dtype, count, machine):
    kernel = copied(columns, dtype, count)
    given = arrays(kernel)
    report = MACHINES[machine](kernel, given)
    assert report.clean, report.faults[0]
    np.testing.assert_array_equal(given["y"], 2 * given["x"])


def by_groups(rows, columns, warps, count, transposed):
    """2 x in two turns, by groups of 4 warps that have rows of their own, or columns."""
    shape = (columns, rows) if transposed else (rows, columns)
    layout = f2.MmaSync((warps, 1)).layout(shape)
    own = shares(f2.shape_ops.trans(layout, (1, 0)) if transposed else layout, LINE)

    @lego.kernel(grid=1, block=32 * warps)
    def kernel(x: lego.Tensor(f16, Row(2 * rows, columns)), y: lego.Tensor(f16, Row(2 * rows, columns))):
        through = lego.shared(f16, buffers(f16, own.buffer_rows, count))
        for turn in lego.range(2):
            if transposed:
                tile = lego.load(x.T, layout, at=(0, turn * rows)).T
            else:
                tile = lego.load(x, layout, at=(turn * rows, 0))
            (tile * 2.0).copy_out(y, at=(turn * rows, 0), through=through)

    return kernel, own


LINE = 64
GROUPS = [
    (128, 64, 8, 2, False), (256, 96, 8, 1, False), (192, 128, 4, 3, False), (256, 64, 8, 3, False),
    (64, 128, 8, 2, True), (96, 256, 8, 1, True), (40, 128, 4, 2, True),
]  # fmt: skip


@pytest.mark.parametrize("machine", COPYING)
@pytest.mark.parametrize("shape", GROUPS)
def test_groups_of_warps_copy_what_is_theirs(shape, machine):
    kernel, own = by_groups(*shape)
    assert own.groups == shape[2] // 4
    given = arrays(kernel)
    report = MACHINES[machine](kernel, given)
    assert report.clean, report.faults[0]
    np.testing.assert_array_equal(given["y"], 2 * given["x"])


@pytest.mark.parametrize("shape", [GROUPS[0], GROUPS[4]])
def test_no_group_waits_for_another(shape):
    kernel, _ = by_groups(*shape)
    text = compile_kernel(kernel, target="sm_90a").text
    assert re.findall(r"bar(?:rier)?\.sync\s+(?:0|%r\d+);", text) == []  # none of all threads
    assert len(re.findall(r"bar(?:rier)?\.sync\s+%r\d+, 128", text)) == text.count("bar")


@pytest.mark.parametrize(("left_out", "fault"), [("wait_copies", "not waited for"), ("meet", "race|fence|waited")])
def test_a_word_of_the_copies_left_out_is_reported(monkeypatch, left_out, fault):
    from lego_mlir.tracing.spread import copied_stores
    from lego_mlir.tracing.words import control

    module, name = (copied_stores, left_out) if left_out == "wait_copies" else (control, "barrier")
    monkeypatch.setattr(module, name, lambda *_, **__: None)
    kernel, _ = by_groups(128, 128, 8, 2, False)
    report = MACHINES["sm_90a"](kernel, arrays(kernel))
    assert report.faults
    assert re.search(fault, str(report.faults[0]))


@pytest.mark.parametrize("machine", COPYING)
def test_what_is_outside_of_the_tensor_is_not_stored(machine):
    kernel = copied(96, rows=40, outside=16)
    given = arrays(kernel)
    report = MACHINES[machine](kernel, given)
    assert report.clean, report.faults[0]
    np.testing.assert_array_equal(given["y"].reshape(40, 80), 2 * given["x"].reshape(64, 96)[:40, :80])


def test_its_machine_code_stores_matrices_and_tiles():
    text = compile_kernel(copied(64), target="sm_90a").text
    assert "cp.async.bulk.tensor" in text


@pytest.mark.parametrize("columns", [8, 24, 64, 80, 200, 256])
def test_lines_cover_the_columns(columns):
    line = min(64, columns)
    found = lines(columns, line)
    assert sorted({c for first in found for c in range(first, first + line)}) == list(range(columns))
    assert len(found) == -(-columns // line)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("columns", [8, 24, 80, 96, 200])
def test_boxed_tiles_are_loaded_summed_and_stored_with_masks(columns, machine):
    layout = f2.MmaSync((4, 1)).layout((ROWS, columns))

    @lego.kernel(grid=1, block=128)
    def kernel(
        x: lego.Tensor(f32, Row(ROWS + 1, columns + 3)), y: lego.Tensor(f32, Row(ROWS, columns)),
        s: lego.Tensor(f32, Row(columns)),
    ):  # fmt: skip
        tile = lego.load(x, layout, at=(1, 3))
        tile.store(y)
        sums = tile.sum(axis=0)
        sums.store(s)

    given = arrays(kernel)
    report = MACHINES[machine](kernel, given)
    assert report.clean, report.faults[0]
    part = given["x"].reshape(ROWS + 1, columns + 3)[1:, 3:]
    np.testing.assert_array_equal(given["y"].reshape(ROWS, columns), part)
    np.testing.assert_array_equal(given["s"], part.sum(0))


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(("columns", "depth"), [(24, 64), (24, 48), (96, 80), (200, 64)])
def test_a_product_of_any_multiple_of_8_columns(columns, depth, machine):
    parent = f2.MmaSync((4, 1))
    layout, left = parent.layout((ROWS, columns)), f2.MmaOperand(0, parent).layout((ROWS, depth))

    tile = ring_layout(1, columns, depth, 2) if depth == 64 else Row(columns, depth)

    @lego.kernel(grid=1, block=128)
    def kernel(
        a: lego.Tensor(f16, Row(ROWS, depth)), b: lego.Tensor(f16, Row(columns, depth)),
        c: lego.Tensor(f32, Row(ROWS, columns)),
    ):  # fmt: skip
        tb = lego.shared(f16, tile)
        for step in lego.range(columns * depth // 128):
            place = step * 128 + lego.thread_id.x
            tb[place // depth, place % depth] = b[place // depth, place % depth]
        lego.barrier()
        lego.mma(lego.load(a, left), tb.T, lego.zeros(f32, layout)).store(c)

    given = arrays(kernel)
    report = MACHINES[machine](kernel, given)
    assert report.clean, report.faults[0]
    a, b = given["a"].reshape(ROWS, depth).astype("f4"), given["b"].reshape(columns, depth).astype("f4")
    np.testing.assert_array_equal(given["c"].reshape(ROWS, columns), a @ b.T)
    if machine == "sm_90a" and depth == 64:
        assert re.search(rf"wgmma\.mma_async.*n{columns}k16", compile_kernel(kernel, target="sm_90a").text)


@pytest.mark.parametrize(
    ("rows", "line"), [(32, 64), (96, 64), (128, 128)], ids=["less than one", "a part", "columns of two lines"]
)
def test_buffers_of_another_shape(rows, line):
    layout = f2.MmaSync((4, 1)).layout((ROWS, 96))

    @lego.kernel(grid=1, block=128)
    def kernel(x: lego.Tensor(f16, Row(ROWS, 96)), y: lego.Tensor(f16, Row(ROWS, 96))):
        lego.load(x, layout).copy_out(y, at=(0, 0), through=lego.shared(f16, Row(rows, line)))

    with pytest.raises(LayoutError, match="copy_out: a tile of 64 x 96 goes through buffers of 64 rows and at"):
        kernel.trace()
