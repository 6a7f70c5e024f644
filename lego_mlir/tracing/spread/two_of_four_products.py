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

An instruction has twice the depth of the dense one, with the same fragments of A. `lego.compressed` makes A and its
metadata of an array. Where it names a place twice, or in no order, the result is undefined; the interpreter reports it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lego_mlir.errors import LayoutError
from lego_mlir.f2.encodings import MmaMetadata, MmaOperand, MmaSync
from lego_mlir.f2.linear import LinearLayout
from lego_mlir.tracing.spread.distributed import Spread
from lego_mlir.tracing.spread.fragments import Block, RegisterOperand, composed, fragments_of, taken_apart
from lego_mlir.tracing.trace.dtypes import DType, bf16, f16, f32, i8, i16, i32, u16
from lego_mlir.tracing.trace.trace import Compose, MlirOperation, Value
from lego_mlir.tracing.trace.tracer import Tracer
from lego_mlir.tracing.words.scalar import Scalar, as_value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SPARSE: Final = "nvgpu.mma.sp.sync"
KEPT_COLUMNS: Final = 16
"""Columns of A of one element of the metadata."""
RESULTS: Final[dict[DType, DType]] = {f16: f32, bf16: f32, i8: i32}


def sparse_product(tracer: Tracer, given: Mapping[str, object]) -> Spread:
    """`acc + A @ b`, where `a` has the elements that A keeps, and `metadata` their places.

    Raises LayoutError for operands that do not fit.
    """
    tiles = [tile for tile in given.values() if isinstance(tile, Spread) and not tile.is_open]
    if len(tiles) < len(given):
        name = next(n for n, tile in given.items() if not isinstance(tile, Spread) or tile.is_open)
        raise tracer.error(
            f"lego.mma with metadata takes tiles with layouts, and {name} has none: load it with one, of "
            "f2.MmaOperand, f2.MmaMetadata and f2.MmaSync",
            LayoutError,
        )
    a, b, acc, metadata = tiles
    if a.dtype != b.dtype or RESULTS.get(a.dtype) != acc.dtype or metadata.dtype not in (u16, i16):
        raise tracer.error(
            "lego.mma with metadata multiplies f16 or bf16 into f32, or i8 into i32, with metadata of u16; got "
            f"{a.dtype} times {b.dtype} into {acc.dtype}, with metadata of {metadata.dtype}",
            LayoutError,
        )
    width = 32 // a.dtype.bits
    depth = 16 * width
    (m, half), (k, n) = a.shape, b.shape
    if 2 * half != k or (m, n) != acc.shape or k % depth or metadata.shape != (m, k // KEPT_COLUMNS):
        raise tracer.error(
            f"lego.mma: A keeps {m} x {half} of {m} x {2 * half}, times {k} x {n} into "
            f"{' x '.join(map(str, acc.shape))}; the depth is a multiple of {depth}, twice the columns of a, and the "
            f"metadata has {m} x {k // KEPT_COLUMNS}, got {' x '.join(map(str, metadata.shape))}",
            LayoutError,
        )
    one = MmaSync((1, 1))
    pieces = _pieces(tracer, "acc", acc, one.layout((16, 8)), None)
    left = _pieces(tracer, "a", a, MmaOperand(0, one, width).layout((16, depth // 2)), _warps(acc, 0))
    right = _pieces(tracer, "b", b, MmaOperand(1, one, width).layout((depth, 8)), _warps(acc, 1))
    words = _words(tracer, metadata, acc, a.dtype.bits)
    x = RegisterOperand(tracer, a.dtype, a.registers, left, (4, width))
    y = RegisterOperand(tracer, b.dtype, b.registers, right, (4, width))
    found: dict[int, Scalar] = {}
    for (row, column), registers in pieces.items():
        total = composed(tracer, acc.dtype, (2, 2), [acc.registers[r].value for r in registers])
        for step in range(k // depth):
            word, selector = words[row, step]
            result = tracer.value(acc.dtype, (2, 2))
            shape = ("mmaShape", f"[16, 8, {depth}]"), ("sparsitySelector", f"{selector} : i32")
            operands = x.fragment((row, step)), y.fragment((step, column)), total, word
            tracer.append(MlirOperation((result,), SPARSE, operands, shape, tracer.here()))
            total = result
        found.update(zip(registers, taken_apart(tracer, total), strict=True))
    return Spread(acc.layout, acc.dtype, [found.get(r) for r in range(len(acc.registers))])


def _warps(acc: Spread, index: int) -> list[tuple[int, ...]]:
    """The bases of the warps of an operand of the result's warps."""
    return [tuple(w if axis == index else 0 for axis, w in enumerate(basis)) for basis in acc.layout.bases["warp"]]


def _pieces(
    tracer: Tracer, name: str, given: Spread, tile: LinearLayout, warps: Sequence[tuple[int, ...]] | None
) -> dict[Block, list[int]]:
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
