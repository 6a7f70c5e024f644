"""The best numbering of ranks: against every numbering, and on plans where it is known."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mesh_divisions import divisions

import lego_mlir as lego
from lego_mlir.distributions import Chunks, Cyclic, Sharded
from lego_mlir.mesh.relabelling import best_assignment, best_ranks, held_by


@given(
    st.integers(1, 5).flatmap(
        lambda n: st.lists(st.lists(st.integers(0, 9), min_size=n, max_size=n), min_size=n, max_size=n)
    )
)
def test_no_assignment_is_better(rows):
    kept = np.array(rows)
    found = best_assignment(kept)
    n = len(rows)
    assert sorted(found.tolist()) == list(range(n))
    best = max(sum(kept[i, j] for i, j in enumerate(order)) for order in itertools.permutations(range(n)))
    assert kept[np.arange(n), found].sum() == best


@given(st.data())
def test_what_ranks_hold_is_what_messages_say(data):
    source, target = (data.draw(divisions([4, 6], parts=False)) for _ in range(2))
    plan = lego.redistribute(source, target)
    kept = held_by(plan)
    for s, t in np.ndindex(*kept.shape):
        along = zip(plan.axes, plan.source.along(np.asarray(s)), plan.target.along(np.asarray(t)), strict=True)
        runs = [sum(run.elements for run in axis.runs.get((int(a), int(b)), [])) for axis, a, b in along]
        assert kept[s, t] == np.prod(runs, dtype=np.int64)


def test_a_turned_mesh_moves_nothing_after_numbering_anew():
    """Rows over p and columns over q, or the other way round: the same parts on other ranks."""
    mesh, other = {"p": 2, "q": 3}, {"q": 3, "p": 2}
    splits = [[("p", Chunks(2))], [("q", Cyclic(3, 2))]]
    plan = lego.redistribute(Sharded([8, 12], mesh, splits), Sharded([8, 12], other, splits))
    assert plan.summary.moved == 8 * 12 - 2 * 16
    order = best_ranks(plan)
    assert order == (0, 2, 4, 1, 3, 5)
    assert sum(held_by(plan)[p, t] for p, t in enumerate(order)) == 8 * 12


def test_equally_good_numbers_stay():
    rows, columns = (
        Sharded([8, 8], {"r": 4}, splits) for splits in ([[("r", Chunks(4))], []], [[], [("r", Chunks(4))]])
    )
    assert best_ranks(lego.redistribute(rows, columns)) == (0, 1, 2, 3)


def test_other_numbers_of_ranks_are_refused():
    two, four = (Sharded([8], {"r": n}, [[("r", Chunks(n))]]) for n in (2, 4))
    with pytest.raises(lego.LayoutError, match="among equally many, got 2 and 4"):
        best_ranks(lego.redistribute(two, four))
    many = Sharded([4096], {"r": 4096}, [[("r", Chunks(4096))]])
    with pytest.raises(lego.LayoutError, match="numbering of 4096 ranks is not searched"):
        best_ranks(lego.redistribute(many, many))
