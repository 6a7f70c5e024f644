"""wgmma's descriptors: derived from tiles, and compared with an enumeration of the layouts in the PTX ISA."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lego_mlir.errors import LayoutError
from lego_mlir.f2.matrix_descriptors import MatrixDescriptor, derive, permuted


def isa_offset(contiguous, swizzle, leading, stride, mn, k):
    """The byte of an element, transcribed from the ISA's figures: core matrices of eight 16-byte rows."""
    if contiguous == "k" and swizzle == 0:
        byte = (mn // 8) * stride + (mn % 8) * 16 + (k // 8) * leading + (k % 8) * 2
    elif contiguous == "k":
        byte = (mn // 8) * stride + (mn % 8) * swizzle + k * 2
    elif swizzle == 0:
        byte = (mn // 8) * stride + (mn % 8) * 2 + (k // 8) * leading + (k % 8) * 16
    else:
        atom = swizzle // 2
        byte = (mn // atom) * leading + (mn % atom) * 2 + (k // 8) * stride + (k % 8) * swizzle
    chunk = {0: 0, 32: byte >> 7 & 1, 64: byte >> 7 & 3, 128: byte >> 7 & 7}[swizzle]
    return byte ^ (chunk << 4)


@st.composite
def descriptors(draw):
    contiguous, swizzle = draw(st.sampled_from(["k", "mn"])), draw(st.sampled_from([0, 32, 64, 128]))
    unit = 8 * (swizzle or 16)
    first = unit * draw(st.integers(1, 8))
    second = first * draw(st.integers(2, 8))
    leading, stride = (first, second) if draw(st.booleans()) else (second * 4, first)
    if contiguous == "k" and swizzle:
        leading = 0
    return MatrixDescriptor(contiguous, swizzle, leading, stride)


@given(descriptors())
def test_offsets_are_those_of_the_isa(descriptor):
    d = descriptor
    found = d.offsets(0, 64, 2)
    for mn, k in ((0, 0), (1, 0), (7, 3), (8, 0), (13, 9), (63, 15), (32, 8), (40, 7)):
        assert found[mn, k] == isa_offset(d.contiguous, d.swizzle, d.leading, d.stride, mn, k)


@given(descriptors())
def test_a_tile_of_one_instruction_gives_its_descriptor_back_or_one_for_the_same_places(descriptor):
    offsets = descriptor.offsets(0, 64, 2)
    if len(np.unique(offsets)) < offsets.size:
        return
    found = derive(offsets, 2, rows=64).descriptor
    np.testing.assert_array_equal(found.offsets(0, 64, 2), offsets)


@given(descriptors(), st.integers(0, 63), st.integers(0, 15))
def test_a_tile_with_one_element_elsewhere_is_refused(descriptor, mn, k):
    offsets = descriptor.offsets(0, 64, 2).copy()
    offsets[mn, k] += 2 * 64 * 1024
    if (mn, k) == (0, 0):
        return
    with pytest.raises(LayoutError, match="no wgmma descriptor describes this tile of 64 x 16 elements"):
        derive(offsets, 2, rows=64)


def swizzled_rows(rows, columns, pitch=128):
    row, k = np.indices((rows, columns))
    return permuted(row * pitch + k * 2, 128)


def test_tiles_of_the_tensor_copy():
    found = derive(swizzled_rows(128, 64), 2, rows=64)
    assert (found.descriptor, found.row_step, found.depth_step) == (MatrixDescriptor("k", 128, 0, 1024), 8192, 32)
    assert found.descriptor.word == 1 << 62 | 64 << 32
    mn, k = np.indices((256, 64))
    across = permuted(mn // 64 * 8192 + k * 128 + mn % 64 * 2, 128)
    found = derive(across, 2, rows=256)
    assert (found.descriptor, found.depth_step) == (MatrixDescriptor("mn", 128, 8192, 1024), 2048)
    assert found.descriptor.word == 1 << 62 | 64 << 32 | 512 << 16


@pytest.mark.parametrize(
    ("offsets", "reason"),
    [
        (swizzled_rows(64, 64, pitch=136), "the closest, after"),
        (np.indices((64, 64))[0] * 128 + np.indices((64, 64))[1] * 2, "the closest, after"),
        (np.indices((64, 64))[1] * 200 + np.indices((64, 64))[0] * 2, "the closest, after"),
    ],
)
def test_padded_and_unswizzled_rows_are_refused(offsets, reason):
    with pytest.raises(LayoutError, match=reason):
        derive(offsets, 2, rows=64)


def test_eight_bit_tiles_only_along_k():
    row, k = np.indices((64, 128))
    assert derive(permuted(row * 128 + k, 128), 1, rows=64).descriptor == MatrixDescriptor("k", 128, 0, 1024)
    with pytest.raises(LayoutError, match="no wgmma descriptor"):
        derive(permuted(np.indices((64, 32))[1] * 128 + np.indices((64, 32))[0], 128), 1, rows=64)


def test_a_tile_that_instructions_do_not_divide():
    with pytest.raises(LayoutError, match="wgmma multiplies 64 x 16 elements; the tile has 96 x 64"):
        derive(swizzled_rows(96, 64), 2, rows=64)
