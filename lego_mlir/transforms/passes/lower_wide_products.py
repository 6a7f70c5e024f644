"""Products of two words without sign as `mul.wide.u32`, where LLVM would multiply 64-bit numbers.

A division by a run-time reciprocal multiplies 32-bit words to 64 bits (`expr.reciprocal`), and the multiplier is a
kernel argument of 64 bits. LLVM turns the extension of its truncation into a mask,

    extui(trunci(m)) * extui(n)       and.b64, mul.lo.s64: three multiplications, one by the high word, which is zero

and the assembler does not see that the high word is zero. Here the product is one instruction (PTX ISA, "mul"). Words
that were not truncated stay as they are: LLVM finds the instruction itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lego_mlir import bindings
from lego_mlir.aliases import Op, Value
from lego_mlir.transforms.modules import walk
from lego_mlir.transforms.passes.base import FunctionPass
from lego_mlir.transforms.passes.operations import create, producer

_TRUNCATIONS: Final = ("arith.trunci", "arith.index_cast")
_PRODUCT: Final = {"asm_string": '"mul.wide.u32 $0, $1, $2;"', "constraints": '"=l,r,r"'}


@dataclass(frozen=True, slots=True)
class LowerWideProducts(FunctionPass):
    """Replaces 64-bit products of extended words, one of which was truncated."""

    name = "lego-lower-wide-products"

    def run_on(self, function: Op) -> None:
        for operation in [op for op in walk(function) if op.name == "arith.muli"]:
            words = [_extended(value) for value in operation.operands]
            given = [word for word in words if word is not None]
            if str(operation.results[0].type) == "i64" and len(given) == 2 and any(map(_is_truncated, given)):
                with operation.location, bindings.load().ir.InsertionPoint(operation):
                    product = create("llvm.inline_asm", [operation.results[0].type], given, _PRODUCT)
                operation.results[0].replace_all_uses_with(product.results[0])
                operation.erase()


def _extended(value: Value) -> Value | None:
    """The 32-bit word that a value extends with zeros; None for anything else."""
    source = producer(value)
    if source is None or source.name != "arith.extui" or str(source.operands[0].type) != "i32":
        return None
    return source.operands[0]


def _is_truncated(word: Value) -> bool:
    source = producer(word)
    return source is not None and source.name in _TRUNCATIONS
