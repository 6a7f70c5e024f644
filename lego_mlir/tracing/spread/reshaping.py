"""Shape operations of spread values: new labels for the same registers (section 4.4 of the paper).

    x.T, x.transpose((1, 0, 2))     axes in another order
    x.reshape(64, 16)               the same elements in row-major order
    x[:, None], x.expand_dims(1)    a new axis of size 1
    row[:, None] + x                axes of size 1 grow to the other's size, where that takes no movement
    a.join(b), x.split()            a new last axis of size 2, and back

None of them moves data between threads. A broadcast is free if each thread holds the elements that it needs: the result
of a reduction, or any tile in the slice of the other's layout. Otherwise it is refused, with the conversion to write.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lego_mlir.aliases import Operand
from lego_mlir.errors import LayoutError, LegoError, brief
from lego_mlir.f2 import shape_ops
from lego_mlir.f2.boxed import registers_of
from lego_mlir.f2.dims import split as split_bits
from lego_mlir.f2.linear import LinearLayout
from lego_mlir.f2.matrix import combine, solve
from lego_mlir.tracing.spread.distributed import Spread, checked_layout, open_tile
from lego_mlir.tracing.trace.tracer import current


def relabelled(x: Spread, layout: LinearLayout) -> Spread:
    """The same registers under another layout of the same places."""
    return Spread(layout, x.dtype, x.registers)


def transpose(x: Spread, order: Sequence[int]) -> Spread:
    """Dimension k of the result is dimension `order[k]` of x."""
    return relabelled(x, _derived("transpose", lambda: shape_ops.trans(x.layout, order)))


def reshape(x: Spread, shape: Sequence[int]) -> Spread:
    """The elements in row-major order under another shape of as many elements."""
    return relabelled(x, _derived("reshape", lambda: shape_ops.reshape(x.layout, shape)))


def expand_dims(x: Spread, axis: int) -> Spread:
    """A new axis of size 1."""
    return relabelled(x, _derived("expand_dims", lambda: shape_ops.expand_dims(x.layout, axis)))


def join(a: Spread, b: Spread) -> Spread:
    """A tile with a new last axis of size 2: a at 0 and b at 1. Raises LayoutError for different layouts or types."""
    if (tile := open_tile(b)) is not None:
        return tile.joined(a, first=False)
    if not isinstance(b, Spread) or b.layout != a.layout or b.dtype != a.dtype:
        raise current("join").error(
            f"join takes two spread values of one layout and element type, got {a!r} and {brief(repr(b))}; convert "
            "one with lego.convert(b, to=a.layout)",
            LayoutError,
        )
    layout = _derived("join", lambda: shape_ops.join_tensors(a.layout))
    pairs = [value for pair in zip(a.registers, b.registers, strict=True) for value in pair]
    return Spread(layout, a.dtype, pairs)


def split(x: Spread) -> tuple[Spread, Spread]:
    """The two halves of a last axis of size 2. Raises LayoutError if they are not in one thread."""
    layout = _derived("split", lambda: shape_ops.split_tensor(x.layout))
    last = len(x.layout.outs) - 1
    at = next(k for k, basis in enumerate(x.layout.bases["register"]) if basis[last])
    halves = [[v for r, v in enumerate(x.registers) if (r >> at & 1) == half] for half in (0, 1)]
    return Spread(layout, x.dtype, halves[0]), Spread(layout, x.dtype, halves[1])


def with_new_axes(x: Spread, index: object) -> Spread:
    """`x[:, None]`: colons keep the axes in order, None makes one of size 1."""
    entries = index if isinstance(index, tuple) else (index,)
    if any(e is not None and e != slice(None) for e in entries) or entries.count(slice(None)) != len(x.shape):
        raise current("an index of a spread value").error(
            f"the index of a spread value of {len(x.shape)} dimensions has one colon for each and None for new axes, "
            f"such as x[{', '.join([':'] * len(x.shape))}, None]; elements are moved by lego.gather",
            LayoutError,
        )
    for axis, entry in enumerate(entries):
        if entry is None:
            x = x.expand_dims(axis)
    return x


def broadcast_to(x: Spread, layout: LinearLayout) -> Spread:
    """Axes of size 1 grown to a layout's sizes, register by register, without movement between threads.

    Raises LayoutError for shapes that do not fit, and where a thread would need elements of another one.
    """
    if layout == x.layout:
        return x.get()
    layout = checked_layout(layout)
    wanted = _derived("broadcast", lambda: shape_ops.broadcast_backward(layout, x.shape))
    found = solve(x.layout.columns_of("register"), wanted.columns_of("register"))
    for place in ("lane", "warp"):
        if wanted.columns_of(place) != x.layout.columns_of(place):
            raise _not_free(x, layout, place)
    if None in found:
        raise _not_free(x, layout, "register")
    columns = [column for column in found if column is not None]
    return Spread(layout, x.dtype, [x.registers[combine(columns, r)] for r in range(1 << len(columns))])


def rectangle(x: Spread, layout: LinearLayout, at: Sequence[int]) -> Spread:
    """The rectangle of x from the element `at` on, in a layout of the same threads: some of its registers.

    Raises LayoutError where a thread would need elements of another one.
    """
    layout, own = checked_layout(layout), x.layout
    places = {split_bits(combine(own.columns_of("register"), r), own.outs): r for r in reversed(registers_of(own))}
    found: list[Operand | None] = [None] * layout.in_sizes["register"]
    for axis, first in enumerate(at):
        reach = [
            max((basis[axis] for name in ("lane", "warp") for basis in y.bases[name]), default=0) for y in (own, layout)
        ]
        if first and max(reach) >= first & -first:
            raise _not_free(x, layout, "lane")
    if any(own.bases[name] != layout.bases[name] for name in ("lane", "warp")):
        raise _not_free(x, layout, "lane")
    for register in registers_of(layout):
        place = split_bits(combine(layout.columns_of("register"), register), layout.outs)
        found[register] = x.registers[places[tuple(p + first for p, first in zip(place, at, strict=True))]]
    return Spread(layout, x.dtype, found)


def _not_free(x: Spread, layout: LinearLayout, place: str) -> LegoError:
    if x.shape == tuple(layout.out_sizes.values()):
        return current("a tile").error(
            f"a spread value of shape {list(x.shape)} is needed in another layout: its {place}s hold other elements; "
            "convert it, such as lego.convert(x, to=y.layout)",
            LayoutError,
        )
    return current("a broadcast").error(
        f"a spread value of shape {list(x.shape)} is broadcast to {list(layout.out_sizes.values())}, and its {place}s "
        "hold other elements than the result needs there; convert it first to the slice of the result's layout: "
        f"lego.convert(x, to=f2.shape_ops.broadcast_backward(layout, {x.shape}))",
        LayoutError,
    )


def _derived(called: str, layout: Callable[[], LinearLayout]) -> LinearLayout:
    """A layout from `shape_ops`. Raises its error with the user's line."""
    tracer = current(called)
    try:
        return layout()
    except LayoutError as error:
        raise tracer.error(str(error), LayoutError) from None
