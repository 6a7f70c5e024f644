"""`lego.mma(a, b, acc, metadata=e)`: products by `mma.sp`, where A keeps two of each four neighbours of a row.

    parent = f2.MmaSync((4, 1))
    kept = lego.load(a, f2.MmaOperand(0, parent).layout((64, 32)))             M x K / 2
    e = lego.load(places, f2.MmaMetadata(parent).layout((64, 4)))              M x K / 16, u16: eight places of two bits
    y = lego.load(b, f2.MmaOperand(1, parent).layout((64, 32)))                K x N
    c = lego.mma(kept, y, lego.zeros(f32, parent.layout((64, 32))), metadata=e)

| operands | result | instruction (PTX ISA, "mma.sp") |
|---|---|---|
| f16, bf16 | f32 | m16n8k32 |
| i8 | i32, saturated | m16n8k64 |

An instruction has twice the depth of the dense one, with the same fragments of A. `f2.two_of_four` makes A and its
metadata of an array. Where it names a place twice, or in no order, the result is undefined; the interpreter reports it.

Both operands may be shared tiles. With 64 rows for each 4 warps and b in shared memory the product is
`wgmma.mma_async.sp` on sm_90a (`spread.warpgroups`); the metadata stays in registers.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Final

from lego_mlir.errors import LayoutError
from lego_mlir.f2.encodings import MmaMetadata, MmaSync
from lego_mlir.f2.linear import LinearLayout
from lego_mlir.tracing.spread.distributed import Spread
from lego_mlir.tracing.spread.fragments import Block, composed, fragments_of, taken_apart
from lego_mlir.tracing.spread.multiplication import (
    INSTRUCTIONS,
    Operands,
    element_type,
    operand,
    shape_of_operand,
)
from lego_mlir.tracing.spread.warpgroups import of_warpgroups
from lego_mlir.tracing.trace.dtypes import DType, bf16, f16, f32, i8, i16, i32, u16
from lego_mlir.tracing.trace.trace import Compose, MlirOperation, Value
from lego_mlir.tracing.trace.tracer import Tracer
from lego_mlir.tracing.words.packed_views import PackedView
from lego_mlir.tracing.words.scalar import Scalar, as_value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SPARSE: Final = "nvgpu.mma.sp.sync"
KEPT_COLUMNS: Final = 16
"""Columns of A of one element of the metadata."""
RESULTS: Final[dict[DType, DType]] = {f16: f32, bf16: f32, i8: i32}


def sparse_product(tracer: Tracer, a: Operands, b: Operands, acc: Spread, metadata: Spread, warpgroups: bool) -> Spread:
    """`acc + A @ b`, where `a` has the elements that A keeps, and `metadata` their places.

    Raises LayoutError for operands that do not fit.
    """
    named = {"a": a, "b": b, "acc": acc, "metadata": metadata}
    opened = [name for name, tile in named.items() if isinstance(tile, Spread) and tile.is_open]
    if opened or isinstance(a, PackedView) or isinstance(b, PackedView):
        raise tracer.error(
            f"lego.mma with metadata takes tiles with layouts, and {'a packed tile' if not opened else opened[0]} has "
            "none: load it with one, of f2.MmaOperand, f2.MmaMetadata and f2.MmaSync",
            LayoutError,
        )
    dtype, other = element_type(a), element_type(b)
    if dtype != other or RESULTS.get(dtype) != acc.dtype or metadata.dtype not in (u16, i16):
        raise tracer.error(
            "lego.mma with metadata multiplies f16 or bf16 into f32, or i8 into i32, with metadata of u16; got "
            f"{dtype} times {other} into {acc.dtype}, with metadata of {metadata.dtype}",
            LayoutError,
        )
    kept = INSTRUCTIONS[dtype]
    whole = replace(kept, depth=2 * kept.depth)
    (m, half), (k, n) = shape_of_operand(a), shape_of_operand(b)
    if 2 * half != k or (m, n) != acc.shape or k % whole.depth or metadata.shape != (m, k // KEPT_COLUMNS):
        raise tracer.error(
            f"lego.mma: A keeps {m} x {half} of {m} x {2 * half}, times {k} x {n} into "
            f"{' x '.join(map(str, acc.shape))}; the depth is a multiple of {whole.depth}, twice the columns of a, and "
            f"the metadata has {m} x {k // KEPT_COLUMNS}, got {' x '.join(map(str, metadata.shape))}",
            LayoutError,
        )
    pieces, steps = _pieces(tracer, "acc", acc, MmaSync((1, 1)).layout((16, 8)), None), range(k // whole.depth)
    with tracer.recorded() as part:
        left = operand(tracer, 0, a, acc, kept, {(row, step) for row, _ in pieces for step in steps})
        right = operand(tracer, 1, b, acc, whole, {(step, column) for _, column in pieces for step in steps})
        words = _words(tracer, metadata, acc, dtype.bits)
        totals = {
            block: composed(tracer, acc.dtype, (2, 2), [acc.registers[r].entry for r in registers])
            for block, registers in pieces.items()
        }
        sums = dict(totals)
        for (row, column), step in product(pieces, steps):
            word, selector = words[row, step]
            result = tracer.value(acc.dtype, (2, 2))
            shape = ("mmaShape", f"[16, 8, {whole.depth}]"), ("sparsitySelector", f"{selector} : i32")
            given = left.fragment((row, step)), right.fragment((step, column)), totals[row, column], word
            tracer.append(MlirOperation((result,), SPARSE, given, shape, tracer.here()))
            totals[row, column] = result
        made: dict[int, Scalar] = {}
        for block, registers in pieces.items():
            made.update(zip(registers, taken_apart(tracer, totals[block]), strict=True))
    tracer.extend(part)
    found = [made.get(r) for r in range(len(acc.registers))]
    if warpgroups and (of_groups := of_warpgroups(tracer, acc.layout, pieces, (a, left), b, sums, found, part, words)):
        tracer.products.append(of_groups)
    return Spread(acc.layout, acc.dtype, found)


def _warps(acc: Spread, index: int) -> list[tuple[int, ...]]:
    """The bases of the warps of an operand of the result's warps."""
    return [tuple(w if axis == index else 0 for axis, w in enumerate(basis)) for basis in acc.layout.bases["warp"]]


def _pieces(
    tracer: Tracer, name: str, given: Spread, tile: LinearLayout, warps: Sequence[tuple[int, ...]] | None
) -> Mapping[Block, Sequence[int]]:
    found = fragments_of(given.layout, tile)
    if found is None or (warps is not None and given.layout.bases["warp"] != warps):
        raise tracer.error(
            f"lego.mma: {name} is not in the layout of the sparse product; with parent the f2.MmaSync of the result, "
            "a has f2.MmaOperand(0, parent, k_width), b f2.MmaOperand(1, parent, k_width), where k_width is 2 for 16 "
            "bits and 4 for 8, and the metadata f2.MmaMetadata(parent, bits)",
            LayoutError,
        )
    return found


def _words(tracer: Tracer, metadata: Spread, acc: Spread, bits: int) -> dict[Block, tuple[Value, int]]:
    """The word of each piece of 16 rows and step along K, and the lanes that have it, by their selector."""
    columns = min(4, metadata.shape[1])
    tile = MmaMetadata(MmaSync((1, 1)), bits).layout((16, columns))
    pieces = _pieces(tracer, "metadata", metadata, tile, _warps(acc, 0))
    found: dict[Block, tuple[Value, int]] = {}
    for (row, part), registers in pieces.items():
        values = [as_value(metadata.registers[r], metadata.dtype) for r in registers]
        word = tracer.value(metadata.dtype, 2)
        tracer.append(Compose(word, tuple(values), tracer.here()))
        steps = columns // 2 if bits == 16 else 1
        for selector in range(steps):
            found[row, part * steps + selector] = word, selector
    return found
