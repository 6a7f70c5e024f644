"""Conversions of arrays on a device: all fields by one launch, or one each where fields share bytes; casts by three.

>>> from lego_mlir.formats.catalog import FORMATS
>>> sizes = {"rows": 64, "columns": 128}
>>> plan = Conversion(FORMATS["vllm.gate_up"](**sizes), FORMATS["gptoss.gate_up"](**sizes))
>>> [(kernel.name, buffers) for kernel, buffers in kernels_of(plan)]
[('relayout', [(0, 'data'), (1, 'data')])]
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Final

from lego_mlir.aliases import AnyArray, Foreign
from lego_mlir.errors import LayoutError, UsageError
from lego_mlir.formats.conversions import Conversion
from lego_mlir.formats.device_casts import cast_kernel, in_packed_rows
from lego_mlir.formats.field_moves import Move
from lego_mlir.formats.move_kernels import ADDED, build, build_added, plan_of
from lego_mlir.tracing.trace.dtypes import DType, dtype_named

if TYPE_CHECKING:
    from lego_mlir.tracing.definition.kernel import Kernel


Argument = tuple[int, str]
"""A buffer of a side: SOURCE, TARGET, or of the packed rows between them, READ and CAST."""
SOURCE, TARGET, READ, CAST = range(4)
BESIDE_BYTES: Final = 2**26
"""Bytes copied at a time where an array is converted in place: enough work for a launch."""
Kernels = list[tuple["Kernel", list[Argument]]]
_KNOWN: Final[dict[Hashable, Kernels]] = {}


def run_on_device(plan: Conversion, buffers: Mapping[str, AnyArray]) -> dict[str, AnyArray]:
    """The target's buffers on the device of the source's.

    Raises LayoutError for codes that are exchanged, and for casts of codings that have no kernel.
    """
    like, kernels = next(iter(buffers.values())), kernels_of(plan)
    found = {(SOURCE, name): array for name, array in buffers.items()}
    rows = [(READ, in_packed_rows(plan.source)), (CAST, in_packed_rows(plan.target))]
    is_added = any(kernel.name == ADDED for kernel, _ in kernels)
    for side, format_ in ((TARGET, plan.target), *(() if plan.moves else rows)):
        for name in format_.buffers:
            found[side, name] = _memory(like, format_.bytes_of(name), is_added or not format_.is_full(name))
    for kernel, names in kernels:
        kernel(*(_typed(found[name], p.dtype) for name, p in zip(names, kernel.params, strict=True)))
    return {name: found[TARGET, name] for name in plan.target.buffers}


def run_in_place_on_device(plan: Conversion, array: AnyArray) -> None:
    """Convert a contiguous array in itself, through a copy of as many whole blocks as `BESIDE_BYTES` holds, or of one.

    Raises LayoutError where `plan.in_place` does, UsageError for an array that is not contiguous.
    """
    block, moves = plan.in_place()
    if not (array.is_contiguous() if hasattr(array, "is_contiguous") else array.flags.c_contiguous):
        raise UsageError("an array that is converted in place is C-contiguous; pass a copy")
    whole = plan.source.bytes_of(next(iter(plan.source.buffers)))
    count = whole // block
    together = next(k for k in range(min(count, max(1, BESIDE_BYTES // block)), 0, -1) if count % k == 0)
    if together > 1:
        moves = tuple(Move(((together, 8 * block, 8 * block), *m.digits), m.unit, m.start) for m in moves)
    size = together * block
    kernel = build(tuple((0, 0, move) for move in moves), (size,), (size,))
    data = _typed(array, dtype_named("u8"))
    for start in range(0, whole, size):
        part = data[start : start + size]
        beside = part.clone() if hasattr(part, "clone") else part.copy()
        kernel(*(_typed(one, p.dtype) for one, p in zip((beside, part), kernel.params, strict=True)))


def kernels_of(plan: Conversion) -> Kernels:
    """The kernels of a conversion, in their order, and the buffers that each takes; traced once for two formats.

    Moves are one kernel, where no two of them share a byte. A cast reads rows of packed fields and writes such rows,
    with moves before and after it.
    """
    key = tuple((tuple(one.fields), tuple(one.buffers.items()), one.coding) for one in (plan.source, plan.target))
    if key not in _KNOWN:
        _KNOWN[key] = _traced(plan)
    return _KNOWN[key]


def _traced(plan: Conversion) -> Kernels:
    if plan.moves:
        return _moving(plan)
    if plan.is_exact:
        raise LayoutError(
            f"{plan.source.name} to {plan.target.name} exchanges codes, which the processor does; pass NumPy arrays"
        )
    cast, reads, writes = cast_kernel(plan)
    before, after = (
        kernels_of(Conversion(plan.source, in_packed_rows(plan.source))),
        kernels_of(Conversion(in_packed_rows(plan.target), plan.target)),
    )
    return [
        *((kernel, [(READ if side == TARGET else side, name) for side, name in names]) for kernel, names in before),
        (cast, [*((READ, name) for name in reads), *((CAST, name) for name in writes)]),
        *((kernel, [(CAST if side == SOURCE else side, name) for side, name in names]) for kernel, names in after),
    ]


def _moving(plan: Conversion) -> Kernels:
    sides = [list(one.buffers) for one in (plan.source, plan.target)]
    sizes = [
        tuple(one.bytes_of(name) for name in names)
        for one, names in zip((plan.source, plan.target), sides, strict=True)
    ]
    moves = tuple((sides[0].index(a), sides[1].index(b), move) for a, b, move in plan.moves)
    if plan_of(moves, *sizes) is not None:
        return [(build(moves, *sizes), [(side, name) for side in (SOURCE, TARGET) for name in sides[side]])]
    found = []
    for a, b, move in plan.moves:
        own = (plan.source.bytes_of(a),), (plan.target.bytes_of(b),)
        alone = ((0, 0, move),)
        kernel = build_added(move, *own[0], *own[1]) if plan_of(alone, *own) is None else build(alone, *own)
        found.append((kernel, [(SOURCE, a), (TARGET, b)]))
    return found


def _memory(like: AnyArray, size: int, zeroed: bool) -> AnyArray:
    """Bytes on the device of an array."""
    if type(like).__module__.partition(".")[0] == "torch":
        make = like.new_zeros if zeroed else like.new_empty
        return make(size, dtype=_torch("uint8"))
    from lego_mlir.runtime.cuda import cupy

    make = cupy().zeros if zeroed else cupy().empty
    return make(size, cupy().uint8)


def _typed(array: AnyArray, dtype: DType) -> AnyArray:
    """The memory of an array as one of elements of a type."""
    if type(array).__module__.partition(".")[0] == "torch":
        return array.contiguous().view(-1).view(_torch(dtype.numpy_name))
    return array.reshape(-1).view(dtype.numpy_name)


def _torch(name: str) -> Foreign:
    import torch

    return getattr(torch, name)
