"""Hide scalar arithmetic from upstream's conversion while it distributes tiles to lanes.

Upstream collects every elementwise operation that the matrix unit might execute. It takes scalar arithmetic for such
an operation and fails: "unhandled vector to mma type". It skips vectors built from single elements, so scalar
operations are wrapped in one-element vectors before the conversion and unwrapped after it:

    lego-hide-scalars       %c = addf %a, %b   ->  %c = extract (addf (from_elements %a), (from_elements %b))
    lego-restore-scalars    the reverse

Simplifications in between may change the form of these operations, never their value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from lego_mlir import bindings
from lego_mlir.aliases import Attribute, Module, Type, Value
from lego_mlir.hardware.targets import Target
from lego_mlir.transforms.kernel_facts import kernels
from lego_mlir.transforms.modules import walk
from lego_mlir.transforms.passes.base import Pass
from lego_mlir.transforms.passes.operations import producer, users

MARK: Final = "lego.scalar"
# The elementwise operations that upstream converts for its matrix types.
_NAMES: Final = frozenset(
    f"arith.{name}"
    for name in (
        *("addf", "subf", "mulf", "divf", "negf", "maximumf", "minimumf", "extf", "truncf"),
        *("addi", "subi", "muli", "divsi", "divui"),
    )
)
_WRAP: Final = "vector.from_elements"
_WRAPPING: Final = (_WRAP, "vector.broadcast")  # which canonicalization replaces it by
_UNWRAP: Final = "vector.extract"


@dataclass(frozen=True, slots=True)
class HideScalars(Pass):
    """Before the conversion: scalar arithmetic becomes arithmetic on vectors of one element."""

    name = "lego-hide-scalars"

    def run(self, module: Module, target: Target) -> None:
        ir = bindings.load().ir
        for function in kernels(module):
            for operation in [op for op in walk(function) if op.name in _NAMES]:
                result = operation.results[0]
                if isinstance(result.type, ir.VectorType):
                    continue
                with operation.location, ir.InsertionPoint(operation):
                    given = [_create(_WRAP, ir.VectorType.get([1], o.type), [o]) for o in operation.operands]
                    attributes = {name: operation.attributes[name] for name in operation.attributes}
                    attributes[MARK] = ir.UnitAttr.get()
                    made = _create(operation.name, ir.VectorType.get([1], result.type), given, attributes)
                    position = {"static_position": ir.DenseI64ArrayAttr.get([0])}
                    result.replace_all_uses_with(_create(_UNWRAP, result.type, [made], position))
                operation.erase()


@dataclass(frozen=True, slots=True)
class RestoreScalars(Pass):
    """After the conversion: the reverse."""

    name = "lego-restore-scalars"

    def run(self, module: Module, target: Target) -> None:
        ir = bindings.load().ir
        for function in kernels(module):
            for operation in [op for op in walk(function) if op.name in _NAMES and MARK in op.attributes]:
                result = operation.results[0]
                with operation.location, ir.InsertionPoint(operation):
                    attributes = {n: operation.attributes[n] for n in operation.attributes if n != MARK}
                    single = ir.VectorType(result.type).element_type
                    made = _create(operation.name, single, [_single(o) for o in operation.operands], attributes)
                    for extraction in users(result):
                        if extraction.name == _UNWRAP:
                            extraction.results[0].replace_all_uses_with(made)
                            extraction.erase()
                    if list(result.uses):
                        result.replace_all_uses_with(_create(_WRAP, result.type, [made]))
                operation.erase()


def _single(vector: Value) -> Value:
    """The element of a one-element vector: the scalar that it was built from, else an extraction."""
    ir, source = bindings.load().ir, producer(vector)
    element = ir.VectorType(vector.type).element_type
    if source is not None and source.name in _WRAPPING and source.operands[0].type == element:
        return source.operands[0]
    return _create(_UNWRAP, element, [vector], {"static_position": ir.DenseI64ArrayAttr.get([0])})


def _create(name: str, type_: Type, operands: list[Value], attributes: Mapping[str, Attribute] | None = None) -> Value:
    return bindings.load().ir.Operation.create(name, [type_], operands, attributes=attributes or {}).results[0]
