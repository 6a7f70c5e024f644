"""`holds` answers as `prove` does, and leaves Z3 out where one of more points refutes a claim."""

import pytest
import sympy

from lego_mlir.expr import solver
from lego_mlir.expr.nodes import Eq, FloorDiv, FloorMod, Le, Lt, Size
from lego_mlir.expr.prove import holds, prove
from lego_mlir.expr.ranges import Range
from lego_mlir.expr.simplify import forget
from lego_mlir.expr.verdict import Proved, Refuted, Unknown

M, N = Size("M"), Size("N", min=32)
i, t, x = sympy.symbols("i t x", integer=True)
STEPS = {i: Range(0, FloorDiv(N + 63, 64)), t: Range(0, 64)}
ODD = Lt(64 * i + t, N + 32)
"""False at the last step of sizes such as 95, which are not among the first points."""


@pytest.mark.parametrize(
    ("claim", "ranges", "verdict"),
    [
        (ODD, STEPS, Refuted),
        (Lt(64 * i, N), STEPS, Proved),
        (Lt(i, M), {i: Range(0, M)}, Proved),
        (Eq(FloorMod(i, 2), 0), {i: Range(0, 2 * M)}, Refuted),
        (sympy.Or(Lt(i, 4), Le(4, i)), {i: Range(0, M)}, Proved),
        (Le(x * x, x * x * x), {x: Range(0, M)}, (Proved, Unknown)),
    ],
)
def test_the_same_as_prove(claim, ranges, verdict):
    answer = holds(claim, ranges)
    assert answer == isinstance(prove(claim, ranges), Proved)
    assert isinstance(prove(claim, ranges), verdict)
    assert holds(claim, ranges) == answer  # after a verdict is known


def test_a_point_refutes_without_z3(monkeypatch):
    def unwanted(*given, **named):
        raise AssertionError("Z3")

    monkeypatch.setattr(solver, "solve", unwanted)
    forget()
    assert not holds(ODD, STEPS)
    with pytest.raises(AssertionError, match="Z3"):
        prove(ODD, STEPS)
