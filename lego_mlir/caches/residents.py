"""The resident warps of the SMs: which one issues next, and the requests that its instructions send to the caches.

An SM is one server. A warp issues `together` instructions without waiting; each takes one clock for each line that it
touches. If one missed, the warp is ready again after `miss` clocks, else after `hit` clocks. Which warp is served next
is the interleaving:

| interleaving | next warp |
|---|---|
| `FIFO` | the one that was ready first; with equal latencies, round robin |
| `GREEDY` | the same warp until it misses, then the one that was ready first |
| `SEQUENTIAL` | the same warp until it ends, warps in order |
| `RANDOM` | any resident warp, latencies ignored |

A block enters when a slot is free and its warps enter the queue; the SM stops where it needs a block whose tasks are
not loaded yet, or where the room for requests ends, and continues from there: results do not depend on the batches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from lego_mlir.caches import lookup
from lego_mlir.caches.jit import compiled
from lego_mlir.caches.lookup import READ, WRITE, draw
from lego_mlir.hardware.limits import WARP

if TYPE_CHECKING:
    from lego_mlir.caches.lookup import Words

    Tasks = np.ndarray[Any, np.dtype[np.int32]]
    Masks = np.ndarray[Any, np.dtype[np.uint32]]

FIFO, GREEDY, SEQUENTIAL, RANDOM = range(4)
# Columns of an affine access, see `workloads.TaskAccess`.
BASE, EX, EY, DX, DY, WIDTH, HEIGHT, BOUNDARY, TABLE, KIND = range(10)
COLUMNS: Final = 10
# Fields of `Residents.settings`.
INTERLEAVING, HIT, MISS, TOGETHER, INSTRUCTIONS, THREADS, WARPS, SLOTS, PRIVATE, SECTOR_BITS, LINE_BITS, RECORDED = (
    range(12)
)

DONE, WAITING, FULL = range(3)
_QUEUES: Final = 2  # warps back from a hit, and from a miss


class TaskProgram(NamedTuple):
    """What every task executes: affine accesses, or the recorded requests of each warp."""

    accesses: Words  # (instructions, COLUMNS)
    positions: Tasks  # of elements, for layouts that are not strided
    starts: Words  # recorded: the rows of each warp
    recorded: Words  # recorded: (rows, 4): line, mask, kind, whether it is the last of its instruction


class Residents(NamedTuple):
    """The state of the SMs; the first axis of each array is the SM."""

    settings: Words
    blocks: Words  # per SM, one after another: positions in the list of loaded blocks
    first: Words  # per SM: where its blocks begin; one more entry than SMs
    entered: Words  # blocks entered so far
    clock: Words
    block: Words  # (SMs, slots): the block of a slot, or -1
    left: Words  # (SMs, slots): its warps that have not ended
    x: Tasks  # (SMs, slots * threads): the task of each thread, -1 for none
    y: Tasks
    whole: Words  # (SMs, slots * warps): whether the lanes are 32 neighbours in one row
    pc: Words  # (SMs, slots * warps): the next instruction, or the next recorded row
    queue: Words  # (SMs, 2, slots * warps, 2): (ready, warp), a ring for each latency
    head: Words  # (SMs, 2)
    size: Words  # (SMs, 2)
    current: Words  # the warp that goes on, or -1
    issued: Words  # instructions
    random: Words  # states


@compiled
def _inside(v: int, n: int, boundary: int) -> int:
    """An index at the boundary: 0 unchecked, 1 clamped, 2 mirrored, 3 wrapped, 4 skipped (-1)."""
    if boundary == 0 or 0 <= v < n:
        return v
    if boundary == 1:
        return 0 if v < 0 else n - 1
    if boundary == 2:
        v = v % (2 * n - 2) if n > 1 else 0
        return v if v < n else 2 * n - 2 - v
    return v % n if boundary == 3 else -1


@compiled
def _is_whole(m: Residents, sm: int, begin: int, threads: int) -> bool:
    """Whether a warp of 32 lanes has the tasks (x, y), (x + 1, y), .. (x + 31, y)."""
    if threads < WARP or m.x[sm, begin] < 0:
        return False
    for lane in range(begin + 1, begin + WARP):
        if m.x[sm, lane] != m.x[sm, lane - 1] + 1 or m.y[sm, lane] != m.y[sm, begin]:
            return False
    return True


@compiled
def _segment(first: int, last: int, to_line: int, kind: int, out: Words) -> int:
    """The (line, mask, kind) of the sectors first..last; their number."""
    n, sectors = 0, 1 << to_line
    for line in range(first >> to_line, (last >> to_line) + 1):
        low, high = max(first - line * sectors, 0), min(last - line * sectors, sectors - 1)
        out[n, 0], out[n, 1], out[n, 2] = line, (2 << high) - (1 << low), kind
        n += 1
    return n


@compiled
def _coalesce(m: Residents, p: TaskProgram, sm: int, warp: int, instruction: int, out: Words) -> int:
    """The (line, mask, kind) of each line that the lanes of a warp touch; their number."""
    row, xs, ys = p.accesses[instruction], m.x[sm], m.y[sm]
    base, across, down, dx, dy = row[BASE], row[EX], row[EY], row[DX], row[DY]
    width, height, boundary, table, kind = row[WIDTH], row[HEIGHT], row[BOUNDARY], row[TABLE], row[KIND]
    shift, to_line = m.settings[SECTOR_BITS], m.settings[LINE_BITS]
    threads, warps = m.settings[THREADS], m.settings[WARPS]
    begin = warp // warps * threads + warp % warps * WARP
    if m.whole[sm, warp] and table < 0 and across <= 1 << shift:
        x, y = xs[begin] + dx, ys[begin] + dy
        y = _inside(y, height, boundary) if boundary else y
        if y >= 0 and (boundary == 0 or (x >= 0 and x + WARP <= width)):
            first = base + across * x + down * y
            return _segment(first >> shift, (first + across * (WARP - 1)) >> shift, to_line, kind, out)
    n, last, mask, low = 0, 0, 0, (1 << to_line) - 1
    current = -1
    for lane in range(begin, min(begin + WARP, (warp // warps + 1) * threads)):
        if xs[lane] < 0:
            continue
        x, y = xs[lane] + dx, ys[lane] + dy
        if boundary:
            x, y = _inside(x, width, boundary), _inside(y, height, boundary)
            if x < 0 or y < 0:
                continue
        if table >= 0:
            index = (base + across * p.positions[table + y * width + x]) >> shift
        else:
            index = (base + across * x + down * y) >> shift
        line = index >> to_line
        if line != current:
            if n:
                out[last, 1] = mask
            last = 0
            while last < n and out[last, 0] != line:
                last += 1
            mask = 0 if last == n else out[last, 1]
            if last == n:
                out[n, 0], out[n, 2] = line, kind
                n += 1
            current = line
        mask |= 1 << (index & low)
    if n:
        out[last, 1] = mask
    return n


@compiled
def _replay(p: TaskProgram, pc: int, out: Words) -> int:
    """The recorded requests of one instruction; their number."""
    n = 0
    while True:
        for column in range(3):
            out[n, column] = p.recorded[pc + n, column]
        n += 1
        if p.recorded[pc + n - 1, 3]:
            return n


@compiled
def _push(m: Residents, sm: int, which: int, ready: int, warp: int) -> None:
    capacity = m.queue.shape[2]
    at = (m.head[sm, which] + m.size[sm, which]) % capacity
    m.queue[sm, which, at, 0], m.queue[sm, which, at, 1] = ready, warp
    m.size[sm, which] += 1


@compiled
def _choose(m: Residents, sm: int) -> int:
    """Take the next warp, and advance the clock to when it is ready; -1 if none is resident."""
    if m.current[sm] >= 0:
        return m.current[sm]
    capacity = m.queue.shape[2]
    if m.settings[INTERLEAVING] == RANDOM:
        size = m.size[sm, 0]
        if size == 0:
            return -1
        taken, last = draw(m.random, sm, size), size - 1
        warp = m.queue[sm, 0, taken, 1]
        m.queue[sm, 0, taken, 1] = m.queue[sm, 0, last, 1]
        m.size[sm, 0] = last
        return warp
    which = -1
    for q in range(_QUEUES):
        if m.size[sm, q] and (which < 0 or m.queue[sm, q, m.head[sm, q], 0] < m.queue[sm, which, m.head[sm, which], 0]):
            which = q
    if which < 0:
        return -1
    head = m.head[sm, which]
    m.head[sm, which] = (head + 1) % capacity
    m.size[sm, which] -= 1
    m.clock[sm] = max(m.clock[sm], m.queue[sm, which, head, 0])
    return m.queue[sm, which, head, 1]


@compiled
def _enter(m: Residents, p: TaskProgram, sm: int, begin: int, end: int, x: Tasks, y: Tasks) -> bool:
    """Fill free slots with the next blocks of the SM; False if one of them is not in begin..end-1."""
    slots, threads, warps = m.settings[SLOTS], m.settings[THREADS], m.settings[WARPS]
    for slot in range(slots):
        at = m.first[sm] + m.entered[sm]
        if m.block[sm, slot] >= 0 or at == m.first[sm + 1]:
            continue
        block = m.blocks[at]
        if block >= end:
            return False
        m.entered[sm] += 1
        m.block[sm, slot], m.left[sm, slot] = block, 0
        if not m.settings[RECORDED]:
            for t in range(threads):
                m.x[sm, slot * threads + t] = x[(block - begin) * threads + t]
                m.y[sm, slot * threads + t] = y[(block - begin) * threads + t]
        for w in range(warps):
            warp = slot * warps + w
            if not m.settings[RECORDED]:
                m.whole[sm, warp] = _is_whole(m, sm, slot * threads + w * WARP, threads - w * WARP)
            m.pc[sm, warp] = p.starts[block * warps + w] if m.settings[RECORDED] else 0
            alive = p.starts[block * warps + w + 1] > m.pc[sm, warp] if m.settings[RECORDED] else True
            if alive:
                m.left[sm, slot] += 1
                _push(m, sm, 0, m.clock[sm] + m.settings[HIT], warp)
        if m.left[sm, slot] == 0:
            m.block[sm, slot] = -1
    return True


@compiled
def _issue(
    words: Words,
    m: Residents,
    p: TaskProgram,
    sm: int,
    warp: int,
    seen: Masks,
    work: Words,
    spare: Words,
    out: Words,
    n: int,
) -> tuple[int, bool, bool]:
    """Issue instructions of a warp: (used rows of `out`, whether one missed, whether the warp has ended)."""
    warps, recorded, private = m.settings[WARPS], m.settings[RECORDED], m.settings[PRIVATE]
    end, spl = m.settings[INSTRUCTIONS], 1 << m.settings[LINE_BITS]
    pc, clock, before, kinds = m.pc[sm, warp], m.clock[sm], n, WRITE
    if recorded:
        end = p.starts[m.block[sm, warp // warps] * warps + warp % warps + 1]
    for _ in range(m.settings[TOGETHER]):
        if pc == end:
            break
        lines = _replay(p, pc, work) if recorded else _coalesce(m, p, sm, warp, pc, work)
        pc += lines if recorded else 1
        clock += max(lines, 1)
        m.issued[sm] += 1
        left = 0 if private else lines
        for r in range(lines):
            line, mask, kind = work[r, 0], work[r, 1], work[r, 2]
            seen[line, kind] |= np.uint32(mask)
            if private:
                left = lookup.access(words, 0, sm, line, mask, kind, spare, left)
        if private:
            work, spare = spare, work
        if private > 1:
            left = lookup.descend(words, 1, private, sm, spl, left, work, spare)
        for r in range(left):
            kinds &= work[r, 2]
            out[n, 0], out[n, 1] = clock, sm
            out[n, 2], out[n, 3], out[n, 4] = work[r, 0], work[r, 1], work[r, 2]
            n += 1
    m.pc[sm, warp], m.clock[sm] = pc, clock
    return n, n > before and kinds == READ, pc == end


@compiled
def run(
    words: Words, m: Residents, p: TaskProgram, sm: int, begin: int, end: int, x: Tasks, y: Tasks, seen: Masks,
    work: Words, spare: Words, out: Words, n: int,
) -> tuple[int, int]:  # fmt: skip
    """Run one SM with the blocks begin..end-1 loaded: how it stopped, and the used rows of `out`.

    `out` receives what the caches of the SM request from the shared ones: (clock, SM, line, mask, kind).
    """
    room = work.shape[0] * m.settings[TOGETHER]
    while True:
        if not _enter(m, p, sm, begin, end, x, y):
            return WAITING, n
        if n + room > out.shape[0]:
            return FULL, n
        warp = _choose(m, sm)
        if warp < 0:
            if m.first[sm] + m.entered[sm] == m.first[sm + 1]:
                return DONE, n
            continue  # the blocks that entered have no requests
        n, missed, ended = _issue(words, m, p, sm, warp, seen, work, spare, out, n)
        kind, slot = m.settings[INTERLEAVING], warp // m.settings[WARPS]
        m.current[sm] = -1
        if ended:
            m.left[sm, slot] -= 1
            if m.left[sm, slot] == 0:
                m.block[sm, slot] = -1
        elif kind == SEQUENTIAL or (kind == GREEDY and not missed):
            m.current[sm] = warp
        elif missed and kind != RANDOM:
            _push(m, sm, 1, m.clock[sm] + m.settings[MISS], warp)
        else:
            _push(m, sm, 0, m.clock[sm] + m.settings[HIT], warp)


@compiled
def run_some(
    words: Words, m: Residents, p: TaskProgram, sms: Words, at: int, begin: int, end: int, x: Tasks, y: Tasks,
    seen: Masks, work: Words, spare: Words, out: Words,
) -> tuple[int, int]:  # fmt: skip
    """Run the SMs sms[at:] until `out` is full: the first SM that has to go on, and the used rows of `out`."""
    n = 0
    for k in range(at, sms.shape[0]):
        stopped, n = run(words, m, p, sms[k], begin, end, x, y, seen, work, spare, out, n)
        if stopped == FULL:
            return k, n
    return sms.shape[0], n


@compiled
def run_shared(words: Words, begin: int, end: int, spl: int, rows: Words, work: Words, spare: Words) -> None:
    """Send requests (clock, SM, line, mask, kind) through the shared levels, in the order of the rows."""
    for r in range(rows.shape[0]):
        work[0, 0], work[0, 1], work[0, 2] = rows[r, 2], rows[r, 3], rows[r, 4]
        lookup.descend(words, begin, end, 0, spl, 1, work, spare)
