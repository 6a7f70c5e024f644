"""LLVM IR -> PTX, in process. The only importer of llvmlite.

llvmlite carries LLVM with its NVPTX code generator, which the MLIR bindings from PyPI lack. A module comes in as
text (whose constants `literals` spells for any version), is set up for the target, optimised as `opt -O3` would, and
written out:

>>> from lego_mlir.hardware.targets import target_named
>>> ptx = to_ptx("define ptx_kernel void @k() { ret void }", target_named("sm_80"))
>>> [line for line in ptx.splitlines() if line.startswith((".target", ".visible"))]
['.target sm_80', '.visible .entry k()']
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import defaultdict
from functools import cache
from importlib import metadata
from typing import TYPE_CHECKING, Any, Final

from lego_mlir.errors import DependencyError, LegoError
from lego_mlir.toolchain import literals, llvm_options

if TYPE_CHECKING:
    from lego_mlir.aliases import LlvmModule
    from lego_mlir.hardware.targets import Target

TRIPLE: Final = "nvptx64-nvidia-cuda"
OPTIMISATION_LEVEL: Final = 3
_DEBUG_INFO: Final = '!"Debug Info Version"'

# Intrinsics that only some targets have; reads of special registers, barriers and f32 approximations are everywhere.
_EVERYWHERE: Final = (
    r"read\.ptx\.sreg\.(?:n?tid|n?ctaid|laneid|warpid)|barrier|div\.full|fma\.r(?:n\.sat|m)\.f\("
    r"|(?:ex2|lg2|sin|cos|r?sqrt|rcp)\.approx"
)
_INTRINSIC: Final = re.compile(rf"^declare .*@(llvm\.nvvm\.(?!{_EVERYWHERE})[\w.]+)", re.MULTILINE)
# Names of functions and variables that other modules see; LLVM renames the others itself.
_VISIBLE: Final = re.compile(
    r"^(?:define (?!internal |private )[^@\n]*)?@(\"[^\"\n]*\"|[\w.$-]+)(?:\(| = (?!internal |private ))", re.MULTILINE
)
_PTX_NAME: Final = re.compile(r"[A-Za-z][\w$]*|[_$%][\w$]+", re.ASCII)  # PTX ISA, "Identifiers"
_selectable: defaultdict[Target, set[str]] = defaultdict(set)


class LLVMError(LegoError):
    """LLVM rejected a module: it does not parse or verify. The calling stage turns it into a report."""


@cache
def binding() -> Any:
    """`llvmlite.binding`, ready for NVPTX. Raises DependencyError where it is missing or has no NVPTX."""
    try:
        import llvmlite.binding as llvm
    except ImportError as error:
        raise DependencyError(f"llvmlite is needed to make PTX ({error}); run: pip install llvmlite") from error
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    for option in llvm_options.CHOSEN:
        llvm.set_option("lego-mlir", option)
    try:
        llvm.Target.from_triple(TRIPLE)
    except RuntimeError as error:
        raise DependencyError(
            f"this build of llvmlite has no NVPTX code generator ({error}); install the one from PyPI: "
            "pip install --force-reinstall llvmlite"
        ) from error
    return llvm


def llvm_version() -> str:
    """The version of LLVM inside llvmlite."""
    return ".".join(map(str, binding().llvm_version_info))


def version() -> str:
    """llvmlite's version and LLVM's, as `doctor` and cache keys need them; llvmlite itself is not loaded."""
    try:
        return f"llvmlite {metadata.version('llvmlite')}"
    except metadata.PackageNotFoundError:
        return "llvmlite (not installed)"


def parse(text: str) -> LlvmModule:
    """The verified module of this LLVM IR text, of this or a newer version. Raises LLVMError with LLVM's message."""
    text = literals.portable(text)
    try:
        if _DEBUG_INFO in text:  # LLVM verifies such a module while it parses, and ends the process if that fails
            binding().parse_assembly(text.replace(_DEBUG_INFO, '!"verified first"')).verify()
        module = binding().parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        raise LLVMError(str(error)) from error
    return module


def link(texts: list[str]) -> str:
    """One module of several; the linker renames internal names that collide."""
    first, *others = map(parse, texts)
    for other in others:
        try:
            first.link_in(other)
        except RuntimeError as error:
            raise LLVMError(str(error)) from error
    return str(first)


def to_ptx(text: str, target: Target) -> str:
    """PTX of an LLVM IR module. Raises LLVMError where LLVM rejects the module.

    LLVM aborts the process for an instruction that the target lacks. So a module with intrinsics that have not yet
    compiled for the target is compiled in a subprocess first; later ones, and modules with intrinsics that the target
    is known to have (`intrinsics`), compile in this process. A name that PTX does not allow would abort too, or make
    PTX that ptxas rejects.
    """
    from lego_mlir.toolchain.intrinsics import selected

    for name in _VISIBLE.findall(text):
        if not _PTX_NAME.fullmatch(name.strip('"')):
            raise LLVMError(
                f"the name @{name} is not valid in PTX, whose names are ASCII letters, digits, _ and $, not beginning "
                "with a digit; rename it"
            )
    unseen = set(_INTRINSIC.findall(text)) - selected(target) - _selectable[target]
    if not unseen:
        return emit(text, target)
    ptx = _emit_apart(text, target)
    _selectable[target] |= unseen
    return ptx


def emit(text: str, target: Target) -> str:
    """PTX of an LLVM IR module, in this process, which LLVM aborts if the target lacks an instruction."""
    from lego_mlir.toolchain import (
        eager_uses,
        early_loads,
        late_sums,
        loaded_words,
        masked_words,
        scaled_sums,
        short_reversals,
        wide_extremes,
    )

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
    optimised = str(module)
    made = eager_uses.ordered(early_loads.moved(scaled_sums.fused(optimised)))
    made = late_sums.moved(loaded_words.kept(made))
    if any(short_reversals.is_short(function.name) for function in module.functions):
        made = short_reversals.declared(made)
    if made != optimised:
        module = parse(made)
    return wide_extremes.for_target(masked_words.joined(str(machine.emit_assembly(module))), target)


def _emit_apart(text: str, target: Target) -> str:
    parse(text)  # parse errors are reported from this process, with LLVM's message
    emission = f"sys.stdout.write(llvm.emit(sys.stdin.read(), targets.{target!r}))"
    code = f"import sys; from lego_mlir.hardware import targets; from lego_mlir.toolchain import llvm; {emission}"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-c", code], input=text, capture_output=True, text=True, check=False, env=environment
    )
    if done.returncode != 0:
        message = next(
            (line for line in done.stderr.splitlines() if line.startswith("LLVM ERROR")), done.stderr.strip()
        )
        raise LLVMError(
            f"{message}\n{target.name} (PTX {target.ptx / 10}) lacks an instruction that the kernel uses; "
            "choose a --target that has it"
        )
    return done.stdout
