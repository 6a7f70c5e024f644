"""The kernels of products on devices: packed, or compiled at their first use and kept for the process and on disk.

    a problem ──disk──► code                  a process that meets a known problem chooses nothing
        └─► its class, or its sizes ──disk──► code
                └─► compiled

Threads and processes that meet a new kernel together compile it once: the first one does, the others wait for it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from lego_mlir.errors import UsageError
from lego_mlir.runtime import first_calls, packs
from lego_mlir.runtime.calls import loaded
from lego_mlir.runtime.first_calls import KeptKernel
from lego_mlir.runtime.products import kernels
from lego_mlir.runtime.products.problem import Problem

if TYPE_CHECKING:
    from lego_mlir.kernels.product_classes import PipelinedClass, ProductClass
    from lego_mlir.runtime.plans import Backend

_known: dict[Hashable, Any] = {}
_of_classes: set[tuple[Problem, int]] = set()
OF_CLASS: Final = "of a class"
"""The fact of a kept kernel that it takes other sizes as well."""
_loading: Final = threading.RLock()
Made = TypeVar("Made")


def forget() -> None:
    """Drop all kernels that are kept."""
    _known.clear()
    _of_classes.clear()


def _kept(key: Hashable, make: Callable[[], Made]) -> Made:
    found: Made | None = _known.get(key)
    if found is None:
        with _loading:
            found = _known.get(key)
            if found is None:
                found = _known[key] = make()
    return found


def of_product(problem: Problem, device: int, folder: Path | None, *, shared: bool) -> Backend:
    """The kernel of a problem: `shared` by its class, if it has one, where kernels are compiled."""
    if not shared or folder is not None:
        return of_problem(problem, device, folder)

    def load() -> Backend:
        kernel = first_calls.kernel_of(call_of(problem), lambda: _of_class_or_size(problem))
        if kernel.facts.get(OF_CLASS):
            _of_classes.add((problem, device))
        return _loaded(kernel, problem, device)

    return _kept((*call_of(problem), device), load)


def call_of(problem: Problem) -> tuple[str, Problem]:
    """What the kernel of a problem is kept by on disk, that of a class or of exactly its sizes."""
    return "product", problem


def is_of_class(problem: Problem, device: int) -> bool:
    """Whether the kernel of a problem that was taken last is that of a class."""
    return (problem, device) in _of_classes


def compile_exact(problem: Problem) -> None:
    """Compile the exact kernel of a problem, and keep it on disk as what computes the problem."""
    first_calls.write(first_calls.key(call_of(problem)), of_sizes(problem))


def drop(problem: Problem, device: int) -> None:
    """Look for the kernel of a problem on disk anew."""
    _known.pop((*call_of(problem), device), None)
    _of_classes.discard((problem, device))


def of_problem(problem: Problem, device: int, folder: Path | None) -> Backend:
    """The kernel for exactly the sizes of a problem. Raises UsageError where a folder lacks it."""
    return _kept((problem, device, folder), lambda: _of_problem(problem, device, folder))


def of_copy(name: str, target: str, device: int, folder: Path | None) -> Backend:
    """A copy into or out of aligned rows, or along K. Raises UsageError where a folder lacks it."""
    return _kept((name, target, device, folder), lambda: _of_copy(name, target, device, folder))


def _of_problem(problem: Problem, device: int, folder: Path | None) -> Backend:
    p = problem
    if folder is None:
        return _loaded(of_sizes(p), p, device)
    remedy = (
        f"add it with lego-mlir pack matmul --sizes {p.m}x{p.n}x{p.k} --dtype {p.dtype} --result {p.result} "
        f"--layouts {p.layouts} --target {p.target} -o {folder}"
    )
    return packed(folder, p.name, remedy).backend(device)


def _of_class_or_size(problem: Problem) -> KeptKernel:
    found = kernels.class_of(problem)
    return of_sizes(problem) if found is None else of_class(found, problem.target)


def of_sizes(problem: Problem) -> KeptKernel:
    """The code for exactly the sizes of a problem."""
    call = ("sizes", problem)
    return first_calls.kernel_of(call, lambda: first_calls.of_compilation(kernels.compiled(problem)))


def of_class(found: ProductClass | PipelinedClass, target: str) -> KeptKernel:
    """The code of a class."""
    call = ("class", found, target)

    def compiled() -> KeptKernel:
        return first_calls.of_compilation(kernels.compiled_class(found, target), {OF_CLASS: 1})

    return _kept(call, lambda: first_calls.kernel_of(call, compiled))


def _of_copy(name: str, target: str, device: int, folder: Path | None) -> Backend:
    if folder is None:
        made = first_calls.kernel_of(
            ("copy", name, target), lambda: first_calls.of_compilation(kernels.compiled_copy(name, target))
        )
        return loaded(made.entry, made.code, device, f"{name} for {target}")
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


def _loaded(kernel: KeptKernel, problem: Problem, device: int) -> Backend:
    return loaded(kernel.entry, kernel.code, device, f"{problem.name} for {problem.target}")
