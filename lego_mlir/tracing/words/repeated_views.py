"""A tensor each of whose elements is a block of a larger one: the scales of block formats, `s.repeat(1, 32)`.

    s: lego.Tensor(f8e8m0fnu, Row(M, N // 32))         MXFP4 and MXFP8: a power of two for 32 numbers of a row
    s: lego.Tensor(f8e4m3fn, Row(M, N // 16))          NVFP4: an f8 for 16
    s: lego.Tensor(f32, Row(M // 128, N // 128))       blocks of 128 x 128

    s.repeat(1, 32)[i, j]                              the scale of element (i, j): s[i, j // 32]
    lego.load(s.repeat(1, 32), layout, at=(i, j))      those of a tile, placed as the tile is

The index of a block is linear in the bits of an element's index: it leaves out the lowest ones. So a tile's layout
gives that of its scales, with copies in the registers, lanes and warps that hold a block together; each thread loads a
scale once, and the product with the tile moves nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lego_mlir.aliases import IndexLike, Operand
from lego_mlir.errors import LayoutError
from lego_mlir.expr.index import Index
from lego_mlir.expr.nodes import Eq, FloorMod
from lego_mlir.expr.verdict import Proved
from lego_mlir.tracing.trace.tracer import Tracer, current
from lego_mlir.tracing.trace.uncompared import Uncompared

if TYPE_CHECKING:
    from lego_mlir.tracing.trace.dtypes import DType
    from lego_mlir.tracing.words.packed_views import PackedView
    from lego_mlir.tracing.words.tensor import View


class RepeatedView(Uncompared):
    """`view` with `counts[k]` indices for each one of its axis k. It is read, not written."""

    __slots__ = ("counts", "view")
    _instead = "compare elements, such as x[i] == y[i]"

    def __init__(self, view: View | PackedView, counts: Sequence[int]) -> None:
        if len(counts) != len(view.dims()) or not all(type(n) is int and n > 0 and not n & (n - 1) for n in counts):
            raise current(view.buffer.name).error(
                f"{view.buffer.name}.repeat takes a power of two for each of its {len(view.dims())} axes, got "
                f"{tuple(counts)}",
                LayoutError,
            )
        self.view, self.counts = view, tuple(counts)

    @property
    def dtype(self) -> DType:
        return self.view.dtype

    def dims(self) -> tuple[Any, ...]:
        """The sizes of the larger tensor."""
        return tuple(n * count for n, count in zip(self.view.dims(), self.counts, strict=True))

    def __repr__(self) -> str:
        return f"{self.view!r}.repeat{self.counts}"

    def __getitem__(self, index: IndexLike) -> Operand:
        given = index if isinstance(index, tuple) else (index,)
        if len(given) != len(self.counts):
            raise current(self.view.buffer.name).error(
                f"{self.view.buffer.name} takes {len(self.counts)} indices, got {len(given)}", LayoutError
            )
        tracer = current(self.view.buffer.name)
        blocks = (Index(tracer.index(i)) // count for i, count in zip(given, self.counts, strict=True))
        return self.view[tuple(blocks)]

    def blocks_at(self, tracer: Tracer, at: Sequence[IndexLike], shape: Sequence[int]) -> tuple[IndexLike, ...]:
        """The index of a tile's first block. Raises LayoutError for a tile that may begin inside one."""
        outer, found = len(self.counts) - len(shape), list[IndexLike]()
        for axis, (i, count) in enumerate(zip(at, self.counts, strict=True)):
            first = Index(tracer.index(i))
            step = min(count, shape[axis - outer]) if axis >= outer else 1
            if not isinstance(tracer.prove(Eq(FloorMod(tracer.index(first), step), 0)), Proved):
                raise tracer.error(
                    f"{self.view.buffer.name}.repeat{self.counts}: a tile begins at a multiple of {step} along axis "
                    f"{axis}, which is not proved of {first!r}",
                    LayoutError,
                )
            found.append(first // count)
        return tuple(found)
