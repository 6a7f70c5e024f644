"""The four tiles of an ldmatrix, in the order in which the product takes them.

`ldmatrix.x4` loads four 8x8 tiles into four registers: lanes 0-7 give the rows of the first tile, 8-15 of the second,
and so on. Upstream has the lanes walk down a 16x16 block of memory before they turn right:

    in memory   0 2      as the product wants them, register 1 is     rows 8-15 of a, or depths 8-15 of b
                1 3

That is tile 1 for a as it lies and for b transposed. For a transposed and for b as it lies it is tile 2, and
upstream's product is wrong without a word. There tiles 1 and 2 change places: the lanes that give their addresses do,
which is to exchange bits 3 and 4 of the lane's number. Exchanged registers would do too, but an instruction takes its
registers side by side, so that they would have to be moved. PTX ISA, "ldmatrix", "Matrix Fragments for mma.m16n8k16".
"""

from __future__ import annotations

from typing import Any, Final

from lego_mlir import bindings
from lego_mlir.transforms.kernel_facts import kernels
from lego_mlir.transforms.modules import walk
from lego_mlir.transforms.passes.context import Context, nothing
from lego_mlir.transforms.passes.operations import clone, is_pure, producer

LOAD: Final = "nvgpu.ldmatrix"
MMA: Final = "nvgpu.mma.sync"
LANE: Final = "gpu.lane_id"
TILES: Final = 4
_EXCHANGED: Final = "affine_map<(d0) -> (d0 mod 8 + (d0 floordiv 16) * 8 + ((d0 floordiv 8) mod 2) * 16)>"


def run(module: Any, context: Context) -> None:
    """The pass, to be run once after the products were dealt out."""
    products = [op for function in kernels(module) for op in walk(function) if op.name == MMA]
    if not products:
        raise nothing("lego-order-fragments", MMA, module)
    renewed: dict[Any, Any] = {}
    for product in products:
        for number, straight in ((0, True), (1, False)):
            _order(product, number, straight, renewed)
    for old in reversed(renewed):  # what uses a load before the load
        if not any(list(result.uses) for result in old.results):
            old.erase()


def _order(product: Any, number: int, straight: bool, renewed: dict[Any, Any]) -> None:
    """Give an operand of a product, `straight` or transposed in order, a load in order."""
    source = producer(product.operands[number])
    cut = source if source is not None and source.name != LOAD else None
    load = source if cut is None else producer(cut.operands[0])
    if load is None or load.name != LOAD or not _misplaced(load, straight):
        return
    if load not in renewed:
        renewed[load] = _exchanged(load)
    if cut is None:
        product.operands[number] = renewed[load].results[0]
        return
    if cut not in renewed:
        with cut.location, bindings.load().ir.InsertionPoint(cut):
            renewed[cut] = clone(cut, {load.results[0]: renewed[load].results[0]})
    product.operands[number] = renewed[cut].results[0]


def _misplaced(load: Any, straight: bool) -> bool:
    """Whether a load of four tiles has them in the other order; `straight` is how the operand is loaded in order."""
    ir = bindings.load().ir
    tiles = int(ir.IntegerAttr(load.attributes["numTiles"]).value)
    return tiles == TILES and bool(ir.BoolAttr(load.attributes["transpose"]).value) == straight


def _exchanged(load: Any) -> Any:
    """The same load with its addresses given by other lanes."""
    with load.location, bindings.load().ir.InsertionPoint(load):
        mapping: dict[Any, Any] = {}
        for index in list(load.operands)[1:]:
            _recompute(index, mapping)
        return clone(load, mapping)


def _recompute(value: Any, mapping: dict[Any, Any]) -> Any:
    """The value as it is for the exchanged lane, computed anew where it depends on the lane."""
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
