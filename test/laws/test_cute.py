"""CuTe's operations against their definitions as functions, coordinate by coordinate."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from lego_mlir import GenP, Row, gallery
from lego_mlir.cute import (
    CuteLayout,
    CuteSwizzle,
    coalesce,
    complement,
    composition,
    from_layout,
    left_inverse,
    logical_divide,
    logical_product,
    right_inverse,
    to_layout,
    zipped_divide,
)
from lego_mlir.errors import LayoutError

sizes = st.sampled_from([1, 2, 3, 4, 6, 8])


@st.composite
def shapes(draw, depth=2):
    """A nested shape of up to 512 elements."""
    if depth == 0 or draw(st.booleans()):
        return draw(sizes)
    return tuple(draw(shapes(depth - 1)) for _ in range(draw(st.integers(1, 3))))


def strided(draw, shape):
    """Strides for a shape."""
    if isinstance(shape, int):
        return draw(st.sampled_from([0, 1, 2, 3, 4, 6, 8, 12, 16, 24]))
    return tuple(strided(draw, part) for part in shape)


@st.composite
def cute_layouts(draw):
    shape = draw(shapes())
    layout = CuteLayout(shape, strided(draw, shape))
    assume(layout.size() <= 512)
    return layout


@st.composite
def compact_layouts(draw):
    """A layout whose offsets are 0 .. size - 1 in some order of its modes."""
    modes = draw(st.lists(sizes, min_size=1, max_size=4))
    order, steps, at = draw(st.permutations(range(len(modes)))), [0] * len(modes), 1
    for axis in order:
        steps[axis] = at
        at *= modes[axis]
    return CuteLayout(tuple(modes), tuple(steps))


@given(cute_layouts())
def test_texts_round_trip_and_coordinates_agree(layout):
    assert CuteLayout(str(layout)) == layout == eval(repr(layout))
    assert (coalesce(layout).offsets() == layout.offsets()).all()
    by_leaf = np.zeros(1, int)
    for size, stride in layout.leaves():
        by_leaf = (by_leaf[None, :] + stride * np.arange(size)[:, None]).ravel()
    assert (layout.offsets() == by_leaf).all()


@given(cute_layouts(), cute_layouts())
def test_composition_is_that_of_functions_or_refused(outer, inner):
    expected = [outer(int(i)) for i in inner.offsets()]
    try:
        result = composition(outer, inner)
    except LayoutError as refused:
        assert "no shape:stride gives its offsets" in str(refused)
        return
    assert result.offsets().tolist() == expected
    if isinstance(inner.shape, tuple):
        assert [m.size() for m in result.modes()] == [m.size() for m in inner.modes()]


@given(compact_layouts(), st.data())
def test_a_composition_that_exists_is_found(outer, data):
    """Modes taken one by one, and tiles of a mode, are always layouts."""
    at, picked = 1, []
    for size, _ in outer.leaves():
        tile = data.draw(st.sampled_from([n for n in range(1, size + 1) if size % n == 0]))
        picked.append(CuteLayout(tile, at * data.draw(st.sampled_from([1, size // tile]))))
        at *= size
    inner = CuteLayout.of(picked)
    assert composition(outer, inner).offsets().tolist() == [outer(int(i)) for i in inner.offsets()]


@given(cute_layouts(), st.integers(1, 200))
def test_a_complement_counts_the_rest_once(layout, extent):
    offsets = layout.offsets()
    try:
        rest = complement(layout, extent)
    except LayoutError as refused:
        message = str(refused)
        assert (
            "have the offset" in message if len(set(offsets.tolist())) < len(offsets) else "not a multiple" in message
        )
        return
    together = (offsets[None, :] + rest.offsets()[:, None]).ravel()
    assert len(set(together.tolist())) == len(together) and set(range(extent)) <= set(together.tolist())
    assert (np.diff(rest.offsets()) > 0).all()


@given(cute_layouts())
def test_inverses_are_inverses(layout):
    right = right_inverse(layout)
    assert [layout(int(i)) for i in right.offsets()] == list(range(right.size()))
    if len(set(layout.offsets().tolist())) == layout.size():
        try:
            left = left_inverse(layout)
        except LayoutError:
            return
        assert [left(int(i)) for i in layout.offsets()] == list(range(layout.size()))


@given(compact_layouts(), st.data())
def test_division_and_product_are_their_definitions(layout, data):
    tile = data.draw(st.sampled_from([n for n in range(1, layout.size() + 1) if layout.size() % n == 0]))
    try:
        divided = logical_divide(layout, tile)
    except LayoutError:
        return
    assert divided.offsets().tolist() == layout.offsets().tolist()
    assert divided.modes()[0].size() == tile
    copies = CuteLayout(data.draw(sizes))
    product = logical_product(layout, copies)
    assert sorted(product.offsets().tolist()) == list(range(layout.size() * copies.size()))
    assert product.modes()[0] == layout


def test_a_swizzle_is_kept():
    whole = CuteLayout("Sw<1,0,3> o (8,8):(8,1)")
    assert str(zipped_divide(whole, [4, 4])) == "Sw<1,0,3> o _0 o ((4,4),(2,2)):((8,1),(32,4))"
    assert str(logical_divide(whole, [4])) == "Sw<1,0,3> o _0 o ((4,2),8):((8,32),1)"
    assert composition(CuteLayout("64:1"), whole) == whole and [m.swizzle for m in whole.modes()] == [whole.swizzle] * 2
    assert str(complement(CuteLayout("Sw<1,0,1> o 2:2"), 6)) == "3:1"  # its offsets are 0 and 3
    assert str(logical_product(whole, CuteLayout("2:1"))) == "Sw<1,0,3> o _0 o ((8,8),2):((8,1),64)"
    with pytest.raises(LayoutError, match="a mode of a layout cannot have a swizzle"):
        CuteLayout.of(whole.modes())


def test_tilers_nest():
    zipped = zipped_divide(CuteLayout("((4,8),2):((1,4),32)"), [(2, 4)])
    assert str(zipped) == "(((2,4)),((2,2),2)):(((1,4)),((2,16),32))"


def test_layouts_beyond_int64_are_exact():
    assert str(coalesce(CuteLayout((10**30, 4)))) == f"{4 * 10**30}:1"
    assert zipped_divide(CuteLayout((2**20, 2**20)), [64, 64]).shape == ((64, 64), (2**14, 2**14))
    assert to_layout(CuteLayout(2**70)) == Row(2**70)
    assert CuteLayout("4:9223372036854775807")(3) == 3 * (2**63 - 1)


def test_tiles_are_gathered():
    zipped = zipped_divide(CuteLayout("(8,16):(16,1)"), [4, 8])
    assert str(zipped) == "((4,8),(2,2)):((16,1),(64,8))"
    for tiler in (4, CuteLayout("4:2")):
        whole = CuteLayout("(8,2):(2,16)")
        assert zipped_divide(whole, tiler) == logical_divide(whole, tiler)


@given(compact_layouts(), st.integers(0, 3), st.integers(0, 3))
def test_bijections_are_converted_both_ways(layout, bits, base):
    ours = to_layout(layout)
    assert ours.check()
    leaves = np.unravel_index(np.arange(layout.size()), [n for n, _ in layout.leaves()], order="F")
    assert np.broadcast_to(ours.apply(*leaves), layout.size()).tolist() == layout.offsets().tolist()
    assert from_layout(ours).offsets().tolist() == layout.offsets().tolist()
    swizzle = CuteSwizzle(bits, base, bits)
    if bits and layout.size() % (1 << base + 2 * bits) == 0:
        swizzled = CuteLayout(layout.shape, layout.stride, swizzle)
        ours = to_layout(swizzled)
        assert np.broadcast_to(ours.apply(*leaves), layout.size()).tolist() == swizzled.offsets().tolist()
        assert ours.check()


def test_the_swizzles_of_the_gallery_are_cutes():
    for columns, vec in ((64, 8), (32, 4), (128, 16)):
        ours = gallery.xor_swizzle(8, columns, vec=vec)
        found = from_layout(ours)
        rows, cols = np.unravel_index(np.arange(8 * columns), (8, columns), order="F")
        assert found.swizzle is not None and found.offsets().tolist() == ours.apply(rows, cols).tolist()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: composition(CuteLayout("(6,2):(1,7)"), CuteLayout("(3,2):(2,3)")), "at coordinate 5 the offset is 8"),
        (lambda: CuteLayout("(2,3):(1,(2,3))"), "must nest alike"),
        (lambda: CuteLayout("(2,3"), r"cannot read '\(2,3'"),
        (lambda: CuteLayout("2,3"), "cannot read"),
        (lambda: CuteLayout("(2 3):1"), "cannot read"),
        (lambda: CuteLayout("(" * 20_000), "a text of 20000 characters"),
        (lambda: CuteLayout("(" * 1000 + "1" + ")" * 1000), "more than 64 levels of parentheses"),
        (lambda: complement(CuteLayout("4:1"), 0), "the extent must be an int >= 1, got 0"),
        (lambda: CuteLayout((2, 1.5)), "a nested tuple of ints, got 1.5"),
        (lambda: CuteLayout(0), "sizes >= 1"),
        (lambda: CuteLayout("(2,2)")(1, 2, 3), "3 coordinates for the 2 modes"),
        (lambda: CuteSwizzle(3, 0, 2), "needs 0 <= B <= .S."),
        (lambda: complement(CuteLayout("(2,2):(1,1)"), 8), "coordinates 1 and 2 have the offset 1"),
        (lambda: complement(CuteLayout("(2,2):(2,3)"), 8), "stride 3 is not a multiple of 4"),
        (lambda: left_inverse(CuteLayout("2:0")), "coordinates 0 and 1 have the offset 0"),
        (lambda: to_layout(CuteLayout("(2,2):(1,4)")), "no mode has stride 2, the next is 4"),
        (lambda: from_layout(gallery.antidiagonal(3)), "no shape:stride gives its offsets"),
        (lambda: from_layout(GenP([4], lambda i: 3 - i, lambda p: (3 - p,))), "no shape:stride"),
        (lambda: logical_divide(CuteLayout("(4,4)"), (2, 2, 2)), "3 tilers for the 2 modes"),
        (lambda: logical_divide(CuteLayout("(2,2,2)"), "4:2"), "a tiler must be an int >= 1, got '4:2'"),
        (lambda: complement(CuteLayout("Sw<1,0,2> o 5:1"), 24), "sorted: no shape:stride gives its offsets"),
        (lambda: logical_product(CuteLayout("Sw<1,0,1> o 2:2"), CuteLayout("2:1")), "at coordinate 3 the offset is 4"),
        (lambda: left_inverse(CuteLayout("Sw<1,0,1> o 4:1")), r"invert layout.without_swizzle\(\)"),
        (lambda: right_inverse(CuteLayout("Sw<1,0,1> o 4:1")), r"invert layout.without_swizzle\(\)"),
        (lambda: composition(CuteLayout("8:3"), CuteLayout("Sw<1,0,1> o 4:1")), "no shape:stride gives its offsets"),
        (lambda: CuteLayout("4:9223372036854775807").offsets(), "offsets beyond the 64 bits of arrays"),
        (lambda: CuteLayout("1" * 5000), "a text of 5000 characters"),
        (lambda: CuteLayout(8, 1, "Sw<1,0,1>"), "the swizzle must be a CuteSwizzle, got 'Sw<1,0,1>'"),
        (lambda: CuteLayout(8)(1.5), "an index is an int"),
        (lambda: composition("4:1", CuteLayout(4)), "composition: a CuteLayout is needed, got '4:1'"),
        (lambda: logical_product(CuteLayout(4), 2), "logical_product: a CuteLayout is needed, got 2"),
        (lambda: zipped_divide(Row(4), 2), r"logical_divide: a CuteLayout is needed, got Row\(4\)"),
        (lambda: to_layout(None), "to_layout: a CuteLayout is needed, got None"),
        (lambda: CuteSwizzle(3, 100, 3), "reaches past bit 62 of the offset"),
        (lambda: CuteSwizzle(1.0, 0, 1), "must be an int, got 1.0"),
        (lambda: from_layout(Row(2**20, 2**20)), "conversions are proved for up to 16777216"),
    ],
)
def test_bad_input_is_refused(make, message):
    with pytest.raises(LayoutError, match=message):
        make()


def test_row_is_a_stride():
    assert str(from_layout(Row(4, 8))) == "(4,8):(8,1)"
