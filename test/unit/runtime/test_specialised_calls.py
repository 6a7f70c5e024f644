"""Calls with sizes of 1, or divisible by 16, run kernels of their own: wider, bounded in number, right at all sizes."""

import numpy as np
import pytest

import lego_mlir as lego
from lego_mlir import Row, Strided, f2, f32
from lego_mlir.errors import TraceError, UsageError
from lego_mlir.runtime import calls
from lego_mlir.tracing.definition.specialised import SizeFacts, specialised
from lego_mlir.tracing.trace.trace import Load, Store

LAYOUT = f2.Blocked((1, 4), (1, 32), (4, 1), order=(1, 0)).layout((4, 128))


def doubled(specialise=True):
    M, N = lego.size("M"), lego.size("N")
    sm, sn = lego.size("sm"), lego.size("sn")

    @lego.kernel(grid=(lego.cdiv(N, 128), lego.cdiv(M, 4)), block=128, specialise=specialise)
    def double(x: lego.Tensor(f32, Strided([M, N], [sm, sn], claim=True)), y: lego.Tensor(f32, Row(M, N))):
        at = (lego.block_id[1] * 4, lego.block_id[0] * 128)
        (lego.load(x, LAYOUT, at=at) * 2.0).store(y, at=at)

    return double


def widths(kernel):
    return {(type(s).__name__, s.access.width) for s in kernel.trace().statements() if isinstance(s, Load | Store)}


@pytest.mark.parametrize("shape", [(3, 5), (16, 32), (5, 48), (1, 1), (1, 16), (16, 1), (33, 129)])
def test_results_are_those_of_the_kernel_for_all_sizes(shape):
    kernel, plain = doubled(), doubled(False)
    wide = np.arange(shape[0] * shape[1] * 6, dtype=np.float32).reshape(2 * shape[0], 3 * shape[1])
    for x in (wide[: shape[0], : shape[1]], wide[::2, ::3], np.ascontiguousarray(wide[::2, ::3])):
        np.testing.assert_array_equal(kernel(x), 2 * x)
        np.testing.assert_array_equal(plain(x), 2 * x)
    assert not plain.calls.special


def test_a_stride_of_one_and_divisible_sizes_widen_accesses():
    kernel = doubled()
    kernel(np.ones((16, 32), np.float32))
    ((facts, special),) = kernel.calls.special.items()
    assert facts == SizeFacts(frozenset({("sn", 1)}), frozenset({"M", "N", "sm"}))
    assert widths(special.kernel) == {("Load", 4), ("Store", 4)}
    assert widths(kernel) == {("Load", 1), ("Store", 1)}
    assert "sn" not in str(special.kernel.signature["x"].layout)
    kernel(np.ones((160, 320), np.float32))
    assert len(kernel.calls.special) == 1, "the same facts have one kernel"
    assert kernel.calls.special[facts] is special


def test_what_was_assumed_is_checked():
    special = specialised(doubled(), SizeFacts(frozenset(), frozenset({"N"})))
    with pytest.raises(UsageError, match="N % 16 == 0"):
        special(np.ones((3, 5), np.float32))


def test_their_number_is_bounded(monkeypatch):
    monkeypatch.setattr(calls, "SPECIAL", 1)
    kernel = doubled()
    for shape in ((3, 16), (16, 5), (2, 32)):
        x = np.ones(shape, np.float32)
        np.testing.assert_array_equal(kernel(x), 2 * x)
    assert len(kernel.calls.special) == 1


def test_declared_and_related_sizes_have_no_facts():
    n = lego.size("n", multiple_of=32).expr
    p = lego.size("p").expr
    v = lego.size("v", max=lego.size("p")).expr
    assert SizeFacts.of((n, p, v), {"n": 64, "p": 1, "v": 1}) == SizeFacts()
    assert not SizeFacts.of((p,), {"p": 7})


def test_the_option_is_a_truth_value():
    with pytest.raises(
        TraceError, match=r"specialise=1 is True or False: .* or names, of M, N, s[mn], s[mn], whose values do too"
    ):
        doubled(1)
