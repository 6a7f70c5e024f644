"""The cached dispatch of a product, for arrays of the same types, shapes and strides."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lego_mlir.aliases import AnyArray, Returned, Tensor
from lego_mlir.errors import UsageError
from lego_mlir.runtime.products.operands import ALIGNMENT

if TYPE_CHECKING:
    from lego_mlir.runtime.exact_kernels import ExactKernel
    from lego_mlir.runtime.plans import Plan

_KEPT: Final = 4096
"""Products of one process; a caller whose shapes change all the time starts over."""
Pointer = Callable[["AnyArray"], int]


@dataclass(frozen=True, slots=True)
class Multiplication:
    """A product bound to types, shapes and strides.

    `otherwise` computes it where its operands are not used in place, or not aligned. `gradients` names the operands
    whose gradients would be lost. `exact` counts the calls of a class's kernel.
    """

    plan: Plan
    pointers: tuple[Pointer, Pointer]
    otherwise: Callable[[Sequence[Tensor]], Returned]
    in_place: bool = True
    gradients: tuple[str, ...] = ()
    exact: ExactKernel | None = None

    def __call__(self, given: Sequence[Tensor]) -> Returned:
        """The product of arrays like those that it was bound to."""
        if self.gradients:
            require_no_gradient(self.gradients)
        if self.exact is not None:
            self.exact.called()
        of_a, of_b = self.pointers
        if not self.in_place or (of_a(given[0]) | of_b(given[1])) % ALIGNMENT:
            return self.otherwise(given)
        return self.plan(given, None)


known: Final[dict[Hashable, Multiplication]] = {}


def keep(key: Hashable, bound: Multiplication) -> Multiplication:
    """Keep what was bound for the next arrays like these."""
    if len(known) >= _KEPT:
        known.clear()
    known[key] = bound
    return bound


def require_no_gradient(names: Sequence[str]) -> None:
    """Refuse tensors whose gradient the product would lose."""
    if sys.modules["torch"].is_grad_enabled():
        raise UsageError(
            f"matmul: {names[0]} requires a gradient, and this product has no derivative; pass {names[0]}.detach(), or "
            "call it under torch.no_grad()"
        )
