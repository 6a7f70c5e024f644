"""`memref`: allocation, windows on memory, and the scalar accesses.

A view, subview or cast moves no data: it is a new `MemRef` on the same buffer, whose sizes and strides may be static,
uniform or different from lane to lane.
"""

# ruff: noqa: D103  (a function here is named after its operation, which the dialect documents)
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lego_mlir.aliases import Type
from lego_mlir.interp import memory, values
from lego_mlir.interp.dialects.arith import elements
from lego_mlir.interp.machine import Machine
from lego_mlir.interp.memory import DYNAMIC, MemRef, Space, Touch
from lego_mlir.interp.program import Operation, Step, copy_slots, implements
from lego_mlir.interp.values import Array, DType
from lego_mlir.transforms import tile_names

if TYPE_CHECKING:
    from lego_mlir.interp.access import MemoryAccess

Indices = Callable[[Machine], Sequence[Array]]


def space_of(type_: Type, inside_kernel: bool = True) -> Space:
    """The memory space of an allocation, from the spelling in its type."""
    text = str(type_.memory_space)
    if text in ("#gpu.address_space<workgroup>", "3 : i64", "3"):
        return Space.SHARED
    if text in ("#gpu.address_space<global>", "1 : i64", "1") or not inside_kernel:
        return Space.GLOBAL
    return Space.LOCAL


def sizes_of(type_: Type, m: Machine, dynamic: Sequence[int]) -> list[int | Array]:
    """The sizes of an allocation; those that the type leaves open are operands."""
    pending = [values.only(m.values[slot], f"a size of {type_}") for slot in dynamic]
    return [pending.pop(0) if n == type_.get_dynamic_size() else n for n in type_.shape]


@implements("memref.alloc", "memref.alloca")
def alloc(op: Operation) -> Step:
    type_, result = op.result_type(), op.result
    dynamic = op.segments()[0]
    dtype, name = (
        values.element_dtype(type_),
        tile_names.of_location(op.operation.location) or f"the buffer of {op.place}",
    )
    parent = op.operation.parent
    while parent is not None and parent.name not in ("gpu.func", "gpu.launch", "func.func"):
        parent = parent.operation.parent
    inside = parent is None or parent.name != "func.func" or op.name == "memref.alloca"
    space = space_of(type_, inside)
    if space is Space.SHARED and type_.has_static_shape:
        op.compiler.shared_bytes += int(np.prod(type_.shape)) * dtype.itemsize

    def step(m: Machine) -> None:
        m.values[result] = memory.allocate(m, space, dtype, sizes_of(type_, m, dynamic), name)

    return step


@implements("memref.dealloc", "memref.assume_alignment", "memref.distinct_objects")
def pass_on(op: Operation) -> Step:
    """Forward operands to results, if any."""
    return copy_slots(op.operands[: len(op.results)], op.results)


@implements("memref.cast", "memref.memory_space_cast")
def cast(op: Operation) -> Step:
    return copy_slots(op.operands, op.results)


@implements("memref.get_global")
def get_global(op: Operation) -> Step:
    """A module-level buffer: a shared one for each block, a constant filled once for each batch."""
    name, result, type_ = str(op.attribute("name").value), op.result, op.result_type()
    definition = op.compiler.symbol(name)
    dtype, space = values.element_dtype(type_), space_of(type_, False)
    initial = None
    if "initial_value" in definition.attributes and str(definition.attributes["initial_value"]) != "unit":
        attribute = definition.attributes["initial_value"]
        count = int(np.prod(type_.shape))
        splat = getattr(attribute, "is_splat", False)
        filling = [attribute.get_splat_value().value] if splat else elements(attribute, dtype)
        initial = np.broadcast_to(np.asarray(filling, dtype), (count,))

    def step(m: Machine) -> None:
        if name not in m.statics:
            ref = memory.allocate(m, space, dtype, list(type_.shape), f"@{name}")
            if initial is not None:
                ref.buffer.storage[:] = np.ascontiguousarray(initial).view(np.uint8)
                ref.buffer.reads_tracked = False
            m.statics[name] = ref
        m.values[result] = m.statics[name]

    return step


def load_step(op: Operation, ref: int, indices: Indices, run: int = 1) -> Step:
    """Load one element a lane, or `run` consecutive ones."""
    access, result = op.access("read"), op.result
    is_vector = run > 1 or bool(values.vector_shape(op.result_type()))
    shape = values.vector_shape(op.result_type())

    def step(m: Machine) -> None:
        window: MemRef = m.values[ref]
        touch = touch_run(m, access, window, indices(m), run)
        found = memory.read(m, access, touch, window.dtype)
        m.values[result] = found.reshape(*found.shape[:2], *shape) if is_vector else found

    return step


def store_step(op: Operation, value: int, ref: int, indices: Indices, run: int = 1) -> Step:
    """Store one element a lane, or `run` consecutive ones."""
    access = op.access("write")
    shape = (run,) if run > 1 else ()

    def step(m: Machine) -> None:
        stored = m.values[value]
        touch = touch_run(m, access, m.values[ref], indices(m), run)
        memory.write(m, access, touch, stored.reshape(*stored.shape[:2], *shape))

    return step


def touch_run(
    m: Machine, access: MemoryAccess, window: MemRef, indices: Sequence[Array], run: int, ok: Array | None = None
) -> Touch:
    """`run` elements along the last axis: one access if they are contiguous in memory, several otherwise."""
    if run == 1 or (isinstance(window.strides[-1], int) and window.strides[-1] == 1):
        touch = memory.address(m, access, window, indices, run=run, ok=ok)
        if run > 1:
            memory.check_alignment(m, access, touch)
        return touch
    spread = [index[..., None] for index in indices]
    spread[-1] = spread[-1] + np.arange(run, dtype=np.int64)
    return memory.address(m, access, window, spread, ok=None if ok is None else ok[..., None])


def plain(slots: Sequence[int]) -> Indices:
    """Indices given by operands."""
    return lambda m: [m.values[slot] for slot in slots]


@implements("memref.load")
def load(op: Operation) -> Step:
    op.touches(0, read=True)
    return load_step(op, op.operands[0], plain(op.operands[1:]))


@implements("memref.store")
def store(op: Operation) -> Step:
    op.touches(1, written=True)
    return store_step(op, op.operands[0], op.operands[1], plain(op.operands[2:]))


@implements("memref.prefetch")
def prefetch(op: Operation) -> Step:
    """A hint without visible effect."""
    return lambda m: None


@implements("memref.copy")
def copy(op: Operation) -> Step:
    """Each active lane copies all elements, between memrefs of the same shape."""
    op.touches(0, read=True)
    op.touches(1, written=True)
    return copy_all(op, *op.operands)


def copy_all(op: Operation, source: int, target: int) -> Step:
    """The step that copies all elements of a memref to another one."""
    reading, writing = op.access("read"), op.access("write")

    def step(m: Machine) -> None:
        window: MemRef = m.values[source]
        sizes = [n if isinstance(n, int) else values.only(n, f"a size of {op.name}") for n in window.sizes]
        grid = np.indices(sizes, dtype=np.int64).reshape(len(sizes), 1, 1, -1)
        found = memory.read(m, reading, memory.address(m, reading, window, list(grid)), window.dtype)
        memory.write(m, writing, memory.address(m, writing, m.values[target], list(grid)), found)

    return step


@implements("memref.dim")
def dim(op: Operation) -> Step:
    def size_of(ref: MemRef, axis: Array) -> Array:
        size = ref.sizes[values.only(axis, "the axis of memref.dim")]
        return size if isinstance(size, np.ndarray) else values.uniform(size)

    return op.elementwise(size_of)


@implements("memref.rank")
def rank(op: Operation) -> Step:
    return op.constant(values.uniform(op.operand_type(0).rank))


def _mixed(m: Machine, static: Sequence[int], dynamic: Sequence[int]) -> list[int | Array]:
    """Static numbers with the dynamic ones filled in; a uniform dynamic number becomes an int."""
    pending = [m.values[slot] for slot in dynamic]
    found: list[int | Array] = []
    for n in static:
        value = pending.pop(0) if n == DYNAMIC else n
        found.append(int(value.flat[0]) if isinstance(value, np.ndarray) and value.size == 1 else value)
    return found


@implements("memref.subview")
def subview(op: Operation) -> Step:
    source, offsets, sizes, strides = op.segments()
    static = [op.integers(f"static_{what}") for what in ("offsets", "sizes", "strides")]
    type_, result = op.result_type(), op.result
    kept = _kept_axes(op, static[1], type_)

    def step(m: Machine) -> None:
        window: MemRef = m.values[source[0]]
        at, extent, by = (_mixed(m, s, d) for s, d in zip(static, (offsets, sizes, strides), strict=True))
        offset: Any = window.offset
        for start, stride in zip(at, window.strides, strict=True):
            offset = offset + start * stride
        steps = [a * b for a, b in zip(by, window.strides, strict=True)]
        m.values[result] = replace(
            window, offset=offset, sizes=tuple(extent[i] for i in kept), strides=tuple(steps[i] for i in kept)
        )

    return step


def _kept_axes(op: Operation, sizes: Sequence[int], type_: Type) -> list[int]:
    """The axes of the source that remain in the result: unit axes are dropped, identified by the result's strides."""
    spare = len(sizes) - type_.rank
    if spare == 0:
        return list(range(len(sizes)))
    wanted = list(type_.shape)
    kept: list[int] = []
    source_strides = op.operand_type(0).get_strides_and_offset()[0]
    target_strides = type_.get_strides_and_offset()[0]
    by = op.integers("static_strides")
    for i, size in enumerate(sizes):
        fits = bool(wanted) and size in (wanted[0], DYNAMIC)
        if fits and size == 1 and spare > 0:
            step = source_strides[i] * by[i] if DYNAMIC not in (source_strides[i], by[i]) else DYNAMIC
            fits = step == target_strides[len(kept)]
        if fits:
            kept.append(i)
            wanted.pop(0)
        else:
            spare -= 1
    return kept


@implements("memref.reinterpret_cast")
def reinterpret_cast(op: Operation) -> Step:
    source, offsets, sizes, strides = op.segments()
    static = [op.integers(f"static_{what}") for what in ("offsets", "sizes", "strides")]
    result = op.result

    def step(m: Machine) -> None:
        window: MemRef = m.values[source[0]]
        at, extent, by = (_mixed(m, s, d) for s, d in zip(static, (offsets, sizes, strides), strict=True))
        m.values[result] = replace(window, offset=at[0], sizes=tuple(extent), strides=tuple(by))

    return step


@implements("memref.view")
def view(op: Operation) -> Step:
    """Raw bytes viewed as elements, from a byte shift."""
    source, shift, *dynamic = op.operands
    type_, result = op.result_type(), op.result
    dtype, tile = values.element_dtype(type_), tile_names.of_location(op.operation.location)
    _note_dynamic_shared(op, dtype)

    def step(m: Machine) -> None:
        window: MemRef = m.values[source]
        start = window.start * window.dtype.itemsize + m.values[shift]
        if (start % dtype.itemsize != 0).any():
            op.fail(f"byte shift {start.flat[0]} is not a multiple of the element's {dtype.itemsize} bytes")
        first = start // dtype.itemsize
        base = int(first.flat[0]) if first.size == 1 else first
        sizes = sizes_of(type_, m, dynamic)
        m.values[result] = MemRef(window.buffer, dtype, 0, tuple(sizes), memory.row_major(sizes), base, tile)

    return step


def _note_dynamic_shared(op: Operation, dtype: DType) -> None:
    """Record the bytes of dynamic shared memory that the kernel views, and the smallest element size."""
    source, shift = op.operation.operands[0], op.operation.operands[1]
    producer = getattr(source.owner, "operation", None)
    if producer is None or producer.name != "gpu.dynamic_shared_memory":
        return
    compiler, type_ = op.compiler, op.result_type()
    compiler.granule = min(compiler.granule or dtype.itemsize, dtype.itemsize)
    start = getattr(shift.owner, "operation", None)
    if start is not None and start.name == "arith.constant" and type_.has_static_shape:
        end = int(start.attributes["value"].value) + int(np.prod(type_.shape)) * dtype.itemsize
        compiler.dynamic_bytes = max(compiler.dynamic_bytes, end)


@implements("memref.collapse_shape", "memref.expand_shape")
def reshape(op: Operation) -> Step:
    """Split or join axes. The verifier guarantees that joined axes are dense relative to each other."""
    groups = [[int(i.value) for i in group] for group in op.attribute("reassociation")]
    source, *dynamic = op.operands
    result, collapse = op.result, op.name == "memref.collapse_shape"
    shape = op.integers("static_output_shape") if not collapse else ()

    def step(m: Machine) -> None:
        window: MemRef = m.values[source]
        sizes: list[int | Array] = []
        strides: list[int | Array] = []
        if collapse:
            for group in groups:
                sizes.append(_product([window.sizes[i] for i in group]))
                wide = [i for i in group if not (isinstance(window.sizes[i], int) and window.sizes[i] == 1)]
                strides.append(window.strides[(wide or group)[-1]])
        else:
            sizes = _mixed(m, shape, dynamic)
            for axis, group in enumerate(groups):
                inner = memory.row_major([sizes[i] for i in group])
                strides += [n * window.strides[axis] for n in inner]
        m.values[result] = replace(window, sizes=tuple(sizes), strides=tuple(strides))

    return step


def _product(factors: Sequence[int | Array]) -> int | Array:
    total: int | Array = 1
    for factor in factors:
        total = total * factor
    return total


@implements("memref.transpose")
def transpose(op: Operation) -> Step:
    permutation = op.attribute("permutation").value
    order = [e.maybe_downcast().position for e in permutation.results]

    def transposed(window: MemRef) -> MemRef:
        return replace(
            window, sizes=tuple(window.sizes[i] for i in order), strides=tuple(window.strides[i] for i in order)
        )

    return op.elementwise(transposed)


@implements("memref.extract_strided_metadata")
def extract_strided_metadata(op: Operation) -> Step:
    """The base buffer, the offset, the sizes and the strides, as values."""
    (source,) = op.operands
    base, offset, *rest = op.results

    def step(m: Machine) -> None:
        window: MemRef = m.values[source]
        m.values[base] = replace(window, offset=0, sizes=(), strides=())
        found = [window.offset, *window.sizes, *window.strides]
        for slot, value in zip([offset, *rest], found, strict=True):
            m.values[slot] = value if isinstance(value, np.ndarray) else values.uniform(value)

    return step
