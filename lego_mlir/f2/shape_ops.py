"""Shape operations of tensors on their distributed layouts (section 4.4 of the paper).

A shape operation renumbers the elements of a tensor, and never moves data if the result has the layout derived here.
`forward` derives the layout of the result from that of the operand, `backward` the operand's from the result's. The
outputs of these layouts are the tensor's dimensions `dim0, dim1, ..`, outermost first, as in Triton; the flat number of
an element counts the last dimension fastest.

The family of distributed layouts (definition 4.10) is closed under all of them in both directions (theorem 9.3).

>>> L = LinearLayout({"register": [(0, 1)], "lane": [(1, 0), (2, 0)]}, {"dim0": 4, "dim1": 2})
>>> trans(L, (1, 0)).bases
{'register': [(1, 0)], 'lane': [(0, 1), (0, 2)]}
>>> reshape(L, (8,)).bases
{'register': [(1,)], 'lane': [(2,), (4,)]}
"""

from __future__ import annotations

from collections.abc import Sequence

from lego_mlir.errors import LayoutError
from lego_mlir.f2.boxed import BoxedLayout, boxed, linear, padded, shape_of_box
from lego_mlir.f2.dims import Dims, bits_of_size, join, split
from lego_mlir.f2.linear import LinearLayout

REGISTER = "register"


def standard_dims(rank: int) -> tuple[str, ...]:
    """The names of a tensor's dimensions, outermost first: `dim0, dim1, ..`."""
    return tuple(f"dim{k}" for k in range(rank))


def shape_of(layout: LinearLayout) -> tuple[int, ...]:
    """The shape of the tensor that a layout distributes. Raises LayoutError unless its outputs are `dim0, dim1, ..`."""
    names = standard_dims(len(layout.outs))
    if tuple(layout.out_sizes) != names:
        raise LayoutError(
            f"a shape operation takes a layout with the outputs {list(names)}, got {list(layout.out_sizes)}"
        )
    return shape_of_box(layout)


def trans(layout: LinearLayout, order: Sequence[int]) -> LinearLayout:
    """Forward: dimension k of the result is dimension `order[k]` of the operand, counted from 0."""
    shape = shape_of(layout)
    _require_order(order, len(shape))
    moved = layout.transpose_outs([f"dim{k}" for k in order])
    return boxed(_named(moved), [shape[k] for k in order])


def trans_backward(layout: LinearLayout, order: Sequence[int]) -> LinearLayout:
    """Backward: the operand's layout from the result's."""
    _require_order(order, len(shape_of(layout)))
    return trans(layout, [list(order).index(k) for k in range(len(order))])


def reshape(layout: LinearLayout, shape: Sequence[int]) -> LinearLayout:
    """Forward: the same elements in row-major order under another shape; backward is the reshape back."""
    if isinstance(layout, BoxedLayout):
        raise LayoutError(
            f"a tile of {list(layout.box)} is not reshaped to {list(shape)}: its elements are padded to powers of two"
        )
    shape_of(layout)
    minor_first = layout.with_outs(layout.outs[::-1])
    names = standard_dims(len(shape))
    return minor_first.reshape_outs(dict(zip(names[::-1], shape[::-1], strict=True))).transpose_outs(names)


def expand_dims(layout: LinearLayout, axis: int) -> LinearLayout:
    """Forward: a new dimension of size 1 at `axis`."""
    shape = list(shape_of(layout))
    if not 0 <= axis <= len(shape):
        raise LayoutError(f"expand_dims: axis {axis} is outside 0..{len(shape)}")
    sizes = list(layout.out_sizes.values())
    return boxed(reshape(linear(layout), [*sizes[:axis], 1, *sizes[axis:]]), [*shape[:axis], 1, *shape[axis:]])


def expand_dims_backward(layout: LinearLayout, axis: int) -> LinearLayout:
    """Backward: the dimension of size 1 at `axis` dropped."""
    shape = list(shape_of(layout))
    if not 0 <= axis < len(shape) or shape[axis] != 1:
        raise LayoutError(f"expand_dims: dimension {axis} of the shape {shape} must have size 1")
    return reshape(layout, [*shape[:axis], *shape[axis + 1 :]])


def join_tensors(layout: LinearLayout) -> LinearLayout:
    """Forward of `tt.join`: a new last dimension of size 2, in the lowest register bit."""
    _require_whole("join", layout)
    rank = len(shape_of(layout))
    wide = expand_dims(layout, rank)
    return _aligned(LinearLayout.identity(2, REGISTER, f"dim{rank}") * wide, wide)


def join_backward(layout: LinearLayout) -> LinearLayout:
    """Backward of `tt.join`, which is the forward of `tt.split`: the register bit of the last dimension dropped.

    Raises LayoutError unless exactly one register basis is the last dimension's, and nothing else reaches it: only then
    are both halves of a pair in one thread.
    """
    _require_whole("split", layout)
    shape = shape_of(layout)
    last = f"dim{len(shape) - 1}"
    reached = [(n, k) for n, images in layout.bases.items() for k, b in enumerate(images) if b[-1]]
    if shape[-1] != 2 or len(reached) != 1 or reached[0][0] != REGISTER:
        raise LayoutError(
            f"split: the last dimension must have size 2 and be one register bit; its size is {shape[-1]}, and it is "
            f"reached by {[f'{n}={1 << k}' for n, k in reached]}"
        )
    bases: dict[str, list[tuple[int, ...]]] = layout.bases
    at = reached[0][1]
    if any(bases[REGISTER][at][:-1]):
        raise LayoutError(f"split: basis register={1 << at} is {bases[REGISTER][at]}; it must reach {last} alone")
    del bases[REGISTER][at]
    return LinearLayout(
        {n: [b[:-1] for b in images] for n, images in bases.items()}, dict(list(layout.out_sizes.items())[:-1])
    )


split_tensor = join_backward


def broadcast(layout: LinearLayout, shape: Sequence[int]) -> LinearLayout:
    """Forward: dimensions of size 1 grown to `shape`; the copies lie in new, high registers of the same thread."""
    old = shape_of(layout)
    if len(shape) != len(old) or any(a not in (1, b) for a, b in zip(old, shape, strict=True)):
        raise LayoutError(f"broadcast: a tensor of shape {list(old)} cannot be broadcast to {list(shape)}")
    grown = layout
    for k, (a, b) in reversed(list(enumerate(zip(old, shape, strict=True)))):
        if a != b:
            grown = _aligned(grown * LinearLayout.identity(b, REGISTER, f"dim{k}"), grown)
    return grown


def broadcast_backward(layout: LinearLayout, shape: Sequence[int]) -> LinearLayout:
    """Backward: the operand's layout from the result's: dimensions of size 1 in `shape` become zero bases."""
    new = shape_of(layout)
    if len(shape) != len(new) or any(a not in (1, b) for a, b in zip(shape, new, strict=True)):
        raise LayoutError(f"broadcast: a tensor of shape {list(shape)} cannot be broadcast to {list(new)}")
    kept = [k for k, (a, b) in enumerate(zip(shape, new, strict=True)) if a == b]
    outs: Dims = tuple((f"dim{k}", bits_of_size("the shape", n)) for k, n in enumerate(padded(shape)))
    columns = []
    for column in layout.columns:
        values = split(column, layout.outs)
        columns.append(join([v if k in kept else 0 for k, v in enumerate(values)], outs))
    return boxed(LinearLayout.of(layout.ins, outs, columns), shape)


def reduced(layout: LinearLayout, axis: int) -> LinearLayout:
    """The layout of a reduction's result along `axis`: the slice, with repeated registers dropped."""
    shape = shape_of(layout)
    if not 0 <= axis < len(shape):
        raise LayoutError(f"a reduction along axis {axis} of the shape {list(shape)}: the axes are 0..{len(shape) - 1}")
    rest = layout.slice(f"dim{axis}")
    return boxed(without_zero_registers(_named(rest)), [*shape[:axis], *shape[axis + 1 :]])


def without_zero_registers(layout: LinearLayout) -> LinearLayout:
    """The layout without registers that hold copies: zero bases of `register` dropped."""
    images = [(name, [c for c in layout.columns_of(name) if c or name != REGISTER]) for name, _ in layout.ins]
    ins = tuple((name, len(columns)) for name, columns in images)
    columns = [c for _, columns in images for c in columns]
    return boxed(LinearLayout.of(ins, layout.outs, columns), shape_of_box(layout))


def _require_whole(called: str, layout: LinearLayout) -> None:
    if isinstance(layout, BoxedLayout):
        raise LayoutError(
            f"{called}: a tile of {list(layout.box)} is padded to powers of two; join and split take whole ones"
        )


def _named(layout: LinearLayout) -> LinearLayout:
    """Outputs renamed `dim0, dim1, ..` in their order."""
    outs = tuple((f"dim{k}", bits) for k, (_, bits) in enumerate(layout.outs))
    return LinearLayout.of(layout.ins, outs, layout.columns)


def _aligned(layout: LinearLayout, like: LinearLayout) -> LinearLayout:
    """Inputs and outputs in the order of another layout, new ones last."""
    ins = [n for n, _ in like.ins] + [n for n, _ in layout.ins if n not in like.in_sizes]
    outs = [n for n, _ in like.outs] + [n for n, _ in layout.outs if n not in like.out_sizes]
    return layout.transpose_ins(ins).transpose_outs(outs)


def _require_order(order: Sequence[int], rank: int) -> None:
    if sorted(order) != list(range(rank)):
        raise LayoutError(f"trans: the order must name each of the axes 0..{rank - 1} once, got {list(order)}")
