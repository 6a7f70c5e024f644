"""Creating MLIR operations by name, at the insertion point and location that are current.

The bindings have a class for every operation; a printer chooses the operation at run time, so it builds by name. A
`Builder` belongs to the context that is current when it is made, and remembers that context's types and attributes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lego_mlir import bindings
from lego_mlir.errors import PrintError


class Builder:
    """Types, attributes, constants, integer casts and operations, by name."""

    __slots__ = ("_attributes", "_create", "_types", "ir")

    def __init__(self) -> None:
        self.ir = bindings.load().ir
        self._create = self.ir.Operation.create
        self._types: dict[str, Any] = {}
        self._attributes: dict[str, Any] = {}

    def type(self, text: str) -> Any:
        """The MLIR type written so: `type("vector<4xf32>")`."""
        found = self._types.get(text)
        if found is None:
            found = self._types[text] = self.ir.Type.parse(text)
        return found

    def attribute(self, text: str) -> Any:
        """The MLIR attribute written so: `attribute("16 : i64")`."""
        found = self._attributes.get(text)
        if found is None:
            found = self._attributes[text] = self.ir.Attribute.parse(text)
        return found

    def operation(
        self,
        name: str,
        operands: Sequence[Any] = (),
        results: Sequence[str] = (),
        attributes: Mapping[str, Any] | None = None,
        regions: int = 0,
    ) -> Any:
        """A new operation. Attributes are given as they are written in MLIR, or as attributes."""
        return self._create(
            name,
            results=[self.type(r) for r in results],
            operands=list(operands),
            attributes={k: self.attribute(a) if isinstance(a, str) else a for k, a in (attributes or {}).items()},
            regions=regions,
        )

    def value(
        self, name: str, operands: Sequence[Any], result: str, attributes: Mapping[str, Any] | None = None
    ) -> Any:
        """The one result of a new operation."""
        return self.operation(name, operands, (result,), attributes).results[0]

    def constant(self, value: int, kind: str) -> Any:
        """An integer constant of the type `kind`."""
        return self.value("arith.constant", (), kind, {"value": f"{value} : {kind}"})

    def cast_integer(self, value: Any, kind: str) -> Any:
        """The same number in another integer type; the caller knows that it fits. Signed, as indices are."""
        given = str(value.type)
        if given == kind:
            return value
        if not (_is_integer(given) and _is_integer(kind)):
            raise PrintError(f"mlir: a value of type {given} cannot stand for an integer of type {kind}")
        if "index" in (given, kind):
            return self.value("arith.index_cast", (value,), kind)
        wider = int(kind[1:]) > int(given[1:])
        return self.value("arith.extsi" if wider else "arith.trunci", (value,), kind)

    def cast_unsigned(self, value: Any, kind: str) -> Any:
        """The number that a value without a sign bit stands for, in another integer type that holds it."""
        given = str(value.type)
        if given == kind:
            return value
        if kind == "index":
            return self.value("arith.index_castui", (value,), kind)
        wider = int(kind[1:]) > int(given[1:])
        return self.value("arith.extui" if wider else "arith.trunci", (value,), kind)


def _is_integer(kind: str) -> bool:
    return kind == "index" or (kind[:1] == "i" and kind[1:].isdigit())
