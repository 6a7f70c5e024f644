"""Creates MLIR operations by name, at the current insertion point and location.

The bindings have a class for every operation; a printer chooses the operation at run time, so it builds by name. A
`Builder` belongs to the context that is current when it is constructed, and caches its types and attributes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lego_mlir import bindings
from lego_mlir.aliases import Attribute, Op, Type, Value
from lego_mlir.errors import PrintError


class Builder:
    """Types, attributes, constants, integer casts and operations, by name."""

    __slots__ = ("_attributes", "_create", "_types", "ir")

    def __init__(self) -> None:
        self.ir = bindings.load().ir
        self._create = self.ir.Operation.create
        self._types: dict[str, Any] = {}
        self._attributes: dict[str, Any] = {}

    def type(self, text: str) -> Type:
        """The MLIR type parsed from text: `type("vector<4xf32>")`."""
        found = self._types.get(text)
        if found is None:
            found = self._types[text] = self.ir.Type.parse(text)
        return found

    def attribute(self, text: str) -> Attribute:
        """The MLIR attribute parsed from text: `attribute("16 : i64")`."""
        found = self._attributes.get(text)
        if found is None:
            found = self._attributes[text] = self.ir.Attribute.parse(text)
        return found

    def operation(
        self,
        name: str,
        operands: Sequence[Value] = (),
        results: Sequence[str] = (),
        attributes: Mapping[str, str | Attribute] | None = None,
        regions: int = 0,
    ) -> Op:
        """A new operation. Attributes are MLIR text or attribute objects."""
        return self._create(
            name,
            results=[self.type(r) for r in results],
            operands=list(operands),
            attributes={k: self.attribute(a) if isinstance(a, str) else a for k, a in (attributes or {}).items()},
            regions=regions,
        )

    def value(
        self, name: str, operands: Sequence[Value], result: str, attributes: Mapping[str, str | Attribute] | None = None
    ) -> Value:
        """The single result of a new operation."""
        return self.operation(name, operands, (result,), attributes).results[0]

    def constant(self, value: int, kind: str) -> Value:
        """An integer constant of the type `kind`."""
        return self.value("arith.constant", (), kind, {"value": f"{value} : {kind}"})

    def cast_integer(self, value: Value, kind: str) -> Value:
        """Cast to another integer type, sign-extending as indices require; the caller guarantees that it fits."""
        given = str(value.type)
        if given == kind:
            return value
        if not (_is_integer(given) and _is_integer(kind)):
            raise PrintError(f"mlir: a value of type {given} cannot be cast to the integer type {kind}")
        if "index" in (given, kind):
            return self.value("arith.index_cast", (value,), kind)
        wider = int(kind[1:]) > int(given[1:])
        return self.value("arith.extsi" if wider else "arith.trunci", (value,), kind)

    def cast_unsigned(self, value: Value, kind: str) -> Value:
        """Cast an unsigned value to another integer type, zero-extending; the caller guarantees that it fits."""
        given = str(value.type)
        if given == kind:
            return value
        if kind == "index":
            return self.value("arith.index_castui", (value,), kind)
        wider = int(kind[1:]) > int(given[1:])
        return self.value("arith.extui" if wider else "arith.trunci", (value,), kind)


def _is_integer(kind: str) -> bool:
    return kind == "index" or (kind[:1] == "i" and kind[1:].isdigit())
