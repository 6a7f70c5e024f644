"""Orders of spread values against NumPy: flip, sort, argsort, topk, histogram; random layouts, NaN, equal keys."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from launching import launch, launch_emulated, launch_on_cpu
from spread_strategies import layouts

import lego_mlir as lego
from lego_mlir import Row, bf16, f2, f16, f32, i8, i16, i32, u8, u16, u32
from lego_mlir.errors import LayoutError, TraceError
from lego_mlir.tracing.spread.selection import prefers_selection

ACROSS = f2.Blocked((1, 2), (2, 16), (2, 2), order=(1, 0)).layout((4, 64))
BOXED = f2.MmaSync((2, 1)).layout((32, 24))


def kernel_of(layout, outputs, word, dtype=f32):
    """The kernel that stores what `word` makes of a tile; `outputs` are the types and shapes."""
    shape = tuple(layout.out_sizes.values())

    def body(x, *targets):
        for tile, target in zip(word(lego.load(x, layout)), targets, strict=True):
            tile.store(target)

    names = [f"y{number}" for number in range(len(outputs))]
    space = {"body": body}
    exec(f"def k(x, {', '.join(names)}):\n    body(x, {', '.join(names)})\n", space)
    space["k"].__annotations__ = {
        "x": lego.Tensor(dtype, Row(*shape)),
        **{name: lego.Tensor(to, Row(*sizes)) for name, (to, sizes) in zip(names, outputs, strict=True)},
    }
    return lego.kernel(grid=1, block=32 * layout.in_sizes["warp"])(space["k"])


def values(shape, dtype, seed):
    """Few different numbers, some NaN and zeros of both signs."""
    draws = np.random.default_rng(seed)
    x = draws.integers(0 if dtype is u8 else -4, 5, shape).astype(dtype.numpy)
    if dtype.is_float:
        flat = x.reshape(-1)
        flat[draws.integers(0, flat.size, 4)], flat[draws.integers(0, flat.size, 4)] = np.nan, -0.0
    return x


def order(x, axis, descending=False):
    key = x.astype(np.float64)
    key = np.where(np.isnan(key), np.inf, key)
    return np.argsort(-key if descending else key, axis, kind="stable")


def check(layout, axis, dtype=f32, run=launch, seed=0):
    shape = tuple(layout.out_sizes.values())
    k = min(4, shape[axis])
    part = tuple(k if number == axis else n for number, n in enumerate(shape))
    outputs = [(dtype, shape)] * 2 + [(i32, shape), (dtype, part), (i32, part)]
    made = kernel_of(
        layout,
        outputs,
        lambda x: (x.flip(axis), x.sort(axis), x.argsort(axis, descending=True), *x.topk(k, axis)),
        dtype,
    )
    x = values(shape, dtype, seed)
    with np.errstate(invalid="ignore"):
        _, flipped, ascending, places, top, where = run(made, x, *(np.zeros(sizes) for _, sizes in outputs))
    wanted = order(x, axis, True)
    first = np.take(wanted, range(k), axis)
    np.testing.assert_array_equal(flipped, np.flip(x, axis))
    np.testing.assert_array_equal(ascending, np.take_along_axis(x, order(x, axis), axis))
    np.testing.assert_array_equal(places, wanted)
    np.testing.assert_array_equal(top, np.take_along_axis(x, first, axis))
    np.testing.assert_array_equal(where, first)
    bits = lambda v: np.sort(v.view(f"u{v.itemsize}"), axis)  # noqa: E731
    np.testing.assert_array_equal(bits(ascending), bits(x))  # no element is lost, of either zero


@settings(max_examples=5, deadline=None)
@given(layout=layouts(), axis=st.integers(0, 1), seed=st.integers(0, 99))
def test_random_layouts(layout, axis, seed):
    check(layout, axis, seed=seed)


@pytest.mark.parametrize("run", [launch_on_cpu, launch_emulated])
def test_other_backends(run):
    check(ACROSS, 0 if run is launch_on_cpu else 1, run=run)


@pytest.mark.parametrize("dtype", [f16, i32, u8], ids=str)
def test_types(dtype):
    check(ACROSS, 0, dtype)


LANES = f2.Blocked((1, 2), (1, 32), (2, 1), order=(1, 0)).layout((2, 64))


@pytest.mark.parametrize("run", [launch, launch_on_cpu, launch_emulated])
@pytest.mark.parametrize("dtype", [f32, f16, bf16, i32, u32, i16, u16, i8, u8], ids=str)
def test_the_greatest_by_reductions(dtype, run):
    """Ends of the range of a type, zeros of both signs, NaN, equal elements; both halves of the packed form."""
    assert prefers_selection(LANES, 1, 4, dtype)
    draws = np.random.default_rng(dtype.bits)
    if dtype.is_float:
        x = draws.choice([-np.inf, -0.0, 0.0, -1.5, -3.0], (2, 64))
        x[0, [5, 9, 40]], x[1, :62] = [np.inf, -np.nan, np.nan], -np.inf
        x = x.astype(dtype.numpy)
    else:
        ends = np.iinfo(dtype.numpy)
        x = draws.choice([ends.min, ends.min + 1, 0, 1, ends.max - 1], (2, 64)).astype(dtype.numpy)
    made = kernel_of(LANES, [(dtype, (2, 4)), (i32, (2, 4))], lambda t: t.topk(4, 1), dtype)
    _, top, where = run(made, x, np.zeros((2, 4)), np.zeros((2, 4)))
    finite = x.astype(np.float64).clip(-1e99, 1e99)  # NaN comes before infinity
    wanted = order(finite, 1, True)[:, :4]
    np.testing.assert_array_equal(where, wanted)
    best = np.take_along_axis(x, wanted, 1)
    np.testing.assert_array_equal(top.astype(np.float64), best.astype(np.float64))
    known = best == best
    np.testing.assert_array_equal(top.view(f"u{x.itemsize}")[known], best.view(f"u{x.itemsize}")[known])


@pytest.mark.parametrize("descending", [False, True])
def test_other_tiles_move_with_the_key(descending):
    shape = tuple(ACROSS.out_sizes.values())

    def word(x):
        number = lego.arange(ACROSS, 1).to(i32)
        return lego.sort((x, number * 3, x * 2.0), 1, descending)

    x = values(shape, f32, 1)
    _, key, number, twice = launch(
        kernel_of(ACROSS, [(f32, shape), (i32, shape), (f32, shape)], word), x, *[np.zeros(shape)] * 3
    )
    wanted = order(x, 1, descending)
    np.testing.assert_array_equal(number, 3 * wanted)
    np.testing.assert_array_equal(key, np.take_along_axis(x, wanted, 1))
    np.testing.assert_array_equal(twice, 2 * key)


@settings(max_examples=5, deadline=None)
@given(layout=layouts(), seed=st.integers(0, 99))
def test_histograms_count_each_element_once(layout, seed):
    """Copies, elements outside of the bins and masked ones are not counted; a second one starts from 0."""
    x = np.random.default_rng(seed).integers(-3, 40, tuple(layout.out_sizes.values()))
    k = kernel_of(layout, [(i32, (32,))] * 2, lambda t: (t.histogram(32), t.histogram(32, mask=t % 3 != 0)), i32)
    _, every, some = launch(k, x, np.zeros(32), np.zeros(32))
    np.testing.assert_array_equal(every, [(x == n).sum() for n in range(32)])
    np.testing.assert_array_equal(some, [(x == n).sum() * (n % 3 != 0) for n in range(32)])


@pytest.mark.parametrize(
    ("word", "error", "pattern"),
    [
        (lambda x: x.sort(2), LayoutError, "has the axes 0..1, got 2"),
        (lambda x: (x > 0).sort(0), TraceError, "lego.sort of .*; convert it, for example with .to"),
        (lambda x: x.topk(3, 0), LayoutError, "topk: k=3 is a power of two up to 4"),
        (lambda x: x.histogram(16), TraceError, "histogram counts integers, got .*; convert it"),
        (lambda x: x.to(i32).histogram(10), LayoutError, "histogram: bins=10 is a power of two"),
        (lambda x: lego.sort((x, 3), 0), TraceError, "lego.sort takes a spread value, or a tuple of them"),
    ],
)
def test_refused(word, error, pattern):
    with pytest.raises(error, match=pattern):
        kernel_of(ACROSS, [(f32, (4, 64))], word).trace()


def test_padded_tiles_are_refused():
    @lego.kernel(grid=1, block=64)
    def k(x: lego.Tensor(f32, Row(32, 24))):
        lego.load(x, BOXED).flip(0)

    with pytest.raises(LayoutError, match=r"flip of a tile of shape \[32, 24\], padded to \[32, 32\]; load it"):
        k.trace()
