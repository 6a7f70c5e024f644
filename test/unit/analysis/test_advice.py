"""Advice that holds: contiguous segments of requests, wider accesses, and layouts at given sizes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lego_mlir as lego
from lego_mlir import Col, OrderBy, Padded, RegP, Row, f32, gallery, i32
from lego_mlir.analysis import widening
from lego_mlir.analysis.layouts import shared, through_cache
from lego_mlir.analysis.patterns import parse, require_inside, sweeps
from lego_mlir.analysis.recorded_requests import KEPT_WARPS, RecordedRequests
from lego_mlir.analysis.widening import Widening, granted
from lego_mlir.errors import UsageError
from lego_mlir.hardware.sectors import Segments, requests, segments
from lego_mlir.interp.report import Site, SourceLocation

LANE = np.arange(32)


@given(
    st.lists(st.integers(0, 200), min_size=32, max_size=32),
    st.sampled_from([1, 2, 4, 8, 16]),
    st.lists(st.booleans(), min_size=32, max_size=32),
)
def test_runs_are_those_of_the_bytes_themselves(places, width, taking):
    asked = {p * width + k for p, on in zip(places, taking, strict=True) for k in range(width) if on}
    starts = sorted(b for b in asked if b - 1 not in asked)
    ends = sorted(b + 1 for b in asked if b + 1 not in asked)
    lengths = [e - s for s, e in zip(starts, ends, strict=True)]
    expected = Segments(len(starts), len(asked), -(-len(asked) // 32), sum(-(-n // 32) for n in lengths))
    address, active = np.array([places]) * width, np.array([taking])
    assert segments(address, width, active) == expected
    assert int(requests(address, width, active).ideal[0]) == expected.packed


def test_runs_of_several_warps_are_counted_for_each():
    assert segments(np.stack([4 * LANE, 8 * LANE]), 4) == segments(4 * LANE, 4) + segments(8 * LANE, 4)


def test_requests_that_match_no_index_of_the_tile_are_not_evaluated():
    """A script may have left a larger tile, or accesses to parts of an element."""
    tile, place = Row(4, 32), SourceLocation("k.py", 7)
    for address, width, size, uses in ((4 * LANE, 4, 128, 1), (4 * LANE + 480, 4, 128, 0), (2 * LANE, 2, 128, 0)):
        seen = RecordedRequests()
        seen(Site(place, "memref.load", "shared0", "shared", "read", width), address.reshape(1, 1, 32), None, width)
        assert len(seen.uses("shared0", tile.inv, size, 4)) == uses
        assert seen.uses("shared1", tile.inv, size, 4) == []


def test_at_most_kept_warps_requests_are_recorded():
    seen, site = RecordedRequests(), Site(SourceLocation("k.py", 7), "memref.load", "shared0", "shared", "read", 4)
    for _ in range(3):
        seen(site, np.broadcast_to(4 * LANE, (1000, 1, 32)), None, 4)
    assert sum(use.warps for use in seen.uses("shared0", Row(4, 32).inv, 128, 4)) == KEPT_WARPS


M = lego.size("M")
K4 = lego.size("K", multiple_of=4)
M2 = lego.size("M", multiple_of=2)


@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        (Row(64), Widening(4)),
        (Row(6, 64), Widening(4)),
        (Row(64, 6), None),
        (Row(K4, M), Widening(4, ("M",))),
        (Row(M, K4), Widening(4)),
        (Row(M2, M2), Widening(4, ("M",))),
        (Row(M), Widening(4, ("M",))),
        (Col(64, 64), Widening(4, (), 0)),
        (Col(M, K4), Widening(4, ("M",), 0)),
        (Row(M, M).tile_by([lego.cdiv(M, 32), lego.cdiv(M, 32)], [32, 32]), Widening(4, ("M",))),
        (gallery.xor_swizzle(32, 32, vec=4), Widening(4)),
        (gallery.xor_swizzle(32, 32), None),
        (Padded(Row(32, 33), [32, 32]), None),
        (OrderBy(RegP([4, 4, 8], [2, 1, 3])).GroupBy([16, 8]), Widening(4)),
    ],
    ids=repr,
)
def test_a_width_is_granted_where_groups_stay_together_for_every_size(layout, expected):
    assert granted(layout, 4) == expected


def test_a_width_is_searched_at_the_line_of_the_access():
    @lego.kernel(grid=1, block=64)
    def kernel(order: lego.Tensor(i32, Row(64)), x: lego.Tensor(f32, Row(64)), y: lego.Tensor(f32, Row(64))):
        t = lego.thread_id[0]
        y[t] = x[lego.index(order[t]) % 64]
        with lego.when(order[t] > 0):
            y[t] = 1.0
        x[t] = x.load(t // 4 * 4, width=4)[0]

    file, first = kernel.source.file, kernel.source.line
    assert widening.of_line(kernel, file, first + 3, "order", 16) == Widening(4)
    assert widening.of_line(kernel, file, first + 3, "x", 16) is None  # a place from data
    assert widening.of_line(kernel, file, first + 3, "y", 16) == Widening(4)
    assert widening.of_line(kernel, file, first + 5, "y", 16) is None  # data says which lanes store
    assert widening.of_line(kernel, file, first + 1, "y", 16) is None  # nothing there


def test_a_layout_of_replaced_sizes_is_analyzed_as_that_of_the_ints():
    sized, plain = Padded(Row(M, K4 + 4), [M, K4]).subs(M=8, K=32), Padded(Row(8, 36), [8, 32])
    for pattern in sweeps(plain.dims()):
        assert through_cache(sized, pattern, 4) == through_cache(plain, pattern, 4)
        assert shared(sized, pattern, 4) == shared(plain, pattern, 4)
    many = parse("lane % 8, 4 * k", {"k": 8, "again": 4096})  # too many to enumerate: proved, by symbols
    assert through_cache(sized, many, 4) == through_cache(plain, many, 4)
    assert through_cache(sized, many, 4).by.startswith("proof")


@pytest.mark.parametrize(
    ("access", "width", "message"),
    [
        ("lane", 1, r"access 'lane' has 1 of the 2 indices of tile, whose sizes are \[32, 32\]; .* such as '0, lane'"),
        ("lane + 1, 0", 1, r"index 0 goes from 1 to 32, and tile has sizes \[32, 32\]; it must be within 0 .. 31"),
        ("0, lane", 4, r"index 1 goes from 0 to 34"),
        ("0, lane // 0", 1, "divides by zero"),
        (f"0, lane * {2**200}", 1, "it must be within 0 .. 31"),
        (f"0, lane * {2**63 - 1} + lane", 1, f"index 1 goes from 0 to {31 * 2**63}"),
        ("0, lane << 99999", 1, "cannot be computed: a shift amount or an exponent is 99999"),
        ("0, 1 << lane - 5", 1, "cannot be computed: negative shift count"),
    ],
)
def test_an_access_that_does_not_fit_a_layout_is_refused(access, width, message):
    with pytest.raises(UsageError, match=message):
        require_inside(parse(access), "tile", (32, 32), width)
