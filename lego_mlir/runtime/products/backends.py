"""The kernels of products on devices: packed, or compiled at their first use and kept for the process.

Threads that meet a new kernel together compile it once: the first one does, the others wait for it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lego_mlir.errors import UsageError
from lego_mlir.runtime import packs
from lego_mlir.runtime.calls import loaded
from lego_mlir.runtime.manifest import kernel_from
from lego_mlir.runtime.products import kernels
from lego_mlir.runtime.products.problem import Problem

if TYPE_CHECKING:
    from lego_mlir.kernels.product_classes import PipelinedClass, ProductClass
    from lego_mlir.runtime.launches import CudaBackend
    from lego_mlir.runtime.plans import Backend
    from lego_mlir.toolchain.compile import Compilation

_known: dict[Hashable, Backend] = {}
_loading: Final = threading.RLock()


def forget() -> None:
    """Drop all kernels that are kept."""
    _known.clear()


def _kept(key: Hashable, load: Callable[[], Backend]) -> Backend:
    backend = _known.get(key)
    if backend is None:
        with _loading:
            backend = _known.get(key)
            if backend is None:
                backend = _known[key] = load()
    return backend


def of_product(problem: Problem, device: int, folder: Path | None, *, shared: bool) -> Backend:
    """The kernel of a problem: `shared` by its class, if it has one, where kernels are compiled."""
    found = kernels.class_of(problem) if shared and folder is None else None
    return of_problem(problem, device, folder) if found is None else of_class(found, problem.target, device)


def of_problem(problem: Problem, device: int, folder: Path | None) -> Backend:
    """The kernel for exactly the sizes of a problem. Raises UsageError where a folder lacks it."""
    return _kept((problem, device, folder), lambda: _of_problem(problem, device, folder))


def of_class(found: ProductClass | PipelinedClass, target: str, device: int) -> Backend:
    """The kernel of a class."""
    return _kept((found, target, device), lambda: _of_class(found, target, device))


def of_copy(name: str, target: str, device: int, folder: Path | None) -> Backend:
    """A copy into or out of aligned rows, or along K. Raises UsageError where a folder lacks it."""
    return _kept((name, target, device, folder), lambda: _of_copy(name, target, device, folder))


def _of_problem(problem: Problem, device: int, folder: Path | None) -> Backend:
    p = problem
    if folder is not None:
        remedy = (
            f"add it with lego-mlir pack matmul --sizes {p.m}x{p.n}x{p.k} --dtype {p.dtype} --result {p.result} "
            f"--layouts {p.layouts} --target {p.target} -o {folder}"
        )
        return packed(folder, p.name, remedy).backend(device)
    backend = _loaded(kernels.compiled(p), device, f"{p.name} for {p.target}")
    fitting, grid = backend.clusters_at_once(), backend.entry.grid
    if fitting and p.clusters is None and grid and int(grid[0]) > fitting * backend.entry.cluster:
        return of_problem(replace(p, clusters=fitting), device, folder)
    return backend


def _of_class(found: ProductClass | PipelinedClass, target: str, device: int) -> Backend:
    from lego_mlir.kernels.product_classes import ProductClass

    backend = _loaded(kernels.compiled_class(found, target), device, f"{found.name} for {target}")
    fitting = backend.clusters_at_once()
    if fitting and isinstance(found, ProductClass) and found.clusters > fitting:
        return of_class(replace(found, clusters=fitting), target, device)
    return backend


def _of_copy(name: str, target: str, device: int, folder: Path | None) -> Backend:
    if folder is None:
        return _loaded(kernels.compiled_copy(name, target), device, f"{name} for {target}")
    found = packs.find(folder, name)
    if found is None:
        raise UsageError(
            f"{folder} has no kernel {name}, which products of odd sizes need; pack them again with lego-mlir pack "
            f"matmul --target {target} -o {folder}"
        )
    return found.backend(device)


def packed(folder: Path, name: str, remedy: str) -> packs.PackedKernel:
    """A kernel of a folder. Raises UsageError, with the remedy, where the folder lacks it."""
    found = packs.find(folder, name)
    if found is None:
        known = ", ".join(file.stem for file in packs.code_files(folder))
        raise UsageError(f"{folder} has no kernel {name}; it has: {known}; {remedy}")
    return found


def _loaded(compilation: Compilation, device: int, origin: str) -> CudaBackend:
    (entry,) = (kernel_from(described) for described in compilation.manifest["kernels"])
    return loaded(entry, compilation.bytes, device, origin)
