"""The compiled caches and the plain ones agree on every counter, for any hierarchy and stream of requests."""

import numpy as np
from cache_reference import NAMES, Hierarchy, bits
from hypothesis import given, settings
from hypothesis import strategies as st

from lego_mlir.caches import lookup
from lego_mlir.caches.levels import CacheLevel, Eviction, WritePolicy


@st.composite
def levels(draw, sector=4):
    found = []
    private = draw(st.integers(0, 2))
    for k in range(draw(st.integers(1, 3))):
        sectors = draw(st.sampled_from([1, 2, 4]))
        random = draw(st.booleans())
        together = draw(st.sampled_from([1, 2, 4])) if random else 1
        ways = draw(st.sampled_from([None, 1, 2, 4, 8]))
        sets = 1 if ways is None else draw(st.integers(1, 5))
        full = ways or draw(st.integers(1, 10))
        full = -(-full // together) * together
        found.append(
            CacheLevel(
                f"L{k}", full * sets * sectors * sector, line=sectors * sector, sector=sector,
                ways=None if ways is None else full, eviction=Eviction.RANDOM if random else Eviction.LRU,
                evicted_together=together, write=draw(st.sampled_from(WritePolicy)), shared=k >= private,
                fetched_together=draw(st.sampled_from([n for n in (1, 2, 4) if n <= sectors])),
                hashed=draw(st.booleans()),
            )
        )  # fmt: skip
    return tuple(found)


@settings(max_examples=150, deadline=None)
@given(levels(), st.integers(1, 3), st.data())
def test_every_counter_agrees(hierarchy, sms, data):
    spl = hierarchy[0].sectors
    request = st.tuples(
        st.integers(0, sms - 1), st.integers(0, 30), st.sets(st.integers(0, spl - 1), min_size=1), st.booleans()
    )
    requests = data.draw(st.lists(request, max_size=80))
    plain, words = Hierarchy(hierarchy, sms, seed=3), lookup.empty(hierarchy, sms, seed=3)
    work, spare = np.zeros((2, 600, 3), np.int64)
    for sm, line, sectors, store in requests:
        passed = plain.request(sm, [(line, sectors, store)])
        work[0] = line, bits(sectors), store
        n = lookup.descend(words, 0, len(hierarchy), sm, spl, 1, work, spare)
        assert work[:n].tolist() == [[ln, bits(s), k] for ln, s, k in passed]
    for k, counts in enumerate(plain.counts()):
        got = lookup.counters(words, k, sms).sum(axis=0)
        assert dict(zip(NAMES, got.tolist(), strict=True)) == counts


def test_a_random_eviction_empties_four_lines():
    level = CacheLevel("L1", 16 * 32, line=32, sector=32, eviction=Eviction.RANDOM, evicted_together=4)
    words = lookup.empty((level,), 1)
    work, spare = np.zeros((2, 32, 3), np.int64)
    for line in range(20):
        work[0] = line, 1, lookup.READ
        lookup.descend(words, 0, 1, 0, 1, 1, work, spare)
    assert lookup.counters(words, 0, 1)[0, lookup.EVICTED] == 4
    work[0] = 20, 1, lookup.READ
    lookup.descend(words, 0, 1, 0, 1, 1, work, spare)
    assert lookup.counters(words, 0, 1)[0, lookup.EVICTED] == 8


def test_sets_spread_a_power_of_two_pitch_only_when_hashed():
    lines = range(0, 64 * 64, 64)
    assert len({lookup.set_of(line, 64, False) for line in lines}) == 1
    assert len({lookup.set_of(line, 64, True) for line in lines}) > 32
