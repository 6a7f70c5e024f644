"""Elements moved by warp shuffles as a plan of `f2.shuffles` lists them.

In a round every lane sends one word and receives one. Which register a lane sends, and where it puts what it received,
are linear functions of the lane: instead of an indexed register, which GPUs do not have, all words pass through one
select for each bit of that function. With b0, b1, .. the values of the function for single bits c0, c1, .. of the lane:

    moved[r] = word[r ^ (c0 ? b0 : 0) ^ (c1 ? b1 : 0) ^ ..]

Elements below 32 bits that travel together share a word: they are one vector, which moves in one instruction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lego_mlir.aliases import Operand
from lego_mlir.expr.index import Condition, Index
from lego_mlir.expr.nodes import Ne
from lego_mlir.f2.linear import LinearLayout
from lego_mlir.f2.matrix import bits_of, combine, independent, solve
from lego_mlir.f2.shuffles import Round, ShufflePlan
from lego_mlir.hardware.limits import WARP
from lego_mlir.tracing.spread.coordinates import thread_ids
from lego_mlir.tracing.trace.dtypes import i1
from lego_mlir.tracing.trace.tracer import Tracer, current
from lego_mlir.tracing.words.scalar import Scalar, as_value, select, vector
from lego_mlir.tracing.words.warps import shuffle_word

Words = Callable[[int], Scalar]
"""A word by its number."""


def shuffled(plan: ShufflePlan, registers: Sequence[Scalar], count: int) -> list[Scalar]:
    """The `count` registers of the target, from the registers of the source."""
    tracer = current("lego.convert")
    lane = lane_of(tracer)
    packed = tuple(combine(plan.register_to_source, p) for p in plan.packed)

    def word(register: int) -> Scalar:
        return packed_word([registers[register ^ combine(packed, k)] for k in range(1 << len(packed))])

    ready = permuted(word, plan.sent, lane)
    reader = LinearLayout.of((("lane", 5),), (("from", 5),), plan.lane_to_source_lane).apply(lane)["from"]
    received: dict[int, Scalar] = {}
    for step in plan.rounds:
        start = combine(plan.register_to_source, step.target_register)
        sent_at = combine(plan.sent, combine(plan.register_to_source_lane, step.target_register))
        received[step.target_register] = _received(plan, step, ready(start ^ sent_at), reader)
    placed = permuted(received.__getitem__, plan.lane_to_target, lane)
    found: dict[int, Scalar] = {}
    for step in plan.rounds:
        whole = placed(step.target_register)
        for k in range(1 << len(plan.packed)):
            element = whole if whole.width is None else whole[k]
            for copy in range(1 << len(plan.copies)):
                found[step.target_register ^ combine(plan.packed, k) ^ combine(plan.copies, copy)] = element
    return [found[register] for register in range(count)]


def lane_of(tracer: Tracer) -> Index:
    """The lane of this thread."""
    ids = thread_ids(tracer)
    return ids["lane"] if "lane" in ids else ids["thread"] % WARP


def packed_word(elements: Sequence[Scalar]) -> Scalar:
    """Elements of one thread as one word."""
    return elements[0] if len(elements) == 1 else vector(*elements)


def permuted(words: Words, shift: Sequence[int], lane: Index) -> Words:
    """The words renumbered by a linear function of the lane: number r becomes `words(r ^ shift(lane))`."""
    basis = independent(shift)
    parts = solve(basis, shift)
    masks = [sum(1 << bit for bit, part in enumerate(parts) if (part or 0) >> k & 1) for k in range(len(basis))]
    stages: list[Words] = [_once(words)]
    for number, mask in zip(basis, masks, strict=True):
        stages.append(_once(_selected(stages[-1], number, odd(lane, mask))))
    return stages[-1]


def odd(number: Index, mask: int) -> Scalar:
    """Whether an odd number of the masked bits of an index are set, as an i1."""
    first, *others = bits_of(mask)
    bit = number & mask
    if others:
        bit = number >> first
        for other in others:
            bit = bit ^ (number >> other)
        bit = bit & 1
    return Scalar(as_value(Condition(Ne(bit.expr, 0)), i1))


def _selected(words: Words, number: int, condition: Scalar) -> Words:
    return lambda r: select(condition, words(r ^ number), words(r))


def _once(words: Words) -> Words:
    """The same words, each made at its first use."""
    known: dict[int, Scalar] = {}

    def word(number: int) -> Scalar:
        if number not in known:
            known[number] = words(number)
        return known[number]

    return word


def _received(plan: ShufflePlan, step: Round, word: Scalar, reader: Operand) -> Scalar:
    """The word that this lane receives in a round."""
    if not step.exchanged:
        return word
    moved = combine(plan.register_to_source_lane, step.target_register)
    if plan.lane_to_source_lane == tuple(1 << k for k in range(len(plan.lane_to_source_lane))):
        return shuffle_word("xor", word, moved)
    return shuffle_word("idx", word, reader ^ moved if moved else reader)
