"""Scans, sorts, gathers and tiles of indices without layouts: values are NumPy's, and loops and branches hold."""

import numpy as np
import pytest

import lego_mlir as lego
from lego_mlir import Row, f16, f32, i32, interp
from lego_mlir.errors import TraceError

SHAPE, BLOCK = (16, 64), 128


def run(kernel, *arrays):
    report = interp.launch(kernel.mlir(), grid=1, block=BLOCK, args=[a.reshape(-1) for a in arrays])
    assert report.clean, report
    return kernel.layout_choice


def numbers(seed=0, shape=SHAPE, dtype=np.float32):
    return np.random.default_rng(seed).permutation(shape[0] * shape[1]).reshape(shape).astype(dtype)


WORDS = {
    "cumsum": (lambda x, axis: x.cumsum(axis), lambda x, axis: x.cumsum(axis)),
    "from the end": (
        lambda x, axis: x.cumsum(axis, reverse=True),
        lambda x, axis: np.flip(np.flip(x, axis).cumsum(axis), axis),
    ),
    "of integers": (
        lambda x, axis: x.to(i32).cumsum(axis, reverse=True).to(f32),
        lambda x, axis: np.flip(np.flip(x, axis).cumsum(axis), axis),
    ),
    "sort": (lambda x, axis: x.sort(axis), np.sort),
    "flip": (lambda x, axis: x.flip(axis), np.flip),
    "argsort": (lambda x, axis: x.argsort(axis).to(f32), np.argsort),
}


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("word", WORDS)
def test_orders_along_an_axis(word, axis):
    ours, numpys = WORDS[word]

    @lego.kernel(grid=1, block=BLOCK)
    def ordered(x: lego.Tensor(f32, Row(*SHAPE)), y: lego.Tensor(f32, Row(*SHAPE))):
        (ours(lego.load(x, SHAPE) + 1, axis) * 2).store(y)

    x, y = numbers(), np.zeros(SHAPE, np.float32)
    run(ordered, x, y)
    np.testing.assert_array_equal(y, numpys(x + 1, axis) * 2)


def test_a_scan_of_pairs_has_two_results():
    @lego.kernel(grid=1, block=BLOCK)
    def recurrence(
        a: lego.Tensor(f32, Row(*SHAPE)), b: lego.Tensor(f32, Row(*SHAPE)), y: lego.Tensor(f32, Row(*SHAPE))
    ):
        pair = lego.load(a, SHAPE), lego.load(b, SHAPE)
        factor, value = lego.scan(pair, 1, lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]))
        (factor + value.T.T).store(y)

    a, b = (np.random.default_rng(k).integers(0, 2, SHAPE).astype(np.float32) for k in (0, 1))
    y, h, wanted = np.zeros(SHAPE, np.float32), 0, np.zeros(SHAPE, np.float32)
    run(recurrence, a, b, y)
    for k in range(SHAPE[1]):
        h = a[:, k] * h + b[:, k]
        wanted[:, k] = a[:, : k + 1].prod(1) + h
    np.testing.assert_array_equal(y, wanted)


@pytest.mark.parametrize("axis", [0, 1])
def test_first_elements_and_their_places(axis):
    shape = tuple(4 if k == axis else n for k, n in enumerate(SHAPE))

    @lego.kernel(grid=1, block=BLOCK)
    def greatest(x: lego.Tensor(f32, Row(*SHAPE)), y: lego.Tensor(f32, Row(*shape)), i: lego.Tensor(i32, Row(*shape))):
        values, places = lego.load(x, SHAPE).topk(4, axis)
        (values - values.max(axis).expand_dims(axis)).store(y)
        places.store(i)

    x, y, i = numbers(1), np.zeros(shape, np.float32), np.zeros(shape, np.int32)
    run(greatest, x, y, i)
    places = np.take(np.argsort(-x, axis), range(4), axis)
    best = np.take_along_axis(x, places, axis)
    np.testing.assert_array_equal(i, places)
    np.testing.assert_array_equal(y, best - best.max(axis, keepdims=True))


@pytest.mark.parametrize("count", [64, 16, 128])
@pytest.mark.parametrize("axis", [0, 1])
def test_gathers_of_any_number_of_elements(axis, count):
    shape = tuple(count if k == axis else n for k, n in enumerate(SHAPE))

    @lego.kernel(grid=1, block=BLOCK)
    def gathered(x: lego.Tensor(f32, Row(*SHAPE)), i: lego.Tensor(i32, Row(*shape)), y: lego.Tensor(f32, Row(*shape))):
        lego.gather(lego.load(x, SHAPE), lego.load(i, shape), axis).store(y)

    x, y = numbers(2), np.zeros(shape, np.float32)
    i = np.random.default_rng(3).integers(0, SHAPE[axis], shape).astype(np.int32)
    run(gathered, x, i, y)
    np.testing.assert_array_equal(y, np.take_along_axis(x, i, axis))


def test_elements_at_indices_are_loaded_stored_and_updated():
    @lego.kernel(grid=1, block=BLOCK)
    def moved(
        x: lego.Tensor(f32, Row(64, 64)),
        i: lego.Tensor(i32, Row(16), range=(0, 64)),
        y: lego.Tensor(f32, Row(64, 64)),
        z: lego.Tensor(f32, Row(64)),
    ):
        rows, columns = lego.load(i, (16,)), lego.arange(SHAPE, 1)
        tile = x.load(rows[:, None], columns, mask=columns < 60, other=-1)
        y[rows[:, None], columns] = tile * 2
        z.atomic_add(tile.sum(axis=1), rows)

    x, y, z = numbers(4, (64, 64)), np.zeros((64, 64), np.float32), np.zeros(64, np.float32)
    i = np.random.default_rng(5).permutation(64)[:16].astype(np.int32)
    run(moved, x, i, y, z)
    tile, wanted, sums = np.where(np.arange(64) < 60, x[i], -1), np.zeros_like(y), np.zeros_like(z)
    wanted[i], sums[i] = tile * 2, tile.sum(1)
    np.testing.assert_array_equal(y, wanted)
    np.testing.assert_array_equal(z, sums)


def test_an_order_in_a_branch_of_threads_stays_in_its_warps():
    @lego.kernel(grid=1, block=BLOCK)
    def some(x: lego.Tensor(f32, Row(*SHAPE)), y: lego.Tensor(f32, Row(*SHAPE))):
        with lego.when(lego.thread_id[0] < 64):
            lego.load(x, SHAPE).cumsum(1).store(y)

    choice = some.layout_choice
    scan = next(n for n in choice.values if n.word == "lego.scan")
    ((_, layout),) = choice.values[scan].computed
    assert not any(basis[1] for basis in layout.bases["warp"])


def test_what_an_order_refuses_is_named():
    @lego.kernel(grid=1, block=BLOCK)
    def refused(x: lego.Tensor(f32, Row(*SHAPE)), y: lego.Tensor(f32, Row(*SHAPE))):
        (lego.load(x, SHAPE) > 0).cumsum(1)

    with pytest.raises(TraceError, match=r"lego.scan of <16 x 64 i1.*convert it"):
        refused.trace()


def test_rows_at_indices_are_loaded_by_vectors():
    """The last index counts along an axis that the others do not depend on, so that a row is contiguous."""

    @lego.kernel(grid=1, block=128)
    def selected(
        x: lego.Tensor(f32, Row(100, 64)),
        rows: lego.Tensor(i32, Row(64), range=(0, 100)),
        y: lego.Tensor(f32, Row(64, 64)),
    ):
        which = lego.load(rows, (64,))
        x[which[:, None], lego.arange((64,))[None, :]].store(y)

    rng = np.random.default_rng(4)
    x, rows = rng.standard_normal((100, 64)).astype(np.float32), rng.integers(0, 100, 64).astype(np.int32)
    y = np.zeros((64, 64), np.float32)
    report = interp.launch(selected.mlir(), grid=1, block=128, args=[x.reshape(-1), rows, y.reshape(-1)])
    assert report.clean, report
    np.testing.assert_array_equal(y, x[rows])
    (loaded,) = [v for n, v in selected.layout_choice.values.items() if n.word == "elements of x"]
    assert loaded.node.operation.memory.accesses(loaded.computed[0][0], stored=False).vector == 4


@pytest.mark.parametrize(
    ("offset", "is_masked", "vector", "lines"), [(4, False, 4, 16), (1, False, 1, 16), (4, True, 1, 16)]
)
def test_neighbours_behind_an_offset_are_accessed_by_whole_lines(offset, is_masked, vector, lines):
    """A number for all elements is added to `lego.arange`; where each element has a mask, none are loaded together."""
    n, tile = 2 * 512 + 8, 512

    @lego.kernel(grid=2, block=128)
    def shifted(x: lego.Tensor(f32, Row(n)), y: lego.Tensor(f32, Row(n))):
        i = lego.block_id[0] * tile + offset + lego.arange((tile,))
        y.store(x.load(i, mask=i < n - 7 if is_masked else True, other=-1), i)

    x, y = np.arange(n, dtype=np.float32), np.zeros(n, np.float32)
    report = interp.launch(shifted.mlir(), grid=2, block=128, args=[x, y])
    assert report.clean, report
    at = np.arange(offset, offset + 2 * tile)
    np.testing.assert_array_equal(y[at], np.where(at < n - 7, x[at], -1) if is_masked else x[at])
    values = {n.word: v for n, v in shifted.layout_choice.values.items()}
    loaded, stored = values["elements of x"], values["elements into y"]
    found = loaded.node.operation.memory.accesses(loaded.computed[0][0], stored=False)
    assert (found.vector, found.lines * 4) == (vector, lines)
    found = stored.node.operation.memory.accesses(stored.computed[0][0], stored=True)
    assert found.parts == 0


def test_loads_that_follow_each_other_are_converted_between_the_same_barriers():
    """Of each turn of the loop two barriers: before the stores of both tiles, and before their loads."""

    @lego.kernel(grid=1, block=128)
    def product(a: lego.Tensor(f16, Row(128, 64)), b: lego.Tensor(f16, Row(128, 64)), y: lego.Tensor(f32, Row(64, 64))):
        total = lego.register(lego.zeros(f32, (64, 64)))
        for k in lego.range(0, 128, 64):
            x, z = lego.load(a, (64, 64), at=(k, 0)), lego.load(b, (64, 64), at=(k, 0))
            total.set(lego.mma(x.T, z, total))
        total.get().store(y)

    rng = np.random.default_rng(5)
    a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((128, 64), (128, 64)))
    y = np.zeros((64, 64), np.float32)
    report = interp.launch(product.mlir(), grid=1, block=128, args=[v.reshape(-1) for v in (a, b, y)])
    assert report.clean, report
    np.testing.assert_array_equal(y, a.T.astype(np.float32) @ b.astype(np.float32))
    in_loop = product.mlir().split("scf.for", 1)[1]
    in_loop = in_loop[: in_loop.index("scf.yield")]
    loads = [v for n, v in product.layout_choice.values.items() if n.word.startswith("load of")]
    assert [bool(v.moved) for v in loads] == [True, True]
    assert in_loop.count("gpu.barrier") == 2


@pytest.mark.parametrize("dtype", [f32, f16, i32])
@pytest.mark.parametrize("called", ["argmin", "argmax"])
@pytest.mark.parametrize("shape", [(12, 32), (3, 5, 16)])
def test_the_first_place_in_a_tile_of_any_sizes(shape, called, dtype):
    @lego.kernel(grid=1, block=BLOCK)
    def first(x: lego.Tensor(dtype, Row(*shape)), y: lego.Tensor(i32, Row(1))):
        place = getattr(lego.load(x, shape), called)()
        with lego.when(lego.thread_id.x == 0):
            y[0] = place

    x = np.random.default_rng(7).integers(-3, 4, shape).astype({f32: np.float32, f16: np.float16, i32: np.int32}[dtype])
    cases = [x, *([np.where(x == 1, np.nan, x).astype(x.dtype)] if dtype.is_float else [])]
    for given in cases:
        y = np.zeros(1, np.int32)
        run(first, given, y)
        assert y[0] == getattr(given, called)()


@pytest.mark.parametrize("block", [64, 96, 128])
@pytest.mark.parametrize("shape", [(12, 32), (20, 24)])
@pytest.mark.parametrize("axis", [0, 1])
def test_gathers_in_tiles_of_any_sizes(axis, shape, block):
    @lego.kernel(grid=1, block=block)
    def gathered(x: lego.Tensor(f16, Row(*shape)), i: lego.Tensor(i32, Row(*shape)), y: lego.Tensor(f16, Row(*shape))):
        lego.gather(lego.load(x, shape), lego.load(i, shape), axis).store(y)

    x, y = numbers(2, shape, np.float16), np.zeros(shape, np.float16)
    i = np.random.default_rng(3).integers(0, shape[axis], shape).astype(np.int32)
    assert interp.launch(gathered.mlir(), grid=1, block=block, args=[a.reshape(-1) for a in (x, i, y)]).clean
    np.testing.assert_array_equal(y, np.take_along_axis(x, i, axis))


@pytest.mark.parametrize("block", [96, 128, 160])
def test_histograms_of_any_number_of_warps(block):
    @lego.kernel(grid=1, block=block)
    def counted(x: lego.Tensor(i32, Row(*SHAPE)), y: lego.Tensor(i32, Row(64)), z: lego.Tensor(i32, Row(2, 64))):
        counts = lego.load(x, SHAPE).histogram(64)
        counts.store(y)
        counts[None, :].broadcast_to((2, 64)).store(z)

    x = np.random.default_rng(0).integers(-3, 70, SHAPE).astype(np.int32)
    y, z = np.zeros(64, np.int32), np.zeros((2, 64), np.int32)
    assert interp.launch(counted.mlir(), grid=1, block=block, args=[a.reshape(-1) for a in (x, y, z)]).clean
    wanted = np.bincount(x[x >= 0], minlength=70)[:64]
    assert np.array_equal(y, wanted) and np.array_equal(z, [wanted, wanted])


def test_unnamed_shared_tiles_stand_beside_those_of_conversions():
    @lego.kernel(grid=1, block=BLOCK)
    def turned(x: lego.Tensor(f32, Row(64, 64)), y: lego.Tensor(f32, Row(64, 64))):
        tile = lego.load(x, (64, 64))
        tile = (tile.T + tile).sort(0)
        held = lego.shared(f32, Row(64, 64))
        tile.store(held)
        lego.barrier()
        lego.load(held, (64, 64)).store(y)

    x, y = numbers(6, (64, 64)), np.zeros((64, 64), np.float32)
    run(turned, x, y)
    np.testing.assert_array_equal(y, np.sort(x.T + x, 0))
