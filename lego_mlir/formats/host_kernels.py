"""Kernels of moves for the processor: loops over the register tiles of one move, or of several block by block.

A kernel is `relayout(x0, y0, x1, y1, .., first, last)`: the source and the target of each move, and the range of the
outermost loop, which threads divide. Moves whose elements lie between each other's, such as the fields of records,
share that loop: it counts blocks that stay in a core's cache while all of its moves are done. Whole registers are
stored past the caches; records, whose fields are shorter, are put together in a block of memory, and stored from there.

>>> kernel = kernel_of((Move(((64, 16, 1024), (64, 1024, 16)), 16, (0, 0)),))
>>> kernel.count, [(loop.source, loop.target) for loop in kernel.moves[0].loops]
(2, [(4096, 64), (64, 4096)])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lego_mlir.formats.exchange_tiles import BYTE, REGISTER_BITS, WORD, DigitExchange, RegisterTile, register_tile
from lego_mlir.formats.field_moves import Move
from lego_mlir.formats.move_tiles import joined

NAME: Final = "relayout"
BLOCK_BITS: Final = 8 * 4096
"""Bits of a block of several moves: few, so that the processor reads the next block while it stores one."""
SWEEP_BITS: Final = 8 * 4096
"""Bits of the source's rows that are read before other rows are: a page, which is looked up once."""
DIVISIBLE: Final = 16
"""Turns of a loop that two threads divide evenly enough."""
_MEMORY: Final = f"memref<{2**62}xi8>"
_CONSTANTS: Final = ("%zero = arith.constant 0 : index", "%one = arith.constant 1 : index")
_STORED: Final = """%size = arith.constant {size} : index
%line = arith.constant 64 : index
%begin = arith.muli %block, %size : index
scf.for %at = %zero to %size step %line {{
%whole = vector.load %stage[%at] : {block}, vector<64xi8>
%there = arith.addi %begin, %at : index
vector.store %whole, %y0[%there]{past} : {memory}, vector<64xi8>
}}"""
_ALIGNED: Final = f" {{nontemporal = true, alignment = {REGISTER_BITS // 8} : i64}}"


@dataclass(frozen=True, slots=True)
class MoveLoop:
    """A loop around tiles: its turns, and the bytes from one to the next in the source and in the target."""

    size: int
    source: int
    target: int


@dataclass(frozen=True, slots=True)
class HostMove:
    """One move of a kernel: its tile, the loops around it, outermost first, and where it begins on both sides."""

    tile: RegisterTile
    loops: tuple[MoveLoop, ...]
    start: tuple[int, int]

    @property
    def is_aligned(self) -> bool:
        """Whether all stores are whole registers at multiples of their width, if the target begins at one."""
        strides = [*(t for _, _, t in self.tile.stored_numbers), *(8 * loop.target for loop in self.loops)]
        strides.append(8 * self.start[1])
        whole = self.tile.store_bits == REGISTER_BITS and not self.tile.is_added
        return whole and not any(t % REGISTER_BITS for t in strides)


@dataclass(frozen=True, slots=True)
class HostMoves:
    """A kernel: the moves of each of `count` turns of the loop that is outermost in all of them.

    `staged` is the number of bytes that the moves of a turn fill, if they are put together before they are stored.
    """

    count: int
    moves: tuple[HostMove, ...]
    staged: int = 0


def kernel_of(moves: Sequence[Move], shared: int = 2) -> HostMoves | None:
    """The kernel of moves; None where one has no tile, or several have no outermost digit in common.

    Several moves have the same source (`shared` is 1) or the same target (2).
    """
    blocks = _in_blocks(moves, shared) if len(moves) > 1 else [(moves[0], ())]
    found = []
    for inner, loops in blocks or ():
        tile = register_tile(inner)
        if tile is None:
            return None
        found.append(HostMove(tile, (*loops, *_ordered(tile)), (inner.start[0] // 8, inner.start[1] // 8)))
    if not found:
        return None
    outermost = found[0].loops[0]
    if len(moves) == 1 or shared == 1 or all(one.is_aligned or one.tile.is_added for one in found):
        return HostMoves(outermost.size, tuple(found))
    bits = 8 * outermost.target
    within = all(m.start[1] + m.unit + sum((n - 1) * t for n, _, t in m.digits) <= bits for m, _ in blocks)
    filled = within and sum(m.bits for m, _ in blocks) == bits and bits % REGISTER_BITS == 0
    return HostMoves(outermost.size, tuple(found), outermost.target if filled else 0)


def _in_blocks(moves: Sequence[Move], side: int) -> list[tuple[Move, tuple[MoveLoop, ...]]]:
    """Each move inside a block, and the loop of blocks along the digit that is outermost on one side in all moves.

    Empty where there is no such digit.
    """
    if not all(m.digits for m in moves):
        return []
    digits = [max(m.digits, key=lambda d: d[side]) for m in moves]
    count, stride = digits[0][0], digits[0][side]
    inside = 1
    while count % (2 * inside) == 0 and (inside * stride < BLOCK_BITS or inside * stride % REGISTER_BITS):
        inside *= 2
    if any((d[0], d[side]) != (count, stride) or inside * d[1] % 8 or inside * d[2] % 8 for d in digits):
        return []
    found: list[tuple[Move, tuple[MoveLoop, ...]]] = []
    for m, digit in zip(moves, digits, strict=True):
        n, s, t = digit
        inner = Move(tuple((inside, s, t) if d == digit else d for d in m.digits), m.unit, m.start)
        found.append((inner, (MoveLoop(n // inside, inside * s // 8, inside * t // 8),)))
    return found


def _ordered(tile: RegisterTile) -> list[MoveLoop]:
    """The loops around a tile: one that threads can divide, then along the target, then sweeps of the source's rows."""
    outer = sorted(tile.outer, key=lambda d: -d[2])
    if tile.numbers:
        swept = sorted((d for d in outer if d[0] == 2 and d[1] < SWEEP_BITS), key=lambda d: -d[1])
        outer = [*(d for d in outer if d not in swept), *swept]
    loops = [MoveLoop(n, s // 8, t // 8) for n, s, t in joined(outer)] or [MoveLoop(1, 0, 0)]
    divided = next((k for k, loop in enumerate(loops) if loop.size >= DIVISIBLE), 0)
    return [loops[divided], *loops[:divided], *loops[divided + 1 :]]


def kernel_text(kernel: HostMoves, streaming: bool) -> str:
    """The kernel as an MLIR function; `streaming` stores aligned registers past the caches."""
    memory = ", ".join(f"%x{k}: {_MEMORY}, %y{k}: {_MEMORY}" for k in range(len(kernel.moves)))
    lines = [f"func.func @{NAME}({memory}, %first: index, %last: index) {{", *_CONSTANTS]
    block = f"memref<{kernel.staged}xi8>"
    if kernel.staged:
        lines.append(f"%stage = memref.alloca() {{alignment = {REGISTER_BITS // 8} : i64}} : {block}")
    lines.append("scf.for %block = %first to %last step %one {")
    for number, move in enumerate(kernel.moves):
        lines += _MoveText(number, move, streaming, block if kernel.staged else "").lines
    if kernel.staged:
        past = _ALIGNED if streaming else ""
        lines += _STORED.format(size=kernel.staged, block=block, memory=_MEMORY, past=past).split("\n")
    fence = ["llvm.fence seq_cst"] if streaming else []  # nothing else orders stores past the caches
    return "\n".join([*lines, "}", *fence, "return", "}"])


def _vector(bits: int) -> str:
    return f"vector<{bits // 8}xi8>"


class _MoveText:
    """The lines of one move: loops, and in the innermost one a tile."""

    def __init__(self, number: int, move: HostMove, streaming: bool, block: str) -> None:
        self.number, self.tile, self.lines = number, move.tile, list[str]()
        self.past = _ALIGNED if streaming and move.is_aligned and not block else ""
        self.target, self.memory = ("%stage", block) if block else (f"%y{number}", _MEMORY)
        self.own = _vector(self.tile.width)
        counters = ["%block", *(f"%m{number}i{depth}" for depth in range(1, len(move.loops)))]
        for counter, loop in zip(counters[1:], move.loops[1:], strict=True):
            last = self.value(f"arith.constant {loop.size} : index")
            self.lines.append(f"scf.for {counter} = %zero to {last} step %one {{")
        starts = []
        for first, side in zip(move.start, ("source", "target"), strict=True):
            start = self.value(f"arith.constant {first} : index")
            inside = block and side == "target"
            for counter, loop in list(zip(counters, move.loops, strict=True))[1 if inside else 0 :]:
                stride = self.value(f"arith.constant {getattr(loop, side)} : index")
                step = self.value(f"arith.muli {counter}, {stride} : index")
                start = self.value(f"arith.addi {start}, {step} : index")
            starts.append(start)
        self.body(*starts)
        self.lines += ["}"] * len(counters[1:])

    def value(self, text: str) -> str:
        """The name of an operation's result."""
        name = f"%m{self.number}v{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        return name

    def body(self, source: str, target: str) -> None:
        """Load, permute and store the registers of a tile."""
        tile, registers = self.tile, list[str]()
        for number in range(1 << len(tile.numbers)):
            registers.append(self.loaded(source, tile.byte(tile.numbers, number, 1)))
        for step in tile.steps:
            if isinstance(step, DigitExchange):
                change = self.shifted if 1 << step.position < min(WORD, tile.width) else self.shuffled
                for low in range(len(registers)):
                    high = low | 1 << step.number
                    if low != high:
                        registers[low], registers[high] = change(registers[low], registers[high], 1 << step.position)
            else:
                registers = [self.permuted(register, step.order) for register in registers]
        for number, register in enumerate(registers):
            first = tile.byte(tile.stored_numbers, number, 2)
            for piece in range(1 << len(tile.stored_pieces)):
                at = tile.byte(tile.stored_pieces, piece, 2)
                if first is not None and at is not None:
                    self.store(register, piece, self.place(target, first + at))

    def place(self, start: str, byte: int) -> str:
        """The index of a byte of a tile."""
        constant = self.value(f"arith.constant {byte} : index")
        return self.value(f"arith.addi {start}, {constant} : index")

    def loaded(self, start: str, first: int | None) -> str:
        """A register put together of its pieces, zeros for holes."""
        tile, bits, parts = self.tile, self.tile.load_bits, list[str]()
        for piece in range(1 << len(tile.pieces)):
            at = tile.byte(tile.pieces, piece, 1)
            if first is None or at is None:
                parts.append(self.value(f"arith.constant dense<0> : {_vector(bits)}"))
            else:
                place = self.place(start, first + at)
                parts.append(self.value(f"vector.load %x{self.number}[{place}] : {_MEMORY}, {_vector(bits)}"))
        while len(parts) > 1:
            order = list(range(bits // 4))
            parts = [self.shuffle(a, b, order, _vector(bits)) for a, b in zip(parts[::2], parts[1::2], strict=True)]
            bits *= 2
        return parts[0]

    def store(self, register: str, piece: int, place: str) -> None:
        """Store a piece of a register, added to what is there where bytes are shared."""
        size = self.tile.store_bits // 8
        kind = _vector(self.tile.store_bits)
        if self.tile.store_bits < self.tile.width:
            part = f"{{offsets = [{piece * size}], sizes = [{size}], strides = [1]}}"
            register = self.value(f"vector.extract_strided_slice {register} {part} : {self.own} to {kind}")
        at = f"{self.target}[{place}]"
        if self.tile.is_added:
            there = self.value(f"vector.load {at} : {self.memory}, {kind}")
            register = self.value(f"arith.ori {there}, {register} : {kind}")
        self.lines.append(f"vector.store {register}, {at}{self.past} : {self.memory}, {kind}")

    def shuffle(self, a: str, b: str, order: Sequence[int], kind: str) -> str:
        """Elements of two registers, those of the second counted on from the first's."""
        return self.value(f"vector.shuffle {a}, {b} {list(order)} : {kind}, {kind}")

    def shifted(self, a: str, b: str, distance: int) -> tuple[str, str]:
        """An exchange inside words: what of `b` is at digit 0 comes to 1 in `a`, and the other way round."""
        word = min(WORD, self.tile.width)
        kind = f"vector<{self.tile.width // word}xi{word}>"
        low = sum(((1 << distance) - 1) << at for at in range(0, word, 2 * distance))
        masks = [self.value(f"arith.constant dense<{_signed(m, word)}> : {kind}") for m in (low, low << distance)]
        by = self.value(f"arith.constant dense<{distance}> : {kind}")
        words = [self.value(f"vector.bitcast {v} : {self.own} to {kind}") for v in (a, b)]
        found = []
        for kept, moved, shift, own in ((0, 1, "shli", 0), (1, 0, "shrui", 1)):
            brought = self.value(f"arith.{shift} {words[moved]}, {by} : {kind}")
            halves = [self.value(f"arith.andi {v}, {m} : {kind}")
                      for v, m in ((words[kept], masks[own]), (brought, masks[1 - own]))]  # fmt: skip
            both = self.value(f"arith.ori {halves[0]}, {halves[1]} : {kind}")
            found.append(self.value(f"vector.bitcast {both} : {kind} to {self.own}"))
        return found[0], found[1]

    def shuffled(self, a: str, b: str, distance: int) -> tuple[str, str]:
        """An exchange of whole words."""
        word = min(WORD, self.tile.width)
        count, step = self.tile.width // word, distance // word
        kind = f"vector<{count}xi{word}>"
        words = [self.value(f"vector.bitcast {v} : {self.own} to {kind}") for v in (a, b)]
        found = []
        for half in (0, step):
            order = [k & ~step | half | (count if k & step else 0) for k in range(count)]
            both = self.shuffle(words[0], words[1], order, kind)
            found.append(self.value(f"vector.bitcast {both} : {kind} to {self.own}"))
        return found[0], found[1]

    def permuted(self, register: str, order: Sequence[int]) -> str:
        """The bytes of a register in another order of their digits."""
        lanes = range(self.tile.width // 8)
        moved = [sum((lane >> k & 1) << p - BYTE for k, p in enumerate(order)) for lane in lanes]
        return self.shuffle(register, register, moved, self.own)


def _signed(mask: int, bits: int) -> int:
    """A word as MLIR writes it."""
    return mask - (1 << bits) if mask >> (bits - 1) else mask
