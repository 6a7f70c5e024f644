"""Every message of a wrong order of execution."""

import pytest

from lego_mlir import Row, schedule, size
from lego_mlir.errors import LayoutError
from lego_mlir.schedule.cuts import Cuts


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: schedule.grouped(4, 4, rows=0), r"schedule.grouped: rows=0 must be an int >= 1 or lego.size"),
        (lambda: schedule.columns(4, 4, width=0), r"schedule.columns: width=0 must be an int >= 1"),
        (lambda: schedule.columns(4, 4, width=2.5), r"schedule.columns: width=2.5 must be an int >= 1"),
        (lambda: schedule.columns(4, width=2), r"schedule.columns takes two or more sizes, .* got \[4\]"),
        (lambda: schedule.tiles(4, 4, tile=(2,)), r"schedule.tiles: the tile \[2\] needs a size for each .*\[4, 4\]"),
        (lambda: Cuts([4, 4], [(0, 2)]), r"schedule: \(0, 2\) cuts axis 0; \[4, 4\] has the axes 1 .. 2"),
        (lambda: Cuts([4, 4], [(3, 2)]), r"cuts axis 3"),
        (lambda: Cuts([4, 4], [5]), r'a cut is \(axis, size\), with "odd" or "even" .* got 5'),
        (lambda: Cuts([4, 4], [(1, 2), (2, 1, "both")]), r"alternates on .*, got 'both'"),
        (lambda: Cuts([4, 4], [(1, 2, "odd")]), r"the first cut \(1, 2, 'odd'\) has no cut before it"),
        (lambda: Cuts([4, 4], [(1, 0)]), r"schedule: a size is an int >= 1"),
        (lambda: schedule.nested(), r"schedule.nested takes permutations"),
        (lambda: schedule.nested(Row(2, 2), Row(2)), r"all levels must have the same number of sizes"),
        (lambda: schedule.generalised_hilbert(4096, 4096), r"4096 x 4096 elements are more than the table's 1048576"),
        (lambda: schedule.morton(size("M"), 4), r"schedule.morton: size=M must be an int >= 1"),
    ],
)
def test_messages(make, message):
    with pytest.raises(LayoutError, match=message):
        make()
