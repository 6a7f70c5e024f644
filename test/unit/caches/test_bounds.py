"""Every corrected bound holds for an LRU cache of the size it names, and needs that size; the printed forms do not."""

import itertools
import random
from collections import Counter, OrderedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lego_mlir.caches import bounds
from lego_mlir.caches.bounds import Stencil

SMALL = st.integers(1, 12)
LINE = st.integers(1, 6)


def fetched(addresses, lines, line):
    """Misses of a fully associative LRU cache."""
    cache, misses = OrderedDict(), 0
    for address in addresses:
        key = address // line
        if key in cache:
            cache.move_to_end(key)
            continue
        misses += 1
        if len(cache) == lines:
            cache.popitem(last=False)
        cache[key] = None
    return misses


def tiles(width, height, across, down):
    """Tasks (x, y) tile by tile, rows inside."""
    return [
        (x, y)
        for top in range(0, height, down)
        for left in range(0, width, across)
        for y in range(top, min(top + down, height))
        for x in range(left, min(left + across, width))
    ]


def columns(width, height, column):
    return tiles(width, height, column, height)


def window(tasks, stencil, pitch, base):
    return [
        base + (y + dy) * pitch + x + dx
        for x, y in tasks
        for dy in range(stencil.height)
        for dx in range(stencil.width)
    ]


def product(tasks, depth, a, a_pitch, b, b_pitch):
    return [address for x, y in tasks for k in range(depth) for address in (a + y * a_pitch + k, b + k * b_pitch + x)]


def stencil_case(draw):
    """A bound of a stencil by name, and the addresses that it bounds: rows may overlap, touch or be far apart."""
    width, height, part = draw.randint(1, 14), draw.randint(1, 7), draw.randint(1, 15)
    stencil, line = Stencil(draw.randint(1, 6), draw.randint(1, 5)), draw.choice((1, 2, 3, 4, 5, 7, 8, 11))
    row, aligned = width + stencil.width - 1, draw.random() < 0.3
    name = draw.choice(("stencil_rows", "stencil_worst", "stencil_tiles", "stencil_columns"))
    sizes = {"stencil_tiles": (part,), "stencil_columns": (part,)}.get(name, ())
    options = {} if name == "stencil_worst" else {"aligned": aligned}
    bound = getattr(bounds, name)(width, height, *sizes, stencil, line, **options)
    pitch = draw.choice((draw.randint(0, 3 * row), row, row + draw.randint(0, line)))
    pitch -= pitch % bound.pitch_multiple
    assert bound.holds(pitch)
    across, down = {"stencil_tiles": (part, part), "stencil_columns": (part, height)}.get(name, (width, height))
    addresses = window(tiles(width, height, across, down), stencil, pitch, draw.randint(0, 20))
    return f"{name}{', aligned' if options.get('aligned') else ''}", bound, addresses, line


def product_case(draw):
    """The same for a product; its matrices may overlap."""
    width, height, depth, column = draw.randint(1, 9), draw.randint(1, 6), draw.randint(1, 9), draw.randint(1, 10)
    line, name = draw.choice((1, 2, 3, 4, 5, 7, 8)), draw.choice(("rows", "worst", "whole", "columns"))
    sizes = (column,) if name == "columns" else ()
    bound = getattr(bounds, f"product_{name}")(width, height, depth, *sizes, line)
    tasks = columns(width, height, *(sizes or (width,)))
    a, b = draw.randint(0, 20), draw.randint(0, 200)
    return name, bound, product(tasks, depth, a, draw.randint(0, 2 * depth), b, draw.randint(0, 2 * width)), line


def refuted(cases, seed, fewer=0):
    """The bounds that fail, by name, in caches of `fewer` lines less than they name, and how often each was drawn."""
    draw, failures, drawn = random.Random(seed), Counter(), Counter()
    for _ in range(cases):
        name, bound, addresses, line = draw.choice((stencil_case, product_case))(draw)
        if bound.cache_lines > fewer:
            drawn[name] += 1
            failures[name] += fetched(addresses, bound.cache_lines - fewer, line) > bound.fetches
    return +failures, drawn


def test_each_bound_holds_at_drawn_pitches_bases_and_lines():
    failures, drawn = refuted(2_000, seed=1)
    assert not failures
    assert len(drawn) == 11


@pytest.mark.long
def test_each_bound_holds_in_a_hundred_thousand_draws():
    seed = random.SystemRandom().randrange(1 << 32)
    assert not refuted(100_000, seed)[0], f"refuted(100_000, {seed})"


def test_each_bound_needs_the_lines_that_it_names():
    """One line less refutes every bound somewhere."""
    failures, drawn = refuted(2_000, seed=2, fewer=1)
    assert failures.keys() | WITH_AN_EXAMPLE == drawn.keys()


WITH_AN_EXAMPLE = {"stencil_rows", "stencil_tiles", "stencil_columns"}


@pytest.mark.parametrize(
    ("make", "sizes", "stencil", "line", "pitch", "base"),
    [
        (bounds.stencil_rows, (6, 2), Stencil(2, 2), 3, 10, 0),
        (bounds.stencil_columns, (13, 5, 13), Stencil(3, 4), 7, 22, 8),
        (bounds.stencil_tiles, (10, 5, 11), Stencil(2, 2), 5, 16, 5),
    ],
)
def test_rows_aligned_differently_need_one_more_line(make, sizes, stencil, line, pitch, base):
    bound = make(*sizes, stencil, line)
    addresses = window(columns(*sizes[:2], sizes[0]), stencil, pitch, base)
    assert fetched(addresses, bound.cache_lines, line) <= bound.fetches
    assert fetched(addresses, bound.cache_lines - 1, line) > bound.fetches


def test_an_aligned_bound_names_its_pitches():
    bound = bounds.stencil_rows(6, 2, Stencil(2, 2), line=3, aligned=True)
    assert [pitch for pitch in range(7, 14) if bound.holds(pitch)] == [9, 12]
    assert bound.cache_lines == bounds.stencil_rows(6, 2, Stencil(2, 2), line=3).cache_lines - 1
    assert bounds.product_rows(6, 2, 3, 3).holds(7)


@given(st.integers(1, 60), SMALL, SMALL, LINE, st.booleans())
def test_the_widest_tile_fits_and_the_next_does_not(lines, s_w, s_h, line, aligned):
    def needed(column):
        return bounds.stencil_columns(column, 1, column, stencil, line, aligned=aligned).cache_lines

    stencil = Stencil(s_w, s_h)
    widest = bounds.widest_tile(lines, stencil, line, aligned=aligned)
    if widest:
        assert needed(widest) <= lines
    assert needed(widest + 1) > lines


@given(st.integers(1, 40), LINE)
def test_most_lines_by_enumeration(elements, line):
    touched = max(len({(start + i) // line for i in range(elements)}) for start in range(line))
    assert bounds.most_lines(elements, line) == touched


@pytest.mark.parametrize(("equation", "tasks"), [("3.2", columns(6, 8, 6)), ("4.8", columns(6, 8, 2))])
def test_the_printed_equations_fail(equation, tasks):
    """ceil((c + S_w) / L) counts aligned segments only: each printed bound has a counterexample."""

    def printed(s_w, s_h, line):
        part = 6 if equation == "3.2" else 2
        across = -(-(part + s_w) // line)
        fetches = across * 8 if equation == "3.2" else 6 // part * across * (8 + s_h)
        return across * s_h, fetches

    refuted = 0
    for s_w, s_h, line, base, pitch in itertools.product((1, 3, 5), (1, 3, 5), (2, 4, 6), (0, 1, 3), (11, 13)):
        lines, fetches = printed(s_w, s_h, line)
        refuted += fetched(window(tasks, Stencil(s_w, s_h), pitch, base), lines, line) > fetches
    assert refuted


@given(st.integers(2_000, 1 << 20), st.sampled_from([2, 4, 8]), st.integers(1, 9), st.integers(1, 9), SMALL)
def test_the_advised_column_solves_the_approximation(cache, element, s_w, s_h, threads):
    """M = u (t + S_h (c + S_w)), the equation that section 4.3 solves for c."""
    column = bounds.advised_stencil_column(cache, element, Stencil(s_w, s_h), threads)
    used = [element * (threads + s_h * (c + s_w)) for c in (column, column + 1)]
    assert used[0] <= cache < used[1]
