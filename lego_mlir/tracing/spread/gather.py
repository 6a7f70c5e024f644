"""`lego.gather`: elements of a spread value selected by indices along an axis.

    y = lego.gather(x, i, axis=1)          y[r, c] = x[r, i[r, c]]

The result is placed as the indices are. `f2.gathers` plans it: where the axis stays within a warp, by shuffles, each of
which brings a word that may hold the element, and selects; otherwise, or where that is cheaper, through shared memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sympy

from lego_mlir.aliases import IndexLike, Operand
from lego_mlir.errors import LayoutError, TraceError, brief
from lego_mlir.expr.index import Index, as_expr
from lego_mlir.f2.boxed import shape_of_box
from lego_mlir.f2.gathers import GatherPlan, gather_plan, offsets_of, stored_plan
from lego_mlir.f2.linear import LinearLayout
from lego_mlir.f2.matrix import combine, solve
from lego_mlir.f2.swizzle import SwizzlePlan
from lego_mlir.tracing.spread.conversion import movable, restored, stored_in_scratch
from lego_mlir.tracing.spread.coordinates import thread_ids
from lego_mlir.tracing.spread.distributed import Spread, open_tile
from lego_mlir.tracing.spread.lane_exchange import odd, packed_word
from lego_mlir.tracing.trace.trace import Load, TensorAccess
from lego_mlir.tracing.trace.tracer import Tracer, current
from lego_mlir.tracing.words.claimed import claim
from lego_mlir.tracing.words.scalar import Scalar, select
from lego_mlir.tracing.words.scalar import convert as to_dtype
from lego_mlir.tracing.words.warps import shuffle_word


def gather(value: Spread, index: Spread, axis: int) -> Spread:
    """The elements of `value` whose coordinate along `axis` is given by `index`, placed as `index` is.

    Both have the same sizes but for the axis. Indices are integers from 0 to the size of the axis of `value`; the
    interpreter reports others, whose result is undefined. All threads of the block take part. Raises LayoutError for
    shapes that do not fit. Linear Layouts, section 5.5.
    """
    tracer = current("lego.gather")
    if open_tile(value, index) is not None:
        from lego_mlir.tracing.spread import open_orders

        return open_orders.gather(value, index, _checked_axis(tracer, value, index, axis))
    data = movable("lego.gather", value)
    name = _checked_axis(tracer, value, index, axis)
    plan = gather_plan(value.layout, index.layout, name, data.dtype.bits)
    return restored(by_plan(data, index, plan, name), value.dtype)


def by_plan(value: Spread, index: Spread, plan: GatherPlan, axis: str) -> Spread:
    """A gather of data of at least 8 bits along an axis, by a plan."""
    tracer = current("lego.gather")
    size = dict(zip(value.layout.out_sizes, shape_of_box(value.layout), strict=True))[axis]
    known: dict[int, tuple[Operand, Index]] = {}
    indices: list[Index | None] = []
    for given in index.get().registers:
        if given is None:  # outside of a box
            indices.append(None)
            continue
        if id(given) not in known:
            known[id(given)] = given, (Index(given) if isinstance(given, Index) else claim(given, (0, size)))
        indices.append(known[id(given)][1])
    if plan.by_shuffles:
        registers = _by_shuffles(tracer, plan, value, indices)
    else:
        stored = stored_plan(plan, value.layout, index.layout, axis)
        registers = _through_memory(tracer, plan, stored, value, indices)
    return Spread(index.layout, value.dtype, registers)


def _checked_axis(tracer: Tracer, value: Spread, index: Spread, axis: int) -> str:
    """The output of the axis. Raises LayoutError, TraceError for shapes and types that do not fit."""
    if not isinstance(index, Spread) or index.dtype.family not in ("int", "index"):
        raise tracer.error(
            f"lego.gather takes a spread value of integers as its indices, got {brief(repr(index))}", TraceError
        )
    shapes = [list(tile.shape) for tile in (value, index)]
    rank = len(shapes[0])
    if not isinstance(axis, int) or not -rank <= axis < rank:
        raise tracer.error(f"lego.gather: axis {axis!r} of a value of shape {shapes[0]}", LayoutError)
    others = [[n for k, n in enumerate(shape) if k != axis % rank] for shape in shapes]
    if len(shapes[1]) != rank or others[0] != others[1]:
        raise tracer.error(
            f"lego.gather: a value of shape {shapes[0]} and indices of shape {shapes[1]}; their sizes must be the same "
            f"but for axis {axis}",
            LayoutError,
        )
    return f"dim{axis % rank}"


class _Places:
    """Outputs of a linear map of register, lane, warp and index, for this thread."""

    def __init__(self, tracer: Tracer, layout: LinearLayout) -> None:
        self.layout, self.ids = layout, thread_ids(tracer)
        (self.output,) = layout.out_sizes

    def at(self, register: int, index: IndexLike) -> IndexLike:
        """The output for a register of the result and its index."""
        inner = self.layout.sublayout(["index", "lane", "warp"], [self.output])
        thread: Mapping[str, IndexLike] = self.ids
        if "thread" in self.ids:
            bits = dict(inner.ins)
            columns = [inner.columns_of("lane", "warp"), inner.columns_of("index")]
            ins = (("thread", bits["lane"] + bits["warp"]), ("index", bits["index"]))
            inner = LinearLayout.of(ins, inner.outs, [c for part in columns for c in part])
        names = {**thread, "index": index}
        found = inner.apply(**{name: names[name] for name in inner.in_sizes})[self.output]
        constant = combine(self.layout.columns_of("register"), register)
        return found ^ constant if constant else found


def _by_shuffles(
    tracer: Tracer, plan: GatherPlan, value: Spread, indices: Sequence[Index | None]
) -> list[Scalar | None]:
    inputs = list(plan.place.in_sizes)
    lanes = _Places(tracer, plan.place.sublayout(inputs, ["lane"]))
    sources = plan.place.sublayout(inputs, ["register"])
    basis = plan.candidates
    coordinates = _Places(tracer, _in_basis(sources, basis))
    packed = basis[: plan.packed]
    words: dict[int, Scalar] = {}
    found: list[Scalar | None] = []
    held = [to_dtype(0, value.dtype) if r is None else r for r in value.registers]
    for register, index in enumerate(indices):
        if index is None:
            found.append(None)
            continue
        start = combine(sources.columns_of("register"), register)
        chosen = coordinates.at(0, index) if basis else 0
        lane = lanes.at(register, index) if plan.exchanges else None
        received = []
        for k in range(1 << (len(basis) - len(packed))):
            at = start ^ combine(basis[len(packed) :], k)
            if at not in words:
                words[at] = packed_word([held[at ^ combine(packed, e)] for e in range(1 << len(packed))])
            received.append(words[at] if lane is None else shuffle_word("idx", words[at], lane))
        found.append(_chosen(received, chosen, len(packed)))
    return found


def _in_basis(sources: LinearLayout, basis: Sequence[int]) -> LinearLayout:
    """The coordinates, in a basis, of the source's register but for the part of the result's register."""
    columns = [0 if x is None else x for x in solve(basis, sources.columns)]
    count = len(sources.columns_of("register"))
    columns[:count] = [0] * count
    return LinearLayout.of(sources.ins, (("chosen", len(basis)),), columns)


def _chosen(words: Sequence[Scalar], number: IndexLike, packed: int) -> Scalar:
    """The element of this number: its low `packed` bits select inside a word."""
    width = 1 << packed
    candidates = [w if w.width is None else w[e] for w in words for e in range(width)]
    bit = 0
    while len(candidates) > 1:
        chosen = odd(Index(number), 1 << bit)
        candidates = [select(chosen, b, a) for a, b in zip(candidates[::2], candidates[1::2], strict=True)]
        bit += 1
    return candidates[0]


def _through_memory(
    tracer: Tracer, plan: GatherPlan, stored: SwizzlePlan, value: Spread, indices: Sequence[Index | None]
) -> list[Scalar | None]:
    memory = stored_in_scratch(tracer, stored, value.dtype, value.registers, "a gather through shared memory")
    memory.before_loads()
    offsets = _Places(tracer, offsets_of(plan, stored))
    found: list[Scalar | None] = []
    for register, index in enumerate(indices):
        if index is None:
            found.append(None)
            continue
        position = as_expr(offsets.at(register, index)) + as_expr(memory.first)
        view, here = memory.view, tracer.here()
        loaded = tracer.value(value.dtype)
        where = TensorAccess(view.buffer, view.layout, (position,), sympy.true, tracer.derive(position), 1, here)
        tracer.append(Load(loaded, where, None, here))
        found.append(Scalar(loaded))
    memory.after_loads()
    return found
