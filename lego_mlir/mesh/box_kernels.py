"""Kernels that copy strided boxes between flat buffers: a rank's messages packed, unpacked, or stored at its peers.

    pack      its part          -> the send buffer, the boxes one after the other
    unpack    the receive buffer -> its new part
    peers     its part          -> the new parts of all ranks at once, through pointers into their memory

Every offset, size and stride of a plan is a number of the kernel, so its proofs are those of any kernel: all accesses
are inside, and no element is written twice. A box is a layout of its elements on both sides; axes that are contiguous
on both are one (`fused_axes`), and a thread moves up to 16 bytes where both sides have them side by side; a box that is
side by side along different axes moves in tiles (`transposed_boxes`). A block of threads belongs to one box.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import gcd, prod
from typing import TYPE_CHECKING, Final

import lego_mlir as lego
from lego_mlir.aliases import IndexLike
from lego_mlir.errors import UsageError
from lego_mlir.expr.index import where
from lego_mlir.hardware.devices import reference
from lego_mlir.hardware.memory import WIDEST_ACCESS
from lego_mlir.layout import Row
from lego_mlir.mesh.redistribution import Message, StridedBox
from lego_mlir.mesh.transposed_boxes import THREADS, TransposedBox, stage_of, transposed_box
from lego_mlir.tracing.definition.named_parameters import with_parameters

if TYPE_CHECKING:
    from lego_mlir.tracing.definition.kernel import Kernel
    from lego_mlir.tracing.trace.dtypes import DType
    from lego_mlir.tracing.words.tensor import View

BoxKernel = Callable[..., object]
"""A kernel that is called on the source and on the targets that it writes."""
MakeKernel = Callable[[str, "Sequence[BoxMove]", "DType", int, Sequence[int]], BoxKernel]
"""What gives a kernel for its name, moves, type and sizes of buffers: `box_kernel`, or what finds packed ones."""
SEVERAL: Final[int] = reference("boxes")["vectors"]
"""Vectors that a thread moves, a block's width apart, where these have less than 16 bytes; of 16 bytes it moves one."""
MOST_BOXES: Final = 256
"""Boxes of one kernel; each is a branch of its text."""


@dataclass(frozen=True, slots=True)
class BoxMove:
    """A box of the source that becomes a box of a target buffer, of the same sizes."""

    source: StridedBox
    target: StridedBox
    buffer: int = 0


@dataclass(frozen=True, slots=True)
class FusedBox:
    """The same elements with as few axes as possible: sizes, and the strides of both sides; the last is the fastest."""

    sizes: tuple[int, ...]
    source: tuple[int, ...]
    target: tuple[int, ...]


def fused_axes(move: BoxMove) -> FusedBox:
    """The axes of a move ordered by the target's strides, without those of one element, contiguous ones joined.

    >>> box = StridedBox(0, (1, 4, 2, 8), (0, 64, 8, 1))
    >>> fused_axes(BoxMove(box, StridedBox(0, (1, 4, 2, 8), (0, 16, 8, 1))))
    FusedBox(sizes=(4, 16), source=(64, 1), target=(16, 1))
    """
    axes = zip(move.source.sizes, move.source.strides, move.target.strides, strict=True)
    ordered = sorted((axis for axis in axes if axis[0] > 1), key=lambda axis: (-axis[2], -axis[1]))
    joined: list[tuple[int, int, int]] = []
    for size, s, t in ordered:
        if joined and joined[-1][1] == size * s and joined[-1][2] == size * t:
            size *= joined.pop()[0]
        joined.append((size, s, t))
    sizes, source, target = zip(*joined, strict=True) if joined else ((1,), (1,), (1,))
    return FusedBox(sizes, source, target)


def width_of(move: BoxMove, item_bytes: int) -> int:
    """The elements that a thread moves at once: as many as are side by side on both sides, aligned, in 16 bytes."""
    box = fused_axes(move)
    if (box.source[-1], box.target[-1]) != (1, 1):
        return 1
    steps = (move.source.offset, move.target.offset, box.sizes[-1], *box.source[:-1], *box.target[:-1])
    return gcd(max(WIDEST_ACCESS // item_bytes, 1), *steps)


@dataclass(frozen=True, slots=True)
class CopiedBox:
    """A box that a thread moves `width` elements at a time, `vectors` times."""

    box: FusedBox
    offsets: tuple[int, int]
    width: int
    vectors: int

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes in vectors."""
        return (*self.box.sizes[:-1], self.box.sizes[-1] // self.width)

    @property
    def blocks(self) -> int:
        """Blocks of THREADS threads."""
        return -(-prod(self.sizes) // (THREADS * self.vectors))

    def move(self, source: View, target: View, part: IndexLike, stage: View | None) -> None:
        """Move the vectors of one block of threads: all are loaded before one is stored."""
        vectors, of_block = prod(self.sizes), THREADS * self.vectors
        numbers = [part * of_block + lego.thread_id.x + v * THREADS for v in range(self.vectors)]
        whole, rest = divmod(vectors, of_block)
        if whole:
            with lego.when(part < whole):
                places = [self._places(number) for number in numbers]
                values = [source.load(here, width=self.width) for here, _ in places]
                for value, (_, there) in zip(values, places, strict=True):
                    target.store(value, there)
        if rest:
            with lego.when(part >= whole):
                for number in numbers[: -(-rest // THREADS)]:
                    with lego.when(number < vectors):
                        here, there = self._places(number)
                        target.store(source.load(here, width=self.width), there)

    def _places(self, number: IndexLike) -> tuple[IndexLike, IndexLike]:
        """Where a vector is on both sides."""
        index = Row(*self.sizes).inv(number)
        index = index if isinstance(index, tuple) else (index,)
        scale = (*(1 for _ in self.sizes[:-1]), self.width)
        here, there = (
            offset + sum(i * s * w for i, s, w in zip(index, strides, scale, strict=True))
            for offset, strides in zip(self.offsets, (self.box.source, self.box.target), strict=True)
        )
        return here, there


def work_of(move: BoxMove, item_bytes: int) -> CopiedBox | TransposedBox:
    """How a move is carried out."""
    box, offsets = fused_axes(move), (move.source.offset, move.target.offset)
    width = width_of(move, item_bytes)
    vectors = 1 if width * item_bytes == WIDEST_ACCESS else SEVERAL
    return transposed_box(box, offsets, item_bytes) or CopiedBox(box, offsets, width, vectors)


@dataclass(frozen=True, slots=True)
class DealtBlocks:
    """Blocks of threads dealt to boxes in turn, so that links and a rank's own memory are busy at the same time.

    A box with fewer blocks drops out after its last one. `order` has the boxes by their number of blocks, `rounds` for
    each number of boxes that are left (first block, boxes, rounds before).

    >>> dealt = DealtBlocks.of([2, 4])
    >>> [tuple(map(int, dealt.at(block))) for block in range(6)], dealt.order
    ([(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (0, 3)], (1, 0))
    """

    order: tuple[int, ...]
    rounds: tuple[tuple[int, int, int], ...]

    @classmethod
    def of(cls, counts: Sequence[int]) -> DealtBlocks:
        """The order for boxes of these numbers of blocks."""
        order = tuple(sorted(range(len(counts)), key=lambda k: -counts[k]))
        rounds, first, done = [], 0, 0
        for count in sorted(set(counts)):
            left = sum(other >= count for other in counts)
            rounds.append((first, left, done))
            first, done = first + left * (count - done), count
        return cls(order, tuple(rounds))

    def at(self, block: IndexLike) -> tuple[IndexLike, IndexLike]:
        """The position in `order` of a block's box, and which of that box's blocks it is."""
        turn, part = block % self.rounds[0][1], block // self.rounds[0][1]
        for first, left, done in self.rounds[1:]:
            here = block >= first
            turn, part = where(here, (block - first) % left, turn), where(here, done + (block - first) // left, part)
        return turn, part


def pack_moves(messages: Sequence[Message]) -> list[BoxMove]:
    """The messages of a sender, into one buffer in their order."""
    return [BoxMove(box, _dense(box, at)) for box, at in _placed([box for m in messages for box in m.source])]


def unpack_moves(messages: Sequence[Message]) -> list[BoxMove]:
    """The messages of a receiver, out of one buffer in their order. Raises UsageError for parts of sums."""
    _refuse_parts(messages)
    return [BoxMove(_dense(box, at), box) for box, at in _placed([box for m in messages for box in m.target])]


def kept_moves(messages: Sequence[Message]) -> list[BoxMove]:
    """What a rank keeps, from its old part to its new one."""
    return [BoxMove(*boxes) for m in messages for boxes in zip(m.source, m.target, strict=True)]


def peer_moves(messages: Sequence[Message]) -> list[BoxMove]:
    """The messages of a sender, each into the buffer of its receiver. Raises UsageError for parts of sums."""
    _refuse_parts(messages)
    return [replace(move, buffer=m.receiver) for m in messages for move in kept_moves([m])]


def _refuse_parts(messages: Sequence[Message]) -> None:
    if any(m.adds for m in messages):
        raise UsageError("the parts of a sum are added as they arrive, which no kernel here does; use Exchange")


def _placed(boxes: Sequence[StridedBox]) -> Iterator[tuple[StridedBox, int]]:
    at = 0
    for box in boxes:
        yield box, at
        at += box.elements


def _dense(box: StridedBox, offset: int) -> StridedBox:
    """A box of these sizes whose elements lie side by side."""
    return StridedBox(offset, box.sizes, tuple(prod(box.sizes[k + 1 :]) for k in range(len(box.sizes))))


def box_kernel(name: str, moves: Sequence[BoxMove], dtype: DType, held: int, capacities: Sequence[int]) -> Kernel:
    """The kernel that carries out moves: `source` of `held` elements, and a target buffer for each capacity.

    A buffer that no move writes is no parameter; the others are `to0`, `to1`, .. by their number, in order. Raises
    UsageError for no move, or more than MOST_BOXES.
    """
    moves = [move for move in moves if move.source.elements]
    if not moves or len(moves) > MOST_BOXES:
        raise UsageError(f"{name}: a kernel moves 1 to {MOST_BOXES} boxes, got {len(moves)}")
    buffers = sorted({move.buffer for move in moves})
    works = [work_of(move, dtype.bits // 8) for move in moves]
    dealt = DealtBlocks.of([work.blocks for work in works])
    kinds = {"source": lego.Tensor(dtype, Row(held))} | {
        f"to{b}": lego.Tensor(dtype, Row(capacities[b])) for b in buffers
    }

    def move_boxes(source: View, *targets: View) -> None:
        turn, part = dealt.at(lego.block_id.x)
        stage = stage_of(works, dtype)

        def chosen(first: int, last: int) -> None:
            """The box at position `turn`, by halving."""
            if first == last:
                k = dealt.order[first]
                works[k].move(source, targets[buffers.index(moves[k].buffer)], part, stage)
                return
            middle = (first + last) // 2
            with lego.when(turn <= middle):
                chosen(first, middle)
            with lego.otherwise():
                chosen(middle + 1, last)

        chosen(0, len(moves) - 1)

    return lego.kernel(grid=sum(work.blocks for work in works), block=THREADS, name=name)(
        with_parameters(move_boxes, kinds)
    )
