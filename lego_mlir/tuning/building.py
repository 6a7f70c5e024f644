"""What a configuration builds, whatever front end builds it, and its digest.

Five kinds build: a kernel, a program of kernels, a rendered template, the source of a structured kernel, and a
structured kernel. Each has a text from which its code is made; the digest is that of the text, so two configurations
that make the same code share their timings.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

from lego_mlir.errors import UsageError, brief

if TYPE_CHECKING:
    from lego_mlir.structured.build import Kernel as StructuredKernel
    from lego_mlir.structured.build import KernelSource
    from lego_mlir.templates import Rendered
    from lego_mlir.tracing.program import Runnable

    Built = Runnable | Rendered | KernelSource | StructuredKernel

KINDS = "a kernel, a program of kernels, a rendered template or a structured kernel"


def text_of(built: object) -> str:
    """The text that the code is made from. Raises UsageError for an object of another kind."""
    from lego_mlir.templates import Rendered
    from lego_mlir.tracing.definition import Kernel
    from lego_mlir.tracing.program import KernelProgram

    match built:
        case Kernel():
            return built.mlir()
        case KernelProgram():
            return "\n".join([*map(repr, built.steps), *(kernel.mlir() for kernel in built.kernels)])
        case Rendered():
            return built.text
    from lego_mlir.structured.build import Kernel as StructuredKernel
    from lego_mlir.structured.build import KernelSource

    match built:
        case KernelSource():
            return built.mlir()
        case StructuredKernel():
            return built.source.mlir()
    raise UsageError(f"tuning builds {KINDS}, got {brief(built, 60)}")


def digest_of(built: object) -> str:
    """The digest of what is built: equal for equal code. Raises UsageError for an object of another kind."""
    return sha256(text_of(built).encode()).hexdigest()
