"""One product of a warpgroup for each type, swizzle and width, K-major, from TMA tiles; ptxas takes each text."""

import shutil
import subprocess

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lego_mlir.f2.matrix_descriptors import MatrixDescriptor
from lego_mlir.interp.ptx import TensorMapArgument, emulate
from lego_mlir.interp.ptx.checks import DEFAULT, TRITON
from lego_mlir.interp.ptx.ptx_launch import EmulatorOptions
from lego_mlir.interp.ptx.wgmma_descriptors import DecodedDescriptor, grid
from lego_mlir.interp.report import Kind

TYPES = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32, "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2, "s8": np.int8, "u8": np.uint8,
}  # fmt: skip
MODES = {128: 1, 64: 2, 32: 3}
ROWS = 64


def text(type_, swizzle, n, sign):
    """C [64, n] = sign A B: a row of A and of B^T has as many bytes as the swizzle."""
    integer = type_ in ("s8", "u8")
    result = "s32" if integer else "f32"
    k = 32 // np.dtype(TYPES[type_]).itemsize
    count = n // 2
    accumulators = ", ".join(f"%acc{i}" for i in range(count))
    a_bytes, b_bytes = ROWS * swizzle, n * swizzle
    second = -(-a_bytes // 1024) * 1024
    barrier = second + -(-b_bytes // 1024) * 1024
    high = hex(MODES[swizzle] << 62 | (8 * swizzle // 16) << 32 | 1 << 16)
    scales = "" if integer else f", {sign}, 1" + (", 0, 0" if type_ in ("f16", "bf16") else "")
    load = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
    lines = ["mov.u32 %base, dynamic; mov.u32 %r1, %tid.x; setp.ne.u32 %p1, %r1, 0;"]
    lines += [f"add.u32 %bar, %base, {barrier}; @%p1 bra READY;", "mbarrier.init.shared::cta.b64 [%bar], 1;"]
    lines += ["fence.mbarrier_init.release.cluster;"]
    lines += [f"mbarrier.arrive.expect_tx.shared::cta.b64 %rd1, [%bar], {a_bytes + b_bytes};"]
    for name, offset in (("a", 0), ("b", second)):
        lines += [f"mov.b64 %rd1, {name}; cvta.param.u64 %rd2, %rd1; add.u32 %r2, %base, {offset}; mov.u32 %r3, 0;"]
        lines += [f"{load} [%r2], [%rd2, {{%r3, %r3}}], [%bar];"]
    lines += ["READY: bar.sync 0;", "WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%bar], 0; @!%p2 bra WAIT;"]
    lines += [f"mov.b32 %acc{i}, 0;" for i in range(count)]
    lines += ["wgmma.fence.sync.aligned; setp.eq.u32 %p3, 0, 0;"]
    for part in range(swizzle // 32):
        for register, offset in (("%rd3", 32 * part), ("%rd4", second + 32 * part)):
            lines += [f"add.u32 %r4, %base, {offset}; and.b32 %r4, %r4, 0x3FFFF; shr.u32 %r4, %r4, 4;"]
            lines += [f"cvt.u64.u32 {register}, %r4; or.b64 {register}, {register}, {high};"]
        form = f"m64n{n}k{k}.{result}.{type_}.{type_}"
        lines += [f"wgmma.mma_async.sync.aligned.{form} {{{accumulators}}}, %rd3, %rd4, %p3{scales};"]
    lines += ["wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;", "ld.param.u64 %rd5, [c];"]
    lines += ["shr.u32 %r5, %r1, 5; and.b32 %r6, %r1, 31; shr.u32 %r7, %r6, 2; and.b32 %r8, %r6, 3;"]
    lines += [f"mad.lo.u32 %r9, %r5, 16, %r7; mul.lo.u32 %r9, %r9, {n}; mad.lo.u32 %r9, %r8, 2, %r9;"]
    lines += ["mul.wide.u32 %rd6, %r9, 4; add.u64 %rd6, %rd6, %rd5;"]
    for i in range(count):
        offset = 4 * (8 * (i // 2 % 2) * n + 8 * (i // 4) + i % 2)
        lines += [f"st.global.b32 [%rd6+{offset}], %acc{i};"]
    body = "\n".join(lines)
    return (
        ".version 8.6\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 dynamic[];\n"
        ".visible .entry k(.param .align 64 .b8 a[128], .param .align 64 .b8 b[128], .param .u64 c)\n"
        f".maxntid 128, 1, 1\n{{\n.reg .pred %p<5>; .reg .b32 %r<20>, %base, %bar; .reg .b64 %rd<9>;\n"
        f".reg .b32 {accumulators};\n{body}\nret;\n}}\n"
    ), barrier + 8


CASES = [(t, s, 64, 1) for t in TYPES for s in MODES] + [
    ("f16", 128, 8, -1),
    ("bf16", 64, 256, -1),
    ("e4m3", 128, 24, 1),
]


@pytest.mark.parametrize(("type_", "swizzle", "n", "sign"), CASES)
def test_a_product(type_, swizzle, n, sign, tmp_path):
    dtype = np.dtype(TYPES[type_])
    depth = swizzle // dtype.itemsize
    random = np.random.default_rng(swizzle + n)
    low = 0 if type_ == "u8" else -3
    a, b = (random.integers(low, 4, (rows, depth)).astype(dtype) for rows in (ROWS, n))
    c = np.zeros((ROWS, n), np.int32 if type_ in ("s8", "u8") else np.float32)
    maps = [TensorMapArgument(x, type_, (depth, len(x)), (swizzle,), (depth, len(x)), swizzle) for x in (a, b)]
    ptx, shared = text(type_, swizzle, n, sign)
    report = emulate(ptx, args=[*maps, c], dynamic_shared=shared)
    assert report.clean, report.faults
    assert np.array_equal(c, sign * (a.astype(np.float64) @ b.astype(np.float64).T))
    if shutil.which("ptxas") is not None and swizzle == 128:
        path = tmp_path / "k.ptx"
        path.write_text(ptx)
        command = ["ptxas", "-arch=sm_90a", "-o", str(tmp_path / "k.cubin"), str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_a_move_of_registers_in_flight_waits_in_the_text_of_triton():
    """Triton takes accumulators apart before the wait; elsewhere that is a fault."""
    ptx, shared = text("f16", 128, 8, 1)
    commit = "wgmma.commit_group.sync.aligned;"
    moved = ptx.replace(commit, f"{commit}\nmov.b32 {{%lo, %hi}}, %acc0;\nmov.b32 %r10, {{%lo, %hi}};")
    moved = moved.replace("st.global.b32 [%rd6+0], %acc0;", "st.global.b32 [%rd6+0], %r10;")
    moved = moved.replace(".reg .pred", ".reg .b16 %lo, %hi; .reg .pred")
    assert moved.count("%r10") == 2
    random = np.random.default_rng(0)
    a, b = (random.integers(-3, 4, (rows, 64)).astype(np.float16) for rows in (ROWS, 8))
    maps = [TensorMapArgument(x, "f16", (64, len(x)), (128,), (64, len(x)), 128) for x in (a, b)]
    for checks, kinds in ((TRITON, set()), (DEFAULT, {Kind.PENDING})):
        c = np.zeros((ROWS, 8), np.float32)
        options = EmulatorOptions(checks=checks)
        report = emulate(moved, args=[*maps, c], dynamic_shared=shared, options=options)
        assert report.kinds() == kinds
        assert kinds or np.array_equal(c, a.astype(np.float64) @ b.astype(np.float64).T)


@settings(deadline=None, max_examples=50)
@given(
    st.sampled_from(["k", "mn"]), st.sampled_from([0, 32, 64, 128]), st.integers(1, 64), st.integers(1, 64),
    st.integers(0, 64), st.sampled_from([8, 64, 256]),
)  # fmt: skip
def test_descriptors_are_decoded_as_they_are_derived(contiguous, swizzle, leading, stride, start, mn):
    derived = MatrixDescriptor(contiguous, swizzle, 16 * leading, 16 * stride)
    decoded = DecodedDescriptor.decoded(derived.word | start)
    found = decoded.addresses(*grid(mn, 16), 2, k_major=contiguous == "k")
    assert np.array_equal(found, derived.offsets(16 * start, mn, 2))
