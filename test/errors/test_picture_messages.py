"""Messages of pictures: what cannot be drawn, and the remedy."""

import pytest

import lego_mlir as lego
from lego_mlir import LegoError, Row, f2
from lego_mlir.viz import show

M = lego.size("M")


@lego.kernel(grid=1, block=32)
def copied(x: lego.Tensor(lego.f32, Row(32)), y: lego.Tensor(lego.f32, Row(32))):
    y[lego.thread_id[0]] = x[lego.thread_id[0]]


@lego.kernel(grid=1, block=32)
def columns_of_a_row(x: lego.Tensor(lego.f32, Row(32)), y: lego.Tensor(lego.f32, Row(32))):
    tile = lego.shared(lego.f32, Row(32, 32))
    tile[lego.thread_id[0], 0] = x[lego.thread_id[0]]
    lego.barrier()
    y[lego.thread_id[0]] = tile[lego.thread_id[0], 0]


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: show(), "show needs something to draw"),
        (lambda: show(Row(4, 4), by="banks"), "by='banks' is not a view; did you mean bank"),
        (lambda: show(Row(4, 4), dtype="f23"), "dtype 'f23' is unknown; did you mean f32"),
        (lambda: show(Row(4, 4), width=0), "at least 1, not 0"),
        (lambda: show(Row(4, 4), width="2"), "at least 1, not '2'"),
        (lambda: show(Row(4, 4), by=3), "by=3 is not a view; choose one of position"),
        (lambda: show(Row(4, 4), dtype=None), "dtype None is unknown"),
        (lambda: show(copied, line="1"), "line is the number of a line of the spec, not '1'"),
        (lambda: show(Row(32, 4), access=3), "access is text, such as 'lane, 0', or an AccessPattern, not 3"),
        (
            lambda: show(Row(32, 4), access="lane, 0", width=3),
            "width=3: a lane accesses 1, 2, 4, 8 or 16 bytes at once",
        ),
        (lambda: show(Row(32, 4), access="lane, k", free={"k": 0}), "free: k has the values 0 .. N-1 of a number N"),
        (
            lambda: show(f2.MixedLayout(f2.LinearLayout.identity(8, "a", "b"), [("a", 3, "b")]), by="matrix"),
            "digits that are not bits, so it has no matrix over F2; draw layout.low",
        ),
        (lambda: show(Row(M, 4)), r"symbolic sizes; draw it for some of them, with .subs\(M=64\)"),
        (lambda: show(Row(4, 4), by="stage"), r"by='stage' is for kernels; Row\(4, 4\) is none"),
        (
            lambda: show(copied, by="bank"),
            "by='bank' is for layouts; a kernel is drawn by access, request, time, thread, repair, stage",
        ),
        (lambda: show(copied, by="time"), "by='time' needs line=N"),
        (lambda: show(copied, by="repair"), "kernel copied: no tile with bank conflicts$"),
        (
            lambda: show(columns_of_a_row, line=1, by="repair"),
            "line 1 accesses no tile with bank conflicts; shared0: accessed at lines",
        ),
        (lambda: show(copied, line=1), "line 1 has no such access in kernel copied"),
        (lambda: show(3), "3 has no positions to draw; give a layout"),
        (lambda: show(Row(4, 4), by="wavefront"), "by='wavefront' needs an access"),
        (lambda: show(Row(4, 4), by="matrix"), "by='matrix' is for linear layouts; convert with f2.from_layout"),
        (lambda: show(Row(4, 4), access="lane, 0"), "index 0 goes from 0 to 31"),
        (lambda: show(f2.LinearLayout.identity(8, "a", "b"), access="lane"), "convert with f2.to_layout"),
        (lambda: show(Row(4, 4)).save("picture.gif"), "saved as one of .svg, .html, .png, .txt, not .gif"),
        (lambda: show(Row(4, 4)).text(colours="8"), "colours must be '16', '256', 'truecolor' or None, not '8'"),
    ],
)
def test_what_cannot_be_drawn(draw, message):
    with pytest.raises(LegoError, match=message):
        draw()
