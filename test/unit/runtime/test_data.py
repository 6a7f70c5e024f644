"""The data for a check: what is in memory is where the layouts say, and covers every element once."""

import io

import numpy as np
import pytest

import lego_mlir as lego
from lego_mlir import Col, Padded, Row, f32, gallery
from lego_mlir.errors import LayoutError, UsageError
from lego_mlir.kernels import transpose
from lego_mlir.runtime import data, data_files

M, N = lego.size("M"), lego.size("N", min=8, max=100, multiple_of=8)
I0 = lego.size("i0")


def copy_between(source, target, dtype=f32):
    @lego.kernel(grid=1, block=1)
    def copy(src: lego.Tensor(dtype, source), dst: lego.Tensor(dtype, target)):
        dst[0, 0] = src[0, 0]

    @copy.reference
    def same(src):
        return src

    return copy


def test_defaults_obey_the_facts_of_a_size():
    chosen = data.choose_sizes(transpose.build("padded", M, N, f32), {})
    assert chosen == {"M": 200, "N": 96}
    large = lego.size("L", min=1000, multiple_of=64).expr
    assert data.default_of(large) == 1024


def test_the_default_sizes_of_three_dimensions_are_a_small_array():
    wide = lego.Tensor(f32, Row(lego.size("B"), M, 64))
    batch = lego.size("B")

    @lego.kernel(grid=batch, block=64)
    def copy(src: wide, dst: wide):
        for i in lego.range(M):
            dst[lego.block_id[0], i, lego.thread_id[0]] = src[lego.block_id[0], i, lego.thread_id[0]]

    assert data.choose_sizes(copy, {}) == {"B": 12, "M": 200}
    assert data.choose_sizes(copy, {"B": 400}) == {"B": 400, "M": 6}
    assert data.choose_sizes(copy, {"B": 400, "M": 300}) == {"B": 400, "M": 300}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"N": 4}, r"N = 4: the kernel needs at least 8, at most 100, a multiple of 8"),
        ({"K": 1}, r"has no size K; it has: M, N"),
    ],
)
def test_sizes_that_cannot_be(given, message):
    with pytest.raises(UsageError, match=message):
        data.choose_sizes(transpose.build("padded", M, N, f32), given)


@pytest.mark.parametrize(
    "layout",
    [Row(6, 8), Col(6, 8), gallery.xor_swizzle(8, 8), gallery.antidiagonal(6), Padded(Row(8, 9), [8, 8]), Row(M, N)],
    ids=repr,
)
def test_positions_are_those_of_apply(layout):
    sizes = {"M": 5, "N": 16}
    at = data.positions(layout, sizes)
    dims = tuple(data.concrete(n, sizes) for n in layout.dims())
    assert at.shape == dims
    assert len(np.unique(at)) == at.size
    last = tuple(n - 1 for n in dims)
    assert at[last] == (layout.apply(*last) if all(isinstance(n, int) for n in layout.dims()) else at.size - 1)


@pytest.mark.parametrize("dtype", [lego.f16, lego.bf16, lego.f32, lego.f64, lego.i8, lego.i32], ids=str)
def test_memory_follows_the_layouts(dtype):
    arrays = data.check_data(copy_between(Row(8, 16), Col(8, 16), dtype), {})
    source, target = arrays["copy/src"], arrays["copy/dst/expected"]
    assert source.dtype.kind in "fiu"
    from lego_mlir.runtime.comparing import numbers

    assert np.array_equal(numbers(source, dtype.mlir).reshape(8, 16), target.reshape(16, 8).T)
    assert "copy/dst/where" not in arrays
    columns = data.check_data(copy_between(Col(8, 16), Row(8, 16), dtype), {})
    stored = numbers(columns["copy/src"], dtype.mlir)
    assert np.array_equal(stored.reshape(16, 8).T, columns["copy/dst/expected"].reshape(8, 16))


def test_a_padded_layout_says_where_its_elements_are():
    arrays = data.check_data(copy_between(Row(8, 8), Padded(Row(8, 9), [8, 8])), {})
    where = arrays["copy/dst/where"].reshape(8, 9)
    assert where[:, :8].all()
    assert not where[:, 8].any()
    assert arrays["copy/dst"].size == 72
    assert (arrays["copy/dst"] == data_files.UNWRITTEN).all()


def test_the_file_has_a_bound_for_each_element_of_a_rounded_result():
    kernel = copy_between(Row(8, 8), Padded(Row(8, 9), [8, 8]))
    kernel.reference(rtol=0.5)(lambda src: src)
    arrays = data.check_data(kernel, {})
    expected, allowed = arrays["copy/dst/expected"], arrays["copy/dst/allowed"]
    assert np.array_equal(allowed, 0.5 * np.abs(expected))


def test_the_file_reads_back():
    arrays = data.check_data(transpose.build("padded", M, N, f32), {"M": 7, "N": 16})
    back = dict(np.load(io.BytesIO(data_files.to_npz(arrays))))
    names = ("src", "dst", "dst/expected", "dst/allowed", "M", "N")
    assert back.keys() == {f"transpose/{name}" for name in names}
    assert back["transpose/dst/allowed"].tolist() == [0]  # a copy is exact
    assert back["transpose/M"] == 7
    assert np.array_equal(back["transpose/dst/expected"].reshape(16, 7).T, back["transpose/src"].reshape(7, 16))


def test_without_a_reference_there_is_nothing_to_check_with():
    @lego.kernel(grid=1, block=1)
    def nothing(dst: lego.Tensor(f32, Row(4))):
        dst[0] = 1.0

    with pytest.raises(UsageError, match=r"kernel nothing has no reference to compare with.*@nothing.reference"):
        data.check_data(nothing, {})


def test_a_run_time_table_is_not_made_up():
    reverse = gallery.table([8], [7, 6, 5, 4, 3, 2, 1, 0], name="perm", runtime=True)

    @lego.kernel(grid=1, block=8)
    def place(dst: lego.Tensor(f32, reverse)):
        dst[lego.thread_id[0]] = 1.0

    with pytest.raises(
        UsageError, match=r"kernel place takes the run-time table perm, whose entries only its caller has"
    ):
        data.check_data(place, {})


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (lambda src: (src, src), r"returns 2 arrays, and the kernel writes 1: dst"),
        (lambda src: src[:1], r"returns shape \(1, 8\) for dst, whose layout has \(8, 8\)"),
    ],
)
def test_a_reference_of_the_wrong_shape(result, message):
    kernel = copy_between(Row(8, 8), Row(8, 8))
    kernel.reference(result)
    with pytest.raises(UsageError, match=message):
        data.check_data(kernel, {})


@pytest.mark.parametrize(
    ("layout", "sizes"),
    [
        (Row(100).tile_by([4], [32]), {}),
        (gallery.reverse(100).tile_by([4], [32]).tile_by([2, 5], [2, 7]), {}),
        (Row(M).tile_by([lego.cdiv(M, 32)], [32]), {"M": 33}),
        (Padded(Row(100).tile_by([4], [32]), [4, 31]), {}),
        (Row(I0).tile_by([lego.cdiv(I0, 8)], [8]), {"i0": 33}),  # a size with the name of an index
    ],
    ids=repr,
)
def test_an_index_of_a_partial_tile_that_names_no_element_is_not_stored(layout, sizes):
    fixed = layout.subs(**sizes) if sizes else layout
    named = fixed.mask(*np.indices(fixed.dims()))
    found = data.elements_of(layout, sizes)
    assert np.array_equal(found.named, named)
    assert not named.all()
    number = 0
    for at in np.argwhere(named).tolist():
        assert (found.at[number], found.index(number)) == (fixed.apply(*at), tuple(at))
        number += 1
    assert number == fixed.numel() == len(set(found.at.tolist()))
    with pytest.raises(LayoutError, match="has indices that name no element, and so no position"):
        data.positions(layout, sizes)


def test_data_of_partial_tiles():
    tiled = gallery.reverse(100).tile_by([4], [32])

    @lego.kernel(grid=4, block=32)
    def double(src: lego.Tensor(f32, tiled), dst: lego.Tensor(f32, tiled)):
        b, t = lego.block_id[0], lego.thread_id[0]
        dst[b, t] = src[b, t] * 2 + 1

    @double.reference
    def expected(src):
        assert src.shape == (4, 32)
        assert not src[3, 4:].any()
        return src * 2 + 1

    arrays = data.check_data(double, {})
    assert (arrays["double/dst/expected"] == 2 * arrays["double/src"].astype(float) + 1).all()
    assert arrays["double/dst/allowed"].shape == (100,)
    assert "double/dst/where" not in arrays
