"""The operands of a tensor core's product, cut into the fragments of one instruction.

A fragment is what each lane of a warp holds of one 16 x k or k x 8 piece of an operand, or of a 16 x 8 piece of the
result. Two kinds of operands give fragments by the number of their piece:

    RegisterOperand    a value spread over threads: its registers, in the order of the instruction
    MemoryOperand      a part of a shared tile: `ldmatrix`, when the fragment is first used

`ldmatrix` is used where the linear map from registers and lanes to positions in shared memory allows it, transposed or
not (`f2.matrices`); other tiles are loaded element by element.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache, reduce
from itertools import product
from math import gcd
from typing import Any, Final

import sympy

from lego_mlir.aliases import Array, Expr, IndexLike
from lego_mlir.errors import LayoutError
from lego_mlir.expr.index import Index, as_expr
from lego_mlir.expr.nodes import Eq, FloorMod
from lego_mlir.expr.verdict import Proved
from lego_mlir.f2.boxed import is_inside, linear, padded, registers_of
from lego_mlir.f2.linear import LinearLayout
from lego_mlir.f2.matrices import ROW_BITS, MatrixAccess, MatrixAccesses, accesses_at
from lego_mlir.layout.base import Layout
from lego_mlir.layout.named_maps import position_formula
from lego_mlir.tracing.spread.coordinates import thread_ids
from lego_mlir.tracing.trace.dtypes import DType
from lego_mlir.tracing.trace.trace import Compose, MatrixLoad, MlirOperation, Piece, TensorAccess, Value
from lego_mlir.tracing.trace.tracer import Tracer
from lego_mlir.tracing.words.mma import Part
from lego_mlir.tracing.words.scalar import Scalar, as_value

WORD: Final = 32
"""Bits of one register of a fragment."""
KEPT: Final = 256
"""Layouts whose fragments are kept; a kernel has few, and loads many parts in each."""
Block = tuple[int, int]
"""The number of a piece of a matrix, by row and column of pieces."""


@lru_cache(KEPT)
def fragments_of(layout: LinearLayout, tile: LinearLayout) -> Mapping[Block, Sequence[int]] | None:
    """The registers of each piece of a layout, in the order of the fragment `tile`; None where the lanes differ.

    >>> from lego_mlir.f2.encodings import MmaSync
    >>> one = MmaSync((1, 1))
    >>> fragments_of(one.layout((32, 8)), one.layout((16, 8)))
    {(0, 0): [0, 1, 2, 3], (1, 0): [4, 5, 6, 7]}
    """
    if layout.bases["lane"] != tile.bases["lane"]:
        return None
    sizes = tuple(tile.out_sizes.values())
    zero = {"lane": 0, "warp": 0}
    inside = {tuple(tile.apply(register=r, **_only(tile, zero)).values()): r for r in range(tile.in_sizes["register"])}
    found: dict[Block, dict[int, int]] = {}
    for register in registers_of(layout):
        place = tuple(layout.apply(register=register, **_only(layout, zero)).values())
        slot = inside.get(tuple(p % n for p, n in zip(place, sizes, strict=True)))
        if slot is None:
            return None
        row, column = (p // n for p, n in zip(place, sizes, strict=True))
        found.setdefault((row, column), {}).setdefault(slot, register)
    if any(len(slots) < len(inside) for slots in found.values()):
        return None
    return {block: [slots[k] for k in range(len(inside))] for block, slots in found.items()}


def _only(layout: LinearLayout, values: dict[str, int]) -> dict[str, int]:
    """The values of the inputs that a layout has, and 0 for a cluster's block."""
    return {name: values.get(name, 0) for name in layout.in_sizes if name != "register"}


@dataclass(slots=True)
class RegisterOperand:
    """The fragments of registers: `rows` words in each of `shape[0]` registers of `shape[1]` elements."""

    tracer: Tracer
    dtype: DType
    registers: Sequence[Any]
    pieces: Mapping[Block, Sequence[int]]
    shape: tuple[int, int]
    made: dict[Block, Value] = field(default_factory=dict)

    def fragment(self, block: Block) -> Value:
        """The fragment of a piece as a vector."""
        if block not in self.made:
            elements = [as_value(self.registers[r], self.dtype) for r in self.pieces[block]]
            self.made[block] = composed(self.tracer, self.dtype, self.shape, elements)
        return self.made[block]


@dataclass(slots=True)
class MemoryOperand:
    """The fragments of a part of a shared tile, loaded by `ldmatrix` when they are first used."""

    tracer: Tracer
    part: Part
    accesses: MatrixAccesses
    base: Expr
    pieces: Mapping[Block, Sequence[int]]
    shape: tuple[int, int]
    made: dict[Block, Value] = field(default_factory=dict)
    loaded: dict[int, tuple[Value, int]] = field(default_factory=dict)
    rows: RowPositions = field(init=False)

    def __post_init__(self) -> None:
        self.rows = RowPositions(self.tracer, self.accesses)

    def fragment(self, block: Block) -> Value:
        """The fragment of a piece as a vector: whole registers of what was loaded."""
        if block not in self.made:
            words = [self.word(register) for register in self.pieces[block][:: self.shape[1]]]
            value, first = words[0]
            if words != [(value, first + k) for k in range(len(words))]:
                raise self.tracer.error(f"{self.part.view.buffer.name}: a fragment is not in consecutive registers")
            if value.width != self.shape:
                piece = self.tracer.value(value.dtype, self.shape)
                self.tracer.append(Piece(piece, value, first, self.tracer.here()))
                value = piece
            self.made[block] = value
        return self.made[block]

    def word(self, register: int) -> tuple[Value, int]:
        """The load that holds a register, and the number of its word there."""
        if register not in self.loaded:
            access = next(a for a in self.accesses.each if any(register in e for w in a.registers for e in w))
            value = self._load(access)
            for number, word in enumerate(access.registers):
                for held in word[0]:
                    self.loaded[held] = value, number
        return self.loaded[register]

    def _load(self, access: MatrixAccess) -> Value:
        tracer, view, bits = self.tracer, self.part.view, self.accesses.bits
        result = tracer.value(view.dtype, (self.accesses.count, WORD // bits))
        place = TensorAccess(
            view.buffer,
            view.buffer.layout,
            tuple(as_expr(i) for i in self.part.at),
            sympy.true,
            tracer.deferred(self.base + self.rows.of(access)),  # which wgmma does not read
            ROW_BITS // bits,
            tracer.here(),
        )
        tracer.append(MatrixLoad(result, place, self.accesses.transposed, tracer.here()))
        return result


class RowPositions:
    """The position of the row that this thread addresses in an access: a part of the thread ^ the bits it shares, + the
    others.
    """

    def __init__(self, tracer: Tracer, accesses: MatrixAccesses) -> None:
        lanes = [*accesses.rows, *accesses.matrices]
        lanes += [0] * (5 - len(lanes))
        offsets = (access.offset for access in accesses.each)
        size = 1 << max(c.bit_length() for c in (*lanes, *accesses.warps, *offsets, 1))
        places = LinearLayout({"lane": lanes, "warp": list(accesses.warps)}, {"offset": size})
        ids = thread_ids(tracer)
        if "thread" in ids:
            places = places.flatten_ins("thread")
        self._shared = reduce(operator.or_, places.columns, 0)
        self._thread = Index(places.apply(**ids)["offset"])

    def of(self, access: MatrixAccess) -> Expr:
        """The position in an access."""
        shared = access.offset & self._shared
        return as_expr((self._thread ^ shared if shared else self._thread) + (access.offset & ~self._shared))


def memory_of(tracer: Tracer, part: Part) -> tuple[LinearLayout, Expr] | None:
    """The offset of each element of a part, and the position of its first one; None where it is not linear."""
    tile = offsets_of(tracer, part.view.layout, part.at, part.shape)
    return None if tile is None else (tile, tracer.derive(position_formula(part.view.layout, part.at)).expr)


def offsets_of(tracer: Tracer, layout: Layout, at: Sequence[IndexLike], part: tuple[int, int]) -> LinearLayout | None:
    """The offset of each element of a part from its first one, by a layout of constant size; None if not linear."""
    dims, wide = tuple(map(int, layout.dims())), padded(part)
    shape = tuple(next(s for s in (n, w, d) if d % s == 0) for n, w, d in zip(part, wide, dims, strict=True))
    whole = all(_is_multiple(tracer, start, n) for start, n in zip(at, shape, strict=True))
    tile = _offsets(layout, shape, shape) if whole else None
    if tile is None:
        common = (gcd(n, d) for n, d in zip(part, dims, strict=True))
        steps = tuple(
            next(k for k in range(n, 0, -1) if n % k == 0 and _is_multiple(tracer, start, k))
            for start, n in zip(at, common, strict=True)
        )
        tile = _offsets(layout, part, steps)
    return tile


def _is_multiple(tracer: Tracer, at: IndexLike, n: int) -> bool:
    return isinstance(tracer.prove(Eq(FloorMod(as_expr(at), n), 0)), Proved)


@cache
def _offsets(layout: Layout, shape: tuple[int, int], steps: tuple[int, int]) -> LinearLayout | None:
    """`dim0, dim1 -> offset` within every rectangle of a shape that begins at a multiple of `steps`.

    None where it is not linear, or they differ.
    """
    import numpy as np

    dims = tuple(map(int, layout.dims()))
    positions = np.asarray(layout.apply(*np.indices(dims)))
    rows, columns = shape
    first = positions[:rows, :columns] - positions[0, 0]
    starts = (range(0, d - n + 1, step) for d, n, step in zip(dims, shape, steps, strict=True))
    for row, column in product(*starts):
        piece = positions[row : row + rows, column : column + columns]
        if not np.array_equal(piece - piece[0, 0], first):
            return None
    return _linear(first)


def _linear(offsets: Array) -> LinearLayout | None:
    """The linear layout of a table of offsets; None where there is none."""
    import numpy as np

    if offsets.min() < 0:
        return None
    bases = {
        f"dim{axis}": [int(offsets[(1 << k, 0) if axis == 0 else (0, 1 << k)]) for k in range(n.bit_length() - 1)]
        for axis, n in enumerate(padded(offsets.shape))
    }
    layout = LinearLayout(bases, {"offset": 1 << int(offsets.max()).bit_length()})
    found = layout.apply(*np.indices(offsets.shape))["offset"]
    return layout if np.array_equal(found, offsets) else None


def matrix_loads(value: LinearLayout, tile: LinearLayout, bits: int) -> MatrixAccesses | None:
    """The accesses that load a value (register, lane, warp -> dims) from a tile (dims -> offset); None if none.

    Accesses of a boxed value may reach outside of its box.
    """
    try:
        return accesses_at(tile @ linear(value).with_outs(tuple(tile.ins)), bits)
    except LayoutError:
        return None


def are_whole(accesses: MatrixAccesses, value: LinearLayout) -> bool:
    """Whether each access is inside the box of a value, or outside: one that is both would leave the tile."""
    inside = [{is_inside(value, r) for matrix in a.registers for word in matrix for r in word} for a in accesses.each]
    return all(len(both) == 1 for both in inside)


def composed(tracer: Tracer, dtype: DType, shape: tuple[int, int], elements: Sequence[Value]) -> Value:
    """A vector of some values."""
    result = tracer.value(dtype, shape)
    tracer.append(Compose(result, tuple(elements), tracer.here()))
    return result


def taken_apart(tracer: Tracer, value: Value) -> list[Scalar]:
    """The elements of a vector of two dimensions."""
    rows, columns = value.width  # type: ignore[misc]
    found = []
    for row, column in product(range(rows), range(columns)):
        result = tracer.value(value.dtype)
        place = (("static_position", f"array<i64: {row}, {column}>"),)
        tracer.append(MlirOperation((result,), "vector.extract", (value,), place, tracer.here()))
        found.append(Scalar(result))
    return found


Operand = RegisterOperand | MemoryOperand
