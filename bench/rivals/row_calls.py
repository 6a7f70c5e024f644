"""How kernels of rows are called: ours, PyTorch's compiled, and those of Liger and QuACK."""

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any


def compiled(function: Callable[[], Any]) -> Callable[[], Any]:
    import torch

    return torch.compile(function, dynamic=False)


def launched(kernel: Any, arguments: Sequence[Any], *results: Any) -> Callable[[], Any]:
    """A launch of a kernel, which returns its results."""
    launch = kernel.prepare(*arguments)

    def run() -> Any:
        launch()
        return results

    return run


def backward(function: Callable[..., Any], gradient: Any, *inputs: Any) -> Callable[[], Any]:
    """The gradients of the inputs alone; the function itself runs once, when they are asked for first."""
    import torch

    known: list[Any] = []

    def run() -> Any:
        if not known:
            with torch.enable_grad():
                given = [x.detach().requires_grad_() for x in inputs]
                known.extend((given, function(*given)))
        return torch.autograd.grad(known[1], known[0], gradient, retain_graph=True)

    return run


def liger_op(module: str, name: str) -> Any:
    return getattr(import_module(f"liger_kernel.ops.{module}"), name)


def liger_norm(x: Any, weight: Any) -> Any:
    return liger_op("rms_norm", "LigerRMSNormFunction").apply(x, weight, 1e-6, 0.0, "llama", False)  # not in place


def liger_layer_norm(x: Any, weight: Any, bias: Any) -> Any:
    return liger_op("layer_norm", "LigerLayerNormFunction").apply(x, weight, bias, 1e-6)


def liger_swiglu(a: Any, b: Any) -> Any:
    return liger_op("swiglu", "LigerSiLUMulFunction").apply(a, b)


def quack_package() -> Any:
    import quack

    return quack
