"""The stages from MLIR to a cubin: six functions from text to text.

    mlir -> transformed -> nvvm -> llvm -> ptx -> cubin

Stages are independent: the text of one can be saved, edited, and passed on by hand with `lego-mlir compile FILE --from
STAGE`. A failure names its stage, keeps that stage's input, and prints the command that reproduces it.

>>> [stage.name for stage in STAGES]
['mlir', 'transformed', 'nvvm', 'llvm', 'ptx', 'cubin']
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from lego_mlir import bindings
from lego_mlir.errors import LegoError, Rerun, ToolchainError, UsageError
from lego_mlir.hardware.targets import Target, target_named
from lego_mlir.toolchain import llvm, llvm_options, lowering, ptxas
from lego_mlir.toolchain.kept import keep
from lego_mlir.toolchain.llvm import LLVMError
from lego_mlir.toolchain.ptxas import PtxasError
from lego_mlir.transforms import dialect_plugin
from lego_mlir.transforms.apply import apply
from lego_mlir.transforms.lego_ops.entry import plain
from lego_mlir.transforms.modules import ModuleError, name_locations, parse, session, to_text
from lego_mlir.transforms.passes.lower_clusters import LowerClusters, has_clusters
from lego_mlir.transforms.passes.lower_tile_copies import LowerTileCopies, has_words
from lego_mlir.transforms.pipeline import Pipeline
from lego_mlir.transforms.scripts import Script


@dataclass(frozen=True, slots=True)
class Settings:
    """All that a stage's output depends on besides its input."""

    target: Target = field(default_factory=lambda: target_named("sm_80"))
    script: Script | None = None
    pipeline: Pipeline | str = lowering.NVVM


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage. `key` lists the settings and tool versions that affect its output, for the cache."""

    name: str
    suffix: str
    run: Callable[[bytes, Settings, str], bytes]
    key: Callable[[Settings], tuple[str, ...]]


def _mlir(text: bytes, settings: Settings, name: str) -> bytes:
    with session():
        printed = to_text(parse(plain(text.decode(), name), name), locations=True)
    # Operations without a location are located in this text: name it now, since later stages print another text.
    return name_locations(printed, name).encode()


def _transformed(text: bytes, settings: Settings, name: str) -> bytes:
    made = text.decode()
    if settings.script is not None:
        made = apply(made, settings.script, settings.target, name=name)
    if has_words(made) or has_clusters(made, settings.target):
        with session():
            module = parse(made, name)
            LowerTileCopies().run(module, settings.target)
            LowerClusters().run(module, settings.target)
            module.operation.verify()
            made = to_text(module, locations=True)
    return made.encode()


def _nvvm(text: bytes, settings: Settings, name: str) -> bytes:
    lowerings = lowering.lowerings_for(settings.target)
    return lowering.to_nvvm(text.decode(), settings.pipeline, name, lowerings).encode()


def _llvm(text: bytes, settings: Settings, name: str) -> bytes:
    return lowering.to_llvm(text.decode(), name).encode()


def _ptx(text: bytes, settings: Settings, name: str) -> bytes:
    return llvm.to_ptx(text.decode(), settings.target).encode()


def _cubin(text: bytes, settings: Settings, name: str) -> bytes:
    return ptxas.assemble(text.decode(), settings.target)[0]


def _mlir_key(settings: Settings) -> tuple[str, ...]:
    return (bindings.load().version,)


def _script_key(settings: Settings) -> tuple[str, ...]:
    if settings.script is None:
        return (*_mlir_key(settings), repr(settings.target))
    plugin = dialect_plugin.identity() if "transform.lego." in repr(settings.script) else ()
    return (*_mlir_key(settings), repr(settings.script), repr(settings.target), *plugin)


def _nvvm_key(settings: Settings) -> tuple[str, ...]:
    return (*_mlir_key(settings), str(settings.pipeline), repr(lowering.lowerings_for(settings.target)))


def _llvm_key() -> tuple[str, ...]:
    return (llvm.version(), *llvm_options.CHOSEN)


STAGES: Final = (
    Stage("mlir", ".mlir", _mlir, _mlir_key),
    Stage("transformed", ".mlir", _transformed, _script_key),
    Stage("nvvm", ".mlir", _nvvm, _nvvm_key),
    Stage("llvm", ".ll", _llvm, lambda settings: (*_mlir_key(settings), llvm.version())),
    Stage("ptx", ".ptx", _ptx, lambda settings: (*_llvm_key(), "wide extremes", "early loads", repr(settings.target))),
    Stage("cubin", ".cubin", _cubin, lambda settings: (ptxas.version(), repr(settings.target))),
)
NAMES: Final = tuple(stage.name for stage in STAGES)


def stage_named(name: str) -> Stage:
    """The stage of this name. Raises UsageError, which lists them."""
    if name not in NAMES:
        raise UsageError(f"unknown stage {name!r}; the stages are {' -> '.join(NAMES)}")
    return STAGES[NAMES.index(name)]


def run_stage(stage: Stage, given: bytes, settings: Settings, name: str = "-") -> bytes:
    """One stage, with a failure as a ToolchainError that keeps the input and the command to reproduce it."""
    try:
        return stage.run(given, settings, name)
    except UnicodeDecodeError as error:
        raise UsageError(f"{name}: not a text that the stage '{stage.name}' can read ({error})") from error
    except (ModuleError, LLVMError, PtxasError) as error:
        raise ToolchainError(_rerun(stage, given, settings, error)) from error


def _rerun(stage: Stage, given: bytes, settings: Settings, error: LegoError) -> Rerun:
    before = STAGES[max(0, NAMES.index(stage.name) - 1)]
    kept = keep(f"{stage.name}-input{before.suffix}", given)
    shown = str(kept or "INPUT")
    if isinstance(error, PtxasError):
        command = ["ptxas", *error.arguments, shown, "-o", "/dev/null"]
        return Rerun(stage.name, kept, shlex.join(command), str(error), error.exit_code)
    command = ["lego-mlir", "compile", shown, "--from", before.name, "--emit", stage.name]
    command += ["--target", settings.target.name]
    if settings.script is not None and stage.name == "transformed":
        command += ["--transform", settings.script.path]
        for parameter, value in settings.script.parameters:
            command += ["--param", f"{parameter}={str(value).lower()}"]
    if str(settings.pipeline) != str(lowering.NVVM) and stage.name == "nvvm":
        command += ["--pipeline", str(settings.pipeline)]
    return Rerun(stage.name, kept, shlex.join([*command, "-o", "-"]), str(error))
