"""Kernels of a plan's boxes: what they write, with peers as other buffers, is what the divisions say by `apply`."""

from math import prod

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from mesh_divisions import held, moves
from ptx_runs import ptx_of

import lego_mlir as lego
from lego_mlir import f32, i16, interp
from lego_mlir.distributions import Chunks, Cyclic, Sharded, StridedChunks
from lego_mlir.errors import UsageError
from lego_mlir.expr.verdict import Proved, Refuted
from lego_mlir.interp.ptx import emulate
from lego_mlir.mesh import box_kernels
from lego_mlir.mesh.box_kernels import BoxMove, DealtBlocks, box_kernel, pack_moves, peer_moves, unpack_moves, width_of
from lego_mlir.mesh.redistribution import StridedBox
from lego_mlir.proofs.claims import kernel_claims
from lego_mlir.tracing.checks.claims import access_verdicts

ROWS = Sharded([16, 64], {"r": 4}, [[("r", Chunks(4))], []])
COLUMNS = Sharded([16, 64], {"r": 4}, [[], [("r", Chunks(4))]])
GRID = Sharded([16, 64], {"p": 2, "q": 2}, [[("p", Cyclic(2, 4))], [("q", Cyclic(2, 8))]])
TURNED = Sharded([16, 64], {"r": 4}, [[], [("r", StridedChunks(4, 2))]], {}, "F")
PAIRS = [(ROWS, COLUMNS), (GRID, ROWS), (COLUMNS, GRID), (ROWS, TURNED)]


def interpreted(kernel, arrays):
    assert interp.launch(kernel.mlir(), grid=kernel.grid, block=kernel.block, args=arrays).clean


def emulated(kernel, arrays):
    text, facts = ptx_of(kernel, target="sm_90")
    names = [parameter.name for parameter in kernel.params]
    shared = facts.dynamic_shared
    assert emulate(
        text, kernel.name, args=arrays, grid=kernel.grid, block=kernel.block, names=names, dynamic_shared=shared
    ).clean


def through_peers(plan, parts, run, dtype):
    """The new parts, each rank storing into those of all."""
    capacities = [plan.target.capacity(t) for t in range(plan.target.count)]
    found = [np.zeros(n, dtype.numpy) for n in capacities]
    for sender, part in enumerate(parts):
        boxes = peer_moves(plan.messages_from(sender))
        if boxes:
            kernel = box_kernel("peers", boxes, dtype, len(part), capacities)
            run(kernel, [part, *(found[b] for b in sorted({move.buffer for move in boxes}))])
    return found


def exchanged(plan, parts, run, dtype):
    """The new parts, packed, handed over and unpacked."""
    sent = {}
    for sender, part in enumerate(parts):
        messages = plan.messages_from(sender)
        buffer = np.zeros(sum(m.elements for m in messages), dtype.numpy)
        if messages:
            run(box_kernel("pack", pack_moves(messages), dtype, len(part), [len(buffer)]), [part, buffer])
        ends = np.cumsum([m.elements for m in messages])
        sent |= {(sender, m.receiver): one for m, one in zip(messages, np.split(buffer, ends[:-1]), strict=False)}
    found = []
    for receiver in range(plan.target.count):
        messages, memory = plan.messages_to(receiver), np.zeros(plan.target.capacity(receiver), dtype.numpy)
        if messages:
            buffer = np.concatenate([sent[m.sender, receiver] for m in messages])
            run(box_kernel("unpack", unpack_moves(messages), dtype, len(buffer), [len(memory)]), [buffer, memory])
        found.append(memory)
    return found


def require_moved(source, target, how, run, dtype):
    plan = lego.redistribute(source, target)
    array = np.arange(prod(source.shape)).reshape(source.shape) * 3 - 5
    parts = [part.astype(dtype.numpy) for part in held(source, array)]
    for found, wanted in zip(how(plan, parts, run, dtype), held(target, array), strict=True):
        np.testing.assert_array_equal(found, wanted.astype(dtype.numpy))


@pytest.mark.parametrize("pair", PAIRS, ids=["columns", "from grid", "grid", "turned"])
def test_fixed_pairs(pair):
    require_moved(*pair, through_peers, interpreted, f32)


def turned(rows, columns):
    """Rows, to columns that are column-major on each of two ranks."""
    source = Sharded((rows, columns), {"r": 2}, [[("r", Chunks(2))], []])
    return source, Sharded((rows, columns), {"r": 2}, [[], [("r", Chunks(2))]], {}, "F")


@pytest.mark.parametrize(
    ("pair", "dtype", "run"),
    [(turned(128, 128), f32, interpreted), (turned(64, 80), i16, interpreted), (turned(64, 64), f32, emulated)],
    ids=["tiles", "edges", "compiled"],
)
def test_transposed_boxes_move_in_tiles(pair, dtype, run):
    require_moved(*pair, through_peers, run, dtype)


def test_tiles_are_proved():
    """Through shared memory without a race, by accesses of 16 bytes on both sides."""
    kernel = lego.mesh.PeerExchange(lego.redistribute(*turned(128, 128)), 0).kernel(32)
    assert kernel.mlir().count("vector.load %arg0") == 2 * 4 and "vector<4xi32>" in kernel.mlir()
    claims = [claim for claim in kernel_claims(kernel) if not claim[0].startswith("every element of")]
    assert len(claims) > 6 and all(isinstance(verdict, Proved) for _, verdict in claims)


def test_packed_and_unpacked():
    require_moved(*PAIRS[3], exchanged, interpreted, f32)


def test_compiled_kernels():
    require_moved(*PAIRS[2], through_peers, emulated, i16)


@pytest.mark.examples(100)
@settings(max_examples=400)
@given(moves())
def test_random_pairs(move):
    source, target = move
    assume(not any(copy.combined for copy in source.copies))
    require_moved(source, target, through_peers, interpreted, f32)
    require_moved(source, target, exchanged, interpreted, i16)


def test_each_kernel_is_proved():
    plan = lego.redistribute(ROWS, GRID)
    capacities = [plan.target.capacity(t) for t in range(4)]
    kernel = box_kernel("peers", peer_moves(plan.messages_from(1)), f32, plan.source.capacity(1), capacities)
    claims = [*access_verdicts(kernel.trace(), 1000), *kernel_claims(kernel)]
    others = [claim for claim, verdict in claims if not isinstance(verdict, Proved)]
    assert len(claims) > 6
    assert all(claim.startswith("every element of") for claim in others)  # other ranks write the rest


def test_a_plan_that_writes_twice_is_refuted():
    """A box that reaches into its neighbour's place."""
    boxes = [BoxMove(StridedBox(0, (1, 8), (8, 1)), StridedBox(at, (1, 8), (8, 1))) for at in (0, 4)]
    verdicts = dict(kernel_claims(box_kernel("wrong", boxes, f32, 8, [12])))
    assert isinstance(verdicts["no race for to0 between two blocks"], Refuted)


@pytest.mark.parametrize(
    ("source", "target", "width"),
    [
        (StridedBox(0, (1, 4, 1, 64), (0, 64, 0, 1)), StridedBox(0, (1, 4, 1, 64), (0, 128, 0, 1)), 4),
        (StridedBox(2, (1, 4, 1, 64), (0, 64, 0, 1)), StridedBox(0, (1, 4, 1, 64), (0, 128, 0, 1)), 2),
        (StridedBox(0, (1, 4, 1, 63), (0, 64, 0, 1)), StridedBox(0, (1, 4, 1, 63), (0, 128, 0, 1)), 1),
        (StridedBox(0, (1, 4, 1, 8), (0, 8, 0, 1)), StridedBox(0, (1, 4, 1, 8), (0, 1, 0, 4)), 1),
        (StridedBox(0, (1, 3, 1, 4), (0, 4, 0, 1)), StridedBox(0, (1, 3, 1, 4), (0, 4, 0, 1)), 4),
    ],
)
def test_the_widest_access_that_both_sides_allow(source, target, width):
    assert width_of(BoxMove(source, target), 4) == width


def test_what_is_refused():
    parts = Sharded([8], {"r": 2}, [[]], {"r": "sum"})
    plan = lego.redistribute(parts, Sharded([8], {"r": 2}, [[("r", Chunks(2))]]))
    for moves_of in (lambda: peer_moves(plan.messages_from(0)), lambda: unpack_moves(plan.messages_to(0))):
        with pytest.raises(UsageError, match="parts of a sum are added as they arrive"):
            moves_of()
    box = StridedBox(0, (1, 1), (1, 1))
    for boxes in ([], [BoxMove(box, box)] * (box_kernels.MOST_BOXES + 1)):
        with pytest.raises(UsageError, match="a kernel moves 1 to 256 boxes"):
            box_kernel("wrong", boxes, f32, 1, [1])


@given(st.lists(st.integers(0, 9), min_size=1, max_size=6).filter(any))
def test_blocks_are_dealt_to_boxes_in_turn(counts):
    """Each block of each box once; the k-th blocks of all boxes come before any of the blocks k + 1."""
    counts = [n for n in counts if n]
    dealt = DealtBlocks.of(counts)
    found = [tuple(map(int, dealt.at(block))) for block in range(sum(counts))]
    assert sorted((dealt.order[turn], part) for turn, part in found) == [
        (k, p) for k, n in enumerate(counts) for p in range(n)
    ]
    assert [part for _, part in found] == sorted(part for _, part in found)
