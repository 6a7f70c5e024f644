"""A mask and bits in one instruction: only where nothing else reads the masked word, and with the same values."""

import numpy as np
import pytest
from launching import launch_emulated

import lego_mlir as lego
from lego_mlir import Row, f16, u4, u32
from lego_mlir.toolchain import masked_words

AND, OR = "\tand.b32 \t%r2, %r1, 15;", "\tor.b32 \t%r3, %r2, 64;"
LOP = "\tlop3.b32 \t%r3, %r1, 15, 64, 234;"


@pytest.mark.parametrize(
    "between",
    ["\tmov.b32 \t%r1, 4;", "\tld.shared.v2.b32 \t{%r0, %r1}, [%r9];", "$L__BB0_1:", "\t@%p1 bra \t$L__BB0_2;",
     "\tmov.b32 %r1, 4;", "\t{ .reg .b32 tmp; mov.b64 \t{tmp, %r1}, %rd1; }", "\t\t{%r0, %r1},",
     "\tadd.s32 \t%r4, %r2, 1;", "}\n\tmov.b32 \t%r7, 1;", "\tshfl.sync.idx.b32 \t%r1|%p1, %r5, 0, 31, -1;"],
)  # fmt: skip
def test_what_changes_the_word_or_needs_the_mask_alone(between):
    text = f"{AND}\n{between}\n{OR}\n"
    assert masked_words.joined(text) == text


def test_other_instructions_in_between():
    assert masked_words.joined(f"{AND}\n\tmov.b32 \t%r8, 4;\n{OR}") == f"\tmov.b32 \t%r8, 4;\n{LOP}"
    turned = f"{AND}\n{OR}".replace("\tor", "\txor")
    assert masked_words.joined(turned) == LOP.replace("234", "106")


@lego.kernel(grid=1, block=64)
def masked(x: lego.Tensor(u32, Row(64)), y: lego.Tensor(u32, Row(2, 64))):
    t = lego.thread_id[0]
    y[0, t] = (x[t] >> 3) & 0xF000F | 0x64006400
    y[1, t] = x[t] & 0x80000101 ^ 0xFFFF00FF


@lego.kernel(grid=1, block=32)
def widened(x: lego.Tensor(u4, Row(256)), y: lego.Tensor(f16, Row(256))):
    t = lego.thread_id[0]
    y.store(x.load(8 * t, width=8).to(f16), 8 * t)


def test_values():
    x = np.random.default_rng(5).integers(0, 1 << 32, 64, dtype=np.uint32)
    found = launch_emulated(masked, x, np.zeros((2, 64), np.uint32))[1].reshape(2, 64)
    np.testing.assert_array_equal(found[0], x >> 3 & 0xF000F | 0x64006400)
    np.testing.assert_array_equal(found[1], x & 0x80000101 ^ 0xFFFF00FF)
    assert masked.ptx("sm_90a").count("lop3.b32") == 2


def test_packed_numbers_become_floats_by_one_operation_a_pair():
    assert widened.ptx("sm_90a").count("lop3.b32") == 4
