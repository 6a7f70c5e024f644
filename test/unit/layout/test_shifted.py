"""Layouts with moved indices and a boundary: against NumPy's padding, for ints, arrays and symbols."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lego_mlir import Col, Row, as_layout, gallery, size
from lego_mlir.errors import LayoutError, LayoutIndexError
from lego_mlir.expr.evaluate import evaluate
from lego_mlir.expr.index import symbols
from lego_mlir.expr.simplify import simplify
from lego_mlir.expr.verdict import Proved
from lego_mlir.layout.shifted import Shifted, is_read_only

PAD = {"clamp": "edge", "mirror": "reflect", "wrap": "wrap"}


def padded(array, offsets, boundary):
    width = max(map(abs, offsets), default=0)
    wide = np.pad(array, width, mode=PAD[boundary])
    return wide[tuple(slice(width + d, width + d + n) for d, n in zip(offsets, array.shape, strict=True))]


@given(st.sampled_from(sorted(PAD)), st.lists(st.tuples(st.integers(1, 7), st.integers(-9, 9)), min_size=1, max_size=3))
def test_positions_agree_with_numpy(boundary, axes):
    dims, offsets = zip(*axes, strict=True)
    matrix = np.arange(np.prod(dims)).reshape(dims)
    layout = Shifted(Row(*dims), offsets, boundary)
    index = np.indices(dims)
    expected = padded(matrix, offsets, boundary) if min(dims) > 1 or boundary != "mirror" else None
    found = layout.apply(*index)
    assert ((found >= 0) & (found < matrix.size)).all()
    if expected is not None:
        np.testing.assert_array_equal(found, expected)
    names = symbols(" ".join(f"i{axis}" for axis in range(len(dims))))
    derived = simplify(layout.apply(*names), layout.ranges(*names)).expr
    values = {str(name): i for name, i in zip(names, index, strict=True)}
    np.testing.assert_array_equal(np.broadcast_to(evaluate(derived, values), dims), found)


@given(st.integers(1, 5), st.integers(1, 5), st.integers(-6, 6), st.integers(-6, 6))
def test_zero_masks_what_is_outside(rows, columns, down, right):
    layout = Shifted(Row(rows, columns), (down, right))
    i, j = np.indices((rows, columns))
    inside = (i + down >= 0) & (i + down < rows) & (j + right >= 0) & (j + right < columns)
    np.testing.assert_array_equal(np.broadcast_to(layout.mask(i, j), inside.shape), inside)
    np.testing.assert_array_equal(layout.apply(i, j)[inside], ((i + down) * columns + j + right)[inside])


@pytest.mark.parametrize("boundary", PAD)
@pytest.mark.parametrize("inner", [Row(10, 12), Col(10, 12)])
def test_tiles_are_flattened_first(boundary, inner):
    tiled = as_layout(inner).tile_by([3, 2], [4, 8])
    layout = Shifted(tiled, (-1, 2), boundary)
    a, b, c, d = np.indices((3, 2, 4, 8))
    i, j = a * 4 + c, b * 8 + d
    named = (i < 10) & (j < 12)
    positions = as_layout(inner).apply(*np.indices((10, 12)))
    assert layout.mask(a, b, c, d) is True
    np.testing.assert_array_equal(
        layout.apply(a, b, c, d)[named], padded(positions, (-1, 2), boundary)[i[named], j[named]]
    )


def test_symbolic_sizes_take_comparisons_where_the_offset_is_near():
    n, far = size("N", min=2), size("F")
    (i,) = symbols("i")
    assert str(Shifted(Row(n), (-1,), "mirror").derive(i).expr) == "where(i <= 0, 1 - i, i - 1)"
    assert "%" not in str(Shifted(Row(n), (2,), "wrap").derive(i).expr)
    assert "%" in str(Shifted(Row(far), (2,), "wrap").derive(i).expr)
    assert str(Shifted(Row(n), (1,), "clamp").derive(i).expr) == "minimum(N - 1, i + 1)"
    assert Shifted(Row(n), (0,), "clamp").derive(i).expr == i.expr


def test_it_is_for_reading_only():
    layout = Shifted(gallery.morton(4), (1, 0), "clamp")
    assert is_read_only(layout)
    assert not is_read_only(Shifted(Row(4), (1,)))
    assert isinstance(layout.check(), Proved)
    assert layout.strides() is None
    assert layout.physical_size() == 16
    assert pickle.loads(pickle.dumps(Shifted(Row(4, 4), (1, 0), "wrap"))) == Shifted(Row(4, 4), (1, 0), "wrap")
    assert repr(Shifted(Row(4), (1,))) == "Row(4).shifted(1, boundary='zero')"
    with pytest.raises(LayoutError, match="has no inverse: several indices may be at one position"):
        layout.inv(3)
    with pytest.raises(LayoutIndexError, match="is outside the matrix, and masked"):
        Shifted(Row(4), (1,)).apply(3)


@pytest.mark.parametrize(
    ("offsets", "boundary", "message"),
    [
        ((1,), "zero", r"takes an int for each of the sizes \[4, 6\], got \[1\]"),
        ((1, 0.5), "zero", "takes an int for each of the sizes"),
        ((1, 0), "edge", "the boundary is one of zero, clamp, mirror, wrap, got 'edge'"),
    ],
)
def test_arguments_that_are_refused(offsets, boundary, message):
    with pytest.raises(LayoutError, match=message):
        Shifted(Row(4, 6), offsets, boundary)
