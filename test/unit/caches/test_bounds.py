"""Every corrected bound holds for an LRU cache of the size it names; the printed forms do not."""

import itertools
from collections import OrderedDict

import pytest
from hypothesis import example, given
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


def columns(width, height, column):
    """Tasks (x, y) column by column, rows inside."""
    return [
        (x, y)
        for first in range(0, width, column)
        for y in range(height)
        for x in range(first, min(first + column, width))
    ]


def tiles(width, height, tile):
    return [
        (x, y)
        for top in range(0, height, tile)
        for left in range(0, width, tile)
        for y in range(top, min(top + tile, height))
        for x in range(left, min(left + tile, width))
    ]


def window(tasks, stencil, pitch, base):
    return [
        base + (y + dy) * pitch + x + dx
        for x, y in tasks
        for dy in range(stencil.height)
        for dx in range(stencil.width)
    ]


def product(tasks, depth, a, a_pitch, b, b_pitch):
    return [address for x, y in tasks for k in range(depth) for address in (a + y * a_pitch + k, b + k * b_pitch + x)]


@given(SMALL, SMALL, st.integers(1, 14), SMALL, SMALL, LINE, st.integers(0, 5), st.integers(0, 5), st.data())
def test_stencils(width, height, part, s_w, s_h, line, base, more, data):
    stencil, pitch = Stencil(s_w, s_h), width + s_w - 1 + more
    orders = {
        bounds.stencil_rows(width, height, stencil, line): columns(width, height, width),
        bounds.stencil_worst(width, height, stencil, line): columns(width, height, width),
        bounds.stencil_tiles(width, height, part, stencil, line): tiles(width, height, part),
        bounds.stencil_columns(width, height, part, stencil, line): columns(width, height, part),
    }
    bound = data.draw(st.sampled_from(list(orders)))
    extra = data.draw(st.integers(0, 3))
    assert fetched(window(orders[bound], stencil, pitch, base), bound.cache_lines + extra, line) <= bound.fetches


@given(st.integers(1, 9), st.integers(1, 7), st.integers(1, 7), st.integers(1, 10), LINE, st.integers(0, 5), st.data())
@example(3, 2, 2, 2, 2, 1, None)
def test_products(width, height, depth, column, line, base, data):
    rows = columns(width, height, width)
    orders = {
        bounds.product_rows(width, height, depth, line): rows,
        bounds.product_worst(width, height, depth, line): rows,
        bounds.product_whole(width, height, depth, line): rows,
        bounds.product_columns(width, height, depth, column, line): columns(width, height, column),
    }
    a_pitch, b_pitch = (depth, width) if data is None else (depth + data.draw(LINE), width + data.draw(LINE))
    b = base + height * a_pitch + line * 2 + 1
    for bound, tasks in orders.items():
        assert fetched(product(tasks, depth, base, a_pitch, b, b_pitch), bound.cache_lines, line) <= bound.fetches


@given(st.integers(1, 60), SMALL, SMALL, LINE)
def test_the_widest_tile_fits_and_the_next_does_not(lines, s_w, s_h, line):
    stencil = Stencil(s_w, s_h)
    widest = bounds.widest_tile(lines, stencil, line)
    if widest:
        assert bounds.stencil_columns(widest, 1, widest, stencil, line).cache_lines <= lines
    assert bounds.stencil_columns(widest + 1, 1, widest + 1, stencil, line).cache_lines > lines


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
