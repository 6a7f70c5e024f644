"""The accesses of a tile in memory whose layout is linear over F2, such as a swizzled shared tile.

Both maps are matrices of bits, so that the position of a register is their product, M(at) ^ M(thread) ^ M(register):
what depends on the thread is computed once, and a register adds a constant, or an exclusive or with one where threads
change the same bit. In `gallery.xor_swizzle(32, 64, vec=8)` the 8 elements of a segment are contiguous, and the rows
`r` and `r + 8` have the same order:

    position = 64 * row + (column ^ 8 * (row % 8))      registers 0 .. 7 are one access

Nothing is proved here but that the tile starts at multiples of its sizes: the rest is elimination.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from math import prod
from typing import Final

import sympy

from lego_mlir.aliases import Expr
from lego_mlir.errors import LayoutError
from lego_mlir.expr.index import Index, as_expr
from lego_mlir.expr.nodes import Eq, FloorMod, Le, Lt
from lego_mlir.expr.simplify import Derivation
from lego_mlir.expr.verdict import Proved
from lego_mlir.f2.bijections import from_layout
from lego_mlir.f2.boxed import BoxedLayout
from lego_mlir.f2.linear import LinearLayout
from lego_mlir.f2.matrix import Echelon, bits_of, combine
from lego_mlir.hardware.memory import WIDEST_ACCESS
from lego_mlir.layout.base import Layout
from lego_mlir.layout.named_maps import position_formula
from lego_mlir.tracing.spread.coordinates import ThreadElements
from lego_mlir.tracing.spread.strided_tiles import moved, selected
from lego_mlir.tracing.trace.trace import TensorAccess
from lego_mlir.tracing.trace.tracer import Tracer
from lego_mlir.tracing.words.tensor import View

LARGEST: Final = 2**17
"""Elements of the largest layout that is compared with its bases: those of shared memory."""


@lru_cache(maxsize=64)
def _bits_of(layout: Layout) -> LinearLayout | None:
    """The layout as a linear map of bits, if it is one of few elements."""
    dims = layout.dims()
    if not all(isinstance(n, int) for n in dims) or prod(map(int, dims)) > LARGEST:
        return None
    try:
        return from_layout(layout)
    except LayoutError:
        return None


class BitTile:
    """A tile of a view whose positions are linear over F2 in the bits of the element and of the first index."""

    def __init__(self, tracer: Tracer, view: View, at: Sequence[Index], elements: ThreadElements, memory: LinearLayout):
        self.tracer, self.view, self.elements = tracer, view, elements
        self.at = tuple(map(tracer.index, at))
        self.outer = len(at) - len(elements.layout.outs)
        axes = [name for name, _ in memory.ins][self.outer :]
        columns = [
            column
            for axis, (_, bits) in zip(axes, elements.layout.outs, strict=True)
            for column in memory.columns_of(axis)[:bits]
        ]
        used = sum({1 << k for column in columns for k in bits_of(column)})
        others = [column for column in memory.columns if column not in columns]
        self.apart = not any(column & used for column in others)  # the first index and the tile have separate bits
        positions = [combine(columns, column) for column in elements.layout.columns]
        self.positions = LinearLayout.of(elements.layout.ins, memory.outs, positions)
        self.threads = ThreadElements(tracer, self.positions)

    @classmethod
    def of(cls, tracer: Tracer, view: View, at: Sequence[Index], elements: ThreadElements) -> BitTile | None:
        """The tile, if its view is linear, and it starts at multiples of its sizes and ends inside."""
        memory = _bits_of(view.layout)
        if memory is None or isinstance(elements.layout, BoxedLayout):
            return None
        outs = elements.layout.outs
        for axis, (first, size) in enumerate(zip(map(tracer.index, at), view.dims(), strict=True)):
            spanned = axis - (len(at) - len(outs))
            extent = 1 << outs[spanned][1] if spanned >= 0 else 1
            fits = sympy.And(Le(0, first), Lt(first + extent - 1, size), Eq(FloorMod(first, extent), 0))
            if not isinstance(tracer.prove(fits), Proved):
                return None
        return cls(tracer, view, at, elements, memory)

    def accesses(self, registers: Sequence[int]) -> Iterator[tuple[list[int], TensorAccess]]:
        """The registers in groups, each with the access of its elements, in order."""
        start = self.tracer.derive(position_formula(self.view.layout, self.at)).expr
        constant = int(start) if start.is_Integer else 0
        run = self._run(sympy.Integer(0) if start.is_Integer else start)
        by_position = {self.threads.offset(register) ^ constant: register for register in registers}
        bases: dict[int, Derivation] = {}
        for position, register in by_position.items():
            if position & sum(run):
                continue
            shared = position & self.threads.support
            if shared not in bases:
                bases[shared] = self._base(shared, start)
            offset = sympy.Integer(position ^ shared)
            if self.apart or start.is_Integer or not offset:
                found = moved(bases[shared], offset)
            else:
                found = self.tracer.derive(as_expr(Index(bases[shared].expr) ^ offset))
            group = [by_position[position | selected(i, run)] for i in range(1 << len(run))]
            inner = (as_expr(i) for i in self.elements.of_register(register))
            index = (*self.at[: self.outer], *(a + i for a, i in zip(self.at[self.outer :], inner, strict=True)))
            buffer, layout, here = self.view.buffer, self.view.layout, self.tracer.here()
            axis = self.elements.axis_of([self.elements.offset(r) for r in group])
            yield group, TensorAccess(buffer, layout, index, sympy.true, found, len(group), here, axis=axis)

    def _base(self, shared: int, start: Expr) -> Derivation:
        """The position of the thread's element with these bits; a known first position is among them already."""
        (base,) = self.threads.base(shared)
        if not start.is_Integer:
            base = base + Index(start) if self.apart else base ^ Index(start)
        return self.tracer.derive(as_expr(base))

    def _run(self, start: Expr) -> list[int]:
        """The bits of consecutive positions that registers alone hold: 1, 2, 4, .."""
        held = Echelon(self.positions.columns_of("register"))
        run: list[int] = []
        while 2 << len(run) <= WIDEST_ACCESS // self.view.dtype.bytes:
            bit = 1 << len(run)
            if bit not in held or bit & self.threads.support:
                break
            if not isinstance(self.tracer.prove(Eq(FloorMod(start, 2 * bit), 0)), Proved):
                break
            run.append(bit)
        return run
