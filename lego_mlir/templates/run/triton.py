"""Load rendered Triton text as a kernel, or compile it for a GPU that is not present.

A rendered text is written to the cache under its digest and imported from there,
because Triton reads a kernel's source from its file; equal texts share a module. PyTorch is not needed.
"""

from __future__ import annotations

import importlib
import re
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from lego_mlir.errors import DependencyError, TemplateError, did_you_mean
from lego_mlir.store import default_folder
from lego_mlir.templates import Rendered
from lego_mlir.toolchain.ptxas import Resources, parse_report
from lego_mlir.toolchain.sass import Instruction, read
from lego_mlir.toolchain.triton_text import compiled, module_of, require


def interpreter() -> ModuleType:
    """Triton's interpreter module."""
    require()
    return importlib.import_module("triton.runtime.interpreter")


def launch_options() -> frozenset[str]:
    """The launch options besides a kernel's arguments, such as num_warps."""
    require()
    from triton.backends.nvidia.compiler import CUDAOptions

    return frozenset(CUDAOptions.__dataclass_fields__)


def load(rendered: Rendered, kernel: str, *, folder: Path | None = None) -> Any:
    """The kernel of this name in a rendered text: a `triton.jit` function. Raises TemplateError if there is none."""
    module = _module(rendered, folder or default_folder() / "rendered")
    found = getattr(module, kernel, None)
    if not hasattr(found, "fn"):
        names = ", ".join(name for name, value in vars(module).items() if hasattr(value, "fn"))
        raise TemplateError(f"{rendered.template.name}: it has no kernel {kernel!r}; there are: {names or 'none'}")
    return found


def _module(rendered: Rendered, folder: Path) -> ModuleType:
    """The rendered text as a module; its file is kept for Triton and tracebacks."""
    require()
    if rendered.template.language != "triton":
        raise TemplateError(f"{rendered.template.name} is a CUDA template; lego_mlir.templates.run.nvcc compiles it")
    return module_of(rendered.text, f"lego_rendered_{rendered.digest[:20]}", rendered.template.name, folder)


# -- cross-compilation


@dataclass(frozen=True, slots=True)
class CompiledTriton:
    """A kernel compiled for a target: PTX, cubin, resources and machine instructions."""

    ptx: str
    cubin: bytes
    resources: Resources
    shared_bytes: int
    code: tuple[Instruction, ...]


def compile_for(
    kernel: Any, signature: Mapping[str, str], constants: Mapping[str, Any], *, target: str = "sm_90", **options: Any
) -> CompiledTriton:
    """A `triton.jit` function compiled without a device.

    `signature` maps each run-time argument to its type, such as "*fp16" or "i32", followed by ":16" if the pointer or
    number is divisible by 16; `constants` maps the others to values. `options` are Triton's: num_warps, num_stages.
    Names without a parameter are ignored. Raises TemplateError for an argument in neither mapping.
    """
    require()
    for unknown in sorted(options.keys() - launch_options()):
        meant = did_you_mean(unknown, launch_options()) or f"; there are: {', '.join(sorted(launch_options()))}"
        raise TemplateError(f"compile_for: Triton has no option {unknown!r}{meant}")
    names = list(kernel.arg_names)
    if missing := [n for n in names if n not in signature and n not in constants]:
        raise TemplateError(
            f"{kernel.__name__}({', '.join(names)}): {', '.join(missing)} needs a type in the signature, such as i32, "
            "or a value among the constants"
        )
    _require_types(kernel.__name__, {n: signature[n] for n in names if n not in constants})
    if not isinstance(target, str) or not re.fullmatch(r"sm_\d+[af]?", target):
        raise TemplateError(f"compile_for: a target is named as sm_80 or sm_90a is, got {target!r}")
    architecture = int(target.removeprefix("sm_").rstrip("af"))
    done = compiled(kernel, signature, constants, architecture, options)
    resources = _resources(done.ptx, architecture)
    return CompiledTriton(done.ptx, done.cubin, resources, done.shared_bytes, read(listing(done.cubin)))


def _require_types(kernel: str, signature: Mapping[str, object]) -> None:
    """Raise TemplateError for an argument type unknown to Triton."""
    from triton._utils import type_canonicalisation_dict

    known = {"i1", *type_canonicalisation_dict.values()}
    for name, given in signature.items():
        plain = given.partition(":")[0].removeprefix("*").removeprefix("k") if isinstance(given, str) else ""
        if plain not in known and not plain.startswith(("tensordesc", "*")):
            meant = did_you_mean(plain, known) if plain else ""
            raise TemplateError(
                f"{kernel}: the type of {name} is {given!r}, which Triton does not have{meant}; a number is i32 or "
                "fp32, a pointer *fp16, and the suffix :16 declares that it is divisible by 16"
            )


def _tool(name: str) -> Path:
    """A program bundled with Triton."""
    program = Path(require().__file__).parent / "backends" / "nvidia" / "bin" / name
    if not program.is_file():
        raise DependencyError(f"{name} is needed, and this Triton does not include it: {program}; install triton 3.9")
    return program


def _resources(ptx: str, architecture: int) -> Resources:
    """Registers and spills from Triton's bundled ptxas: an installed toolkit may be too old for its PTX."""
    from triton.backends.nvidia.compiler import get_ptxas

    suffix = "a" if architecture >= 90 else ""
    with tempfile.TemporaryDirectory(prefix="lego-mlir-") as folder:
        source = Path(folder, "kernel.ptx")
        source.write_text(ptx)
        options = ["-v", "--regAllocOptLevel=2", f"--gpu-name=sm_{architecture}{suffix}"]  # as Triton calls it
        command = [str(get_ptxas(architecture).path), *options, str(source), "-o", f"{folder}/out"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    return parse_report(done.stderr + done.stdout)[0]


def listing(cubin: bytes) -> str:
    """The machine code of a cubin as text."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [str(_tool("cuobjdump")), "-sass", file.name]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout
