"""A kernel to subscript with a launch and to call, as `kernel[grid, block](x, y, n)`: CUDA, PTX, or traced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from lego_mlir.errors import UsageError, did_you_mean
from lego_mlir.interp.ptx.ptx_launch import EmulatorOptions, Extents, PtxArgument, emulate
from lego_mlir.interp.ptx.ptx_program import PtxModule
from lego_mlir.interp.ptx.ptx_reader import read_ptx
from lego_mlir.interp.ptx.traced_ptx import PtxRun
from lego_mlir.sanitize import cuda_text
from lego_mlir.sanitize.sessions import Session, current
from lego_mlir.sanitize.storages import bound

if TYPE_CHECKING:
    from lego_mlir.interp.report import Report
    from lego_mlir.tracing.definition.kernel import Kernel

Progress = Callable[[int, int], None]


def options_of(session: Session, progress: Progress | None = None) -> EmulatorOptions:
    """The emulator's options of a session."""
    return EmulatorOptions(
        session.seed, session.budget, session.checks, session.blocks, progress, session.record, session.cores
    )


@dataclass(frozen=True)
class SanitizedKernel:
    """An entry of PTX; `source` is the text that it was compiled from, for the names of its parameters."""

    module: PtxModule
    entry: str
    source: str = ""

    @cached_property
    def names(self) -> list[str]:
        """The parameters, as the source or else the PTX has them."""
        declared = [parameter.name for parameter in self.module.entry(self.entry).parameters]
        found = cuda_text.parameter_names(self.source, cuda_text.plain_name(self.entry))
        return found if len(found) == len(declared) else declared

    def __getitem__(self, launch: Extents | tuple[PtxArgument, ...]) -> SanitizedLaunch:
        """`kernel[grid, block]` or `kernel[grid, block, bytes of shared memory]`; extents are numbers or tuples."""
        given = launch if isinstance(launch, tuple) else (launch,)
        if not 2 <= len(given) <= 3:
            raise UsageError(f"kernel[grid, block] or kernel[grid, block, shared bytes], got {len(given)} values")
        return SanitizedLaunch(self, given[0], given[1], given[2] if len(given) == 3 else 0)


@dataclass(frozen=True)
class SanitizedLaunch:
    """A kernel with its grid and block; `cluster` where the PTX does not fix it, `names` for its arguments."""

    kernel: SanitizedKernel
    grid: Extents
    block: Extents | None
    dynamic_shared: int = 0
    cluster: Extents | None = None
    progress: Progress | None = None
    names: Sequence[str] = ()

    def __call__(self, *arguments: PtxArgument) -> Report:
        """Run on arrays, tensors and numbers, in place. Raises InterpreterError for what the emulator cannot run."""
        session, kernel = current(), self.kernel
        report = emulate(
            kernel.module, kernel.entry, args=bound(arguments), names=self.names or kernel.names, grid=self.grid,
            block=self.block, cluster=self.cluster, dynamic_shared=self.dynamic_shared,
            options=options_of(session, self.progress),
        )  # fmt: skip
        return session.add(report, quiet=True)


def ptx(text: str | Path, entry: str | None = None) -> SanitizedKernel:
    """A kernel of a PTX text, or of a file: `entry` may be left out where there is only one.

    Raises InterpreterError for text that cannot be read, UsageError for an entry that is not there.
    """
    path = _as_path(text, ".ptx")
    module = read_ptx(_read(path) if path is not None else str(text), str(path or "<ptx>"))
    return SanitizedKernel(module, entry_name(module, entry))


def cuda(
    source: str | Path,
    entry: str | None = None,
    *,
    target: str = "sm_90",
    options: Sequence[str] = (),
    compiler: str | None = None,
) -> SanitizedKernel:
    """A kernel of a CUDA text, or of a file, compiled for a target by nvcc or clang, to which `options` go.

    Raises UsageError for another `compiler`, DependencyError without one, ToolchainError with its message.
    """
    path = _as_path(source, ".cu", ".cuh", ".cc", ".cpp")
    text = _read(path) if path is not None else str(source)
    module = read_ptx(cuda_text.compile_to_ptx(text, path, target, options, compiler), str(path or "<cuda>"))
    return SanitizedKernel(module, entry_name(module, entry), text)


def traced(kernel: Kernel, *, target: str = "sm_80", transform: str | Path | None = None) -> Callable[..., Report]:
    """A kernel of `lego.kernel`: call it with its arrays and sizes by name. Faults are at lines of its PTX."""
    run = PtxRun(target=target, transform=transform)

    def call(**values: PtxArgument) -> Report:
        session = current()
        sizes = {size.name: int(values.pop(size.name)) for size in kernel.sizes}
        return session.add(replace(run, seed=session.seed)(kernel, values, sizes), quiet=True)

    return call


def entry_name(module: PtxModule, wanted: str | None) -> str:
    """The entry of a name, mangled or not. Raises UsageError."""
    if wanted is None and len(module.entries) == 1:
        return next(iter(module.entries))
    fits = [name for name in module.entries if wanted in (name, cuda_text.plain_name(name))]
    if len(fits) == 1:
        return fits[0]
    known = ", ".join(module.entries) or "none"
    if wanted is None:
        raise UsageError(f"{module.source}: name one of the kernels: {known}")
    if fits:
        raise UsageError(f"{module.source}: {wanted} is the name of several kernels; use one of: {', '.join(fits)}")
    hint = did_you_mean(wanted, [cuda_text.plain_name(name) for name in module.entries])
    raise UsageError(f"{module.source}: no kernel {wanted}{hint}; it has: {known}")


def _as_path(source: str | Path, *suffixes: str) -> Path | None:
    """The path that is meant; None for a text."""
    if isinstance(source, Path):
        return source
    return Path(source) if "\n" not in source and source.endswith(suffixes) else None


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
