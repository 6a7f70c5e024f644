"""The program that is being recorded: a call of a kernel becomes a step of it instead of a launch."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, Protocol

from lego_mlir.aliases import Given

if TYPE_CHECKING:
    from lego_mlir.tracing.definition.kernel import Kernel


class StepRecorder(Protocol):
    """Takes the calls of kernels while the function of a program runs."""

    def call(self, kernel: Kernel, arguments: tuple[Given, ...], sizes: Mapping[str, Given]) -> None: ...


current_program: Final[ContextVar[StepRecorder | None]] = ContextVar("lego program being recorded", default=None)
