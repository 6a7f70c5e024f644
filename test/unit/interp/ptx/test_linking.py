"""A call equals its callee's body: by name, by pointer, nested, guarded; the system's functions; the carry flag."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ptx_kernels import THREAD, entry

from lego_mlir.errors import InterpreterError
from lego_mlir.interp.ptx import emulate
from lego_mlir.interp.report import Kind

CALLEE = """.func (.param .b32 out) {name}(.param .b32 a, .param .b32 b)
{{ .reg .b32 %r<9>; .reg .pred %p<3>;
ld.param.b32 %r1, [a]; ld.param.b32 %r2, [b];
{code}
st.param.b32 [out], %r3; ret; }}
"""
CALL = """{{ .param .b32 pa; st.param.b32 [pa], %r3; .param .b32 pb; st.param.b32 [pb], %r4; .param .b32 po;
{call}
ld.param.b32 %r5, [po]; }}"""
OPERATIONS = ("add.s32", "sub.s32", "xor.b32", "min.s32", "mul.lo.s32")


def call(target: str, prototype: str = "") -> str:
    """Store f(x[i], i) to y[i]."""
    return f"""{THREAD} add.s64 %rd3, %rd1, %rd50; add.s64 %rd4, %rd2, %rd50; ld.global.b32 %r3, [%rd3];
mov.u32 %r4, %r53; mov.u32 %r5, 77;
{CALL.format(call=f"{target} (pa, pb){prototype};")}
st.global.b32 [%rd4], %r5; ret;"""


def run(text: str):
    x, y = np.arange(-20, 44, dtype=np.int32) * 37, np.zeros(64, np.int32)
    report = emulate(text, "k", args=[x, y], names=["x", "y"], grid=2, block=32)
    return y, report


@settings(max_examples=15)
@given(st.lists(st.tuples(st.sampled_from(OPERATIONS), st.integers(1, 3), st.integers(1, 2)), min_size=1, max_size=5))
def test_a_call_equals_the_body_in_its_place(code):
    lines = "".join(f"{name} %r3, %r{a}, %r{b}; " for name, a, b in [("add.s32", 1, 2), *code])
    inlined = f"""{THREAD} add.s64 %rd3, %rd1, %rd50; add.s64 %rd4, %rd2, %rd50; ld.global.b32 %r1, [%rd3];
mov.u32 %r2, %r53; {lines} st.global.b32 [%rd4], %r3; ret;"""
    called, report = run(entry(call("call.uni (po), f,"), before=CALLEE.format(name="f", code=lines)))
    assert report.clean
    assert np.array_equal(called, run(entry(inlined))[0])


def test_calls_nest_and_branch():
    inner = CALLEE.format(name="g", code="setp.lt.s32 %p1, %r1, 0; @%p1 bra L; add.s32 %r3, %r1, %r2; bra E; "
                          "L: mov.u32 %r3, -1; E:")  # fmt: skip
    outer = CALLEE.format(name="f", code="mov.u32 %r4, %r2; " + CALL.format(call="call (po), g, (pa, pb);")
                          .replace("%r3", "%r1").replace("%r5", "%r3"))  # fmt: skip
    y, report = run(entry(call("call (po), f,"), before=inner + outer))
    x = np.arange(-20, 44, dtype=np.int32) * 37
    assert report.clean
    assert np.array_equal(y, np.where(x < 0, -1, x + np.arange(64)))


def test_a_pointer_chooses_the_function():
    functions = CALLEE.format(name="plus", code="add.s32 %r3, %r1, %r2;")
    functions += CALLEE.format(name="times", code="mul.lo.s32 %r3, %r1, %r2;")
    table = ".global .align 8 .u64 table[2] = {plus, times};\n"
    body = call("call (po), %rd9,", ", prototype").replace(
        "mov.u32 %r5, 77;", "and.b32 %r7, %r53, 1; mul.wide.u32 %rd7, %r7, 8; mov.u64 %rd8, table; "
        "add.s64 %rd8, %rd8, %rd7; ld.global.u64 %rd9, [%rd8];")  # fmt: skip
    y, report = run(entry(body, before=functions + table))
    x, i = np.arange(-20, 44, dtype=np.int32) * 37, np.arange(64)
    assert report.clean
    assert np.array_equal(y, np.where(i % 2, x * i, x + i))


def test_a_guarded_call_is_of_the_lanes_that_take_it():
    body = call("@%p1 call (po), f,").replace("mov.u32 %r5, 77;", "setp.gt.s32 %p1, %r3, 0;")
    body = body.replace(".param .b32 po;", ".param .b32 po; st.param.b32 [po], %r4;")
    y, report = run(entry(body, before=CALLEE.format(name="f", code="add.s32 %r3, %r1, %r1;")))
    x = np.arange(-20, 44, dtype=np.int32) * 37
    assert report.clean
    assert np.array_equal(y, np.where(x > 0, 2 * x, np.arange(64)))


def test_endless_recursion_is_a_fault_and_a_missing_body_is_refused_by_line():
    again = CALLEE.format(name="f", code=CALL.format(call="call (po), f, (pa, pb);").replace("%r5", "%r3"))
    _, report = run(entry(call("call (po), f,"), before=again))
    assert "calls are nested deeper than 64" in str(report)
    with pytest.raises(InterpreterError, match=r"PTX line \d+: the function f has no body in this file"):
        run(entry(call("call (po), f,")))


def test_printf_assert_malloc_and_free():
    text = ".global .align 1 .b8 fmt[14] = {105, 61, 37, 100, 32, 120, 61, 37, 46, 50, 102, 10, 0};\n"
    body = f"""{THREAD} .local .align 8 .b8 buf[16]; setp.ne.u32 %p1, %r50, 3; @%p1 bra NO;
mov.u64 %rd10, buf; cvta.local.u64 %rd11, %rd10; st.local.u32 [buf], %r50; mov.f64 %fd1, 0d3FF8000000000000;
st.local.f64 [buf+8], %fd1; mov.u64 %rd12, fmt; cvta.global.u64 %rd13, %rd12;
{{ .param .b64 p0; st.param.b64 [p0], %rd13; .param .b64 p1; st.param.b64 [p1], %rd11; .param .b32 r;
call.uni (r), vprintf, (p0, p1); }}
{{ .param .b64 p0; st.param.b64 [p0], 8; .param .b64 r; call.uni (r), malloc, (p0); ld.param.b64 %rd20, [r]; }}
st.global.u32 [%rd20], %r50;
ld.global.u32 %r20, [%rd20+4];
st.global.u32 [%rd20+8], %r50;
{{ .param .b64 p0; st.param.b64 [p0], %rd20; call.uni free, (p0); }}
ld.global.u32 %r21, [%rd20];
{{ .param .b64 p0; st.param.b64 [p0], 24; .param .b64 r; call.uni (r), malloc, (p0); }}
NO: ret;"""
    _, report = run(entry(body, before=text))
    lines = entry(body, before=text).splitlines()
    found = {(f.kind, lines[f.place.line - 1]): f.message for f in report.faults}
    assert report.printed == "i=3 x=1.50\n" * 2
    assert "never written" in found[Kind.UNINITIALISED, "ld.global.u32 %r20, [%rd20+4];"]
    assert "past the end" in found[Kind.OUT_OF_BOUNDS, "st.global.u32 [%rd20+8], %r50;"]
    assert "freed at line" in found[Kind.OUT_OF_BOUNDS, "ld.global.u32 %r21, [%rd20];"]
    assert [f.message for f in report.faults if f.kind is Kind.LEAK] == [
        "48 bytes in 2 blocks of malloc were not freed"
    ]
    assert len(report.faults) == 4


@given(st.lists(st.integers(0, 2**128 - 1), min_size=4, max_size=4))
@settings(max_examples=15)
def test_the_carry_flag_makes_wide_sums(numbers):
    a, b, c, d = numbers
    body = """mov.u32 %r50, %tid.x; mul.wide.u32 %rd3, %r50, 32; add.s64 %rd4, %rd1, %rd3; mul.wide.u32 %rd5, %r50, 16;
add.s64 %rd6, %rd2, %rd5; ld.global.v2.u64 {%rd10, %rd11}, [%rd4]; ld.global.v2.u64 {%rd12, %rd13}, [%rd4+16];
setp.eq.u32 %p1, %r50, 0; @!%p1 bra SUB;
add.cc.u64 %rd20, %rd10, %rd12; addc.u64 %rd21, %rd11, %rd13; bra E;
SUB: sub.cc.u64 %rd20, %rd10, %rd12; subc.u64 %rd21, %rd11, %rd13;
E: st.global.v2.u64 [%rd6], {%rd20, %rd21}; ret;"""
    words = np.frombuffer(b"".join(n.to_bytes(16, "little") for n in (a, b, c, d)), np.uint64).copy()
    out = np.zeros(4, np.uint64)
    assert emulate(entry(body), args=[words, out], grid=1, block=2).clean
    wanted = [(a + b) % 2**128, (c - d) % 2**128]
    assert out.tobytes() == b"".join(n.to_bytes(16, "little") for n in wanted)
