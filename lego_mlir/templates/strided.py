"""Tensor descriptors: a strided layout as base, shape and strides, so that the hardware computes the addresses.

A tiled layout whose inner layout is affine in its own index, `Row`, `Col` or any `RegP` of whole axes, can be read by
Triton's tensor descriptors (TMA on Hopper). The descriptor needs its last stride to be 1; a layout that is contiguous
along another axis is described transposed, and a block that is loaded is transposed back. Block pointers, the older
form, are gone from Triton (3.9 refuses them), so there is one form here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lego_mlir.errors import TemplateError
from lego_mlir.expr.index import as_expr, index_symbol
from lego_mlir.expr.nodes import Size
from lego_mlir.expr.ranges import Range
from lego_mlir.layout.slices import Colon
from lego_mlir.layout.tiled import Tiled
from lego_mlir.layout.values import end_of
from lego_mlir.printers.triton import TritonPrinter
from lego_mlir.templates.values import Bounded, Offsets, Placed, ranges_of

if TYPE_CHECKING:
    from lego_mlir.templates.placeholders import Filling


@dataclass(frozen=True, slots=True)
class Strided:
    """A layout as shape and strides; `order` names its axes from the largest stride to the smallest."""

    shape: tuple[Any, ...]
    strides: tuple[Any, ...]
    block: tuple[Any, ...]
    order: tuple[int, ...]


def strided(placed: Placed) -> Strided:
    """The strided form of a tiled layout. Raises TemplateError, with the reason, for a layout that has none."""
    layout = placed.layout
    if not isinstance(layout, Tiled) or len(layout.levels) < 2:
        raise TemplateError(f"{placed.name}: a descriptor needs a tiled layout, Row(M, K).tile_by([..], [..])")
    inner = layout.inner
    symbols = [index_symbol(f"i{axis}") for axis in range(len(inner.dims()))]
    ranges = {s.expr: Range(0, end_of(n)) for s, n in zip(symbols, inner.dims(), strict=True)}
    strides = [_slope(placed.name, inner.apply(*symbols), s, ranges) for s in symbols]
    unit = [axis for axis, stride in enumerate(strides) if stride == 1]
    if not unit:
        raise TemplateError(
            f"{placed.name}: no axis has stride 1 (strides {list(map(str, strides))}), and the hardware copies whole "
            "contiguous runs; use offsets, A[..., :, :], instead of a descriptor"
        )
    order = (*(axis for axis in range(len(symbols)) if axis != unit[-1]), unit[-1])
    return Strided(tuple(inner.dims()), tuple(strides), tuple(layout.levels[-1]), order)


def _slope(name: str, position: Any, symbol: Any, ranges: dict[Any, Range]) -> Any:
    from lego_mlir.expr.simplify import simplify

    raw = as_expr(position)
    moved = simplify(raw.xreplace({symbol.expr: symbol.expr + 1}) - raw, ranges).expr
    if moved.free_symbols & ranges.keys():
        raise TemplateError(
            f"{name}: not strided: one step along {symbol} moves the position by {moved}, which depends on the index; "
            "use offsets, A[..., :, :], instead of a descriptor"
        )
    return moved


class Descriptors:
    """The template's functions for tensor descriptors."""

    def __init__(self, filling: Filling) -> None:
        self.filling = filling

    def globals(self) -> dict[str, Any]:
        return {f.__name__: f for f in (self.descriptor, self.load_block, self.store_block)}

    def _show(self, values: Any) -> str:
        return f"[{', '.join(str(self.filling.finalize(Bounded(v))) for v in values)}]"

    def descriptor(self, pointer: str, placed: Placed) -> str:
        """`tl.make_tensor_descriptor` of a tiled layout; its block is the innermost tile."""
        form = strided(placed)
        shape, strides, block = (
            [values[axis] for axis in form.order] for values in (form.shape, form.strides, form.block)
        )
        return (
            f"tl.make_tensor_descriptor({pointer}, shape={self._show(shape)}, strides={self._show(strides)}, "
            f"block_shape={self._show(block)})"
        )

    def load_block(self, name: str, block: Offsets) -> str:
        """A block read through the descriptor `name`; what lies past the end is 0."""
        places, transposed = self._places(block)
        return f"{name}.load({places}){'.T' if transposed else ''}"

    def store_block(self, name: str, block: Offsets, value: str) -> str:
        """A block written through the descriptor `name`; what lies past the end is left out."""
        places, transposed = self._places(block)
        return f"{name}.store({places}, {f'tl.trans({value})' if transposed else value})"

    def _places(self, block: Offsets) -> tuple[str, bool]:
        """Where a block begins, in the order of the descriptor's axes, and whether that order is another."""
        placed = Placed(block.name, block.slice.layout)
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
        self._require_32_bits(block.name, shown)
        return f"[{', '.join(str(self.filling.finalize(v)) for v in shown)}]", form.order != tuple(range(rank))

    def _require_32_bits(self, name: str, places: list[Bounded]) -> None:
        """The hardware's descriptors count in 32 bits, and Triton takes nothing wider."""
        for place in places:
            expr = self.filling.simplified(place.expr, place.ranges)
            if TritonPrinter(place.ranges).width_of(expr) != "i32":
                sizes = sorted(
                    str(s) for s in expr.free_symbols | self._bounds_of(place) if isinstance(s, Size) and s.max is None
                )
                raise TemplateError(
                    f"{name}: a descriptor takes 32-bit offsets, and {expr} is not shown to fit; give a maximum to "
                    f"{' and '.join(sizes)}, such as size({(sizes or ['M'])[0]!r}, max=65536), or use offsets"
                )

    @staticmethod
    def _bounds_of(place: Bounded) -> set[Any]:
        return {s for r in place.ranges.values() for s in getattr(as_expr(r.hi), "free_symbols", ())}
