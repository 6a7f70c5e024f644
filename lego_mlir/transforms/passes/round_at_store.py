"""The rounding of a result, moved from the tile to the lanes that store it.

A warp rounds its accumulators to f16 or bf16 and writes them as tiles. Upstream deals out reads, products and writes
of tiles to the lanes of a warp, and leaves alone, without a word, products whose result goes through anything else.
So the rounding is put aside first and done where a lane stores what it holds. Two passes around the conversion:

    lego-defer-rounding    write (truncf %tile), %m      ->  write %tile, (cast %m : memref of f32)
    lego-round-at-store    store %two, (cast %m)         ->  store (truncf %two), %m

A kernel that rounds nothing is left as it is.
"""

from __future__ import annotations

from typing import Any, Final

from lego_mlir import bindings
from lego_mlir.transforms.kernel_facts import kernels
from lego_mlir.transforms.modules import walk
from lego_mlir.transforms.passes.context import Context, PassError
from lego_mlir.transforms.passes.operations import producer, users

CAST: Final = "builtin.unrealized_conversion_cast"
_ROUND: Final = "arith.truncf"
_WRITE: Final = "vector.transfer_write"


def defer(module: Any, context: Context) -> None:
    """The first pass, before the products are dealt out."""
    ir = bindings.load().ir
    for function in kernels(module):
        for write in [op for op in walk(function) if op.name == _WRITE]:
            rounding = producer(write.operands[0])
            if rounding is None or rounding.name != _ROUND:
                continue
            target, wide = write.operands[1], rounding.operands[0]
            there = ir.MemRefType(target.type)
            element = ir.VectorType(wide.type).element_type
            as_wide = ir.MemRefType.get(there.shape, element, there.layout, there.memory_space)
            with write.location, ir.InsertionPoint(write):
                seen = ir.Operation.create(CAST, [as_wide], [target]).results[0]
            write.operands[0], write.operands[1] = wide, seen
            if not list(rounding.results[0].uses):
                rounding.erase()


def run(module: Any, context: Context) -> None:
    """The second pass, after it. Raises PassError where something else than lanes' stores writes a tile."""
    for function in kernels(module):
        for cast in [op for op in walk(function) if op.name == CAST]:
            for store in users(cast.results[0]):
                if store.name != "vector.store":
                    raise PassError(
                        f"lego-round-at-store: it looked for vector.store of the lanes, and found {store.name}: the "
                        "tile was not dealt out to the lanes (convert-vector-to-gpu)"
                    )
                _round(store, cast.operands[0])
            cast.erase()


def _round(store: Any, target: Any) -> None:
    ir = bindings.load().ir
    wide = ir.VectorType(store.operands[0].type)
    narrow = ir.VectorType.get(wide.shape, ir.MemRefType(target.type).element_type)
    with store.location, ir.InsertionPoint(store):
        rounded = ir.Operation.create(_ROUND, [narrow], [store.operands[0]]).results[0]
    store.operands[0], store.operands[1] = rounded, target
