"""Input of a kernel: logical arrays, the same in memory by their layouts, and where each element is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lego_mlir.runtime import data

if TYPE_CHECKING:
    from lego_mlir.runtime.inputs import InputFile
    from lego_mlir.tracing.definition.program import Runnable


@dataclass(frozen=True, slots=True)
class KernelInput:
    """Input for a kernel: logical arrays, memory in the order of the layouts, and each element's position."""

    sizes: Mapping[str, int]
    logical: Mapping[str, Any]
    memories: Mapping[str, Any]
    places: Mapping[str, Any]


def make_input(kernel: Runnable, given: Mapping[str, int], seed: int, file: InputFile | None = None) -> KernelInput:
    """The input of a kernel's run; of `given`, the sizes that the kernel has are used."""
    made = data.arguments(kernel, data.sizes_of_kernel(kernel, given), seed, file)
    memories: dict[str, Any] = {}
    places: dict[str, Any] = {}
    for parameter in kernel.params:
        if parameter.layout is None:
            memories[parameter.name] = made.logical[parameter.name]
            continue
        elements = places[parameter.name] = data.elements_of(parameter.layout, made.sizes)
        memories[parameter.name] = made.memory(parameter, elements)
    return KernelInput(made.sizes, made.logical, memories, places)
