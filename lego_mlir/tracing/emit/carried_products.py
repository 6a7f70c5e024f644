"""Products of warpgroups that stay in flight over the edge of a loop: their sums go through them in each iteration.

    for k in ..:                                   in iteration k
        acc = lego.mma(a[k], b[k], acc)            the product of k - 1 is in flight until something waits for it
        empty[k - 1].arrive(products="previous")   here, and that of k goes on

What waits for products is listed in `emit_wgmma`; here is which products may go on, for its text and for proofs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from lego_mlir.tracing.trace.marks import TileCopy, WarpRole
from lego_mlir.tracing.trace.trace import (
    For,
    If,
    MlirOperation,
    Read,
    Register,
    Statement,
    Write,
    operands_of,
    statements_in,
)
from lego_mlir.tracing.trace.wgmma_products import SharedMatrix, WarpgroupProduct

CarriedSums = list[tuple[WarpgroupProduct, list[Register]]]
"""Products of a loop, each with the registers that hold its accumulators."""


def carried_sums(loop: For, by_number: Mapping[int, WarpgroupProduct]) -> CarriedSums:
    """The products of a loop whose accumulators are registers that it writes and nothing else in it reads.

    `by_number` has the product of each value that it covers.
    """
    products = {id(p): p for s in flat(loop.body) for n in numbers_of(s) if (p := by_number.get(n))}
    if any(not isinstance(p.a, SharedMatrix) for p in products.values()):
        return []  # the registers of a left operand are read until the product is complete
    inside = list(statements_in(loop.body))
    reads = {s.result.number: s.register for s in inside if isinstance(s, Read)}
    writes = {s.register: s.value.number for s in inside if isinstance(s, Write)}
    read = Counter(s.register for s in inside if isinstance(s, Read))
    covered = frozenset[int]().union(*(p.covered for p in products.values()))
    outside = {v.number for s in inside if not numbers_of(s) & covered for v in operands_of(s)}
    found: CarriedSums = []
    for product in products.values():
        numbers = [n for line in product.accumulators for n in line]
        registers = [reads[n] for n in numbers if n in reads]
        results = [n for line in product.results for n in line]
        if len(registers) < len(numbers) or [writes.get(r) for r in registers] != results:
            return []
        if any(read[r] > 1 for r in registers) or outside & set(numbers):
            return []
        found.append((product, registers))
    return found


def flat(body: Sequence[Statement]) -> Iterator[Statement]:
    """The statements of a body, with those of words in their place."""
    for statement in body:
        if isinstance(statement, If) and is_word(statement):
            yield from flat(statement.then)
        else:
            yield statement


def is_word(branch: If) -> bool:
    """Whether a branch always runs, and is what its statements are."""
    return branch.mark is not None and not isinstance(branch.mark, WarpRole | TileCopy)


def numbers_of(statement: Statement) -> set[int]:
    """The numbers of what a statement defines."""
    if isinstance(statement, MlirOperation):
        return {value.number for value in statement.results}
    result = getattr(statement, "result", None)
    return set() if result is None else {result.number}
