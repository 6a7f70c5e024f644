"""mma.sync of each type against NumPy, with fragments made by the formulas of the PTX ISA, element by element."""

import shutil
import subprocess

import ml_dtypes
import numpy as np
import pytest

from lego_mlir.interp.ptx import emulate

LANE = np.arange(32)
G, T = LANE >> 2, LANE & 3


def eighths(i):
    """A of m16n8k32: row and column of element i. PTX ISA, "Matrix fragments for mma.m16n8k32"."""
    return G + (0 if i < 4 or 8 <= i < 12 else 8), 4 * T + (i & 3) + (16 if i >= 8 else 0)


def halves(i):
    """A of m16n8k16 of 16-bit elements."""
    return G + (0 if i < 2 or 4 <= i < 6 else 8), 2 * T + (i & 1) + (8 if i >= 4 else 0)


def words(i):
    """A of m16n8k8 of tf32."""
    return G + 8 * (i % 2), T + 4 * (i // 2)


BYTES = (eighths, 16, lambda i: (4 * T + (i & 3) + 16 * (i // 4), G), 8)
SIXTEEN = (halves, 8, lambda i: (2 * T + (i & 1) + 8 * (i // 2), G), 4)
FORMS = {
    "m16n8k32.row.col.s32.s8.s8.s32": (np.int8, np.int32, 32, *BYTES),
    "m16n8k32.row.col.s32.u8.s8.s32": (np.uint8, np.int32, 32, *BYTES),
    "m16n8k32.row.col.f32.e4m3.e4m3.f32": (ml_dtypes.float8_e4m3fn, np.float32, 32, *BYTES),
    "m16n8k32.row.col.f32.e5m2.e5m2.f32": (ml_dtypes.float8_e5m2, np.float32, 32, *BYTES),
    "m16n8k16.row.col.f32.f16.f16.f32": (np.float16, np.float32, 16, *SIXTEEN),
    "m16n8k16.row.col.f32.bf16.bf16.f32": (ml_dtypes.bfloat16, np.float32, 16, *SIXTEEN),
    "m16n8k8.row.col.f32.tf32.tf32.f32": (np.float32, np.float32, 8, words, 4, lambda i: (T + 4 * i, G), 2),
}


def text(form, counts):
    """Each lane loads its words of A, B and C, and stores D over C."""
    lines, names = ["mov.u32 %r1, %tid.x; mul.wide.u32 %rd9, %r1, 4;"], []
    for name, count in zip("abc", counts, strict=True):
        lines.append(f"ld.param.u64 %rd1, [{name}]; add.u64 %rd{name}, %rd1, %rd9;")
        names.append([f"%{name}{i}" for i in range(count)])
        lines += [f"ld.global.b32 %{name}{i}, [%rd{name}+{128 * i}];" for i in range(count)]
    a, b, c = ("{" + ", ".join(n) + "}" for n in names)
    lines.append(f"mma.sync.aligned.{form} {c}, {a}, {b}, {c};")
    lines += [f"st.global.b32 [%rdc+{128 * i}], %c{i};" for i in range(counts[2])]
    registers = ".reg .b32 %r<3>, %a<9>, %b<9>, %c<9>; .reg .b64 %rd<10>, %rda, %rdb, %rdc;"
    body = "\n".join(lines)
    return (
        ".version 8.6\n.target sm_90a\n.address_size 64\n"
        ".visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c)\n"
        f".maxntid 32, 1, 1\n{{ {registers}\n{body}\nret; }}\n"
    )


def fragment(matrix, places, count):
    """(registers, 32) words of a matrix."""
    rows = np.stack([matrix[places(i)] for i in range(count)], axis=1)  # (32, elements)
    return np.ascontiguousarray(np.ascontiguousarray(rows).view(np.uint32).T)


@pytest.mark.parametrize("form", FORMS)
def test_a_product(form, tmp_path):
    dtype, result, k, left, left_count, right, right_count = FORMS[form]
    random = np.random.default_rng(k)
    a = random.integers(0 if dtype is np.uint8 else -3, 4, (16, k)).astype(dtype)
    b = random.integers(-3, 4, (k, 8)).astype(np.int8 if dtype is np.uint8 else dtype)
    c = random.integers(-9, 9, (16, 8)).astype(result)

    def places(i):
        return G + 8 * (i // 2), 2 * T + i % 2

    found = fragment(c, places, 4)
    arguments = [fragment(a, left, left_count), fragment(b, right, right_count), found]
    ptx = text(form, [len(x) for x in arguments])
    assert emulate(ptx, args=arguments).clean
    expected = a.astype(np.float64) @ b.astype(np.float64) + c
    assert np.array_equal(found, fragment(expected.astype(result), places, 4))
    if shutil.which("ptxas") is not None:
        path = tmp_path / "k.ptx"
        path.write_text(ptx)
        command = ["ptxas", "-arch=sm_90a", "-o", str(tmp_path / "k.cubin"), str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
