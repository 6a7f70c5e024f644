"""A choice between data, `where(flags[t] != 0, a, b)`, in an index and in a condition: claims are judged."""

import lego_mlir as lego
from lego_mlir import Row, i32
from lego_mlir.expr.verdict import Proved, Refuted
from lego_mlir.proofs.claims import kernel_claims


def test_an_index():
    @lego.kernel(grid=1, block=32)
    def k(flags: lego.Tensor(i32, Row(32)), x: lego.Tensor(i32, Row(32)), out: lego.Tensor(i32, Row(16))):
        t = lego.thread_id.x
        a = x[t] & 7
        out[lego.where(flags[t] != 0, a, a + 4)] = 1

    (found,) = (verdict for claim, verdict in kernel_claims(k) if "race for out between two threads" in claim)
    assert not isinstance(found, Proved)  # two flags may be alike


def test_a_condition():
    @lego.kernel(grid=2, block=32)
    def k(x: lego.Tensor(i32, Row(32)), out: lego.Tensor(i32, Row(32))):
        t = lego.thread_id.x
        with lego.when(lego.where(x[t] > 3, x[t], i32(3)) < 12):
            out[t] = 1

    assert any(isinstance(verdict, Refuted) for _, verdict in kernel_claims(k))  # both blocks write
