"""Instructions, lanes and divided warps by line, against counts by hand."""

import numpy as np
from ptx_kernels import THREAD, entry

from lego_mlir.interp.ptx import emulate
from lego_mlir.interp.ptx.checks import Checks
from lego_mlir.interp.ptx.ptx_launch import EmulatorOptions

BODY = """setp.lt.u32 %p1, %r50, 40; add.s64 %rd4, %rd1, %rd50;
@%p1 bra THEN;
add.f32 %f1, %f1, %f1;
bra END;
THEN: mul.lo.u32 %r9, %r50, 3; mul.lo.u32 %r9, %r9, 3;
st.global.u32 [%rd4], %r9;
END: ret;"""


def mix():
    text = entry(f"{THREAD}\n{BODY}", "x")
    options = EmulatorOptions(checks=Checks(counts=True))
    report = emulate(text, args=[np.zeros(256, np.uint32)], grid=2, block=96, options=options)
    first = text[: text.index("setp")].count("\n") + 1
    return report, {line.place.line - first: line for line in report.mix_by_line()}


def test_counts_of_each_line():
    _, found = mix()
    warps = 2 * 3
    assert found[0].kinds == {"integer": 2 * warps}
    assert found[0].lanes_each == 32
    assert (found[1].kinds, found[1].divided) == ({"control": warps}, 2)  # threads 32 to 63 of each block
    assert (found[2].kinds, found[2].lanes) == ({"float": 2 * 2}, 2 * 56)
    assert (found[4].kinds, found[4].lanes) == ({"integer": 2 * 2 * 2}, 2 * 2 * 40)
    assert (found[5].kinds, found[5].lanes) == ({"memory": 2 * 2}, 2 * 40)


def test_the_report_shows_and_stores_them():
    report, _ = mix()
    assert "6 instructions of warps (6 control); 2 branches divide a warp" in str(report)
    assert any(row["kinds"] == {"float": 4} and row["lanes_each"] == 28 for row in report.to_dict()["mix"])


def test_nothing_is_counted_unless_it_is_asked_for():
    text = entry(f"{THREAD}\n{BODY}", "x")
    assert emulate(text, args=[np.zeros(256, np.uint32)], grid=2, block=96).mix == []
