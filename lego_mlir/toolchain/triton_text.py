"""Triton's compiler: a text with kernels of `triton.jit` becomes a cubin, and what a launch of it needs.

The only module that imports Triton. Neither a GPU nor PyTorch is needed, and nothing of the front end: the same text is
compiled on the machine that measures it. A launch through the driver follows from the PTX: the threads of a block are
those of `.reqntid`, and parameters after those of the source are Triton's own, memory for descriptors and for its
profiler:

>>> entry_of(".visible .entry f(\\n .param .u64 f_param_0,\\n .param .u64 f_param_1\\n)\\n.reqntid 128\\n{ ret; }", "f")
(128, 2)
"""

from __future__ import annotations

import importlib.util
import re
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Final

from lego_mlir.aliases import Foreign, Given
from lego_mlir.errors import DependencyError, TemplateError
from lego_mlir.hardware.limits import WARP
from lego_mlir.store import make_kept, replace_file

REMEDY: Final = "install it with: pip install triton"
_LOADING: Final = threading.Lock()
"""A module is listed before its text has run: other threads wait until it has."""


def require() -> Foreign:
    """The module triton. Raises DependencyError, with the remedy, if it is not installed."""
    try:
        import triton
    except ImportError as error:
        raise DependencyError(f"a Triton kernel needs the package triton, which is not installed; {REMEDY}") from error
    return triton


def version() -> str:
    """Triton's version, or "none"."""
    try:
        return str(require().__version__)
    except DependencyError:
        return "none"


def module_of(text: str, name: str, origin: str, folder: Path) -> ModuleType:
    """The text as a module; its file is kept in the folder for Triton and tracebacks, equal texts share a module.

    `origin` names the text in messages. Raises TemplateError for a text that is not Python.
    """
    require()
    with _LOADING:
        return _loaded(text, name, origin, folder)


def _loaded(text: str, name: str, origin: str, folder: Path) -> ModuleType:
    if name in sys.modules:
        return sys.modules[name]
    path = folder / f"{name}.py"
    make_kept(folder)
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        replace_file(path, text.encode())
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise TemplateError(f"{path}: cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        if isinstance(error, SyntaxError):
            raise TemplateError(f"{origin}: the rendered text, {path}: {error}") from error
        raise
    return module


@dataclass(frozen=True, slots=True)
class TritonCode:
    """A kernel compiled by Triton, and its launch: threads of a block, bytes of shared memory, number of parameters.

    `scratch_bytes` is the memory of a block that the parameter after those of the source points to.
    """

    ptx: str
    cubin: bytes
    shared_bytes: int
    threads: int
    parameters: int
    scratch_bytes: int


def compiled(
    function: Foreign, signature: Mapping[str, str], constants: Mapping[str, Given], architecture: int, options: Foreign
) -> TritonCode:
    """A `triton.jit` function compiled for sm_`architecture`.

    `signature` maps each run-time argument to its type, such as "*fp16" or "i32", followed by ":16" if the pointer or
    number is divisible by 16; `constants` maps the others to values. Raises TemplateError where Triton cannot compile.
    """
    triton = require()
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    from triton.errors import TritonError

    names = list(function.arg_names)
    types = {n: "constexpr" if n in constants else signature[n].partition(":")[0] for n in names}
    divisible = {(k,): [["tt.divisibility", 16]] for k, n in enumerate(names) if signature.get(n, "").endswith(":16")}
    source = ASTSource(function, types, {(names.index(n),): value for n, value in constants.items()}, divisible)
    chosen = {"enable_fp_fusion": True, **options}  # Triton 3.9 warns if this is left at its default
    try:
        done = triton.compile(source, target=GPUTarget("cuda", architecture, WARP), options=chosen)
    except TritonError as error:
        raise TemplateError(f"{function.__name__}: Triton cannot compile it: {error}") from None
    threads, parameters = entry_of(done.asm["ptx"], function.__name__)
    scratch = int(getattr(done.metadata, "global_scratch_size", 0) or 0)
    return TritonCode(done.asm["ptx"], done.asm["cubin"], done.metadata.shared, threads, parameters, scratch)


_ENTRY: Final = r"\.entry\s+{name}\s*\((?P<parameters>[^)]*)\)(?P<directives>[^{{]*)"
_THREADS: Final = re.compile(r"\.(?:reqntid|maxntid)\s+(\d+)")


def entry_of(ptx: str, name: str) -> tuple[int, int]:
    """The threads of a block and the number of parameters of an entry, from its declaration in PTX."""
    found = re.search(_ENTRY.format(name=re.escape(name)), ptx)
    threads = found and _THREADS.search(found["directives"])
    if found is None or threads is None:
        raise TemplateError(f"{name}: Triton's PTX does not declare the threads of this entry; use Triton 3.6 or later")
    return int(threads[1]), found["parameters"].count(".param")
