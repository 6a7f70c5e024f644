"""`lego.mma` on values spread over threads: matrix products whose results and operands are in registers.

    parent = f2.MmaSync((4, 1))
    q = lego.load(a, f2.MmaOperand(0, parent).layout((64, 64)))
    s = lego.mma(q, tile.T, lego.full(f32, parent.layout((64, 64)), 0.0))        tile: a shared tile, or a part of one
    p = lego.convert(s.to(f16), to=f2.MmaOperand(0, parent).layout((64, 64)))    registers as they are
    o = lego.mma(p, values, o)

The layout of the result tells which warp computes which pieces of 16 x 8. Operands are spread values, in the layouts of
`f2.MmaOperand` of the same warps, or shared tiles, from which each warp loads the fragments that it multiplies.

| operands | result | instruction (PTX ISA, "mma.sync") | neighbours along K |
|---|---|---|---|
| f16, bf16 | f32 | m16n8k16 | 2 |
| f32 | f32 | m16n8k8, operands rounded to tf32 | 1 |
| f64 | f64 | two of m8n8k4, for the upper and the lower 8 rows | 1 |
| i8 | i32, saturated | m16n8k32 | 4 |
| f8e4m3fn, f8e5m2, f4e2m1fn, .. | f32 | that of f16, to which operands are converted | 4, 8 |
| f16, bf16 or f32 and narrower ones | f32 | that of the wider type | 4, 8 |
| f64 and integers of 8 bits | f64 | that of f64 | 4 |
| i8 and i4, u4 | i32, saturated | that of i8 | 8 |
| i16, i32, i64 in registers and floats | f32, f64 | that of the float, of f16 next to f8; integers are rounded | |

Neighbours along K may be twice, four or eight times those of the instruction: then as many instructions follow. One
multiplies words that are neighbours in both operands: those of b are where a wide load has left them. The four f8 of a
register are pairs of f16 for one of them. Both operands divide K alike, so that the sum is the same; a thread loads its
narrow elements as whole words (Linear Layouts, section 5.2).

On sm_90a products of 64 rows for each 4 warps with b in shared memory are those of `wgmma` (`spread.warpgroups`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Final, TypeAlias

from lego_mlir.errors import LayoutError, brief
from lego_mlir.f2.boxed import boxed, padded
from lego_mlir.f2.encodings import MmaOperand, MmaSync
from lego_mlir.f2.linear import LinearLayout
from lego_mlir.f2.shape_ops import without_zero_registers
from lego_mlir.tracing.spread.accesses import load
from lego_mlir.tracing.spread.distributed import Spread, open_tile
from lego_mlir.tracing.spread.fragments import (
    WORD,
    Block,
    MemoryOperand,
    Operand,
    RegisterOperand,
    are_whole,
    composed,
    fragments_of,
    matrix_loads,
    memory_of,
    taken_apart,
)
from lego_mlir.tracing.spread.warpgroups import of_warpgroups
from lego_mlir.tracing.trace.dtypes import (
    DType,
    bf16,
    f4e2m1fn,
    f6e2m3fn,
    f6e3m2fn,
    f8e4m3fn,
    f8e5m2,
    f16,
    f32,
    f64,
    i4,
    i8,
    i16,
    i32,
    i64,
    u4,
    u8,
)
from lego_mlir.tracing.trace.trace import Convert, MlirOperation, Value
from lego_mlir.tracing.trace.tracer import Tracer, current
from lego_mlir.tracing.words.mma import Part
from lego_mlir.tracing.words.packed_values import halves_of_bytes
from lego_mlir.tracing.words.packed_views import PackedView
from lego_mlir.tracing.words.scalar import Scalar
from lego_mlir.tracing.words.tensor import View

Operands: TypeAlias = "Spread | Part | View | PackedView"
PIECE: Final = (16, 8)
"""Rows and columns of the result of one instruction."""


@dataclass(frozen=True, slots=True)
class MmaInstruction:
    """A product of 16 x `depth` and `depth` x 8; a register has `neighbours` elements along K.

    It is `parts` instructions on operands that are converted to the type `multiplied`; of fewer `rows`, one for the
    upper and one for the lower half.
    """

    multiplied: DType
    depth: int
    neighbours: int
    result: DType
    attributes: tuple[tuple[str, str], ...] = ()
    parts: int = 1
    rows: int = PIECE[0]

    def times(self, parts: int) -> MmaInstruction:
        """Several of these, for more neighbours along K."""
        return replace(self, depth=self.depth * parts, neighbours=self.neighbours * parts, parts=parts)

    def tile(self, index: int) -> LinearLayout:
        """The fragment of operand `index`."""
        shape = (PIECE[0], self.depth) if index == 0 else (self.depth, PIECE[1])
        return without_zero_registers(MmaOperand(index, MmaSync((1, 1)), self.neighbours).layout(shape))

    def registers(self, index: int) -> tuple[int, int]:
        """The registers of that fragment, and the elements of each."""
        return PIECE[index] * self.depth // 32 // self.neighbours, self.neighbours


INSTRUCTIONS: Final[dict[DType, MmaInstruction]] = {
    f16: MmaInstruction(f16, 16, 2, f32),
    bf16: MmaInstruction(bf16, 16, 2, f32),
    f32: MmaInstruction(f32, 8, 1, f32, (("tf32Enabled", "unit"),)),
    i8: MmaInstruction(i8, 32, 4, i32),
    f64: MmaInstruction(f64, 4, 1, f64, rows=8),
}
SMALL_FLOATS: Final = (f8e4m3fn, f8e5m2, f4e2m1fn, f6e2m3fn, f6e3m2fn)
SMALL_INTEGERS: Final = (i4, u4)
WIDE_INTEGERS: Final = (i16, i32, i64)
BYTES: Final = (i8, u8)


def mma(a: Operands, b: Operands, acc: Spread, warpgroups: bool = True, metadata: Spread | None = None) -> Spread:
    """`acc + a @ b`: a is (M, K), b is (K, N), acc (M, N) in a layout of `f2.MmaSync`. All threads take part.

    Without `warpgroups` it is `mma.sync` on every target. With `metadata` a is (M, K / 2), what is kept of each four
    neighbours along K, see `two_of_four_products`. Raises LayoutError for operands that do not fit.
    """
    tracer = current("lego.mma")
    acc = acc.get()
    a, b = (_checked(tracer, name, x) for name, x in (("a", a), ("b", b)))
    if metadata is not None:
        from lego_mlir.tracing.spread.two_of_four_products import sparse_product

        return sparse_product(tracer, a, b, acc, metadata.get(), warpgroups)
    a, b = _rounded(a, element_type(b)), _rounded(b, element_type(a))
    kind = _kind(tracer, a, b, acc)
    alike = element_type(a) == element_type(b) and kind.neighbours * element_type(a).bits == WORD
    if open_tile(a, b, acc) is not None:
        if isinstance(a, PackedView) or isinstance(b, PackedView):
            raise tracer.error(
                "lego.mma: an operand in a shared tile of packed numbers is multiplied by tiles with layouts; load the "
                "others with one",
                LayoutError,
            )
        from lego_mlir.tracing.spread.open_tiles import multiplied

        return multiplied(a, b, acc, kind, warpgroups)
    tile = MmaSync((1, 1)).layout(PIECE)
    pieces = fragments_of(acc.layout, tile)
    if pieces is None:
        raise tracer.error(
            f"lego.mma: the result's layout must be that of an f2.MmaSync for at least {PIECE[0]} x {PIECE[1]} "
            f"elements, got {brief(repr(acc.layout))}",
            LayoutError,
        )
    with tracer.recorded() as part:
        found, left, sums = _multiplied(tracer, kind, a, b, acc, pieces)
    tracer.extend(part)
    if isinstance(a, PackedView) or isinstance(b, PackedView):
        return Spread(acc.layout, acc.dtype, found)
    if (warpgroups and alike) and (
        product := of_warpgroups(tracer, acc.layout, pieces, (a, left), b, sums, found, part)
    ):
        tracer.products.append(product)
    return Spread(acc.layout, acc.dtype, found)


def _rounded(given: Operands, other: DType) -> Operands:
    """A tile of wide integers in the type of a float operand, of f16 next to a narrower one; others as they are."""
    if not isinstance(given, Spread) or given.dtype not in WIDE_INTEGERS or not other.is_float:
        return given
    return given.to(other if other in INSTRUCTIONS else f16)


def _multiplied(
    tracer: Tracer,
    kind: MmaInstruction,
    a: Operands,
    b: Operands,
    acc: Spread,
    pieces: Mapping[Block, Sequence[int]],
) -> tuple[list[Scalar | None], Operand, dict[Block, Value]]:
    """The registers of the result by `mma.sync`, the left operand, and the pieces that are added to."""
    steps = shape_of_operand(a)[1] // kind.depth
    left = operand(tracer, 0, a, acc, kind, {(row, k) for row, _ in pieces for k in range(steps)})
    right = operand(tracer, 1, b, acc, kind, {(k, column) for _, column in pieces for k in range(steps)})
    totals = {
        block: composed(tracer, acc.dtype, (2, 2), [acc.registers[r].entry for r in registers])
        for block, registers in pieces.items()
    }
    sums = dict(totals)
    multiplied: dict[Value, list[Value]] = {}

    def parts(fragment: Value) -> list[Value]:
        if fragment not in multiplied:
            multiplied[fragment] = _parts_of(tracer, fragment, kind)
        return multiplied[fragment]

    for step in range(steps):
        for row, column in _serpentine(sorted(pieces), step):
            x, y = left.fragment((row, step)), right.fragment((step, column))
            for both in zip(parts(x), parts(y), strict=True):
                totals[row, column] = _instruction(tracer, INSTRUCTIONS[kind.multiplied], *both, totals[row, column])
    found: dict[int, Scalar] = {}
    for block, registers in pieces.items():
        found.update(zip(registers, taken_apart(tracer, totals[block]), strict=True))
    return [found.get(r) for r in range(len(acc.registers))], left, sums


def _instruction(tracer: Tracer, kind: MmaInstruction, a: Value, b: Value, c: Value) -> Value:
    attributes = (("mmaShape", f"[{kind.rows}, {PIECE[1]}, {kind.depth}]"), *kind.attributes)

    def multiplied(x: Value, z: Value) -> Value:
        result = tracer.value(kind.result, z.width)
        tracer.append(MlirOperation((result,), "nvgpu.mma.sync", (x, b, z), attributes, tracer.here()))
        return result

    if kind.rows == PIECE[0]:
        return multiplied(a, c)
    halves = [multiplied(_rows_of(tracer, a, half), _rows_of(tracer, c, half)) for half in range(2)]
    return composed(tracer, kind.result, (2, 2), [x.entry for half in halves for x in taken_apart(tracer, half)])


def _rows_of(tracer: Tracer, fragment: Value, half: int) -> Value:
    """The registers of a fragment that belong to the upper or the lower 8 rows."""
    rows, columns = fragment.width  # type: ignore[misc]
    return _slice(tracer, fragment, (half * rows // 2, 0), (rows // 2, columns))


def _slice(tracer: Tracer, fragment: Value, first: tuple[int, int], size: tuple[int, int]) -> Value:
    part = tracer.value(fragment.dtype, size)
    place = ("offsets", str([*first])), ("sizes", str([*size])), ("strides", "[1, 1]")
    tracer.append(MlirOperation((part,), "vector.extract_strided_slice", (fragment,), place, tracer.here()))
    return part


def _parts_of(tracer: Tracer, fragment: Value, kind: MmaInstruction) -> list[Value]:
    """The elements of a fragment that each instruction multiplies, in its type.

    Of an instruction that has two registers along K they are two neighbouring words of one register.
    """
    rows, columns = fragment.width  # type: ignore[misc]
    parts, size = [fragment], columns // kind.parts
    if kind.parts > 1 and kind.rows < PIECE[0]:  # one register along K
        parts = [_slice(tracer, fragment, (0, number * size), (rows, size)) for number in range(kind.parts)]
    elif kind.parts > 1:
        elements, across = taken_apart(tracer, fragment), rows // 2
        parts = []
        for first, word in product((0, across), range(0, columns, 2 * size)):
            taken = [
                elements[(first + row) * columns + word + half * size + k].entry
                for half, row, k in product(range(2), range(across), range(size))
            ]
            parts.append(composed(tracer, fragment.dtype, (rows, size), taken))
    return [part if part.dtype == kind.multiplied else _converted(tracer, part, kind.multiplied) for part in parts]


def _converted(tracer: Tracer, part: Value, dtype: DType) -> Value:
    result = tracer.value(dtype, part.width)
    tracer.append(Convert(result, part, tracer.here()))
    return result


def _serpentine(blocks: list[Block], step: int) -> list[Block]:
    """The pieces of the result row by row, alternately forward and backward: each shares an operand with the last."""
    rows = sorted({row for row, _ in blocks})
    ordered = []
    for turn, row in enumerate(rows):
        line = [block for block in blocks if block[0] == row]
        ordered += line if (turn + step) % 2 == 0 else line[::-1]
    return ordered


def operand(
    tracer: Tracer, index: int, given: Operands, acc: Spread, kind: MmaInstruction, needed: set[Block]
) -> Operand:
    """The fragments of operand `index` that a product needs. Raises LayoutError for registers in another layout."""
    if isinstance(given, Spread):
        return _in_registers(tracer, index, given, given.layout, acc, kind, needed)
    layout = _operand_layout(index, shape_of_operand(given), acc.layout, kind)
    if isinstance(given, PackedView):
        return _in_registers(tracer, index, load(given, layout), layout, acc, kind, needed)
    part = given if isinstance(given, Part) else Part(given, (0, 0), given.dims())
    memory = memory_of(tracer, part)
    dtype = part.view.dtype
    in_words = dtype.bits * kind.neighbours == WORD and (dtype == kind.multiplied or dtype in SMALL_FLOATS)
    if memory is not None and in_words:  # others are loaded by elements
        tile, base = memory
        accesses = matrix_loads(layout, tile, dtype.bits)
        pieces = fragments_of(layout, kind.tile(index))
        whole = accesses is not None and are_whole(accesses, layout)
        if accesses is not None and whole and pieces is not None and needed <= pieces.keys():
            return MemoryOperand(tracer, part, accesses, base, pieces, kind.registers(index))
    return _in_registers(tracer, index, load(part, layout), layout, acc, kind, needed)


def _in_registers(
    tracer: Tracer,
    index: int,
    given: Spread,
    layout: LinearLayout,
    acc: Spread,
    kind: MmaInstruction,
    needed: set[Block],
) -> RegisterOperand:
    pieces = fragments_of(layout, kind.tile(index))
    warps = [tuple(w if axis == index else 0 for axis, w in enumerate(basis)) for basis in acc.layout.bases["warp"]]
    if pieces is None or layout.bases["warp"] != warps or not needed <= pieces.keys():
        raise tracer.error(
            f"lego.mma: operand {index} is not in the layout of an operand of the result's warps; with parent the "
            f"f2.MmaSync of the result, write lego.convert({'ab'[index]}, to=f2.MmaOperand({index}, parent, "
            f"k_width={kind.neighbours}).layout({given.shape}))",
            LayoutError,
        )
    if given.dtype.is_packed:
        given = given.to(kind.multiplied)
    elif given.dtype in BYTES and kind.multiplied is f16:
        given = _from_words(given)
    return RegisterOperand(tracer, given.dtype, given.registers, pieces, kind.registers(index))


def _from_words(given: Spread) -> Spread:
    """A tile of bytes in f16, converted by words of four registers, which are neighbours where they were loaded."""
    made = list({id(v): v for v in given.registers if v is not None}.values())
    found: dict[int, Scalar] = {}
    for first in range(0, len(made), 4):
        four = made[first : first + 4]
        found.update(zip(map(id, four), halves_of_bytes(four), strict=True))
    return Spread(given.layout, f16, [found.get(id(v)) for v in given.registers])


def _operand_layout(index: int, shape: Sequence[int], acc: LinearLayout, kind: MmaInstruction) -> LinearLayout:
    """The layout in which a warp loads an operand: a fragment, then a second piece of B, then along K, then across."""
    k_axis, across = (1, 0) if index == 0 else (0, 1)
    tile = kind.tile(index)
    warps = [tuple(w if axis == index else 0 for axis, w in enumerate(basis)) for basis in acc.bases["warp"]]
    taken = {basis[across] for basis in warps}
    wide = padded(shape)
    outer = [n for n in _powers(PIECE[index], wide[across]) if n not in taken]
    inner = _powers(kind.depth, wide[k_axis])
    # Two pieces of B are loaded at once: across, or along K where their number across is odd.
    first = outer[:1] if index == 1 and shape[across] % (2 * PIECE[1]) == 0 else []

    def along(axis: int, sizes: list[int]) -> list[tuple[int, ...]]:
        return [(n, 0) if axis == 0 else (0, n) for n in sizes]

    registers = [
        *tile.bases["register"],
        *along(across, first),
        *along(k_axis, inner),
        *along(across, outer[len(first) :]),
    ]
    bases = {"register": registers, "lane": tile.bases["lane"], "warp": warps}
    return boxed(LinearLayout(bases, dict(zip(("dim0", "dim1"), wide, strict=True))), shape)


def _powers(first: int, end: int) -> list[int]:
    return [first << k for k in range((end // first).bit_length() - 1)]


def shape_of_operand(given: Operands) -> tuple[int, ...]:
    """The sizes of an operand."""
    return given.dims() if isinstance(given, View | PackedView) else tuple(given.shape)


def element_type(given: Operands) -> DType:
    """The type of an operand's elements."""
    return given.view.dtype if isinstance(given, Part) else given.dtype


def _checked(tracer: Tracer, name: str, given: Operands) -> Operands:
    """An operand as it is now. Raises LayoutError for what is none, whatever the other one is."""
    if not isinstance(given, Spread | Part | View | PackedView) or len(shape_of_operand(given)) != 2:
        raise tracer.error(
            f"lego.mma: {name} is a spread value of two dimensions, a shared tile or a part of one, got "
            f"{brief(repr(given))}",
            LayoutError,
        )
    view = given.view if isinstance(given, Part) else given
    if isinstance(view, View | PackedView) and view.buffer.space != "workgroup":
        raise tracer.error(
            f"lego.mma: {name}, {view.buffer.name}, is not in shared memory; load it into registers with "
            "lego.load, or copy it to a shared tile with lego.copy_async",
            LayoutError,
        )
    return given.get() if isinstance(given, Spread) else given


def _kind(tracer: Tracer, a: Operands, b: Operands, acc: Spread) -> MmaInstruction:
    """The instructions. Raises LayoutError for operands that do not fit each other or the result."""
    multiplied = multiplied_type(element_type(a), element_type(b))
    if multiplied is None or acc.dtype != INSTRUCTIONS[multiplied].result:
        raise tracer.error(
            "lego.mma multiplies f16, bf16, f32 (as tf32), f8 and packed floats into f32, i8, i4 and u4 into i32, or "
            "f64 into f64; of floats of 16 bits and more the other operand may be narrower; got "
            f"{element_type(a)} times {element_type(b)} into {acc.dtype}",
            LayoutError,
        )
    kind = _in_parts(INSTRUCTIONS[multiplied], a, b)
    (m, k), (depth, n) = shape_of_operand(a), shape_of_operand(b)
    if k != depth or (m, n) != acc.shape or k % kind.depth:
        raise tracer.error(
            f"lego.mma: {m} x {k} times {depth} x {n} into {' x '.join(map(str, acc.shape))}; the depths must agree "
            f"and be a multiple of {kind.depth}, and the result has the rows of a and the columns of b",
            LayoutError,
        )
    return kind


def multiplied_type(a: DType, b: DType) -> DType | None:
    """The type to which operands are converted exactly; None where there is no such.

    >>> multiplied_type(f16, i4), multiplied_type(f8e4m3fn, f4e2m1fn), multiplied_type(i4, i8)
    (f16, f16, i8)
    """
    both = {a, b}
    if both <= {i8, *SMALL_INTEGERS}:
        return i8
    narrow = {*SMALL_FLOATS, *SMALL_INTEGERS, *BYTES}
    wide = both - narrow
    if wide:
        found = f32 if f32 in wide else next(iter(wide))
        return (
            found if found in INSTRUCTIONS and (len(wide) == 1 or wide <= {f32, f16} or wide <= {f32, bf16}) else None
        )
    return f16 if both & set(SMALL_FLOATS) else None


def _in_parts(kind: MmaInstruction, a: Operands, b: Operands) -> MmaInstruction:
    """As many instructions as the layouts of the operands have neighbours for; by default those of a whole word."""
    given = [(index, x.layout) for index, x in enumerate((a, b)) if isinstance(x, Spread) and not x.is_open]
    usual = max(1, WORD // min(element_type(a).bits, element_type(b).bits) // kind.neighbours)
    if given:
        for parts in (1, 2, 4, 8):
            some = kind.times(parts)
            if all(fragments_of(layout, some.tile(index)) is not None for index, layout in given):
                return some
    return kind.times(usual)
