"""Conditions on the sizes of a launch: what proofs assume, and what a launch checks.

`lego.require(M <= N)` in a kernel states a condition on sizes; proofs of the kernel's accesses assume it. The relations
of sizes, `lego.size("M", max=N)`, and the claims of layouts are conditions of the same kind. None of them costs the
kernel an instruction: sizes that do not satisfy them are refused before it starts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sympy

from lego_mlir.aliases import Cond
from lego_mlir.errors import LegoError
from lego_mlir.expr.index import Condition, as_expr
from lego_mlir.expr.nodes import Divisor, Eq, FloorDiv, FloorMod, Le, ShiftLeft, Size
from lego_mlir.tracing.trace.tracer import current

if TYPE_CHECKING:
    from lego_mlir.tracing.definition.kernel import Kernel
    from lego_mlir.tracing.trace.spec_line import Source


@dataclass(frozen=True, slots=True)
class Requirement:
    """A condition on sizes, the text that states it in a message, and the line of the spec."""

    condition: Cond
    text: str
    source: Source

    def unmet(self, sizes: Mapping[str, int]) -> str:
        """The message for sizes that do not satisfy it; empty where they do."""
        from lego_mlir.expr.evaluate import evaluate  # with NumPy

        names = sorted(str(symbol) for symbol in self.condition.free_symbols)
        if any(name not in sizes for name in names) or evaluate(self.condition, sizes):
            return ""
        values = ", ".join(f"{name} = {sizes[name]}" for name in names)
        return f"{self.source}: the kernel requires {self.text}, which fails for {values}"


def require(condition: Condition | bool) -> None:
    """State a condition on sizes that holds at every launch: `lego.require(M <= N)`. A launch checks it.

    Raises TraceError for a condition on anything but sizes, or one that holds for no sizes.
    """
    tracer = current("lego.require")
    wanted = tracer.condition(condition)
    if not all(isinstance(symbol, Size) for symbol in wanted.free_symbols):
        raise tracer.error(
            f"lego.require({wanted}) takes a condition on sizes, which a launch can check; guard an access with "
            "`with lego.when(..):`, or claim the range of data with lego.index(v, range=(lo, hi))"
        )
    if wanted == False:  # noqa: E712  SymPy's false is not Python's
        raise tracer.error("lego.require of a condition that no sizes satisfy")
    if wanted != True:  # noqa: E712
        tracer.assume(wanted)
        tracer.requirements.append(Requirement(wanted, str(wanted), tracer.here()))


def of_relations(sizes: tuple[Any, ...], source: Source) -> Iterator[Requirement]:
    """The relations of a kernel's sizes as requirements."""
    for size in sizes:
        if size.below is not None:
            yield Requirement(Le(size, size.below), f"{size} <= {size.below}", source)
        if size.equals is not None:
            yield Requirement(Eq(size, size.equals), f"{size} == {size.equals}", source)
        if isinstance(size, Divisor):
            packed, one = size.reciprocal, sympy.Integer(1)
            s = FloorDiv(packed, sympy.Integer(1 << 32))
            yield Requirement(Le(size, ShiftLeft(one, s - 31)), f"{size} <= 2**(({packed} >> 32) - 31)", source)
            exact = Eq(packed, (1 << 32) * s + FloorDiv(ShiftLeft(one, s) + size - 1, size))
            yield Requirement(exact, f"{packed} is that of {size}, as schedule.arguments computes it", source)


def of_layouts(kernel: Kernel) -> Iterator[Requirement]:
    """What the layouts of a kernel's tensors claim."""
    for parameter, kind in kernel.signature.items():
        layout = getattr(kind, "layout", None)
        for claim in () if layout is None else layout.claims():
            yield Requirement(claim, f"that the strides of {parameter} are one-to-one", kernel.source)


def of_clusters(kernel: Kernel) -> Iterator[Requirement]:
    """A grid of known size at launch must consist of whole clusters."""
    for axis, n, c in zip("xyz", kernel.grid, kernel.cluster, strict=False):
        claim = True if c == 1 or isinstance(n, int) else Eq(FloorMod(as_expr(n), c), 0)
        if claim != True:  # noqa: E712
            yield Requirement(claim, f"whole clusters: grid {axis}, {n}, is a multiple of {c}", kernel.source)


def refuse(requirements: tuple[Requirement, ...], sizes: Mapping[str, int], error: type[LegoError]) -> None:
    """Raise `error` for sizes that do not satisfy a requirement."""
    for requirement in requirements:
        if message := requirement.unmet(sizes):
            raise error(message)
