"""Shadow memory for race detection: the last write of every element and the reads since.

Each element has two words of 64 bits, the last write and the last reads (and a third for atomic updates, which race
with both but not with each other), packed as

    block (23 bits) | epoch (17) | thread (11) | access site (12)         -1: never

so that "same block and epoch, another thread" is one shift and one comparison of two words. Two accesses race if one
of them writes, they are not both atomic, and they are unordered: from two blocks, or from two threads of one block in
one epoch. Only global memory is shared between blocks; the block field of a shared buffer's words is 0.

A write gathers the old words, compares, scatters its word, and gathers again: a lane that then finds another lane's
word has a race within the operation. Reads by several threads are merged into "many".

As long as all blocks of a batch touch the same elements of their shared tiles, the usual case, one row of words
represents all of them; the first access that differs between blocks gives each block a separate row.

An asynchronous copy marks its destination as *pending* when it is issued and becomes a write of its thread when that
thread waits for it. An access to a pending element is a separate kind of fault.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from lego_mlir.hardware.limits import WARP
from lego_mlir.interp import values, warp_order
from lego_mlir.interp.geometry import coordinates
from lego_mlir.interp.happens_before import WarpClocks, check_shared
from lego_mlir.interp.report import Kind, LastWrite, SourceLocation
from lego_mlir.interp.values import Array

if TYPE_CHECKING:
    from lego_mlir.interp.access import MemoryAccess
    from lego_mlir.interp.machine import Machine
    from lego_mlir.interp.memory import Touch

SITE_BITS: Final = 12
THREAD_BITS: Final = 11
EPOCH_BITS: Final = 17
BLOCK_BITS: Final = 23
THREAD_AT: Final = SITE_BITS
EPOCH_AT: Final = THREAD_AT + THREAD_BITS
BLOCK_AT: Final = EPOCH_AT + EPOCH_BITS

THREADS: Final = 1 << THREAD_BITS
MANY_THREADS: Final = THREADS - 1
MANY_BLOCKS: Final = (1 << BLOCK_BITS) - 1
UNKNOWN_SITE: Final = (1 << SITE_BITS) - 1
ATOMIC_KIND: Final = "atomic update"
ASYNC_KIND: Final = "asynchronous copy"


def pack(block: int | Array, epoch: int | Array, thread: int | Array) -> Array:
    """The word of an access, with site 0."""
    block = np.asarray(block, np.int64) % MANY_BLOCKS
    epoch = np.asarray(epoch, np.int64) % (1 << EPOCH_BITS)
    return np.atleast_2d((block << BLOCK_AT) | (epoch << EPOCH_AT) | (np.asarray(thread, np.int64) << THREAD_AT))


class Shadow:
    """The words of one buffer: `(rows, elements)`, a row for each owner, or one row as long as all owners agree."""

    def __init__(self, owners: int, elements: int) -> None:
        self.owners = owners
        self.elements = elements
        self.writes = np.full((1, elements), -1, np.int64)
        self.reads: Array | None = None
        self.atomics: Array | None = None
        self.pending: Array | None = None
        self.seen: Array | None = None
        self.past: Array | None = None  # the last writes of earlier launches
        self.launch = 0  # the launch whose accesses the words are

    @property
    def rows(self) -> int:
        return int(self.writes.shape[0])

    def split(self) -> None:
        """Give each owner a separate row."""

        def repeated(words: Array | None) -> Array | None:
            return None if words is None else np.repeat(words, self.owners, axis=0)

        self.writes = np.repeat(self.writes, self.owners, axis=0)
        self.reads, self.atomics, self.pending = map(repeated, (self.reads, self.atomics, self.pending))

    def words(self, name: str) -> Array:
        """The words of `reads` or `atomics`, allocated at first use, flattened."""
        found: Array | None = getattr(self, name)
        if found is None:
            found = np.full(self.writes.shape, -1, np.int64)
            setattr(self, name, found)
        return found.reshape(-1)

    def enter(self, launch: int) -> None:
        """Forget the accesses of earlier launches of a host program, which are all ordered before those of this one."""
        if self.launch not in (0, launch):
            self.past = self._last()
            self.writes = np.full(self.writes.shape, -1, np.int64)
            self.reads = self.atomics = self.pending = None
        self.launch = launch

    def _last(self) -> Array:
        """The last write of each element, or without one its atomic update, or a write of an earlier launch."""
        last = self.writes
        for words in (self.atomics, self.past):
            last = last if words is None else np.where(last < 0, words, last)
        return last

    def written(self) -> Array:
        """Which elements of a global buffer were written, atomically or not."""
        return np.asarray(self._last()[0] >= 0)

    def writer(self, element: int) -> tuple[int, int, int] | None:
        """(block, thread, site) of the last write of an element or, without one, of an atomic update; or None."""
        word = int(self._last()[0, element])
        return None if word < 0 else (word >> BLOCK_AT, thread_in(word), word & UNKNOWN_SITE)


def thread_in(word: int) -> int:
    """The thread field of a word."""
    return (word >> THREAD_AT) & (THREADS - 1)


def threads_in(words: Array) -> Array:
    """The thread fields of words."""
    return (words >> THREAD_AT) & (THREADS - 1)


def epochs_in(words: Array) -> Array:
    """The epoch fields of words."""
    return (words >> EPOCH_AT) & ((1 << EPOCH_BITS) - 1)


class _Lookup:
    """One touch, flattened: for each active (lane, element) its position in the shadow and its word."""

    def __init__(self, m: Machine, access: MemoryAccess, touch: Touch) -> None:
        self.m, self.access, self.touch = m, access, touch
        buffer = touch.buffer
        self.shadow: Shadow = buffer.shadow
        self.is_global = buffer.is_global
        self.crosses_blocks = buffer.is_global or buffer.clustered
        if self.is_global and self.shadow.launch != m.launch:
            self.shadow.enter(m.launch)
        elem = touch.elements()
        per_element = touch.item // buffer.granule
        if per_element > 1:
            elem = elem[..., None] * per_element + np.arange(per_element, dtype=np.int64)
        ok = touch.active(elem.ndim)
        word = m.tag(self.is_global) + min(access.number, UNKNOWN_SITE)
        word = values.like_vector(word, elem.ndim)
        if not self.is_global:
            together = elem.shape[0] == word.shape[0] == 1 and (ok is None or ok.shape[0] == 1)
            if buffer.is_local or buffer.clustered or (not together and self.shadow.rows == 1 < self.shadow.owners):
                self._split()
            if self.shadow.rows > 1:
                rows = touch.rows(m)
                assert rows is not None
                elem = elem + values.like_vector(rows, elem.ndim) * self.shadow.elements
        self.shape = np.broadcast_shapes(elem.shape, word.shape, () if ok is None else ok.shape)
        self.at = values.spread(elem, self.shape).reshape(-1)
        self.word = values.spread(word, self.shape).reshape(-1)
        self.chosen: Array | None = None
        if ok is not None:
            self.chosen = np.flatnonzero(values.spread(ok, self.shape))
            self.at, self.word = self.at[self.chosen], self.word[self.chosen]

    def _split(self) -> None:
        if self.shadow.rows < self.shadow.owners:
            self.shadow.split()

    def clashes(self, old: Array) -> Array:
        """Where an earlier access and this one are from two threads or blocks, with nothing to order them."""
        if self.m.clocks is not None:
            return self._clashes_by_clock(old, self.m.clocks)
        if self.m.warps_synchronised:
            return self._clashes_by_warp(old)
        differ = (old ^ self.word) >> THREAD_AT
        clash = (differ - 1).view(np.uint64) < THREADS - 1
        if self.is_global:
            clash |= (old >= 0) & ((differ >> (BLOCK_AT - THREAD_AT)) != 0)
        return clash

    def _clashes_by_warp(self, old: Array) -> Array:
        """The same once warps have passed barriers."""
        fence = self.m.fences[self.is_global]
        at = values.spread(values.like_vector(fence, len(self.shape)), self.shape).reshape(-1)
        at = at if self.chosen is None else at[self.chosen]
        one_block = (old >= 0) & ((old ^ self.word) >> BLOCK_AT == 0)
        unordered = warp_order.unordered(
            threads_in(self.word), epochs_in(self.word), threads_in(old), epochs_in(old), at % (1 << EPOCH_BITS)
        )
        return np.asarray(one_block & unordered | (old >= 0) & ~one_block)

    def _clashes_by_clock(self, old: Array, clocks: WarpClocks) -> Array:
        """The same in a kernel with warp roles; shared accesses of two warps are checked by `happens_before`."""
        thread, other = threads_in(self.word), threads_in(old)
        one_block = (old >= 0) & ((old ^ self.word) >> BLOCK_AT == 0)
        one_warp = warp_order.warp_of(thread) == warp_order.warp_of(other)
        epoch, earlier = epochs_in(self.word), epochs_in(old)
        unordered = one_block & one_warp & (thread != other) & (epoch == earlier)
        if not self.is_global:
            return np.asarray(unordered)
        near = one_block if self.m.cluster_blocks is None else (old >= 0) & self.m.cluster_blocks.holds(old >> BLOCK_AT)
        single = other < warp_order.MANY_OF_WARP
        lanes = self.m.warps * WARP
        first = np.zeros((), np.int64)
        if self.m.cluster_blocks is not None:
            first = np.where(near, self.m.cluster_blocks.ranks(old >> BLOCK_AT), 0) * lanes
        known = clocks.are_ordered(np.where(single, other, 0) + first, earlier, thread + self.m.rank * lanes)
        unordered |= near & ~(one_block & one_warp) & single & ~known
        return np.asarray(unordered | (old >= 0) & ~near)

    def strangers(self, old: Array, word: Array) -> Array:
        """Where two accesses are of two blocks that are not of one cluster, so that nothing can order them."""
        differ = (old ^ word) >> BLOCK_AT != 0
        if self.m.cluster_blocks is not None:
            differ &= ~(self.m.cluster_blocks.holds(old >> BLOCK_AT) & self.m.cluster_blocks.holds(word >> BLOCK_AT))
        return np.asarray(differ)

    def report(self, kind: Kind, where: Array, message: str, old: Array | None = None) -> None:
        """Report one fault for all flagged elements; `message` may contain `{other}`, the earlier access.

        Races with threads of the same block and of other blocks are separate faults.
        """
        if old is not None and self.crosses_blocks:
            foreign = where & ((old ^ self.word) >> BLOCK_AT != 0)
            inside = where & ~foreign
            if np.count_nonzero(inside) and np.count_nonzero(foreign):
                self._report_first(kind, inside, message, old)
                where = foreign
        self._report_first(kind, where, message, old)

    def _report_first(self, kind: Kind, where: Array, message: str, old: Array | None) -> None:
        hits = np.flatnonzero(where)
        first = int(hits[0])
        position = first if self.chosen is None else int(self.chosen[first])
        lane = np.unravel_index(position, self.shape)
        block, thread = self.m.name_lane(int(lane[0]), int(lane[1]))
        elements = self.touch.elements()
        element = int(np.broadcast_to(elements, self.shape[: elements.ndim])[lane[: elements.ndim]])
        other, partner = None, "several threads"
        if old is not None:
            word = int(old[first])
            other, partner = self._name(word)
        count = hits.size * (self.m.blocks if self.shape[0] == 1 else 1)
        self.m.faults.add(
            kind,
            message.format(other=partner, element=element, buffer=self.touch.name),
            self.access.place, block, thread,
            address=element, other=other, buffer=self.touch.name, count=count,
        )  # fmt: skip

    def _name(self, word: int) -> tuple[SourceLocation | None, str]:
        site = word & UNKNOWN_SITE
        place = self.m.place_of_site(site)
        who = thread_in(word)
        name = f"thread {coordinates(who, self.m.block)}"
        if who >= warp_order.MANY_OF_WARP:
            warp = who - warp_order.MANY_OF_WARP
            name = "several threads" if who == MANY_THREADS else f"several threads of warp {warp}"
        block = word >> BLOCK_AT
        if self.crosses_blocks and block != int(self.word[0]) >> BLOCK_AT:
            name += " of other blocks" if block == MANY_BLOCKS else f" of block {coordinates(block, self.m.grid)}"
        return place, name if place is None else f"{name} at {place}"


def check(m: Machine, access: MemoryAccess, touch: Touch) -> None:
    """Check one touch against the shadow of its buffer, report faults, and record the touch."""
    buffer = touch.buffer
    if m.watch is not None:
        m.watch.see(m, access, touch)
    if buffer.is_local:
        _check_local(m, access, touch)
        return
    is_read = access.kind == "read"
    if buffer.is_global and is_read and not buffer.reads_tracked:
        _mark_seen(touch)
        return
    if m.clocks is not None and buffer.is_shared:
        atomic, asynchronous = access.kind == ATOMIC_KIND, access.kind == ASYNC_KIND
        check_shared(m, access, touch, access.kind, asynchronous=asynchronous, atomic=atomic)
    look = _Lookup(m, access, touch)
    if is_read:
        _check_read(look)
        if look.is_global:
            _mark_seen(touch)
    else:
        _check_write(look)


def _check_read(look: _Lookup) -> None:
    shadow = look.shadow
    unusable = _report_pending(look, "read of {buffer}[{element}] while an asynchronous copy to it is in flight")
    _report_raw(look, unusable, "read of {buffer}[{element}], which nothing has written")
    _report_clash(look, shadow.writes, unusable, "read of {buffer}[{element}], written by {other}")
    _report_clash(look, shadow.atomics, unusable, "read of {buffer}[{element}], atomically updated by {other}")
    if look.touch.buffer.reads_tracked:
        _mark(look, shadow.words("reads"))


def _check_write(look: _Lookup) -> None:
    shadow, kind = look.shadow, look.access.kind
    what = f"{kind} of {{buffer}}[{{element}}]"
    is_atomic = kind == ATOMIC_KIND
    unusable = _report_pending(look, f"{what} while an asynchronous copy to it is in flight")
    if is_atomic:
        _report_raw(look, unusable, f"{what}, which nothing has written")
    _report_clash(look, shadow.writes, unusable, f"{what}, also written by {{other}}")
    _report_clash(look, shadow.reads, None, f"{what}, read by {{other}}")
    if is_atomic:
        _mark(look, shadow.words("atomics"))
        return
    _report_clash(look, shadow.atomics, unusable, f"{what}, atomically updated by {{other}}")
    writes = shadow.writes.reshape(-1)
    writes[look.at] = look.word
    _report_lost(look, writes[look.at])
    if kind == ASYNC_KIND:
        if shadow.pending is None:
            shadow.pending = np.zeros(shadow.writes.shape, np.uint8)
        shadow.pending.reshape(-1)[look.at] += 1


def _report_raw(look: _Lookup, unusable: Array | None, message: str) -> None:
    """Report elements of shared memory that have not been written; global memory is initialised."""
    if look.is_global:
        return
    raw = look.shadow.writes.reshape(-1)[look.at] < 0
    if look.shadow.atomics is not None:
        raw &= look.shadow.atomics.reshape(-1)[look.at] < 0
    if unusable is not None:
        raw &= ~unusable
    if np.count_nonzero(raw):
        look.report(Kind.UNINITIALISED, raw, message)


def _report_clash(look: _Lookup, words: Array | None, unusable: Array | None, message: str) -> None:
    """Report elements whose earlier access of this kind is not ordered with this one."""
    if words is None:
        return
    old = words.reshape(-1)[look.at]
    clash = look.clashes(old)
    if unusable is not None:
        clash &= ~unusable
    if np.count_nonzero(clash):
        look.report(Kind.RACE, clash, f"{message} with no barrier between", old)


def _mark(look: _Lookup, words: Array) -> None:
    """Record this access among reads or atomic updates, which several threads may share."""
    before = words[look.at]
    several = look.clashes(before)
    word = look.word
    if look.m.warps_synchronised:
        _mark_by_warp(look, words, before, several)
        return
    if np.count_nonzero(several):
        word = np.where(several, _of_sites(word, before) | (MANY_THREADS << THREAD_AT), word)
        if look.crosses_blocks:
            foreign = (before >= 0) & look.strangers(before, word)
            word = np.where(foreign, word | (MANY_BLOCKS << BLOCK_AT), word)
    words[look.at] = word
    after = words[look.at]
    lost = (after ^ word) >> THREAD_AT
    if np.count_nonzero(lost):
        again = lost != 0
        merged = after[again] | (MANY_THREADS << THREAD_AT)
        foreign = look.strangers(after[again], word[again])
        words[look.at[again]] = merged
        if foreign.any():
            words[look.at[again][foreign]] = merged[foreign] | (MANY_BLOCKS << BLOCK_AT)


def _mark_by_warp(look: _Lookup, words: Array, before: Array, several: Array) -> None:
    """The same once warps have passed barriers: several threads of one warp stay apart from those of several."""
    at = look.at
    word = np.where(several, _merged(look, look.word, before), look.word)
    words[at] = word
    after = words[at]
    lost = (after ^ word) >> THREAD_AT != 0
    if np.count_nonzero(lost):
        at, merged = at[lost], _merged(look, after[lost], word[lost])
        words[at] = merged
        many = (threads_in(merged) == MANY_THREADS) | (merged >> BLOCK_AT == MANY_BLOCKS)
        words[at[many]] = merged[many]  # last, so that one thread of another warp or block is enough


def _of_sites(word: Array, other: Array) -> Array:
    """A word without a site where the accesses of several threads are at two: either may be the one that races."""
    return np.where((word ^ other) & UNKNOWN_SITE != 0, word | UNKNOWN_SITE, word)


def _merged(look: _Lookup, word: Array, other: Array) -> Array:
    """A word for both accesses: several threads, of one warp if possible, and several blocks."""
    code = warp_order.together(threads_in(word), threads_in(other), MANY_THREADS)
    code = np.where((other ^ word) >> BLOCK_AT != 0, MANY_THREADS, code)
    merged = _of_sites(word, other) & ~((THREADS - 1) << THREAD_AT) | code << THREAD_AT
    return np.where(look.strangers(other, word), merged | MANY_BLOCKS << BLOCK_AT, merged)


def _report_lost(look: _Lookup, after: Array) -> None:
    """Report lanes of one operation that wrote the same element: all but the last find another lane's word."""
    lost = after != look.word
    if np.count_nonzero(lost):
        what = f"{look.access.kind} of {{buffer}}[{{element}}], also written by {{other}} in the same operation"
        look.report(Kind.RACE, lost, what, after)


def _report_pending(look: _Lookup, message: str) -> Array | None:
    """Report elements with a copy in flight, which no access may touch, another copy included."""
    if look.shadow.pending is None:
        return None
    unusable = look.shadow.pending.reshape(-1)[look.at] > 0
    if not np.count_nonzero(unusable):
        return None
    look.report(Kind.PENDING, unusable, message, look.shadow.writes.reshape(-1)[look.at])
    return np.asarray(unusable)


def _check_local(m: Machine, access: MemoryAccess, touch: Touch) -> None:
    """Private memory has no races; the only fault is a read before the first write."""
    look = _Lookup(m, access, touch)
    writes = look.shadow.writes.reshape(-1)
    if access.kind == "read":
        raw = writes[look.at] < 0
        if raw.any():
            look.report(Kind.UNINITIALISED, raw, "read of {buffer}[{element}], which this thread has not written")
    else:
        writes[look.at] = look.word


def _mark_seen(touch: Touch) -> None:
    """Record which elements of a global buffer were read, for the compulsory traffic."""
    shadow: Shadow = touch.buffer.shadow
    if shadow.seen is None:
        shadow.seen = np.zeros(shadow.elements, bool)
    elem = touch.elements()
    per_element = touch.item // touch.buffer.granule
    if per_element > 1:
        elem = elem[..., None] * per_element + np.arange(per_element, dtype=np.int64)
    ok = touch.active(elem.ndim)
    if ok is not None:
        shape = np.broadcast_shapes(elem.shape, ok.shape)
        elem = np.broadcast_to(elem, shape)[np.broadcast_to(ok, shape)]
    shadow.seen[elem] = True


def land(m: Machine, access: MemoryAccess, touch: Touch) -> None:
    """Complete an asynchronous copy: its elements count as written by their threads at this point."""
    look = _Lookup(m, access, touch)
    assert look.shadow.pending is not None
    pending = look.shadow.pending.reshape(-1)
    flying = pending[look.at]
    pending[look.at] = flying - (flying > 0)
    look.shadow.writes.reshape(-1)[look.at] = look.word


@dataclass(frozen=True, slots=True)
class History:
    """The shadow of a kernel argument after the launch, with the last write of each element."""

    shadow: Shadow
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    places: list[SourceLocation]

    def written(self) -> Array:
        return self.shadow.written()

    def writer(self, element: int) -> LastWrite | None:
        found = self.shadow.writer(element)
        if found is None:
            return None
        who = found[1] if found[1] < warp_order.MANY_OF_WARP else 0
        place = self.places[found[2]] if found[2] < len(self.places) else SourceLocation("unknown", 0)
        return LastWrite(coordinates(found[0], self.grid), coordinates(who, self.block), place)
