"""Compile a traced kernel to PTX and run that in the emulator: the whole toolchain, on the arrays of `run_kernel`.

The arguments are by name, each tensor's memory as one flat array in the order of its layout.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lego_mlir.aliases import Array
from lego_mlir.hardware.tensor_map_forms import TensorMapForm
from lego_mlir.interp.ptx.bulk_tensor_maps import TensorMapArgument
from lego_mlir.interp.ptx.ptx_launch import PtxArgument, emulate
from lego_mlir.interp.traced_kernels import kernel_extents

if TYPE_CHECKING:
    from lego_mlir.hardware.tensor_maps import TensorMap
    from lego_mlir.interp.report import Report
    from lego_mlir.store import Cache
    from lego_mlir.tracing.definition.kernel import Kernel


@dataclass(frozen=True, slots=True)
class PtxRun:
    """How to compile, and the seed of the emulator's random orders."""

    target: str = "sm_80"
    transform: str | Path | None = None
    parameters: Mapping[str, int | bool] = field(default_factory=dict)
    cache: Cache | None = None
    seed: int = 0

    def __call__(self, kernel: Kernel, arguments: Mapping[str, PtxArgument], sizes: Mapping[str, int]) -> Report:
        """Run a kernel on arrays, in place; the places of faults are lines of `NAME.ptx`.

        Raises ToolchainError where it does not compile, InterpreterError for an instruction that is not modelled.
        """
        from lego_mlir.toolchain import compile_kernel

        compiled = compile_kernel(
            (kernel,),
            target=self.target,
            transform=self.transform,
            parameters=self.parameters or None,
            cache=self.cache,
        )
        (kernel,) = compiled.sources  # as a script has scheduled it
        facts = next(facts for facts in compiled.kernels if facts.name == kernel.name)
        blocks, *others = kernel_extents(kernel.grid, sizes)
        values: list[PtxArgument] = []
        for parameter, described in zip(kernel.params, facts.arguments, strict=False):
            value = arguments[parameter.name]
            if described.tensor_map is not None:
                values.append(argument_of(_map_of(described.tensor_map, kernel, sizes), value))
            else:
                values.append(value if isinstance(value, np.ndarray) else parameter.dtype.numpy.type(value))
        return emulate(
            compiled.text,
            kernel.name,
            args=[*values, *(sizes[size.name] for size in kernel.sizes)],
            grid=(blocks, *others),
            block=facts.block or kernel_extents(kernel.block, sizes),
            dynamic_shared=facts.dynamic_shared,
            names=[parameter.name for parameter in kernel.params],
            seed=self.seed,
            source=f"{kernel.name}.ptx",
        )


def _map_of(described: TensorMap | TensorMapForm, kernel: Kernel, sizes: Mapping[str, int]) -> TensorMap:
    """The tensor map of an argument for the sizes of a run."""
    if isinstance(described, TensorMapForm):
        return described.at([sizes[size.name] for size in kernel.sizes])
    return described


def argument_of(described: TensorMap, array: Array) -> TensorMapArgument:
    """The tensor map that a compiled kernel takes, over an array."""
    dtype = described.dtype.replace("i", "s") if described.dtype.startswith("i") else described.dtype
    whole, *edge = described.parts
    return TensorMapArgument(
        array, dtype, whole.sizes, whole.strides, whole.box, whole.swizzle, edge=edge[0].box if edge else ()
    )
