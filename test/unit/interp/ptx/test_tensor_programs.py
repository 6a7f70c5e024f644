"""Tensor memory: random programs against NumPy, each accepted by ptxas, and what is left out or wrong is reported."""

import re
import shutil
import subprocess

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tensor_programs import COLUMNS_OF, TYPES, TensorProgram

from lego_mlir.errors import InterpreterError
from lego_mlir.interp.ptx import emulate
from lego_mlir.interp.ptx.checks import Checks
from lego_mlir.interp.ptx.ptx_launch import EmulatorOptions
from lego_mlir.interp.report import Kind

CASES = {
    "f16": TensorProgram(),
    "i8, 64 rows": TensorProgram(
        kind="i8", left="u8", right="s8", result="s32", m=64, n=24, swizzles=(0, 32), load="16x64b"
    ),
    "tf32, A in tensor memory": TensorProgram(
        kind="tf32", left="tf32", right="tf32", from_tensor=True, load="16x256b", adds=False
    ),
    "6 by 4 bits": TensorProgram(kind="f8f6f4", left="e2m3", right="e2m1", load="16x128b", disabled=0x80000005),
    "along M and N": TensorProgram(
        left="bf16", right="bf16", k_major=(False, False), load="16x32bx2", swizzles=(64, 0), negated=(True, False),
        steps=1, scale_d=2,
    ),
    "two blocks, 256 rows, f16": TensorProgram(result="f16", pair=True, m=256, n=32),
    "two blocks, 128 rows": TensorProgram(pair=True, m=128, n=32),
    "mxf8f6f4": TensorProgram(kind="mxf8f6f4", left="e4m3", right="e3m2", scales="ue8m0", first_scale=2),
    "mxf4": TensorProgram(kind="mxf4", left="e2m1", right="e2m1", scales="ue8m0", n=32, first_scale=2),
    "nvf4": TensorProgram(kind="mxf4nvf4", left="e2m1", right="e2m1", scales="ue4m3", n=128, block=16, steps=1),
}  # fmt: skip


def run(program, text=None, *, fences=True, seed=0):
    """The report, and the registers that each block's warps loaded beside those expected."""
    before = program.words(program.numbers()[2])
    image, _ = program.images()
    found = np.zeros((len(before), *program.loaded(before[0]).shape), np.uint32)
    options = EmulatorOptions(seed=seed, checks=Checks(tensor_fences=fences))
    args, grid = (image, before.copy(), found), (len(before), 1, 1)
    report = emulate(text or program.text(), args=args, grid=grid, dynamic_shared=program.shared, options=options)
    wanted = program.kept(before, program.words(program.expected()))
    return report, found, np.stack([program.loaded(words) for words in wanted])


def assembled(text, folder):
    """What ptxas says of it, empty where it takes it."""
    path = folder / "k.ptx"
    path.write_text(text)
    command = ["ptxas", "-arch=sm_100a", "-o", str(folder / "k.cubin"), str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stderr


@pytest.mark.parametrize("program", CASES.values(), ids=CASES)
def test_a_program_of_each_kind(program, tmp_path):
    report, found, wanted = run(program)
    assert report.clean, report.faults
    assert np.array_equal(found, wanted)
    if shutil.which("ptxas") is not None:
        assert not assembled(program.text(), tmp_path)


@st.composite
def programs(draw):
    kind = draw(st.sampled_from([k for k in TYPES if not k.startswith("mx")]))
    left, right = (draw(st.sampled_from(list(TYPES[kind]))) for _ in range(2))
    if kind == "f16":
        right = left
    wide = kind != "f8f6f4" or {left, right} <= {"e4m3", "e5m2"}
    pair = draw(st.booleans())
    m = draw(st.sampled_from([128, 256] if pair else [64, 128]))
    load = draw(st.sampled_from(list(COLUMNS_OF)))
    steps = draw(st.integers(1, 2))
    return TensorProgram(
        kind, left, right, draw(st.sampled_from(["f16", "f32"])) if kind == "f16" else "s32" if kind == "i8" else "f32",
        m, draw(st.sampled_from([16, 32, 64])) * (2 if pair else 1), steps,
        tuple(draw(st.sampled_from([0, 32, 64, 128])) for _ in range(2)),
        tuple(draw(st.booleans()) if wide else True for _ in range(2)),
        tuple(draw(st.booleans()) if kind != "i8" else False for _ in range(2)), draw(st.booleans()),
        draw(st.integers(0, 3)) if kind in ("f16", "tf32") and steps == 1 else 0,
        not pair and left not in ("e2m1", "e2m3", "e3m2") and draw(st.booleans()),
        draw(st.sampled_from([0, 0xF0F])), load, pair, seed=draw(st.integers(0, 99)),
    )  # fmt: skip


@pytest.mark.examples(2)
@settings(max_examples=8, deadline=None)
@given(programs(), st.integers(0, 9))
def test_random_programs(program, seed):
    if program.from_tensor:  # a copy is K-major
        program = TensorProgram(**{**vars_of(program), "k_major": (True, program.k_major[1])})
    report, found, wanted = run(program, seed=seed)
    assert report.clean, report.faults
    assert np.array_equal(found, wanted)


def vars_of(program):
    return {name: getattr(program, name) for name in program.__dataclass_fields__}


SMALL = {"n": 16, "steps": 1, "swizzles": (0, 0)}
FAULTS = {
    "proxy": ({"without": ("proxy",)}, Kind.UNFENCED, "tcgen05.mma", "fence.proxy.async"),
    "store": ({"without": ("store",)}, Kind.UNINITIALISED, "tcgen05.mma", "never written"),
    "wait for the store": ({"without": ("wait_st",)}, Kind.PENDING, "tcgen05.mma", "completion was not waited for"),
    "no barrier": ({"without": ("ready",)}, Kind.PENDING, "tcgen05.(mma|st)", "completion was not waited for"),
    "fence before": ({"without": ("before",)}, Kind.UNFENCED, "tcgen05.mma", "before_thread_sync"),
    "fence after": ({"without": ("after",)}, Kind.UNFENCED, "tcgen05.mma", "after_thread_sync"),
    "no wait for the product": ({"without": ("wait",)}, Kind.PENDING, "tcgen05.ld", "races with the write of tcgen05"),
    "no commit": ({"without": ("commit",)}, Kind.DEADLOCK, "mbarrier.try_wait", "no warp can continue"),
    "wait for the load": ({"without": ("wait_ld",)}, Kind.PENDING, "st.global.*%o", "with tcgen05.wait::ld first"),
    "no barrier at the end": ({"without": ("last",)}, Kind.PENDING, "tcgen05.dealloc", "races with the read of"),
    "not freed": ({"without": ("dealloc",)}, Kind.LEAK, "tcgen05.alloc", "512 columns of tensor memory are not freed"),
    "too few columns": ({"columns": 32, "n": 48}, Kind.OUT_OF_BOUNDS, "tcgen05.st", "which is not allocated"),
    "no power of two": ({"columns": 48}, Kind.TENSOR_MEMORY, "tcgen05.alloc", "a power of two"),
    "alloc after relinquish": (
        {"extra": {"relinquish": "@%w tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%slot], 32; // HERE\n"},
         "columns": 256, "n": 16}, Kind.TENSOR_MEMORY, "HERE", "after the block's tcgen05.relinquish"),
    "freed twice": (
        {"extra": {"dealloc": "@%w tcgen05.dealloc.cta_group::1.sync.aligned.b32 %tmem, 512; // HERE\n"}},
        Kind.TENSOR_MEMORY, "HERE", "which were not allocated so"),
    "another warp's lanes": (
        {"extra": {"wait_ld": "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%y}, [%tmem]; // HERE\n"}},
        Kind.TENSOR_MEMORY, "HERE", "its warp may begin at 32"),
    "operands overwritten": (
        {"extra": {"commit": "st.shared.b32 [%base+32768], %x; // HERE\n"}}, Kind.PENDING, "HERE",
        "races with the read of tcgen05.mma"),
    "freed and used": (
        {"extra": {"dealloc": "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%y}, [%own]; // HERE\n"}, "columns": 64},
        Kind.OUT_OF_BOUNDS, "HERE", "not allocated"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_reported_at_its_line(name):
    changes, kind, at, words = FAULTS[name]
    program = TensorProgram(**{**SMALL, **changes})
    text = program.text()
    assert text != TensorProgram(**SMALL).text()
    report, _, _ = run(program, text)
    found = [f for f in report.faults if f.kind is kind]
    assert found, report.faults
    lines = text.splitlines()
    assert any(re.search(at, lines[f.place.line - 1]) and words in f.message for f in found), report.faults


def test_a_wrong_instruction_descriptor():
    text = TensorProgram(**SMALL).text()
    report, _, _ = run(TensorProgram(**SMALL), re.sub(r"mov.b32 %x, (\d+); setp", "mov.b32 %x, 16; setp", text))
    assert any(f.kind is Kind.TENSOR_MEMORY and "M is 0, not one of 64, 128" in f.message for f in report.faults)


def test_fences_are_asked_for_by_an_option():
    report, found, wanted = run(TensorProgram(**SMALL, without=("before", "after")), fences=False)
    assert report.clean
    assert np.array_equal(found, wanted)


def test_an_allocation_waits_for_columns_of_another_warp():
    """Two warps allocate all columns, one after the other."""
    text = (
        ".version 8.7\n.target sm_100a\n.address_size 64\n.visible .entry k(.param .u64 p) .maxntid 64, 1, 1\n"
        "{ .reg .b32 %r<9>; .shared .align 16 .b8 place[16];\nmov.u32 %r1, %tid.x; shr.u32 %r1, %r1, 5;\n"
        "mov.u32 %r2, place; mad.lo.u32 %r2, %r1, 4, %r2;\n"
        "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r2], 512;\nld.shared.b32 %r3, [%r2];\n"
        "FREE tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r3, 512;\nret; }\n"
    )
    for seed in range(3):
        assert emulate(text.replace("FREE", ""), args=[np.zeros(1, np.int32)], seed=seed).clean
    report = emulate(text.replace("FREE", "//"), args=[np.zeros(1, np.int32)])
    assert report.kinds() == {Kind.DEADLOCK}
    assert "512 columns of tensor memory to be freed" in report.faults[0].message


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("tcgen05.mma.ws.cta_group::1.kind::f16 [%r1], %rd1, %rd1, %r1, %p1;", "with .ws is not modelled"),
        ("tcgen05.shift.cta_group::1.down [%r1];", "not `tcgen05`"),
        ("tcgen05.cp.cta_group::1.4x256b [%r1], %rd1;", "without a change of format"),
        ("tcgen05.mma.cta_group::2.kind::f16 [%r1], %rd1, %rd1, %r1, %p1;", "an even number of blocks"),
    ],
)
def test_what_is_not_modelled_is_refused_by_line(line, why):
    text = (
        ".version 8.7\n.target sm_100a\n.address_size 64\n.visible .entry k() .maxntid 32, 1, 1\n"
        f"{{ .reg .pred %p<2>; .reg .b32 %r<2>; .reg .b64 %rd<2>;\n{line}\nret; }}\n"
    )
    with pytest.raises(InterpreterError, match=rf":6: .*{re.escape(why)}"):
        emulate(text, args=[])
