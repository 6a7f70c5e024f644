"""The text of `wgmma` for a product: fence, descriptors, instructions, commit. PTX ISA, "wgmma.mma_async"."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lego_mlir.tracing.trace.wgmma_products import ROWS, TRANSPOSABLE, UNITS, SharedMatrix, WarpgroupProduct, depth

CHUNK_SHIFT: Final = 4
"""Starts of operands are in units of 16 bytes."""
CONSTRAINTS: Final = {"f32": "f", "i32": "r"}
"""Of assembly, for the types of sums."""


def assembly(product: WarpgroupProduct, row: int, *, zero: bool, given: int, last: bool) -> str:
    """The instructions of 64 rows, of which `zero` ignore the sums before, in `given` registers; at last a commit."""
    count, width = product.columns // 2, product.width // 2
    following = count + given
    unit, integers = UNITS[product.dtype], not product.dtype.is_float
    times, form = (2, ".sp") if product.metadata else (1, "")
    kind = f"m{ROWS}n{product.width}k{times * depth(product.dtype)}"
    kind += f".s32.{unit}.{unit}.satfinite" if integers else f".f32.{unit}.{unit}"
    by_descriptor = isinstance(product.a, SharedMatrix)
    place = following + (1 if by_descriptor else 4 * product.steps)
    right = f"${place}"
    lines = ["{", ".reg .pred p;", ".reg .b64 a, b, a0, b0;", "wgmma.fence.sync.aligned;"]
    for step in range(product.steps):
        lines += _built("b", right, product.b, 0, step, fresh=step == 0)
        if isinstance(product.a, SharedMatrix):
            lines += _built("a", f"${following}", product.a, row, step, fresh=step == 0)
            left, majors = "a", [_transposed(product.a), _transposed(product.b)]
        else:
            left = f"{{{', '.join(f'${following + 4 * step + i}' for i in range(4))}}}"
            majors = [_transposed(product.b)]
        signs = [] if integers else ["1", "1"]
        words = [f"${place + 1 + step}", str(product.metadata[row][step][2])] if product.metadata else []
        options = ", ".join([*words, "p", *signs, *(majors if product.dtype.bits == TRANSPOSABLE else [])])
        lines.append(f"setp.ne.b32 p, {0 if zero and step == 0 else 1}, 0;")
        for part, first in enumerate(range(0, count, width)):
            lines += _built("b", right, product.b, part, step) if part else []
            sums = f"{{{', '.join(f'${i}' for i in range(first, first + width))}}}"
            lines.append(f"wgmma.mma_async{form}.sync.aligned.{kind} {sums}, {left}, b, {options};")
    lines += ["wgmma.commit_group.sync.aligned;"] if last else []
    return "\n".join([*lines, "}"])


def sum_type(product: WarpgroupProduct) -> str:
    """The type of the sums of a product."""
    return "f32" if product.dtype.is_float else "i32"


def _built(name: str, start: str, matrix: SharedMatrix, row: int, step: int, *, fresh: bool = False) -> list[str]:
    """A descriptor from the low word of the first one, `fresh` there: what follows differs in its start alone."""
    first = [f"mov.b64 {name}0, {{{start}, {matrix.descriptor.word >> 32}}};"] if fresh else []
    return [*first, f"add.s64 {name}, {name}0, {matrix.starts[row][step] >> CHUNK_SHIFT};"]


def _transposed(matrix: SharedMatrix) -> str:
    return "0" if matrix.descriptor.contiguous == "k" else "1"


def with_operands(text: str, constraints: Sequence[str]) -> dict[str, str]:
    """The attributes of `llvm.inline_asm` for a text."""
    escaped = text.replace("\n", "\\0A\\09")
    return {
        "asm_string": f'"{escaped}"',
        "constraints": f'"{",".join(constraints)}"',
        "has_side_effects": "unit",
        "asm_dialect": "0 : i64",
    }
