"""All lanes of a warp execute a shuffle, vote or matrix product together, for all sizes; else a run shows it."""

import pytest

import lego_mlir as lego
from lego_mlir import Row, f32, i32, u32
from lego_mlir.expr.verdict import Proved, Refuted, Unknown
from lego_mlir.proofs.claims import kernel_claims

N = lego.size("N", min=1)


def exchange(guard, threads=64):
    """A shuffle in a branch."""

    @lego.kernel(grid=lego.cdiv(N, threads), block=threads)
    def kernel(x: lego.Tensor(f32, Row(N)), y: lego.Tensor(f32, Row(N))):
        b, t, total = lego.block_id[0], lego.thread_id[0], lego.register(f32, 0.0)
        with lego.when(guard(b, t)):
            total += lego.shuffle_xor(x.halo()[b * threads + t], 1)
        y.halo()[b * threads + t] = total

    (found,) = (verdict for text, verdict in kernel_claims(kernel) if "reaches the shuffle" in text)
    return found


@pytest.mark.parametrize(
    ("guard", "verdict"),
    [
        (lambda b, t: N > 3, Proved),
        (lambda b, t: b * 64 < N - 7, Proved),
        (lambda b, t: t // 32 == 1, Proved),
        (lambda b, t: t < 32, Proved),
        (lambda b, t: t < 33, Refuted),
        (lambda b, t: t % 2 == 0, Refuted),
        (lambda b, t: b * 64 + t < N, Refuted),  # a partial block
    ],
)
def test_all_lanes_reach_a_shuffle_in_a_branch(guard, verdict):
    assert isinstance(exchange(guard), verdict)


def test_a_refuted_shuffle_names_the_lanes_that_reach_it():
    found = exchange(lambda b, t: t < 40)
    assert "8 of the 32 lanes of a warp reach this shuffle xor" in found.explanation


def polling(vote, leader=31):
    """A loop of each warp that ends with the result of a vote, or with what one lane has loaded."""

    @lego.kernel(grid=1, block=64)
    def kernel(x: lego.Tensor(i32, Row(64)), y: lego.Tensor(i32, Row(64))):
        t, total, running = lego.thread_id[0], lego.register(i32, 0), lego.register(lego.i1, True)
        with lego.when(t // 32 == 1), lego.while_(running):
            total += lego.shuffle_xor(x[t], 2) + 1
            if vote == "all":
                running.set(lego.warp_all(total < 5))
            elif vote == "one":
                running.set(lego.shuffle(total, leader) < 5)
            else:
                running.set(total < 5)
        y[t] = total

    return next(verdict for text, verdict in kernel_claims(kernel) if "reaches the shuffle" in text)


def test_a_loop_that_ends_with_a_vote_has_as_many_rounds_for_all_lanes():
    assert isinstance(polling("all"), Proved)
    assert isinstance(polling("one"), Proved)
    assert isinstance(polling("each"), Unknown | Refuted)


def test_a_vote_in_a_branch_of_some_lanes_is_refuted_and_its_result_differs():
    @lego.kernel(grid=1, block=32)
    def kernel(y: lego.Tensor(u32, Row(32))):
        t, bits = lego.thread_id[0], lego.register(u32, 0)
        with lego.when(t < 5):
            bits.set(lego.warp_ballot(t < 3))
        y[t] = bits

    (found,) = (verdict for text, verdict in kernel_claims(kernel) if "reaches the vote" in text)
    assert isinstance(found, Refuted)


@pytest.mark.parametrize(
    ("what", "verdict"),
    [
        (lambda v: lego.shuffle_up(v, 3), Proved),
        (lambda v: lego.shuffle_xor(v, 7), Proved),
        (lambda v: lego.shuffle_xor(v, 8), Refuted),
        (lambda v: lego.shuffle_down(v, 1, 8), Proved),
        (lambda v: lego.shuffle_down(v, 1), Refuted),
        (lambda v: lego.shuffle(v, 7), Proved),
        (lambda v: lego.shuffle(v, 8), Refuted),
    ],
)
def test_a_shuffle_of_a_partial_warp_reads_lanes_of_the_block(what, verdict):
    @lego.kernel(grid=1, block=40)
    def kernel(x: lego.Tensor(f32, Row(40)), y: lego.Tensor(f32, Row(40))):
        t = lego.thread_id[0]
        y[t] = what(x[t])

    (found,) = (v for text, v in kernel_claims(kernel) if "reaches the shuffle" in text)
    assert isinstance(found, verdict)
