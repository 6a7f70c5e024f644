"""The elements that a thread holds, as indices: a part of the thread, and a constant for each register.

A linear layout gives element(register, thread) = register's bits ^ thread's bits. Where a bit of the element comes from
registers only, the exclusive or is a sum, so that the index of a register is an index of the thread plus a constant:

    tx >> 3, (tx & 7) << 2           register 0
    (tx >> 3) + 16, (tx & 7) << 2    register 8, base (16, 0)

The part of the thread is computed once. Only layouts in which a register's bit is also a thread's need an exclusive or
for each such constant.
"""

from __future__ import annotations

from collections.abc import Sequence

from lego_mlir.expr.index import Index
from lego_mlir.f2.dims import split
from lego_mlir.f2.linear import LinearLayout
from lego_mlir.f2.matrix import combine
from lego_mlir.hardware.limits import WARP
from lego_mlir.tracing.trace.tracer import Tracer
from lego_mlir.tracing.words.warps import linear_thread


def thread_ids(tracer: Tracer) -> dict[str, Index]:
    """The lane and the warp of a thread; one number, named thread, where the block has one dimension."""
    if len(tracer.block) == 1:
        return {"thread": linear_thread(tracer)}
    if tracer.block[0] == WARP and len(tracer.block) == 2 and tracer.role is None:
        ids = [Index(tracer.id_symbol("thread_id", axis)) for axis in range(2)]
        return {"lane": ids[0], "warp": ids[1]}
    return {"thread": linear_thread(tracer)}


class ThreadElements:
    """The elements of a layout that this thread holds, by register."""

    def __init__(self, tracer: Tracer, layout: LinearLayout) -> None:
        self.layout = layout
        ids = thread_ids(tracer)
        threads = layout.sublayout(["lane", "warp"], list(layout.out_sizes))
        if "thread" in ids:
            threads = threads.flatten_ins("thread")
        self._thread = list(threads.apply(**ids).values())
        self.support = 0  # the bits of an element that depend on the thread
        for column in threads.columns:
            self.support |= column
        self._bases: dict[int, list[Index]] = {}

    def offset(self, register: int) -> int:
        """The flat bits that a register adds to an element."""
        return combine(self.layout.columns_of("register"), register)

    def axis_of(self, offsets: Sequence[int]) -> int | None:
        """The axis, counted from the last, that elements at flat offsets follow one by one; None if it is not one."""
        places = [split(offset ^ offsets[0], self.layout.outs) for offset in offsets]
        taken = offsets[0] | self.support
        if any((offset ^ offsets[0]) & taken for offset in offsets):
            return None
        axes = range(-1, -len(self.layout.outs) - 1, -1)
        return next((a for a in axes if all(p[a] == sum(p) == n for n, p in enumerate(places))), None)

    def of_register(self, register: int) -> list[Index]:
        """The index of the element in a register."""
        return self.at(self.offset(register))

    def of_tensor(self, register: int, first: Sequence[Index]) -> tuple[Index, ...]:
        """The index of a register's element in a tensor in which the layout spans the last axes from `first` on."""
        inner = self.of_register(register)
        outer = len(first) - len(inner)
        return (*first[:outer], *(a + i for a, i in zip(first[outer:], inner, strict=True)))

    def at(self, flat: int) -> list[Index]:
        """The index of the element whose flat bits differ by `flat` from the thread's first."""
        base = self.base(flat & self.support)
        return [b + c for b, c in zip(base, split(flat & ~self.support, self.layout.outs), strict=True)]

    def base(self, flat: int) -> list[Index]:
        """The thread's index, with the bits that a register shares with threads."""
        if flat not in self._bases:
            constants = split(flat, self.layout.outs)
            self._bases[flat] = [Index(t) ^ c if c else Index(t) for t, c in zip(self._thread, constants, strict=True)]
        return self._bases[flat]
