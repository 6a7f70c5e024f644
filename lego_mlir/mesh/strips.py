"""Strips of rows of a local product: what each needs of A, what it gives of C, and the order in which they run.

A strip is computed when its rows of A have arrived, while those of the next one arrive, and its rows of C are sent
while the next one is computed. So strips end where the rows of one sender end, and those of one receiver; where neither
ends inside, rows are divided into EQUAL strips, if anything moves at all. Strips that need nothing come first, those
whose rows stay last; ranks start with different senders, the next one first.

>>> from lego_mlir.distributions import Chunks, Sharded
>>> from lego_mlir.mesh.products import plan_product
>>> rows = Sharded([512, 64], {"r": 4}, [[("r", Chunks(4))], []])
>>> columns = [Sharded(shape, {"r": 4}, [[], [("r", Chunks(4))]]) for shape in ([64, 256], [512, 256])]
>>> [(strip.first, strip.last) for strip in strips_of(plan_product(rows, *columns), 1)]
[(128, 256), (256, 384), (384, 512), (0, 128)]
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from lego_mlir.mesh.redistribution import Message, StridedBox

if TYPE_CHECKING:
    from lego_mlir.mesh.products import MeshProductPlan

EQUAL: Final = 4
MOST: Final = 16
"""Strips beyond which products would be too small."""


class RowBox(NamedTuple):
    """A pair of boxes of a message; `here` is rows `first` to `last` of a row-major matrix of this rank."""

    other: int
    here: StridedBox
    there: StridedBox
    first: int
    last: int

    def clipped(self, first: int, last: int) -> RowBox | None:
        """What is in these rows; the whole box where its rows are apart. None for nothing."""
        lo, hi = max(first, self.first), min(last, self.last)
        if lo >= hi:
            return None
        if self.here.sizes[0] > 1 or (lo, hi) == (self.first, self.last):
            return self
        here, there = (
            StridedBox(
                box.offset + (lo - self.first) * box.strides[1],
                (1, hi - lo, *box.sizes[2:]),
                box.strides,
            )
            for box in (self.here, self.there)
        )
        return RowBox(self.other, here, there, lo, hi)


@dataclass(frozen=True, slots=True)
class Strip:
    """Rows `first` to `last` of the local product, what arrives for them, and what is sent when they are computed."""

    first: int
    last: int
    needs: tuple[RowBox, ...]
    gives: tuple[RowBox, ...]


def row_boxes(messages: Sequence[Message], received: bool, pitch: int) -> list[RowBox]:
    """The boxes of messages to this rank, or from it, by the rows of its matrix, `pitch` elements apart."""
    found = []
    for m in messages:
        pairs = zip(m.target, m.source, strict=True) if received else zip(m.source, m.target, strict=True)
        for here, there in pairs:
            first = here.offset // pitch
            span = (here.sizes[0] - 1) * here.strides[0] // pitch + here.sizes[1]
            found.append(RowBox(m.sender if received else m.receiver, here, there, first, first + span))
    return found


def strips_of(plan: MeshProductPlan, rank: int) -> list[Strip]:
    """The strips of a rank, in the order in which they run; none for a rank without a part of the product."""
    (rows, k), (_, columns) = (moves.target.local_shape(rank) for moves in (plan.a, plan.b))
    if not rows * columns:
        return []
    needs = row_boxes(plan.a.messages_to(rank), True, max(k, 1))
    gives = row_boxes(plan.c.messages_from(rank), False, columns)
    return list(_strips(plan, rank, rows, needs, gives))


def _strips(plan: MeshProductPlan, rank: int, rows: int, needs: list[RowBox], gives: list[RowBox]) -> Iterator[Strip]:
    cuts = {0, rows, *(end for box in (*needs, *gives) for end in (box.first, box.last) if box.here.sizes[0] == 1)}
    moving = any(moves.summary.moved for moves in (plan.a, plan.b, plan.c))
    if (len(cuts) == 2 and moving and rows >= EQUAL) or len(cuts) > MOST + 1:
        cuts = {rows * part // EQUAL for part in range(EQUAL + 1)}
    ends = sorted(cuts)
    spans = list(itertools.pairwise(ends))

    def order(span: tuple[int, int]) -> tuple[int, bool, int]:
        senders = [box.other for box in needs if box.other != rank and box.clipped(*span)]
        receivers = [box.other for box in gives if box.other != rank and box.clipped(*span)]
        away = [(other - rank) % plan.ranks for other in (*senders, *receivers)]
        return min(len(senders), 1), not receivers, min(away, default=0)

    spans.sort(key=order)
    arrived: set[int] = set()
    left = {number: sum(box.clipped(*span) is not None for span in spans) for number, box in enumerate(gives)}
    for span in spans:
        wanted = []
        for number, box in enumerate(needs):
            part = box.clipped(*span)
            if part is not None and number not in arrived:
                wanted.append(part)
                if part is box:
                    arrived.add(number)
        given = []
        for number, box in enumerate(gives):
            part = box.clipped(*span)
            if part is None:
                continue
            left[number] -= 1
            if part is not box or not left[number]:
                given.append(part)
        yield Strip(*span, tuple(wanted), tuple(given))
