"""Gradients that kernels compute for PyTorch: first derivatives, which refuse to be differentiated again.

Under `create_graph=True` PyTorch records what computes a gradient, and no kernel is recorded: a second derivative would
be without their part, in silence.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from lego_mlir.aliases import Foreign, Tensor
from lego_mlir.errors import UsageError


def refusing(what: str, gradients: Sequence[Tensor | None], given: Sequence[Tensor]) -> tuple[Tensor | None, ...]:
    """The gradients of `what` by the arrays that were given; with an error for their derivatives, if they are recorded.

    The error is a UsageError.
    """
    import torch

    if not torch.is_grad_enabled():
        return tuple(gradients)
    there = [gradient for gradient in gradients if gradient is not None]
    found = iter(_function().apply(what, len(there), *there, *given))
    return tuple(None if gradient is None else next(found) for gradient in gradients)


@cache
def _function() -> Foreign:
    import torch

    class FirstDerivatives(torch.autograd.Function):
        """The first `count` arrays as they are, as a function of all."""

        @staticmethod
        def forward(context: Foreign, what: str, count: int, *arrays: Tensor) -> tuple[Tensor, ...]:
            context.what = what
            return tuple(x.view_as(x) for x in arrays[:count])

        @staticmethod
        def backward(context: Foreign, *gradients: Tensor) -> None:
            raise UsageError(
                f"{context.what} has first derivatives alone, and a gradient of it is differentiated again; take the "
                "gradient without create_graph=True, or compute the second derivative by PyTorch's own operations"
            )

    return FirstDerivatives
