"""Shared memory that conversions and reductions use in turn, and the barriers between their accesses.

A kernel has few scratch tiles: a conversion takes the one that an earlier conversion used, if it is large enough. Its
stores wait for the earlier loads, its loads for its stores:

    barrier       only if the tile was read before, or the conversion is repeated by a loop
    store
    barrier
    load

Where each warp exchanges elements in a slice of the tile, the barriers are those of the warp; such a tile is used with
this size of slices only. A barrier of the block since the last load serves as the first one.
"""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

from lego_mlir.errors import LayoutError
from lego_mlir.expr.index import Index
from lego_mlir.hardware.limits import LARGEST_SHARED_BYTES
from lego_mlir.tracing.trace.dtypes import DType
from lego_mlir.tracing.trace.marks import WarpRole
from lego_mlir.tracing.trace.trace import Barrier, Statement
from lego_mlir.tracing.trace.tracer import Tracer
from lego_mlir.tracing.words.control import barrier
from lego_mlir.tracing.words.tensor import View, declare_scratch
from lego_mlir.tracing.words.warps import warp_sync


@dataclass(slots=True, eq=False)
class Scratch:
    """A tile that conversions use in turn. `slice_elements` is the size of a warp's slice, 0 if warps share the tile.

    `stored` is the number of statements with the stores whose loads are still to come: no other conversion may take it.
    `region` has the statements around the last use, the loads of which ended before its statement `loaded`. Concurrent
    `role`s do not share tiles, and the groups of a role have parts of one: that of this thread begins at `first`.
    """

    tracer: Tracer
    view: View
    elements: int
    slice_elements: int
    region: list[Statement] | None = None
    loaded: int = 0
    stored: int | None = None
    role: WarpRole | None = None
    first: Index | int = 0

    def before_stores(self) -> None:
        """Wait until earlier loads of the tile are complete."""
        here = self.tracer.innermost
        if self.region is None and (not self.tracer.depth or self.tracer.has_barrier()):
            return
        if self.region is here and any(isinstance(s, Barrier) for s in here[self.loaded :]):
            return
        self._wait()

    def before_loads(self) -> None:
        """Wait until the stores are complete: at the barrier of another tile that was filled with this one."""
        later = [] if self.stored is None else self.tracer.innermost[self.stored :]
        if self.slice_elements or not any(isinstance(s, Barrier) for s in later):
            self._wait()

    def after_stores(self) -> None:
        """Record that stores are complete, and their loads still to come."""
        self.stored = len(self.tracer.innermost)

    def after_loads(self) -> None:
        """Record that the loads were the last use of the tile."""
        self.stored = None
        self.region = self.tracer.innermost
        self.loaded = len(self.region)

    def _wait(self) -> None:
        if self.slice_elements:
            warp_sync()
        else:
            barrier()


_TILES: WeakKeyDictionary[Tracer, list[Scratch]] = WeakKeyDictionary()
_IN_TURN: WeakKeyDictionary[Tracer, list[Scratch]] = WeakKeyDictionary()


def scratch(tracer: Tracer, dtype: DType, elements: int, slice_elements: int = 0) -> Scratch:
    """A scratch tile of at least `elements` elements. Raises LayoutError for more memory than a block has."""
    if elements * dtype.bytes > LARGEST_SHARED_BYTES:
        raise tracer.error(
            f"a conversion of {elements} elements of {dtype} takes {elements * dtype.bytes} bytes of shared memory, "
            f"and GPUs have at most {LARGEST_SHARED_BYTES} for a block; convert parts of the tile",
            LayoutError,
        )
    tiles = _TILES.setdefault(tracer, [])
    for tile in tiles:
        if (
            tile.view.dtype == dtype
            and tile.stored is None
            and tile.elements >= elements
            and tile.slice_elements == slice_elements
            and tile.role == tracer.role
        ):
            return tile
    view, first = declare_scratch(tracer, dtype, elements)
    made = Scratch(tracer, view, elements, slice_elements, role=tracer.role, first=first)
    tiles.append(made)
    return made


def scratch_in_turn(tracer: Tracer, dtype: DType, elements: int) -> Scratch:
    """One of two scratch tiles of reductions, the one that was not used last.

    The barrier between the stores and loads of one is then after the loads of the other, which needs no further one.
    """
    tiles = _IN_TURN.setdefault(tracer, [])
    fitting = [t for t in tiles if t.view.dtype == dtype and t.elements >= elements and t.role == tracer.role]
    if len(fitting) < 2:
        view, first = declare_scratch(tracer, dtype, elements)
        chosen = Scratch(tracer, view, elements, 0, role=tracer.role, first=first)
    else:
        chosen = fitting[0]
        tiles.remove(chosen)
    tiles.append(chosen)  # in the order of their last use
    return chosen
