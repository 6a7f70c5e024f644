"""Conversions of arrays on a device: all fields by one launch, or one each where fields share bytes.

>>> from lego_mlir.formats.catalog import FORMATS
>>> sizes = {"rows": 64, "columns": 128}
>>> plan = Conversion(FORMATS["vllm.gate_up"](**sizes), FORMATS["gptoss.gate_up"](**sizes))
>>> [(kernel.name, buffers) for kernel, buffers in kernels_of(plan)]
[('relayout', [(0, 'data'), (1, 'data')])]
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from lego_mlir.aliases import AnyArray, Foreign
from lego_mlir.errors import LayoutError
from lego_mlir.formats.conversions import Conversion
from lego_mlir.formats.move_kernels import build, build_added, plan_of
from lego_mlir.tracing.dtypes import DType

if TYPE_CHECKING:
    from lego_mlir.tracing.definition import Kernel


def run_on_device(plan: Conversion, buffers: Mapping[str, AnyArray]) -> dict[str, AnyArray]:
    """The target's buffers on the device of the source's, by one kernel; one for each field where fields share bytes.

    Raises LayoutError for a conversion with a cast, which runs on the processor.
    """
    if not plan.moves:
        raise LayoutError(
            f"{plan.source.name} to {plan.target.name} changes codes, and casts run on the processor; pass NumPy arrays"
        )
    like = next(iter(buffers.values()))
    found = {name: _zeros(like, plan.target.bytes_of(name)) for name in plan.target.buffers}
    for kernel, names in kernels_of(plan):
        arrays = [buffers[name] if side == 0 else found[name] for side, name in names]
        kernel(*(_typed(array, p.dtype) for array, p in zip(arrays, kernel.params, strict=True)))
    return found


def kernels_of(plan: Conversion) -> list[tuple[Kernel, list[tuple[int, str]]]]:
    """The kernels of a conversion, in their order, and the buffers that each takes: (0, source) or (1, target)."""
    sides = [list(one.buffers) for one in (plan.source, plan.target)]
    sizes = [
        tuple(one.bytes_of(name) for name in names)
        for one, names in zip((plan.source, plan.target), sides, strict=True)
    ]
    moves = tuple((sides[0].index(a), sides[1].index(b), move) for a, b, move in plan.moves)
    if plan_of(moves, *sizes) is not None:
        return [(build(moves, *sizes), [(side, name) for side in (0, 1) for name in sides[side]])]
    found = []
    for a, b, move in plan.moves:
        own = (plan.source.bytes_of(a),), (plan.target.bytes_of(b),)
        alone = ((0, 0, move),)
        kernel = build_added(move, *own[0], *own[1]) if plan_of(alone, *own) is None else build(alone, *own)
        found.append((kernel, [(0, a), (1, b)]))
    return found


def _zeros(like: AnyArray, size: int) -> AnyArray:
    """Zeroed bytes on the device of an array."""
    if type(like).__module__.partition(".")[0] == "torch":
        return like.new_zeros(size, dtype=_torch("uint8"))
    from lego_mlir.runtime.cuda import cupy

    return cupy().zeros(size, cupy().uint8)


def _typed(array: AnyArray, dtype: DType) -> AnyArray:
    """The memory of an array as one of elements of a type."""
    if type(array).__module__.partition(".")[0] == "torch":
        return array.contiguous().view(-1).view(_torch(dtype.numpy_name))
    return array.reshape(-1).view(dtype.numpy_name)


def _torch(name: str) -> Foreign:
    import torch

    return getattr(torch, name)
