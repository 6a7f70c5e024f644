"""Strips of a local product: what each needs of A and B, what it gives of C, and the order in which they run.

    rows      A moves: rows of A arrive while others are multiplied, rows of C are sent while the next are computed
    panels    B moves: a panel of columns of A and rows of B arrives while another is multiplied, and sums go on (SUMMA)
    a ring    parts of C are summed in rows: each rank adds its product to the sum that the rank before it sent, and
              the rows that it keeps come last

So strips end where the rows or columns of one sender end, and those of one receiver; where neither ends inside, they
are EQUAL, if anything moves at all. Strips that need nothing come first, those whose rows stay last; ranks start with
different senders, the next one first.

>>> from lego_mlir.distributions import Chunks, Sharded
>>> from lego_mlir.mesh.products import plan_product
>>> rows = Sharded([512, 64], {"r": 4}, [[("r", Chunks(4))], []])
>>> columns = [Sharded(shape, {"r": 4}, [[], [("r", Chunks(4))]]) for shape in ([64, 256], [512, 256])]
>>> [strip.rows for strip in strips_of(plan_product(rows, *columns), 1)]
[(128, 256), (256, 384), (384, 512), (0, 128)]
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from lego_mlir.aliases import Array
from lego_mlir.mesh.redistribution import Message, StridedBox

if TYPE_CHECKING:
    from lego_mlir.mesh.products import MeshProductPlan

Span = tuple[int, int]
EQUAL: Final = 4
HALVES: Final = 2
"""Strips of one step of a ring: one is sent while the next is computed."""
MOST: Final = 16
"""Strips beyond which products would be too small."""
ALIGNED: Final = 64
"""Rows or columns of which equal strips are multiples, where there are enough."""


class EdgeBox(NamedTuple):
    """A pair of boxes of a message; `here` is `first` to `last` along an axis of a row-major matrix of this rank."""

    other: int
    here: StridedBox
    there: StridedBox
    axis: int
    first: int
    last: int

    @property
    def is_whole(self) -> bool:
        """Whether its indices along the axis are side by side."""
        return self.here.sizes[2 * self.axis] == 1

    def clipped(self, first: int, last: int) -> EdgeBox | None:
        """What is between these; the whole box where its indices are apart. None for nothing."""
        lo, hi = max(first, self.first), min(last, self.last)
        if lo >= hi:
            return None
        if not self.is_whole or (lo, hi) == (self.first, self.last):
            return self
        along = 2 * self.axis + 1
        here, there = (
            StridedBox(
                box.offset + (lo - self.first) * box.strides[along],
                (*box.sizes[:along], hi - lo, *box.sizes[along + 1 :]),
                box.strides,
            )
            for box in (self.here, self.there)
        )
        return EdgeBox(self.other, here, there, self.axis, lo, hi)

    def in_panel(self, rows: int, pitch: int, panel: Span) -> EdgeBox:
        """The box where the matrix is kept panel by panel, each of which is row-major."""
        first, width = panel[0], panel[1] - panel[0]
        row, column = divmod(self.here.offset, pitch)
        steps = [step // pitch * width if k < 2 else step for k, step in enumerate(self.here.strides)]
        offset = rows * first + row * width + column - first
        return self._replace(here=StridedBox(offset, self.here.sizes, tuple(steps)))


@dataclass(frozen=True, slots=True)
class Strip:
    """The product of `rows` of A's block and its columns `inner`, with rows `inner` of B's block.

    `a` and `b` arrive for it; `gives` is sent when it is computed. `sums`: whether it goes on where the strip before
    ended. `hop`: the step of the ring in which it runs, if there is one.
    """

    rows: Span
    inner: Span
    a: tuple[EdgeBox, ...] = ()
    b: tuple[EdgeBox, ...] = ()
    gives: tuple[EdgeBox, ...] = ()
    sums: bool = False
    hop: int | None = None


def edge_boxes(messages: Sequence[Message], received: bool, pitch: int, axis: int = 0) -> list[EdgeBox]:
    """The boxes of messages to this rank, or from it, along an axis of its matrix, whose rows are `pitch` apart."""
    found = []
    for m in messages:
        pairs = zip(m.target, m.source, strict=True) if received else zip(m.source, m.target, strict=True)
        for here, there in pairs:
            first = here.offset % pitch if axis else here.offset // pitch
            repeats, length = here.sizes[2 * axis : 2 * axis + 2]
            step = here.strides[2 * axis] // (1 if axis else pitch)
            other = m.sender if received else m.receiver
            found.append(EdgeBox(other, here, there, axis, first, first + (repeats - 1) * step + length))
    return found


def strips_of(plan: MeshProductPlan, rank: int) -> list[Strip]:
    """The strips of a rank, in the order in which they run; none for a rank without a part of the product."""
    (rows, k), (_, columns) = (moves.target.local_shape(rank) for moves in (plan.a, plan.b))
    if not rows * columns:
        return []
    to_a, to_b = plan.a.messages_to(rank), plan.b.messages_to(rank)
    b = edge_boxes(to_b, True, columns)
    ring = ring_of(plan, rank)
    if ring is None and plan.b.summary.moved:
        a = edge_boxes(to_a, True, max(k, 1), 1)
        if all(box.is_whole for box in (*a, *b)):
            return list(_panels(plan, rank, rows, k, (a, b)))
    a = edge_boxes(to_a, True, max(k, 1))
    if ring is not None:
        spans = [span for step in ring.steps for span in _divided(*step, HALVES)]
        hops = [hop for hop, step in enumerate(ring.steps) for _ in _divided(*step, HALVES)]
        needs = _dealt(a, spans)
        first = [tuple(b), *([()] * (len(spans) - 1))]
        return [
            Strip(span, (0, k), got, more, (), False, hop)
            for span, got, more, hop in zip(spans, needs, first, hops, strict=True)
        ]
    return list(_row_strips(plan, rank, (rows, k), (a, b), edge_boxes(plan.c.messages_from(rank), False, columns)))


def _row_strips(
    plan: MeshProductPlan, rank: int, size: tuple[int, int], needs: tuple[list[EdgeBox], list[EdgeBox]],
    gives: list[EdgeBox],
) -> Iterator[Strip]:  # fmt: skip
    (rows, k), (a, b) = size, needs
    spans = _cut(rows, (*a, *gives), any(moves.summary.moved for moves in (plan.a, plan.b, plan.c)))

    def order(span: Span) -> tuple[int, bool, int]:
        senders = [box.other for box in a if box.other != rank and box.clipped(*span)]
        receivers = [box.other for box in gives if box.other != rank and box.clipped(*span)]
        away = [(other - rank) % plan.ranks for other in (*senders, *receivers)]
        return min(len(senders), 1), not receivers, min(away, default=0)

    spans.sort(key=order)
    given = list(_dealt(gives, spans[::-1]))[::-1]  # a box is sent when its last strip is computed
    for number, (span, got, sent) in enumerate(zip(spans, _dealt(a, spans), given, strict=True)):
        yield Strip(span, (0, k), got, () if number else tuple(b), sent)


def _panels(
    plan: MeshProductPlan, rank: int, rows: int, k: int, needs: tuple[list[EdgeBox], list[EdgeBox]]
) -> Iterator[Strip]:
    a, b = needs
    spans = _cut(k, (*a, *b), True)

    def order(span: Span) -> tuple[int, int]:
        senders = [box.other for box in (*a, *b) if box.other != rank and box.clipped(*span)]
        return min(len(senders), 1), min(((other - rank) % plan.ranks for other in senders), default=0)

    spans.sort(key=order)
    gives = edge_boxes(plan.c.messages_from(rank), False, plan.b.target.local_shape(rank)[1])
    last = len(spans) - 1
    for number, (span, left, right) in enumerate(zip(spans, _dealt(a, spans), _dealt(b, spans), strict=True)):
        placed = tuple(box.in_panel(rows, k, span) for box in left)
        yield Strip((0, rows), span, placed, right, tuple(gives) if number == last else (), number > 0)


def _cut(size: int, boxes: Sequence[EdgeBox], moves: bool) -> list[Span]:
    """Spans that end where boxes do; equal ones where none ends inside, or too many do."""
    cuts = sorted({0, size, *(end for box in boxes if box.is_whole for end in (box.first, box.last))})
    if (len(cuts) == 2 and moves) or len(cuts) > MOST + 1:
        return _divided(0, size, EQUAL)
    return list(itertools.pairwise(cuts))


def _divided(first: int, last: int, parts: int) -> list[Span]:
    """A span in about equal parts, of multiples of ALIGNED where there are enough."""
    size = last - first
    unit = ALIGNED if size >= parts * ALIGNED else 1
    cuts = sorted({first, last, *(first + size * part // (parts * unit) * unit for part in range(1, parts))})
    return list(itertools.pairwise(cuts))


def _dealt(boxes: Sequence[EdgeBox], spans: Sequence[Span]) -> Iterator[tuple[EdgeBox, ...]]:
    """For each span what is in it of each box; a box that is not divided belongs to its first span alone."""
    done: set[int] = set()
    for span in spans:
        found = []
        for number, box in enumerate(boxes):
            part = box.clipped(*span)
            if part is not None and number not in done:
                found.append(part)
                if part is box:
                    done.add(number)
        yield tuple(found)


@dataclass(frozen=True, slots=True)
class SumRing:
    """The way of the sums of a block of C around the ranks that multiply parts of it, for one of them.

    `before` sends sums to it, and it sends to `after`. `steps` are the rows of each step, the last of which it keeps.
    """

    before: int
    after: int
    steps: tuple[Span, ...]


def ring_of(plan: MeshProductPlan, rank: int) -> SumRing | None:
    """The ring of a rank, if on every rank the sums that it keeps are whole rows of its block, in their order."""
    if plan.sums == 1:
        return None
    kept = [_kept_rows(plan, other) for other in range(plan.ranks)]
    rings = np.moveaxis(np.arange(plan.ranks).reshape(plan.c.source.sizes), plan.grid.order.index("l"), -1)
    if not all(_tile(plan, [kept[int(one)] for one in ring], ring) for ring in rings.reshape(-1, plan.sums)):
        return None
    ring = next(ring.tolist() for ring in rings.reshape(-1, plan.sums) if rank in ring)
    here = ring.index(rank)
    owners = [ring[(here - 1 - step) % plan.sums] for step in range(plan.sums)]
    steps = tuple(span for owner in owners if (span := kept[owner]) is not None)
    return SumRing(ring[here - 1], ring[(here + 1) % plan.sums], steps)


def _tile(plan: MeshProductPlan, spans: Sequence[Span | None], ring: Array) -> bool:
    """Whether these are all rows of the block of a ring, each once."""
    at = 0
    for span in sorted(span for span in spans if span is not None):
        if span[0] != at and span[1] > span[0]:
            return False
        at = max(at, span[1])
    return None not in spans and at == plan.a.target.local_shape(int(ring[0]))[0]


def _kept_rows(plan: MeshProductPlan, rank: int) -> Span | None:
    """The rows of its block of which a rank keeps the sums, if its part of C has these rows and nothing else."""
    message, columns = plan.c.message(rank, rank), plan.b.target.local_shape(rank)[1]
    n = plan.c.target.capacity(rank)
    if not n:
        return 0, 0
    if len(message.source) != 1 or message.elements != n:
        return None
    here, there = message.source[0], message.target[0]
    rows = here.sizes[0] == here.sizes[2] == 1 and here.sizes[3] == columns and here.offset % columns == 0
    alike = there.offset == 0 and there.strides[1::2] == here.strides[1::2]
    first = here.offset // columns
    return (first, first + here.sizes[1]) if rows and alike else None
