"""Tensor maps: where a box's elements are in shared memory, and what the copy engine cannot express."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lego_mlir.errors import LayoutError
from lego_mlir.f2.encodings.shared import TensorCopyShared
from lego_mlir.hardware.memory import ELEMENT_BYTES
from lego_mlir.hardware.tensor_maps import SWIZZLES, TensorMap, swizzled


def box_of(dtype, box, swizzle=0):
    strides = tuple(2**20 * (i + 1) for i in range(len(box) - 1))
    return TensorMap(dtype, tuple(4 * n for n in box), strides, box, swizzle)


@given(st.sampled_from(["u8", "f16", "f32"]), st.sampled_from(sorted(SWIZZLES)), st.integers(1, 24))
def test_a_box_is_packed_without_gaps_and_without_collisions(dtype, swizzle, rows):
    width = (swizzle or 64) // ELEMENT_BYTES[dtype]
    made = box_of(dtype, (width, 8 * rows), swizzle)
    offsets = [made.shared_offset((x, y)) for y in range(8 * rows) for x in range(width)]
    assert sorted(offsets) == list(range(0, made.box_bytes, ELEMENT_BYTES[dtype]))


@pytest.mark.parametrize("swizzle", [32, 64, 128])
@pytest.mark.parametrize("dtype", ["u8", "f16", "f32"])
def test_the_offsets_are_those_of_the_linear_layout(swizzle, dtype):
    width, size = swizzle // ELEMENT_BYTES[dtype], ELEMENT_BYTES[dtype]
    layout = TensorCopyShared(swizzle, 8 * size).layout((32, width))
    made = box_of(dtype, (width, 32), swizzle)
    for offset in range(32 * width):
        at = layout.apply(offset=offset, block=0)
        assert made.shared_offset((at["dim1"], at["dim0"])) == offset * size


@given(st.integers(0, 2**20), st.sampled_from(sorted(SWIZZLES)))
def test_a_swizzle_is_its_own_inverse_and_moves_whole_chunks(offset, swizzle):
    moved = swizzled(offset, swizzle)
    assert swizzled(moved, swizzle) == offset
    assert moved % 16 == offset % 16
    assert moved // 128 == offset // 128


def test_eight_rows_of_a_column_of_chunks_are_in_different_banks():
    made = box_of("f16", (64, 8), 128)
    assert len({made.shared_offset((8, row)) % 128 for row in range(8)}) == 8
    assert len({box_of("f16", (64, 8)).shared_offset((8, row)) % 128 for row in range(8)}) == 1


def test_the_bytes_of_a_box_are_those_of_its_elements():
    made = box_of("bf16", (64, 64, 4), 128)
    assert np.prod(made.box) * 2 == made.box_bytes == 32768


@given(st.integers(1, 600), st.integers(1, 256), st.integers(1, 300))
def test_whole_boxes_and_that_of_the_edge_cover_an_array(size, rows, columns):
    made = TensorMap("f16", (columns * 8, size), (columns * 16,), (8, rows), edge=1)
    whole, edge = made.parts
    last = size // rows * rows
    assert (whole.edge, edge.edge, whole.box[1], edge.box[0]) == (None, None, rows, 8)
    assert last + edge.box[1] == size if size % rows else edge.box[1] == rows
    assert replace(made, edge=None).parts == (whole,)


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        (("f16", (64, 64), (128,), (8, 8), 0, 0), "a tensor map's edge is a dimension from 1 to 1, got 0"),
        (("i1", (8,), (), (8,)), "a tensor map has no type i1; it has u8, u16"),
        (("f16", (64, 64), (), (8, 8)), "as many box sizes, and one stride less"),
        (("f16", (1,) * 6, (16,) * 5, (8,) * 6), "a tensor map has 1 to 5 sizes"),
        (("f16", (0, 64), (128,), (8, 8)), r"sizes must be 1 to 2\*\*32, got \(0, 64\)"),
        (("f16", (60, 64), (120,), (8, 8)), r"multiples of 16 bytes below 2\*\*40, got \(120,\); pad the rows to a "
                                            "multiple of 8 elements"),
        (("f16", (64, 64), (128,), (8, 257)), r"1 to 256 elements along each dimension, got \(8, 257\)"),
        (("f16", (64, 64), (128,), (8, 8), 48), "swizzle is 0, 32, 64 or 128 bytes, got 48"),
        (("f16", (64, 64), (128,), (4, 8)), "a multiple of 16 bytes wide, got 4 elements of f16: 8 bytes"),
        (("f16", (256, 64), (512,), (128, 8), 128), "at most the swizzle's 128, got 128 elements of f16: 256 bytes"),
    ],
)  # fmt: skip
def test_what_the_engine_cannot_copy_is_refused_with_the_reason(given_, message):
    with pytest.raises(LayoutError, match=message):
        TensorMap(*given_)
