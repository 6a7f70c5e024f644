"""The base of all passes: a name for scripts, options as fields, and `run`, which changes a module in place.

>>> from lego_mlir.transforms.passes import named
>>> named("lego-check-pipeline").from_parameters({"stages": 3, "bypass_l1": True})
CheckPipeline(stages=3)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import ClassVar, Literal, Self

from lego_mlir.aliases import Module, Op
from lego_mlir.hardware.targets import Target
from lego_mlir.transforms.kernel_facts import kernels
from lego_mlir.transforms.modules import ModuleError, walk

# Arithmetic and enclosing operations do not show what a kernel does, so messages leave them out.
_OMITTED = (
    *("arith.", "affine.", "index.", "builtin.", "scf.yield", "gpu.thread_id", "gpu.block_id", "gpu.lane_id"),
    *("gpu.module", "gpu.func", "gpu.return"),
)
_SHOWN = 8


class PassError(ModuleError):
    """A pass did not find the operations that it rewrites."""


class UnreadError(PassError):
    """A pass does not take kernels of this form: schedules may."""


@dataclass(frozen=True, slots=True)
class Pass(ABC):
    """A rewrite of a parsed module. The fields of a subclass are its options, named as a script's parameters.

    `name` is what `lego.pipeline` writes. In a composed pipeline a pass marked `once` runs at its first or last place
    only.
    """

    name: ClassVar[str]
    once: ClassVar[Literal["", "first", "last"]] = ""

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, int | bool]) -> Self:
        """The pass, with the parameters that are options of it."""
        return cls(**{field.name: parameters[field.name] for field in fields(cls) if field.name in parameters})

    @abstractmethod
    def run(self, module: Module, target: Target) -> None:
        """Rewrite the module in place. Raises PassError where there is nothing to rewrite, unless that is allowed."""

    def no_match(self, sought: str, module: Module) -> PassError:
        """The error of a pass that found nothing to rewrite."""
        return PassError(f"{self.name} matched nothing: it looked for {sought}, and found {census(module.operation)}")


@dataclass(frozen=True, slots=True)
class FunctionPass(Pass):
    """A pass that rewrites one function at a time, a kernel or the host's loops, and may find nothing to rewrite.

    The lowering to NVVM runs such passes for any target.
    """

    def run(self, module: Module, target: Target) -> None:
        self.run_on_kernels(module)

    def run_on_kernels(self, module: Module) -> None:
        """Rewrite every kernel of the module in place."""
        for function in kernels(module):
            self.run_on(function)

    @abstractmethod
    def run_on(self, function: Op) -> None:
        """Rewrite one function in place."""


def census(operation: Op) -> str:
    """The operations of a kernel, most frequent first: `vector.load (4), gpu.barrier (2), scf.for (1)`."""
    counts = Counter(op.name for op in walk(operation) if not op.name.startswith(_OMITTED))
    listed = [f"{name} ({count})" for name, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))]
    more = [f"and {len(listed) - _SHOWN} more kinds"] if len(listed) > _SHOWN else []
    return ", ".join(listed[:_SHOWN] + more) or "nothing"
