"""The cached dispatch of a product, for arrays of the same types, shapes and strides."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lego_mlir.aliases import AnyArray, Returned, Tensor
from lego_mlir.errors import UsageError
from lego_mlir.runtime.binding import DenseShape
from lego_mlir.runtime.products.operands import ALIGNMENT, ArrayOperand

if TYPE_CHECKING:
    from lego_mlir.runtime.calls import Calls
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


def gradients_of(operands: Sequence[ArrayOperand]) -> tuple[str, ...]:
    """The operands that require a gradient. Raises UsageError where PyTorch records, since the product has none."""
    names = tuple(operand.name for operand in operands if operand.facts.needs_gradient)
    if names:
        require_no_gradient(names)
    return names


def called(
    calls: Calls, operands: Sequence[ArrayOperand], views: Sequence[ArrayOperand], named: Mapping[str, int],
    shape: Sequence[int], otherwise: Callable[[Sequence[Tensor]], Tensor], key: Hashable, *, check: bool = False,
    gradients: tuple[str, ...] = (),
) -> Tensor:  # fmt: skip
    """The product of `views` of operands, kept by the `key`, if there is one, where all operands are used in place."""
    arrays, used = [operand.array for operand in operands], [view.array for view in views]
    if key is None or not all(operand.begins_at(view) for operand, view in zip(operands, views, strict=True)):
        found: Tensor = calls.call(used, named, None, check)
        return found
    plan = calls.plan_of_views(used, arrays, named, [DenseShape.rows(*shape)], check)
    pointers = operands[0].library.pointer, operands[1].library.pointer
    product: Tensor = keep(key, Multiplication(plan, pointers, otherwise, gradients=gradients))(arrays)
    return product
