"""Copies into and out of aligned rows, for every offset of a row, in the interpreter and as PTX."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ptx_runs import ptx_of

from lego_mlir import bf16, f16, interp
from lego_mlir.interp.ptx import emulate
from lego_mlir.kernels import aligned_copies
from lego_mlir.kernels.aligned_copies import crop, pad
from lego_mlir.kernels.aligned_products import aligned

GUARD = 7


def drawn(rows, columns, seed=0):
    """Distinct numbers, so that an element in another's place is found."""
    return np.random.default_rng(seed).permutation(rows * columns).astype(np.float16).reshape(rows, columns)


def run(kernel, *arrays, **sizes):
    """The kernel in the interpreter, on guarded memory: no fault, and nothing written beyond an array."""
    memories = {p.name: a.reshape(-1) for p, a in zip(kernel.params, arrays, strict=True)}
    report = interp.run_kernel(kernel, memories, sizes, counts=False)
    assert report.clean, [str(fault) for fault in report.faults]


def padded(source, rows):
    (m, n), wide = source.shape, np.full((rows, aligned(source.shape[1])), np.nan, np.float16)
    run(pad(f16), source, wide, M=m, N=n, Q=rows, P=wide.shape[1])
    return wide


def cropped(wide, m, n):
    c = np.full((m, n), np.nan, np.float16)
    run(crop(f16), wide, c, M=m, N=n, Q=wide.shape[0], P=wide.shape[1])
    return c


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 40), st.integers(1, 140), st.integers(0, 9))
def test_padding_keeps_the_elements_and_clears_the_rest(m, n, more):
    source = drawn(m, n)
    wide = padded(source, m + more)
    np.testing.assert_array_equal(wide[:m, :n], source)
    assert not wide[m:].any() and not wide[:, n:].any()


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 40), st.integers(1, 140), st.integers(0, 9))
def test_cropping_inverts_padding(m, n, more):
    source = drawn(m, n)
    np.testing.assert_array_equal(cropped(padded(source, m + more), m, n), source)


def test_columns_are_padded_like_rows():
    source = drawn(5, 67)
    wide = np.full((9, 128), np.nan, np.float16)
    run(pad(f16, True), source, wide, M=5, N=67, Q=9, P=128)
    np.testing.assert_array_equal(wide, padded(source, 9))


@pytest.mark.parametrize("dtype", [f16, bf16], ids=str)
def test_the_ptx_loads_and_stores_vectors(dtype):
    text, _ = ptx_of(pad(dtype))
    assert text.count("ld.global.v4") == text.count("st.global.v4") == aligned_copies.ROWS
    text, _ = ptx_of(crop(dtype))
    assert text.count("ld.global.v4") == text.count("st.global.v4") == aligned_copies.ROWS


def test_the_ptx_copies():
    m, n, rows = 6, 131, 8
    source, wide, back = drawn(m, n), np.full((rows, 192), np.nan, np.float16), np.full((m, n), np.nan, np.float16)
    for kernel, first, second, sizes in (
        (pad(f16), source, wide, {"M": m, "N": n, "Q": rows, "P": 192}),
        (crop(f16), wide, back, {"M": m, "N": n, "Q": rows, "P": 192}),
    ):
        text, _ = ptx_of(kernel)
        named = [sizes[size.name] for size in kernel.sizes]
        across = -(-(192 if first is source else n + aligned_copies.WIDTH) // aligned_copies.SPAN)
        report = emulate(
            text, kernel.name, args=[first.reshape(-1), second.reshape(-1), *named], grid=(across, 1, 1),
            block=kernel.block, names=[p.name for p in kernel.params],
        )  # fmt: skip
        assert report.clean, [str(fault) for fault in report.faults]
    np.testing.assert_array_equal(wide[:m, :n], source)
    np.testing.assert_array_equal(back, source)
