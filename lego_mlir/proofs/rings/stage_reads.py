"""Reads of stages that go on: operands of products in flight, and tile copies that store from a stage.

    issue             the product reads its operands from here on
    arrive            waits for the products in flight, unless it says `products=False`
    first use of a result, a barrier, a loop, the end of the region      waits too, as `tracing.emit_wgmma` emits it
    wait_copies()     the copies that store have read their stages

A read that goes on is an access again on both sides of each arrival that lets it, and where it ends.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from lego_mlir.proofs.rings.agents import StageAccess
from lego_mlir.tracing.trace import (
    Barrier,
    For,
    MatrixLoad,
    MlirOperation,
    Statement,
    TensorAccess,
    While,
    operands_of,
)

if TYPE_CHECKING:
    from lego_mlir.tracing.wgmma_products import WarpgroupProduct

GROUPS_WAIT: Final = "nvvm.cp.async.wait.group"


@dataclass(eq=False, slots=True)
class GoingOn:
    """A product or a copy that still reads: its accesses, and the numbers of its results, none of a copy's."""

    accesses: list[StageAccess]
    results: frozenset[int] = frozenset()
    product: WarpgroupProduct | None = None


class StageReads:
    """The reads in flight while the statements of an agent are read in order.

    `access` gives the stage access of a statement's tensor access; `buffers` are the staged ones.
    """

    def __init__(
        self,
        products: Sequence[WarpgroupProduct],
        buffers: Collection[str],
        access: Callable[[Statement, TensorAccess], StageAccess],
    ) -> None:
        self._products = {number: product for product in products for number in product.covered}
        self._buffers, self._access = buffers, access
        self._flights: list[GoingOn] = []

    def in_flight(self) -> list[GoingOn]:
        """What still reads, the oldest first."""
        return list(self._flights)

    def going_on(self) -> Iterator[StageAccess]:
        """The accesses of all that is in flight."""
        for flight in self._flights:
            yield from flight.accesses

    def begin_store(self, access: StageAccess) -> StageAccess:
        """A tile copy to global memory reads a stage from here on."""
        self._flights.append(GoingOn([access]))
        return access

    def land(self, flights: Sequence[GoingOn]) -> Iterator[StageAccess]:
        """The last accesses of reads that end here."""
        for flight in flights:
            if flight in self._flights:
                self._flights.remove(flight)
                yield from flight.accesses

    def landed_by(self, s: Statement) -> Iterator[StageAccess]:
        """The reads that end in front of a statement; one of a product's own statements begins its reads."""
        product = self._product_of(s)
        if product is not None:
            if isinstance(s, MatrixLoad) and s.access.buffer.name in self._buffers:
                self._begin_read(product, replace(self._access(s, s.access), late=True))
            return
        used = {value.number for value in operands_of(s)}
        if isinstance(s, For | While) or (isinstance(s, Barrier) and s.waits):
            yield from self.land([flight for flight in self._flights if flight.product is not None])
        elif isinstance(s, MlirOperation) and s.name == GROUPS_WAIT and dict(s.attributes)["n"].startswith("0"):
            yield from self.land([flight for flight in self._flights if flight.product is None])
        else:
            yield from self.land([flight for flight in self._flights if flight.results & used])

    def _product_of(self, s: Statement) -> WarpgroupProduct | None:
        results = s.results if isinstance(s, MlirOperation) else (getattr(s, "result", None),)
        numbers = [value.number for value in results if value is not None]
        return next((self._products[n] for n in numbers if n in self._products), None)

    def _begin_read(self, product: WarpgroupProduct, access: StageAccess) -> None:
        flight = next((flight for flight in self._flights if flight.product is product), None)
        if flight is None:
            flight = GoingOn([], frozenset(n for line in product.results for n in line), product)
            self._flights.append(flight)
        if access not in flight.accesses:
            flight.accesses.append(access)
