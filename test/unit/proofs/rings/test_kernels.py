"""Rings of barriers of kernels: shipped ones are proved, faults planted in a product are refuted with their round."""

import re
from pathlib import Path

import pytest
from ring_kernels import Drawn, kernel_of, verdict
from ring_mutants import FAULTS, product
from role_kernels import staged

import lego_mlir as lego
from lego_mlir import Row, f32, i32, spec
from lego_mlir.choices.role_tiles import role_tile
from lego_mlir.expr.verdict import Proved, Refuted, Unknown
from lego_mlir.kernels import (
    added_gradients,
    batched_products,
    fused_attention,
    grouped_products,
    packed_attention,
    packed_gradients,
    transpose,
)
from lego_mlir.kernels.added_gradients import GradientGroup, GradientMemory
from lego_mlir.kernels.attention_forms import AttentionForm, AttentionTile
from lego_mlir.kernels.pair_rules import PairRule, PairRules
from lego_mlir.kernels.role_products import RoleForm
from lego_mlir.proofs.barriers import unneeded_barriers
from lego_mlir.proofs.rings import values
from lego_mlir.proofs.rings.claims import ring_claims, ring_proof
from lego_mlir.runtime.pair_rule_calls import with_tables

TOO_LONG = r"the order of its rings is not shown by 0 questions to the prover; .* take fewer"
EXAMPLES = Path(__file__).resolve().parents[4] / "examples"


@pytest.mark.parametrize(
    "kernel",
    [
        staged,
        product,
        lambda: product(stages=4),
        lambda: batched_products.build(tile=role_tile(128, 128, 3)),
        lambda: batched_products.build(RoleForm(layouts="TN"), role_tile(128, 128, 4, 2)),
        grouped_products.build,
    ],
    ids=["staged", "product", "product of four stages", "batched", "batched in clusters", "grouped"],
)
def test_rings_are_proved_for_all_sizes(kernel):
    assert isinstance(verdict(kernel()), Proved)


def example(name):
    return next(iter(spec.load(EXAMPLES / f"{name}.py").kernels.values()))


@pytest.mark.parametrize("name", ["warp_roles", "cluster_product"])
def test_the_examples_with_roles_are_proved_and_their_stages_filled(name):
    proof = ring_proof(example(name).trace())
    assert proof.reasons == ()
    assert proof.guarded == {"left", "right"}
    assert proof.unfilled == {}


def with_mask(mask):
    return with_tables(AttentionForm(pairs=PairRules(PairRule.of("mask", mask, ()))))


@pytest.mark.long
@pytest.mark.parametrize(
    "kernel",
    [
        lambda: fused_attention.build(AttentionForm()),
        lambda: fused_attention.build(AttentionForm(causal=True)),
        lambda: fused_attention.build(AttentionForm(causal=True, window=128)),
        lambda: packed_attention.build(AttentionForm(causal=True, group=2)),
        lambda: fused_attention.build(AttentionForm(features=128)),
        lambda: fused_attention.build(AttentionForm(causal=True), AttentionTile(2, 128, 4, turns=True)),
        lambda: fused_attention.build(with_mask(lambda batch, head, i, j: (j <= i) & (i - j < 200))),
        lambda: fused_attention.build(with_mask(lambda batch, head, i, j: (j <= i) | (j < 99)), blocks=132),
        lambda: fused_attention.build(with_mask(lambda batch, head, i, j: (i - j) % 3 == head)),
        lambda: batched_products.build(RoleForm(layouts="TT")),
        lambda: batched_products.build(RoleForm(layouts="NT"), role_tile(256, 128, 3, 2)),
    ],
    ids=[
        "attention",
        "causal",
        "window",
        "packed",
        "128 features",
        "in turns",
        "mask by proof",
        "mask by proof in parts",
        "mask by table",
        "TT",
        "NT in clusters",
    ],
)
def test_rings_of_attention_and_of_all_layouts_are_proved(kernel):
    proof = ring_proof(kernel().trace())
    assert proof.reasons == ()
    assert proof.unfilled == {}


@pytest.mark.long
@pytest.mark.parametrize("build", [added_gradients.build, packed_gradients.build], ids=["added", "packed"])
@pytest.mark.parametrize("form", [{}, {"causal": True}, {"group": 2}], ids=["plain", "causal", "grouped"])
def test_rings_of_gradients_in_one_pass_are_proved(build, form):
    assert ring_proof(build(AttentionForm(**form)).main.trace()).reasons == ()


def closed_without(word):
    def close(memory, q, t, head, end):
        if word != "wait":
            memory.empty[t - (0 if word == "parity" else memory.tile.stages)].wait()
        tile = memory.visited(memory.q, t, 0, memory.tile.queries)
        lego.copy_async(q, tile, at=(*head, end, 0), barrier=memory.full[t])
        if word != "arrival":
            memory.full[t].arrive()

    return close


def scored_ahead(group, t, start=0):
    ahead = group.memory.visited(group.memory.q, t + 1, start)
    return lego.mma(group.keys, ahead.T, group.zeros)


@pytest.mark.long
@pytest.mark.parametrize(
    ("where", "name", "fault"),
    [
        *((GradientMemory, "close", closed_without(word)) for word in ("wait", "arrival", "parity")),
        (GradientGroup, "scored", scored_ahead),
    ],
    ids=["slot reused before its wait", "no arrival", "wrong parity", "read before its wait"],
)
def test_faults_planted_in_added_gradients_are_not_proved(monkeypatch, where, name, fault):
    monkeypatch.setattr(where, name, fault)
    assert ring_proof(added_gradients.build().main.trace()).reasons


def test_roles_that_read_other_trip_counts_stay_unknown():
    words = [[("wait", "empty", -2), ("copy", "full", 0), ("arrive", "full", 0)],
             [("wait", "full", 0), ("read", None, 0), ("arrive", "empty", 0)]]  # fmt: skip
    made = Drawn(2, words, [1, 1], "memory", False, False, False, [0, 0], {"full": 1, "empty": 1}, 1)
    proof = ring_proof(kernel_of(made).trace())
    assert re.fullmatch(
        r"warps 0 to 0 waits maximum\(steps\(2\), 0\) times and warps 1 to 1 arrives maximum\(steps\(1\), 0\) times",
        proof.reasons[0],
    )


def counted_by(trips, roles=True, warps=1):
    """A role copies and another reads, as often as `trips` of its number says; without roles, one block does both."""

    @lego.kernel(grid=1, block=64)
    def kernel(
        a: lego.Tensor(f32, Row(256, 32)),
        steps: lego.Tensor(i32, Row(4), range=(0, 6)),
        y: lego.Tensor(f32, Row(8, 64)),
    ):
        tile = lego.shared(f32, Row(64, 32), "tile")
        full, empty = (lego.barriers(2, arrivals=warps) for _ in range(2))

        def copied(k):
            empty[k - 2].wait()
            lego.copy_async(a, tile.part((k % 2 * 32, 0), (32, 32)), at=(0, 0), barrier=full[k])
            full[k].arrive()

        def read(k):
            full[k].wait()
            y[0, lego.thread_id.x] = tile[k % 2 * 32 + lego.lane_id, 0]
            empty[k].arrive()

        if not roles:
            for k in lego.range(trips(steps, 0)):
                copied(k)
                read(k)
            return
        for number, visit in enumerate((copied, read)):
            with lego.warps(number, number + 1):
                for k in lego.range(trips(steps, number)):
                    visit(k)

    return kernel


def voted(bits_of):
    """A number of rounds that votes of a warp make, in a register."""

    def trips(steps, role):
        found = lego.register(i32, 0)
        for turn in lego.range(2):
            bits = lego.warp_ballot(steps.halo("zero")[turn + lego.lane_id] > bits_of(role))
            found.set(found + lego.popcount(bits).to(i32))
        return lego.index(found.get(), range=(0, 65))

    return trips


def test_a_number_of_rounds_that_warps_vote_is_the_same_in_roles_that_vote_alike():
    assert ring_proof(counted_by(voted(lambda role: 2)).trace()).reasons == ()
    assert "times" in ring_proof(counted_by(voted(lambda role: 2 + role)).trace()).reasons[0]


def test_a_stage_that_is_read_after_the_wait_for_the_next_one_is_filled():
    @lego.kernel(grid=1, block=64)
    def kernel(
        a: lego.Tensor(f32, Row(256, 32)),
        steps: lego.Tensor(i32, Row(4), range=(0, 6)),
        y: lego.Tensor(f32, Row(8, 64)),
    ):
        tile, full, empty = lego.shared(f32, Row(64, 32), "tile"), lego.barriers(2), lego.barriers(2)
        trips = lego.index(steps[0], range=(0, 6))

        def copied(k):
            empty[k - 2].wait()
            lego.copy_async(a, tile.part((k % 2 * 32, 0), (32, 32)), at=(0, 0), barrier=full[k])
            full[k].arrive()

        with lego.warps(0, 1):
            for k in lego.range(trips):
                copied(k)
            copied(trips)
        with lego.warps(1, 2):
            full[0].wait()
            for k in lego.range(trips):
                full[k + 1].wait()
                y[0, lego.lane_id] = tile[k % 2 * 32 + lego.lane_id, 0]
                empty[k].arrive()

    proof = ring_proof(kernel.trace())
    assert proof.reasons == ()
    assert proof.unfilled == {}


def shuffled(steps, role):
    return lego.index(lego.shuffle(steps[role + lego.warp_id % 2], 0), range=(0, 6))


@pytest.mark.parametrize("roles", [True, False])
def test_rounds_that_are_unknown_data_are_not_taken_for_equal(roles):
    reasons = ring_proof(counted_by(shuffled, roles, 1 if roles else 2).trace()).reasons
    assert "the number of rounds may differ between threads" in reasons[0]


def stored_from_a_stage(waits):
    """A role copies tiles in, another copies them out of their stages and releases these."""

    @lego.kernel(grid=1, block=64)
    def kernel(a: lego.Tensor(f32, Row(256, 32)), y: lego.Tensor(f32, Row(256, 32))):
        tile = lego.shared(f32, Row(64, 32), "tile")
        full, empty = lego.barriers(2, arrivals=1), lego.barriers(2, arrivals=1)
        with lego.warps(0, 1):
            for k in lego.range(8):
                empty[k - 2].wait()
                lego.copy_async(a, tile.part((k % 2 * 32, 0), (32, 32)), at=(k * 32, 0), barrier=full[k])
                full[k].arrive()
        with lego.warps(1, 2):
            for k in lego.range(8):
                full[k].wait()
                lego.copy_async(tile.part((k % 2 * 32, 0), (32, 32)), y, at=(k * 32, 0))
                lego.commit_copies()
                if waits:
                    lego.wait_copies()
                empty[k].arrive()
            lego.wait_copies()

    return kernel


def test_an_arrival_does_not_wait_for_copies_out_of_a_stage():
    assert ring_proof(stored_from_a_stage(True).trace()).reasons == ()
    assert "goes on while" in ring_proof(stored_from_a_stage(False).trace()).reasons[0]


def copied_in_halves(columns, second_wait=True):
    """A role copies the halves of each tile on two rings; another reads each half as soon as it is there."""

    def half(number):
        return (0, number * 32) if columns else (number * 8, 0)

    @lego.kernel(grid=1, block=64)
    def kernel(a: lego.Tensor(f32, Row(16, 64)), y: lego.Tensor(f32, Row(2, 32))):
        tile = lego.shared(f32, Row(32, 64), "tile")
        *rings, empty = (lego.barriers(2) for _ in range(3))
        with lego.warps(0, 1):
            for k in lego.range(6):
                empty[k - 2].wait()
                for number, ring in enumerate(rings):
                    row, column = half(number)
                    part = tile.part((k % 2 * 16 + row, column), (16, 32) if columns else (8, 64))
                    lego.copy_async(a, part, at=half(number), barrier=ring[k])
                    ring[k].arrive()
        with lego.warps(1, 2):
            for k in lego.range(6):
                for number, ring in enumerate(rings):
                    if number == 0 or second_wait:
                        ring[k].wait()
                    row, column = half(number)
                    y[number, lego.lane_id] = tile[k % 2 * 16 + row + lego.lane_id % 8, column]
                empty[k].arrive()

    return kernel


def test_halves_of_a_tile_on_two_rings_are_told_apart_by_rows():
    assert isinstance(verdict(copied_in_halves(columns=False)), Proved)


def test_a_read_beside_the_columns_that_a_copy_fills_is_not_refuted():
    assert isinstance(verdict(copied_in_halves(columns=True)), Unknown)


@pytest.mark.parametrize("columns", [False, True])
def test_a_half_that_is_read_before_its_wait_is_refuted_with_its_round(columns):
    found = verdict(copied_in_halves(columns, second_wait=False))
    assert isinstance(found, Refuted)
    assert "(round k" in found.explanation


def read_as_far_as_memory_says(most):
    """A role reads the rows of a tile from a warp's number on, up to a number in memory and at most `most`."""

    @lego.kernel(grid=1, block=96)
    def kernel(
        a: lego.Tensor(f32, Row(16, 32)),
        lengths: lego.Tensor(i32, Row(4), range=(-(2**31), 2**31)),
        y: lego.Tensor(f32, Row(32, 32)),
    ):
        tile, full, empty = lego.shared(f32, Row(32, 32), "tile"), lego.barriers(2), lego.barriers(2, arrivals=2)
        with lego.warps(0, 1):
            for k in lego.range(6):
                empty[k - 2].wait()
                lego.copy_async(a, tile.part((k % 2 * 16, 0), (16, 32)), at=(0, 0), barrier=full[k])
                full[k].arrive()
        with lego.warps(1, 3):
            for k in lego.range(6):
                full[k].wait()
                length = lego.index(lengths[k % 4], range=(-(2**31), 2**31))
                for row in lego.range(lego.warp_id, lego.minimum(most, length), 2):
                    y[row, lego.lane_id] = tile[k % 2 * 16 + row, lego.lane_id]
                empty[k].arrive()

    return kernel


@pytest.mark.parametrize(("most", "found"), [(15, Proved), (16, Proved), (17, Unknown), (2**20, Unknown)])
def test_rows_that_a_loop_over_data_reads_are_in_their_stage_if_it_has_no_more(most, found):
    assert isinstance(verdict(read_as_far_as_memory_says(most)), found)


def test_a_proof_that_takes_too_long_ends_as_unknown_with_its_reason_and_a_remedy(monkeypatch):
    monkeypatch.setattr(values, "MOST_QUESTIONS", 0)
    trace = staged().trace()
    (claim,) = ring_claims(trace, ring_proof(trace))
    assert isinstance(claim.verdict, Unknown)
    assert re.fullmatch(TOO_LONG, claim.verdict.reason)


def test_reads_that_take_too_long_to_follow_are_not_shown_to_come_after_writes(monkeypatch):
    proof = ring_proof(staged().trace())
    monkeypatch.setattr(values, "MOST_QUESTIONS", 0)
    assert set(proof.unfilled) == proof.guarded
    assert all(re.fullmatch(TOO_LONG, reason) for reason in proof.unfilled.values())


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_refuted_with_their_round(fault):
    found = verdict(product(fault))
    assert isinstance(found, Refuted)
    assert "round" in found.explanation


def test_a_kernel_without_rings_has_no_claim_about_them():
    trace = transpose.build("naive", 64, 64, f32).trace()
    assert ring_proof(trace) is None
    assert not list(ring_claims(trace, None))


def test_no_barrier_of_a_kernel_with_rings_is_called_unneeded():
    assert unneeded_barriers(example("warp_roles").trace()) == []


def rows_read_by_a_wide_role(row_of, wide_first):
    """128 threads read rows of a stage of 32; one warp copies."""

    @lego.kernel(grid=1, block=160)
    def kernel(a: lego.Tensor(f32, Row(256, 32)), y: lego.Tensor(f32, Row(8, 128))):
        tile = lego.shared(f32, Row(64, 32), "tile")
        full, empty = lego.barriers(2, arrivals=1), lego.barriers(2, arrivals=4)

        def read():
            with lego.warps(0, 4):
                t = lego.thread_id[0]
                for k in lego.range(8):
                    full[k].wait()
                    y[k, t] = tile[(k % 2 * 32 + row_of(t)) % 64, 0]
                    empty[k].arrive()

        def copy():
            with lego.warps(4, 5):
                for k in lego.range(8):
                    empty[k - 2].wait()
                    lego.copy_async(a, tile.part((k % 2 * 32, 0), (32, 32)), at=(k * 32, 0), barrier=full[k])
                    full[k].arrive()

        for role in (read, copy) if wide_first else (copy, read):
            role()

    return kernel


@pytest.mark.parametrize("wide_first", [True, False])
def test_a_role_is_not_proved_with_the_threads_of_another(wide_first):
    inside = ring_proof(rows_read_by_a_wide_role(lambda t: t // 4, wide_first).trace())
    assert inside.reasons == ()
    outside = ring_proof(rows_read_by_a_wide_role(lambda t: t, wide_first).trace())
    assert "not shown which use's stage this read touches" in outside.reasons[0]


def test_reads_of_stages_that_are_not_shown_in_time_are_unknown(monkeypatch):
    proof = ring_proof(product().trace())
    assert proof.guarded
    monkeypatch.setattr(values, "MOST_QUESTIONS", 0)
    assert {*proof.unfilled} == proof.guarded
    assert all("is not shown by" in reason for reason in proof.unfilled.values())
