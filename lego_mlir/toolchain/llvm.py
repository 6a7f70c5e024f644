"""LLVM IR -> PTX, in process: the one door to llvmlite.

llvmlite carries LLVM with its NVPTX code generator, which the MLIR bindings from PyPI lack. A module comes in as
text (LLVM IR text is safe between versions), is set up for the target, optimised as `opt -O3` would, and written out:

>>> from lego_mlir.toolchain.targets import target_named
>>> ptx = to_ptx("define ptx_kernel void @k() { ret void }", target_named("sm_80"))
>>> [line for line in ptx.splitlines() if line.startswith((".target", ".visible"))]
['.target sm_80', '.visible .entry k()']
"""

from __future__ import annotations

from functools import cache
from importlib import metadata
from typing import Any, Final

from lego_mlir.errors import DependencyError, LegoError
from lego_mlir.toolchain.targets import Target

TRIPLE: Final = "nvptx64-nvidia-cuda"
OPTIMISATION_LEVEL: Final = 3


class LLVMError(LegoError):
    """LLVM refused a module: it does not parse, or does not verify. The stage that called turns it into a report."""


@cache
def binding() -> Any:
    """`llvmlite.binding`, ready for NVPTX. Raises DependencyError where it is missing or has no NVPTX."""
    try:
        import llvmlite.binding as llvm
    except ImportError as error:
        raise DependencyError(f"llvmlite is needed to make PTX ({error}); run: pip install llvmlite") from error
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    try:
        llvm.Target.from_triple(TRIPLE)
    except RuntimeError as error:
        raise DependencyError(
            f"this build of llvmlite has no NVPTX code generator ({error}); install the one from PyPI: "
            "pip install --force-reinstall llvmlite"
        ) from error
    return llvm


def version() -> str:
    """llvmlite's version and LLVM's, as `doctor` and cache keys need them; llvmlite itself is not loaded."""
    try:
        return f"llvmlite {metadata.version('llvmlite')}"
    except metadata.PackageNotFoundError:
        return "llvmlite (not installed)"


def parse(text: str) -> Any:
    """The verified module of this LLVM IR text. Raises LLVMError with LLVM's own words."""
    try:
        module = binding().parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        raise LLVMError(str(error)) from error
    return module


def link(texts: list[str]) -> str:
    """One module of several; names that are internal to two of them are told apart by the linker."""
    first, *others = map(parse, texts)
    for other in others:
        try:
            first.link_in(other)
        except RuntimeError as error:
            raise LLVMError(str(error)) from error
    return str(first)


def to_ptx(text: str, target: Target) -> str:
    """PTX of an LLVM IR module. Raises LLVMError where LLVM refuses the module."""
    llvm = binding()
    machine = llvm.Target.from_triple(TRIPLE).create_target_machine(
        cpu=target.cpu, features=target.features, opt=OPTIMISATION_LEVEL
    )
    module = parse(text)
    module.triple = TRIPLE
    module.data_layout = str(machine.target_data)
    options = llvm.create_pipeline_tuning_options(speed_level=OPTIMISATION_LEVEL)
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return str(machine.emit_assembly(module))
