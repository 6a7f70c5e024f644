"""Load the four tiles of an ldmatrix in the order in which the product takes them.

`ldmatrix.x4` loads four 8x8 tiles into four registers: lanes 0-7 address the rows of the first tile, 8-15 of the
second, and so on. Upstream's lanes traverse a 16x16 block of memory column by column of tiles:

    in memory   0 2      the product expects in register 1            rows 8-15 of a, or depths 8-15 of b
                1 3

That is tile 1 for a row-major and for b transposed. For a transposed and for b row-major it is tile 2, and upstream's
product is silently wrong. There this pass exchanges tiles 1 and 2 by exchanging the lanes that address them, which
exchanges bits 3 and 4 of the lane number. Exchanging registers would give the same values, but an instruction takes
consecutive registers, so they would have to be moved. PTX ISA, "ldmatrix", "Matrix Fragments for mma.m16n8k16".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lego_mlir import bindings
from lego_mlir.aliases import Module, Op, Value
from lego_mlir.hardware.targets import Target
from lego_mlir.transforms.kernel_facts import kernels
from lego_mlir.transforms.modules import walk
from lego_mlir.transforms.passes.base import Pass
from lego_mlir.transforms.passes.operations import clone, is_pure, producer

LOAD: Final = "nvgpu.ldmatrix"
MMA: Final = "nvgpu.mma.sync"
LANE: Final = "gpu.lane_id"
TILES: Final = 4
_EXCHANGED: Final = "affine_map<(d0) -> (d0 mod 8 + (d0 floordiv 16) * 8 + ((d0 floordiv 8) mod 2) * 16)>"


@dataclass(frozen=True, slots=True)
class OrderFragments(Pass):
    """Runs once, after the products have been distributed to lanes."""

    name = "lego-order-fragments"

    def run(self, module: Module, target: Target) -> None:
        products = [op for function in kernels(module) for op in walk(function) if op.name == MMA]
        if not products:
            raise self.no_match(MMA, module)
        replaced: dict[Value, Value] = {}
        for product in products:
            for number, straight in ((0, True), (1, False)):
                _order(product, number, straight, replaced)
        for old in reversed(replaced):  # users of a load before the load
            if not any(list(result.uses) for result in old.results):
                old.erase()


def _order(product: Op, number: int, straight: bool, replaced: dict[Value, Value]) -> None:
    """Replace the load of an operand by one in the right order; `straight` as in `_misplaced`."""
    source = producer(product.operands[number])
    cut = source if source is not None and source.name != LOAD else None
    load = source if cut is None else producer(cut.operands[0])
    if load is None or load.name != LOAD or not _misplaced(load, straight):
        return
    if load not in replaced:
        replaced[load] = _exchanged(load)
    if cut is None:
        product.operands[number] = replaced[load].results[0]
        return
    if cut not in replaced:
        with cut.location, bindings.load().ir.InsertionPoint(cut):
            replaced[cut] = clone(cut, {load.results[0]: replaced[load].results[0]})
    product.operands[number] = replaced[cut].results[0]


def _misplaced(load: Op, straight: bool) -> bool:
    """Whether a load has its four tiles in the wrong order: `straight` operands are right without transposition."""
    ir = bindings.load().ir
    tiles = int(ir.IntegerAttr(load.attributes["numTiles"]).value)
    return tiles == TILES and bool(ir.BoolAttr(load.attributes["transpose"]).value) == straight


def _exchanged(load: Op) -> Op:
    """The same load with addresses from the exchanged lanes."""
    with load.location, bindings.load().ir.InsertionPoint(load):
        mapping: dict[Value, Value] = {}
        for index in list(load.operands)[1:]:
            _recompute(index, mapping)
        return clone(load, mapping)


def _recompute(value: Value, mapping: dict[Value, Value]) -> Op:
    """The value for the exchanged lane, recomputed where it depends on the lane."""
    source = producer(value)
    if value in mapping or source is None or not is_pure(source):
        return mapping.get(value, value)
    if source.name == LANE:
        ir = bindings.load().ir
        mapping[value] = ir.Operation.create(
            "affine.apply", [value.type], [value], attributes={"map": ir.Attribute.parse(_EXCHANGED)}
        ).results[0]
        return mapping[value]
    changed = [_recompute(operand, mapping) for operand in source.operands]
    if changed != list(source.operands):
        mapping[value] = clone(source, mapping).results[0]
    return mapping.get(value, value)
