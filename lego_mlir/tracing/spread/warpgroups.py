"""Products of spread values that `wgmma` can compute, and their operands: see `tracing.trace.wgmma_products`.

tile of b, (K, N), [k, n] -> offset      transposed: the unit's descriptors are of [n, k]
position of its first element            a multiple of 1024 bytes, or the swizzle would begin elsewhere
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Final

from lego_mlir.errors import LayoutError
from lego_mlir.expr.index import Index, as_expr
from lego_mlir.expr.nodes import Eq, FloorMod
from lego_mlir.expr.verdict import Proved
from lego_mlir.f2.linear import LinearLayout
from lego_mlir.hardware.tensor_maps import ATOM_BYTES
from lego_mlir.tracing.spread.distributed import Spread
from lego_mlir.tracing.spread.fragments import Block, Operand, memory_of
from lego_mlir.tracing.trace.trace import Compose, Convert, MatrixLoad, MlirOperation, Piece, Statement, Value
from lego_mlir.tracing.trace.tracer import Tracer
from lego_mlir.tracing.trace.wgmma_products import (
    DEPTH_BYTES,
    ROWS,
    TRANSPOSABLE,
    UNITS,
    GroupParts,
    SharedMatrix,
    WarpgroupProduct,
    depth,
    group_parts,
    instruction_columns,
    shared_matrix,
    takes_columns,
)
from lego_mlir.tracing.words.mma import Part
from lego_mlir.tracing.words.scalar import Scalar
from lego_mlir.tracing.words.tensor import View

_COVERED: Final = (Compose, Convert, MatrixLoad, MlirOperation, Piece)
Given = Spread | Part | View


def of_warpgroups(
    tracer: Tracer,
    layout: LinearLayout,
    pieces: Mapping[Block, Sequence[int]],
    a: tuple[Given, Operand],
    b: Given,
    sums: Mapping[Block, Value],
    results: Sequence[Scalar | None],
    statements: Sequence[Statement],
    metadata: Mapping[Block, tuple[Value, int]] | None = None,
) -> WarpgroupProduct | None:
    """The product for `wgmma`, None where it cannot compute it; `statements` compute it otherwise.

    `layout` and `results` are those of the result, and `sums` the pieces that are added to; `metadata` has words and
    selectors of an `a` that keeps two of four neighbours.
    """
    parts = group_parts(layout, pieces)
    if parts is None or isinstance(b, Spread) or (dtype := (part := _part(b)).view.dtype) not in UNITS:
        return None
    times = 1 if metadata is None else 2
    columns, steps = parts.columns, part.shape[0] // depth(dtype) // times
    if not takes_columns(dtype, columns) or (isinstance(a[0], Spread) and dtype.bits > TRANSPOSABLE):
        return None
    width = instruction_columns(dtype, columns, prod(tracer.block))
    composed = {s.result.number: tuple(v.number for v in s.operands) for s in statements if isinstance(s, Compose)}
    try:
        left = _left(tracer, *a, composed, parts, steps)
        starts = range(0, columns, width)
        right = _shared(tracer, part.T, starts, parts.column_step, (width, times * DEPTH_BYTES))
    except LayoutError:
        return None
    if left is None or right is None:
        return None
    blocks = [[(row, column) for column in range(columns // 8)] for row in parts.rows]
    made = {register: value.entry.number for register, value in enumerate(results) if value is not None}
    return WarpgroupProduct(
        dtype,
        columns,
        width,
        steps,
        tuple(tuple(made[r] for block in line for r in pieces[block]) for line in blocks),
        tuple(tuple(n for block in line for n in composed[sums[block].number]) for line in blocks),
        left,
        right,
        frozenset(v.number for s in statements if isinstance(s, _COVERED) for v in _made(s)),
        () if metadata is None else tuple(_words(metadata, composed, row, steps) for row in parts.rows),
    )


def _words(
    metadata: Mapping[Block, tuple[Value, int]], composed: Mapping[int, tuple[int, ...]], row: int, steps: int
) -> tuple[tuple[int, int, int], ...]:
    """The numbers of the halves of each word of a row of instructions, and the selector of its lanes."""
    words = [metadata[row, step] for step in range(steps)]
    return tuple((*composed[word.number], selector) for word, selector in words)  # type: ignore[misc]


def _made(statement: Compose | Convert | MatrixLoad | MlirOperation | Piece) -> tuple[Value, ...]:
    return statement.results if isinstance(statement, MlirOperation) else (statement.result,)


def _part(given: Part | View) -> Part:
    return given if isinstance(given, Part) else Part(given, (0, 0), given.dims())


def _left(
    tracer: Tracer,
    given: Given,
    operand: Operand,
    composed: Mapping[int, tuple[int, ...]],
    parts: GroupParts,
    steps: int,
) -> SharedMatrix | tuple[tuple[tuple[int, ...], ...], ...] | None:
    """The left operand: the numbers of its registers for each row and step, or its shared tile."""
    if not isinstance(given, Spread):
        return _shared(tracer, _part(given), [16 * row for row in parts.rows], parts.row_step, (ROWS, DEPTH_BYTES))
    return tuple(tuple(composed[operand.fragment((row, k)).number] for k in range(steps)) for row in parts.rows)


def _shared(tracer: Tracer, part: Part, rows: Sequence[int], group: int, read: tuple[int, int]) -> SharedMatrix | None:
    """A part of a shared tile, [m or n, k], as an operand."""
    memory = memory_of(tracer, part)
    if memory is None:
        return None
    tile, position = memory
    aligned = Eq(FloorMod(as_expr(Index(position) * part.view.dtype.bytes), ATOM_BYTES), 0)
    if not isinstance(tracer.prove(aligned), Proved):
        return None
    return shared_matrix(part.view.buffer, position, tile, rows, group, read)
