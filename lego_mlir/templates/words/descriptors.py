"""Tensor descriptors: a strided layout as base, shape and strides, with addresses computed by the hardware.

A tiled layout whose inner layout is affine in its index, `Row`, `Col` or any `RegP` of whole axes, can be accessed
through Triton's tensor descriptors (TMA, from sm_90 on). A descriptor requires a last stride of 1; a layout that is
contiguous along another axis gets a transposed descriptor, and loaded blocks are transposed back. Triton 3.9 has
removed the older block pointers.

The hardware requires a base and strides that are multiples of 16 bytes (CUDA driver API, cuTensorMapEncodeTiled). The
base is up to the caller; the strides are validated here as far as the element type is known.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from lego_mlir.aliases import Expr, IndexLike, Symbol
from lego_mlir.errors import TemplateError, brief
from lego_mlir.expr.index import Index, as_expr, index_symbol
from lego_mlir.expr.intervals import bounds
from lego_mlir.expr.nodes import Size
from lego_mlir.expr.ranges import Range
from lego_mlir.expr.simplify import simplify
from lego_mlir.layout.slices import Colon
from lego_mlir.layout.tiled import Tiled
from lego_mlir.layout.values import end_of
from lego_mlir.printers.triton import TritonPrinter
from lego_mlir.templates.render.blocks import blocks_in
from lego_mlir.templates.render.indices import Bounded, ranges_of
from lego_mlir.templates.render.require import require_language, require_one_of, require_text
from lego_mlir.templates.render.values import NamedLayout, Offsets

if TYPE_CHECKING:
    from lego_mlir.templates.render.placeholders import Filling

STRIDE_BYTES: Final = 16  # every stride in bytes must be a multiple
BYTES: Final = {  # per element, by Triton's type name
    **dict.fromkeys(("int8", "uint8", "float8e4nv", "float8e4b8", "float8e4b15", "float8e5", "float8e5b16"), 1),
    **dict.fromkeys(("int16", "uint16", "float16", "bfloat16"), 2),
    **dict.fromkeys(("int32", "uint32", "float32"), 4),
    **dict.fromkeys(("int64", "uint64", "float64"), 8),
}


@dataclass(frozen=True, slots=True)
class StridedForm:
    """A layout as shape and strides; `order` names its axes from the largest stride to the smallest."""

    shape: tuple[Any, ...]
    strides: tuple[Any, ...]
    block: tuple[Any, ...]
    order: tuple[int, ...]


def strided(placed: NamedLayout) -> StridedForm:
    """The strided form of a tiled layout. Raises TemplateError, with the reason, if it is not strided."""
    layout = placed.layout
    if not isinstance(layout, Tiled) or len(layout.levels) < 2:
        raise TemplateError(f"{placed.name}: a descriptor needs a tiled layout, Row(M, K).tile_by([..], [..])")
    inner = layout.inner
    symbols = [index_symbol(f"i{axis}") for axis in range(len(inner.dims()))]
    ranges = {s.expr: Range(0, end_of(n)) for s, n in zip(symbols, inner.dims(), strict=True)}
    if inner.mask(*symbols) is not True:
        raise TemplateError(
            f"{placed.name}: the layout under its tiles, {brief(repr(inner))}, is masked itself, and hardware masks "
            "at the end of each axis alone; use offsets, A[..., :, :], instead of a descriptor"
        )
    strides = [_slope(placed.name, inner.apply(*symbols), s, ranges) for s in symbols]
    unit = [axis for axis, stride in enumerate(strides) if stride == 1]
    if not unit:
        raise TemplateError(
            f"{placed.name}: no axis has stride 1 (strides {list(map(brief, strides))}), and the hardware copies whole "
            "contiguous runs; use offsets, A[..., :, :], instead of a descriptor"
        )
    order = (*(axis for axis in range(len(symbols)) if axis != unit[-1]), unit[-1])
    return StridedForm(tuple(inner.dims()), tuple(strides), tuple(layout.levels[-1]), order)


def _slope(name: str, position: Expr, symbol: Index, ranges: dict[Symbol, Range]) -> Expr:
    raw = as_expr(position)
    moved = simplify(raw.xreplace({symbol.expr: symbol.expr + 1}) - raw, ranges).expr
    if moved.free_symbols & ranges.keys():
        raise TemplateError(
            f"{name}: not strided, so use offsets, {name}[..., :, :], instead of a descriptor: one step along {symbol} "
            f"moves the position by {brief(moved)}, which depends on the index"
        )
    return moved


def require_aligned(name: str, form: StridedForm, dtype: str | None = None) -> None:
    """Reject strides, other than the contiguous one, that are not proved to be multiples of 16 bytes.

    Without a type only odd numbers of elements are rejected: they fit no type, as elements have at most 8 bytes.
    """
    if dtype is not None:
        require_one_of("descriptor", "dtype", dtype, tuple(BYTES))
    multiple = STRIDE_BYTES // (1 if dtype is None else BYTES[dtype])
    for axis in form.order[:-1]:
        stride = as_expr(form.strides[axis])
        known = bounds(stride, {})
        odd = known.modulus % 2 == 0 and known.remainder % 2 == 1
        if not (odd if dtype is None else known.multiple_of % multiple):
            continue
        moved = (
            f"{brief(stride)} elements, and an odd number fits no type"
            if dtype is None
            else f"{brief(stride)} elements of {8 * BYTES[dtype]} bits ({dtype})"
        )
        raise TemplateError(
            f"{name}: a descriptor needs every stride but the contiguous one to be a multiple of {STRIDE_BYTES} bytes; "
            f"one step along axis {axis} moves by {moved}; {_wider(stride, multiple)}, or use offsets, "
            "A[..., :, :], instead of a descriptor"
        )


def _wider(stride: Expr, multiple: int) -> str:
    """The remedy that makes a stride a multiple of this number of elements."""
    sizes = sorted(stride.free_symbols, key=str)
    if not sizes:
        wider = -(-int(stride) // multiple) * multiple
        return f"pad it to {wider}, as Padded(Row(M, {wider}), [M, {stride}]) does"
    if stride.xreplace(dict.fromkeys(sizes, as_expr(0))) % multiple:
        return f"pad it to a multiple of {multiple} elements"
    return f"declare a divisor, such as size({str(sizes[0])!r}, multiple_of={multiple})"


class Descriptors:
    """Template functions for tensor descriptors."""

    def __init__(self, filling: Filling) -> None:
        self.filling = filling

    def globals(self) -> dict[str, object]:
        return {f.__name__: f for f in (self.descriptor, self.load_block, self.store_block)}

    def _show(self, values: Iterable[IndexLike]) -> str:
        return f"[{', '.join(str(self.filling.finalize(Bounded(v))) for v in values)}]"

    def descriptor(self, pointer: str, placed: NamedLayout, dtype: str | None = None) -> str:
        """`tl.make_tensor_descriptor` of a tiled layout; its block is the innermost tile, `dtype` a Triton type."""
        self._require_triton("descriptor")
        require_text("descriptor", "the pointer", pointer)
        if dtype is not None:
            require_text("descriptor", "the type", dtype)
        if not isinstance(placed, NamedLayout):
            raise TemplateError(
                f"descriptor: a layout is needed, descriptor({pointer!r}, A), got {brief(repr(placed))}"
            )
        form = strided(placed)
        require_aligned(placed.name, form, dtype)
        shape, strides, block = (
            [values[axis] for axis in form.order] for values in (form.shape, form.strides, form.block)
        )
        for n in block:
            if isinstance(n, Index):
                self.filling.constexpr(as_expr(n), f"a block of {n} elements", "a descriptor")
        return (
            f"tl.make_tensor_descriptor({pointer}, shape={self._show(shape)}, strides={self._show(strides)}, "
            f"block_shape={self._show(block)})"
        )

    def load_block(self, name: str, block: Offsets) -> str:
        """Read a block through the descriptor `name`; elements past the end are 0."""
        places, transposed = self._places("load_block", name, block)
        return f"{name}.load({places}){'.T' if transposed else ''}"

    def store_block(self, name: str, block: Offsets, value: str) -> str:
        """Write a block through the descriptor `name`; elements past the end are not written."""
        require_text("store_block", "the value, an expression of Triton,", value)
        places, transposed = self._places("store_block", name, block)
        return f"{name}.store({places}, {f'tl.trans({value})' if transposed else value})"

    def _require_triton(self, word: str) -> None:
        require_language(
            f"{word}: tensor descriptors are Triton's",
            "triton",
            self.filling.language,
            "write the access itself, a[...], with {{ A[i, j] }} as its index",
        )

    def _places(self, word: str, name: str, block: Offsets) -> tuple[str, bool]:
        """The offsets of a block in the descriptor's axis order, and whether that order is transposed."""
        self._require_triton(word)
        require_text(word, "the descriptor's variable", name)
        if not isinstance(block, Offsets) or block.relative:
            raise TemplateError(f"{word}: a slice such as A[i, k, :, :] is needed, got {brief(repr(block))}")
        placed = NamedLayout(block.name, block.slice.layout)
        form = strided(placed)
        places = block.slice.places
        rank = len(form.shape)
        innermost = places[-rank:]
        if (
            not all(isinstance(p, Colon) and p.start == 0 and p.step == 1 for p in innermost)
            or len(block.slice.colons) != rank
        ):
            raise TemplateError(
                f"{block.name}: a descriptor reads whole tiles; give ':' for each of the last {rank} axes and an index "
                "for every other"
            )
        start = block.slice.layout.logical(*places[:-rank], *[0] * rank)  # type: ignore[attr-defined]
        shown = [Bounded(as_expr(start[axis]), {**block.ranges, **ranges_of(start[axis])}) for axis in form.order]
        if rank > 2 and form.order != tuple(range(rank)):
            raise TemplateError(f"{block.name}: only a matrix can be read transposed; use offsets, A[..., :, :]")
        if varying := blocks_in(*shown):
            raise TemplateError(
                f"{word}: a descriptor reads one tile, and {varying[0]} holds {varying[0].count} indices; use offsets, "
                f'load("..", {block!r})'
            )
        self._require_32_bits(block.name, shown)
        return f"[{', '.join(str(self.filling.finalize(v)) for v in shown)}]", form.order != tuple(range(rank))

    def _require_32_bits(self, name: str, places: list[Bounded]) -> None:
        """Require 32-bit offsets, the widest that descriptors take."""
        for place in places:
            expr = self.filling.simplified(place.expr, place.ranges)
            if TritonPrinter(place.ranges).width_of(expr) != "i32":
                sizes = sorted(
                    str(s) for s in expr.free_symbols | self._bounds_of(place) if isinstance(s, Size) and s.max is None
                )
                raise TemplateError(
                    f"{name}: a descriptor takes 32-bit offsets, and {brief(expr)} is not shown to fit; give a maximum "
                    f"to {' and '.join(sizes)}, such as size({(sizes or ['M'])[0]!r}, max=65536), or use offsets"
                )

    @staticmethod
    def _bounds_of(place: Bounded) -> set[Symbol]:
        return {s for r in place.ranges.values() for s in getattr(as_expr(r.hi), "free_symbols", ())}
