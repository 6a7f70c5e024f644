"""`ldmatrix` of f8 as one of bytes, which upstream's conversion to nvvm lowers; the bits are the same.

%m = nvgpu.ldmatrix %tile[%i] : memref<64xf8E4M3FN, 3> -> vector<4x4xf8E4M3FN>
-->
%bytes = nvgpu.ldmatrix %tile as memref<64xi8, 3>[%i] -> vector<4x4xi8>;  %m = arith.bitcast %bytes
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lego_mlir import bindings
from lego_mlir.aliases import Op
from lego_mlir.transforms.modules import walk
from lego_mlir.transforms.passes.base import FunctionPass
from lego_mlir.transforms.passes.elementwise import Elementwise, element_name, replace

LOAD: Final = "nvgpu.ldmatrix"
CAST: Final = "builtin.unrealized_conversion_cast"
_F8: Final = ("f8E4M3FN", "f8E5M2")


@dataclass(frozen=True, slots=True)
class LowerF8MatrixLoads(FunctionPass):
    """Replaces the loads; the tiles become the same LLVM pointers, so that the cast of one disappears."""

    name = "lego-lower-f8-matrix-loads"

    def run_on(self, function: Op) -> None:
        ir = bindings.load().ir
        for load in [op for op in walk(function) if op.name == LOAD]:
            tile, *indices = load.operands
            if element_name(load.results[0].type) not in _F8:
                continue
            with load.location, ir.InsertionPoint(load):
                e = Elementwise(load.results[0].type)
                bytes_ = ir.MemRefType.get(
                    list(tile.type.shape), ir.Type.parse("i8"), tile.type.layout, tile.type.memory_space
                )
                viewed = ir.Operation.create(CAST, [bytes_], [tile]).results[0]
                attributes = {name: load.attributes[name] for name in ("transpose", "numTiles")}
                made = ir.Operation.create(LOAD, [e.type("i8")], [viewed, *indices], attributes=attributes).results[0]
                cast = ir.Operation.create("arith.bitcast", [load.results[0].type], [made]).results[0]
                replace(load, cast)
