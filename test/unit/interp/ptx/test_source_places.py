"""Faults are reported at the line of the source, through inlined calls, whatever debug sections surround the code."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from ptx_kernels import HEAD, THREAD, entry

from lego_mlir.interp.ptx import emulate
from lego_mlir.interp.ptx.ptx_reader import read_ptx
from lego_mlir.interp.report import Kind

BODY = f""".loc 1 7 3
{THREAD}
add.s64 %rd3, %rd1, %rd50;
.loc 1 20 5, function_name $L__fetch, inlined_at 1 8 11
ld.global.f32 %f1, [%rd3+400];
.loc 1 9 3
add.s64 %rd4, %rd2, %rd50;
st.global.f32 [%rd4], %f1;
ret;"""
FILES = '.file 1 "/src/kernel.cu"\n.file 2 "/src/other.h"\n'
SECTION = """.section .debug_abbrev
{
.b8 1
.b8 17

}
"""


def report(text: str):
    x, y = np.ones(32, np.float32), np.zeros(32, np.float32)
    return emulate(text, args=[x, y], names=["x", "y"], grid=1, block=32)


def test_faults_name_the_source_line_and_the_inlining_call():
    (fault,) = report(entry(BODY) + FILES).faults
    assert (fault.kind, str(fault.place)) == (Kind.OUT_OF_BOUNDS, "/src/kernel.cu:20")
    assert "x[100] is outside of all buffers: 272 bytes past the end of its 32 elements" in fault.message
    assert fault.message.endswith("inlined at kernel.cu:8")
    assert fault.buffer == "x"


def test_without_directives_the_line_is_that_of_the_ptx():
    text = entry("\n".join(line for line in BODY.splitlines() if not line.startswith(".loc")))
    (fault,) = report(text).faults
    assert "ld.global.f32 %f1" in text.splitlines()[fault.place.line - 1]


@given(st.lists(st.sampled_from(["", SECTION, "// a comment\n", "\n\n"]), min_size=3, max_size=3))
def test_sections_and_blank_lines_change_no_report(parts):
    before, between, after = parts
    text = entry(BODY, before=before) + between + FILES + after
    assert [str(f) for f in report(text).faults] == [str(f) for f in report(entry(BODY) + FILES).faults]


def test_inline_assembly_has_one_place():
    lines = entry(BODY).splitlines()
    at = lines.index("ld.global.f32 %f1, [%rd3+400];")
    lines[at - 1 : at + 1] = [
        ".loc 1 33 1", "// begin inline asm", "mov.u32 %r9, 0;", ".loc 1 34 1", lines[at], "// end inline asm"
    ]  # fmt: skip
    (fault,) = report("\n".join(lines) + FILES).faults
    assert fault.place.line == 33


def test_initial_values_hold_numbers_and_addresses():
    text = (
        HEAD
        + """.global .align 4 .f32 one[2] = {0f3F800000, -2};
.global .align 8 .u64 places[3] = {generic(one), one+4, 5};
.global .align 8 .b8 masked[8] = {0xFF(one), 0xFF00(one), 0xFF0000(one), 0xFF000000(one), 0xFF00000000(one),
 0xFF0000000000(one), 0xFF000000000000(one), 0xFF00000000000000(one)};
"""
    )
    one, places, masked = read_ptx(text).variables
    assert one.data == bytes.fromhex("0000803ffeffffff")
    assert [(s.at, s.name, s.offset) for s in places.symbols] == [(0, "one", 0), (8, "one", 4)]
    assert places.data is not None and places.data[16:] == (5).to_bytes(8, "little")
    assert [(s.at, s.name) for s in masked.symbols] == [(0, "one")]
