"""Compile a kernel, or a module's text, to any stage: the toolchain's entry point.

A compilation runs the stages in order and keeps the text of every one; given a cache, a stage that was computed before
is read from it:

>>> module = '''module { gpu.module @m { gpu.func @k() kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
...   gpu.return } } }'''
>>> compiled = compile_kernel(module, target="sm_80")
>>> ".visible .entry k()" in compiled.text
True
>>> compiled.kernels[0].block
(32, 1, 1)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from lego_mlir.aliases import Traced
from lego_mlir.errors import ToolchainError, UsageError
from lego_mlir.hardware.targets import target_named
from lego_mlir.store import Cache, key
from lego_mlir.toolchain.manifest import build
from lego_mlir.toolchain.stages import NAMES, STAGES, Settings, Stage, run_stage, stage_named
from lego_mlir.transforms import scripts
from lego_mlir.transforms.kernel_facts import DYNAMIC_SHARED_ATTRIBUTE, KernelFacts, kernel_facts
from lego_mlir.transforms.modules import merge, require_pipeline, strip_locations
from lego_mlir.transforms.passes.base import UnreadError
from lego_mlir.transforms.pipeline import Pipeline

_MODULES: Final = ("transformed", "mlir")  # stages from which facts of kernels are read
_DYNAMIC: Final = (b"gpu.dynamic_shared_memory", DYNAMIC_SHARED_ATTRIBUTE.encode())
SCRIPTED: Final = "transformed"  # the stage that a transform script makes


@dataclass(frozen=True)
class Compilation:
    """What every stage made, by name, up to `emit`, and the kernel objects it came from (none for a text).

    Seconds and cache hits by stage are there for reports.
    """

    emit: str
    settings: Settings
    sources: tuple[Any, ...]
    outputs: Mapping[str, bytes] = field(repr=False)
    seconds: Mapping[str, float]
    cached: frozenset[str]

    @property
    def bytes(self) -> bytes:
        """The last stage's output as it is."""
        return self.outputs[self.emit]

    @property
    def text(self) -> str:
        """The last stage's text. Raises UsageError for a cubin, which is binary."""
        return self.stage(self.emit)

    def stage(self, name: str, *, locations: bool = False) -> str:
        """The text of one stage; MLIR without its source locations unless requested."""
        if stage_named(name).suffix == ".cubin":
            raise UsageError("a cubin is not text; take Compilation.bytes")
        text = self.outputs[name].decode()
        return strip_locations(text) if stage_named(name).suffix == ".mlir" and not locations else text

    @cached_property
    def kernels(self) -> tuple[KernelFacts, ...]:
        """Name, arguments, block, grid and shared memory of each kernel, read off the transformed module."""
        for name in _MODULES:
            if name in self.outputs:
                return kernel_facts(self.outputs[name].decode(), name)
        raise UsageError(
            f"the kernels' arguments are known from MLIR only; this compilation began at {min(self.outputs)}"
        )

    @property
    def manifest(self) -> dict[str, Any]:
        """What a launch needs to know, for the JSON file beside the code."""
        return build(self)


def compile_kernel(
    given: Any,
    *,
    target: str = "sm_80",
    emit: str = "ptx",
    transform: str | Path | None = None,
    parameters: Mapping[str, int | bool] | None = None,
    cache: Cache | None = None,
    start: str = "mlir",
    name: str | None = None,
    pipeline: Pipeline | str | None = None,
    on_stage: Callable[[Stage], None] = lambda stage: None,
) -> Compilation:
    """Compile a kernel, several into one module, or a module's text, up to the stage `emit`.

    `transform` is the path of a transform script, or the name of one that comes along, and `parameters` are its own;
    `start` the stage whose output `given` is; `name` what messages call it; `pipeline` replaces the passes of the nvvm
    stage, as a value or as the text that mlir-opt takes; without a `cache` all is computed; `on_stage` is called before
    each stage runs. Raises ToolchainError where a stage fails, UsageError for an unknown target, stage, parameter or
    pass, SpecError for an unreadable script, ScheduleError for a kernel that its schedules do not take.
    """
    settings = Settings(target_named(target), _script(transform, parameters))
    if isinstance(pipeline, str):
        require_pipeline(pipeline)
    if pipeline is not None:
        settings = Settings(settings.target, settings.script, pipeline)
    first, last = NAMES.index(stage_named(start).name), NAMES.index(stage_named(emit).name)
    if last < first:
        raise UsageError(f"cannot emit {emit} from {start}: the stages are {' -> '.join(NAMES)}")
    if transform is not None and not first < NAMES.index(SCRIPTED) <= last:
        raise UsageError(
            f"the transform script would not run: it makes the stage {SCRIPTED}, which is not on the way from {start} "
            f"to {emit}; the stages are {' -> '.join(NAMES)}"
        )
    kernels = _scheduled(_kernels_in(given), settings.script)
    try:
        return _compiled(kernels, given, settings, (start, emit), name, cache, on_stage)
    except ToolchainError as error:
        other = _instead(kernels, settings.script, error)
        if not other:
            raise
        settings = Settings(settings.target, None, settings.pipeline)
        return _compiled(other, given, settings, (start, emit), name, cache, on_stage)


def _compiled(
    kernels: tuple[Traced, ...],
    given: Any,
    settings: Settings,
    ends: tuple[str, str],
    name: str | None,
    cache: Cache | None,
    on_stage: Callable[[Stage], None],
) -> Compilation:
    """The stages from the start to the last one, its `ends`."""
    start, emit = ends
    first, last = NAMES.index(start), NAMES.index(emit)
    text = merge([_module_of(kernel, settings) for kernel in kernels]) if kernels else given
    called = name or (", ".join(kernel.name for kernel in kernels) if kernels else "module")
    outputs: dict[str, bytes] = {}
    seconds: dict[str, float] = {}
    cached: set[str] = set()
    current = text if isinstance(text, bytes) else text.encode()
    if first > 0:
        outputs[start] = current
    for stage in STAGES[first + 1 if first else 0 : last + 1]:
        began = time.perf_counter()
        current, hit = _through_cache(stage, current, settings, called, cache, on_stage)
        outputs[stage.name], seconds[stage.name] = current, time.perf_counter() - began
        if hit:
            cached.add(stage.name)
    compilation = Compilation(emit, settings, kernels, outputs, seconds, frozenset(cached))
    module = next((outputs[name] for name in _MODULES if name in outputs), b"")
    if last >= NAMES.index("ptx") and any(mark in module for mark in _DYNAMIC):
        _require_shared_memory(compilation)
    return compilation


def _scheduled(kernels: tuple[Traced, ...], script: scripts.Script | None) -> tuple[Traced, ...]:
    """The kernels after the schedules that a script names."""
    if script is None or not (text := scripts.schedules(script)):
        return kernels
    if not kernels:
        raise UsageError(
            f"{script.path} names schedules ({text}), which rewrite a kernel before it becomes a module; give the spec "
            "of the kernel, not its module"
        )
    return tuple(kernel.schedule(text) for kernel in kernels)


def _instead(kernels: tuple[Traced, ...], script: scripts.Script | None, refusal: ToolchainError) -> tuple[Traced, ...]:
    """The kernels after the schedules for those that a script's pass does not take; none where it has no others."""
    reason: BaseException | None = refusal
    while reason is not None and not isinstance(reason, UnreadError):
        reason = reason.__cause__
    text = scripts.schedules(script, scripts.OTHERWISE) if reason is not None and script is not None else ""
    return tuple(kernel.schedule(text) for kernel in kernels) if text else ()


def _module_of(kernel: Any, settings: Settings) -> str:
    """A kernel's module: with warpgroups' products where it has some, and the target executes them."""
    trace = kernel.trace() if settings.target.has_warpgroup_products and hasattr(kernel, "trace") else None
    text: str = kernel.mlir(warpgroups=True) if getattr(trace, "products", ()) else kernel.mlir()
    return text


def _require_shared_memory(compilation: Compilation) -> None:
    """Raise UsageError where a kernel takes more dynamic shared memory than a block of the target may have."""
    target = compilation.settings.target
    for facts in compilation.kernels:
        if facts.dynamic_shared > target.shared_per_block:
            raise UsageError(
                f"kernel {facts.name} needs {facts.dynamic_shared} bytes of dynamic shared memory, and a block on "
                f"{target.name} may have {target.shared_per_block}; make its tiles smaller or its stages fewer"
            )


def _script(transform: str | Path | None, parameters: Mapping[str, int | bool] | None) -> scripts.Script | None:
    if transform is None and parameters:
        raise UsageError(f"the parameters {', '.join(parameters)} belong to a transform script, and none was given")
    return None if transform is None else scripts.read(transform, parameters)


def _through_cache(
    stage: Stage, given: bytes, settings: Settings, name: str, cache: Cache | None, on_stage: Callable[[Stage], None]
) -> tuple[bytes, bool]:
    if cache is None:
        on_stage(stage)
        return run_stage(stage, given, settings, name), False
    digest = key(stage.name, given, name, *stage.key(settings))
    stored = cache.read(digest)
    if stored is not None:
        return stored, True
    on_stage(stage)
    made = run_stage(stage, given, settings, name)
    cache.write(digest, made)
    return made, False


def _kernels_in(given: Any) -> tuple[Any, ...]:
    """The kernel objects that were given: one, several, or none but a text."""
    kernels = () if isinstance(given, (str, bytes)) else tuple(given) if isinstance(given, (tuple, list)) else (given,)
    for kernel in kernels:
        if not hasattr(kernel, "mlir"):
            raise UsageError(f"cannot compile a {type(kernel).__name__}: give kernels or the text of an MLIR module")
    names = [kernel.name for kernel in kernels]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(
                f"two kernels are named {name}, and one module cannot hold both; compile one of them, or name one with "
                "@lego.kernel(name=..), or the scheduled one with kernel.schedule(.., name=..)"
            )
    return kernels
