"""The only importer of the MLIR Python bindings.

LLVM publishes them as the package `mlir`; PyPI's `torch-mlir` carries the same upstream bindings, with every upstream
dialect and pass registered, as `torch_mlir`. Everything else in this project imports
`lego_mlir.bindings`, so that the choice of the package is made here only. The variable LEGO_MLIR_BINDINGS, `mlir` or
`torch_mlir`, chooses among those that are installed:

>>> mlir = load()
>>> with mlir.ir.Context(), mlir.ir.Location.unknown():
...     str(mlir.ir.Type.parse("memref<4xf32>"))
'memref<4xf32>'
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from lego_mlir.errors import DependencyError

if TYPE_CHECKING:
    from lego_mlir.aliases import Context

# Other packages are called `mlir` too, a long dead one on PyPI among them: a provider counts only with all of these.
NEEDED: Final = {
    "ir": ("Context", "Location", "Module", "MLIRError"),
    "passmanager": ("PassManager",),
    "dialects.gpu": ("GPUModuleOp",),
    "dialects.transform.interpreter": ("apply_named_sequence",),
}
PROVIDERS: Final = ("mlir", "torch_mlir")
CHOICE: Final = "LEGO_MLIR_BINDINGS"
"""The environment variable that chooses a provider."""
SESSIONS: Final = 200
"""Uses of a context before it is dropped: it keeps each type, attribute and location that it has ever made."""
DISTRIBUTIONS: Final = {"mlir": "mlir-python-bindings", "torch_mlir": "torch-mlir"}


class Bindings:
    """The bindings of one provider: `.ir`, `.passmanager`, `.execution_engine` and `.dialect(name)`, loaded late."""

    def __init__(self, package: str, passed_over: tuple[str, ...] = ()) -> None:
        self.package = package
        self.passed_over = passed_over  # packages that come before it and lack what is needed, with the reason

    def module(self, name: str) -> ModuleType:
        """The submodule `name` of the provider, such as `dialects.gpu`. Raises DependencyError if it lacks it."""
        try:
            return importlib.import_module(f"{self.package}.{name}")
        except ImportError as error:
            raise DependencyError(
                f"the MLIR bindings in '{self.package}' have no '{name}' ({error}); install a newer torch-mlir"
            ) from error

    @property
    def ir(self) -> Any:
        return self.module("ir")

    @property
    def passmanager(self) -> Any:
        return self.module("passmanager")

    @property
    def execution_engine(self) -> Any:
        return self.module("execution_engine")

    def dialect(self, name: str) -> Any:
        """The generated operation builders of one dialect: `dialect("gpu").BarrierOp()`."""
        return self.module(f"dialects.{name}")

    @property
    def version(self) -> str:
        """The provider's distribution and version, as `doctor` and cache keys need it."""
        from importlib import metadata  # which takes a tenth of the time in which a spec is read

        try:
            return f"{self.package} {metadata.version(DISTRIBUTIONS[self.package])}"
        except metadata.PackageNotFoundError:
            return f"{self.package} (version unknown)"


@cache
def load() -> Bindings:
    """The first provider that has what is needed. Raises DependencyError, with the remedy, where none has."""
    passed_over: list[str] = []
    wanted = os.environ.get(CHOICE)
    if wanted and wanted not in PROVIDERS:
        raise DependencyError(f"{CHOICE}={wanted}: the MLIR bindings are {' or '.join(PROVIDERS)}")
    for package in [wanted] if wanted else PROVIDERS:
        if importlib.util.find_spec(package) is None:
            continue
        lacking = _lacking(package)
        if lacking is None:
            return Bindings(package, tuple(passed_over))
        passed_over.append(f"the package {package} {lacking}")
    sought = f"{CHOICE} asks for {wanted}" if wanted else f"looked for the packages {' and '.join(PROVIDERS)}"
    found = "; ".join(passed_over) or sought
    raise DependencyError(f"no MLIR Python bindings found ({found}); run: pip install torch-mlir")


def _lacking(package: str) -> str | None:
    """What keeps a package from being used, if anything does."""
    for name, attributes in NEEDED.items():
        try:
            module = importlib.import_module(f"{package}.{name}")
        except Exception as error:  # whatever a package of that name does when it is loaded
            return f"cannot load '{name}' ({type(error).__name__}: {error})"
        for attribute in attributes:
            if not hasattr(module, attribute):
                return f"has no '{name}.{attribute}'"
    return None


class _Idle(threading.local):
    """The contexts that this thread used and can use again, with the sessions that each had."""

    def __init__(self) -> None:
        self.contexts: list[tuple[Context, int]] = []
        self.reading: tuple[Context, int] | None = None


_IDLE: Final = _Idle()


@contextmanager
def context() -> Iterator[Context]:
    """A context with every dialect, entered; without threads, and with registered operations only.

    Loading the dialects takes several milliseconds, more than most uses of a context: the thread's next session takes
    over a context whose session ended without an exception. A session inside another one has a different context.
    Nothing that a session made may outlive it.
    """
    found, sessions = _IDLE.contexts.pop() if _IDLE.contexts else (load().ir.Context(), 0)
    found.enable_multithreading(False)
    found.allow_unregistered_dialects = False
    with found:
        yield found
    if sessions + 1 < SESSIONS:
        _IDLE.contexts.append((found, sessions + 1))


def reading_context() -> Context:
    """A context with every dialect for a module that is only read, shared with others that this thread reads.

    Such modules may outlive the call and be read by other threads: no pass runs in this context.
    """
    found, modules = _IDLE.reading or (load().ir.Context(), 0)
    found.enable_multithreading(False)
    _IDLE.reading = (found, modules + 1) if modules + 1 < SESSIONS else None
    return found
