"""bar.red: the count, conjunction and disjunction of a predicate over a block, however its warps run."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ptx_kernels import THREAD, entry

from lego_mlir.interp.ptx import emulate

BODY = f"""{THREAD} add.s64 %rd4, %rd1, %rd50; add.s64 %rd5, %rd2, %rd50; ld.global.b32 %r1, [%rd4]; mov.u32 %r9, 0;
mov.u32 %r8, 0;
LOOP: and.b32 %r2, %r1, 1; setp.ne.u32 %p1, %r2, 0; shr.u32 %r1, %r1, 1;
bar.red.popc.u32 %r3, 0, %p1; barrier.cta.red.and.pred %p2, 0, %r50_COUNT %p1; bar.red.or.pred %p3, 0, !%p1;
selp.u32 %r4, 1000, 0, %p2; selp.u32 %r5, 5000, 0, %p3; add.u32 %r9, %r9, %r3; add.u32 %r9, %r9, %r4;
add.u32 %r9, %r9, %r5; add.u32 %r8, %r8, 1; setp.lt.u32 %p4, %r8, 3; @%p4 bra LOOP;
st.global.b32 [%rd5], %r9; ret;""".replace("%r50_COUNT ", "")


@settings(max_examples=10)
@given(st.lists(st.integers(0, 7), min_size=64, max_size=64), st.integers(0, 5))
@pytest.mark.parametrize("ones", [False, True])
def test_phases_are_counted_one_by_one(ones, bits, seed):
    x = np.array([7] * 64 if ones else bits, np.int32)
    y = np.zeros(64, np.int32)
    assert emulate(entry(BODY), args=[x, y], grid=1, block=64, seed=seed).clean
    votes = [(x >> phase) & 1 for phase in range(3)]
    wanted = sum(int(v.sum()) + 1000 * int(v.all()) + 5000 * int((v == 0).any()) for v in votes)
    assert (y == wanted).all()
