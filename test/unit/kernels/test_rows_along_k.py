"""Copies that make K contiguous: right at all sizes, without conflicts in shared memory, and refused by name."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lego_mlir import interp
from lego_mlir.errors import UsageError
from lego_mlir.kernels import depth_copies, rows_along_k
from lego_mlir.toolchain import compile_kernel

KERNELS = [(element, width) for element, widths in depth_copies.WIDTHS.items() for width in widths]


def copied(element, width, k, r, pitch):
    """The rows of K that the kernel makes, checked for races and bounds, and its reference."""
    kernel, dtype = rows_along_k.along_k(element, width), {1: np.int8, 4: np.int32}[element]
    source = np.random.default_rng(k).integers(-100, 100, (k, r)).astype(dtype)
    rows, sizes = np.full((r, pitch), 7, dtype), {"K": k, "R": r, "P": pitch}
    side = rows_along_k.SIDES[element, width]
    given_ = [source.reshape(-1), rows.reshape(-1), *(sizes[size.name] for size in kernel.sizes)]
    report = interp.launch(kernel.mlir(), kernel.name, (-(-r // side), -(-pitch // side), 1), args=given_)
    assert report.clean, report.faults
    return rows, np.pad(source.T, ((0, 0), (0, pitch - k)))


@pytest.mark.parametrize(("element", "width"), KERNELS)
def test_columns_become_rows_with_zeros_behind(element, width):
    for k, r in ((1, width), (130, 3 * width), (67, 144)):
        pitch = depth_copies.pitch(k + 1, element)
        found, expected = copied(element, width, k, r, pitch)
        np.testing.assert_array_equal(found, expected)


@given(st.integers(1, 200), st.sampled_from([1, 4]))
def test_rows_are_whole_words(k, element):
    pitch = depth_copies.pitch(k, element)
    assert k <= pitch < k + 16
    assert pitch * element % 16 == 0


@settings(max_examples=50)
@given(st.integers(1, 9000), st.integers(1, 9000), st.sampled_from([1, 4]))
def test_a_width_divides_the_rows(k, r, element):
    width = depth_copies.width_for(k, r, element)
    assert r % width == 0
    assert rows_along_k.named(depth_copies.name_of(element, width)) is rows_along_k.along_k(element, width)


@pytest.mark.parametrize(("element", "width"), [(1, 16), (4, 4)])
def test_accesses_are_vectors(element, width):
    text = compile_kernel(rows_along_k.along_k(element, width), target="sm_90").text
    assert "ld.global.v4.b32" in text
    assert "st.global.v4.b32" in text


@pytest.mark.parametrize(("element", "width"), [(1, 2), (2, 8)])
def test_other_elements_are_refused(element, width):
    message = rf"elements of {element} bytes in loads of {width}; there are 16, 8, 4, 1 for 1 bytes; 4, 1 for 4 bytes"
    with pytest.raises(UsageError, match=message):
        rows_along_k.along_k(element, width)
