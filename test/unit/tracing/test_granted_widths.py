"""One proof of a width for all chunks of a tile, where it holds for all of them."""

import pytest

import lego_mlir as lego
from lego_mlir import Row, f16, gallery
from lego_mlir.errors import LayoutError
from lego_mlir.tracing.trace.tracer import current
from lego_mlir.tracing.words.places import Place
from lego_mlir.tracing.words.staging import grant_width, thread_chunks

ROWS, COLUMNS, WIDTH = 16, 24, 8  # 3 chunks in a row: the 8 threads cover no whole rows


def copied(layout, found):
    """A kernel that copies a tile of this layout in chunks, and notes how many of a thread's accesses were granted."""

    @lego.kernel(grid=1, block=8)
    def kernel(x: lego.Tensor(f16, Row(ROWS, COLUMNS)), y: lego.Tensor(f16, Row(ROWS, COLUMNS))):
        tile = lego.shared(f16, layout)
        grant_width(tile, (), (ROWS, COLUMNS), WIDTH)
        found.append(len(current("a test").granted))
        for row, column in thread_chunks((ROWS, COLUMNS), WIDTH, 8, lego.thread_id.x):
            tile.store(x.load(row, column, width=WIDTH), row, column)
            y.store(tile.load(row, column, width=WIDTH), row, column)

    return kernel


@pytest.mark.parametrize("layout", [Row(ROWS, COLUMNS), gallery.padded(ROWS, COLUMNS, WIDTH)])
def test_a_width_is_proved_once_for_all_chunks(layout, monkeypatch):
    proved, unproved = [], Place._unproved

    def noted(place, width):
        if place.buffer.space == "workgroup" and (id(place.layout), width, place.index) in place.tracer.granted:
            proved.append(place)
        return unproved(place, width)

    monkeypatch.setattr(Place, "_unproved", noted)
    found = []
    accesses = [a for _, a in copied(layout, found).trace().accesses() if a.buffer.space == "workgroup"]
    assert found == [6]
    assert len(accesses) == len(proved) == 12
    assert {access.width for access in accesses} == {WIDTH}


def test_a_width_that_later_rows_do_not_have_is_not_granted():
    found = []
    with pytest.raises(LayoutError, match="8 elements of f16 at once are not possible: not aligned"):
        copied(gallery.padded(ROWS, COLUMNS, 1), found).trace()
    assert found == [0]


def test_chunks_of_threads_in_a_branch_are_proved_one_by_one():
    found = []

    @lego.kernel(grid=1, block=8)
    def kernel(x: lego.Tensor(f16, Row(ROWS, COLUMNS))):
        x[lego.thread_id.x, 0] = 0.0
        with lego.when(lego.thread_id.x < 4):
            grant_width(x, (), (ROWS, COLUMNS), WIDTH)
        found.append(len(current("a test").granted))

    kernel.trace()
    assert found == [0]
