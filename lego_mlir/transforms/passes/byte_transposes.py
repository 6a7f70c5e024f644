"""Words of four bytes that are taken from four words, at one place of each, as two shuffles of pairs.

A transpose of bytes in registers has four words of four, and each byte goes to another word. LLVM puts a word together
byte by byte: three `prmt` for each. A shuffle of two words is one, and the first round serves two results:

    a0 b0 a1 b1 = shuffle a, b        c0 d0 c1 d1 = shuffle c, d
    a0 b0 c0 d0 = shuffle of both     a1 b1 c1 d1 = shuffle of both

(PTX ISA, "prmt".)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lego_mlir import bindings
from lego_mlir.aliases import Op, Value
from lego_mlir.transforms.modules import walk
from lego_mlir.transforms.passes.base import FunctionPass
from lego_mlir.transforms.passes.elementwise import element_name, replace

NAMES: Final = ("i8", "f8E4M3FN", "f8E5M2")
"""Types of a byte."""
BYTES: Final = 4
"""Of a word."""
FIRST: Final = ((0, 4, 1, 5), (2, 6, 3, 7))
"""The bytes 0 and 1 of two words by turns, or 2 and 3."""
SECOND: Final = ((0, 1, 4, 5), (2, 3, 6, 7))
"""The first or the second bytes of both pairs."""


@dataclass(frozen=True, slots=True)
class LowerByteTransposes(FunctionPass):
    """Replaces words that are put together from the same byte of four words."""

    name = "lego-lower-byte-transposes"

    def run_on(self, function: Op) -> None:
        for operation in [op for op in walk(function) if op.name == "vector.from_elements"]:
            found = _taken(operation)
            if found is not None:
                _shuffled(operation, *found)


def _taken(operation: Op) -> tuple[list[Value], int] | None:
    """The four words, and the place of the byte in each; None for other elements."""
    ir = bindings.load().ir
    type_ = operation.results[0].type
    if len(operation.operands) != BYTES or element_name(type_) not in NAMES or getattr(type_, "rank", 0) != 1:
        return None
    sources = [x.owner for x in operation.operands]
    if any(not isinstance(s, ir.Operation | ir.OpView) or s.operation.name != "vector.extract" for s in sources):
        return None
    if any(len(s.operands) > 1 for s in sources):  # at a place that is known when it runs
        return None
    places = {str(s.attributes["static_position"]) for s in sources}
    words = [s.operands[0] for s in sources]
    if len(places) > 1 or len({hash(w) for w in words}) < BYTES or any(w.type != type_ for w in words):
        return None
    (place,) = ir.DenseI64ArrayAttr(sources[0].attributes["static_position"])
    return words, place


def _shuffled(operation: Op, words: Sequence[Value], place: int) -> None:
    ir = bindings.load().ir
    type_ = operation.results[0].type

    def shuffle(a: Value, b: Value, order: Sequence[int]) -> Value:
        mask = ir.DenseI64ArrayAttr.get(order)
        return ir.Operation.create("vector.shuffle", [type_], [a, b], {"mask": mask}).results[0]

    with operation.location, ir.InsertionPoint(operation):
        low, high = (shuffle(words[n], words[n + 1], FIRST[place // 2]) for n in (0, 2))
        made = shuffle(low, high, SECOND[place % 2])
    replace(operation, made)
