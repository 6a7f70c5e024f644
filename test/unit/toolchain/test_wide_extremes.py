"""Minima and maxima of 16 bits as ptxas is given them, and the merged instruction that they avoid."""

import re
import subprocess

import numpy as np
import pytest

from lego_mlir.hardware.targets import target_named
from lego_mlir.interp.ptx import emulate
from lego_mlir.toolchain import llvm, ptxas, sass, wide_extremes

TRIPS = """
.version 8.6
.target sm_90a
.address_size 64
.visible .entry trips(.param .u64 out, .param .u32 n)
{
	.reg .b16 %rs<3>;
	.reg .b32 %r<4>;
	.reg .b64 %rd<2>;
	.reg .pred %p<3>;
	ld.param.u64 %rd1, [out];
	ld.param.u32 %r1, [n];
	and.b32 %r1, %r1, 7;
	cvt.u16.u32 %rs1, %r1;
	max.u16 	%rs2, %rs1, 1;
	cvt.u32.u16 %r2, %rs2;
	mov.b32 %r3, 1;
	setp.eq.u32 %p1, %r2, 1;
	@%p1 bra DONE;
LOOP:
	st.global.u32 [%rd1], %r3;
	add.u32 %r3, %r3, 1;
	setp.ne.u32 %p2, %r3, %r2;
	@%p2 bra LOOP;
DONE:
	ret;
}
"""


def extremes():
    """LLVM IR of a kernel that writes four extremes of a number and a constant."""
    lines = ["define ptx_kernel void @extremes(ptr addrspace(1) %io) {", "  %x = load i16, ptr addrspace(1) %io"]
    for k, (name, constant) in enumerate((("umax", 5), ("umin", -3), ("smax", -2), ("smin", -2)), 1):
        lines += [
            f"  %v{k} = call i16 @llvm.{name}.i16(i16 %x, i16 {constant})",
            f"  %p{k} = getelementptr i16, ptr addrspace(1) %io, i32 {k}",
            f"  store i16 %v{k}, ptr addrspace(1) %p{k}",
        ]
    declared = [f"declare i16 @llvm.{name}.i16(i16, i16)" for name in ("umax", "umin", "smax", "smin")]
    return "\n".join([*lines, "  ret void", "}", *declared])


@pytest.mark.parametrize("x", [0, 1, 5, 6, 32767, 32768, 65532, 65533, 65534, 65535])
def test_extremes_of_16_bits(x):
    text = llvm.to_ptx(extremes(), target_named("sm_90a"))
    assert not re.search(r"(min|max)\.[us]16", text)
    assert text.count(".reg .b32 %wide") == 4
    io = np.array([x, 0, 0, 0, 0], np.uint16)
    report = emulate(text, args=[io], block=(1, 1, 1))
    assert report.clean
    signed = x - 65536 * (x > 32767)
    wanted = [max(x, 5), min(x, 65533), max(signed, -2) % 65536, min(signed, -2) % 65536]
    assert io[1:].tolist() == wanted


def test_other_targets_keep_theirs():
    text = "\tmax.u16 \t%rs2, %rs1, 1;"
    assert wide_extremes.for_target(text, target_named("sm_80")) == text
    assert "max.u32" in wide_extremes.for_target(text, target_named("sm_90a"))


@pytest.mark.tools
@pytest.mark.skipif(ptxas.find() is None or sass.find_lister() is None, reason="needs ptxas and cuobjdump")
def test_no_comparison_is_merged_into_halves(tmp_path):
    assert "VIMNMX.U16x2" not in machine_code(wide_extremes.widened(TRIPS), tmp_path)


@pytest.mark.tools
@pytest.mark.skipif(ptxas.find() is None or sass.find_lister() is None, reason="needs ptxas and cuobjdump")
def test_ptxas_merges_what_is_not_widened(tmp_path):
    """If this fails, ptxas may be mended: the pass can go for the versions that are."""
    assert "VIMNMX.U16x2 R0, P0, P0, " in machine_code(TRIPS, tmp_path)


def machine_code(ptx, folder):
    binary, _ = ptxas.assemble(ptx, target_named("sm_90a"))
    (folder / "kernel.cubin").write_bytes(binary)
    command = [sass.find_lister(), "-sass", folder / "kernel.cubin"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
