"""The text of `wgmma` instructions: one product of a warpgroup, with descriptors that differ in their starts alone.

PTX ISA, "wgmma.mma_async", "Matrix descriptor format".
"""

from __future__ import annotations

from typing import Final

from lego_mlir.tracing.trace.wgmma_products import ROWS, TRANSPOSABLE, UNITS, SharedMatrix, WarpgroupProduct, depth

CHUNK_SHIFT: Final = 4
"""Of shared addresses in descriptors, which are in units of 16 bytes."""


def assembly(product: WarpgroupProduct, row: int, *, zero: bool, last: bool) -> str:
    """The instructions of 64 rows, with `zero` the first ignore the accumulators; after the last row a commit."""
    count, width = product.columns // 2, product.width // 2
    following = count if zero else 2 * count
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


def _built(name: str, start: str, matrix: SharedMatrix, row: int, step: int, *, fresh: bool = False) -> list[str]:
    """A descriptor from the low word of the first one, `fresh` there: what follows differs in its start alone."""
    first = [f"mov.b64 {name}0, {{{start}, {matrix.descriptor.word >> 32}}};"] if fresh else []
    return [*first, f"add.s64 {name}, {name}0, {matrix.starts[row][step] >> CHUNK_SHIFT};"]


def _transposed(matrix: SharedMatrix) -> str:
    return "0" if matrix.descriptor.contiguous == "k" else "1"
