"""The one door to the MLIR Python bindings.

LLVM publishes them as the package `mlir`; PyPI's `torch-mlir` carries the same upstream bindings, with every upstream
dialect and pass registered, as `torch_mlir`. Everything else in this project writes `from lego_mlir import bindings`
and asks for what it needs, so that which package provides it is decided here and nowhere else:

>>> mlir = load()
>>> with mlir.ir.Context(), mlir.ir.Location.unknown():
...     str(mlir.ir.Type.parse("memref<4xf32>"))
'memref<4xf32>'
"""

from __future__ import annotations

import importlib
from functools import cache
from importlib import metadata
from types import ModuleType
from typing import Any, Final

from lego_mlir.errors import DependencyError

# PyPI also holds an unrelated, long dead package called `mlir`: a provider counts only if `<package>.ir` is there.
PROVIDERS: Final = ("mlir", "torch_mlir")
DISTRIBUTIONS: Final = {"mlir": "mlir-python-bindings", "torch_mlir": "torch-mlir"}


class Bindings:
    """The bindings of one provider: `.ir`, `.passmanager`, `.execution_engine` and `.dialect(name)`, loaded late."""

    def __init__(self, package: str) -> None:
        self.package = package

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
        try:
            return f"{self.package} {metadata.version(DISTRIBUTIONS[self.package])}"
        except metadata.PackageNotFoundError:
            return f"{self.package} (version unknown)"


@cache
def load() -> Bindings:
    """The first provider that is installed. Raises DependencyError, with the remedy, where none is."""
    for package in PROVIDERS:
        try:
            importlib.import_module(f"{package}.ir")
        except ImportError:
            continue
        return Bindings(package)
    raise DependencyError(
        "no MLIR Python bindings found (looked for the packages mlir and torch_mlir); run: pip install torch-mlir"
    )
