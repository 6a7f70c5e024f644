"""Tiles whose place the layout engine chose in shared memory, and the products that read them.

    x = lego.load(a, (128, 64), at=(row, k))          barrier; the threads copy the tile: the word `lego.stage`
    y = lego.load(b, (256, 64), at=(column, k))       so do they here
    acc.set(lego.mma(x, y.T, acc))             -->    barrier; the word `lego.mma` on the registers of acc

These are the words that schedules read: `pipeline` makes rings of the tiles, `roles` divides copies from products.
"""

from __future__ import annotations

from collections.abc import Sequence

from lego_mlir.aliases import IndexLike
from lego_mlir.engine.anchors import anchors, inside_first
from lego_mlir.engine.operand_places import memory_axis
from lego_mlir.engine.tile_memory import TileMemory
from lego_mlir.expr.index import Index
from lego_mlir.f2.boxed import boxed
from lego_mlir.hardware.tensor_maps import CHUNK
from lego_mlir.layout import as_layout
from lego_mlir.tracing.spread import accesses
from lego_mlir.tracing.spread.distributed import Spread
from lego_mlir.tracing.spread.multiplication import mma
from lego_mlir.tracing.spread.variables import SpreadVariable
from lego_mlir.tracing.trace.marks import HeldTile, Rectangle, StagedTile, TileProduct
from lego_mlir.tracing.trace.shared_lines import panel, ring_layout
from lego_mlir.tracing.trace.trace import If
from lego_mlir.tracing.trace.tracer import Tracer, current
from lego_mlir.tracing.words import control
from lego_mlir.tracing.words.mma import Part
from lego_mlir.tracing.words.tensor import View, declare_tile


def may_be_staged(view: View, shape: Sequence[int], memory: TileMemory) -> bool:
    """Whether tile copies can fill a shared tile from a tensor: whole lines, of chunks that are aligned."""
    size, rank = view.dtype.bits, len(view.dims())
    if view.buffer.space != "global" or len(shape) != 2 or size % 8 or memory.widest < CHUNK:
        return False
    contiguous = memory_axis(memory)
    return (rank == 2 or contiguous == 1) and shape[contiguous] % panel(shape[contiguous], size // 8) == 0


def staged(source: View, at: Sequence[IndexLike], shape: Sequence[int], axis: int, warps: int) -> View:
    """A copy of a tile in shared memory, contiguous along `axis`, by the threads of `warps` warps."""
    tracer = current("lego.load")
    memory, _ = accesses.first_access("lego.load", source, shape, at, warps)
    copied = boxed(next(iter(anchors(shape, [inside_first(memory, shape)], memory.vectors(), warps))), shape)
    rows, columns = shape if axis == 1 else shape[::-1]
    tile = declare_tile(tracer, source.dtype, as_layout(ring_layout(1, rows, columns, source.dtype.bytes)), None)
    view = tile if axis == 1 else tile.T
    if not _is_staged(tracer.last()):
        control.barrier()
    index = tuple(tracer.simplified(tracer.index(i)) for i in at)
    with tracer.word(StagedTile(source.buffer, source.layout, index, _whole(tracer, view))):
        accesses.store(view, accesses.load(source, copied, at))
    return view


def multiplied_in_place(
    a: Spread | Part | View, b: Spread | Part | View, total: SpreadVariable, warpgroups: bool
) -> SpreadVariable:
    """`total += a @ b`, the word that schedules read, with the registers of the variable.

    Both tiles are staged, or b alone, where `wgmma` takes the registers of a. Other products are plain statements.
    """
    tracer = current("lego.mma")
    a, before = a.get() if isinstance(a, Spread) else a, len(tracer.products)
    with tracer.recorded() as part:
        total.set(mma(a, b, total, warpgroups))
    if not isinstance(b, View) or isinstance(a, Part) or (isinstance(a, Spread) and len(tracer.products) == before):
        tracer.extend(part)
        return total
    registers = tuple(cell.register for cell in total.registers if isinstance(cell, control.Cell))
    with tracer.word(TileProduct(_operand(tracer, a), _whole(tracer, b), registers, total.layout)):
        tracer.extend(part)
    return total


def _operand(tracer: Tracer, a: Spread | View) -> Rectangle | HeldTile:
    if isinstance(a, View):
        return _whole(tracer, a)
    return HeldTile(a.layout, a.dtype, tuple(None if x is None else x.entry for x in a.registers))


def _whole(tracer: Tracer, view: View) -> Rectangle:
    return Part(view, (Index(0), Index(0)), view.dims()).rectangle(tracer)


def _is_staged(statement: object) -> bool:
    return isinstance(statement, If) and isinstance(statement.mark, StagedTile)
