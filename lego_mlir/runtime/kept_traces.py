"""Users' kernels that were compiled, on disk by their fingerprints: unchanged kernels are not traced again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lego_mlir.runtime import first_calls
from lego_mlir.runtime.first_calls import KeptKernel

if TYPE_CHECKING:
    from lego_mlir.tracing.definition.kernel import Kernel


def of_kernels(
    kernels: Sequence[Kernel],
    form: object,
    make: Callable[[], KeptKernel],
    script: str | Path | None = None,
    parameters: Mapping[str, int | bool] | None = None,
    folder: Path | None = None,
) -> KeptKernel:
    """What was made of kernels in some form, through a script, from the disk, or now.

    It is made now too if a trace might differ from what is on disk: of a kernel without a fingerprint, of one that was
    traced before, perhaps with other values of globals, and through operations of a plugin, which may be another one.
    """
    from lego_mlir.tracing.checks.register_names import warn_of_second_names
    from lego_mlir.tracing.definition.fingerprint import fingerprint

    digests = [None if is_traced(kernel) else fingerprint(kernel) for kernel in kernels]
    if None in digests or (script is not None and _needs_plugin(script)):
        return make()
    texts = () if script is None else (_texts(script), sorted((parameters or {}).items()))
    found = first_calls.kernel_of(("kernels", form, digests, texts), make, folder)
    for kernel in kernels:
        if not is_traced(kernel):  # the trace would have warned
            warn_of_second_names(kernel.function)
    return found


def is_traced(kernel: Kernel) -> bool:
    """Whether the kernel has its trace."""
    return "_traced" in vars(kernel)


def _texts(script: str | Path) -> list[str]:
    """All that a transform script says, with the scripts that it calls."""
    from lego_mlir.transforms import scripts

    return scripts.read(script).texts()


def _needs_plugin(script: str | Path) -> bool:
    """Whether a script has operations of the C++ plugin."""
    from lego_mlir.transforms.dialect_plugin import uses_plugin

    return any(map(uses_plugin, _texts(script)))
