"""Link the math functions that a kernel calls.

MLIR lowers `math.exp` and similar operations to calls of `__nv_expf`, a name of NVIDIA's libdevice. `device_math.ll`
beside this file defines the common ones, which therefore need no further package. The others come from libdevice
(PyPI's `nvidia-nvvm`, or a CUDA toolkit); where that is not installed, the error lists them.
"""

from __future__ import annotations

import importlib.util
import re
from functools import cache
from pathlib import Path
from typing import Final

from lego_mlir.aliases import LlvmModule
from lego_mlir.errors import DependencyError
from lego_mlir.toolchain import llvm, nvidia_tools

_DECLARED: Final = re.compile(r"^declare [^@\n]*@(__nv_\w+)\(", re.MULTILINE)
_DEFINED: Final = re.compile(r"^define [^@\n]*@(__nv_\w+)\(", re.MULTILINE)
_LIBDEVICE: Final = Path("nvvm") / "libdevice" / "libdevice.10.bc"


@cache
def own_text() -> str:
    """The LLVM IR of this package's own math functions."""
    return (Path(__file__).parent / "device_math.ll").read_text()


def link_math(text: str) -> str:
    """The LLVM IR module with a definition of every math function that it calls. DependencyError if one has none."""
    needed = set(_DECLARED.findall(text))
    if not needed:
        return text
    foreign = sorted(needed - set(_DEFINED.findall(own_text())))
    module = llvm.parse(text)
    visible = {function.name for function in module.functions if not function.is_declaration}
    if needed.difference(foreign):
        _add(module, llvm.parse(own_text()), visible)
    if foreign:
        _add(module, _libdevice_module(foreign), visible)
    return str(module)


def libdevice() -> Path | None:
    """NVIDIA's libdevice: from PyPI's nvidia-nvvm, else from the CUDA toolkit of `nvcc`."""
    folders: list[Path] = []
    spec = importlib.util.find_spec("nvidia")
    for package in (spec.submodule_search_locations or []) if spec else []:
        folders += sorted(Path(package).glob("c*"), reverse=True)
    nvcc = nvidia_tools.find("nvcc")
    if nvcc is not None:
        folders.append(nvcc.resolve().parent.parent)
    folders.append(Path("/usr/local/cuda"))
    return next((folder / _LIBDEVICE for folder in folders if (folder / _LIBDEVICE).is_file()), None)


def _libdevice_module(functions: list[str]) -> LlvmModule:
    path = libdevice()
    if path is None:
        names = ", ".join(functions)
        raise DependencyError(
            f"the kernel calls {names}, which come from NVIDIA's libdevice, and it is not installed; "
            "run: pip install nvidia-nvvm"
        )
    return llvm.binding().parse_bitcode(path.read_bytes())


def _add(module: LlvmModule, library: LlvmModule, visible: set[str]) -> None:
    """Link the functions of a library that the module calls, as internal ones: libraries may share names of helpers."""
    module.link_in(library)
    for function in module.functions:
        if not function.is_declaration and function.name not in visible:
            function.linkage = "internal"
    binding = llvm.binding()
    machine = binding.Target.from_triple(llvm.TRIPLE).create_target_machine()
    builder = binding.create_pass_builder(machine, binding.create_pipeline_tuning_options())
    manager = binding.create_new_module_pass_manager()
    manager.add_global_dead_code_eliminate_pass()
    manager.add_strip_dead_prototype_pass()
    manager.run(module, builder)
