"""Move the rounding of a result from the tile to the lanes that store it.

A warp rounds its accumulators to f16 or bf16 and writes them as tiles. Upstream distributes reads, products and writes
of tiles to the lanes of a warp; products whose result passes through anything else are silently left alone. Two passes
around that conversion therefore defer the rounding until a lane stores its elements:

    lego-defer-rounding    write (truncf %tile), %m      ->  write %tile, (cast %m : memref of f32)
    lego-round-at-store    store %two, (cast %m)         ->  store (truncf %two), %m

A kernel without rounding is left unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lego_mlir import bindings
from lego_mlir.aliases import Module, Op, Value
from lego_mlir.hardware.targets import Target
from lego_mlir.transforms.kernel_facts import kernels
from lego_mlir.transforms.modules import walk
from lego_mlir.transforms.passes.base import Pass, PassError
from lego_mlir.transforms.passes.operations import producer, users

CAST: Final = "builtin.unrealized_conversion_cast"
_ROUND: Final = "arith.truncf"
_WRITE: Final = "vector.transfer_write"


@dataclass(frozen=True, slots=True)
class DeferRounding(Pass):
    """Before the conversion: write the unrounded tile through a cast of its destination."""

    name = "lego-defer-rounding"

    def run(self, module: Module, target: Target) -> None:
        ir = bindings.load().ir
        for function in kernels(module):
            for write in [op for op in walk(function) if op.name == _WRITE]:
                rounding = producer(write.operands[0])
                if rounding is None or rounding.name != _ROUND:
                    continue
                destination, wide = write.operands[1], rounding.operands[0]
                there = ir.MemRefType(destination.type)
                element = ir.VectorType(wide.type).element_type
                as_wide = ir.MemRefType.get(there.shape, element, there.layout, there.memory_space)
                with write.location, ir.InsertionPoint(write):
                    seen = ir.Operation.create(CAST, [as_wide], [destination]).results[0]
                write.operands[0], write.operands[1] = wide, seen
                if not list(rounding.results[0].uses):
                    rounding.erase()


@dataclass(frozen=True, slots=True)
class RoundAtStore(Pass):
    """After the conversion: round in each lane. Raises PassError where a tile was not distributed to lanes."""

    name = "lego-round-at-store"

    def run(self, module: Module, target: Target) -> None:
        for function in kernels(module):
            for cast in [op for op in walk(function) if op.name == CAST]:
                for store in users(cast.results[0]):
                    if store.name != "vector.store":
                        raise PassError(
                            f"{self.name}: it looked for vector.store of the lanes, and found {store.name}: the "
                            "tile was not distributed to the lanes (convert-vector-to-gpu)"
                        )
                    _round(store, cast.operands[0])
                cast.erase()


def _round(store: Op, destination: Value) -> None:
    ir = bindings.load().ir
    wide = ir.VectorType(store.operands[0].type)
    narrow = ir.VectorType.get(wide.shape, ir.MemRefType(destination.type).element_type)
    with store.location, ir.InsertionPoint(store):
        rounded = ir.Operation.create(_ROUND, [narrow], [store.operands[0]]).results[0]
    store.operands[0], store.operands[1] = rounded, destination
