"""Ranges of sizes: a claim about a size holds for the values that both its facts and its range allow."""

import itertools

import pytest
import sympy

from lego_mlir.expr.evaluate import evaluate
from lego_mlir.expr.intervals import bounds
from lego_mlir.expr.nodes import Eq, FloorDiv, FloorMod, Le, Lt, Ne, Size
from lego_mlir.expr.prove import prove
from lego_mlir.expr.ranges import Range
from lego_mlir.expr.verdict import Proved, Refuted

N = Size("N")
M = Size("M", min=10, max=400, multiple_of=16)
i = sympy.Symbol("i", integer=True)


@pytest.mark.parametrize(
    ("claim", "ranges"),
    [
        (Le(32, N), {N: Range(32, 1000)}),
        (Lt(N, 1000), {N: Range(32, 1000)}),
        (Eq(FloorDiv(31, N), 0), {N: Range(32, 2**40)}),
        (Lt(i, 1000), {N: Range(32, 1000), i: Range(0, N)}),
        (Le(1024, N * N), {N: Range(32, 10**9)}),
        (Ne(N * N, 2), {N: Range(2, 10**9)}),
        (Eq(FloorMod(M, 16), 0), {M: Range(0, 100)}),
        (Le(16, M), {M: Range(0, 100)}),
        (Lt(M, 97), {M: Range(0, 100)}),
        (Eq(FloorMod(M, 48), 0), {M: Range(0, 500, 3)}),
    ],
)
def test_what_holds_in_the_range_is_proved(claim, ranges):
    assert isinstance(prove(claim, ranges), Proved)


SIZES = [Size("N"), M, Size("K", min=0), Size("L", min=5, multiple_of=4), Size("J", max=20)]
RANGES = [Range(0, 40), Range(7, 33), Range(16, 17), Range(3, 90, 5)]
CLAIMS = [
    lambda n: Lt(n, 20),
    lambda n: Le(8, n),
    lambda n: Eq(FloorMod(n, 4), 0),
    lambda n: Ne(n, 16),
    lambda n: Le(n * n, 32 * n),
    lambda n: Lt(FloorDiv(65 - n, 3), 9),
]


@pytest.mark.parametrize("size", SIZES, ids=lambda s: s.facts if hasattr(s, "facts") else str(s))
def test_verdicts_are_those_of_every_value(size):
    for known, make in itertools.product(RANGES, CLAIMS):
        values = [v for v in range(known.lo, known.hi) if v in known and size.takes(v)]
        claim = make(size)
        truths = [bool(evaluate(claim, {size: v})) for v in values]
        verdict = prove(claim, {size: known})
        if all(truths):
            assert not isinstance(verdict, Refuted), (claim, known, verdict)
        else:
            assert isinstance(verdict, Refuted), (claim, known, verdict)
            assert verdict.counter_example[str(size)] in [v for v, t in zip(values, truths, strict=True) if not t]
        if values:
            found = bounds(size, {size: known})
            assert found.lo <= values[0]
            assert found.hi >= values[-1]


def test_a_range_that_ends_at_another_size():
    assert isinstance(prove(Le(M, 400), {M: Range(0, N)}), Proved)
    assert isinstance(prove(Lt(M, N), {M: Range(0, N)}), Proved)
    refuted = prove(Lt(M, 100), {M: Range(0, N)})
    assert isinstance(refuted, Refuted)
    assert M.takes(refuted.counter_example["M"])
    assert refuted.counter_example["M"] < refuted.counter_example["N"]
