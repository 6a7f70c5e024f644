"""Integer divisions on a CPU that never end the process, as a GPU's do not.

An x86 raises a signal for a divisor of 0, and for the least signed number divided by -1. The divisor 1 replaces both:
the quotient by -1 is then the negation, which wraps around, and that by 0 is unspecified. The interpreter reports both.
"""

from __future__ import annotations

from typing import Final

from lego_mlir import bindings
from lego_mlir.aliases import Op, Value
from lego_mlir.transforms.modules import walk
from lego_mlir.transforms.passes.elementwise import EQ, Elementwise, element_name, replace

_QUOTIENTS: Final = ("arith.divsi", "arith.floordivsi", "arith.ceildivsi")
_SIGNED: Final = (*_QUOTIENTS, "arith.remsi")
_UNSIGNED: Final = ("arith.divui", "arith.ceildivui", "arith.remui")


def replace_in(function: Op) -> None:
    """Guard the divisions of a host's function whose divisor is not a positive constant."""
    ir = bindings.load().ir
    for operation in [op for op in walk(function) if op.name in (*_SIGNED, *_UNSIGNED)]:
        if not _is_positive(operation.operands[1]):
            with operation.location, ir.InsertionPoint(operation):
                replace(operation, _guarded(operation))


def _guarded(operation: Op) -> Value:
    (a, b), kind = operation.operands, operation.results[0].type
    e, element = Elementwise(kind), element_name(kind)
    zero, one = e.number(0, element), e.number(1, element)
    divisor = e.choose(e.compare(EQ, b, zero), one, b)
    if operation.name in _UNSIGNED:
        return e.make(operation.name, element, a, divisor)
    negates = e.compare(EQ, b, e.number(-1, element))
    found = e.make(operation.name, element, a, e.choose(negates, one, divisor))
    if operation.name not in _QUOTIENTS:
        return found
    return e.choose(negates, e.make("arith.subi", element, zero, a), found)


def _is_positive(divisor: Value) -> bool:
    """Whether a divisor is a constant above 0."""
    ir = bindings.load().ir
    owner = getattr(divisor.owner, "operation", None)
    if owner is None or owner.name != "arith.constant":
        return False
    value = owner.attributes["value"]
    return isinstance(value, ir.IntegerAttr) and int(value) > 0
