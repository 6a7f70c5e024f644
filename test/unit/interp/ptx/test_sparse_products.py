"""mma.sp against NumPy: random sparse matrices, their metadata written bit by bit; ptxas takes each text."""

import re
import shutil
import subprocess

import ml_dtypes
import numpy as np
import pytest

from lego_mlir.interp.ptx import emulate
from lego_mlir.interp.report import Kind

FORMS = {
    "m16n8k16.row.col.f32.f16.f16.f32": (np.float16, 16),
    "m16n8k32.row.col.f32.bf16.bf16.f32": (ml_dtypes.bfloat16, 32),
    "m16n8k32.row.col.f32.f16.f16.f32": (np.float16, 32),
    "m16n8k8.row.col.f32.tf32.tf32.f32": (np.float32, 8),
    "m16n8k16.row.col.f32.tf32.tf32.f32": (np.float32, 16),
    "m16n8k32.row.col.s32.s8.s8.s32": (np.int8, 32),
    "m16n8k64.row.col.s32.u8.s8.s32": (np.uint8, 64),
    "m16n8k64.row.col.f32.e4m3.e5m2.f32": (ml_dtypes.float8_e4m3fn, 64),
}
RIGHT = {"u8": np.int8, "e4m3": ml_dtypes.float8_e5m2}


def text(form, counts, selector, ordered):
    """Each lane loads its words of A, B, C and the metadata, and stores D over C."""
    lines, names = ["mov.u32 %r1, %tid.x; mul.wide.u32 %rd9, %r1, 4;"], []
    for name, count in zip("abce", (*counts, 1), strict=True):
        lines.append(f"ld.param.u64 %rd1, [{name}]; add.u64 %rd{name}, %rd1, %rd9;")
        names.append([f"%{name}{i}" for i in range(count)])
        lines += [f"ld.global.b32 %{name}{i}, [%rd{name}+{128 * i}];" for i in range(count)]
    a, b, c, _ = ("{" + ", ".join(n) + "}" for n in names)
    sp = "sp::ordered_metadata" if ordered else "sp"
    lines.append(f"mma.{sp}.sync.aligned.{form} {c}, {a}, {b}, {c}, %e0, {selector};")
    lines += [f"st.global.b32 [%rdc+{128 * i}], %c{i};" for i in range(counts[2])]
    registers = ".reg .b32 %r<3>, %a<9>, %b<9>, %c<9>, %e<2>; .reg .b64 %rd<10>, %rda, %rdb, %rdc, %rde;"
    parameters = ", ".join(f".param .u64 {name}" for name in "abce")
    body = "\n".join(lines)
    return (
        f".version 8.6\n.target sm_90a\n.address_size 64\n.visible .entry k({parameters})\n.maxntid 32, 1, 1\n"
        f"{{\n{registers}\n{body}\nret;\n}}\n"
    )


def program(form, selector, random):
    """A and B as matrices, the words of A, B and C, and the metadata of 32 threads."""
    dtype, k = FORMS[form]
    types = form.split(".")[4]
    right = RIGHT.get(types, dtype)
    size, group = np.dtype(dtype).itemsize, 2 if types == "tf32" else 4
    keeps, low = group // 2, 0 if types == "u8" else -3
    a, packed = np.zeros((16, k)), np.zeros((16, k // 2))
    e = random.integers(0, 1 << 32, 32, np.uint64)  # what other threads hold does not matter
    words = 16 * k // 2 * (4 if size == 4 else 2) // 32 // 8  # of each four threads
    for g in range(8):
        for w in range(words):
            e[4 * g + selector * words + w] = 0
    for row in range(16):
        for chunk in range(k // group):
            places = sorted(random.choice(group, keeps, replace=False))
            for i, place in enumerate(places):
                at = chunk * keeps + i
                packed[row, at] = a[row, chunk * group + place] = random.integers(low, 4)
                code, bits = (0b1110 if place else 0b0100, 4) if size == 4 else (int(place), 2)
                position = at * bits
                if size == 1:  # a word has 32 columns of one row
                    word, bit = row // 8 + 2 * (position // 32), position % 32
                else:  # a word has half as many of two rows
                    word, bit = position // 16, position % 16 + 16 * (row // 8)
                e[4 * (row % 8) + selector * words + word] |= code << bit
    b = random.integers(-3, 4, (k, 8)).astype(float)
    per = 4 // size
    a_words, b_words = np.zeros((k // 2 // per // 2, 32, per), dtype), np.zeros((k // per // 4, 32, per), right)
    for lane in range(32):
        g, t = divmod(lane, 4)
        for i in range(len(a_words)):
            for j in range(per):
                a_words[i, lane, j] = packed[g + 8 * (i % 2), per * t + j + 4 * per * (i // 2)]
        for i in range(len(b_words)):
            for j in range(per):
                b_words[i, lane, j] = b[per * t + j + 4 * per * i, g]
    c = random.integers(-9, 10, (16, 8))
    c_words = np.zeros((4, 32), np.int32 if "s32" in form else np.float32)
    for lane in range(32):
        for i in range(4):
            c_words[i, lane] = c[lane // 4 + 8 * (i // 2), 2 * (lane % 4) + i % 2]
    return a @ b + c, a_words, b_words, c_words, e.astype(np.uint32)


def selectors(form):
    dtype, k = FORMS[form]
    size = np.dtype(dtype).itemsize
    return range(4 // (16 * k // 2 * (4 if size == 4 else 2) // 256))


@pytest.mark.parametrize("form", FORMS)
def test_a_sparse_product(form, tmp_path):
    for selector in selectors(form):
        random = np.random.default_rng(selector)
        wanted, a, b, c, e = program(form, selector, random)
        ptx = text(form, (len(a), len(b), 4), selector, selector == 0)
        assert emulate(ptx, args=[a, b, c, e]).clean
        found = np.zeros((16, 8))
        for lane in range(32):
            for i in range(4):
                found[lane // 4 + 8 * (i // 2), 2 * (lane % 4) + i % 2] = c[i, lane]
        assert np.array_equal(found, wanted)
    if shutil.which("ptxas") is not None:
        path = tmp_path / "k.ptx"
        path.write_text(ptx)
        command = ["ptxas", "-arch=sm_90a", "-o", str(tmp_path / "k.cubin"), str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("ordered", "code"), [(False, 0b0101), (True, 0b0001)])
def test_metadata_that_names_a_place_twice_or_in_no_order(ordered, code):
    form = "m16n8k32.row.col.f32.f16.f16.f32"
    _, a, b, c, e = program(form, 0, np.random.default_rng(0))
    e[4 * 3 + 1] = int(e[4 * 3 + 1]) & ~0xF | code
    ptx = text(form, (len(a), len(b), 4), 0, ordered)
    report = emulate(ptx, args=[a, b, c, e])
    (fault,) = report.faults
    assert fault.kind is Kind.UNDEFINED
    assert re.search(r"mma\.sp", ptx.splitlines()[fault.place.line - 1])
    assert "row 3" in fault.message
