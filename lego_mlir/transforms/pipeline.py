"""A pass pipeline as a value that prints as MLIR's text.

MLIR writes a pipeline as text, `builtin.module(cse,gpu.module(canonicalize))`. Here it is a tree of two small
dataclasses, so that a pass can be added, an option changed and two pipelines compared without cutting strings; the
text is what `mlir-opt --pass-pipeline='...'` takes. A text given by the user is parsed by MLIR itself, which knows the
passes and their options (`modules.require_pipeline`).

>>> inner = Pipeline("gpu.module", (PipelinePass("canonicalize", {"max-iterations": 3}),))
>>> p = Pipeline("builtin.module", (PipelinePass("cse"), inner))
>>> str(p)
'builtin.module(cse,gpu.module(canonicalize{max-iterations=3}))'
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, init=False)
class PipelinePass:
    """One pass with its options, in order: `PipelinePass("convert-gpu-to-nvvm", {"index-bitwidth": 64})`."""

    name: str
    options: tuple[tuple[str, str], ...]

    def __init__(self, name: str, options: Mapping[str, object] | Iterable[tuple[str, object]] = ()) -> None:
        pairs = options.items() if isinstance(options, Mapping) else options
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "options", tuple((key, _option_text(value)) for key, value in pairs))

    def __str__(self) -> str:
        if not self.options:
            return self.name
        return f"{self.name}{{{' '.join(f'{key}={value}' for key, value in self.options)}}}"


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Passes, and pipelines of operations inside, that run in order on every operation named `anchor`."""

    anchor: str
    items: tuple[PipelinePass | Pipeline, ...]

    def __str__(self) -> str:
        return f"{self.anchor}({','.join(map(str, self.items))})"


def _option_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
