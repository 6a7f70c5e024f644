"""A remedy takes fewer wavefronts, moves no two elements to one place, and is counted from the requests themselves."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from ptx_kernels import THREAD, entry

from lego_mlir.interp.ptx import emulate
from lego_mlir.interp.ptx.bank_remedies import ColumnExchange, Padding, SharedRequests, best_placement
from lego_mlir.interp.ptx.checks import Checks
from lego_mlir.interp.ptx.ptx_launch import EmulatorOptions

ALL = np.ones((1, 32), np.bool_)
LANES = np.arange(32)


def busiest_bank(at: np.ndarray) -> int:
    """The most distinct words in a bank, counted one by one."""
    words = {int(a) // 4 for a in at}
    return max(sum(word % 32 == bank for word in words) for bank in range(32))


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(1, 64), st.integers(0, 31)), min_size=1, max_size=4))
def test_a_remedy_has_fewer_wavefronts_and_is_one_to_one(patterns):
    requests = [SharedRequests(4, (4 * (step * LANES + first))[None], ALL) for step, first in patterns]
    now = sum(busiest_bank(r.at[0]) for r in requests)
    best = best_placement(requests)
    if best is None:
        return
    assert sum(busiest_bank(best.moved(r.at)[0]) for r in requests) < now
    every = best.moved(4 * np.arange(4096))
    assert len(np.unique(every)) == 4096
    assert (every % 4 == 0).all()


@given(st.sampled_from([64, 128, 256, 512]))
def test_a_column_of_any_pitch_is_freed(pitch):
    best = best_placement([SharedRequests(4, (pitch * LANES)[None], ALL)])
    assert isinstance(best, Padding)
    assert busiest_bank(best.moved(pitch * LANES)) == 1


def test_an_exchange_keeps_the_size():
    exchange = ColumnExchange(128, 4)
    assert sorted(exchange.moved(4 * np.arange(1024))) == list(4 * np.arange(1024))
    assert busiest_bank(exchange.moved(128 * LANES)) == 1


def test_a_report_names_the_array_and_what_its_remedy_saves():
    body = f"""{THREAD} .shared .align 4 .b8 _ZZ1kE4tile[4096]; mov.u32 %r10, _ZZ1kE4tile; shl.b32 %r11, %r50, 7;
add.u32 %r12, %r10, %r11; st.shared.b32 [%r12], %r50; bar.sync 0; ld.shared.b32 %r13, [%r12];
add.s64 %rd4, %rd1, %rd50; st.global.b32 [%rd4], %r13; ret;"""
    out = np.zeros(64, np.int32)
    options = EmulatorOptions(checks=Checks(counts=True))
    report = emulate(entry(body, "y"), args=[out], names=["y"], grid=2, block=32, options=options)
    assert report.clean
    shared = [site for site in report.sites if site.space == "shared"]
    assert {(s.kind, s.buffer, s.ways, s.wavefronts, s.remedied) for s in shared} == {
        ("write", "tile", 32, 64, 2), ("read", "tile", 32, 64, 2)
    }  # fmt: skip
    assert "remedy: rows of 128 bytes with 4 bytes of padding (32 elements of 4 bytes as 33): 64 -> 2" in str(report)
