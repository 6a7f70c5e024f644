"""Tiles without a layout beside tiles with one, variables, masks, odd sizes, shared memory; what is refused."""

import numpy as np
import pytest

import lego_mlir as lego
from lego_mlir import LayoutError, Row, f2, f16, f32, gallery, i32, interp
from lego_mlir.engine.choice_reasons import reasons, written
from lego_mlir.engine.tile_graph import AssignTile, LoadTile, PinTile, StoreTile
from lego_mlir.errors import TraceError

N = 64
SQUARE = lego.Tensor(f32, Row(N, N))
ROWS = f2.Blocked((1, 4), (2, 16), (4, 1), order=(1, 0)).layout((N, N))
COLUMNS = f2.Blocked((1, 4), (32, 1), (1, 4), order=(1, 0)).layout((N, N))


def random_square(seed=0):
    return np.random.default_rng(seed).standard_normal((N, N)).astype(np.float32)


def launched(kernel, *arrays, block=128):
    report = interp.launch(kernel.mlir(), grid=1, block=block, args=[a.reshape(-1) for a in arrays])
    assert report.clean, report
    return report


def of(choice, kind):
    return [value for node, value in choice.values.items() if isinstance(node.operation, kind)]


def test_a_given_layout_is_an_anchor():
    @lego.kernel(grid=1, block=128)
    def mixed(x: SQUARE, y: SQUARE):
        both = lego.load(x, (N, N)).T + lego.load(x, ROWS)
        pinned = lego.convert(both, to=COLUMNS)
        assert pinned.layout.columns == COLUMNS.columns
        pinned.store(y)

    x, y = random_square(), np.zeros((N, N), np.float32)
    launched(mixed, x, y)
    np.testing.assert_array_equal(y, x.T + x)
    (pin,) = of(mixed.layout_choice, PinTile)
    assert written(pin.computed[0][0], (N, N), 4) == f"f2.Blocked((1, 4), (32, 1), (1, 4), order=(1, 0)).layout({N, N})"


def test_a_kernel_whose_layouts_are_given_has_no_choice():
    @lego.kernel(grid=1, block=128)
    def given(x: SQUARE, y: SQUARE):
        lego.load(x, ROWS).store(y)

    assert given.layout_choice is None


def test_layouts_that_a_person_gives_cost_no_less():
    def build(layout):
        @lego.kernel(grid=1, block=128)
        def transposed(x: SQUARE, y: SQUARE):
            tile = lego.load(x, (N, N))
            moved = lego.convert(tile, to=layout) if layout else tile
            (moved + lego.zeros(f32, (N, N))).T.store(y)

        return transposed

    free, given = (build(layout).layout_choice for layout in (None, COLUMNS))
    assert free.is_best and free.slots < given.slots
    lines = "\n".join(reasons(given))
    assert "a person gave it" in lines and "converted once to" in lines and "computing it again" in lines


def test_a_variable_has_one_layout_in_a_loop():
    @lego.kernel(grid=1, block=128)
    def summed(x: lego.Tensor(f32, Row(N, 4 * N)), y: lego.Tensor(f32, Row(N))):
        total = lego.register(lego.zeros(f32, (N, N)))
        for j in lego.range(4):
            total += lego.load(x, (N, N), at=(0, N * j))
        total.sum(axis=1).store(y)

    x = np.random.default_rng(0).integers(-9, 9, (N, 4 * N)).astype(np.float32)
    y = np.zeros(N, np.float32)
    launched(summed, x, y)
    np.testing.assert_array_equal(y, x.sum(1))
    (assigned,) = of(summed.layout_choice, AssignTile)
    assert assigned.node.weight == 4


@pytest.mark.parametrize("most", [8, 2**30])
def test_a_bound_of_data_is_no_number_of_rounds(most):
    @lego.kernel(grid=1, block=128)
    def sums(rounds: lego.Tensor(i32, Row(1), range=(0, most)), x: SQUARE, y: lego.Tensor(f32, Row(N))):
        total = lego.register(lego.zeros(f32, (N, N)))
        for _ in lego.range(lego.index(rounds[0])):
            total += lego.load(x, (N, N))
        total.get().sum(axis=1).store(y)

    x, y = random_square(), np.zeros(N, np.float32)
    launched(sums, np.int32([3]), x, y)
    np.testing.assert_allclose(y, 3 * x.sum(axis=1), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("most", "weight"), [(1 << 20, 16), (8, 8)])
def test_a_loop_whose_end_is_loaded_counts_as_few_turns(most, weight):
    """Whatever range is declared: it says what may be, not what is usual."""

    @lego.kernel(grid=1, block=128)
    def summed(n: lego.Tensor(i32, Row(1), range=(0, most + 1)), x: SQUARE, y: SQUARE):
        total = lego.register(lego.zeros(f32, (N, N)))
        for _ in lego.range(lego.index(n[0])):
            total += lego.load(x, (N, N))
        total.get().store(y)

    (assigned,) = of(summed.layout_choice, AssignTile)
    assert assigned.node.weight == weight


def test_indices_and_masks_follow_the_layouts_of_data():
    @lego.kernel(grid=1, block=128)
    def lower(x: SQUARE, y: SQUARE, z: lego.Tensor(i32, Row(N))):
        tile = lego.load(x, (N, N))
        kept = lego.where(tile.index(0) >= tile.index(1), tile, 0.0)
        kept.store(y)
        kept.argmax(axis=1).store(z)

    x, y, z = random_square(), np.zeros((N, N), np.float32), np.zeros(N, np.int32)
    launched(lower, x, y, z)
    np.testing.assert_array_equal(y, np.tril(x))
    np.testing.assert_array_equal(z, np.tril(x).argmax(1))


@pytest.mark.parametrize(("rows", "columns"), [(48, 96), (5, 80), (3, 192)])
def test_sizes_that_are_no_powers_of_two(rows, columns):
    matrix = lego.Tensor(f32, Row(rows, columns))

    @lego.kernel(grid=1, block=128)
    def shares(x: matrix, y: matrix, z: lego.Tensor(f32, Row(rows))):
        tile = lego.load(x, (rows, columns))
        total = tile.sum(axis=1)
        (tile - total[:, None]).store(y)
        total.store(z)

    x = np.random.default_rng(0).integers(-9, 9, (rows, columns)).astype(np.float32)
    y, z = np.zeros_like(x), np.zeros(rows, np.float32)
    launched(shares, x, y, z)
    np.testing.assert_array_equal(z, x.sum(1))
    np.testing.assert_array_equal(y, x - x.sum(1, keepdims=True))


def test_no_register_outside_of_a_box_is_loaded():
    """80 of 128 columns: 4 x 80 elements for 128 threads, of which none loads what is not there."""

    @lego.kernel(grid=1, block=128)
    def copied(x: lego.Tensor(f32, Row(64, 80)), y: lego.Tensor(f32, Row(64, 80))):
        lego.load(x, (64, 80)).store(y)

    x, y = np.arange(64 * 80, dtype=np.float32), np.zeros(64 * 80, np.float32)
    report = launched(copied, x, y)
    np.testing.assert_array_equal(x, y)
    loads = [s for s, _ in copied.trace().accesses() if type(s).__name__ == "Load"]
    assert 128 * sum(s.access.width for s in loads) == 64 * 80
    assert report.clean


def test_operands_in_shared_memory():
    @lego.kernel(grid=1, block=128)
    def squared(x: lego.Tensor(f16, Row(N, N)), y: SQUARE):
        tile = lego.shared(f16, gallery.xor_swizzle(N, N, 8, 1, 8))
        lego.load(x, (N, N)).store(tile)
        lego.barrier()
        lego.mma(lego.load(tile, (N, N)), tile.T, lego.zeros(f32, (N, N))).store(y)

    x = np.random.default_rng(0).integers(-3, 4, (N, N)).astype(np.float16)
    y = np.zeros((N, N), np.float32)
    launched(squared, x, y)
    np.testing.assert_array_equal(y, x.astype(np.float32) @ x.T.astype(np.float32))


def test_accesses_are_as_wide_as_is_proved():
    size = lego.size("N", min=1)

    @lego.kernel(grid=1, block=128)
    def odd_rows(x: lego.Tensor(f32, Row(N, size)), y: lego.Tensor(f32, Row(N, size))):
        lego.load(x, (N, N)).store(y)

    for value in of(odd_rows.layout_choice, LoadTile | StoreTile):
        assert value.node.operation.memory.widest == 4


def test_two_uses_that_conflict_are_named():
    @lego.kernel(grid=1, block=128)
    def divergent(x: SQUARE, y: SQUARE):
        with lego.when(lego.thread_id[0] < 64):
            both = lego.load(x, ROWS) + lego.zeros(f32, (N, N))
            lego.convert(both, to=COLUMNS).store(y)

    with pytest.raises(LayoutError, match=r"(?s)no layouts fit.*a tile with a layout.*lego.convert.*which conflict"):
        divergent.trace()


def test_a_reduction_over_warps_where_threads_diverge_is_refused():
    @lego.kernel(grid=1, block=128)
    def divergent(x: SQUARE, y: lego.Tensor(f32, Row(1))):
        with lego.when(lego.thread_id[0] < 64):
            y[0] = lego.load(x, (N, N)).sum()

    with pytest.raises(LayoutError, match=r"reduction.*threads diverge"):
        divergent.trace()


def test_a_function_that_changes_between_its_two_runs_is_refused():
    turns = []

    @lego.kernel(grid=1, block=128)
    def changing(x: SQUARE, y: SQUARE):
        turns.append(1)
        tile = lego.load(x, (N, N))
        (tile + tile if len(turns) > 1 else tile * tile).store(y)

    with pytest.raises(TraceError, match=r"traced twice.*add.*where.*mul"):
        changing.trace()


def refused(body, match, error=LayoutError, block=128):
    @lego.kernel(grid=1, block=block)
    def kernel(x: SQUARE, y: SQUARE):
        body(lego.load(x, (N, N)), x, y)

    with pytest.raises(error, match=match):
        kernel.trace()


def test_messages():
    refused(lambda tile, x, y: tile.layout, "its layout is asked for")
    refused(lambda tile, x, y: tile.registers, "its registers are asked for")
    refused(lambda tile, x, y: tile.reshape(3, 4), "as many elements")
    refused(lambda tile, x, y: tile.transpose((1, 1)), "names each of the axes")
    refused(lambda tile, x, y: tile.expand_dims(4), "outside 0..2")
    refused(lambda tile, x, y: tile.broadcast_to((N, 2 * N)), "cannot be broadcast")
    refused(lambda tile, x, y: tile + tile.sum(axis=1), "same number of axes")
    refused(lambda tile, x, y: tile.join(tile.T.reshape(N * N)), "join takes two tiles")
    refused(lambda tile, x, y: tile.split(), "last axis of size 2")
    refused(lambda tile, x, y: lego.load(x, (N, 0)), "tuple of positive ints")
    refused(lambda tile, x, y: lego.load(3, (N, N)), "takes a tensor, a shared tile")
    refused(lambda tile, x, y: tile.to(f16).store(y), "stored into y of f32", TraceError)
    refused(lambda tile, x, y: lego.register(tile).set(tile.to(f16)), "a variable of f32", TraceError)
    refused(lambda tile, x, y: None, "spread over whole warps", block=100)
    two_of_three = f2.Blocked((1, 4), (2, 16), (4, 1), order=(1, 0)).layout((N, N))
    refused(lambda tile, x, y: tile + lego.load(x, two_of_three), "warp 3 are held by no warp of the block", block=96)


@pytest.mark.parametrize("number", [32, 256])
def test_a_tile_of_indices_may_be_unused(number):
    @lego.kernel(grid=1, block=128)
    def ones(y: lego.Tensor(f32, Row(128))):
        lego.arange((number,))
        y[lego.thread_id[0]] = 1.0

    y = np.zeros(128, np.float32)
    launched(ones, y)
    np.testing.assert_array_equal(y, 1.0)
