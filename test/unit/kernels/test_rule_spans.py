"""Spans of masks, by formulas: tiles outside of `some` have no allowed pair, and those inside of `all` no other."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import lego_mlir as lego
from lego_mlir import Row, i32
from lego_mlir.kernels.rule_spans import NotAffineError, spans
from lego_mlir.kernels.rule_tiles import ProvedTiles

LENGTH = 40
COEFFICIENTS = st.sampled_from((-2, -1, 0, 1, 3))


@st.composite
def comparisons(draw):
    a, b, d = draw(COEFFICIENTS), draw(COEFFICIENTS), draw(st.integers(-30, 30))
    word = draw(st.sampled_from(("<", "<=", "==", "!=", ">")))
    return eval(f"lambda i, j: {a} * i + {b} * j {word} {d}"), f"{a} i + {b} j {word} {d}"


def joined(draw, parts):
    (one, name), (other, second) = draw(parts), draw(parts)
    match draw(st.sampled_from("&|~")):
        case "&":
            return lambda i, j: one(i, j) & other(i, j), f"({name}) & ({second})"
        case "|":
            return lambda i, j: one(i, j) | other(i, j), f"({name}) | ({second})"
        case _:
            return lambda i, j: negated(one(i, j)), f"~({name})"


def negated(condition):
    return ~condition if not isinstance(condition, bool) else not condition


CONDITIONS = st.recursive(comparisons(), lambda parts: st.composite(lambda draw: joined(draw, parts))(), max_leaves=4)


def positions(span):
    found = np.arange(LENGTH)
    low, high = (end if x is None else int(x) for x, end in ((span.low, -1000), (span.high, 1000)))
    return (found >= low) & (found < high)


APART = (lambda i, j: (j < i - 5) | (j > i + 5), "two runs")
AROUND = (lambda i, j: ~((j < i) & (j > i - 9)) & (j != 20), "all but two runs")


@example(APART, 12, 7, False)
@example(APART, 12, 7, True)
@example(AROUND, 12, 7, False)
@given(condition=CONDITIONS, first=st.integers(0, LENGTH - 1), count=st.sampled_from((1, 7)), of_keys=st.booleans())
def test_spans_of_random_conditions(condition, first, count, of_keys):
    allowed, _ = condition
    i, j = np.arange(first, first + count), np.arange(LENGTH)
    pairs = np.broadcast_to(
        allowed(j[:, None], i[None]).T if of_keys else allowed(i[:, None], j[None]), (count, LENGTH)
    )
    some, every = (positions(span) for span in spans(allowed, first, count, of_keys=of_keys))
    assert not (pairs.any(0) & ~some).any() and not (every & ~pairs.all(0)).any()


@pytest.mark.parametrize(("allowed", "some", "every"), [
    (lambda i, j: j <= i, (None, 72), (None, 9)),
    (lambda i, j: (j <= i) & (i - j < 5), (4, 72), (67, 9)),
    (lambda i, j: (j < 20) | (j <= i), (None, 72), (None, 20)),
    (lambda i, j: (j == i), (8, 72), (71, 9)),
])  # fmt: skip
def test_common_masks_have_the_tightest_spans(allowed, some, every):
    assert [(span.low, span.high) for span in spans(allowed, 8, 64)] == [some, every]


@pytest.mark.parametrize("allowed", [lambda i, j: (i - j) % 3 == 0, lambda i, j: i * j < 9])
def test_other_masks_have_none(allowed):
    with pytest.raises(NotAffineError):
        spans(allowed, 0, 64)


@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize("allowed", [
    lambda i, j: j <= i, lambda i, j: (j <= i) & (i - j < 20), lambda i, j: (j > i + 20) & (i < 90),
    lambda i, j: j == j,
])  # fmt: skip
def test_visits_are_each_tile_once_in_order(allowed, back):
    """A kernel writes, for each block of 16 rows, the tiles of its visits, and 1 where one has no mask."""
    blocks, size, length = 8, 8, 100
    tiles = -(-length // size)

    @lego.kernel(grid=blocks, block=1)
    def visits(y: lego.Tensor(i32, Row(blocks, tiles + 1, 2))):
        block = lego.block_id[0]
        found = ProvedTiles(spans(allowed, 16 * block, 16), size, length, back=back)
        out, at = y.halo("zero"), lego.register(i32, 0)

        def write(number, mask):
            for k, value in enumerate((found.visited(number, mask), int(not mask))):
                out[block, lego.index(at.get()), k] = lego.i32(value)
            at.set(at + 1)

        write(found.begin, True)
        for start, stop, mask in found.segments():
            for number in lego.range(start, stop):
                write(number, mask)

    y = np.full((blocks, tiles + 1, 2), -1, np.int32)
    visits(y, check=True)
    i, j = np.ix_(range(16 * blocks), range(tiles * size))
    seen = np.broadcast_to(allowed(i, j), (16 * blocks, tiles * size)) & (j < length)
    for block, made in enumerate(y):
        visited, whole = made[made[:, 0] >= 0].T
        parts = seen[16 * block : 16 * block + 16].reshape(16, tiles, size)
        assert np.array_equal(np.diff(visited), np.full(len(visited) - 1, -1 if back else 1))
        assert {*np.flatnonzero(parts.any((0, 2)))} <= {*visited}
        assert all(parts[:, tile].all() for tile in visited[whole == 1])
