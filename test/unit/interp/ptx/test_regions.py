"""Compiled regions give what the interpreter gives: values bit by bit, and the same faults."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ptx_kernels import THREAD, entry

from lego_mlir.interp.ptx import emulate, gang_scheduler
from lego_mlir.interp.ptx.checks import Checks
from lego_mlir.interp.ptx.ptx_launch import EmulatorOptions
from lego_mlir.interp.ptx.ptx_reader import read_ptx
from lego_mlir.interp.ptx.regions import hot_regions
from lego_mlir.sanitize import empty, ptx, session

runs = {"tried": 0, "done": 0}


@pytest.fixture(autouse=True)
def _hot_at_once(monkeypatch):
    run = hot_regions.HotRegion._run

    def counted(region, gang):
        done = run(region, gang)
        runs["tried"] += 1
        runs["done"] += done
        return done

    monkeypatch.setattr(hot_regions.HotRegion, "_run", counted)
    monkeypatch.setattr(gang_scheduler, "HOT_STEPS", 0)
    monkeypatch.setattr(hot_regions, "HOT", 0)


def both(text: str, make, **launch):
    """Reports and arrays, interpreted and compiled."""
    found = []
    before = dict(runs)
    for compiled in (False, True):
        arrays = make()
        checks = Checks(compiled=compiled)
        report = emulate(text, args=arrays, options=EmulatorOptions(checks=checks), names=["x", "y"], **launch)
        found.append((sorted(map(str, report.faults)), [a.tobytes() for a in arrays]))
    return *found, {name: runs[name] - before[name] for name in runs}


INTEGER = st.sampled_from(
    ["add.s32", "sub.u32", "mul.lo.s32", "and.b32", "or.b32", "xor.b32", "min.s32", "max.u32", "shl.b32", "shr.s32",
     "shr.u32"]
)  # fmt: skip
FLOAT = st.sampled_from(["add.f32", "mul.rn.f32", "sub.ftz.f32", "mul.ftz.f32"])
GUARD = st.sampled_from(["", "@%p1 ", "@!%p2 "])
REGISTER = st.integers(1, 6)
SIDE = st.sampled_from("lr")
LINE = st.one_of(
    st.builds("{}{} %r{}, %r{}, %r{};".format, GUARD, INTEGER, REGISTER, REGISTER, REGISTER),
    st.builds("{}{} %f{}, %f{}, %f{};".format, GUARD, FLOAT, REGISTER, REGISTER, REGISTER),
    st.builds("{}fma.rn.f32 %f{}, %f{}, %f{}, %f{};".format, GUARD, REGISTER, REGISTER, REGISTER, REGISTER),
    st.builds("{}mad.lo.s32 %r{}, %r{}, %r{}, 77;".format, GUARD, REGISTER, REGISTER, REGISTER),
    st.builds("setp.{}.s32 %p1, %r{}, %r{};".format, st.sampled_from(["lt", "eq", "ge"]), REGISTER, REGISTER),
    st.builds("setp.{}.f32 %p2, %f{}, %f{};".format, st.sampled_from(["lt", "ne", "ge"]), REGISTER, REGISTER),
    st.builds("selp.b32 %r{}, %r{}, %r{}, %p1;".format, REGISTER, REGISTER, REGISTER),
    st.builds("mov.b32 {{%h1, %h2}}, %r{}; mov.b32 %r{}, {{%h2, %h1}};".format, REGISTER, REGISTER),
    st.builds("mul.wide.s32 %rd20, %r{}, %r{}; cvt.u32.u64 %r{}, %rd20;".format, REGISTER, REGISTER, REGISTER),
    st.builds(
        "{}mul.hi.{} %r{}, %r{}, %r{};".format, GUARD, st.sampled_from(["s32", "u32"]), REGISTER, REGISTER, REGISTER
    ),
    st.builds("mad.hi.u32 %r{}, %r{}, %r{}, %r{};".format, REGISTER, REGISTER, REGISTER, REGISTER),
    st.builds(
        "lop3.b32 %r{}, %r{}, %r{}, %r{}, {};".format, REGISTER, REGISTER, REGISTER, REGISTER, st.integers(0, 255)
    ),
    st.builds("shf.{}.wrap.b32 %r{}, %r{}, %r{}, %r{};".format, SIDE, *[REGISTER] * 4),
    st.builds(
        "shf.{}.clamp.b32 %r{}, %r{}, %r{}, {};".format, st.sampled_from("lr"), *[REGISTER] * 3, st.integers(0, 40)
    ),
    st.builds(
        "{} %r{}, %r{};".format,
        st.sampled_from(["popc.b32", "clz.b32", "brev.b32", "neg.s32", "abs.s32"]),
        REGISTER,
        REGISTER,
    ),
    st.builds(
        "{} %f{}, %f{};".format,
        st.sampled_from(["neg.f32", "abs.f32", "rcp.rn.f32", "sqrt.rn.f32"]),
        REGISTER,
        REGISTER,
    ),
    st.builds("div.rn.f32 %f{}, %f{}, %f{};".format, REGISTER, REGISTER, REGISTER),
    st.builds("cvt.rn.f32.{} %f{}, %r{};".format, st.sampled_from(["s32", "u32"]), REGISTER, REGISTER),
    st.builds("cvt.f64.f32 %fd1, %f{}; cvt.rn.f32.f64 %f{}, %fd1;".format, REGISTER, REGISTER),
    st.builds("rcp.approx.f32 %f{}, %f{};".format, REGISTER, REGISTER),  # no region holds it: it divides one
)
START = "".join(f"mad.lo.s32 %r{i}, %r53, {i * 7919}, {i}; cvt.rn.f32.s32 %f{i}, %r{i}; " for i in range(1, 7))
END = "mov.b32 %r7, %f1; xor.b32 %r8, %r1, %r7; xor.b32 %r8, %r8, %r2; mov.b32 %r9, %f2; xor.b32 %r8, %r8, %r9;"


@pytest.mark.examples(2)
@settings(max_examples=20)
@given(st.lists(LINE, min_size=3, max_size=12), st.booleans())
def test_random_code_gives_the_same_bits(lines, loops):
    """Straight, and in a loop that half of the lanes leave early."""
    body = " ".join(lines)
    if loops:
        body = f"""mov.u32 %r40, 0; LOOP: {body} add.s32 %r40, %r40, 1; and.b32 %r41, %r50, 1; add.s32 %r41, %r41, 2;
setp.lt.u32 %p9, %r40, %r41; @%p9 bra LOOP;"""
    text = entry(f"""{THREAD} {START} setp.lt.s32 %p1, %r50, 20; setp.lt.f32 %p2, %f1, %f2;
{body} {END} add.s64 %rd4, %rd2, %rd50; st.global.b32 [%rd4], %r8; ret;""")
    plain, compiled, ran = both(text, lambda: [np.zeros(1, np.int32), np.zeros(80, np.int32)], grid=2, block=40)
    assert plain == compiled
    assert plain[0] == []
    assert ran["done"]


MEMORY = {
    "right": "ld.global.v2.b32 {%r1, %r2}, [%rd11]; add.s32 %r3, %r1, %r2;\nst.global.b32 [%rd4], %r3;",
    "outside": "ld.global.b32 %r1, [%rd3+1024]; add.s32 %r3, %r1, 1;\nst.global.b32 [%rd4], %r3;",
    "store outside": "ld.global.b32 %r1, [%rd3]; add.s32 %r3, %r1, 1;\nst.global.b32 [%rd4+512], %r3;",
    "misaligned": "ld.global.b32 %r1, [%rd3+2]; add.s32 %r3, %r1, 1;\nst.global.b32 [%rd4], %r3;",
    "one tile": "ld.global.b32 %r1, [%rd3]; add.s32 %r3, %r1, 1;\nst.global.b32 [%rd9], %r3;",
    "read then write": "ld.global.b32 %r1, [%rd2]; add.s32 %r3, %r1, 1;\nst.global.b32 [%rd2], %r3;",
    "shared": "st.shared.b32 [%r20], %r50; bar.sync 0;\nld.shared.b32 %r3, [%r20]; add.s32 %r3, %r3, 1; "
              "st.global.b32 [%rd4], %r3;",
    "shared race": "st.shared.b32 [%r20], %r50;\nld.shared.b32 %r3, [%r21]; add.s32 %r3, %r3, 1; "
                   "st.global.b32 [%rd4], %r3;",
    "write after read": "st.shared.b32 [%r20], %r50; bar.sync 0;\nld.shared.b32 %r3, [%r21]; add.s32 %r3, %r3, 1;\n"
                        "st.shared.b32 [%r20], %r3; st.global.b32 [%rd4], %r3;",
    "unwritten": "ld.shared.b32 %r3, [%r20]; add.s32 %r3, %r3, 1;\nst.global.b32 [%rd4], %r3;",
    "guarded": "@%p1 ld.global.b32 %r1, [%rd3+128]; add.s32 %r3, %r1, 1;\n@%p1 st.global.b32 [%rd4], %r3;",
    "parameter": "ld.param.u64 %rd12, [x]; ld.global.b32 %r3, [%rd12];\nst.global.b32 [%rd4], %r3;",
}  # fmt: skip
PLACES = """.shared .align 8 .b8 s[256]; add.s64 %rd3, %rd1, %rd50; add.s64 %rd4, %rd2, %rd50;
add.s64 %rd9, %rd2, %rd51; mov.u32 %r19, s; shl.b32 %r18, %r50, 2; add.s32 %r20, %r19, %r18; xor.b32 %r21, %r20, 128;
setp.lt.s32 %p1, %r50, 9; mul.wide.u32 %rd10, %r53, 8; add.s64 %rd11, %rd1, %rd10; mov.u32 %r1, 5; """


@pytest.mark.parametrize("name", MEMORY)
def test_accesses_give_the_same_values_and_faults(name):
    text = entry(f"{THREAD} {PLACES}\n{MEMORY[name]} ret;")
    make = lambda: [np.arange(256, dtype=np.int32), np.zeros(128, np.int32)]  # noqa: E731
    plain, compiled, ran = both(text, make, grid=2, block=64)
    assert plain == compiled
    clean = name in ("right", "shared", "guarded", "parameter")
    assert (plain[0] == []) == clean
    assert ran["done" if clean else "tried"]


def test_memory_that_nobody_wrote_is_seen():
    text = entry(f"{THREAD} {PLACES}\nld.global.b32 %r3, [%rd3];\nst.global.b32 [%rd4], %r3; ret;")
    found = []
    for compiled in (False, True):
        x = empty(128, "int32")
        x[:100] = 5
        with session(checks=Checks(compiled=compiled)):
            found.append(str(ptx(text)[2, 64](x, empty(128, "int32"))))
    assert found[0] == found[1]
    assert "x[100] was never written" in found[0]
    assert "(28 times in all)" in found[0]


def test_a_region_ends_at_labels_barriers_and_loads_after_stores():
    text = entry("""ld.param.u64 %rd3, [x]; add.s64 %rd4, %rd3, 4;
st.global.b32 [%rd3], 1; st.global.b32 [%rd4], 1; ld.global.b32 %r1, [%rd3]; add.s32 %r2, %r1, 1; bar.sync 0;
mov.u32 %r3, 1; add.s32 %r3, %r3, 1; L: add.s32 %r4, %r3, 1; mov.u32 %r5, 3; ret;""")
    module = read_ptx(text)
    found = [(first, end) for first, end in hot_regions.straight_runs(module.entries["k"])]
    names = [i.opcode for i in module.entries["k"].instructions]
    assert [names[first:end] for first, end in found] == [
        ["ld", "ld", "ld", "add", "st", "st"], ["ld", "add"], ["mov", "add"], ["add", "mov"]
    ]  # fmt: skip


def test_cold_code_is_not_compiled(monkeypatch):
    monkeypatch.setattr(gang_scheduler, "HOT_STEPS", 10**12)
    monkeypatch.setattr(hot_regions, "install", None)
    assert both(entry(f"{THREAD} ret;"), lambda: [np.zeros(1), np.zeros(1)], grid=2, block=64)[1][0] == []
