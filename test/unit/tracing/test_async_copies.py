"""`lego.copy_async` against NumPy: shapes, widths, masks; the interpreter reports tiles that are read too early."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from launching import launch, launch_emulated

import lego_mlir as lego
from lego_mlir import Col, Row, f16, f32, gallery, i8, i32
from lego_mlir.errors import LayoutError, TraceError
from lego_mlir.interp.ptx import PtxRun
from lego_mlir.interp.traced_kernels import run_kernel
from lego_mlir.toolchain import compile_kernel
from lego_mlir.tracing.trace.trace import AsyncCopy
from lego_mlir.tracing.words import async_copies


def copying(rows, columns, dtype=f16, tile=(32, 64), layout=None, waits=True, barrier=True, at=(0, 0)):
    @lego.kernel(grid=1, block=64)
    def k(a: lego.Tensor(dtype, Row(rows, columns)), b: lego.Tensor(dtype, Row(*tile))):
        shared = lego.shared(dtype, layout or Row(*tile), name="tile")
        lego.copy_async(a, shared, at=at)
        lego.commit_copies()
        if waits:
            lego.wait_copies()
        if barrier:
            lego.barrier()
        for row in lego.unroll(tile[0]):
            with lego.when(lego.thread_id.x < tile[1]):
                b[row, lego.thread_id.x] = shared[row, lego.thread_id.x]

    return k


@pytest.mark.parametrize(("dtype", "columns"), [(f16, 64), (f16, 72), (f32, 64), (i8, 64)], ids=str)
@pytest.mark.parametrize("rows", [32, 21])
def test_a_tile_arrives_with_zeros_past_the_end(dtype, columns, rows):
    kernel = copying(rows, columns, dtype)
    a = np.random.default_rng(0).integers(-100, 100, (rows, columns)).astype(dtype.numpy)
    _, b = launch(kernel, a, np.ones((32, 64), dtype.numpy))
    np.testing.assert_array_equal(b[:rows], a[:, :64])
    assert not b[rows:].any()
    assert {s.target.width * dtype.bytes for s in kernel.trace().statements() if isinstance(s, AsyncCopy)} == {16}


@pytest.mark.parametrize(("columns", "bytes_"), [(68, 8), (66, 4)])
def test_copies_are_as_wide_as_alignment_is_proved(columns, bytes_):
    kernel = copying(32, columns, layout=gallery.padded(32, 64, 4 if bytes_ == 8 else 2))
    assert {2 * s.origin.width for s in kernel.trace().statements() if isinstance(s, AsyncCopy)} == {bytes_}
    a = np.random.default_rng(0).normal(size=(32, columns)).astype("f2")
    np.testing.assert_array_equal(launch(kernel, a, np.zeros((32, 64), "f2"))[1], a[:, :64])


@pytest.mark.parametrize(("columns", "width"), [(72, 8), (68, 4), (66, 2)])
def test_copies_in_turns_are_as_wide_as_alignment_is_proved(columns, width):
    @lego.kernel(grid=1, block=96)
    def k(a: lego.Tensor(f16, Row(64, columns)), b: lego.Tensor(f16, Row(64, 64))):
        tile, full = lego.shared(f16, Row(64, 64), name="tile"), lego.barriers(1)
        with lego.warps(0, 1):
            lego.copy_async(a, tile, at=(0, 0), barrier=full[0])
            full[0].arrive()
        with lego.warps(1, 3):
            column = lego.warp_id * 32 + lego.lane_id
            full[0].wait()
            for row in lego.unroll(64):
                b[row, column] = tile[row, column]

    widths = {access.width for s, access in k.trace().accesses() if isinstance(s, AsyncCopy)}
    a = np.random.default_rng(0).integers(-100, 100, (64, columns)).astype(f16.numpy)
    _, b = launch(k, a, np.ones((64, 64), f16.numpy))
    assert widths == {width}
    np.testing.assert_array_equal(b, a[:, :64])


def test_a_swizzled_tile_has_no_bank_conflicts():
    kernel = copying(32, 64, layout=gallery.xor_swizzle(32, 64, vec=8))
    a = np.random.default_rng(0).normal(size=(32, 64)).astype("f2")
    np.testing.assert_array_equal(launch(kernel, a, np.zeros((32, 64), "f2"))[1], a)
    ptx = compile_kernel(kernel, target="sm_80").text
    assert "cp.async.cg.shared.global" in ptx
    assert "cp.async.wait_group" in ptx


@pytest.mark.parametrize(("missing", "fault"), [("waits", "async"), ("barrier", "no barrier between")])
def test_reading_too_early_is_reported(missing, fault):
    kernel = copying(32, 64, **{missing: False})
    with pytest.raises(AssertionError, match=fault):
        launch(kernel, np.ones((32, 64), "f2"), np.zeros((32, 64), "f2"))


def test_messages():
    for rows, columns, options, said in (
        (32, 65, {}, "no copies of 4, 8 or 16 bytes are proved"),
        (32, 64, {"at": (0,)}, "with an index for each"),
        (32, 64, {"layout": Col(32, 64)}, "let both be contiguous along rows"),
    ):
        with pytest.raises(LayoutError, match=said):
            copying(rows, columns, **options).trace()
    with pytest.raises(TraceError, match="the number of groups that may be in flight, got -1"):

        @lego.kernel(grid=1, block=32)
        def waiting(a: lego.Tensor(f32, Row(32))):
            lego.wait_copies(-1)

        waiting.trace()


ROWS = 24
PLACES = {  # the row of the tensor of row r of the tile, by the numbers of `order`: of this thread t, or of all
    "order[r]": (lambda order, r: lego.index(order[r]), lambda order, r, t: order[r]),
    "order[r] ^ 1": (lambda order, r: lego.index(order[r]) ^ 1, lambda order, r, t: order[r] ^ 1),
    "3 r % 24": (lambda order, r: 3 * r % ROWS, lambda order, r, t: 3 * r % ROWS),
    "order[0] + r": (lambda order, r: (lego.index(order[0]) + r) % ROWS, lambda order, r, t: (order[0] + r) % ROWS),
}
OWN = {
    "t": lambda order: lego.thread_id[0],
    "t // 32": lambda order: lego.thread_id[0] // 32,
    "order[t]": lambda order: lego.index(order[lego.thread_id[0] % ROWS]),
    "t & 1": lambda order: lego.thread_id[0] & 1,
    "order[0]": lambda order: lego.index(order[0]),
    "b": lambda order: lego.block_id[0],
}


def gathering(rows, columns, threads, dtype, place, layout=None, **words):
    @lego.kernel(grid=1, block=threads)
    def k(
        a: lego.Tensor(dtype, Row(ROWS, columns)),
        order: lego.Tensor(i32, Row(ROWS), range=(0, ROWS)),
        b: lego.Tensor(dtype, Row(rows, columns)),
    ):
        tile = lego.shared(dtype, layout or Row(rows, columns), name="tile")
        lego.copy_async(a, tile, at=place(order), **words)
        lego.commit_copies()
        lego.wait_copies()
        lego.barrier()
        for i in lego.range(lego.thread_id[0], rows * columns, threads):
            b[i // columns, i % columns] = tile[i // columns, i % columns]

    return k


@settings(max_examples=12, deadline=None)
@given(
    name=st.sampled_from(list(PLACES)),
    rows=st.sampled_from([1, 3, 8, 16]),
    dtype=st.sampled_from([f16, f32, i8]),
    vectors=st.sampled_from([1, 2, 8]),
    threads=st.sampled_from([32, 64, 96, 160]),
    seed=st.integers(0, 99),
)
def test_rows_are_gathered(name, rows, dtype, vectors, threads, seed):
    """Any function of the row, any number of threads, 16 bytes a lane."""
    columns, draws = 16 // dtype.bytes * vectors, np.random.default_rng(seed)
    of_row, wanted = PLACES[name]
    kernel = gathering(rows, columns, threads, dtype, lambda order: lambda r: (of_row(order, r), 0))
    a, order = draws.integers(-99, 99, (ROWS, columns)).astype(dtype.numpy), draws.integers(0, ROWS, ROWS)
    _, _, b = launch(kernel, a, order, np.zeros((rows, columns)))
    np.testing.assert_array_equal(b, a[[wanted(order, r, None) for r in range(rows)]])
    assert {s.target.width * dtype.bytes for s in kernel.trace().statements() if isinstance(s, AsyncCopy)} == {16}


def test_gathered_rows_in_ptx():
    kernel = gathering(8, 64, 96, f16, lambda order: lambda r: (lego.index(order[r]), 0), gallery.xor_swizzle(8, 64, 8))
    draws = np.random.default_rng(0)
    a, order = draws.integers(-99, 99, (ROWS, 64)), draws.integers(0, ROWS, ROWS)
    np.testing.assert_array_equal(launch_emulated(kernel, a, order, np.zeros((8, 64)))[2], a[order[:8]])


@pytest.mark.parametrize("name", OWN)
def test_an_index_is_the_same_for_all_threads_or_refused(name):
    """An `at` that differs between threads never copies other rows in silence."""
    kernel = gathering(8, 64, 64, f16, lambda order: (OWN[name](order), 0))
    if name not in ("order[0]", "b"):
        with pytest.raises(TraceError, match="copy_async"):
            kernel.trace()
        return
    a, order = np.random.default_rng(0).integers(-99, 99, (ROWS, 64)), np.full(ROWS, 5)
    first = 5 if name == "order[0]" else 0
    np.testing.assert_array_equal(launch(kernel, a, order, np.zeros((8, 64)))[2], a[first : first + 8])


def test_rows_are_not_gathered_by_a_copy_unit():
    with pytest.raises(LayoutError, match="the copy unit of sm_90 gathers none"):
        gathering(8, 64, 64, f16, lambda order: lambda r: (lego.index(order[r]), 0), blocks="all").trace()


@pytest.mark.parametrize("threads", [32, 64, 128])
@pytest.mark.parametrize("columns", [64, 70, 71, 128, 200])
def test_single_elements_are_copied_up_to_the_edge(threads, columns):
    """A column is inside for some threads of a copy; where threads do not divide the chunks, some have none."""
    N = lego.size("N", min=1, max=1000)

    @lego.kernel(grid=1, block=threads)
    def line(x: lego.Tensor(f32, Row(2, N)), y: lego.Tensor(f32, Row(64))):
        tile = lego.shared(f32, Row(2, 64))
        lego.copy_async(x, tile.part((1, 0), (1, 64)), at=(1, 64))
        lego.commit_copies()
        lego.wait_copies(0)
        lego.barrier()
        for n in lego.range(lego.thread_id.x, 64, threads):
            y[n] = tile[1, n]

    x = np.arange(1, 2 * columns + 1, dtype=np.float32)
    wanted = np.append(x[columns + 64 :][:64], np.zeros(max(0, 128 - columns), np.float32))[:64]
    for machine in (run_kernel, PtxRun("sm_80")):
        y = np.ones(64, np.float32)
        assert machine(line, {"x": x, "y": y}, {"N": columns}).clean
        np.testing.assert_array_equal(y, wanted)


@pytest.mark.parametrize("gathered", [False, True])
def test_copies_beside_tiles_without_a_layout_are_planned_once(monkeypatch, gathered):
    """The first run, which only records the tiles, leaves them out; the values are right all the same."""
    name = "copy_by_rows" if gathered else "copy_evenly"
    planned, whole = [], getattr(async_copies, name)
    monkeypatch.setattr(async_copies, name, lambda *given: planned.append(given) or whole(*given))

    @lego.kernel(grid=3, block=64)
    def scaled(x: lego.Tensor(f32, Row(96, 16)), y: lego.Tensor(f32, Row(96, 16))):
        first, tile = lego.block_id[0] * 32, lego.shared(f32, Row(32, 16))
        ones = lego.full(f32, (32, 16), 1.0)
        lego.copy_async(x, tile, at=(lambda r: (first + 31 - r, 0)) if gathered else (first, 0))
        lego.commit_copies()
        lego.wait_copies(0)
        lego.barrier()
        (lego.load(tile, (32, 16)) * 2.0 + ones).store(y, at=(first, 0))

    values = np.arange(96 * 16, dtype=np.float32).reshape(96, 16)
    found = scaled(values, check=True)
    rows = values.reshape(3, 32, 16)[:, ::-1] if gathered else values
    np.testing.assert_array_equal(found, rows.reshape(96, 16) * 2 + 1)
    assert len(planned) == 1
