"""A cache hierarchy and its warps in plain Python: slow, and written from the definitions alone."""

from collections import OrderedDict
from itertools import pairwise

from lego_mlir.caches import lookup
from lego_mlir.caches.levels import Eviction, WritePolicy

NAMES = ("requests", "reads", "hits", "fetched", "fetches", "writes", "write_hits", "evicted", "written_back")


class Draws:
    """xorshift64, as `lookup.draw`."""

    def __init__(self, state):
        self.x = state

    def below(self, n):
        x, word = self.x, (1 << 64) - 1
        x ^= x >> 12
        x ^= (x << 25) & word
        x ^= x >> 27
        self.x = x
        return (x >> 33) % n


class Cache:
    """One instance of a level. A set is an ordered dict from line to [place, present, dirty], oldest use first."""

    def __init__(self, level, number, instance, seed):
        self.level, self.draws = level, Draws(lookup.seed_of(seed, number, instance))
        self.ways = level.ways or level.lines
        self.sets = [OrderedDict() for _ in range(level.sets)]
        self.free = [list(range(self.ways)) for _ in range(level.sets)]
        self.counts = dict.fromkeys(NAMES, 0)

    def set_of(self, line):
        if self.level.sets > 1 and self.level.hashed:
            x = line * 0x9E3779B97F4A7C15 % (1 << 64)
            return ((x ^ (x >> 32)) * 0xD6E8FEB86659FD93 % (1 << 64) >> 32) % (1 << 31) % self.level.sets
        return line % self.level.sets

    def evict(self, number):
        lines = self.sets[number]
        if self.level.eviction == Eviction.LRU:
            victims = [next(iter(lines))]
        else:
            together = self.level.evicted_together
            group = self.draws.below(self.ways // together)
            by_place = {place: line for line, (place, _, _) in lines.items()}
            victims = [by_place[place] for place in range(group * together, (group + 1) * together)]
        passed = []
        for line in victims:
            place, _, dirty = lines.pop(line)
            self.free[number].append(place)
            self.counts["evicted"] += 1
            if dirty:
                self.counts["written_back"] += len(dirty)
                passed.append((line, dirty, True))
        return passed

    def request(self, line, sectors, store):
        """The requests that this one makes of the next level."""
        policy, counts, number = self.level.write, self.counts, self.set_of(line)
        lines, passed = self.sets[number], []
        counts["requests"] += 1
        counts["writes" if store else "reads"] += len(sectors)
        if line not in lines:
            if store and policy == WritePolicy.AROUND:
                return [(line, sectors, True)]
            if not self.free[number]:
                passed += self.evict(number)
            lines[line] = [self.free[number].pop(0), set(), set()]
        lines.move_to_end(line)
        _, present, dirty = lines[line]
        counts["write_hits" if store else "hits"] += len(sectors & present)
        if store:
            present |= sectors
            if policy == WritePolicy.BACK:
                dirty |= sectors
                return passed
            return [*passed, (line, sectors, True)]
        missing = sectors - present
        if not missing:
            return passed
        together = self.level.fetched_together
        fetched = {s for s in range(self.level.sectors) if s // together in {m // together for m in missing}} - present
        present |= fetched
        counts["fetched"] += len(fetched)
        counts["fetches"] += 1
        return [*passed, (line, fetched, False)]


class Hierarchy:
    """All caches; `request` returns what reaches the memory."""

    def __init__(self, levels, sms, seed=0):
        self.levels = levels
        self.caches = [
            [Cache(level, k, i, seed) for i in range(1 if level.shared else sms)] for k, level in enumerate(levels)
        ]

    def request(self, sm, requests, begin=0, end=None):
        """Send requests (line, sectors, store), in lines of level `begin`, down to level `end`."""
        levels = self.levels[begin:end]
        for k, level in enumerate(levels, begin):
            cache = self.caches[k][0 if level.shared else sm]
            requests = [p for r in requests for q in self.regroup(k, begin, r) for p in cache.request(*q)]
        return requests

    def regroup(self, k, begin, request):
        """A request in the lines of level k - 1, split or joined into lines of level k."""
        line, sectors, store = request
        before, own = (self.levels[max(j, begin, 0)].sectors for j in (k - 1, k))
        parts = OrderedDict()
        for s in sorted(line * before + s for s in sectors):
            parts.setdefault(s // own, set()).add(s % own)
        return [(wanted, bits, store) for wanted, bits in parts.items()]

    def counts(self):
        return [{name: sum(c.counts[name] for c in caches) for name in NAMES} for caches in self.caches]


def bits(sectors):
    return sum(1 << s for s in sectors)


def split(order, parts):
    """A list in `parts` consecutive pieces."""
    cuts = [round(k * len(order) / parts) for k in range(parts + 1)]
    return [order[a:b] for a, b in pairwise(cuts)]
