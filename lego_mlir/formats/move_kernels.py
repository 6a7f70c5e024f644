"""Kernels of moves: units of 16 bytes copied where both sides have them in runs, tiles where they do not.

Each block belongs to one move, or to one tile of records. Moves that share bytes, such as the two nibbles of a byte as
two fields, are kernels of their own, one after the other, which read what they add to.

>>> kernel = build(((0, 0, Move(((2, 512, 1024), (2, 2048, 512), (4, 128, 128)), 128, (0, 0))),), (512,), (512,))
>>> kernel.grid, kernel.block, [p.dtype for p in kernel.params]
((1,), (256,), [u32, u32])
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from math import prod
from typing import TYPE_CHECKING, Final

import lego_mlir as lego
from lego_mlir.aliases import AnyArray, IndexLike
from lego_mlir.errors import LayoutError
from lego_mlir.formats.field_moves import Digit, Move
from lego_mlir.formats.move_tiles import (
    RUN_BITS,
    WORD_BITS,
    MoveTile,
    Source,
    TilePart,
    dense,
    halves,
    is_direct,
    joined,
    tile_of,
    tile_of_records,
)
from lego_mlir.layout import Row, gallery
from lego_mlir.layout.canonical import unflatten
from lego_mlir.tracing.definition.named_parameters import with_parameters
from lego_mlir.tracing.trace.dtypes import DType, dtype_named

if TYPE_CHECKING:
    from lego_mlir.tracing.definition.kernel import Kernel
    from lego_mlir.tracing.words.tensor import View

THREADS: Final = 256
ADDED: Final = "add"
"""The name of kernels that add to bytes of others, which are 0 before."""
Placed = tuple[int, int, Move]
"""A source buffer, a target buffer, and a move between them."""


@dataclass(frozen=True, slots=True)
class DevicePlan:
    """What one kernel does: copies and tiles with their buffers, and the bits of an element of each buffer."""

    copies: tuple[Placed, ...]
    tiles: tuple[tuple[tuple[int, ...], int, MoveTile], ...]
    sources: tuple[int, ...]
    targets: tuple[int, ...]


def plan_of(moves: Sequence[Placed], sources: Sequence[int], targets: Sequence[int]) -> DevicePlan | None:
    """The kernel for moves between buffers of these bytes; None where two of them write one byte."""
    copies, tiles, left = [], [], dict(enumerate(moves))
    for target in range(len(targets)):
        mine = {k: m for k, (_, here, m) in left.items() if here == target}
        records = tile_of_records(mine) if len(mine) > 1 else None
        if records is not None:
            tiles.append((tuple(moves[p.move][0] for p in records.parts), target, records))
            left = {k: m for k, m in left.items() if k not in mine}
    for there, here, move in left.values():
        tile = None if is_direct(move) else tile_of(move)
        if tile is not None:
            tiles.append(((there,), here, tile))
        elif move.unit >= 8:
            copies.append((there, here, move))
        else:
            return None
    widths = [[WORD_BITS if size % 4 == 0 else 8 for size in side] for side in (sources, targets)]
    for there, here, move in copies:
        widths[0][there], widths[1][here] = min(widths[0][there], move.unit), min(widths[1][here], move.unit)
    for theres, here, tile in tiles:
        widths[1][here] = min(widths[1][here], tile.word, tile.store)
        for there, part in zip(theres, tile.parts, strict=True):
            widths[0][there] = min(widths[0][there], part.chunk)
    for there, here, _ in copies:  # a copy keeps the elements
        widths[0][there] = widths[1][here] = min(widths[0][there], widths[1][here])
    return DevicePlan(tuple(copies), tuple(tiles), tuple(widths[0]), tuple(widths[1]))


@cache
def build(moves: tuple[Placed, ...], sources: tuple[int, ...], targets: tuple[int, ...]) -> Kernel:
    """The kernel of moves between buffers of these bytes; its tensors are `x0`, .. and `y0`, ...

    Raises LayoutError where two moves write one byte; see `build_added`.
    """
    plan = plan_of(moves, sources, targets)
    if plan is None:
        raise LayoutError("moves of elements that share bytes with others are kernels of their own")
    return _built(plan, sources, targets)


@cache
def _built(plan: DevicePlan, sources: tuple[int, ...], targets: tuple[int, ...]) -> Kernel:
    shares = [-(-_units(move) // THREADS) for _, _, move in plan.copies]
    starts = [0, *accumulate([*shares, *(tile.blocks for _, _, tile in plan.tiles)])]
    kinds = {
        f"{name}{k}": lego.Tensor(dtype_named(f"u{bits}"), Row(8 * size // bits))
        for name, widths, sizes in (("x", plan.sources, sources), ("y", plan.targets, targets))
        for k, (bits, size) in enumerate(zip(widths, sizes, strict=True))
    }

    def relayout(*tensors: View) -> None:
        given, found = tensors[: len(sources)], tensors[len(sources) :]
        stages = _stages(plan)
        block, thread = lego.block_id.x, lego.thread_id.x
        for k, (there, here, move) in enumerate(plan.copies):
            with lego.when((block >= starts[k]) & (block < starts[k + 1])):
                _copy(given[there], found[here], move, (block - starts[k]) * THREADS + thread)
        for k, (theres, here, tile) in enumerate(plan.tiles, len(plan.copies)):
            with lego.when((block >= starts[k]) & (block < starts[k + 1])):
                stage = stages[plan.targets[here]]
                _move_tile([given[there] for there in theres], found[here], stage, tile, block - starts[k])

    return lego.kernel(grid=starts[-1], block=THREADS)(with_parameters(relayout, kinds))


def _stages(plan: DevicePlan) -> dict[int, View]:
    """Shared memory for tiles, by the bits of its elements."""
    most: dict[int, int] = {}
    for _, target, tile in plan.tiles:
        bits = plan.targets[target]
        most[bits] = max(most.get(bits, 0), tile.bits // bits)
    return {bits: lego.shared(dtype_named(f"u{bits}"), Row(size)) for bits, size in most.items()}


def _units(move: Move) -> int:
    return prod(n for n, _, _ in move.digits)


def _copy(x: View, y: View, move: Move, number: IndexLike) -> None:
    """One unit of a move, the work of a thread."""
    bits = x.dtype.bits
    with lego.when(number < _units(move)):
        at = unflatten(number, [n for n, _, _ in move.digits]) if move.digits else ()
        there, here = (
            move.start[side - 1] // bits + sum(i * (d[side] // bits) for i, d in zip(at, move.digits, strict=True))
            for side in (1, 2)
        )
        y.store(x.load(there, width=move.unit // bits), here)


def _move_tile(given: Sequence[View], y: View, stage: View, tile: MoveTile, number: IndexLike) -> None:
    at = unflatten(number, [n for n, _ in tile.outer]) if tile.outer else ()
    for x, part in zip(given, tile.parts, strict=True):
        _fill(x, stage, tile, part, at)
    lego.barrier()
    bits, chunks = y.dtype.bits, tile.bits // tile.store
    begin = tile.start // bits + sum(i * (t // bits) for i, (_, t) in zip(at, tile.outer, strict=True))
    inside = _coarse(tile)
    for first in range(0, chunks, THREADS):
        chunk = first + lego.thread_id.x
        with lego.when(chunk < chunks):
            digits = unflatten(chunk, [n for n, _, _ in reversed(inside)])[::-1] if inside else ()
            value = stage.load(_place(tile, digits, inside, 0, bits), width=tile.store // bits)
            y.store(value, begin + sum(i * (t // bits) for i, (_, _, t) in zip(digits, inside, strict=True)))


def _coarse(tile: MoveTile) -> list[Digit]:
    """The digits of the chunks that a tile is stored in, innermost first, none over a line of a swizzled tile."""
    if not tile.stored:
        return []
    run, reach = dense(tile.stored, 2, tile.stored[0][1], RUN_BITS if tile.phase is not None else tile.bits)
    outer = joined([d for d in reversed(tile.stored) if d not in run], side=1)
    return [(reach // tile.store, tile.store, tile.store), *reversed(outer)]


def _fill(x: View, stage: View, tile: MoveTile, part: TilePart, at: Sequence[IndexLike]) -> None:
    """Load a part's chunks and scatter its words, for each item of a thread."""
    from_bits, items = x.dtype.bits, prod(n for n, _, _ in part.items)
    begin = part.start // from_bits + sum(i * (s // from_bits) for i, (_, s, _) in zip(at, part.outer, strict=True))
    digits = list(reversed(part.items))
    for first in range(0, items, THREADS):
        item = first + lego.thread_id.x
        with lego.when(item < items):
            own = unflatten(item, [n for n, _, _ in digits]) if digits else ()
            source = begin + sum(i * (s // from_bits) for i, (_, s, _) in zip(own, digits, strict=True))
            loaded = [_words(x.load(source + at // from_bits, width=part.chunk // from_bits), from_bits, part.chunk)
                      for at in part.loads]  # fmt: skip
            for place, words in zip(part.scatters, part.words, strict=True):
                made = [_made(loaded, word) for word in words]
                value = _split(made, min(WORD_BITS, part.width), stage.dtype)
                stage.store(value, _place(tile, own, [(n, p, 0) for n, _, p in digits], place, stage.dtype.bits))


def _words(value: AnyArray, bits: int, chunk: int) -> list[AnyArray]:
    """A loaded chunk as words of up to 32 bits."""
    elements = [value[k] for k in range(chunk // bits)] if chunk > bits else [value]
    together = min(WORD_BITS, chunk) // bits
    found = []
    for k in range(0, len(elements), together):
        word = elements[k].to(lego.u32)
        for j in range(1, together):
            word = word | (elements[k + j].to(lego.u32) << lego.u32(j * bits))
        found.append(word)
    return found


def _made(loaded: Sequence[Sequence[AnyArray]], sources: Sequence[Source]) -> AnyArray:
    """A word from shifted and masked words."""
    found = None
    for load, word, right, mask in sources:
        value = loaded[load][word]
        if right:
            value = value >> lego.u32(right) if right > 0 else value << lego.u32(-right)
        if mask != (1 << WORD_BITS) - 1:
            value = value & lego.u32(mask)
        found = value if found is None else found | value
    return found


def _split(words: Sequence[AnyArray], bits: int, dtype: DType) -> AnyArray:
    """Words of these bits as one element or vector of a type."""
    pieces = [(word >> lego.u32(at) if at else word).to(dtype) for word in words for at in range(0, bits, dtype.bits)]
    return lego.vector(*pieces) if len(pieces) > 1 else pieces[0]


def _place(tile: MoveTile, values: Sequence[IndexLike], digits: Sequence[Digit], first: int, bits: int) -> IndexLike:
    """The element of shared memory for a position in the tile: digits and a constant, in bits."""
    if tile.phase is None:
        return first // bits + sum(v * (p // bits) for v, (_, p, _) in zip(values, digits, strict=True))
    lines = first // RUN_BITS + sum(
        v * (p // RUN_BITS) for v, (_, p, _) in zip(values, digits, strict=True) if p >= RUN_BITS
    )
    within = first % RUN_BITS // bits + sum(
        v * (p // bits) for v, (_, p, _) in zip(values, digits, strict=True) if p < RUN_BITS
    )
    rows, columns = tile.bits // RUN_BITS, RUN_BITS // bits
    return gallery.xor_swizzle(rows, columns, vec=128 // bits, per_phase=tile.phase).apply(lines, within)


# -- elements that share a byte with those of another move


@cache
def build_added(move: Move, source_bytes: int, target_bytes: int) -> Kernel:
    """The kernel of one move whose elements share bytes of the target; its tensors are `x` and `y`.

    A thread combines the elements of one byte with the target's bits by `or`, so those are 0 before. Raises LayoutError
    for elements that cross bytes.
    """
    cut = halves(move.digits)
    outer, inner = [d for d in cut if d[2] % 8 == 0], [d for d in cut if d[2] % 8]
    if any(n * t > 8 for n, _, t in inner) or move.start[1] % 8 + move.unit > 8:
        raise LayoutError(f"{move}: elements of {move.unit} bits cross bytes; convert NumPy arrays")
    cells, outer = prod(n for n, _, _ in outer), joined(sorted(outer, key=lambda d: -d[2]))
    mask = (1 << move.unit) - 1

    def add(x: View, y: View) -> None:
        cell = lego.block_id.x * THREADS + lego.thread_id.x
        with lego.when(cell < cells):
            at = unflatten(cell, [n for n, _, _ in outer]) if outer else ()
            there = move.start[0] + sum(i * s for i, (_, s, _) in zip(at, outer, strict=True))
            here = move.start[1] // 8 + sum(i * (t // 8) for i, (_, _, t) in zip(at, outer, strict=True))
            found = y[here].to(lego.u32)
            for values in itertools.product(*(range(n) for n, _, _ in inner)):
                bit = there + sum(v * s for v, (_, s, _) in zip(values, inner, strict=True))
                place = move.start[1] % 8 + sum(v * t for v, (_, _, t) in zip(values, inner, strict=True))
                code = (x[bit // 8].to(lego.u32) >> lego.u32(bit % 8)) & lego.u32(mask)
                found = found | (code << lego.u32(place))
            y[here] = found.to(lego.u8)

    assert add.__name__ == ADDED, "the kernel has the name of its function"
    kinds = {name: lego.Tensor(lego.u8, Row(n)) for name, n in (("x", source_bytes), ("y", target_bytes))}
    return lego.kernel(grid=-(-cells // THREADS), block=THREADS)(with_parameters(add, kinds))
