"""Plans between random divisions of arrays, carried out on a simulated mesh: each element of each rank, by `apply`."""

from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mesh_divisions import held, moves, splits

import lego_mlir as lego
from lego_mlir.distributions import Chunks, Cyclic, Sharded
from lego_mlir.mesh.axis_moves import SplitChain, axis_moves


@given(moves())
def test_every_element_arrives(move):
    require_moved(*move)


@pytest.mark.long
@settings(max_examples=10_000)
@given(moves())
def test_every_element_of_many_pairs_arrives(move):
    require_moved(*move)


def require_moved(source, target):
    """The plan is proved, gives every rank what it holds, and counts what it moves."""
    plan = lego.redistribute(source, target)
    assert plan.check()
    array = np.arange(prod(source.shape)).reshape(source.shape) * 3 - 5
    for found, wanted in zip(plan.move(held(source, array)), held(target, array), strict=True):
        np.testing.assert_array_equal(found, wanted)
    elements = plan.elements
    square = min(elements.shape)
    own = np.diagonal(elements)[:square].sum()
    assert (plan.summary.stays, plan.summary.moved) == (own, elements.sum() - own)
    others = elements.copy()
    others[np.arange(square), np.arange(square)] = 0
    assert plan.summary.messages == (others > 0).sum()
    for sender, row in enumerate(elements.tolist()):
        sent = {message.receiver: message.elements for message in plan.messages_from(sender)}
        assert sent == {receiver: n for receiver, n in enumerate(row) if n}


@st.composite
def chains(draw):
    return [draw(splits(draw(st.integers(1, 4)))) for _ in range(draw(st.integers(0, 2)))]


@given(st.integers(0, 100), chains(), chains())
def test_runs_are_where_the_splits_say(n, source, target):
    found, i, times = axis_moves(n, source, target), np.arange(n), np.zeros(n, int)
    sides = [SplitChain(tuple(chain), n).place(i) for chain in (source, target)]
    for ranks, runs in found.runs.items():
        for run in runs:
            at = run.indices()
            times[at] += 1
            for (rank, local), wanted, side in zip(sides, ranks, (run.source, run.target), strict=True):
                assert (rank[at] == wanted).all()
                expected = side.first + side.step * np.arange(run.repeats)[:, None] + np.arange(run.length)
                np.testing.assert_array_equal(local[at], expected.reshape(-1))
    assert (times == 1).all()


def test_a_plan_is_as_small_as_its_runs():
    """2^30 elements in 2^24 blocks, and 1024 ranks."""
    blocks = lego.redistribute(
        Sharded([1 << 30], {"rank": 8}, [[("rank", Cyclic(8, 64))]]),
        Sharded([1 << 30], {"rank": 8}, [[("rank", Chunks(8))]]),
    )
    assert blocks.summary.moved == 7 << 27 and blocks.summary.messages == 56
    assert all(len(message.source) == 1 for message in blocks.messages_from(3))
    rows = Sharded([1 << 16, 1 << 16], {"rank": 1024}, [[("rank", Chunks(1024))], []])
    grid = Sharded([1 << 16, 1 << 16], {"p": 32, "q": 32}, [[("p", Cyclic(32, 64))], [("q", Cyclic(32, 64))]])
    assert lego.redistribute(rows, grid).summary.messages == 1024 * 32 - 32  # of which a rank in each column keeps one
    assert lego.redistribute(rows, grid).check()


def test_a_gap_or_an_overlap_is_refuted():
    plan = lego.redistribute(*(Sharded([64], {"rank": 4}, [[("rank", s)]]) for s in (Cyclic(4, 2), Chunks(4))))
    runs = plan.axes[0].runs
    assert plan.check()
    removed = runs[1, 0].pop()
    assert removed.first == int(plan.check().explanation.split()[1])
    runs[1, 0].append(removed)
    runs[2, 0].append(removed)
    assert "does not move exactly once" in plan.check().explanation


@pytest.mark.parametrize(("source", "target", "message"), [
    (Sharded([8], {"r": 2}, [[]]), Sharded([9], {"r": 2}, [[]]), r"is \(8,\) and the target \(9,\); they must"),
    (Sharded([8], {"r": 2}, [[]], {"r": "max"}), Sharded([8], {"r": 2}, [[]]), "a source of parts by 'max'"),
    (Sharded([8], {"r": 2}, [[]]), Sharded([8], {"r": 2}, [[]], {"r": "sum"}), "a target of parts"),
    (Sharded([lego.size("M")], {"r": 2}, [[]]), Sharded([8], {"r": 2}, [[]]), "has symbolic sizes"),
    (lego.Row(8), Sharded([8], {"r": 2}, [[]]), "state it as Sharded, or by from_torch"),
])  # fmt: skip
def test_what_cannot_be_planned(source, target, message):
    with pytest.raises(lego.LayoutError, match=message):
        lego.redistribute(source, target)
