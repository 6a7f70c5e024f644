"""Instructions that compilers do not emit from CUDA, in PTX: mma.sp on random registers, to be compared with a GPU's.

Each lane loads its words of A, B, C and the metadata, and stores D over C. Numbers are small integers, so that their
sums are exact in any order.
"""

import ml_dtypes
import numpy as np
from cases import add

from lego_mlir import sanitize

SIXTEEN, EIGHT, WIDE = (0x4, 0x8, 0x9, 0xC, 0xD, 0xE), (0x4, 0x8, 0x9, 0xC, 0xD, 0xE), (0x4, 0xE)
"""Valid metadata of 4 bits: two places in order, or one of tf32."""
FORMS = {
    "m16n8k16.row.col.f32.f16.f16.f32": (np.float16, SIXTEEN, 2, 2, 4),
    "m16n8k32.row.col.f32.bf16.bf16.f32": (ml_dtypes.bfloat16, SIXTEEN, 4, 4, 2),
    "m16n8k8.row.col.f32.tf32.tf32.f32": (np.float32, WIDE, 2, 2, 4),
    "m16n8k16.row.col.f32.tf32.tf32.f32": (np.float32, WIDE, 4, 4, 2),
    "m16n8k32.row.col.s32.s8.s8.s32": (np.int8, EIGHT, 2, 2, 2),
    "m16n8k64.row.col.s32.u8.s8.s32": (np.uint8, EIGHT, 4, 4, 1),
}
"""The type of A, metadata, registers of A and of B, and the selectors."""


def text(form: str, left: int, right: int, selector: int) -> str:
    lines, names = ["mov.u32 %r1, %tid.x; mul.wide.u32 %rd9, %r1, 4;"], []
    for name, count in zip("abce", (left, right, 4, 1), strict=True):
        lines.append(f"ld.param.u64 %rd1, [{name}]; add.u64 %rd{name}, %rd1, %rd9;")
        names.append([f"%{name}{i}" for i in range(count)])
        lines += [f"ld.global.b32 %{name}{i}, [%rd{name}+{128 * i}];" for i in range(count)]
    a, b, c, _ = ("{" + ", ".join(n) + "}" for n in names)
    lines.append(f"mma.sp::ordered_metadata.sync.aligned.{form} {c}, {a}, {b}, {c}, %e0, {selector};")
    lines += [f"st.global.b32 [%rdc+{128 * i}], %c{i};" for i in range(4)]
    parameters, body = ", ".join(f".param .u64 {name}" for name in "abce"), "\n".join(lines)
    return (
        f".version 8.5\n.target sm_90a\n.address_size 64\n.visible .entry sparse({parameters})\n.maxntid 32, 1, 1\n"
        "{\n.reg .b32 %r<3>, %a<9>, %b<9>, %c<9>, %e<2>; .reg .b64 %rd<10>, %rda, %rdb, %rdc, %rde;\n"
        f"{body}\nret;\n}}\n"
    )


def sparse(form: str, selector: int) -> None:
    dtype, codes, left, right, _ = FORMS[form]
    random, per = np.random.default_rng(selector), 4 // np.dtype(dtype).itemsize
    a = random.integers(0, 4, (left, 32, per)).astype(dtype)
    b = random.integers(-3, 4, (right, 32, per)).astype(np.int8 if dtype is np.uint8 else dtype)
    c = random.integers(-9, 10, (4, 32)).astype(np.int32 if ".s32." in form else np.float32)
    nibbles = random.choice(codes, (32, 8)).astype(np.uint64)
    e = (nibbles << np.arange(0, 32, 4, dtype=np.uint64)).sum(1).astype(np.uint32)
    sanitize.ptx(text(form, left, right, selector), "sparse")[1, 32](a, b, c, e)


for _form, (*_, _selectors) in FORMS.items():
    for _selector in range(_selectors):
        add(f"{_form.split('.row')[0]}_{_form.split('.')[4]}_{_selector}",
            lambda form=_form, selector=_selector: sparse(form, selector))  # fmt: skip
