"""One memory access: its address, bounds, mask and width.

All four are claims about index expressions, decided while tracing. If some thread of the launch is out of bounds, the
error names the line and the values of such a thread. A mask that is proved true is dropped. A width is granted only if
these four are proved for all its elements:

    inside       the last index is below its size
    contiguous   apply(.., j + k) == apply(.., j) + k          for k in 0 .. width-1
    aligned      apply(.., j) % width == 0                     memory itself is aligned to 16 bytes
    one mask     the first element's mask implies every other's
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import sympy

from lego_mlir.aliases import Cond, Expr, Operand, Symbol
from lego_mlir.errors import LayoutError, RefutedAccessError, TraceError, brief
from lego_mlir.expr.index import Index, as_condition, as_expr, is_array
from lego_mlir.expr.nodes import Lt
from lego_mlir.expr.ranges import Range
from lego_mlir.expr.simplify import Derivation
from lego_mlir.expr.verdict import Proved, Refuted, Verdict
from lego_mlir.hardware.memory import WIDEST_ACCESS
from lego_mlir.layout.base import Layout
from lego_mlir.layout.boundaries import Boundary
from lego_mlir.layout.contiguity import aligned, contiguous
from lego_mlir.layout.named_maps import formulas
from lego_mlir.tracing.trace.halos import Halo
from lego_mlir.tracing.trace.trace import Buffer, TensorAccess
from lego_mlir.tracing.trace.tracer import Tracer, is_within
from lego_mlir.tracing.trace.uncompared import Uncompared

LANE: Final = sympy.Symbol("lane", integer=True)  # an element of a vector, in claims about all of them


class Place(Uncompared):
    """A logical index of a view of memory, before its width is chosen.

    With a `boundary` the index may be outside the sizes. `block` is the rank of the block of the cluster whose shared
    memory it is, where that is not the block of the thread.
    """

    _instead = "compare indices"

    def __init__(
        self,
        tracer: Tracer,
        buffer: Buffer,
        layout: Layout,
        index: tuple[Expr, ...],
        boundary: Boundary | None = None,
        block: Expr | None = None,
    ) -> None:
        self.tracer, self.buffer, self.layout, self.block = tracer, buffer, layout, block
        self.halo = None if boundary is None else Halo(tracer, layout, boundary)
        self.dims = tuple(as_expr(n) for n in layout.dims())
        self.index = tuple(self._entry(i) for i in index)
        if len(self.index) != len(self.dims):
            raise tracer.error(
                f"{buffer.name} takes {len(self.dims)} indices for its logical sizes {list(self.dims)}, "
                f"got {len(self.index)}: {list(self.index)}",
                LayoutError,
            )
        if self.halo is None:
            self._require_inside()
        self.derivation = self._derive(self.index)
        tracer.require_divisors(self.derivation.raw)
        self.mask = self._mask(self.index)
        self._granted: set[int] = set()  # widths that were proved

    def access(self, width: int) -> TensorAccess:
        """The access of `width` elements. Raises LayoutError where that width is not proved."""
        if width != 1:
            reason = self.obstacle(width)
            if reason:
                raise self.tracer.error(
                    f"{self._text()}: {width} elements of {self.buffer.dtype} at once are not "
                    f"possible: {reason}; the widest proved is {self.widest()}, which width=None takes",
                    LayoutError,
                )
        here = self.tracer.here()
        return TensorAccess(
            self.buffer, self.layout, self.index, self.mask, self.derivation, width, here, block=self.block
        )

    def widest(self) -> int:
        """The largest width without an obstacle."""
        return next((w for w in self._widths() if self.fits(w)), 1)

    def fits(self, width: int) -> bool:
        """Whether this width is possible: `not obstacle(width)`, without looking for a remedy."""
        return not self._is_invalid(width) and self._unproved(width) is None

    def fits_for(self, width: int, also: Mapping[Symbol, Range]) -> bool:
        """Whether this width is possible for other ranges of some symbols: for more places than this one."""
        if self._is_invalid(width):
            return False
        lanes = {**also, LANE: Range(0, width)}
        position, mask = self._derive(self.index, also).expr, self._mask(self.index, also)
        claims = self._claims(width, lanes, position, mask)
        return all(self.tracer.holds(claim, lanes) for _, claim in claims)

    def obstacle(self, width: int) -> str:
        """Why this width is not possible; empty if it is."""
        if self._is_invalid(width):
            limit = WIDEST_ACCESS // self.buffer.dtype.bytes
            return f"a width is a power of two of at most {WIDEST_ACCESS} bytes, that is {limit} elements"
        if (unproved := self._unproved(width)) is None:
            return ""
        name, verdict = unproved
        return f"not {name}, {_reason(verdict)}{self._other_direction({LANE: Range(0, width)})}"

    def _is_invalid(self, width: int) -> bool:
        return width < 1 or bool(width & (width - 1)) or width > WIDEST_ACCESS // self.buffer.dtype.bytes

    def _unproved(self, width: int) -> tuple[str, Verdict] | None:
        """The first claim about this width that is not proved, by its name; None if all are."""
        if width in self._granted or (id(self.layout), width, self.index) in self.tracer.granted:
            return None
        lanes = {LANE: Range(0, width)}
        for name, claim in self._claims(width, lanes, self.derivation.expr, self.mask):
            verdict = self.tracer.prove(claim, lanes)
            if not isinstance(verdict, Proved):
                return name, verdict
        self._granted.add(width)
        return None

    def _other_direction(self, lanes: Mapping[Symbol, Range]) -> str:
        """A remedy for a layout that is contiguous along another dimension than the last."""
        *outer, last = range(len(self.index))
        if self._is_contiguous_along(last, lanes):
            return ""
        for axis in outer:
            if self._is_contiguous_along(axis, lanes):
                transposed = f", or load from {self.buffer.name}.T" if len(outer) == 1 else ""
                return (
                    f" (a vector runs along the last dimension, and memory is contiguous along dimension {axis}: "
                    f"reorder the layout{transposed})"
                )
        return ""

    def _is_contiguous_along(self, axis: int, lanes: Mapping[Symbol, Range]) -> bool:
        moved = (*self.index[:axis], self.index[axis] + LANE, *self.index[axis + 1 :])
        return contiguous(self.derivation.expr, self._derive(moved, lanes).expr, LANE) is sympy.true

    def _widths(self) -> Iterator[int]:
        width = WIDEST_ACCESS // self.buffer.dtype.bytes
        while width > 1:
            yield width
            width //= 2

    def _claims(
        self, width: int, lanes: Mapping[Symbol, Range], position: Expr, mask: Cond
    ) -> Iterator[tuple[str, Cond]]:
        *outer, last = self.index
        if self.halo is None:
            yield "inside", Lt(last + width - 1, self.dims[-1])
        yield "aligned", aligned(position, width)
        if not self._is_row_of_memory():
            there = self._derive((*outer, last + LANE), lanes).expr
            yield "contiguous", contiguous(position, there, LANE)
        yield "under one mask", sympy.Or(sympy.Not(mask), self._mask((*outer, last + LANE), lanes))

    def _is_row_of_memory(self) -> bool:
        """Whether neighbours along the last dimension are neighbours in memory, by the formula as it is."""
        if self.halo is not None and (not self.halo.is_transparent or any(i.is_Integer for i in self.index)):
            return False  # the halo maps indices
        *outer, last = map(Index, self.index)
        with formulas():
            here, there = (as_expr(self.layout.apply(*outer, at)) for at in (last, last + LANE))
        return bool(there - here == LANE)

    def _text(self) -> str:
        return f"{self.buffer.name}[{', '.join(map(brief, self.index))}]"

    def _entry(self, value: Operand) -> Expr:
        if isinstance(value, (slice, list)) or value is None or value is Ellipsis or is_array(value):
            raise self.tracer.error(
                f"{self.buffer.name}: a kernel's index is one integer for each dimension, got {value!r}; vectors are "
                "loaded with .load(.., width=..)"
            )
        return self.tracer.index(value)

    def _derive(self, index: tuple[Expr, ...], also: Mapping[Symbol, Range] | None = None) -> Derivation:
        with formulas():
            if self.halo is not None:
                return self.tracer.derive(self.halo.position(index, also), also)
            return self.tracer.derive(as_expr(self.layout.apply(*map(Index, index))), also)

    def _require_inside(self) -> None:
        for axis, (i, n) in enumerate(zip(self.index, self.dims, strict=True)):
            verdict = self.tracer.prove(is_within(i, n))
            if isinstance(verdict, Refuted):
                raise self.tracer.error(
                    f"{self._text()}: index {axis} of {list(self.dims)} leaves 0 .. {n - 1}: "
                    f"{_reason(verdict)}; guard it with `with lego.when(..):`, or tile with tile_by, which masks",
                    RefutedAccessError,
                )

    def _mask(self, index: tuple[Expr, ...], also: Mapping[Symbol, Range] | None = None) -> Cond:
        """The condition under which the index names an element, without its proved conjuncts."""
        if self.halo is None:
            mask = as_condition(self.layout.mask(*map(Index, index)))
        else:
            mask = self.halo.mask(index, also)
        if also is None:
            self.tracer.require_divisors(mask)
        parts = mask.args if isinstance(mask, sympy.And) else (mask,)
        open_parts = (p for p in parts if not self.tracer.holds(p, also))
        return sympy.And(*(self.tracer.simplified(p, also) for p in open_parts))


def _reason(verdict: Verdict) -> str:
    if isinstance(verdict, Refuted):
        values = ", ".join(f"{name} = {value}" for name, value in verdict.counter_example.items())
        return f"for {values}" if values else verdict.explanation
    if isinstance(verdict, Proved):
        raise TraceError(f"proved by {verdict.by}")
    return verdict.reason
