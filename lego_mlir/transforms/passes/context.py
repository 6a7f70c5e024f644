"""What a pass is given, and how it says that there was nothing for it to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lego_mlir.hardware.targets import Target, target_named
from lego_mlir.transforms.modules import ModuleError, walk

# Arithmetic and what encloses a kernel say nothing about what it does, so a message leaves them out.
_UNTOLD = (
    *("arith.", "affine.", "index.", "builtin.", "scf.yield", "gpu.thread_id", "gpu.block_id", "gpu.lane_id"),
    *("gpu.module", "gpu.func", "gpu.return"),
)
_SHOWN = 8


class PassError(ModuleError):
    """A pass of ours did not find what it works on."""


@dataclass(frozen=True, slots=True)
class Context:
    """The target, and the parameters of the script that runs the pass."""

    target: Target = field(default_factory=lambda: target_named("sm_80"))
    parameters: Mapping[str, int | bool] = field(default_factory=dict)


def census(operation: Any) -> str:
    """What a kernel consists of, most frequent first: `vector.load (4), gpu.barrier (2), scf.for (1)`."""
    counts = Counter(op.name for op in walk(operation) if not op.name.startswith(_UNTOLD))
    listed = [f"{name} ({count})" for name, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))]
    more = [f"and {len(listed) - _SHOWN} more kinds"] if len(listed) > _SHOWN else []
    return ", ".join(listed[:_SHOWN] + more) or "nothing"


def nothing(name: str, sought: str, module: Any) -> PassError:
    """The error of a pass that found nothing to work on."""
    return PassError(f"{name} matched nothing: it looked for {sought}, and found {census(module.operation)}")
