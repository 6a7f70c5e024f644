"""Gradients of grouped products for PyTorch: each form of the product is the gradient of another one.

    c[begin:end] = a[begin:end] @ b[g]          da[begin:end] = dc[begin:end] @ b[g].T
                                                db[g]         = a[begin:end].T @ dc[begin:end]

The gradient of a matrix that was given as the transpose of [G, N, K] is computed as one. What belongs to no group has a
gradient of zero.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from lego_mlir.aliases import Foreign, Tensor
from lego_mlir.runtime.first_derivatives import refusing

Product = Callable[..., "Tensor"]
"""`lego_mlir.grouped_matmul`."""


def differentiable(product: Product, a: Tensor, b: Tensor, offsets: Tensor, result: str, check: bool) -> Tensor:
    """The product with a gradient."""
    if a.ndim == 3:
        return differentiable(product, b.mT, a.mT, offsets, result, check).mT
    found: Tensor = _function(product).apply(a, b, offsets, result, check)
    return found


@cache
def _function(product: Product) -> Foreign:
    """The differentiable function of PyTorch, for a of two dimensions."""
    import torch

    class GroupedProduct(torch.autograd.Function):
        @staticmethod
        def forward(context: Foreign, a: Tensor, b: Tensor, offsets: Tensor, result: str, check: bool) -> Tensor:
            context.save_for_backward(a, b, offsets)
            context.check = check
            return product(a.detach(), b.detach(), offsets, result=result, check=check)

        @staticmethod
        def backward(context: Foreign, gradient: Tensor) -> tuple[Tensor | None, ...]:
            a, b, offsets = context.saved_tensors
            form = {"offsets": offsets, "result": str(a.dtype).removeprefix("torch."), "check": context.check}
            gradient = gradient.to(a.dtype).contiguous()
            wanted = context.needs_input_grad
            with torch.no_grad():
                of_a = _of_left(product, gradient, b, form) if wanted[0] else None
                of_b = _of_right(product, a, b, gradient, form) if wanted[1] else None
            return *refusing("grouped_matmul", (of_a, of_b), (a, b)), None, None, None

    return GroupedProduct


def _of_left(product: Product, gradient: Tensor, b: Tensor, form: Foreign) -> Tensor:
    """The gradient of a: [T, K] for matrices b, [M, T] for b of [T, N]."""
    found = product(gradient, b.mT, **form)
    return _whole(found, form["offsets"], 0 if b.ndim == 3 else 1)


def _of_right(product: Product, a: Tensor, b: Tensor, gradient: Tensor, form: Foreign) -> Tensor:
    """The gradient of b: of its matrices, in their order, or of its rows."""
    if b.ndim == 2:
        return _whole(product(a.mT, gradient, **form), form["offsets"], 0)
    if b.stride(1) == 1 and b.stride(2) != 1:
        return product(gradient.mT, a, **form).mT
    return product(a.mT, gradient, **form)


def _whole(found: Tensor, offsets: Tensor, axis: int) -> Tensor:
    """Zeros after the last group."""
    import torch

    number = torch.arange(found.shape[axis], device=found.device, dtype=offsets.dtype)
    outside = number >= offsets[-1]
    return found.masked_fill(outside[:, None] if axis == 0 else outside, 0)
