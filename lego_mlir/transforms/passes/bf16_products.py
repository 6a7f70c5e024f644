"""bf16 products as NVVM's mma.sync, which upstream lowers for other types only.

NVVM takes bf16 in pairs, as 32-bit integers: four registers of A, two of B, four f32 of C. PTX ISA, "mma.m16n8k16".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lego_mlir import bindings
from lego_mlir.aliases import Attribute, Op, Value
from lego_mlir.transforms.modules import walk
from lego_mlir.transforms.passes.base import FunctionPass
from lego_mlir.transforms.passes.order_fragments import MMA

_ATTRIBUTES: Final = {
    "layoutA": "#nvvm.mma_layout<row>",
    "layoutB": "#nvvm.mma_layout<col>",
    "multiplicandAPtxType": "#nvvm.mma_type<bf16>",
    "multiplicandBPtxType": "#nvvm.mma_type<bf16>",
    "operandSegmentSizes": "array<i32: 4, 2, 4>",
    "shape": "#nvvm.shape<m = 16, n = 8, k = 16>",
}
_RESULT: Final = "!llvm.struct<(f32, f32, f32, f32)>"


@dataclass(frozen=True, slots=True)
class LowerBf16Products(FunctionPass):
    """Replaces the bf16 products."""

    name = "lego-lower-bf16-products"

    def run_on(self, function: Op) -> None:
        ir = bindings.load().ir
        attributes: dict[str, Attribute] = {}
        for product in [op for op in walk(function) if op.name == MMA]:
            if str(ir.VectorType(product.operands[0].type).element_type) != "bf16":
                continue
            attributes = attributes or {name: ir.Attribute.parse(text) for name, text in _ATTRIBUTES.items()}
            with product.location, ir.InsertionPoint(product):
                product.results[0].replace_all_uses_with(_lowered(product, attributes))
            product.erase()


def _lowered(product: Op, attributes: dict[str, Attribute]) -> Value:
    ir = bindings.load().ir
    a, b, c = product.operands
    operands = [*_words(a), *_words(b), *(_element(c, row, column) for row in range(2) for column in range(2))]
    made = ir.Operation.create("nvvm.mma.sync", [ir.Type.parse(_RESULT)], operands, attributes=attributes).results[0]
    single = ir.F32Type.get()
    numbers = [
        ir.Operation.create(
            "llvm.extractvalue", [single], [made], attributes={"position": ir.DenseI64ArrayAttr.get([i])}
        ).results[0]
        for i in range(4)
    ]
    return ir.Operation.create("vector.from_elements", [c.type], numbers).results[0]


def _words(fragment: Value) -> list[Value]:
    """A fragment's pairs as 32-bit integers, one per register."""
    ir = bindings.load().ir
    registers = ir.VectorType(fragment.type).shape[0]
    words = ir.VectorType.get([registers, 1], ir.IntegerType.get_signless(32))
    cast = ir.Operation.create("vector.bitcast", [words], [fragment]).results[0]
    return [_element(cast, register, 0) for register in range(registers)]


def _element(vector: Value, row: int, column: int) -> Value:
    ir = bindings.load().ir
    return ir.Operation.create(
        "vector.extract",
        [ir.VectorType(vector.type).element_type],
        [vector],
        attributes={"static_position": ir.DenseI64ArrayAttr.get([row, column])},
    ).results[0]
