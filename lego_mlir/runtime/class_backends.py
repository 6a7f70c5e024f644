"""Kernels of `lego_mlir.matmul` by class, compiled once in a process for all sizes that take the same kernel.

Threads that meet a new class together compile it once: the first one does, the others wait for it.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from lego_mlir.runtime.calls import loaded
from lego_mlir.runtime.manifest import kernel_from

if TYPE_CHECKING:
    from lego_mlir.kernels.product_classes import PipelinedClass, ProductClass
    from lego_mlir.runtime.plans import Backend
    from lego_mlir.toolchain.compile import Compilation

_known: dict[tuple[ProductClass | PipelinedClass, str, int], Backend] = {}
_loading: Final = threading.Lock()


def backend_of(found: ProductClass | PipelinedClass, target: str, device: int) -> Backend:
    """The kernel of a class on a device."""
    key = (found, target, device)
    backend = _known.get(key)
    if backend is None:
        with _loading:
            backend = _known.get(key)
            if backend is None:
                backend = _known[key] = _loaded(found, target, device)
    return backend


def forget() -> None:
    """Drop all kernels that are kept."""
    _known.clear()


def _loaded(found: ProductClass | PipelinedClass, target: str, device: int) -> Backend:
    from lego_mlir.kernels.product_classes import ProductClass

    compilation = compiled_class(found, target)
    (entry,) = (kernel_from(described) for described in compilation.manifest["kernels"])
    backend = loaded(entry, compilation.bytes, device, f"{found.name} for {target}")
    fitting = backend.clusters_at_once()
    if fitting and isinstance(found, ProductClass) and found.clusters > fitting:
        return _loaded(replace(found, clusters=fitting), target, device)
    return backend


def compiled_class(found: ProductClass | PipelinedClass, target: str) -> Compilation:
    """The compilation of a class's kernel, through the cache."""
    from lego_mlir.toolchain import Cache, compile_kernel, default_folder

    return compile_kernel(
        found.kernel(), transform=found.script, parameters=found.parameters,
        target=target if found.script == "matmul_sm90.mlir" else target.rstrip("a"), emit="ptx",
        cache=Cache(default_folder()),
    )  # fmt: skip
