"""One block of shared memory for the tiles through which a kernel's conversions, scans and reductions exchange.

Two values that are exchanged alike, such as those of a scan of pairs, have equal positions in two tiles. As parts of
one block they have one address, at a constant distance:

    %a = memref.load %tile[%i]                 %tile = memref.view %block[%c0][]
    %b = memref.load %other[%i]      -->       %other = memref.view %block[%c4096][]

Such a tile has the attribute `lego.scratch`. Barriers stand between the stores and the loads of each, so little is lost
where a compiler no longer sees that two of them are apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lego_mlir import bindings
from lego_mlir.aliases import Op
from lego_mlir.transforms.kernel_facts import element_bytes
from lego_mlir.transforms.passes.allocate_shared import attributions, declare, remove
from lego_mlir.transforms.passes.base import FunctionPass
from lego_mlir.transforms.passes.operations import create
from lego_mlir.transforms.tile_names import ATTRIBUTES, SCRATCH

ALIGNMENT: Final = 16
"""Bytes of the widest access."""


@dataclass(frozen=True, slots=True)
class JoinScratch(FunctionPass):
    """Joins the scratch tiles of a kernel that has several."""

    name = "lego-join-scratch"

    def run_on(self, function: Op) -> None:
        facts = list(function.attributes[ATTRIBUTES]) if ATTRIBUTES in function.attributes else []
        tiles = [tile for tile, known in zip(attributions(function), facts, strict=False) if SCRATCH in known]
        if len(tiles) < 2:
            return
        ir, first, total = bindings.load().ir, list[int](), 0
        for tile in tiles:
            first.append(total)
            total += -(-tile.type.shape[0] * element_bytes(tile.type.element_type) // ALIGNMENT) * ALIGNMENT
        space = tiles[0].type.memory_space
        byte = ir.IntegerType.get_signless(8)
        aligned = {"llvm.align": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), ALIGNMENT)}
        whole = declare(function, ir.MemRefType.get([total], byte, memory_space=space), aligned)
        with function.location, ir.InsertionPoint.at_block_begin(function.regions[0].blocks[0]):
            for tile, at in zip(tiles, first, strict=True):
                offset = create("arith.constant", [ir.IndexType.get()], [], {"value": f"{at} : index"}).results[0]
                tile.replace_all_uses_with(create("memref.view", [tile.type], [whole, offset]).results[0])
        for tile in tiles:
            remove(function, tile)
