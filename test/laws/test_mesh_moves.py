"""Plans between random divisions of arrays, carried out on a simulated mesh: each element of each rank, by `apply`."""

from math import prod
from time import process_time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mesh_divisions import held, moves, splits

import lego_mlir as lego
from lego_mlir.distributions import Chunks, Cyclic, Sharded
from lego_mlir.errors import LayoutError
from lego_mlir.expr.verdict import Proved
from lego_mlir.mesh.axis_moves import SplitChain, axis_moves
from lego_mlir.mesh.products import grids
from lego_mlir.mesh.strips import SumRing, ring_of, strips_of


@settings(max_examples=10_000)
@given(moves())
def test_every_element_arrives(move):
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
    """2^30 elements in 2^24 blocks within 0.2 s, and 1024 ranks within 5 s, of one processor."""
    began = process_time()
    blocks = lego.redistribute(
        Sharded([1 << 30], {"rank": 8}, [[("rank", Cyclic(8, 64))]]),
        Sharded([1 << 30], {"rank": 8}, [[("rank", Chunks(8))]]),
    )
    assert blocks.summary.moved == 7 << 27 and blocks.summary.messages == 56
    assert process_time() - began < 0.2
    assert all(len(message.source) == 1 for message in blocks.messages_from(3))
    began = process_time()
    rows = Sharded([1 << 16, 1 << 16], {"rank": 1024}, [[("rank", Chunks(1024))], []])
    grid = Sharded([1 << 16, 1 << 16], {"p": 32, "q": 32}, [[("p", Cyclic(32, 64))], [("q", Cyclic(32, 64))]])
    plan = lego.redistribute(rows, grid)
    assert plan.summary.messages == 1024 * 32 - 32  # of which a rank in each column keeps one
    assert plan.check() and process_time() - began < 5


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


@st.composite
def products(draw):
    """Distributions of A, B and C over equally many ranks, and the matrices."""
    m, n, k = (draw(st.integers(1, 9)) for _ in range(3))
    ranks = draw(st.integers(1, 8))
    return [draw(matrices(shape, ranks)) for shape in ((m, k), (k, n), (m, n))]


@st.composite
def matrices(draw, shape, ranks):
    """A division over so many ranks, some of which may hold copies."""
    p = draw(st.sampled_from([n for n in range(1, ranks + 1) if ranks % n == 0]))
    axes = [[], []]
    for name, n in (("p", p), ("q", ranks // p)):
        if draw(st.integers(0, 3)):
            axes[draw(st.integers(0, 1))].append((name, draw(splits(n))))
    return Sharded(shape, {"p": p, "q": ranks // p}, axes, {}, draw(st.sampled_from("CF")))


@pytest.mark.examples(20)
@settings(max_examples=300)
@given(products())
def test_products_are_those_of_the_whole_matrices(drawn):
    a, b, c = drawn
    left, right = (np.arange(prod(d.shape)).reshape(d.shape) * step - 5 for d, step in ((a, 3), (b, 2)))
    plan = lego.mesh.plan_product(a, b, c)
    for found, wanted in zip(plan.multiply(held(a, left), held(b, right)), held(c, left @ right), strict=True):
        np.testing.assert_array_equal(found, wanted)
    every = [lego.mesh.plan_product(a, b, c, grid) for grid in grids(plan.ranks)]
    assert plan.moved == min(one.moved for one in every)
    for found, wanted in zip(by_strips(plan, held(a, left), held(b, right)), held(c, left @ right), strict=True):
        np.testing.assert_array_equal(found, wanted)


def by_strips(plan, a, b):
    """The parts of C, each rank multiplying a strip when it has what the strip needs; sums go on, or around a ring."""
    parts = [np.zeros(plan.c.target.capacity(rank), int) for rank in range(plan.ranks)]
    sums = {}  # by the step of a ring, the rank that goes on, and rows
    steps = [(strip.hop or 0, rank, strip) for rank in range(plan.ranks) for strip in strips_of(plan, rank)]
    memory, rings = zip(*((sides_of(plan, rank), ring_of(plan, rank)) for rank in range(plan.ranks)), strict=True)
    for hop, rank, strip in sorted(steps, key=lambda step: step[:2]):  # of one rank in its order
        left, right, result = memory[rank]
        for boxes, there, taken in ((strip.a, a, left), (strip.b, b, right)):
            for box in boxes:
                box.here.of(taken)[...] = box.there.of(there[box.other])
        (rows, inner), columns = plan.a.target.local_shape(rank), plan.b.target.local_shape(rank)[1]
        (first, last), (start, end) = strip.rows, strip.inner
        panel = left[rows * start : rows * end].reshape(rows, -1) if end - start < inner else left.reshape(rows, inner)
        found = panel[first:last] @ right.reshape(inner, columns)[start:end]
        found += result.reshape(rows, columns)[first:last] if strip.sums else sums.pop((hop, rank, strip.rows), 0)
        result.reshape(rows, columns)[first:last] = found
        ring = rings[rank]
        if ring is not None and hop < plan.sums - 1:
            sums[hop + 1, ring.after, strip.rows] = found
        elif ring is not None:
            at = (first - ring.steps[hop][0]) * columns
            parts[rank][at : at + found.size] = found.reshape(-1)
        for box in strip.gives:
            box.there.of(parts[box.other])[...] += box.here.of(result)
    assert not sums
    return parts


def sides_of(plan, rank):
    """Memory for a rank's blocks, of numbers that no strip should read."""
    (rows, inner), columns = plan.a.target.local_shape(rank), plan.b.target.local_shape(rank)[1]
    return [np.full(n, -99) for n in (rows * inner, inner * columns, rows * columns)]


def divided(shape, axis):
    """Rows or columns of four ranks."""
    return Sharded(shape, {"r": 4}, [[("r", Chunks(4))] if d == axis else [] for d in (0, 1)])


def blocks(*shape):
    return Sharded(shape, {"p": 2, "q": 2}, [[("p", Chunks(2))], [("q", Chunks(2))]])


WHOLE = (0, 1024)
HALVES = [(at, at + 64) for block in (0, 3, 2, 1) for at in (128 * block, 128 * block + 64)]


@pytest.mark.parametrize(("m", "axes", "algorithm", "strips"), [
    (512, (0, 1, 1), "A gathered", [((at, at + 128), WHOLE, None) for at in (128, 256, 384, 0)]),
    (4096, (0, 0, 0), "B gathered", [((0, 1024), (at, at + 256), None) for at in (256, 512, 768, 0)]),
    (512, (1, 0, 0), "C scattered", [(rows, (0, 256), k // 2) for k, rows in enumerate(HALVES)]),
])  # fmt: skip
def test_fixed_strips(m, axes, algorithm, strips):
    """Rows of senders, panels of senders, and a ring, of rank 1 of 4."""
    plan = lego.mesh.plan_product(*map(divided, ((m, 1024), (1024, 768), (m, 768)), axes))
    assert plan.algorithm == algorithm
    assert [(strip.rows, strip.inner, strip.hop) for strip in strips_of(plan, 1)] == strips


@pytest.mark.parametrize("sizes", [(1, 4, 1), (4, 1, 1), (1, 1, 4), (2, 2, 1), (2, 1, 2), (1, 2, 2)])
def test_every_grid_multiplies_by_strips(sizes):
    """Blocks, on each grid, to rows or to blocks: sums go around a ring where they are rows."""
    a, b = (np.arange(n * m).reshape(n, m) % 13 - 6 for n, m in ((24, 20), (20, 28)))
    ways = set()
    for c in (divided((24, 28), 0), blocks(24, 28)):
        plan = lego.mesh.plan_product(blocks(24, 20), blocks(20, 28), c, lego.mesh.ProductGrid(sizes))
        ways.add((ring_of(plan, 0) is not None, len({strip.inner for strip in strips_of(plan, 0)}) > 1))
        for found, wanted in zip(
            by_strips(plan, *(held(blocks(*one.shape), one) for one in (a, b))), held(c, a @ b), strict=True
        ):
            np.testing.assert_array_equal(found, wanted)
    assert ways & {(True, False), (False, True)}


def test_grids_that_are_known_to_be_best():
    """Megatron's two products move one matrix; square matrices in blocks on four ranks gather a row and a column."""

    up = lego.mesh.plan_product(divided((64, 32), 0), divided((32, 128), 1), divided((64, 128), 1))
    down = lego.mesh.plan_product(divided((64, 512), 1), divided((512, 32), 0), divided((64, 32), 0))
    square = lego.mesh.plan_product(*(blocks(64, 64) for _ in range(3)))
    assert [(plan.grid.sizes, plan.algorithm) for plan in (up, down, square)] == [
        ((1, 4, 1), "A gathered"),
        ((1, 1, 4), "C scattered"),
        ((2, 2, 1), "2-D"),
    ]
    assert (up.moved, down.moved, square.moved) == (3 * 64 * 32, 3 * 64 * 32, 2 * 64 * 64)


def test_copies_of_the_work_along_k_move_less():
    """Cubes on 2 x 2 x 2 ranks: 3/8 of a matrix a rank, where two dimensions take 4/8; sums of rows go around rings."""
    mesh = {"i": 2, "j": 2, "l": 2}
    i, j, k = ((axis, Chunks(2)) for axis in mesh)
    a, b, c = (Sharded((64, 64), mesh, splits) for splits in ([[i], [k, j]], [[k, i], [j]], [[i, k], [j]]))
    plan = lego.mesh.plan_product(a, b, c)
    assert (plan.algorithm, plan.moved) == ("2.5-D", 3 * 64 * 64)
    assert plan.moved < lego.mesh.plan_product(a, b, c, lego.mesh.ProductGrid((2, 4, 1))).moved
    assert ring_of(plan, 0) == SumRing(1, 1, ((16, 32), (0, 16)))


def test_the_bytes_of_each_matrix_count():
    """Results of four bytes are moved less gladly than operands of one."""
    matrices = divided((128, 512), 1), divided((512, 128), 0), divided((128, 128), 0)
    found = [lego.mesh.plan_product(*matrices, item_bytes=widths).algorithm for widths in ((1, 1, 1), (1, 1, 8))]
    assert found[0] == "C scattered" != found[1]


def test_products_that_do_not_fit_are_refused():
    one, two = Sharded([4, 6], {"r": 2}, [[("r", Chunks(2))], []]), Sharded([6, 4], {"r": 3}, [[("r", Chunks(3))], []])
    with pytest.raises(LayoutError, match="a product takes M x K, K x N and M x N, got"):
        lego.mesh.plan_product(one, one, one)
    with pytest.raises(LayoutError, match="over equally many ranks"):
        lego.mesh.plan_product(one, two, Sharded([4, 4], {"r": 2}, [[("r", Chunks(2))], []]))


class Overlapping(Chunks):
    """Chunks whose last ranks claim an element of the rank before."""

    def join(self, rank, local, n):
        return super().join(rank, local, n) - (rank > 0)


def test_moves_are_proved_for_all_sizes():
    n, ranks = lego.size("n"), lego.size("ranks")
    blocks = Sharded([n], {"r": ranks}, [[("r", Chunks(ranks))]])
    dealt = Sharded([n], {"r": 8}, [[("r", Cyclic(8, 64))]])
    assert isinstance(lego.mesh.exactly_once(blocks, dealt), Proved)
    wrong = Sharded([n], {"r": 8}, [[("r", Overlapping(8))]])
    assert not isinstance(lego.mesh.exactly_once(dealt, wrong), Proved)
    with pytest.raises(LayoutError, match="they must agree"):
        lego.mesh.exactly_once(blocks, Sharded([n + 1], {"r": 8}, [[("r", Chunks(8))]]))
