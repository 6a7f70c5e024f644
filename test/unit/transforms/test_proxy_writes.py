"""Arrivals that need a fence, against runs of random programs warp by warp."""

import random

import pytest

from lego_mlir.transforms.proxy_writes import Arrival, Fence, Paths, ProxyWrite, Repeated, Role, after_writes

WARPS = 6


def drawn(choose, depth, arrivals, *, overlap):
    """A random program of at most `depth` levels; roles are at the outermost one, as in kernels."""
    found = []
    for _ in range(choose.randint(1, 4)):
        kinds = ["write", "fence", "arrival", "arrival"] + ["paths", "rounds"] * (depth > 0)
        match choose.choice(kinds):
            case "write":
                found.append(ProxyWrite())
            case "fence":
                found.append(Fence())
            case "arrival":
                found.append(Arrival(next(arrivals)))
            case "paths":
                found.append(Paths([drawn(choose, depth - 1, arrivals, overlap=False) for _ in range(2)]))
            case "rounds":
                found.append(Repeated(drawn(choose, depth - 1, arrivals, overlap=False)))
        if overlap is not None and depth == 2 and choose.random() < 0.5:
            cuts = sorted(choose.sample(range(WARPS + 1), 3))
            for first, end in zip(cuts, (cuts[-1] if overlap else cuts[1], cuts[-1]), strict=False):
                found.append(Role(first, end, drawn(choose, 1, arrivals, overlap=False)))
    return found


def runs(body, warp, states):
    """The states (unfenced writes, arrivals that found some) of a warp after all ways through a body."""
    for step in body:
        match step:
            case ProxyWrite():
                states = {(True, met) for _, met in states}
            case Fence():
                states = {(False, met) for _, met in states}
            case Arrival(key):
                states = {(False, met | {key} if pending else met) for pending, met in states}
            case Paths(bodies):
                states = set().union(*(runs(one, warp, states) for one in bodies))
            case Repeated(inside):
                ways = [states]
                for _ in range(3):
                    ways.append(runs(inside, warp, ways[-1]))
                states = set().union(*ways)
            case Role(first, end, inside) if first <= warp < end:
                states = runs(inside, warp, states)
        states = {(pending, frozenset(met)) for pending, met in states}
    return states


def met(program):
    """The arrivals that some warp reaches with writes that nothing has fenced."""
    return set().union(*(found for warp in range(WARPS) for _, found in runs(program, warp, {(False, frozenset())})))


def test_arrivals_have_a_fence_where_a_run_needs_one_and_no_others():
    programs = [drawn(random.Random(seed), 2, iter(range(10**6)), overlap=None) for seed in range(400)]
    assert all(after_writes(program) == met(program) for program in programs)
    assert sum(len(met(program)) for program in programs) > 200


@pytest.mark.parametrize("overlap", [False, True])
def test_arrivals_of_roles_have_at_least_the_fences_that_a_run_needs(overlap):
    """What is not fenced when roles end is not followed by warp."""
    programs = [drawn(random.Random(seed), 2, iter(range(10**6)), overlap=overlap) for seed in range(400)]
    assert all(after_writes(program) >= met(program) for program in programs)
    assert sum(len(met(program)) for program in programs) > 200
