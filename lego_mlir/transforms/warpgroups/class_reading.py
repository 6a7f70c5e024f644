"""A staged product of sizes that are known at launch: read at a few sizes, and proved for all of them.

Every place that the kernel accesses, and both sides of every mask, must be a polynomial over the kernel's sizes, the
tile's place, and the loops' variables, of degree 1 in each, and of degree 1 in the sizes together; its coefficients may
depend on the thread in any way. Division and remainder are allowed in what depends on threads alone, and in the tile's
place: a value that is opaque here, as the kernel binds it (`lego.index(lego.i32(..), range=..)`).

An affine function of M, N and K that is zero at (M, N, K) and at three more points, each with another M, N or K, is
zero everywhere. So the kernel is read with numbers (`reading`) at these four points, each with several tiles and steps
and a ragged end along every dimension, and all that is compared there is an identity of such functions: the boxes of
the tiles, the masks as differences of their sides, the places of the results. What an epilogue loads is at a place
`row * i + column * j + constant` of element (i, j) of C, whose numbers are the same at all points; `row` may count N.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Final

import numpy as np

from lego_mlir import bindings
from lego_mlir.aliases import AffineExpr, Op, Value
from lego_mlir.hardware.memory import ELEMENT_BYTES
from lego_mlir.transforms.kernel_facts import input_types
from lego_mlir.transforms.modules import walk
from lego_mlir.transforms.passes.operations import producer
from lego_mlir.transforms.warpgroups.axis_sums import (
    CASTS,
    COMPARISONS,
    CONSTANTS,
    DIFFERENCES,
    PRODUCTS,
    SUMS,
    Array,
    AxisSum,
    predicate_of,
)
from lego_mlir.transforms.warpgroups.reading import Box, NotStagedError, ProductReader, StagedMove, StagedProduct
from lego_mlir.transforms.warpgroups.stored_values import LoadNode, StoredValue

MATRICES: Final = 3
COLUMN: Final = 64
"""Elements of 128 bytes: a class of whole columns is read at multiples."""
# Multiples of COLUMN that are multiples of no larger tile, several tiles long; another value of each.
_BASE: Final = {"M": 11 * COLUMN, "N": 17 * COLUMN, "K": 3 * COLUMN}
_APART: Final = {"M": 2 * COLUMN, "N": 2 * COLUMN, "K": COLUMN}
_RAGGED: Final = 8
_ACCESSES: Final = ("vector.load", "vector.store", "vector.transfer_read", "vector.transfer_write", "memref.load",
                    "memref.store")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Degrees:
    """The degree of a polynomial in each symbol, an argument, an opaque value or a loop's variable, and in all sizes.

    Symbols are kept by their hash, which equal values of a module share.
    """

    of: Mapping[Value, int]
    in_sizes: int = 0

    def plus(self, other: Degrees) -> Degrees:
        """Of a sum."""
        symbols = {*self.of, *other.of}
        largest = {s: max(self.of.get(s, 0), other.of.get(s, 0)) for s in symbols}
        return Degrees(largest, max(self.in_sizes, other.in_sizes))

    def times(self, other: Degrees) -> Degrees:
        """Of a product."""
        symbols = {*self.of, *other.of}
        added = {s: self.of.get(s, 0) + other.of.get(s, 0) for s in symbols}
        return Degrees(added, self.in_sizes + other.in_sizes)

    @property
    def is_affine(self) -> bool:
        """Whether the polynomial is of degree 1 in each symbol, and in the sizes together."""
        return self.in_sizes <= 1 and all(degree <= 1 for degree in self.of.values())


CONSTANT: Final = Degrees({})


@dataclass(frozen=True, slots=True)
class SymbolicProduct:
    """A product for all sizes: as it is at one point, and the kernel's values that it is made of at others.

    `sizes` are the numbers of the arguments M, N and K; `place` the tile's row and column, counted in tiles, and
    `tile_count` the number of tiles, as values of the kernel.
    """

    product: StagedProduct
    sizes: tuple[int, int, int]
    place: tuple[Value, Value]
    tile_count: Value


def is_symbolic(function: Op) -> bool:
    """Whether a kernel takes sizes: matrices of unknown extent, followed by indices."""
    types = list(map(str, input_types(function)))
    return len(types) >= 2 * MATRICES and types[0].startswith("memref<?x") and types[-MATRICES:] == ["index"] * MATRICES


def read_class(function: Op, whole_columns: bool) -> SymbolicProduct:
    """The product that a kernel computes for all sizes, or with `whole_columns` for rows of whole 128 bytes.

    Raises NotStagedError, with the reason, for any other kernel.
    """
    arguments = list(function.regions[0].blocks[0].arguments)[: len(input_types(function))]
    sizes = arguments[-MATRICES:]
    _Polynomials(function, sizes).check()
    narrow = ELEMENT_BYTES[str(arguments[0].type.element_type).lower()] == 1
    ragged = 2 * _RAGGED if narrow else _RAGGED
    base = _BASE if whole_columns else {name: size + ragged for name, size in _BASE.items()}
    roles, first, reader = _roles_of(function, sizes, base)
    place = _place_of(reader, first)
    first = _with_rows_of(first, base["N"])
    for name in base:
        point = {**base, name: base[name] + _APART[name]}
        product, at_point = _read_at(function, sizes, roles, point)
        product = _with_rows_of(product, point["N"])
        _require_alike(first, product, name)
        if _place_of(at_point, product) != place:
            raise NotStagedError("the tile's place is another value of the kernel at other sizes")
    _require_steps(reader, sizes[roles.index("K")], first.left.shape[1 if first.contiguous[0] == "k" else 0])
    numbers = [len(arguments) - MATRICES + roles.index(name) for name in "MNK"]
    return SymbolicProduct(first, (numbers[0], numbers[1], numbers[2]), place, reader.tile_count)


def _roles_of(
    function: Op, sizes: list[Value], base: Mapping[str, int]
) -> tuple[tuple[str, ...], StagedProduct, ProductReader]:
    """Which argument is M, N and K: the only assignment with which the kernel's boxes fit its matrices."""
    refusals = []
    for roles in (("M", "K", "N"), *permutations("MNK")):
        try:
            return roles, *_read_at(function, sizes, roles, base)
        except NotStagedError as error:
            refusals.append(error)
    raise refusals[0]


def _read_at(
    function: Op, sizes: list[Value], roles: tuple[str, ...], point: Mapping[str, int]
) -> tuple[StagedProduct, ProductReader]:
    m, n, k = (point[name] for name in "MNK")
    known = {size: point[name] for size, name in zip(sizes, roles, strict=True)}
    reader = _ClassReader(function, known, (m * k, k * n, m * n))
    return reader.read(), reader


class _ClassReader(ProductReader):
    """The reader of one point, which compares masks by the differences of their sides."""

    def _conjuncts(self, condition: Value) -> list[AxisSum]:
        source = producer(condition)
        if source is not None and source.name == "arith.andi":
            return [part for operand in source.operands for part in self._conjuncts(operand)]
        if source is None or source.name not in COMPARISONS or predicate_of(source) not in ("slt", "ult"):
            raise NotStagedError(f"{condition}: a mask of sizes must be made of comparisons with <")
        low, high = map(self.values.of, source.operands)
        return [low + high.scaled(-1)]

    def _check_mask(self, move: StagedMove, box: Box) -> None:
        """A mask is that the column is inside of the matrix, and the row, unless all accesses are inside.

        Past the last row there is no memory: without that condition, every access is at a row of the matrix.
        """
        row, column = self.line_and_column(box, box.origins)
        below = row + move.indices[0] + AxisSum.constant(-box.lines)
        right = column + move.indices[1] + AxisSum.constant(-box.pitch)
        if not any(_equal(right, given) for given in move.masks):
            raise NotStagedError(
                f"{move.operation.location}: no condition of this copy is that its element is inside of the "
                f"matrix of argument {box.argument}, rows and columns; declare the sizes as multiples of 8 only: "
                "tensor copies check both ends for nothing"
            )
        if not all(_equal(right, given) or _equal(below, given) for given in move.masks):
            raise NotStagedError(f"{move.operation.location}: a copy with other conditions than the matrix's end")


def _equal(one: AxisSum, other: AxisSum) -> bool:
    names = tuple(sorted(one.axes | other.axes))
    return bool((one.over(names) == other.over(names)).all())


def _place_of(reader: ProductReader, product: StagedProduct) -> tuple[Value, Value]:
    """The opaque values that number a tile's row and column of C."""
    found = []
    opaque = _opaque(reader.function)
    for origin, extent in zip(reader.place, product.out.shape, strict=True):
        same = [value for value in opaque if _equals(reader.values.of(value), origin // extent)]
        if not same or (origin % extent).any():
            raise NotStagedError(
                "the tile's row and column must be bound to values: lego.index(lego.i32(row), range=(0, rows))"
            )
        found.append(same[0])
    return found[0], found[1]


def _opaque(function: Op) -> list[Value]:
    """The indices that come from data."""
    return [op.results[0] for op in walk(function) if op.name in CASTS and str(op.operands[0].type) != "index"
            and str(op.results[0].type) == "index"]  # fmt: skip


def _equals(value: AxisSum, numbers: Array) -> bool:
    return value.axes <= {"tile"} and bool((np.broadcast_to(value.over(("tile",)), numbers.shape) == numbers).all())


def _with_rows_of(product: StagedProduct, n: int) -> StagedProduct:
    """The product whose epilogue's loads count rows of C, where the distance of rows is N.

    Numbers that are another function of the sizes differ between the points.
    """

    def counted(node: LoadNode) -> LoadNode:
        return replace(node, row=node.row // n, in_rows=True) if node.row and node.row % n == 0 else node

    stored: StoredValue = tuple(counted(node) if isinstance(node, LoadNode) else node for node in product.stored)
    return replace(product, stored=stored)


def _require_alike(one: StagedProduct, other: StagedProduct, name: str) -> None:
    """The structure must be the same at all points."""
    for first, second in ((one.left, other.left), (one.right, other.right), (one.out, other.out)):
        if (first.shape, first.argument, first.dtype) != (second.shape, second.argument, second.dtype):
            raise NotStagedError(f"another {name} changes the tile of argument {first.argument}")
    if (one.contiguous, one.stored, one.blocks) != (other.contiguous, other.stored, other.blocks):
        raise NotStagedError(f"another {name} changes the product")


def _require_steps(reader: ProductReader, depth: Value, step: int) -> None:
    """The loop along K must have ceil(K / step) steps, or more, whose products are of zeros."""
    open_ = [reader.step_count]
    while open_:
        source = producer(open_.pop())
        if source is None:
            continue
        if source.name in ("index.maxs", "arith.maxsi", "index.maxu", "arith.maxui"):
            open_.extend(source.operands)
        if source.name == "affine.apply" and list(source.operands) == [depth]:
            text = str(source.attributes["map"])
            if text == f"affine_map<(d0) -> ((d0 + {step - 1}) floordiv {step})>":
                return
    raise NotStagedError(f"{reader.inner.location}: the loop along K must have (K + {step - 1}) / {step} steps, or "
                         "that and a least number; declare K as a multiple of 8 only")  # fmt: skip


class _Polynomials:
    """The degrees of a kernel's index values in its sizes, opaque values and loop variables."""

    def __init__(self, function: Op, sizes: list[Value]) -> None:
        self.ir = bindings.load().ir
        self.function = function
        self.sizes = sizes
        self.known: dict[Value, Degrees | None] = {size: Degrees({size: 1}, 1) for size in sizes}

    def check(self) -> None:
        """Raise NotStagedError for an access, or a mask, that is not affine as the proof needs."""
        for operation, value in self._used():
            degrees = self.of(value)
            if degrees is None or not degrees.is_affine:
                raise NotStagedError(
                    f"{operation.location}: an index of {operation.name} is not affine in the sizes, the tile's place "
                    "and the loops' variables; give the kernel its sizes as ints"
                )

    def _used(self) -> Iterator[tuple[Op, Value]]:
        """The indices of accesses, and the sides of masks."""
        for operation in walk(self.function):
            if operation.name in _ACCESSES:
                yield from ((operation, value) for value in operation.operands if str(value.type) == "index")
            elif operation.name == "scf.if":
                yield from ((operation, side) for side in self._sides(operation.operands[0]))

    def _sides(self, condition: Value) -> Iterator[Value]:
        source = producer(condition)
        if source is not None and source.name == "arith.andi":
            for operand in source.operands:
                yield from self._sides(operand)
        elif source is not None and source.name in COMPARISONS:
            yield from source.operands
        else:
            raise NotStagedError(f"{condition}: a branch must be a mask")

    def of(self, value: Value) -> Degrees | None:
        """The degrees of a value; None for one that is not a polynomial."""
        if value not in self.known:
            source = producer(value)
            if source is None:
                self.known[value] = Degrees({value: 1})  # a loop's variable
            else:
                self.known[value] = self._computed(source, value)
        return self.known[value]

    def _computed(self, operation: Op, value: Value) -> Degrees | None:
        name, operands = operation.name, list(operation.operands)
        if name in CONSTANTS or name == "gpu.thread_id":
            return CONSTANT
        if name == "gpu.block_id" or (name in CASTS and str(operands[0].type) != "index"):
            return Degrees({value: 1})
        if name == "affine.apply":
            affine = self.ir.AffineMapAttr(operation.attributes["map"]).value
            return self._affine(affine.results[0], operands, affine.n_dims)
        found = [self.of(operand) for operand in operands]
        kind = "sum" if name in (*SUMS, *DIFFERENCES) else "product" if name in PRODUCTS else ""
        return _combined(kind, found)

    def _affine(self, expr: AffineExpr, operands: list[Value], dims: int) -> Degrees | None:
        ir = self.ir
        match expr:
            case ir.AffineConstantExpr():
                return CONSTANT
            case ir.AffineDimExpr():
                return self.of(operands[expr.position])
            case ir.AffineSymbolExpr():
                return self.of(operands[dims + expr.position])
        kinds = {ir.AffineAddExpr: "sum", ir.AffineMulExpr: "product"}
        sides = [self._affine(side, operands, dims) for side in (expr.lhs, expr.rhs)]
        return _combined(kinds.get(type(expr), ""), sides)


def _combined(kind: str, operands: list[Degrees | None]) -> Degrees | None:
    """The degrees of a sum, a product, or another operation, which is a polynomial of constants only."""
    if None in operands:
        return None
    known = [degrees for degrees in operands if degrees is not None]
    if all(not degrees.of for degrees in known):
        return CONSTANT
    if kind == "sum":
        return known[0].plus(known[1])
    return known[0].times(known[1]) if kind == "product" else None
