"""The value that a product stores, as an expression over the sum and what is loaded beside it.

An epilogue is elementwise: element (i, j) of C is a function of the sum at (i, j), of scalar arguments, and of elements
of other tensors. Such a load is described by its place `row * i + column * j + constant`, which is proved for every
thread and tile: a bias has (0, 1, 0), a factor for each row (1, 0, 0), a residual in rows (N, 1, 0). Vectors are taken
apart: an expression describes one element, whatever width the kernel stores.

Expressions are lists of nodes, operands before their uses, equal nodes once; so expressions of different stores can be
compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import numpy as np

from lego_mlir import bindings
from lego_mlir.aliases import Attribute, Op, Type, Value
from lego_mlir.transforms.modules import ModuleError
from lego_mlir.transforms.passes.operations import producer
from lego_mlir.transforms.warpgroups.axis_sums import Array, AxisSum

_ELEMENTWISE: Final = ("arith.", "math.")
_FLOATS: Final = ("f16", "bf16", "f32", "f64", "f8E4M3FN", "f8E5M2")
_LOADS: Final = ("vector.load", "memref.load")
STORES: Final = ("vector.store", "memref.store")
SUMS: Final = ("f32", "i32")
"""Types of sums; a tile of another type holds them rounded."""


@dataclass(frozen=True, slots=True)
class SumNode:
    """The sum of products of this element, in the type that the accumulators have."""


@dataclass(frozen=True, slots=True)
class PassedNode:
    """A scalar argument of the kernel."""

    argument: int


@dataclass(frozen=True, slots=True)
class LoadNode:
    """Element `row * i + column * j + constant` of a tensor argument, for element (i, j) of C.

    In a kernel for a class of sizes, `row` may be counted in rows of C, of N elements each: `in_rows`.
    """

    argument: int
    memref: str
    element: str
    row: int
    column: int
    constant: int
    in_rows: bool = False


@dataclass(frozen=True, slots=True)
class AppliedNode:
    """An operation on earlier nodes, or a constant; `types` are those of its operands and its result."""

    name: str
    attributes: tuple[tuple[str, str], ...]
    operands: tuple[int, ...]
    types: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LargestNode:
    """The value of an earlier node, whose absolute value is counted in a maximum, an argument of the kernel."""

    argument: int
    operands: tuple[int]


ValueNode: TypeAlias = SumNode | PassedNode | LoadNode | AppliedNode | LargestNode
StoredValue: TypeAlias = tuple[ValueNode, ...]
"""The nodes of an expression; the last one is stored."""


@dataclass(frozen=True, slots=True)
class StorePlace:
    """Where a store of `width` columns begins, over all threads: row and column of C in the tile, and of the tile."""

    width: int
    row: AxisSum
    column: AxisSum
    tile_row: Array
    tile_column: Array
    tile_axis: str


class StoredValueReader:
    """Reads the expression of a store. `sums` are the loads of the tile of sums, `scalars` the kernel's arguments."""

    def __init__(
        self, arguments: list[Value], sums: Mapping[Value, str], index: Callable[[Value], AxisSum], place: StorePlace
    ) -> None:
        self.arguments, self.sums, self.index, self.place = arguments, sums, index, place
        self.nodes: dict[ValueNode, int] = {}
        self.known: dict[Value, int] = {}

    def read(self, value: Value, largest: Sequence[tuple[int, Value]] = ()) -> StoredValue:
        """The expression of a value, with those of values that are counted in an argument's maximum.

        Raises ModuleError, with the operation, for what is not elementwise.
        """
        for argument, counted in largest:
            self._numbered(LargestNode(argument, (self._node(counted),)))
        number, nodes = self._node(value), tuple(self.nodes)
        last = nodes[-1]
        if number != len(nodes) - 1 and not (isinstance(last, LargestNode) and last.operands == (number,)):
            raise ModuleError("a maximum of values that the stored one does not depend on; warpgroups compute maxima "
                              "of what is stored, or of values on the way to it")  # fmt: skip
        return nodes

    def _node(self, value: Value) -> int:
        if value not in self.known:
            self.known[value] = self._numbered(self._read(value))
        return self.known[value]

    def _numbered(self, node: ValueNode | int) -> int:
        return node if isinstance(node, int) else self.nodes.setdefault(node, len(self.nodes))

    def _read(self, value: Value) -> ValueNode | int:
        """A node, or the number of one that this value repeats."""
        if value in self.sums:
            kind = self.sums[value]
            if kind in SUMS:
                return SumNode()
            summed = self._numbered(SumNode())
            return AppliedNode("arith.truncf", (), (summed,), ("f32", kind))
        if value in self.arguments:
            return PassedNode(self.arguments.index(value))
        operation = producer(value)
        if operation is None:
            raise ModuleError(f"an epilogue uses {value}, an argument of a region")
        if operation.name in _LOADS:
            return self._load(operation)
        if operation.name == "vector.broadcast" and not _is_vector(operation.operands[0].type):
            return self._node(operation.operands[0])
        if operation.name == "arith.constant":
            attribute = _scalar(operation.attributes["value"])
            return AppliedNode(operation.name, (("value", str(attribute)),), (), (_element(value.type),))
        return self._applied(operation)

    def _applied(self, operation: Op) -> AppliedNode:
        types = [*(operand.type for operand in operation.operands), *(result.type for result in operation.results)]
        numbers = all(_is_number(type_) for type_ in types)
        if not operation.name.startswith(_ELEMENTWISE) or not numbers or len(operation.results) != 1:
            raise ModuleError(
                f"{operation.location}: {operation.name} in an epilogue; warpgroups apply operations on numbers, "
                "element by element"
            )
        operands = tuple(map(self._node, operation.operands))
        return AppliedNode(operation.name, _attributes(operation), operands, tuple(map(_element, types)))

    def _load(self, load: Op) -> LoadNode:
        memory, *indices = list(load.operands)
        if memory not in self.arguments or len(indices) != 1:
            raise ModuleError(f"{load.location}: an epilogue must load from an argument of the kernel")
        width = load.results[0].type.shape[0] if _is_vector(load.results[0].type) else 1
        row, column, constant = self._affine(load, self.index(indices[0]))
        if self.place.width > 1 and column != (0 if width == 1 else 1):
            raise ModuleError(
                f"{load.location}: {width} elements are loaded for {self.place.width} columns of C, at distance "
                f"{column}"
            )
        type_ = memory.type
        return LoadNode(self.arguments.index(memory), str(type_), str(type_.element_type), row, column, constant)

    def _affine(self, load: Op, index: AxisSum) -> tuple[int, int, int]:
        """The coefficients of the row and the column of C, and the constant, proved for all threads and tiles."""
        place = self.place
        axes = tuple(sorted((index.axes | place.row.axes | place.column.axes) - {place.tile_axis}))
        for names in index.parts:
            if place.tile_axis in names and len(names) > 1:
                raise ModuleError(f"{load.location}: its place depends on {' and '.join(names)} together")
        local = index.among(*axes)
        row, column, offset = (np.ravel(x) for x in np.broadcast_arrays(
            *(value.over(axes) for value in (place.row, place.column, local))))  # fmt: skip
        tile = np.broadcast_to(index.part(place.tile_axis), place.tile_row.shape)
        known = np.concatenate([
            np.stack([row - row[0], column - column[0], offset - offset[0]], axis=1),
            np.stack([place.tile_row - place.tile_row[0], place.tile_column - place.tile_column[0], tile - tile[0]], 1),
        ])  # fmt: skip
        known = np.unique(known, axis=0)
        solved = np.rint(np.linalg.lstsq(known[:, :2].astype(float), known[:, 2].astype(float), rcond=None)[0])
        by_row, by_column = int(solved[0]), int(solved[1])
        wrong = known[:, 0] * by_row + known[:, 1] * by_column != known[:, 2]
        if wrong.any():
            raise ModuleError(
                f"{load.location}: an epilogue must load from a place that is a multiple of the row of C, plus a "
                "multiple of its column, plus a constant"
            )
        at = int(row[0] + place.tile_row[0]), int(column[0] + place.tile_column[0])
        return by_row, by_column, int(offset[0] + tile[0]) - by_row * at[0] - by_column * at[1]


def over_transpose(value: StoredValue) -> StoredValue:
    """The same expression over the transpose of C: the coefficients of rows and columns exchanged."""
    return tuple(
        replace(node, row=node.column, column=node.row) if isinstance(node, LoadNode) else node for node in value
    )


def _attributes(operation: Op) -> tuple[tuple[str, str], ...]:
    named = [operation.attributes[i] for i in range(len(operation.attributes))]
    return tuple(sorted((each.name, str(each.attr)) for each in named))


def _scalar(attribute: Attribute) -> Attribute:
    """A constant's number; of a vector, the one that it repeats."""
    ir = bindings.load().ir
    if isinstance(attribute, ir.DenseElementsAttr):
        if not attribute.is_splat:
            raise ModuleError(f"an epilogue uses a vector of different constants, {attribute}")
        return attribute.get_splat_value()
    return attribute


def _is_vector(type_: Type) -> bool:
    return isinstance(type_, bindings.load().ir.VectorType)


def _is_number(type_: Type) -> bool:
    ir = bindings.load().ir
    element = type_.element_type if _is_vector(type_) else type_
    return isinstance(element, ir.IntegerType) or str(element) in _FLOATS


def _element(type_: Type) -> str:
    """The type of one element."""
    return str(type_.element_type if _is_vector(type_) else type_)
