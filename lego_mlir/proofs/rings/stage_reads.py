"""Reads of stages that go on: operands of products in flight, and tile copies that store from a stage.

    issue             the product reads its operands from here on
    arrive            waits for the products in flight; by `products="previous"` for all but the newest, or for none
    first use of a result      waits for this product and all that were issued before it, which complete in order
    a barrier, a loop, the end of the region      waits for all, as `tracing.emit.emit_wgmma` emits it
    wait_copies()     the copies that store have read their stages; an arrival does not wait for these

A read that goes on is an access again on both sides of each arrival that lets it, and where it ends. Sums that go
through products in each round of a loop (`tracing.emit.carried_products`) stay in flight over its edge: the next round,
and what follows the loop, begin with the reads of the round before.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from lego_mlir.aliases import Symbol
from lego_mlir.proofs.rings.agents import FromRoundBefore, StageAccess
from lego_mlir.tracing.trace.trace import (
    Barrier,
    For,
    MatrixLoad,
    MlirOperation,
    Read,
    Register,
    Statement,
    TensorAccess,
    While,
    Write,
    operands_of,
)

if TYPE_CHECKING:
    from lego_mlir.tracing.emit.carried_products import CarriedSums
    from lego_mlir.tracing.trace.wgmma_products import WarpgroupProduct

GROUPS_WAIT: Final = "nvvm.cp.async.wait.group"


@dataclass(eq=False, slots=True)
class GoingOn:
    """A product or a copy that still reads: its accesses, and the numbers of its results, none of a copy's.

    A product of the round before is `carried`; `registers` hold its results.
    """

    accesses: list[StageAccess | FromRoundBefore]
    results: set[int] = field(default_factory=set)
    product: WarpgroupProduct | None = None
    carried: bool = False
    registers: frozenset[Register] = frozenset()


class StageReads:
    """The reads in flight while the statements of an agent are read in order.

    `products` are in the order in which they are issued. `access` gives the stage access of a statement's tensor
    access; `buffers` are the staged ones.
    """

    def __init__(
        self,
        products: Sequence[WarpgroupProduct],
        buffers: Collection[str],
        access: Callable[[Statement, TensorAccess], StageAccess],
    ) -> None:
        self.products = {number: product for product in products for number in product.covered}
        self._order = {id(product): place for place, product in enumerate(products)}
        self._buffers, self._access = buffers, access
        self._flights: list[GoingOn] = []
        self.carried: list[frozenset[Register]] = []  # of the loops around: the registers of sums in flight

    def in_flight(self) -> list[GoingOn]:
        """What still reads, the oldest first."""
        return list(self._flights)

    def of_products(self) -> list[GoingOn]:
        """The products in flight, the oldest first."""
        return [flight for flight in self._flights if flight.product is not None]

    def going_on(self) -> Iterator[StageAccess | FromRoundBefore]:
        """The accesses of all that is in flight."""
        for flight in self._flights:
            yield from flight.accesses

    def begin_store(self, access: StageAccess) -> StageAccess:
        """A tile copy to global memory reads a stage from here on."""
        self._flights.append(GoingOn([access]))
        return access

    def land(self, flights: Sequence[GoingOn]) -> Iterator[StageAccess | FromRoundBefore]:
        """The last accesses of reads that end here."""
        for flight in flights:
            if flight in self._flights:
                self._flights.remove(flight)
                yield from flight.accesses

    def landed_by(self, s: Statement) -> Iterator[StageAccess | FromRoundBefore]:
        """The reads that end in front of a statement; one of a product's own statements begins its reads."""
        product = self._product_of(s)
        if product is not None:
            if isinstance(s, MatrixLoad) and s.access.buffer.name in self._buffers:
                self._begin_read(product, replace(self._access(s, s.access), late=True))
            return
        used = {value.number for value in operands_of(s)}
        if isinstance(s, For | While) or (isinstance(s, Barrier) and s.waits):
            yield from self.land(self.of_products())
        elif isinstance(s, MlirOperation) and s.name == GROUPS_WAIT and dict(s.attributes)["n"].startswith("0"):
            yield from self.land([flight for flight in self._flights if flight.product is None])
        elif isinstance(s, Write) and self.carried and s.register in self.carried[-1]:
            for flight in (f for f in self._flights if s.value.number in f.results):
                flight.registers |= {s.register}
        elif isinstance(s, Read) and any(s.register in flight.registers for flight in self._flights):
            flight = next(flight for flight in self._flights if s.register in flight.registers)
            flight.results.add(s.result.number)
        else:
            yield from self.land(self._until([flight for flight in self._flights if flight.results & used]))

    def _until(self, used: Sequence[GoingOn]) -> list[GoingOn]:
        """The products in flight up to the newest of those used: what the round before issued is older."""

        def issued(flight: GoingOn) -> tuple[bool, int]:
            return not flight.carried, self._order[id(flight.product)]

        newest = max(map(issued, used), default=(False, -1))
        return [flight for flight in self.of_products() if issued(flight) <= newest]

    def _product_of(self, s: Statement) -> WarpgroupProduct | None:
        results = s.results if isinstance(s, MlirOperation) else (getattr(s, "result", None),)
        numbers = [value.number for value in results if value is not None]
        return next((self.products[n] for n in numbers if n in self.products), None)

    def _begin_read(self, product: WarpgroupProduct, access: StageAccess) -> None:
        flight = next((f for f in self._flights if f.product is product and not f.carried), None)
        if flight is None:
            flight = GoingOn([], {n for line in product.results for n in line}, product)
            self._flights.append(flight)
        if access not in flight.accesses:
            flight.accesses.append(access)

    # -- over the edge of a loop

    def enter(self, loop: Symbol, sums: CarriedSums, before: Mapping[int, Sequence[StageAccess]]) -> None:
        """A round begins with the reads of the round before, by the identities of their products."""
        for product, registers in sums:
            accesses: list[StageAccess | FromRoundBefore] = [FromRoundBefore(a, loop) for a in before[id(product)]]
            numbers = {n for line in product.accumulators for n in line}
            self._flights.append(GoingOn(accesses, numbers, product, True, frozenset(registers)))

    def leave(self, sums: CarriedSums) -> dict[int, list[StageAccess]]:
        """A round ends: what its products read goes on, by their identities."""
        found: dict[int, list[StageAccess]] = {}
        for product, _ in sums:
            mine = [f for f in self._flights if f.product is product and not f.carried]
            self._flights = [f for f in self._flights if f not in mine]
            found[id(product)] = [a for f in mine for a in f.accesses if isinstance(a, StageAccess)]
        return found
