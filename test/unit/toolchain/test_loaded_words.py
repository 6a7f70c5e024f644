"""Loaded indices of 32 bits: one product makes an address of them, signed or not, and values are the same."""

import re

import numpy as np
import pytest
from launching import launch_emulated

import lego_mlir as lego
from lego_mlir import Row, f32, i32, u32
from lego_mlir.toolchain import loaded_words

THREADS, N = 64, 100


def gathered(dtype, low):
    @lego.kernel(grid=1, block=THREADS)
    def gather(
        x: lego.Tensor(f32, Row(N)),
        at: lego.Tensor(dtype, Row(THREADS), range=(low, N)),
        y: lego.Tensor(f32, Row(THREADS)),
    ):
        t = lego.thread_id[0]
        y[t] = x.halo()[lego.index(at[t])]

    return gather


@pytest.mark.parametrize(("dtype", "low"), [(i32, 0), (u32, 0), (i32, -5)])
def test_an_address_of_a_loaded_index_is_one_product(dtype, low):
    kernel = gathered(dtype, low)
    rng = np.random.default_rng(3)
    x, at = rng.standard_normal(N).astype(np.float32), rng.integers(low, N, THREADS).astype(dtype.numpy)
    found = launch_emulated(kernel, x, at, np.zeros(THREADS, np.float32))[2]
    np.testing.assert_array_equal(found, np.where(at.astype(int) < 0, 0, x[at.astype(int)]))
    text = kernel.ptx("sm_90a")
    assert re.search(r"ld\.global\.(nc\.)?[bu]32 \t%r\d+", text)
    assert re.search(r"mul\.wide\.[su]32 \t%rd\d+, %r\d+, 4;", text)
    assert not re.search(r"ld\.global\.(nc\.)?[su]32 \t%rd\d+", text)


def test_other_extensions_stay():
    text = "  %a = load i64, ptr %p\n  %b = add i32 %x, 1\n  %c = sext i32 %b to i64\n  %d = load i16, ptr %q\n"
    assert loaded_words.kept(text) == text
    unnamed = loaded_words.kept("  %1 = load i32, ptr %0, align 4\n  %2 = zext nneg i32 %1 to i64")
    assert unnamed.splitlines()[1:] == ["  %word2 = freeze i32 %1", "  %2 = zext nneg i32 %word2 to i64"]
