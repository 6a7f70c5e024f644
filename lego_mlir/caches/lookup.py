"""One access to one cache, and its way down the hierarchy, as compiled loops over one array of 64-bit words.

All caches of a hierarchy are one array, `words`, in which a pointer is an index, 0 for none. A row of fields describes
each level and points to its slots (lines), sets, hash tables and counters, one of each for every instance. The hash
table finds the slot of a line, and a doubly linked list per set orders its slots from the newest to the oldest use:
a hit, a miss and an eviction take constant time for any associativity. (With one array instead of several, Numba counts
no references in the inner loops, which made them ten times slower.)

A request is (line, mask, kind): bit b of the mask is sector b of the line. A level answers what it holds and appends
the rest, with its write-backs, to the requests of the next level.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lego_mlir.caches.jit import compiled
from lego_mlir.caches.levels import CacheLevel, Eviction, WritePolicy

if TYPE_CHECKING:
    Words = np.ndarray[Any, np.dtype[np.int64]]

READ: Final = 0
WRITE: Final = 1

# The fields of a level. Those that end in _AT point to the first instance, the field after each is an instance's size.
(
    SETS, WAYS, GROUP, RANDOM, HASHED, POLICY, TOGETHER, SECTORS, SHARED,
    SLOT_AT, SLOT_WORDS, SET_AT, SET_WORDS, TABLE_AT, TABLE_WORDS, COUNT_AT, COUNT_WORDS,
) = range(17)  # fmt: skip
FIELDS: Final = 17
# A slot: its line or -1, its sectors present and dirty, the slots used just after and just before it.
TAG, VALID, DIRTY, NEWER, OLDER = range(5)
SLOT: Final = 5
# A set: the ends of that list; the slots from FREE up to LIMIT are empty.
NEWEST, OLDEST, FREE, LIMIT = range(4)
SET: Final = 4
# The counters of an instance, as in `simulation.LevelCounts`, and the state of its random numbers.
REQUESTS, READS, HITS, FETCHED, FETCHES, WRITES, WRITE_HITS, EVICTED, WRITTEN_BACK, STATE = range(10)
COUNTERS: Final = 9

# Multipliers of hashes, as signed words: products wrap around, and a shift to the right is masked to be logical.
_GOLDEN: Final = 0x9E3779B97F4A7C15 - (1 << 64)
_MIXED: Final = 0xD6E8FEB86659FD93 - (1 << 64)


def empty(levels: tuple[CacheLevel, ...], instances: int, seed: int = 0) -> Words:
    """Empty caches: one of each shared level, `instances` of each other level."""
    at, fields = 1 + FIELDS * len(levels), []
    for level in levels:
        copies = 1 if level.shared else instances
        table = 1 << max((2 * level.lines - 1).bit_length(), 2)
        row = [
            *(level.sets, level.ways or level.lines, level.evicted_together, level.eviction == Eviction.RANDOM),
            *(level.hashed, level.write, level.fetched_together, level.sectors, level.shared),
        ]
        for size in (level.lines * SLOT, level.sets * SET, table, COUNTERS + 1):
            row += [at, size]
            at += copies * size
        fields.append(row)
    words = np.zeros(at, np.int64)
    for number, (level, row) in enumerate(zip(levels, fields, strict=True)):
        words[1 + FIELDS * number : 1 + FIELDS * (number + 1)] = row
        for i in range(1 if level.shared else instances):
            slots = row[SLOT_AT] + i * row[SLOT_WORDS]
            words[slots : slots + row[SLOT_WORDS] : SLOT] = -1
            sets = words[row[SET_AT] + i * row[SET_WORDS] :][: row[SET_WORDS]].reshape(-1, SET)
            sets[:, FREE] = slots + np.arange(level.sets) * row[WAYS] * SLOT
            sets[:, LIMIT] = sets[:, FREE] + row[WAYS] * SLOT
            words[row[COUNT_AT] + i * row[COUNT_WORDS] + STATE] = seed_of(seed, number, i)
    return words


def seed_of(seed: int, level: int, instance: int) -> int:
    """The first state of an instance's random numbers, not 0."""
    return ((seed + 1) * 0x5851F42D4C957F2D + level * 7919 + instance * 104729) % ((1 << 63) - 1) or 1


def counters(words: Words, level: int, instances: int) -> Words:
    """The counters of a level: an array (instances, COUNTERS)."""
    row = words[1 + FIELDS * level : 1 + FIELDS * (level + 1)]
    copies = 1 if row[SHARED] else instances
    counts = words[row[COUNT_AT] : row[COUNT_AT] + copies * row[COUNT_WORDS]]
    return counts.reshape(copies, -1)[:, :COUNTERS]


def contents(words: Words, level: int) -> Words:
    """The lines that the first instance of a level holds."""
    row = words[1 + FIELDS * level : 1 + FIELDS * (level + 1)]
    tags = words[row[SLOT_AT] : row[SLOT_AT] + row[SLOT_WORDS] : SLOT]
    return tags[tags >= 0]


@compiled
def _home(line: int, size: int) -> int:
    return ((line * _GOLDEN) >> 32) & (size - 1)


@compiled
def set_of(line: int, sets: int, hashed: int) -> int:
    """The set of a line: its lowest bits, or mixed bits of the whole address."""
    if sets == 1:
        return 0
    if hashed:
        x = line * _GOLDEN
        x = (x ^ ((x >> 32) & 0xFFFFFFFF)) * _MIXED
        return ((x >> 32) & 0x7FFFFFFF) % sets
    return line % sets


@compiled
def _find(words: Words, table: int, size: int, line: int) -> int:
    """The slot that holds a line, or 0."""
    h = _home(line, size)
    while True:
        slot = words[table + h]
        if slot == 0 or words[slot + TAG] == line:
            return slot
        h = (h + 1) & (size - 1)


@compiled
def _enter(words: Words, table: int, size: int, line: int, slot: int) -> None:
    h = _home(line, size)
    while words[table + h]:
        h = (h + 1) & (size - 1)
    words[table + h] = slot


@compiled
def _forget(words: Words, table: int, size: int, line: int) -> None:
    """Remove a line from the table, moving later entries of its chain back over the hole."""
    hole = _home(line, size)
    while words[words[table + hole] + TAG] != line:
        hole = (hole + 1) & (size - 1)
    h = hole
    while True:
        h = (h + 1) & (size - 1)
        slot = words[table + h]
        if slot == 0:
            break
        home = _home(words[slot + TAG], size)
        if ((h - home) & (size - 1)) >= ((h - hole) & (size - 1)):
            words[table + hole] = slot
            hole = h
    words[table + hole] = 0


@compiled
def _unlink(words: Words, group: int, slot: int) -> None:
    newer, older = words[slot + NEWER], words[slot + OLDER]
    words[newer + OLDER if newer else group + NEWEST] = older
    words[older + NEWER if older else group + OLDEST] = newer


@compiled
def _link(words: Words, group: int, slot: int) -> None:
    """Make a slot the newest of its set."""
    first = words[group + NEWEST]
    words[slot + NEWER], words[slot + OLDER] = 0, first
    words[first + NEWER if first else group + OLDEST] = slot
    words[group + NEWEST] = slot


@compiled
def ones(mask: int) -> int:
    """The set bits of a mask."""
    count = 0
    while mask:
        mask &= mask - 1
        count += 1
    return count


@compiled
def draw(words: Words, at: int, n: int) -> int:
    """A random number below n, by xorshift; its state is the word `at`."""
    x = words[at]
    x ^= (x >> 12) & ((1 << 52) - 1)
    x ^= x << 25
    x ^= (x >> 27) & ((1 << 37) - 1)
    words[at] = x
    return ((x >> 33) & 0x7FFFFFFF) % n


@compiled
def _evict(words: Words, g: int, i: int, group: int, out: Words, n: int) -> int:
    """Empty the oldest slot of a full set, or a random group of its slots; dirty sectors become requests."""
    counts = words[g + COUNT_AT] + i * words[g + COUNT_WORDS]
    begin, count = words[group + OLDEST], 1
    if words[g + RANDOM]:
        count = words[g + GROUP]
        number = (group - words[g + SET_AT] - i * words[g + SET_WORDS]) // SET
        first = words[g + SLOT_AT] + i * words[g + SLOT_WORDS] + number * words[g + WAYS] * SLOT
        begin = first + draw(words, counts + STATE, words[g + WAYS] // count) * count * SLOT
    words[group + FREE], words[group + LIMIT] = begin, begin + count * SLOT
    for slot in range(begin, begin + count * SLOT, SLOT):
        line, dirty = words[slot + TAG], words[slot + DIRTY]
        _forget(words, words[g + TABLE_AT] + i * words[g + TABLE_WORDS], words[g + TABLE_WORDS], line)
        _unlink(words, group, slot)
        words[slot + TAG] = -1
        words[counts + EVICTED] += 1
        if dirty:
            out[n, 0], out[n, 1], out[n, 2] = line, dirty, WRITE
            words[counts + WRITTEN_BACK] += ones(dirty)
            n += 1
    return n


@compiled
def _whole_groups(mask: int, together: int, sectors: int) -> int:
    """The aligned groups of `together` sectors that contain a sector of `mask`."""
    if together == 1:
        return mask
    found, group = 0, (1 << together) - 1
    for first in range(0, sectors, together):
        if mask & (group << first):
            found |= group << first
    return found


@compiled
def _slot_for(words: Words, g: int, i: int, slot: int, line: int, out: Words, n: int) -> tuple[int, int]:
    """The newest slot of its set, which holds the line: `slot` itself, or one that is empty or emptied for it."""
    number = set_of(line, words[g + SETS], words[g + HASHED])
    group = words[g + SET_AT] + i * words[g + SET_WORDS] + number * SET
    if slot:
        if words[group + NEWEST] != slot:
            _unlink(words, group, slot)
            _link(words, group, slot)
        return slot, n
    if words[group + FREE] == words[group + LIMIT]:
        n = _evict(words, g, i, group, out, n)
    slot = words[group + FREE]
    words[group + FREE] = slot + SLOT
    words[slot + TAG], words[slot + VALID], words[slot + DIRTY] = line, 0, 0
    _enter(words, words[g + TABLE_AT] + i * words[g + TABLE_WORDS], words[g + TABLE_WORDS], line, slot)
    _link(words, group, slot)
    return slot, n


@compiled
def access(words: Words, level: int, i: int, line: int, mask: int, kind: int, out: Words, n: int) -> int:
    """One request to instance `i` of a level: what it cannot answer is appended to the `n` used rows of `out`."""
    g = 1 + level * FIELDS
    counts, wanted = words[g + COUNT_AT] + i * words[g + COUNT_WORDS], ones(mask)
    words[counts + REQUESTS] += 1
    words[counts + (READS if kind == READ else WRITES)] += wanted
    slot = _find(words, words[g + TABLE_AT] + i * words[g + TABLE_WORDS], words[g + TABLE_WORDS], line)
    if slot or kind == READ or words[g + POLICY] != 0:
        slot, n = _slot_for(words, g, i, slot, line, out, n)
        present = words[slot + VALID]
        missing = mask & ~present
        words[counts + (HITS if kind == READ else WRITE_HITS)] += wanted - ones(missing)
        if kind == READ:
            if missing == 0:
                return n
            mask = _whole_groups(missing, words[g + TOGETHER], words[g + SECTORS]) & ~present
            words[counts + FETCHED] += ones(mask)
            words[counts + FETCHES] += 1
        words[slot + VALID] = present | mask
        if kind == WRITE and words[g + POLICY] == 2:
            words[slot + DIRTY] |= mask
            return n
    out[n, 0], out[n, 1], out[n, 2] = line, mask, kind
    return n + 1


@compiled
def _regrouped(
    words: Words, level: int, i: int, line: int, mask: int, kind: int, spl: int, out: Words, n: int
) -> int:  # fmt: skip
    """A request whose line has `spl` sectors, to a level whose lines may be longer or shorter."""
    own, b = words[1 + level * FIELDS + SECTORS], 0
    while b < spl:
        if own == spl:
            wanted, bits, b = line, mask, spl
        else:
            wanted, bits = (line * spl + b) // own, 0
            while b < spl and (line * spl + b) // own == wanted:
                bits |= (mask >> b & 1) << ((line * spl + b) % own)
                b += 1
        if bits:
            n = access(words, level, i, wanted, bits, kind, out, n)
    return n


@compiled
def descend(words: Words, begin: int, end: int, i: int, spl: int, n: int, work: Words, spare: Words) -> int:
    """Send the `n` requests of `work`, in lines of `spl` sectors, through the levels begin..end-1.

    What leaves the last level is in `work` afterwards, in its lines; their number is returned. Rows are
    (line, mask, kind); `spare` has as many rows as `work`.
    """
    for level in range(begin, end):
        m, instance = 0, 0 if words[1 + level * FIELDS + SHARED] else i
        for r in range(n):
            m = _regrouped(words, level, instance, work[r, 0], work[r, 1], work[r, 2], spl, spare, m)
        for r in range(m):
            work[r, 0], work[r, 1], work[r, 2] = spare[r, 0], spare[r, 1], spare[r, 2]
        n, spl = m, words[1 + level * FIELDS + SECTORS]
    return n


assert list(WritePolicy) == [0, 1, 2]  # `access` compares with these numbers
