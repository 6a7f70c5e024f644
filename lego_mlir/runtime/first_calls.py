"""Compiled kernels on disk by the call that needs them: a new process finds its code before it imports a compiler.

An entry of the cache is JSON, how to launch the kernel and facts to compare, and names the code, which calls share. Its
key is a digest of all that the code depends on, so that nothing is traced to look it up:

    the call       what chooses the kernel: a problem, a form, or the fingerprint of a user's kernel
    the device     target, multiprocessors; never its number
    the package    the contents of all its files
    the tools      versions of Python, the MLIR bindings, LLVM, SymPy and Z3, and what chooses among them

Processes that need the same kernel at the same time compile it once (`compile_lock`). An entry that is not whole counts
as absent. Nothing here imports NumPy, SymPy, Z3 or MLIR.
"""

from __future__ import annotations

import gc
import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lego_mlir.errors import CacheError
from lego_mlir.runtime import manifest
from lego_mlir.runtime.compile_lock import only_one
from lego_mlir.store import Cache, default_folder, from_json

if TYPE_CHECKING:
    from lego_mlir.runtime.manifest import KernelEntry
    from lego_mlir.toolchain.compile import Compilation

_FORMAT: Final = b"first call 1"
_TOOLS: Final = ("torch_mlir", "mlir_python_bindings", "llvmlite", "z3_solver", "sympy", "numpy", "ml_dtypes")
_CHOOSING: Final = ("LEGO_MLIR_BINDINGS",)
"""Environment variables that choose among tools."""


@dataclass(frozen=True, slots=True)
class KeptKernel:
    """A compiled kernel: how to launch it, its code, and what was known of the device when it was chosen."""

    described: Mapping[str, Any]
    code: bytes
    facts: Mapping[str, int] = field(default_factory=dict)

    @property
    def entry(self) -> KernelEntry:
        """The launch."""
        return manifest.kernel_from(self.described)


def of_compilation(compilation: Compilation, facts: Mapping[str, int] | None = None) -> KeptKernel:
    """The only kernel of a compilation."""
    (described,) = compilation.manifest["kernels"]
    return KeptKernel(described, compilation.bytes, facts or {})


def kernel_of(call: object, make: Callable[[], KeptKernel], folder: Path | None = None) -> KeptKernel:
    """The kernel of a call, from the disk, or made and kept there; `call` has the same `repr` in every process.

    `folder` is that of the cache, if it is not the user's.
    """
    digest = key(call)
    try:
        folder = folder or default_folder()
    except CacheError:  # of a user without a home
        return make()
    found = read(digest, folder)
    if found is not None:
        return found
    with only_one(folder, digest) as waited:
        found = read(digest, folder) if waited else None
        if found is None:
            with uncollected():
                found = make()
            with suppress(CacheError):  # of a folder that others can write to, where nothing was read either
                write(digest, found, folder)
    return found


@contextmanager
def uncollected() -> Iterator[None]:
    """Without the collection of cycles: a compilation keeps what it derives, and each collection walks all of that."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@cache
def package() -> bytes:
    """A digest of every file of this package and of the transform scripts."""
    root = Path(__file__).parents[1]
    beside = root.parent / "transform_scripts"  # installed, they are in the package
    return contents(root) + (contents(beside) if beside.is_dir() else b"")


def contents(root: Path) -> bytes:
    """A digest of the names and contents of all files of a folder, but for what Python makes of its sources."""
    digest, folders = hashlib.sha256(), [str(root)]
    while folders:
        for entry in sorted(os.scandir(folders.pop()), key=lambda found: found.name):
            if entry.is_dir():
                if entry.name != "__pycache__":
                    folders.append(entry.path)
            else:  # compiled code that is not in such a folder is a package's without sources
                body = Path(entry.path).read_bytes()
                digest.update(f"{os.path.relpath(entry.path, root)}\0{len(body)}\0".encode())
                digest.update(body)
    return digest.digest()


@cache
def tools() -> bytes:
    """The versions of the installed tools, from the names of their folders of metadata; nothing is imported."""
    found = dict.fromkeys(_TOOLS, "")
    for folder in sys.path:
        try:
            names = [path.name for path in Path(folder or ".").iterdir()]
        except OSError:
            continue
        for name in names:
            project = name.removesuffix(".egg-info").split("-", 1)[0].lower()
            if name.endswith((".dist-info", ".egg-info")) and found.get(project) == "":  # the first one is imported
                found[project] = _named_version(Path(folder or ".") / name)
    chosen = [os.environ.get(name, "") for name in _CHOOSING]
    return repr((sys.version, sys.platform, sorted(found.items()), chosen)).encode()


def _named_version(metadata: Path) -> str:
    """What tells versions apart: the folder's name, or its description where a source tree's name has no version."""
    if "-" in metadata.name.removesuffix(metadata.suffix):
        return metadata.name
    try:
        return hashlib.sha256((metadata / "PKG-INFO").read_bytes()).hexdigest()
    except OSError:
        return metadata.name


def key(call: object) -> str:
    """The key of a call."""
    digest = hashlib.sha256()
    for part in (_FORMAT, package(), tools(), call if isinstance(call, bytes) else repr(call).encode()):
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()


def read(digest: str, folder: Path | None = None) -> KeptKernel | None:
    """What is kept under a key; None where there is nothing, or it is not whole."""
    try:
        kept = Cache(folder or default_folder())
        stored = kept.read(digest)
        if stored is None:
            return None
        described: Any = from_json(stored)
        code = kept.read(described["code"])
        return None if code is None else KeptKernel(described["kernel"], code, described["facts"])
    except (CacheError, ValueError, KeyError, TypeError):
        return None


def write(digest: str, kernel: KeptKernel, folder: Path | None = None) -> None:
    """Keep a kernel under a key; keys with equal code share it."""
    kept, shared = Cache(folder or default_folder()), hashlib.sha256(b"code\0" + kernel.code).hexdigest()
    if kept.read(shared) is None:
        kept.write(shared, kernel.code)
    described = {"kernel": kernel.described, "facts": dict(kernel.facts), "code": shared}
    kept.write(digest, json.dumps(described).encode())
