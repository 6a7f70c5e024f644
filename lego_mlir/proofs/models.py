"""The models of one kernel: with formulas for the maps of layouts that it calls, and with names for them.

Curves and user-defined permutations have long formulas, which hide that they are bijections: a kernel that calls one is
proved with names first. Maps that are arithmetic on axes split into digits, so that formulas come first. A claim that
one model does not prove is left to the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from typing import Protocol, TypeVar

from lego_mlir.expr.verdict import Proved, Verdict
from lego_mlir.proofs.barriers import barrier_claims
from lego_mlir.proofs.images import by_formulas_first, named_trace
from lego_mlir.proofs.initialised import tile_claims
from lego_mlir.proofs.kernel_model import KernelModel
from lego_mlir.proofs.races import race_claims
from lego_mlir.proofs.rings.claims import RingProof, ring_proof
from lego_mlir.tracing.definition.kernel import Kernel


class Claimed(Protocol):
    """A claim with its verdict."""

    @property
    def text(self) -> str: ...

    @property
    def verdict(self) -> Verdict: ...


C = TypeVar("C", bound=Claimed)


@dataclass
class Models:
    """The models of one kernel, each made when it is needed."""

    kernel: Kernel

    @cached_property
    def rings(self) -> RingProof | None:
        """The proof of the kernel's rings, which are the same in both."""
        return ring_proof(self.kernel.trace())

    @cached_property
    def plain(self) -> KernelModel:
        """The kernel with formulas."""
        return KernelModel(self.kernel.trace(), rings=lambda: self.rings)

    @cached_property
    def named(self) -> KernelModel | None:
        """The kernel with names for the maps that it calls; None if it calls none, or some outside their positions."""
        found = named_trace(self.kernel)
        if found is None:
            return None
        model = KernelModel(*found, rings=lambda: self.rings)
        return model if model.maps_defined() else None

    @property
    def first(self) -> KernelModel:
        """The model with which to begin."""
        return self.plain if by_formulas_first(self.kernel.trace()) else self.named or self.plain

    @cached_property
    def filled(self) -> frozenset[str]:
        """The shared tiles of which every read is proved to come after a write, without a race."""
        if not all(isinstance(claim.verdict, Proved) for claim in barrier_claims(self.first)):
            return frozenset()
        written = {t.buffer.name for t in tile_claims(self.plain) if isinstance(t.verdict, Proved)}
        races = self.proved(lambda model: takewhile(lambda r: r.buffer.space != "global", race_claims(model)))
        return frozenset(written & {race.buffer.name for race in races if isinstance(race.verdict, Proved)})

    def proved(self, claims: Callable[[KernelModel], Iterable[C]]) -> Iterator[C]:
        """The claims, those that are not proved replaced by the other model's if it proves them."""
        first, others = self.first, None
        for claim in claims(first):
            if not isinstance(claim.verdict, Proved) and others is None:
                other = self.named if first is self.plain else self.plain
                others = {} if other is None else {c.text: c for c in claims(other) if isinstance(c.verdict, Proved)}
            yield claim if isinstance(claim.verdict, Proved) or others is None else others.get(claim.text, claim)
