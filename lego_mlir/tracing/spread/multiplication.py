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
| i8 | i32, saturated | m16n8k32 | 4 |
| f8e4m3fn, f8e5m2 | f32 | m16n8k16, twice, operands widened to f16 | 4 |

The four f8 of a register are pairs of f16 for two instructions. Both operands divide K alike, so that the sum is the
same.

On sm_90a products of 64 rows for each 4 warps with b in shared memory are those of `wgmma` (`spread.warpgroups`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lego_mlir.errors import LayoutError, brief
from lego_mlir.f2.boxed import boxed, padded
from lego_mlir.f2.encodings import MmaOperand, MmaSync
from lego_mlir.f2.linear import LinearLayout
from lego_mlir.tracing.dtypes import DType, bf16, f8e4m3fn, f8e5m2, f16, f32, i8, i32
from lego_mlir.tracing.mma import Part
from lego_mlir.tracing.scalar import Scalar
from lego_mlir.tracing.spread.distributed import Spread, open_tile
from lego_mlir.tracing.spread.fragments import (
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
from lego_mlir.tracing.tensor import View
from lego_mlir.tracing.trace import Convert, MlirOperation, Value
from lego_mlir.tracing.tracer import Tracer, current

PIECE: Final = (16, 8)
"""Rows and columns of the result of one instruction."""


@dataclass(frozen=True, slots=True)
class MmaInstruction:
    """A product of 16 x `depth` and `depth` x 8; a register has `neighbours` elements along K."""

    depth: int
    neighbours: int
    result: DType
    attributes: tuple[tuple[str, str], ...] = ()
    wide: DType | None = None
    """The type to which operands are widened, half of each register for each of two instructions."""

    def tile(self, index: int) -> LinearLayout:
        """The fragment of operand `index`."""
        shape = (PIECE[0], self.depth) if index == 0 else (self.depth, PIECE[1])
        return MmaOperand(index, MmaSync((1, 1)), self.neighbours).layout(shape)

    def registers(self, index: int) -> tuple[int, int]:
        """The registers of that fragment, and the elements of each."""
        return PIECE[index] * self.depth // 32 // self.neighbours, self.neighbours


INSTRUCTIONS: Final[dict[DType, MmaInstruction]] = {
    f16: MmaInstruction(16, 2, f32),
    bf16: MmaInstruction(16, 2, f32),
    f32: MmaInstruction(8, 1, f32, (("tf32Enabled", "unit"),)),
    i8: MmaInstruction(32, 4, i32),
    f8e4m3fn: MmaInstruction(32, 4, f32, wide=f16),
    f8e5m2: MmaInstruction(32, 4, f32, wide=f16),
}


def mma(a: Spread | Part | View, b: Spread | Part | View, acc: Spread, warpgroups: bool = True) -> Spread:
    """`acc + a @ b`: a is (M, K), b is (K, N), acc (M, N) in a layout of `f2.MmaSync`. All threads take part.

    Without `warpgroups` it is `mma.sync` on every target. Raises LayoutError for operands whose shapes, element types
    or layouts do not fit.
    """
    tracer = current("lego.mma")
    acc = acc.get()
    a, b = (x.get() if isinstance(x, Spread) else x for x in (a, b))
    kind = _kind(tracer, a, b, acc)
    if open_tile(a, b, acc) is not None:
        from lego_mlir.tracing.spread.open_tiles import multiplied

        return multiplied(a, b, acc, kind.neighbours, warpgroups)
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
    if warpgroups and (product := of_warpgroups(tracer, acc.layout, pieces, (a, left), b, sums, found, part)):
        tracer.products.append(product)
    return Spread(acc.layout, acc.dtype, found)


def _multiplied(
    tracer: Tracer,
    kind: MmaInstruction,
    a: Spread | Part | View,
    b: Spread | Part | View,
    acc: Spread,
    pieces: dict[Block, list[int]],
) -> tuple[list[Scalar | None], Operand, dict[Block, Value]]:
    """The registers of the result by `mma.sync`, the left operand, and the pieces that are added to."""
    steps = _shape(a)[1] // kind.depth
    left = _operand(tracer, 0, a, acc, kind, {(row, k) for row, _ in pieces for k in range(steps)})
    right = _operand(tracer, 1, b, acc, kind, {(k, column) for _, column in pieces for k in range(steps)})
    totals = {
        block: composed(tracer, acc.dtype, (2, 2), [acc.registers[r].value for r in registers])
        for block, registers in pieces.items()
    }
    sums = dict(totals)
    for step in range(steps):
        for row, column in _serpentine(sorted(pieces), step):
            x, y = left.fragment((row, step)), right.fragment((step, column))
            totals[row, column] = _product(tracer, kind, x, y, totals[row, column])
    found: dict[int, Scalar] = {}
    for block, registers in pieces.items():
        found.update(zip(registers, taken_apart(tracer, totals[block]), strict=True))
    return [found.get(r) for r in range(len(acc.registers))], left, sums


def _product(tracer: Tracer, kind: MmaInstruction, a: Value, b: Value, c: Value) -> Value:
    if kind.wide is not None:
        for half in range(2):
            x, y = (_widened(tracer, operand, kind.wide, half) for operand in (a, b))
            c = _instruction(tracer, INSTRUCTIONS[kind.wide], x, y, c)
        return c
    return _instruction(tracer, kind, a, b, c)


def _instruction(tracer: Tracer, kind: MmaInstruction, a: Value, b: Value, c: Value) -> Value:
    result = tracer.value(kind.result, (2, 2))
    attributes = (("mmaShape", f"[{PIECE[0]}, {PIECE[1]}, {kind.depth}]"), *kind.attributes)
    tracer.append(MlirOperation((result,), "nvgpu.mma.sync", (a, b, c), attributes, tracer.here()))
    return result


def _widened(tracer: Tracer, fragment: Value, dtype: DType, half: int) -> Value:
    """Half of the elements of each register of a fragment, in a wider type."""
    rows, columns = fragment.width  # type: ignore[misc]
    part = tracer.value(fragment.dtype, (rows, columns // 2))
    place = (
        ("offsets", f"[0, {half * columns // 2}]"), ("sizes", f"[{rows}, {columns // 2}]"), ("strides", "[1, 1]"),
    )  # fmt: skip
    tracer.append(MlirOperation((part,), "vector.extract_strided_slice", (fragment,), place, tracer.here()))
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


def _operand(
    tracer: Tracer, index: int, given: Spread | Part | View, acc: Spread, kind: MmaInstruction, needed: set[Block]
) -> Operand:
    if isinstance(given, Spread):
        return _in_registers(tracer, index, given, given.layout, acc, kind, needed)
    part = given if isinstance(given, Part) else Part(given, (0, 0), given.dims())
    layout = _operand_layout(index, part.shape, acc.layout, kind)
    memory = memory_of(tracer, part)
    if memory is not None and kind.wide is None:  # what is widened is loaded by elements
        tile, base = memory
        accesses = matrix_loads(layout, tile, part.view.dtype.bits)
        pieces = fragments_of(layout, kind.tile(index))
        whole = accesses is not None and are_whole(accesses, layout)
        if accesses is not None and whole and pieces is not None and needed <= pieces.keys():
            return MemoryOperand(tracer, part, accesses, base, pieces, kind.registers(index))
    from lego_mlir.tracing.spread.accesses import load

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
    return RegisterOperand(tracer, given.dtype, given.registers, pieces, kind.registers(index))


def _operand_layout(index: int, shape: tuple[int, int], acc: LinearLayout, kind: MmaInstruction) -> LinearLayout:
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


def _shape(given: Spread | Part | View) -> tuple[int, ...]:
    return given.dims() if isinstance(given, View) else tuple(given.shape)


def _type(given: Spread | Part | View) -> DType:
    return given.view.dtype if isinstance(given, Part) else given.dtype


def _kind(tracer: Tracer, a: Spread | Part | View, b: Spread | Part | View, acc: Spread) -> MmaInstruction:
    """The instruction. Raises LayoutError for operands that do not fit each other or the result."""
    for name, given in (("a", a), ("b", b)):
        if not isinstance(given, Spread | Part | View) or len(_shape(given)) != 2:
            raise tracer.error(
                f"lego.mma: {name} is a spread value of two dimensions, a shared tile or a part of one, got "
                f"{brief(repr(given))}",
                LayoutError,
            )
        view = given.view if isinstance(given, Part) else given
        if isinstance(view, View) and view.buffer.space != "workgroup":
            raise tracer.error(
                f"lego.mma: {name}, {view.buffer.name}, is not in shared memory; load it into registers with "
                "lego.load, or copy it to a shared tile with lego.copy_async",
                LayoutError,
            )
    kind = INSTRUCTIONS.get(_type(a))
    if kind is None or _type(a) != _type(b) or acc.dtype != kind.result:
        raise tracer.error(
            f"lego.mma multiplies f16, bf16, f32 (as tf32), f8e4m3fn or f8e5m2 into f32, or i8 into i32, got "
            f"{_type(a)} times {_type(b)} into {acc.dtype}",
            LayoutError,
        )
    (m, k), (depth, n) = _shape(a), _shape(b)
    if k != depth or (m, n) != acc.shape or k % kind.depth:
        raise tracer.error(
            f"lego.mma: {m} x {k} times {depth} x {n} into {' x '.join(map(str, acc.shape))}; the depths must agree "
            f"and be a multiple of {kind.depth}, and the result has the rows of a and the columns of b",
            LayoutError,
        )
    return kind
