"""The memory requests of a run, recorded one by one: they cover accesses whose address depends on data.

The interpreter passes each request of a warp to a callback (`interp.launch(.., observe=..)`). For shared tiles the
addresses are kept, so that other layouts can be evaluated on exactly these requests. For global memory the number of
contiguous segments of each request is enough: it distinguishes an unaligned request from an uncoalesced one.

`RecordedTraces` has the requests of every warp to global memory, which the cache simulator replays. Blocks run in
lockstep, so that the n-th request of every warp comes at once. Each becomes rows (line, sectors, store)
in the order of its warp. Buffers are placed one after another, as an allocator would.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from lego_mlir.analysis.repair import TileAccess
from lego_mlir.caches.workloads import ALIGNMENT, Recorded, Workload
from lego_mlir.errors import UsageError
from lego_mlir.hardware.banks import Array
from lego_mlir.hardware.limits import WARP
from lego_mlir.hardware.memory import LINE_BYTES, SECTOR_BYTES
from lego_mlir.hardware.sectors import Segments, segments

if TYPE_CHECKING:
    from lego_mlir.analysis.kernel_repairs import TileRepairs
    from lego_mlir.hardware.banks import Array
    from lego_mlir.tracing.definition.kernel import Kernel


KEPT_WARPS: Final = 2048
"""Requests to a shared tile that are kept for each line; later ones are not evaluated under other layouts."""

Key = tuple[str, int, str, str]
Requests = tuple[Array, Array, int]


def key_of(site: Mapping[str, Any]) -> Key:
    """The line, buffer and direction of a site in the form of `--json`."""
    return site["file"], site["line"], site["buffer"], site["kind"]


class RecordedRequests:
    """The requests of one launch; pass it as `observe`. `tiles` are the repairs found for it, once they are sought."""

    def __init__(self) -> None:
        self.kernel: Kernel | None = None
        self.tiles: Mapping[str, TileRepairs] = {}
        self._shared: dict[Key, list[Requests]] = {}
        self.runs: dict[Key, Segments] = {}

    def __call__(self, site: Any, address: Array, active: Array | None, width: int) -> None:
        """Record one request for each warp of some blocks: byte addresses shaped `(blocks, warps, 32)`."""
        key = (site.place.file, site.place.line, site.buffer, site.kind)
        if site.space != "shared":
            found = segments(address, width, active)
            self.runs[key] = self.runs[key] + found if key in self.runs else found
            return
        kept = self._shared.setdefault(key, [])
        room = KEPT_WARPS - sum(len(rows) for rows, _, _ in kept)
        taking = np.ones(address.shape, bool) if active is None else np.broadcast_to(active, address.shape)
        taking = taking.reshape(-1, WARP)
        some = np.flatnonzero(taking.any(axis=-1))[: max(room, 0)]
        if some.size:
            kept.append((address.reshape(-1, WARP)[some].copy(), taking[some].copy(), width))

    def uses(
        self, buffer: str, inverse: Callable[[Array], tuple[Array, ...]], size: int, element_bytes: int
    ) -> list[TileAccess]:
        """The accesses of a tile as logical indices, by its layout's `inverse`; empty if one exceeds its `size`."""
        found = []
        for (_, line, name, _), kept in self._shared.items():
            for address, taking, width in kept if name == buffer else ():
                position = np.where(taking, address // element_bytes, 0)
                if width % element_bytes or position.max() >= size:
                    return []
                index = tuple(np.asarray(i) for i in inverse(position))
                active = None if taking.all() else taking
                found.append(TileAccess(f"line {line}", index, width // element_bytes, active, line))
        return found


MOST_ROWS: Final = 1 << 25
"""Rows of a trace, 1.3 GB while it is sorted."""
SECTORS: Final = LINE_BYTES // SECTOR_BYTES


class RequestSite(Protocol):
    """The access of a request, as far as a trace needs it."""

    space: str
    buffer: str
    kind: str


class RecordedTraces:
    """The requests of one launch; pass it as `observe`, and its `finished` as `progress`."""

    def __init__(self, sizes: Mapping[str, int], element: int = 4) -> None:
        """`sizes` are the bytes of each buffer."""
        self._base, self._element, end = {}, element, 0
        for name, size in sizes.items():
            self._base[name] = end
            end += -(-size // ALIGNMENT) * ALIGNMENT
        self._bytes = end
        self._batch: list[tuple[Array, Array | None, int, bool]] = []
        self._parts: list[Array] = []
        self._done = self._rows = 0
        self.warps = 0

    def __call__(self, site: RequestSite, address: Array, active: Array | None, width: int) -> None:
        """Record one request for each warp of a batch of blocks: byte addresses shaped `(blocks, warps, 32)`."""
        if site.space != "global" or site.buffer not in self._base:
            return
        self.warps = address.shape[1]
        self._batch.append((self._base[site.buffer] + address, active, width, site.kind != "read"))

    def finished(self, done: int, total: int) -> None:
        """End a batch: blocks up to `done` have run."""
        blocks = done - self._done
        for number, (address, active, width, store) in enumerate(self._batch):
            shape = (blocks, *address.shape[1:])
            taking = None if active is None else np.broadcast_to(active, shape).reshape(-1, WARP)
            self._add(np.broadcast_to(address, shape).reshape(-1, WARP), taking, width, store, number)
        self._batch, self._done = [], done

    def _add(self, address: Array, active: Array | None, width: int, store: bool, number: int) -> None:
        """Append rows (warp, number of the request, line, sectors, store, last) of one request of each warp."""
        sector = address // SECTOR_BYTES
        if width > SECTOR_BYTES:
            raise UsageError(f"a lane accesses at most {SECTOR_BYTES} bytes at once, got {width}")
        if active is not None:
            sector = np.where(active, sector, -1)
        ascending = np.sort(sector, axis=1)
        first = ascending >= 0
        first[:, 1:] &= ascending[:, 1:] != ascending[:, :-1]
        warp, lane = np.nonzero(first)
        if warp.size == 0:
            return
        line, bit = np.divmod(ascending[warp, lane], SECTORS)
        begins = np.ones(warp.size, bool)
        begins[1:] = (warp[1:] != warp[:-1]) | (line[1:] != line[:-1])
        at = np.flatnonzero(begins)
        masks = np.bitwise_or.reduceat(1 << bit, at)
        last = np.ones(at.size, bool)
        last[:-1] = warp[at][1:] != warp[at][:-1]
        same = np.full((2, at.size), ((number,), (int(store),)), np.int64)
        rows = np.stack((self._done * self.warps + warp[at], same[0], line[at], masks, same[1], last), axis=1)
        self._parts.append(rows.astype(np.int64))
        self._rows += len(rows)
        if self._rows > MOST_ROWS:
            raise UsageError(
                f"the trace has more than {MOST_ROWS} requests of lines; take fewer blocks (--blocks N) or sizes"
            )

    def workload(self, name: str, threads: int) -> Workload:
        """The trace of all blocks that ran, `threads` threads each. Raises UsageError if no request was recorded."""
        if not self._parts:
            raise UsageError(f"kernel {name} made no request of global memory: there is nothing to simulate")
        rows = np.concatenate(self._parts)
        rows = rows[np.lexsort((rows[:, 1], rows[:, 0]))]
        starts = np.searchsorted(rows[:, 0], np.arange(self._done * self.warps + 1))
        kept = Recorded(starts, np.ascontiguousarray(rows[:, 2:]), self.warps)
        return Workload(name, self._done * threads, 1, (), self._bytes, self._element, 1, recorded=kept)


def in_order(workload: Workload, blocks: Array) -> Workload:
    """The workload with its blocks launched in another order: block t does the work of blocks[t]."""
    from dataclasses import replace

    if workload.recorded is None:
        raise UsageError(f"{workload.name} is not recorded; pass the order of its tasks to simulate instead")
    return replace(workload, recorded=workload.recorded.in_order(blocks))
