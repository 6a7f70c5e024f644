"""`vector`: arithmetic and rearrangement of the trailing axes of a value; the memory accesses are in `vector_access`.

Every operation acts on the vectors of all lanes, so it is the NumPy operation of that name after two leading axes.
"""

# ruff: noqa: D103  (a function here is named after its operation, which the dialect documents)
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from lego_mlir.aliases import Op
from lego_mlir.interp import extremes, rounding, values
from lego_mlir.interp.dialects.affine import mixed
from lego_mlir.interp.machine import Machine
from lego_mlir.interp.program import Operation, Step, implements
from lego_mlir.interp.values import Array, DType

LANES: Final = 2
"""The leading axes before those of a vector: blocks and threads."""


def _combine_unsigned(compute: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    def run(a: Array, b: Array) -> Array:
        return np.asarray(compute(values.unsigned(a), values.unsigned(b))).view(a.dtype)

    return run


COMBINING: Final[dict[str, Callable[[Array, Array], Any]]] = {
    "add": np.add,
    "mul": np.multiply,
    "minui": _combine_unsigned(np.minimum),
    "minsi": np.minimum,
    "minnumf": extremes.minnum,
    "maxui": _combine_unsigned(np.maximum),
    "maxsi": np.maximum,
    "maxnumf": extremes.maxnum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "minimumf": extremes.minimum,
    "maximumf": extremes.maximum,
}


def combine(kind: str, parts: Sequence[Array], present: Sequence[Array] | None = None) -> tuple[Array, Array | None]:
    """Fold parts from first to last; if `present` is given, absent parts are skipped.

    Returns the total and a mask of where any part was present. Each step rounds to the type, as a chain of adds does.
    """
    compute = COMBINING[kind]
    total, any_ = parts[0], None if present is None else present[0]
    for i, part in enumerate(parts[1:], 1):
        new = np.asarray(compute(total, part)).astype(total.dtype)
        if present is None or any_ is None:
            total = new
            continue
        here = present[i]
        total = np.where(here, np.where(any_, new, part), total)
        any_ = any_ | here
    return total, any_


def _splits(value: Array, axes: Sequence[int]) -> list[Array]:
    """The slices of a vector along some of its axes, in row-major order."""
    moved = np.moveaxis(value, [axis + LANES for axis in axes], range(len(axes)))
    return list(moved.reshape(-1, *moved.shape[len(axes) :]))


def fold(kind: str, value: Array, axes: Sequence[int], start: Array | None, mask: Array | None) -> Array:
    """Reduce a vector over axes, from an optional start value, over the elements selected by the mask."""
    parts = _splits(value, axes)
    present = None
    if mask is not None:
        shape = np.broadcast_shapes(mask.shape, value.shape)
        present = _splits(np.broadcast_to(mask, shape), axes)
        parts = _splits(np.broadcast_to(value, shape), axes)
    if start is not None:
        shape = np.broadcast_shapes(parts[0].shape, start.shape)
        parts = [np.broadcast_to(start, shape), *parts]
        present = None if present is None else [np.ones(shape, bool), *present]
    return combine(kind, parts, present)[0]


@implements("vector.reduction", "vector.multi_reduction")
def reduction(op: Operation) -> Step:
    kind, result, mask_slot = op.keyword("kind"), op.result, op.mask
    source, *start = op.operands
    rank = len(values.vector_shape(op.operand_type(0)))
    axes = op.integers("reduction_dims") if op.name == "vector.multi_reduction" else tuple(range(rank))

    def step(m: Machine) -> None:
        v = m.values
        mask = None if mask_slot is None else v[mask_slot]
        v[result] = fold(kind, v[source], axes, v[start[0]] if start else None, mask)

    return step


@implements("vector.scan")
def scan(op: Operation) -> Step:
    kind, axis, inclusive = op.keyword("kind"), op.integer("reduction_dim"), op.flag("inclusive")
    source, start = op.operands
    scanned, last = op.results

    def step(m: Machine) -> None:
        parts = _splits(m.values[source], [axis])
        running, out = m.values[start], []
        if inclusive:
            running = parts[0]
        for i, part in enumerate(parts):
            if inclusive and i == 0:
                out.append(running)
                continue
            new = np.asarray(COMBINING[kind](running, part)).astype(part.dtype)
            out.append(new if inclusive else running)
            running = new
        m.values[scanned] = np.stack(np.broadcast_arrays(*out), axis=axis + LANES)
        m.values[last] = out[-1]

    return step


@implements("vector.contract")
def contract(op: Operation) -> Step:
    """The generalised matrix product: an einsum over the iteration space of the maps."""
    maps = [[e.maybe_downcast().position for e in map_.value.results] for map_ in op.attribute("indexing_maps")]
    reduced = [i for i, kind in enumerate(op.attribute("iterator_types")) if "reduction" in str(kind)]
    kind, result, mask_slot = op.keyword("kind"), op.result, op.mask
    left, right, start = op.operands
    dtype = values.element_dtype(op.result_type())
    shape = values.vector_shape(op.result_type())

    def step(m: Machine) -> None:
        v = m.values
        if kind == "add" and mask_slot is None:
            product = _matrix_product(v[left], v[right], maps, wide(dtype))
            total = rounding.narrow(product + v[start].astype(product.dtype), dtype) if values.is_float(dtype) else None
            v[result] = (product + v[start]).astype(dtype) if total is None else total
        else:
            mask = None if mask_slot is None else v[mask_slot]
            v[result] = _contract_slowly(kind, v[left], v[right], v[start], maps, reduced, mask)
        if not shape:
            v[result] = v[result].reshape(v[result].shape[:LANES])

    return step


def wide(dtype: DType) -> DType:
    """The type in which products are summed: f64 for f64, f32 for narrower floats, unchanged for integers."""
    if not values.is_float(dtype):
        return dtype
    return rounding.F64 if dtype == rounding.F64 else rounding.F32


def _matrix_product(left: Array, right: Array, maps: Sequence[Sequence[int]], dtype: DType) -> Array:
    """Sum of products by matmul: axes sorted into batch, rows, reduction and columns."""
    in_left, in_right, out = maps
    batch = [d for d in out if d in in_left and d in in_right]
    rows = [d for d in out if d in in_left and d not in in_right]
    columns = [d for d in out if d in in_right and d not in in_left]
    inner = [d for d in in_left if d not in out]
    extent = {d: left.shape[LANES + i] for i, d in enumerate(in_left)}
    extent.update({d: right.shape[LANES + i] for i, d in enumerate(in_right)})

    def arranged(value: Array, dims: Sequence[int], *groups: Sequence[int]) -> Array:
        order = [0, 1, *(LANES + list(dims).index(d) for group in groups for d in group)]
        sizes = [int(np.prod([extent[d] for d in group], dtype=int)) for group in groups]
        return value.astype(dtype).transpose(order).reshape(*value.shape[:LANES], *sizes)

    product = arranged(left, in_left, batch, rows, inner) @ arranged(right, in_right, batch, inner, columns)
    order = [*batch, *rows, *columns]
    product = product.reshape(*product.shape[:LANES], *[extent[d] for d in order])
    return product.transpose(0, 1, *[LANES + order.index(d) for d in out])


def _contract_slowly(
    kind: str,
    left: Array,
    right: Array,
    start: Array,
    maps: Sequence[Sequence[int]],
    reduced: Sequence[int],
    mask: Array | None,
) -> Array:
    """Any kind and any mask: all products of the whole iteration space, then a fold."""
    dims = max(max(dims, default=0) for dims in maps) + 1

    def spread(value: Array, own: Sequence[int]) -> Array:
        order = np.argsort(own)
        value = value.transpose(0, 1, *[LANES + int(i) for i in order])
        shape = [1] * dims
        for size, d in zip(value.shape[LANES:], sorted(own), strict=True):
            shape[d] = size
        return value.reshape(*value.shape[:LANES], *shape).astype(start.dtype)

    product = spread(left, maps[0]) * spread(right, maps[1])
    kept = [d for d in range(dims) if d not in reduced]
    order = [LANES + list(maps[2]).index(d) for d in kept]
    found = fold(kind, product, reduced, start.transpose(0, 1, *order), mask)
    return found.transpose(0, 1, *[LANES + kept.index(d) for d in maps[2]])


@implements("vector.outerproduct")
def outerproduct(op: Operation) -> Step:
    kind, is_axpy = op.keyword("kind"), not values.vector_shape(op.operand_type(1))

    def multiplied(a: Array, b: Array, start: Array | None = None) -> Array:
        a, b = (a, b[..., None]) if is_axpy else (a[..., :, None], b[..., None, :])
        if start is None:
            return a * b
        if kind == "add" and values.is_float(a.dtype):
            return rounding.fma(a, b, start)
        return np.asarray(COMBINING[kind](start, a * b)).astype(a.dtype)

    return op.elementwise(multiplied)


Position = tuple[int | Array, ...]


def _position(static: Sequence[int], dynamic: Sequence[int]) -> Callable[[Machine], Position]:
    """An index into the leading vector axes, each entry an int or one number a lane."""

    def find(m: Machine) -> Position:
        entries = mixed(m, static, dynamic)
        return tuple(int(e.flat[0]) if isinstance(e, np.ndarray) and e.size == 1 else e for e in entries)

    return find


def _at(value: Array, position: Position) -> Array:
    if all(isinstance(p, int) for p in position):
        return value[(slice(None), slice(None), *position)]
    for p in position:
        if isinstance(p, int):
            value = value[:, :, p]
            continue
        lanes = np.broadcast_shapes(value.shape[:LANES], p.shape)
        value = np.broadcast_to(value, (*lanes, *value.shape[LANES:]))
        index = values.like_vector(np.broadcast_to(p, lanes), value.ndim)
        value = np.take_along_axis(value, index, axis=LANES)[:, :, 0]
    return value


@implements("vector.extract")
def extract(op: Operation) -> Step:
    source, *dynamic = op.operands
    result, position = op.result, _position(op.integers("static_position"), dynamic)

    def step(m: Machine) -> None:
        m.values[result] = _at(m.values[source], position(m))

    return step


@implements("vector.insert")
def insert(op: Operation) -> Step:
    item, target, *dynamic = op.operands
    result, position = op.result, _position(op.integers("static_position"), dynamic)

    def step(m: Machine) -> None:
        value, into, at = m.values[item], m.values[target], position(m)
        lanes = np.broadcast_shapes(value.shape[:LANES], into.shape[:LANES])
        for p in at:
            lanes = lanes if isinstance(p, int) else np.broadcast_shapes(lanes, p.shape)
        out = np.broadcast_to(into, (*lanes, *into.shape[LANES:])).copy()
        if all(isinstance(p, int) for p in at):
            out[(slice(None), slice(None), *at)] = value
        else:
            grid = np.ogrid[: lanes[0], : lanes[1]]
            out[(*grid, *[p if isinstance(p, int) else np.broadcast_to(p, lanes) for p in at])] = value
        m.values[result] = out

    return step


def _window(op: Operation, sizes: Sequence[int]) -> tuple[slice, ...]:
    offsets, strides = op.integers("offsets"), op.integers("strides")
    cut = [slice(o, o + (n - 1) * s + 1, s) for o, n, s in zip(offsets, sizes, strides, strict=False)]
    return (slice(None), slice(None), *cut)


@implements("vector.extract_strided_slice")
def extract_strided_slice(op: Operation) -> Step:
    window = _window(op, op.integers("sizes"))
    return op.elementwise(lambda a: a[window])


@implements("vector.insert_strided_slice")
def insert_strided_slice(op: Operation) -> Step:
    """The inserted vector fills the innermost axes at the offsets of the outer ones."""
    inner = values.vector_shape(op.operand_type(0))
    outer = values.vector_shape(op.result_type())
    offsets, strides = op.integers("offsets"), op.integers("strides")
    spare = len(outer) - len(inner)
    cut: list[Any] = [slice(None), slice(None), *offsets[:spare]]
    for o, n, s in zip(offsets[spare:], inner, strides, strict=True):
        cut.append(slice(o, o + (n - 1) * s + 1, s))
    window = tuple(cut)

    def put(part: Array, whole: Array) -> Array:
        lanes = np.broadcast_shapes(part.shape[:LANES], whole.shape[:LANES])
        out = np.broadcast_to(whole, (*lanes, *whole.shape[LANES:])).copy()
        out[window] = part
        return out

    return op.elementwise(put)


@implements("vector.shape_cast")
def shape_cast(op: Operation) -> Step:
    shape = values.vector_shape(op.result_type())
    return op.elementwise(lambda a: a.reshape(*a.shape[:LANES], *shape))


@implements("vector.broadcast")
def broadcast(op: Operation) -> Step:
    shape = values.vector_shape(op.result_type())

    def spread(a: Array) -> Array:
        own = a.shape[LANES:]
        a = a.reshape(*a.shape[:LANES], *[1] * (len(shape) - len(own)), *own)
        return np.broadcast_to(a, (*a.shape[:LANES], *shape))

    return op.elementwise(spread)


@implements("vector.transpose")
def transpose(op: Operation) -> Step:
    order = (0, 1, *[LANES + i for i in op.integers("permutation")])
    return op.elementwise(lambda a: a.transpose(order))


@implements("vector.create_mask")
def create_mask(op: Operation) -> Step:
    shape = values.vector_shape(op.result_type())

    def masked(*bounds: Array) -> Array:
        out = values.like_vector(values.uniform(True, np.bool_), LANES + len(shape))
        for axis, (size, bound) in enumerate(zip(shape, bounds, strict=True)):
            own = [1] * len(shape)
            own[axis] = size
            out = out & (np.arange(size).reshape(1, 1, *own) < values.like_vector(bound, LANES + len(shape)))
        return out

    return op.elementwise(masked)


@implements("vector.constant_mask")
def constant_mask(op: Operation) -> Step:
    out = np.zeros((1, 1, *values.vector_shape(op.result_type())), bool)
    out[(slice(None), slice(None), *[slice(0, n) for n in op.integers("mask_dim_sizes")])] = True
    return op.constant(out)


@implements("vector.shuffle")
def shuffle(op: Operation) -> Step:
    """Elements of two concatenated vectors; -1 selects any value; here the first."""
    order = [max(i, 0) for i in op.integers("mask")]

    def pick(a: Array, b: Array) -> Array:
        if a.ndim == LANES:
            a, b = a[..., None], b[..., None]
        lanes = np.broadcast_shapes(a.shape[:LANES], b.shape[:LANES])
        parts = [np.broadcast_to(x, (*lanes, *x.shape[LANES:])) for x in (a, b)]
        return np.concatenate(parts, axis=LANES)[:, :, order]

    return op.elementwise(pick)


@implements("vector.from_elements")
def from_elements(op: Operation) -> Step:
    shape = values.vector_shape(op.result_type())

    def gathered(*parts: Array) -> Array:
        stacked = np.stack(np.broadcast_arrays(*parts), axis=LANES)
        return stacked.reshape(*stacked.shape[:LANES], *shape)

    return op.elementwise(gathered)


@implements("vector.to_elements")
def to_elements(op: Operation) -> Step:
    (source,), results = op.operands, op.results

    def step(m: Machine) -> None:
        flat = m.values[source].reshape(*m.values[source].shape[:LANES], -1)
        for i, slot in enumerate(results):
            m.values[slot] = flat[:, :, i]

    return step


@implements("vector.interleave")
def interleave(op: Operation) -> Step:
    def weave(a: Array, b: Array) -> Array:
        both = np.stack(np.broadcast_arrays(a, b), axis=-1)
        return both.reshape(*both.shape[:-2], -1)

    return op.elementwise(weave)


@implements("vector.deinterleave")
def deinterleave(op: Operation) -> Step:
    (source,), (even, odd) = op.operands, op.results

    def step(m: Machine) -> None:
        m.values[even], m.values[odd] = m.values[source][..., 0::2], m.values[source][..., 1::2]

    return step


@implements("vector.step")
def step_(op: Operation) -> Step:
    (size,) = values.vector_shape(op.result_type())
    return op.constant(np.arange(size, dtype=np.int64).reshape(1, 1, size))


@implements("vector.type_cast")
def type_cast(op: Operation) -> Step:
    op.fail("memrefs of vectors are not supported; load and store vectors instead")


MASKABLE: Final = frozenset(
    "vector." + name
    for name in ("transfer_read", "transfer_write", "reduction", "multi_reduction", "contract", "gather")
)


@implements("vector.mask")
def mask(op: Operation) -> Step:
    """One operation under a mask; masked-off results come from the pass-through value."""
    inner = [o.operation for o in op.operation.regions[0].blocks[0].operations]
    results, slots = op.results, op.operands
    if len(inner) == 1:
        return _passing(op, inner[0], results)
    masked, end = inner
    if masked.name not in MASKABLE:
        op.fail(f"{masked.name} has no masked form; supported: {', '.join(sorted(MASKABLE))}")
    run = op.compiler.step(masked, mask=slots[0])
    ends = [op.compiler.slot(v) for v in end.operands]
    passthru = slots[1] if len(slots) > 1 else None

    def step(m: Machine) -> None:
        run(m)
        for slot, found in zip(results, ends, strict=True):
            value = m.values[found]
            m.values[slot] = value if passthru is None else np.where(m.values[slots[0]], value, m.values[passthru])

    return step


def _passing(op: Operation, end: Op, results: Sequence[int]) -> Step:
    """A mask around no operation: the operands of its terminator are the results."""
    found = [op.compiler.slot(v) for v in end.operands]

    def step(m: Machine) -> None:
        for slot, source in zip(results, found, strict=True):
            m.values[slot] = m.values[source]

    return step
