"""Building of a configuration, whatever front end builds it, and its digest.

    given to `tune`                      a configuration builds
    a function of names and sizes        what it returns: any of the kinds below, or a template, which is rendered
    `@lego.generic`                      the kernel with these parameters
    a `Template`                         its text rendered with these names; num_warps and num_stages are Triton's
    a structured program or LL text      its source with the register tile and width of a `Variant`

Kinds that have code: a kernel, a kernel with a transform script (`k.transformed(..)`), a program of kernels, a rendered
template, a template with its launch (`lego.TemplateLaunch`; without it a template is not measured), the source of a
structured kernel, and a structured kernel. Each has a text from which its code is made; the digest is that of the text,
so two configurations that make the same code share their timings.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from lego_mlir.aliases import Returned
from lego_mlir.errors import UsageError, brief, did_you_mean

if TYPE_CHECKING:
    from lego_mlir.runtime.calls import TracedKernelCalls
    from lego_mlir.structured.build import Kernel as StructuredKernel
    from lego_mlir.structured.build import KernelSource
    from lego_mlir.templates import Rendered
    from lego_mlir.tracing.definition.program import Runnable
    from lego_mlir.tuning.template_launches import TemplateLaunch

    Built = Runnable | TracedKernelCalls | Rendered | TemplateLaunch | KernelSource | StructuredKernel

KINDS: Final = "a kernel, a program of kernels, a rendered template or a structured kernel"
LAUNCH_OPTIONS: Final = ("num_warps", "num_stages", "num_ctas", "maxnreg")
"""Names that Triton takes at a launch and no template sees. Triton, `triton.Config`."""
VARIANT: Final = ("width", "rows", "vectors", "rolled", "fused")
"""The names of a structured kernel's `Variant`."""

Build = Callable[[Mapping[str, object], Mapping[str, int]], object]


@dataclass(frozen=True, slots=True)
class TunedTemplate:
    """A rendered template with the launch options of its configuration."""

    rendered: Rendered
    options: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class CandidateBuilder:
    """What builds: its name, the sizes that it takes itself (`at_sizes`), and the call."""

    name: str
    at_sizes: tuple[str, ...]
    build: Build


def builder_of(given: object, names: Collection[str], key: Collection[str]) -> CandidateBuilder:
    """What builds from a value for each of `names`, and sizes named `key`. Raises UsageError for anything else."""
    from lego_mlir.templates import Template
    from lego_mlir.tracing.definition.generic import GenericKernel

    if isinstance(given, GenericKernel):
        generic, parameters = given, list(given.signature.parameters)
        taken = _require_parameters(str(given), parameters, given.signature, names, key)
        return CandidateBuilder(
            given.name, taken, lambda values, sizes: generic[tuple({**values, **sizes}[n] for n in parameters)]
        )
    if isinstance(given, Template):
        template = given
        return CandidateBuilder(given.name.partition(".")[0], (), lambda values, sizes: rendered(template, values))
    if inspect.isfunction(given):
        function, signature = given, inspect.signature(given)
        taken = _require_parameters(given.__name__, list(signature.parameters), signature, names, key)

        def build(values: Mapping[str, object], sizes: Mapping[str, int]) -> object:
            passed = {**values, **{name: sizes[name] for name in taken}}
            made = function(**{name: passed[name] for name in signature.parameters if name in passed})
            if isinstance(made, Template):
                return rendered(made, values, again=False)
            return _with_options(made, values)

        return CandidateBuilder(given.__name__, taken, build)
    return _structured(given, names)


def _structured(given: object, names: Collection[str]) -> CandidateBuilder:
    from lego_mlir.tracing.definition.kernel import Kernel

    if isinstance(given, Kernel):
        raise UsageError(
            f"lego.tune: {given.name} is one kernel, with nothing to choose; decorate a function of {', '.join(names)} "
            "that returns a kernel, or @lego.generic"
        )
    from lego_mlir.structured import source_of
    from lego_mlir.structured.syntax import Program, Statement
    from lego_mlir.structured.vector.generate import Variant

    if not isinstance(given, str | Program | Statement):
        raise UsageError(
            f"lego.tune decorates a function that returns {KINDS}, a generic kernel, a template or a structured "
            f"program, got {brief(given, 60)}"
        )
    for name in names:
        if name not in VARIANT:
            raise UsageError(
                f"lego.tune: a structured program has {', '.join(VARIANT)} to choose, not {name}"
                f"{did_you_mean(name, VARIANT)}"
            )
    program = given
    return CandidateBuilder(
        "structured", (), lambda values, sizes: source_of(program, variant=Variant(**values))  # type: ignore[arg-type]
    )  # fmt: skip


def _require_parameters(
    what: str, parameters: Collection[str], signature: inspect.Signature, names: Collection[str], key: Collection[str]
) -> tuple[str, ...]:
    """The sizes among the parameters. Raises UsageError unless the space and the key have what the function takes."""
    known = {*names, *key}
    for name in parameters:
        if name not in known and signature.parameters[name].default is inspect.Parameter.empty:
            raise UsageError(
                f"lego.tune: {what} takes {name}, which is neither in the space ({', '.join(names)}) nor in the key "
                f"({', '.join(key) or 'empty'}){did_you_mean(name, known)}"
            )
    for name in names:
        if name not in parameters and name not in LAUNCH_OPTIONS:
            raise UsageError(
                f"lego.tune: the space has {name}, which {what}({', '.join(parameters)}) does not take"
                f"{did_you_mean(name, parameters)}"
            )
    return tuple(name for name in key if name in parameters)


def rendered(template: object, values: Mapping[str, object], again: bool = True) -> TunedTemplate:
    """A template rendered with these names, and the launch options among them."""
    from lego_mlir.templates import Template

    assert isinstance(template, Template)
    options = tuple(_options(values).items())
    named = {n: v for n, v in values.items() if n not in LAUNCH_OPTIONS} if again else {}
    return TunedTemplate(template.render(**named), options)


def _options(values: Mapping[str, object]) -> dict[str, int]:
    return {n: int(v) for n, v in values.items() if n in LAUNCH_OPTIONS}  # type: ignore[call-overload]


def _with_options(made: object, values: Mapping[str, object]) -> object:
    """The launch of a template with the launch options of its configuration; anything else as it is."""
    options = _options(values)
    if not options:
        return made
    from lego_mlir.tuning.template_launches import TemplateLaunch

    return made.with_options(options) if isinstance(made, TemplateLaunch) else made


def callable_of(built: object, name: str) -> Callable[..., Returned]:
    """What was built as a function of arrays. Raises UsageError for text alone, a template without its launch.

    The source of a structured program is compiled, or found in the cache of machine code.
    """
    if callable(built):
        return built
    from lego_mlir.structured import build

    if isinstance(built, build.KernelSource):
        target = "host" if built.isa == build.host() else built.isa.name
        variant = None if built.lanes > 1 else built.variant or "scalar"
        return build.compile(
            built.program, dtype=build.DTYPES[built.element], name=built.name, target=target, variant=variant,
            by_lanes=built.lanes > 1,
        )  # fmt: skip
    raise UsageError(
        f"{name}: a {type(built).__name__} is not called on arrays; take its text from {name}.candidate(..).built"
    )


def kernel_of(built: object) -> object:
    """The traced kernel of what was built; None for other kinds."""
    from lego_mlir.runtime.calls import TracedKernelCalls
    from lego_mlir.tracing.definition.kernel import Kernel

    match built:
        case Kernel():
            return built
        case TracedKernelCalls():
            return built.kernel
    return None


def text_of(built: object) -> str:
    """The text that the code is made from. Raises UsageError for an object of another kind."""
    from lego_mlir.runtime.calls import TracedKernelCalls
    from lego_mlir.templates import Rendered
    from lego_mlir.tracing.definition.kernel import Kernel
    from lego_mlir.tracing.definition.program import KernelProgram

    match built:
        case Kernel():
            return built.mlir()
        case TracedKernelCalls():
            return f"{built.script} {sorted((built.parameters or {}).items())}\n{built.kernel.mlir()}"
        case KernelProgram():
            return "\n".join([*map(repr, built.steps), *(kernel.mlir() for kernel in built.kernels)])
        case Rendered():
            return built.text
        case TunedTemplate():
            return f"{built.options}\n{built.rendered.text}"
    from lego_mlir.structured.build import Kernel as StructuredKernel
    from lego_mlir.structured.build import KernelSource
    from lego_mlir.tuning.template_launches import TemplateLaunch

    match built:
        case TemplateLaunch():
            return built.text
        case KernelSource():
            return built.mlir()
        case StructuredKernel():
            return built.source.mlir()
    raise UsageError(f"tuning builds {KINDS}, got {brief(built, 60)}")


def digest_of(built: object) -> str:
    """The digest of what is built: equal for equal code. Raises UsageError for an object of another kind."""
    return sha256(text_of(built).encode()).hexdigest()
