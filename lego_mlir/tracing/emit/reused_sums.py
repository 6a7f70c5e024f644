"""Products of the parts of a tile, one after the other: the next one takes the registers of the sums before it.

    sums = lego.mma(upper, b, zeros)            registers r0 .. r63
    totals_0 += scale_0 * sums
    sums = lego.mma(lower, b, zeros)            r0 .. r63 again, when totals_0 are computed
    totals_1 += scale_1 * sums

Code generators see two sets of sums, and that nothing needs totals_0 yet: they compute it after the second product,
and both sets are in registers beside all totals. A tile of 256 x 128 of f8 with scales then spills 300 bytes, and none
with one set.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lego_mlir.tracing.emit.carried_products import flat, numbers_of
from lego_mlir.tracing.trace.dtypes import f32
from lego_mlir.tracing.trace.trace import (
    Constant,
    For,
    If,
    KernelTrace,
    Register,
    Statement,
    While,
    Write,
    operands_of,
    statements_in,
)
from lego_mlir.tracing.trace.wgmma_products import WarpgroupProduct


@dataclass(frozen=True, slots=True)
class PartBefore:
    """The product whose sums another one replaces, and the registers that are written from them until then."""

    product: WarpgroupProduct
    written: tuple[Register, ...]


def reused_sums(trace: KernelTrace) -> dict[int, PartBefore]:
    """The parts before products, by the ids of these: both of one right operand, in one body, from zero on."""
    products = {number: product for product in trace.products for number in product.covered}
    zeros = {s.result.number for s in trace.statements() if isinstance(s, Constant) and s.number == 0}
    uses = Counter(v.number for s in trace.statements() for v in operands_of(s))
    found: dict[int, PartBefore] = {}
    for body in _bodies(trace.body):
        before: WarpgroupProduct | None = None
        between: list[Statement] = []
        for s in flat(body):
            product = next((products[n] for n in numbers_of(s) if n in products), None)
            if product is None or product is before:
                between.append(s)
                continue
            inside = list(statements_in(tuple(between)))
            if before is not None and _follows(product, before, zeros) and _are_used_up(before, inside, uses):
                written = (i.register for i in between if isinstance(i, Write) and i.register.dtype == f32)
                found[id(product)] = PartBefore(before, tuple(dict.fromkeys(r for r in written if r.width is None)))
            before, between = product, []
    return found


def _bodies(body: Sequence[Statement]) -> Iterator[Sequence[Statement]]:
    """A body and those of its loops and branches."""
    yield body
    for s in flat(body):
        if isinstance(s, If):
            yield from _bodies(s.then)
            yield from _bodies(s.otherwise)
        elif isinstance(s, For | While):
            yield from _bodies(s.body)


def _follows(product: WarpgroupProduct, before: WarpgroupProduct, zeros: set[int]) -> bool:
    """Whether two products are of parts that are alike, both from zero on."""
    shapes = {(len(p.results), p.columns, p.width, p.dtype) for p in (product, before)}
    start = {n for p in (product, before) for line in p.accumulators for n in line}
    return product.b == before.b and len(shapes) == 1 and start <= zeros


def _are_used_up(product: WarpgroupProduct, inside: Sequence[Statement], uses: Counter[int]) -> bool:
    """Whether these statements use all sums of a product, and nothing else uses one."""
    here = Counter(v.number for s in inside for v in operands_of(s))
    return all(0 < here[n] == uses[n] for line in product.results for n in line)
