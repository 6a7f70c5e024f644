"""CPU memory under the name of a GPU: `device="cuda"` in PyTorch makes tensors of the CPU, for the emulator's kernels.

    torch.randn(64, device="cuda")      a tensor of the CPU
    x.cuda(), x.to("cuda:0"), x.cpu()   a copy, since what a kernel does to it must not change x
    x.device, x.is_cuda                 "cuda:0" and True, which projects assert

Streams, events and synchronisation do nothing: a launch has ended when its call returns. Properties are those of the
target. A file or library that asks CUDA itself, beneath PyTorch, is not deceived.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any, Final

TorchObject = Any
"""A value of PyTorch, which is not loaded when types are checked."""
MULTIPROCESSORS: Final = 4
"""Few, so that persistent kernels have few programs."""
DEVICE_NAMES: Final = {80: "NVIDIA A100", 90: "NVIDIA H100", 100: "NVIDIA B200"}
WITHOUT_EFFECT: Final = (
    "init", "_lazy_init", "set_device", "synchronize", "empty_cache", "manual_seed", "manual_seed_all", "set_stream",
    "reset_peak_memory_stats",
)  # fmt: skip
_active: list[TorchObject] = []
"""The mode of this process, which stays until it ends."""


def replaced(value: TorchObject) -> TorchObject:
    """A device of CUDA as the CPU, also inside lists and tuples; other values as they are."""
    import torch

    if isinstance(value, str):
        return "cpu" if value.split(":")[0] == "cuda" else value
    if isinstance(value, torch.device):
        return torch.device("cpu") if value.type == "cuda" else value
    if type(value) in (list, tuple):
        return type(value)(map(replaced, value))
    return value


def _is_device(value: TorchObject) -> bool:
    import torch

    return isinstance(value, torch.device) or (isinstance(value, str) and value.split(":")[0] in ("cuda", "cpu"))


def install(arch: int) -> None:
    """Take CUDA's place in PyTorch, until the process ends. Without PyTorch, or twice, nothing happens."""
    try:
        import torch
        from torch.overrides import TorchFunctionMode
    except ImportError:  # kernels may run on other arrays
        return
    if _active:
        return

    class CudaOnCpu(TorchFunctionMode):
        def __torch_function__(
            self, function: TorchObject, kinds: object, arguments: TorchObject = (), options: TorchObject = None
        ) -> TorchObject:
            options, owner = options or {}, getattr(function, "__self__", None)
            if owner is torch.Tensor.is_cuda:
                return True
            if owner is torch.Tensor.is_cpu:
                return False
            if owner is torch.Tensor.device:
                device = function(*arguments, **options)
                return torch.device("cuda", 0) if device.type == "cpu" else device
            name = getattr(function, "__name__", "")
            named = {key: replaced(value) for key, value in options.items() if key != "pin_memory"}
            if name in ("cuda", "cpu", "pin_memory"):
                return arguments[0].clone(memory_format=torch.preserve_format)
            if name == "to" and any(map(_is_device, (*arguments[1:], *options.values()))):
                return function(*map(replaced, arguments), **{"copy": True, **named})
            return function(*map(replaced, arguments), **named)

    _active.append(CudaOnCpu())
    _active[0].__enter__()
    for name, stand_in in _functions(arch).items():
        setattr(torch.cuda, name, stand_in)


class IdleObject:
    """A stream, event or guard of a device: any method does nothing, and a `with` is entered."""

    cuda_stream = 0
    device_index = 0

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def __enter__(self) -> IdleObject:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def elapsed_time(self, _: object) -> float:
        """Of two events: long, so that a benchmark is not repeated."""
        return 1e6

    def query(self) -> bool:
        """Whether all work has ended: always."""
        return True

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_, **__: None


def _functions(arch: int) -> dict[str, TorchObject]:
    """The names of `torch.cuda` that take another meaning."""
    properties = types.SimpleNamespace(
        name=DEVICE_NAMES.get(arch, f"sm_{arch}"), major=arch // 10, minor=arch % 10, warp_size=32,
        multi_processor_count=MULTIPROCESSORS, total_memory=80 << 30, L2_cache_size=50 << 20,
        max_threads_per_multi_processor=2048, regs_per_multiprocessor=65536, is_integrated=False,
        shared_memory_per_block=48 << 10, shared_memory_per_block_optin=227 << 10,
        shared_memory_per_multiprocessor=228 << 10, gcnArchName="",
    )  # fmt: skip
    idle = IdleObject()
    values: dict[str, object] = {
        "is_available": True, "device_count": 1, "current_device": 0, "is_initialized": True,
        "current_stream": idle, "default_stream": idle, "get_device_name": properties.name,
        "get_device_properties": properties, "get_device_capability": divmod(arch, 10), "is_bf16_supported": True,
        "is_current_stream_capturing": False, "max_memory_allocated": 0, "memory_allocated": 0,
        "mem_get_info": (80 << 30, 80 << 30),
    }  # fmt: skip
    values |= dict.fromkeys(WITHOUT_EFFECT)
    return {name: _returning(value) for name, value in values.items()} | {
        name: type(name, (IdleObject,), {}) for name in ("device", "device_of", "stream", "Stream", "Event")
    }


def _returning(value: object) -> Callable[..., object]:
    """A function of its own for each name: PyTorch's compiler keeps a table of them."""
    return lambda *_, **__: value
