"""Asynchronous copies and matrix loads as MLIR, in the nvgpu dialect.

    AsyncCopy     nvgpu.device_async_copy; where the origin is masked, with the number of elements to read: all or none
    MatrixLoad    nvgpu.ldmatrix of 1, 2 or 4 matrices

The groups of copies and their waits are the operations nvvm.cp.async.commit.group and nvvm.cp.async.wait.group.
"""

from __future__ import annotations

from collections.abc import Mapping

from lego_mlir.aliases import Value
from lego_mlir.hardware.memory import WIDEST_ACCESS
from lego_mlir.printers.mlir import MlirPrinter
from lego_mlir.tracing.emit.emit_marks import AGAIN, emit_peer
from lego_mlir.tracing.emit.emit_tiles import TileEmitter
from lego_mlir.tracing.trace.trace import AsyncCopy, MatrixLoad


class CopyEmitter:
    """Emits these statements at the current insertion point; `memrefs` are those of the buffers by name."""

    def __init__(self, printer: MlirPrinter, memrefs: Mapping[str, Value], tiles: TileEmitter) -> None:
        self.printer, self.memrefs, self.tiles = printer, memrefs, tiles

    def matrices(self, load: MatrixLoad) -> Value:
        """The words of the matrices in this lane."""
        access = load.access
        attributes = {
            "transpose": "true" if load.transposed else "false",
            "numTiles": f"{load.result.width[0]} : i32",  # type: ignore[index]
        }
        operands = (self.memrefs[access.buffer.name], *self.tiles.indices(access))
        return self.printer.build.value("nvgpu.ldmatrix", operands, load.result.mlir, attributes)

    def copy(self, copy: AsyncCopy) -> None:
        """The copy of one thread, past the L1 cache where it moves 16 bytes."""
        build, (origin, target) = self.printer.build, (copy.origin, copy.target)
        to, here = self.tiles.indices(target), self.tiles.indices(origin)
        memref = self.memrefs[target.buffer.name]
        if target.block is not None:
            memref = emit_peer(self.printer, memref, target.block)
        operands = [memref, *to, self.memrefs[origin.buffer.name], *here]
        if origin.is_masked:
            wanted = self.printer.condition(origin.mask)
            counts = (build.constant(origin.width, "index"), build.constant(0, "index"))
            operands.append(build.value("arith.select", (wanted, *counts), "index"))
        segments = (1, len(to), 1, len(here), int(origin.is_masked))
        attributes = {
            "dstElements": f"{origin.width} : index",
            "operandSegmentSizes": f"array<i32: {', '.join(map(str, segments))}>",
        }
        if origin.width * origin.buffer.dtype.bytes == WIDEST_ACCESS:
            attributes["bypassL1"] = "unit"
        if copy.again:
            attributes[AGAIN] = "unit"
        build.operation("nvgpu.device_async_copy", operands, ("!nvgpu.device.async.token",), attributes)
