"""Instructions and registers one by one: each of 32 threads computes a word, which NumPy or exact fractions know.

A body has `%r1` and `%r2`, the thread's word of x and that of its mirror image, and leaves its result in `%r9`. All
bodies together are one text that ptxas takes.
"""

import re
import shutil
import subprocess
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from ptx_kernels import entry

from lego_mlir.interp.ptx import emulate

LANE = np.arange(32)
NUMBERS = np.random.default_rng(0).integers(0, 1 << 32, 32, np.uint64).astype(np.uint32)
FEW = (NUMBERS % 5).astype(np.uint32)
FLOATS = np.concatenate([
    np.random.default_rng(1).standard_normal(24).astype(np.float32) * np.float32(40),
    np.float32([0.0, -0.0, 1e-9, -1e-9, 7e4, -7e4, np.inf, 3.4e38]),
]).astype(np.float32)  # fmt: skip
NONZERO = np.concatenate([FLOATS[:24], FLOATS[:8] * np.float32(1e-3)]).view(np.uint32)
LOAD = (
    "mov.u32 %r50, %tid.x; mul.wide.u32 %rd50, %r50, 4; add.u64 %rd3, %rd1, %rd50; ld.global.b32 %r1, [%rd3];\n"
    "xor.b32 %r51, %r50, 31; mul.wide.u32 %rd51, %r51, 4; add.u64 %rd4, %rd1, %rd51; ld.global.b32 %r2, [%rd4];\n"
)
STORE = "add.u64 %rd5, %rd2, %rd50; st.global.b32 [%rd5], %r9; ret;"


def program(body, name="k"):
    return entry(f"{LOAD}{body}\n{STORE}", name=name)


def halves(x, dtype=np.float16):
    """The two numbers of each word."""
    return np.ascontiguousarray(x).view(dtype).reshape(-1, 2)


def words(x):
    return np.ascontiguousarray(x).view(np.uint32).reshape(-1)


def permuted(x, y, selector):
    """prmt: bytes of y:x by the nibbles of a selector; the fourth bit repeats the sign."""
    both = np.stack([x, y], axis=1).view(np.uint8)
    found = np.zeros((len(x), 4), np.uint8)
    for i in range(4):
        nibble = selector >> 4 * i & 0xF
        byte = both[:, nibble & 7]
        found[:, i] = np.where(byte >> 7, 255, 0) if nibble & 8 else byte
    return words(found)


def signed(x):
    return x.view(np.int32).astype(np.int64)


def clipped(x):
    """The low byte, saturated as a signed one."""
    return np.clip(signed(x), -128, 127) & 255


def wider(x, dtype):
    """The two low bytes of each word as numbers of a type, in f16."""
    return words(halves(x, np.uint16)[:, :1].copy().view(np.uint8).view(dtype).astype(np.float16))


def directed(value, dtype, mode):
    """The neighbour of an exact number among the numbers of a type."""
    if not np.isfinite(value):
        return dtype(value)
    near = np.array(value).astype(dtype)
    candidates = [near]
    bits = near.view(np.uint16)
    candidates += [np.array(bits + d, np.uint16).view(dtype) for d in (np.uint16(1), np.uint16(0xFFFF))]
    largest = dtype(ml_dtypes.finfo(dtype).max)
    candidates += [largest, -largest, dtype(np.inf), dtype(-np.inf)]
    below = [c for c in candidates if not np.isnan(c) and float(c) <= float(value)]
    above = [c for c in candidates if not np.isnan(c) and float(c) >= float(value)]
    down = mode == "rm" or (mode == "rz" and value > 0)
    found = max(below, key=float) if down else min(above, key=float)
    return dtype(np.copysign(float(found), value)) if float(found) == 0 else found


def by_element(values, dtype, mode):
    """Pairs (low, high) as words: directed conversions of f32."""
    x, y = values, values[::-1]
    pairs = np.array([[directed(a, dtype, mode), directed(b, dtype, mode)] for a, b in zip(x, y, strict=True)], dtype)
    return words(pairs)


def small(values, dtype, largest):
    """Codes of the nearest numbers of a small type, by trying all."""
    codes = np.arange(256 if largest > 30 else 64 if largest > 6 else 16, dtype=np.uint8)
    table = codes.view(dtype).astype(np.float64)
    order = np.lexsort((codes % 2, np.zeros(len(codes))))  # even codes first: ties to even
    found = []
    for value in np.clip(values.astype(np.float64), -largest, largest):
        same = [c for c in codes[order] if np.signbit(table[c]) == np.signbit(value)]
        found.append(min(same, key=lambda c, value=value: abs(table[c] - value)))
    return np.array(found, np.uint32)


def fused(values, mode):
    """x * y + x of f32, exact, and rounded in a direction."""
    found = []
    for a, b in zip(values, values[::-1], strict=True):
        if not (np.isfinite(a) and np.isfinite(b)):
            found.append(np.float32(np.float64(a) * np.float64(b) + np.float64(a)))
            continue
        exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(a))
        near = np.float32(float(exact))
        options = [near, np.nextafter(near, np.float32(np.inf)), np.nextafter(near, np.float32(-np.inf))]
        options = [o for o in options if np.isfinite(o)]
        down = mode == "rm" or (mode == "rz" and exact > 0)
        sides = [o for o in options if (Fraction(float(o)) <= exact if down else Fraction(float(o)) >= exact)]
        found.append((max if down else min)(sides) if sides else near)
    return np.array(found, np.float32).view(np.uint32)


SHARED = ".shared .align 16 .b8 tile[1024];"
CASES = {
    "WARP_SZ": ("mov.u32 %r9, WARP_SZ;", NUMBERS, lambda x: np.full(32, 32)),
    "envreg": ("mov.b32 %r9, %envreg3;", NUMBERS, lambda x: np.zeros(32)),
    "clocks": (
        "mov.u64 %rd6, %clock64; nanosleep.u32 20; mov.u64 %rd7, %clock64; setp.ge.u64 %p1, %rd7, %rd6;\n"
        "mov.u64 %rd6, %globaltimer; selp.u32 %r9, 1, 0, %p1;", NUMBERS, lambda x: np.ones(32)),
    "redux.add": ("redux.sync.add.s32 %r9, %r1, -1;", FEW, lambda x: np.full(32, x.sum())),
    "redux.min": ("redux.sync.min.u32 %r9, %r1, -1;", NUMBERS, lambda x: np.full(32, x.min())),
    "redux.xor": ("redux.sync.xor.b32 %r9, %r1, -1;", NUMBERS, lambda x: np.full(32, np.bitwise_xor.reduce(x))),
    "match.any": (
        "match.any.sync.b32 %r9, %r1, -1;", FEW,
        lambda x: [sum(1 << i for i in range(32) if x[i] == value) for value in x]),
    "match.all": (
        "mov.u32 %r3, 7; match.all.sync.b32 %r9|%p1, %r3, -1;", NUMBERS, lambda x: np.full(32, 0xFFFFFFFF)),
    "dp4a.s32.u32": (
        "dp4a.s32.u32 %r9, %r1, %r2, %r1;", NUMBERS,
        lambda x: signed(x) + (x.view(np.int8).reshape(-1, 4).astype(int)
                               * x[::-1].copy().view(np.uint8).reshape(-1, 4)).sum(1)),
    "shared addresses wrap": (
        f"{SHARED} mov.u32 %r3, tile; mad.lo.u32 %r4, %r50, 4, %r3; sub.u32 %r4, %r4, 65536;\n"
        "st.shared.b32 [%r4+65536], %r1; ld.shared.b32 %r9, [%r4+65536];", NUMBERS, lambda x: x),
    "stmatrix": (
        f"{SHARED} mov.u32 %r3, tile; mad.lo.u32 %r4, %r50, 16, %r3;\n"
        "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r4], {%r1}; bar.warp.sync -1;\n"
        "and.b32 %r5, %r50, 3; shr.u32 %r6, %r50, 2; shl.b32 %r6, %r6, 4; mad.lo.u32 %r6, %r5, 4, %r6;\n"
        "add.u32 %r6, %r6, %r3; ld.shared.b32 %r9, [%r6];", NUMBERS, lambda x: x),
    "stmatrix.trans": (
        f"{SHARED} mov.u32 %r3, tile; mad.lo.u32 %r4, %r50, 16, %r3;\n"
        "stmatrix.sync.aligned.m8n8.x1.trans.shared.b16 [%r4], {%r1}; bar.warp.sync -1;\n"
        "ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%r9}, [%r4];", NUMBERS, lambda x: x),
    "fma.f16x2": (
        "fma.rn.f16x2 %r9, %r1, %r2, %r1;", words(np.float16(np.arange(64) / 8)),
        lambda x: words((halves(x).astype("f8") * halves(x)[::-1] + halves(x)).astype(np.float16))),
    "max.f16x2": (
        "max.f16x2 %r9, %r1, %r2;", words(np.float16(np.arange(64) % 7)),
        lambda x: words(np.maximum(halves(x), halves(x)[::-1]))),
    "fma.bf16x2": (
        "fma.rn.bf16x2 %r9, %r1, %r2, %r1;", words(np.arange(64).astype(ml_dtypes.bfloat16)),
        lambda x: words((halves(x, ml_dtypes.bfloat16).astype("f8") * halves(x, ml_dtypes.bfloat16)[::-1].astype("f8")
                         + halves(x, ml_dtypes.bfloat16).astype("f8")).astype(ml_dtypes.bfloat16))),
    "neg.bf16x2": ("neg.bf16x2 %r9, %r1;", words(np.arange(64).astype(ml_dtypes.bfloat16)), lambda x: x ^ 0x80008000),
    "isspacep": (
        f"{SHARED} mov.u32 %r3, tile; cvt.u64.u32 %rd6, %r3; cvta.shared.u64 %rd7, %rd6; isspacep.shared %p1, %rd7;\n"
        "isspacep.global %p2, %rd7; isspacep.global %p3, %rd3; selp.u32 %r3, 1, 0, %p1; selp.u32 %r4, 2, 0, %p2;\n"
        "selp.u32 %r5, 4, 0, %p3; or.b32 %r9, %r3, %r4; or.b32 %r9, %r9, %r5;", NUMBERS, lambda x: np.full(32, 5)),
    "prmt": ("prmt.b32 %r9, %r1, %r2, 0x79C2;", NUMBERS, lambda x: permuted(x, x[::-1], 0x79C2)),
    "bfind": (
        "bfind.u32 %r9, %r1;", NUMBERS >> LANE.astype(np.uint32), lambda x: [int(v).bit_length() - 1 for v in x]),
    "bfind.shiftamt": (
        "bfind.shiftamt.s32 %r9, %r1;", NUMBERS,
        lambda x: [32 - (v if v >= 0 else ~v).bit_length() if v not in (0, -1) else -1 for v in map(int, signed(x))]),
    "fma.rm": ("mov.b32 %f1, %r1; mov.b32 %f2, %r2; fma.rm.f32 %f3, %f1, %f2, %f1; mov.b32 %r9, %f3;", NONZERO,
               lambda x: fused(x.view(np.float32), "rm")),
    "fma.rp": ("mov.b32 %f1, %r1; mov.b32 %f2, %r2; fma.rp.f32 %f3, %f1, %f2, %f1; mov.b32 %r9, %f3;", NONZERO,
               lambda x: fused(x.view(np.float32), "rp")),
    "fma.rz": ("mov.b32 %f1, %r1; mov.b32 %f2, %r2; fma.rz.f32 %f3, %f1, %f2, %f1; mov.b32 %r9, %f3;", NONZERO,
               lambda x: fused(x.view(np.float32), "rz")),
    "cvt.rz.f16x2": ("mov.b32 %f1, %r1; mov.b32 %f2, %r2; cvt.rz.f16x2.f32 %r9, %f2, %f1;", words(FLOATS),
                     lambda x: by_element(x.view(np.float32), np.float16, "rz")),
    "cvt.rm.f16": ("mov.b32 %f1, %r1; cvt.rm.f16.f32 %h1, %f1; mov.b32 %r9, {%h1, 0};", words(FLOATS),
                   lambda x: by_element(x.view(np.float32), np.float16, "rm") & 0xFFFF),
    "cvt.rp.f16.s32": ("cvt.rp.f16.s32 %h1, %r1; mov.b32 %r9, {%h1, 0};", NUMBERS >> LANE.astype(np.uint32),
                       lambda x: by_element(signed(x).astype(float), np.float16, "rp") & 0xFFFF),
    "cvt.rz.bf16x2": ("mov.b32 %f1, %r1; mov.b32 %f2, %r2; cvt.rz.bf16x2.f32 %r9, %f2, %f1;", words(FLOATS),
                      lambda x: x >> 16 | x[::-1] & 0xFFFF0000),
    "cvt.rz.tf32": ("mov.b32 %f1, %r1; cvt.rz.tf32.f32 %r9, %f1;", words(FLOATS), lambda x: x & 0xFFFFE000),
    "cvt.pack.u16": ("cvt.pack.sat.u16.s32 %r9, %r1, %r2;", NUMBERS >> 9,
                     lambda x: np.clip(signed(x), 0, 65535) << 16 | np.clip(signed(x[::-1].copy()), 0, 65535)),
    "cvt.pack.s8": ("cvt.pack.sat.s8.s32.b32 %r9, %r1, %r2, %r2;", NUMBERS,
                    lambda x: clipped(x) << 8 | clipped(x[::-1].copy()) | x[::-1].astype(np.int64) << 16),
    "cvt.f16x2.e4m3x2": (
        "mov.b32 {%h1, %h2}, %r1; cvt.rn.f16x2.e4m3x2 %r9, %h1;", NUMBERS & 0x7E7E,
        lambda x: wider(x, ml_dtypes.float8_e4m3fn)),
}  # fmt: skip
PADDED = words(np.concatenate([FLOATS[:28], FLOATS[:4]]))
CASES = {name: (body, x if len(x) == 32 else PADDED, f) for name, (body, x, f) in CASES.items()}
BLACKWELL = {
    "cvt.e2m1x2": (
        "mov.b32 %f1, %r1; mov.b32 %f2, %r2; .reg .b8 %b1; cvt.rn.satfinite.e2m1x2.f32 %b1, %f2, %f1;\n"
        "mov.b32 %r9, {%b1, 0, 0, 0};", words(FLOATS / 16),
        lambda x: small(x.view(np.float32), ml_dtypes.float4_e2m1fn, 6.0)
        | small(x[::-1].copy().view(np.float32), ml_dtypes.float4_e2m1fn, 6.0) << 4),
    "cvt.e3m2x2": (
        "mov.b32 %f1, %r1; mov.b32 %f2, %r2; cvt.rn.satfinite.e3m2x2.f32 %h1, %f2, %f1; mov.b32 %r9, {%h1, 0};",
        words(FLOATS), lambda x: small(x.view(np.float32), ml_dtypes.float6_e3m2fn, 28.0)
        | small(x[::-1].copy().view(np.float32), ml_dtypes.float6_e3m2fn, 28.0) << 8),
    "cvt.f16x2.e2m3x2": (
        "mov.b32 {%h1, %h2}, %r1; cvt.rn.f16x2.e2m3x2 %r9, %h1;", NUMBERS & 0x3F3F,
        lambda x: wider(x, ml_dtypes.float6_e2m3fn)),
    "cvt.ue8m0x2": (
        "mov.b32 %f1, %r1; mov.b32 %f2, %r2; cvt.rp.satfinite.ue8m0x2.f32 %h1, %f2, %f1; mov.b32 %r9, {%h1, 0};",
        words(np.abs(FLOATS) + 1e-9),
        lambda x: exponents(x.view(np.float32)) | exponents(x.view(np.float32)[::-1]) << 8),
    "cvt.bf16x2.ue8m0x2": (
        "mov.b32 {%h1, %h2}, %r1; cvt.rn.bf16x2.ue8m0x2 %r9, %h1;", NUMBERS & 0x7F7F | 0x0101,
        lambda x: (x & 0xFF) << 7 | (x >> 8 & 0xFF) << 23),
}  # fmt: skip


def exponents(values):
    """The code of the power of two above."""
    return np.array(
        [254 if np.isinf(v) else min(254, int(np.ceil(np.log2(float(v)))) + 127) for v in values], np.uint32
    )


@pytest.mark.parametrize("name", [*CASES, *BLACKWELL])
def test_an_instruction(name):
    body, x, expected = (CASES | BLACKWELL)[name]
    y = np.zeros(32, np.uint32)
    report = emulate(program(body), args=[x.copy(), y], grid=1, block=32)
    assert report.clean, report.faults
    with np.errstate(all="ignore"):
        wanted = np.asarray(expected(x)).astype(np.int64) & 0xFFFFFFFF
    assert y.tolist() == wanted.tolist()


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="needs ptxas")
@pytest.mark.parametrize(("cases", "arch"), [(CASES, "sm_90"), (BLACKWELL, "sm_100a")])
def test_ptxas_takes_every_text(cases, arch, tmp_path):
    texts = [program(body, f"k{i}") for i, (body, _, _) in enumerate(cases.values())]
    head, _, _ = texts[0].partition(".visible")
    bodies = [text[text.index(".visible") :] for text in texts]
    path = tmp_path / "k.ptx"
    whole = head.replace(".target sm_90", f".target {arch}").replace(".version 8.4", ".version 8.7") + "".join(bodies)
    path.write_text(re.sub(r"\.version 8\.\d", ".version 8.7", whole))
    command = ["ptxas", f"-arch={arch}", "-o", str(tmp_path / "k.cubin"), str(path)]
    assert not subprocess.run(command, capture_output=True, text=True, check=False).stderr
