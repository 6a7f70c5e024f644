"""Shared tiles beyond what a block may declare: views of one dynamic block of bytes.

A block declares at most 48 KB, barriers included. More must be requested at launch: the tiles are then placed in
dynamic shared memory, one after the other, each at a multiple of a row of banks. The manifest holds the bytes, and the
launcher raises the kernel's limit. Tiles that `lego.mma` reads stay declared: a transform script places them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from lego_mlir.aliases import Location, Value
from lego_mlir.hardware.limits import STATIC_SHARED_BYTES
from lego_mlir.hardware.memory import BANK_ROW_BYTES
from lego_mlir.hardware.tensor_maps import ATOM_BYTES
from lego_mlir.printers.builder import Builder
from lego_mlir.tracing.emit.emit_marks import tile_copies
from lego_mlir.tracing.trace.trace import Buffer, KernelTrace
from lego_mlir.tracing.words.barrier_rings import ring_bytes
from lego_mlir.transforms.tile_names import located

_BYTES: Final = "memref<?xi8, #gpu.address_space<workgroup>>"


def tile_bytes(tile: Buffer) -> int:
    """The bytes of a shared tile, up to the next row of banks."""
    return -(-tile.size * tile.dtype.bytes // BANK_ROW_BYTES) * BANK_ROW_BYTES


def is_dynamic(trace: KernelTrace) -> bool:
    """Whether the tiles take more memory than a block may declare, or share it."""
    return (bool(trace.phases) or declared_bytes(trace) > STATIC_SHARED_BYTES) and not trace.tile_rows()


def declared_bytes(trace: KernelTrace) -> int:
    """The bytes of all tiles and barriers, in the worst order: tiles of copies begin at multiples of ATOM_BYTES."""
    copied = {copy.tile.name for copy in tile_copies(trace)}
    rings = ring_bytes(trace)
    total = -(-rings // ATOM_BYTES) * ATOM_BYTES if copied else rings
    if trace.phases:
        offsets = tile_offsets(trace, ATOM_BYTES)
        return total + max(offsets[tile.name] + tile_bytes(tile) for tile in trace.shared)
    for tile in trace.shared:
        size = tile.size * tile.dtype.bytes
        total += -(-size // ATOM_BYTES) * ATOM_BYTES if tile.name in copied else size
    return total


def tile_offsets(trace: KernelTrace, alignment: int = BANK_ROW_BYTES) -> dict[str, int]:
    """The first byte of each tile by name, with tiles at multiples of `alignment`."""
    offsets: dict[str, int] = {}
    later = frozenset[str]().union(*trace.phases)

    def place(tiles: Iterable[Buffer], offset: int) -> int:
        for tile in tiles:
            offsets[tile.name] = offset
            offset += -(-tile_bytes(tile) // alignment) * alignment
        return offset

    start = place((t for t in trace.shared if t.name not in later), 0)
    for phase in trace.phases:
        place((t for t in trace.shared if t.name in phase), start)
    return offsets


def emit_views(
    build: Builder, trace: KernelTrace, types: list[str], location: Location, alignment: int = BANK_ROW_BYTES
) -> dict[str, Value]:
    """The views of the tiles by name, at the current insertion point; `types` are their memrefs."""
    memory = build.value("gpu.dynamic_shared_memory", (), _BYTES)
    views, offsets = {}, tile_offsets(trace, alignment)
    for tile, type_ in zip(trace.shared, types, strict=True):
        start = build.constant(offsets[tile.name], "index")
        with located(location, tile.name):
            views[tile.name] = build.value("memref.view", (memory, start), type_)
    return views
