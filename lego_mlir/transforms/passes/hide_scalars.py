"""Arithmetic on single numbers, kept out of upstream's sight while it deals out tiles.

Upstream looks for every elementwise operation that its matrix unit could do, takes one on single numbers for such, and
gives up on it: "unhandled vector to mma type". A vector that comes from single elements is none it could do. So the
operations are put on vectors of one element, and taken off again:

    lego-scalars-aside    %c = addf %a, %b        ->  %c = extract (addf (from_elements %a), (from_elements %b))
    lego-scalars-again    the other way round

What was simplified in between need not look as it was left; it means the same.
"""

from __future__ import annotations

from typing import Any, Final

from lego_mlir import bindings
from lego_mlir.transforms.kernel_facts import kernels
from lego_mlir.transforms.modules import walk
from lego_mlir.transforms.passes.context import Context
from lego_mlir.transforms.passes.operations import producer, users

MARK: Final = "lego.scalar"
# The elementwise operations that upstream knows for its matrix types.
_NAMES: Final = frozenset(
    f"arith.{name}"
    for name in (
        *("addf", "subf", "mulf", "divf", "negf", "maximumf", "minimumf", "extf", "truncf"),
        *("addi", "subi", "muli", "divsi", "divui"),
    )
)
_GATHER: Final = "vector.from_elements"
_GATHERED: Final = (_GATHER, "vector.broadcast")  # which canonicalization makes of it
_TAKE: Final = "vector.extract"


def defer(module: Any, context: Context) -> None:
    """The first pass, before the products are dealt out."""
    ir = bindings.load().ir
    for function in kernels(module):
        for operation in [op for op in walk(function) if op.name in _NAMES]:
            result = operation.results[0]
            if isinstance(result.type, ir.VectorType):
                continue
            with operation.location, ir.InsertionPoint(operation):
                given = [_create(_GATHER, ir.VectorType.get([1], o.type), [o]) for o in operation.operands]
                attributes = {name: operation.attributes[name] for name in operation.attributes}
                attributes[MARK] = ir.UnitAttr.get()
                made = _create(operation.name, ir.VectorType.get([1], result.type), given, attributes)
                position = {"static_position": ir.DenseI64ArrayAttr.get([0])}
                result.replace_all_uses_with(_create(_TAKE, result.type, [made], position))
            operation.erase()


def run(module: Any, context: Context) -> None:
    """The second pass, after it."""
    ir = bindings.load().ir
    for function in kernels(module):
        for operation in [op for op in walk(function) if op.name in _NAMES and MARK in op.attributes]:
            result = operation.results[0]
            with operation.location, ir.InsertionPoint(operation):
                attributes = {n: operation.attributes[n] for n in operation.attributes if n != MARK}
                single = ir.VectorType(result.type).element_type
                made = _create(operation.name, single, [_single(o) for o in operation.operands], attributes)
                for taker in users(result):
                    if taker.name == _TAKE:
                        taker.results[0].replace_all_uses_with(made)
                        taker.erase()
                if list(result.uses):
                    result.replace_all_uses_with(_create(_GATHER, result.type, [made]))
            operation.erase()


def _single(vector: Any) -> Any:
    """The one element of a vector: what it was made of, or what is taken out of it here."""
    ir, source = bindings.load().ir, producer(vector)
    element = ir.VectorType(vector.type).element_type
    if source is not None and source.name in _GATHERED and source.operands[0].type == element:
        return source.operands[0]
    return _create(_TAKE, element, [vector], {"static_position": ir.DenseI64ArrayAttr.get([0])})


def _create(name: str, type_: Any, operands: list[Any], attributes: Any = None) -> Any:
    return bindings.load().ir.Operation.create(name, [type_], operands, attributes=attributes or {}).results[0]
