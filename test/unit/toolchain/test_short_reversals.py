"""Reversals of few bits: by one instruction of 32 bits, with the bits in the right places."""

import numpy as np
import pytest

from lego_mlir.hardware.targets import target_named
from lego_mlir.interp.ptx import emulate
from lego_mlir.toolchain import llvm, short_reversals


def reversal(bits):
    """LLVM IR of a kernel that writes the reversal of the low bits of a number."""
    return f"""define ptx_kernel void @reversal(ptr addrspace(1) %io) {{
  %1 = load i32, ptr addrspace(1) %io
  %2 = trunc i32 %1 to i{bits}
  %3 = call i{bits} @llvm.bitreverse.i{bits}(i{bits} %2)
  %4 = zext i{bits} %3 to i32
  %5 = getelementptr i32, ptr addrspace(1) %io, i32 1
  store i32 %4, ptr addrspace(1) %5
  ret void
}}
declare i{bits} @llvm.bitreverse.i{bits}(i{bits})
"""


@pytest.mark.parametrize("bits", [2, 3, 5, 8, 16, 31])
def test_bits_are_in_reverse_order(bits):
    text = llvm.to_ptx(reversal(bits), target_named("sm_90"))
    assert "brev.b32" in text
    for number in (1, 2, 6, 0x12345678, 0xFFFFFFFE):
        io = np.array([number, 0], np.uint32)
        assert emulate(text, args=[io], block=(1, 1, 1)).clean
        assert io[1] == int(format(number % 2**bits, f"0{bits}b")[::-1], 2)


def test_swapped_bits_of_a_number_are_few_instructions():
    swapped = """define ptx_kernel void @swapped(ptr addrspace(1) %io) {
  %1 = load i32, ptr addrspace(1) %io
  %2 = and i32 %1, 1
  %3 = shl i32 %2, 1
  %4 = and i32 %1, 2
  %5 = lshr i32 %4, 1
  %6 = or i32 %3, %5
  store i32 %6, ptr addrspace(1) %io
  ret void
}
"""
    text = llvm.to_ptx(swapped, target_named("sm_90"))
    assert ".b16" not in text
    for number in range(8):
        io = np.array([number], np.uint32)
        assert emulate(text, args=[io], block=(1, 1, 1)).clean
        assert io[0] == [0, 2, 1, 3][number % 4]


def test_longer_reversals_stay():
    text = "  %1 = call i64 @llvm.bitreverse.i64(i64 %0)"
    assert short_reversals.widened(text) == text
