"""`lego.convert`: a spread value in another layout, in the cheapest way.

    y = lego.convert(x, to=layout)

| plan of `f2.conversion` | kernel |
|---|---|
| unchanged, registers renamed | nothing |
| shuffles | words of 32 bits between the lanes of a warp (`lane_exchange`) |
| shared memory | the widest stores, a barrier, the widest loads, without bank conflicts (`scratch`) |

An element that several threads hold is stored once, and every thread loads what its layout places in it.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from typing import TypeAlias

import sympy

from lego_mlir.aliases import Cond
from lego_mlir.errors import LayoutError, TraceError
from lego_mlir.expr.index import as_expr
from lego_mlir.expr.nodes import Eq
from lego_mlir.f2.banks import WORD_BITS, MemoryAccesses
from lego_mlir.f2.boxed import BoxedLayout, is_cut_by_warps, linear, registers_of, shape_of_box
from lego_mlir.f2.conversion import ConversionPlan, Renamed, Unchanged, conversion_plan, renaming
from lego_mlir.f2.linear import LinearLayout
from lego_mlir.f2.matrices import ROW_BITS
from lego_mlir.f2.matrix import Echelon
from lego_mlir.f2.shuffles import ShufflePlan
from lego_mlir.f2.swizzle import SwizzlePlan, swizzle
from lego_mlir.tracing.spread.coordinates import ThreadElements, thread_ids
from lego_mlir.tracing.spread.distributed import Spread, checked_layout, open_tile
from lego_mlir.tracing.spread.fragments import RowPositions, taken_apart
from lego_mlir.tracing.spread.lane_exchange import shuffled
from lego_mlir.tracing.spread.scratch import Scratch, scratch
from lego_mlir.tracing.trace.dtypes import DType, i1, u8
from lego_mlir.tracing.trace.trace import Load, MatrixLoad, Store, TensorAccess
from lego_mlir.tracing.trace.tracer import Tracer, current
from lego_mlir.tracing.words.packed_values import code_of, number_of
from lego_mlir.tracing.words.reductions import require_uniform
from lego_mlir.tracing.words.scalar import Scalar, as_value, vector
from lego_mlir.tracing.words.scalar import convert as to_dtype
from lego_mlir.tracing.words.tensor import View

Completion: TypeAlias = Callable[[], Spread]
"""The loads of a conversion, after a barrier if its stores need one."""


def convert(value: Spread, to: LinearLayout) -> Spread:
    """The same tile, placed in registers, lanes and warps by the layout `to`.

    All threads of the block take part. Raises LayoutError for a layout of another shape, or one that does not fit the
    block. Linear Layouts, section 5.4.
    """
    tracer = current("lego.convert")
    if (tile := open_tile(value)) is not None:
        return tile.pinned(to)
    _require_spread(tracer, "lego.convert", value)
    return converted_together([(value, checked_layout(to))])[0]


def converted_together(
    moves: Sequence[tuple[Spread, LinearLayout]], in_order: Container[LinearLayout] = ()
) -> list[Spread]:
    """Several values in other layouts; between all stores into shared memory and all loads there is one barrier.

    Of layouts `in_order` an instruction takes several registers together.
    """
    completions = [_begun(value, target, target in in_order) for value, target in moves]
    return [complete() for complete in completions]


def _begun(value: Spread, target: LinearLayout, in_order: bool) -> Completion:
    """Begin a conversion, and say how it is completed."""
    tracer = current("lego.convert")
    if value.shape != shape_of_box(target):
        raise tracer.error(
            f"lego.convert: the value has the shape {list(value.shape)}, the layout "
            f"{list(shape_of_box(target))}; both must be the same",
            LayoutError,
        )
    if (renamed := renaming(linear(value.layout), linear(target))) is not None:
        return _begun_by_plan(value.get(), target, renamed)
    data = movable("lego.convert", value)
    plan = conversion_plan(linear(value.layout), linear(target), data.dtype.bits, in_order)
    cut = is_cut_by_warps(data.layout) or is_cut_by_warps(target)
    if isinstance(plan, SwizzlePlan) and plan.matrices and cut and not plan.slice_elements:
        plan = swizzle(plan.source, plan.target, plan.bits)  # no warp stores the rows that are outside
    complete = _begun_by_plan(data, target, plan)
    return lambda: restored(complete(), value.dtype)


def by_plan(value: Spread, target: LinearLayout, plan: ConversionPlan) -> Spread:
    """A value in another layout, moved by a plan; where registers are not only renamed, data of at least 8 bits."""
    return _begun_by_plan(value, target, plan)()


def _begun_by_plan(value: Spread, target: LinearLayout, plan: ConversionPlan) -> Completion:
    """A conversion by a plan, complete but for its loads.

    What is outside of a box is neither stored nor loaded; shuffles and matrices move it as zeros.
    """
    tracer, registers = current("lego.convert"), value.registers
    if isinstance(plan, Unchanged):
        return lambda: Spread(target, value.dtype, registers)
    if isinstance(plan, Renamed):
        return lambda: Spread(target, value.dtype, [registers[source] for source in plan.sources])
    by_vectors = isinstance(plan, SwizzlePlan) and not plan.matrices
    if isinstance(value.layout, BoxedLayout) and not by_vectors:
        zero = to_dtype(0, value.dtype)
        registers = [zero if v is None else v for v in registers]
    if isinstance(plan, ShufflePlan):
        moved = shuffled(plan, registers, target.in_sizes["register"])
        return lambda: Spread(target, value.dtype, moved)
    memory = stored_in_scratch(tracer, plan, value.dtype, registers, "a conversion through shared memory")

    def complete() -> Spread:
        memory.before_loads()
        found = load_registers(memory, plan, registers_of(target)) if by_vectors else _load_matrices(memory, plan)
        memory.after_loads()
        return Spread(target, value.dtype, found)

    return complete


def movable(called: str, value: Spread) -> Spread:
    """The value as data of at least 8 bits: conditions and packed numbers as bytes.

    Raises TraceError for anything but a spread value.
    """
    tracer = current(called)
    _require_spread(tracer, called, value)
    if value.dtype.family == "index":
        raise tracer.error(
            f"{called} moves data, got a spread value of indices; convert it, such as x.to(lego.i32)", TraceError
        )
    value = value.get()
    if value.dtype is i1:
        return value.map(lambda r: to_dtype(Scalar(as_value(r, i1)), u8), value)
    return value.map(code_of, value) if value.dtype.is_packed else value


def _require_spread(tracer: Tracer, called: str, value: object) -> None:
    if not isinstance(value, Spread):
        raise tracer.error(f"{called} takes a spread value, such as that of lego.load(x, layout), got {value!r}")


def restored(value: Spread, dtype: DType) -> Spread:
    """The value in the element type that it had before `movable`."""
    if dtype.is_packed:
        return value.map(lambda code: number_of(dtype, code), value)
    return value.map(lambda x: x != 0, value) if dtype is i1 else value


def stored_in_scratch(
    tracer: Tracer, plan: SwizzlePlan, dtype: DType, registers: Sequence[Scalar | None], what: str
) -> Scratch:
    """The shared memory into which a value was stored, for loads after `before_loads`.

    `what` is refused where threads diverge.
    """
    if not plan.slice_elements:
        require_uniform(tracer, what)
    memory = scratch(tracer, dtype, plan.memory.in_sizes["offset"], plan.slice_elements)
    memory.before_stores()
    store_registers(memory, plan, registers)
    memory.after_stores()
    return memory


def store_registers(memory: Scratch, plan: SwizzlePlan, registers: Sequence[Scalar | None]) -> None:
    """Store every element once, in vectors. Those outside of a box are None: zeros, or no vector at all."""
    side, tracer, view = plan.store(), memory.tracer, memory.view
    mask = _first_holders(tracer, plan.source)
    place = _Offsets(memory, side, plan.memory)
    for access in side.each:
        held = [registers[each[0]] for each in access.registers]
        if all(v is None for v in held):
            continue
        elements = [to_dtype(0, view.dtype) if v is None else v for v in held]
        stored = elements[0] if len(elements) == 1 else vector(*elements)
        where = place.access(view, access.offset, side.vector, mask)
        tracer.append(Store(tracer.use(stored.entry), where, where.source))


def load_registers(memory: Scratch, plan: SwizzlePlan, wanted: Sequence[int]) -> list[Scalar | None]:
    """The registers of the target that are wanted, in vectors; the others are None."""
    side, tracer, view = plan.load(), memory.tracer, memory.view
    found, made = dict[int, Scalar](), frozenset(wanted)
    place = _Offsets(memory, side, plan.memory)
    for access in side.each:
        for start, width in _runs([not made.isdisjoint(held) for held in access.registers]):
            where = place.access(view, access.offset + start, width, sympy.true)
            loaded = Scalar(tracer.value(view.dtype, None if width == 1 else width))
            tracer.append(Load(loaded.entry, where, None, where.source))
            for k, held in enumerate(access.registers[start : start + width]):
                element = loaded if width == 1 else loaded[k]
                found.update(dict.fromkeys(held, element))
    return [found.get(register) for register in range(plan.target.in_sizes["register"])]


def _runs(made: Sequence[bool]) -> Iterator[tuple[int, int]]:
    """The elements of a vector that are accessed together: all that are made, or aligned powers of two of them.

    >>> list(_runs([True] * 4)), list(_runs([True, True, True, False]))
    ([(0, 4)], [(0, 2), (2, 1)])
    """
    if all(made):
        yield 0, len(made)
    elif any(made):
        half = len(made) // 2
        yield from _runs(made[:half])
        yield from ((half + start, width) for start, width in _runs(made[half:]))


def _load_matrices(memory: Scratch, plan: SwizzlePlan) -> list[Scalar]:
    side, tracer, view = plan.loaded_matrices, memory.tracer, memory.view
    found: dict[int, Scalar] = {}
    rows = RowPositions(tracer, side)
    for access in side.each:
        position = rows.of(access) + as_expr(memory.first)
        width = ROW_BITS // plan.bits
        where = TensorAccess(
            view.buffer, view.layout, (position,), sympy.true, tracer.derive(position), width, tracer.here()
        )
        loaded = tracer.value(view.dtype, (side.count, WORD_BITS // plan.bits))
        tracer.append(MatrixLoad(loaded, where, side.transposed, where.source))
        elements = iter(taken_apart(tracer, loaded))
        for word in access.registers:
            for held in word:
                found.update(dict.fromkeys(held, next(elements)))
    return [found[register] for register in range(plan.target.in_sizes["register"])]


class _Offsets:
    """The addresses of the accesses of one side: that of the thread, and a constant for each access.

    Vectors are aligned and contiguous by `f2.banks.accesses`, and offsets are below the size of the tile.
    """

    def __init__(self, scratch: Scratch, side: MemoryAccesses, memory: LinearLayout) -> None:
        self.tracer = tracer = scratch.tracer
        self.first = as_expr(scratch.first)
        ins = (("register", 0), ("lane", len(side.lanes)), ("warp", len(side.warps)))
        threads = LinearLayout.of(ins, (("offset", memory.in_bits),), (*side.lanes, *side.warps))
        self._threads = ThreadElements(tracer, threads)

    def access(self, view: View, offset: int, width: int, mask: Cond) -> TensorAccess:
        """The access of `width` elements at a constant offset from the thread's."""
        (position,) = self._threads.at(offset)
        index = as_expr(position) + self.first
        return TensorAccess(
            view.buffer, view.layout, (index,), mask, self.tracer.derive(index), width, self.tracer.here()
        )


def _first_holders(tracer: Tracer, layout: LinearLayout) -> Cond:
    """The threads that hold an element which no earlier thread holds."""
    echelon = Echelon(layout.columns_of("register"))
    lanes, warps = (
        sum(1 << bit for bit, column in enumerate(layout.columns_of(name)) if echelon.add(column))
        for name in ("lane", "warp")
    )
    if not lanes | warps:
        return sympy.true
    ids = thread_ids(tracer)
    if "thread" in ids:
        return Eq((ids["thread"] & (lanes | warps << len(layout.columns_of("lane")))).expr, 0)
    parts = [Eq((ids[name] & mask).expr, 0) for name, mask in (("lane", lanes), ("warp", warps)) if mask]
    return sympy.And(*parts)
