"""Boxes derived from a tile's bytes: what the unit writes is found again, and one wrong byte is named."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lego_mlir.errors import LayoutError
from lego_mlir.hardware.tensor_boxes import derive_boxes, dimensions_of
from lego_mlir.hardware.tensor_maps import SWIZZLES, TensorMap
from lego_mlir.layout import Row, gallery


def written(tensor_map, panels, starts):
    """The bytes of a tile of panels, as the unit writes each of them, at several starts."""
    width, height = tensor_map.box
    inside = np.array([[tensor_map.shared_offset((c, r)) for c in range(width)] for r in range(height)])
    size = -(-tensor_map.box_bytes // 1024) * 1024
    tile = np.concatenate([inside + panel * size for panel in range(panels)], axis=1)
    return np.stack([tile + start * panels * size for start in range(starts)])


@given(st.sampled_from([32, 64, 128]), st.sampled_from([8, 24, 64]), st.integers(1, 3), st.integers(1, 3), st.data())
def test_what_the_unit_writes_is_derived_and_any_other_byte_refused(swizzle, rows, panels, starts, data):
    width = swizzle // 2
    tensor_map = TensorMap("f16", (4096, 4096), (8192,), (width, rows), swizzle)
    offsets = written(tensor_map, panels, starts)
    found = derive_boxes(offsets, 2)
    for start in range(starts):
        for (first, other), byte in found.places:
            box = TensorMap("f16", (4096, 4096), (8192,), found.box, found.swizzle)
            base = offsets[start, 0, 0] + byte
            for c, r in ((0, 0), (found.box[0] - 1, found.box[1] - 1), (found.box[0] // 2, min(3, found.box[1] - 1))):
                assert box.shared_offset((c, r)) + base == offsets[start, other + r, first + c]
    spot = tuple(data.draw(st.integers(0, n - 1)) for n in offsets.shape)
    if spot[1:] == (0, 0):
        return
    moved = offsets.copy()
    moved[spot] += 2 * 8192
    with pytest.raises(LayoutError, match=r"the tile has it at|does not begin"):
        derive_boxes(moved, 2)


@pytest.mark.parametrize(
    ("layout", "swizzle"),
    [
        (gallery.xor_swizzle(64, 64, 8), 128),
        (gallery.xor_swizzle(64, 32, 8, 2, 4), 64),
        (gallery.xor_swizzle(64, 16, 8, 4, 2), 32),
        (Row(64, 64), 0),
        (Row(64, 8), 0),
    ],
)
def test_layouts_of_the_gallery(layout, swizzle):
    offsets = np.asarray(layout.apply(*np.indices(layout.dims()))) * 2
    assert derive_boxes(offsets[None], 2).swizzle == swizzle
    assert swizzle in SWIZZLES


def test_dimensions_begin_with_adjacent_elements():
    assert dimensions_of((64, 8, 1), (4, 8, 8)) == (2, 1, 0)
    assert dimensions_of((64, 1, 8), (4, 8, 8)) == (1, 2, 0)
    with pytest.raises(LayoutError, match=r"none of the strides \(16, 2\) is 1"):
        dimensions_of((16, 2), (8, 8))
