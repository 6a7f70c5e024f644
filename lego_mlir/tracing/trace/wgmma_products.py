"""Products of spread values that warpgroups can compute: what `wgmma` needs, beside the traced `mma.sync` statements.

`lego.mma` on spread values is traced as `mma.sync`, which GPUs since sm_80 and the interpreter execute. Where the
result is in the layout of `wgmma`, 16 rows for each of the 4 warps of a group, and the operands in shared memory match
a matrix descriptor, the product is recorded here too. For sm_90a `emit_wgmma` emits it in place of the statements that
it covers:

    result  rows 64 g + 16 w + ..   of warp 4 g + w: one instruction m64nNkD for each 64 rows and 32 bytes of K;
            or rows 16 w + .. for all groups, each of which has an equal part of the columns
    a       a shared tile of 64 rows for each group; of 16 and 8 bits also the registers of f2.MmaOperand(0, parent, ..)
    b       a shared tile; both have K contiguous, but for 16 bits

| operands | unit | depth D | sums |
|---|---|---|---|
| f16, bf16 | f16, bf16 | 16 | f32 |
| f32 | tf32 | 8 | f32 |
| f8e4m3fn, f8e5m2 | e4m3, e5m2 | 32 | f32 |
| i8 | s8 | 32 | i32, saturated |

With metadata A keeps two of each four neighbours (`spread.two_of_four_products`): an instruction, of f16, bf16 or i8,
has twice the depth, 64 bytes of b, and takes the words of the rows r and r + 8 that `mma.sp` has.

The descriptors are derived from the tiles' layouts and compared element by element (`f2.matrix_descriptors`).
(PTX ISA, "wgmma.mma_async".)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

from lego_mlir.aliases import Expr
from lego_mlir.errors import LayoutError
from lego_mlir.hardware.limits import REGISTERS_PER_SM
from lego_mlir.tracing.trace.dtypes import DType, bf16, f8e4m3fn, f8e5m2, f16, f32, i8

if TYPE_CHECKING:
    from lego_mlir.f2.linear import LinearLayout
    from lego_mlir.f2.matrix_descriptors import MatrixDescriptor
    from lego_mlir.tracing.trace.trace import Buffer

ROWS: Final = 64
"""Rows of the result of one instruction."""
WARPS: Final = 4
"""Warps of a group, each with 16 of the rows."""
WIDEST: Final = 256
"""Columns of the result of one instruction."""
DEPTH_BYTES: Final = 32
"""Bytes along K of one instruction."""
UNITS: Final[Mapping[DType, str]] = {
    f16: "f16", bf16: "bf16", f32: "tf32", f8e4m3fn: "e4m3", f8e5m2: "e5m2", i8: "s8"
}  # fmt: skip
"""The names of the operands' types in the instruction."""
TRANSPOSABLE: Final = 16
"""Bits of the operands that may have M or N contiguous; those of at most as many may be in registers here."""
MOST_REGISTERS: Final = 255
GRANTED: Final = 8
"""Registers of a thread are multiples of this."""
BESIDE: Final = 26
"""Registers that an instruction takes besides its sums: for 128 of them ptxas (C7602) asks for 154."""
NARROW: Final = 32
"""Columns up to which products of i8 take any multiple of 8; above it is a multiple of 16."""
Block = tuple[int, int]


@dataclass(frozen=True, slots=True)
class SharedMatrix:
    """An operand in shared memory: its first element is at `position`, in elements of the buffer.

    Instruction (i, k) of a thread in warpgroup g starts `starts[i][k] + group_step * g` bytes further.
    """

    buffer: Buffer
    position: Expr
    descriptor: MatrixDescriptor
    starts: tuple[tuple[int, ...], ...]
    group_step: int = 0


@dataclass(frozen=True, slots=True)
class WarpgroupProduct:
    """`acc + a @ b`, in place of the statements whose results have the numbers `covered`.

    `columns` and `steps` are the extents along N and in steps of K, `width` the columns of one instruction: `b` has a
    start for each part of so many. `results[i]` and `accumulators[i]` are the numbers of the values of 64 rows, in the
    order of the registers; `a` is a shared matrix, or the numbers of the registers by row and step; `metadata` the
    numbers of the halves of a word and its selector, by row and step, of an `a` that keeps two of four neighbours.
    """

    dtype: DType
    columns: int
    width: int
    steps: int
    results: tuple[tuple[int, ...], ...]
    accumulators: tuple[tuple[int, ...], ...]
    a: SharedMatrix | tuple[tuple[tuple[int, ...], ...], ...]
    b: SharedMatrix
    covered: frozenset[int]
    metadata: tuple[tuple[tuple[int, int, int], ...], ...] = ()

    @property
    def buffers(self) -> frozenset[str]:
        """The names of the tiles that the product reads."""
        return frozenset(o.buffer.name for o in (self.a, self.b) if isinstance(o, SharedMatrix))


def depth(dtype: DType) -> int:
    """Elements along K of one instruction."""
    return DEPTH_BYTES // dtype.bytes


def takes_columns(dtype: DType, columns: int) -> bool:
    """Whether there is an instruction with this number of columns."""
    return columns % 8 == 0 and columns <= WIDEST and (dtype != i8 or columns <= NARROW or columns % 16 == 0)


def instruction_columns(dtype: DType, columns: int, threads: int) -> int:
    """The columns of one instruction of a block of so many threads: all, or a part for which registers are left.

    A launch gives all threads of a block as many; a role that takes more later does not change what ptxas asks of one
    instruction. All where none fits, which ptxas refuses.

    >>> [instruction_columns(f16, 256, threads) for threads in (128, 384, 512)]
    [256, 256, 128]
    """
    room = min(MOST_REGISTERS, REGISTERS_PER_SM // threads // GRANTED * GRANTED) - BESIDE
    parts = (columns // n for n in range(1, columns // 8 + 1) if columns % n == 0)
    return next((part for part in parts if takes_columns(dtype, part) and part // 2 <= room), columns)


@dataclass(frozen=True, slots=True)
class GroupParts:
    """What a thread of the first group computes: first `rows` of its instructions, in pieces of 16, and `columns`.

    The parts of the others begin `row_step` rows, or `column_step` columns, after that of the group before.
    """

    rows: tuple[int, ...]
    columns: int
    row_step: int
    column_step: int


def group_parts(layout: LinearLayout, pieces: Mapping[Block, Sequence[int]]) -> GroupParts | None:
    """How groups divide a result, along rows or columns; None for a layout that `wgmma` does not have."""
    warps = [tuple(basis) for basis in layout.bases["warp"]]
    rows, columns = sorted({r for r, _ in pieces}), sorted({c for _, c in pieces})
    groups, wide = range(len(warps) - 2), 8 * len(columns)
    if warps[:2] != [(16, 0), (32, 0)] or any(r % WARPS for r in rows) or wide > WIDEST:
        return None
    if columns != list(range(len(columns))):
        return None
    if warps[2:] == [(ROWS << k, 0) for k in groups]:
        return GroupParts(tuple(rows), wide, ROWS if groups else 0, 0)
    if warps[2:] == [(0, wide << k) for k in groups]:
        return GroupParts(tuple(rows), wide, 0, wide)
    return None


def group_columns(rows: int, columns: int, warps: int) -> LinearLayout:
    """The result of `warps` warps whose groups of 4 divide the columns, each with all of the `rows`."""
    from lego_mlir.f2.encodings import MmaSync
    from lego_mlir.f2.linear import LinearLayout

    groups = warps // WARPS
    part = MmaSync((WARPS, 1)).layout((rows, columns // groups))
    more = [(0, columns // groups << k) for k in range(groups.bit_length() - 1)]
    bases = {name: list(held) for name, held in part.bases.items()}
    return LinearLayout({**bases, "warp": [*bases["warp"], *more]}, {"dim0": rows, "dim1": columns})


def shared_matrix(
    buffer: Buffer,
    position: Expr,
    tile: LinearLayout,
    rows: Sequence[int],
    group: int,
    part: tuple[int, int],
) -> SharedMatrix:
    """A tile (dims -> offset in elements) as an operand whose instructions read parts of it from each of `rows` on.

    A part has some rows, and bytes along K. A group's rows are `group` rows further than those of the group before.
    Raises LayoutError, which names an element, where no descriptor describes an instruction's part, or two differ.
    """
    bytes_ = buffer.dtype.bytes
    shape = tuple(tile.in_sizes[name] for name in tile.in_sizes)
    found = [[_instruction(tile, bytes_, row, k, part) for k in range(0, shape[1], part[1] // bytes_)] for row in rows]
    descriptor, *others = {descriptor for line in found for descriptor, _ in line}
    if others:
        raise LayoutError("the parts of a tile that single instructions of wgmma read have different descriptors")
    step = 0
    for number in range(1, (shape[0] - part[0] - rows[-1]) // group + 1 if group else 0):
        moved, start = _instruction(tile, bytes_, rows[0] + number * group, 0, part)
        step = step if number > 1 else start - found[0][0][1]
        if moved != descriptor or step < 0 or start != found[0][0][1] + number * step:
            raise LayoutError("the rows of two warpgroups have different descriptors, or are not equally far apart")
    starts = tuple(tuple(start for _, start in line) for line in found)
    return SharedMatrix(buffer, position, descriptor, starts, step)


@cache
def _instruction(
    tile: LinearLayout, bytes_: int, row: int, k: int, part: tuple[int, int]
) -> tuple[MatrixDescriptor, int]:
    """The descriptor of one instruction's part of a tile, and the byte of its start before the swizzle."""
    import numpy as np

    from lego_mlir.f2.matrix_descriptors import derive, permuted

    lines, depth_bytes = part
    at = np.indices((lines, depth_bytes // bytes_)) + np.array([row, k]).reshape(2, 1, 1)
    names = list(tile.in_sizes)
    offsets = np.asarray(tile.apply(**dict(zip(names, at, strict=True)))["offset"]) * bytes_
    descriptor = derive(offsets, bytes_, lines, depth_bytes).descriptor
    return descriptor, int(permuted(offsets[:1, :1], descriptor.swizzle)[0, 0])
