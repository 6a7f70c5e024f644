"""Laws of kernels: for any layout, size and tile, a kernel does to logical elements what it says, and runs clean."""

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st
from launching import launch, launch_on_cpu

import lego_mlir as lego
from lego_mlir import Col, Row, f16, f32, gallery, i32, i64
from lego_mlir.tracing.trace.trace import Load

from strategies import layouts


def numbers(shape):
    return np.arange(np.prod(shape)).reshape(shape)


@given(layouts(60), st.booleans())
@settings(max_examples=60)
def test_a_copy_from_or_to_any_layout_keeps_every_element(layout, towards):
    layout = lego.as_layout(layout)
    plain = Row(*layout.dims())
    source, destination = (plain, layout) if towards else (layout, plain)

    @lego.kernel(grid=1, block=int(layout.numel()))
    def copy(src: lego.Tensor(i32, source), dst: lego.Tensor(i32, destination)):
        index = _unflatten(lego.thread_id[0], layout.dims())
        dst[index] = src[index]

    given_array = numbers(layout.dims())
    _, got = launch(copy, given_array, np.zeros(layout.dims()))
    np.testing.assert_array_equal(got, given_array)


def _unflatten(k, dims):
    index = []
    for n in reversed(dims):
        index.append(k % n)
        k = k // n
    return tuple(reversed(index))


@given(
    rows=st.integers(1, 40),
    columns=st.integers(1, 40),
    tile=st.sampled_from([(4, 8), (8, 4), (3, 5), (16, 1)]),
    form=st.sampled_from(["affine", "index", "arith"]),
    symbolic=st.booleans(),
)
@settings(max_examples=60)
def test_tiles_that_do_not_divide_touch_each_element_once(rows, columns, tile, form, symbolic):
    m, n = (lego.size("m"), lego.size("n")) if symbolic else (rows, columns)
    tiles = [lego.cdiv(m, tile[0]), lego.cdiv(n, tile[1])]

    @lego.kernel(grid=(tiles[1], tiles[0]), block=(tile[1], tile[0]))
    def count(x: lego.Tensor(i32, Row(m, n)), y: lego.Tensor(i32, Col(m, n))):
        bx, by, tx, ty = *lego.block_id, *lego.thread_id
        y.tile_by(tiles, tile)[by, bx, ty, tx] = x.tile_by(tiles, tile)[by, bx, ty, tx] + 1

    given_array = numbers((rows, columns))
    sizes = {"m": rows, "n": columns} if symbolic else {}
    _, got = launch(count, given_array, np.zeros((rows, columns)), sizes=sizes, form=form)
    np.testing.assert_array_equal(got, given_array + 1)


KNOWN = [Row(16, 32), Col(16, 32)]
KNOWN += [gallery.padded(16, 32, pad) for pad in (1, 2, 4, 8)]
KNOWN += [gallery.xor_swizzle(16, 32, vec=vec, per_phase=phase) for vec in (1, 2, 4, 8) for phase in (1, 2, 3)]


@given(
    layout=st.sampled_from(KNOWN) | layouts(64),
    start=st.integers(0, 3),
    stride=st.sampled_from([1, 2, 4, 8]),
    dtype=st.sampled_from([f16, f32]),
)
@example(layout=gallery.xor_swizzle(16, 32, vec=4), start=0, stride=4, dtype=f16)
@settings(max_examples=80)
def test_a_width_is_granted_only_where_every_thread_may_take_it(layout, start, stride, dtype):
    layout = lego.as_layout(layout)
    known = layout in map(lego.as_layout, KNOWN)
    *outer, last = layout.dims()
    start %= last
    threads = max(1, (last - start) // stride)

    @lego.kernel(grid=1, block=threads)
    def read(x: lego.Tensor(dtype, layout), y: lego.Tensor(dtype, Row(threads, 8))):
        i = lego.thread_id[0]
        loaded = x.load(*(0 for _ in outer), start + i * stride, width=None)
        for k in lego.unroll(loaded.width or 1):
            y[i, k] = loaded[k] if loaded.width else loaded

    given_array = numbers(layout.dims()) % 1000
    _, got = launch(read, given_array, np.zeros((threads, 8)))  # launch checks that nothing is misaligned or outside
    (width,) = (a.width for s, a in read.trace().accesses() if isinstance(s, Load))
    row = given_array[tuple(0 for _ in outer)]
    for i in range(threads):
        np.testing.assert_array_equal(got[i, :width], row[start + i * stride :][:width])
    widest = widest_by_hand(layout, start, stride, threads, 16 // dtype.bytes)
    assert width == widest if known else width <= widest


def widest_by_hand(layout, start, stride, threads, limit):
    """The same question asked of every thread and element: never more is granted, and no less for tiles in use."""
    *outer, last = layout.dims()
    width = limit
    while width > 1:
        first = start + np.arange(threads)[:, None] * stride
        index = first + np.arange(width)
        if index.max() < last:
            positions = layout.apply(*(0 for _ in outer), index)
            if (positions == positions[:, :1] + np.arange(width)).all() and not (positions[:, 0] % width).any():
                return width
        width //= 2
    return 1


def test_an_index_of_64_bit_data_is_reduced_before_it_is_added_to():
    """`(v % 64 + t) % 8` is `(v + t) % 8` for integers, but not in 64 bits for a v near 2**63."""

    @lego.kernel(grid=(1,), block=(8,))
    def gathered(x: lego.Tensor(i64, Row(8)), table: lego.Tensor(f32, Row(12)), y: lego.Tensor(f32, Row(8))):
        t = lego.thread_id[0]
        y[t] = table[(lego.index(x[t]) % 48 + t) % 12]

    x = np.array([2**63 - 1, -(2**63), 2**63 - 7, 5, -1, 0, 2**62, -(2**62)], np.int64)
    table = np.arange(12, dtype=np.float32)
    expected = table[[(int(v) % 48 + t) % 12 for t, v in enumerate(x)]]
    for form in ("affine", "index", "arith"):
        assert (launch(gathered, x, table, np.zeros(8), form=form)[2] == expected).all()
        assert (launch_on_cpu(gathered, x, table, np.zeros(8), form=form)[2] == expected).all()
