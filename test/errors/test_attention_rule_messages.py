"""Messages for masks and scores of attention, and the arrays that they read."""

import re

import numpy as np
import pytest

import lego_mlir
from lego_mlir.errors import SymbolicBranchError, TraceError, UsageError

IDS = np.zeros((1, 8), np.int32)
OF_MASK = "mask is a function of batch, head, i, j, and of arrays by the names that they have in reads"
Q = np.zeros((1, 8, 64), np.float16)


def causal(batch, head, i, j):
    return j <= i


MESSAGES = {
    f"{OF_MASK}, got <function": {"mask": lambda i, j: j <= i},
    f"{OF_MASK}, got 3": {"mask": 3},
    f"{OF_MASK} (which is empty), got ids": {"mask": lambda batch, head, i, j, ids: ids[batch, i] == 0},
    "score is a function of s, batch, head, i, j, and of arrays by the names that they have in reads (ids), got slopes":
        {"score": lambda s, batch, head, i, j, slopes: s + slopes[head], "reads": {"ids": IDS}},
    "reads has ids for a mask or a score, and there is none": {"reads": {"ids": IDS}},
    "reads has ids, which neither mask nor score has as a parameter": {"mask": causal, "reads": {"ids": IDS}},
    "reads['ids'] is an array with an axis and an element at least, got list; close over a number instead":
        {"mask": lambda batch, head, i, j, ids: ids[i] == 0, "reads": {"ids": [1, 2]}},
    "reads['n'] is an array with an axis and an element at least, got (); close over a number instead":
        {"mask": lambda batch, head, i, j, n: j < n, "reads": {"n": np.array(3)}},
    "reads['ids'] has elements of complex64, which no kernel reads; convert it":
        {"mask": lambda batch, head, i, j, ids: ids[i] == 0, "reads": {"ids": IDS[0].astype(np.complex64)}},
    "reads has an array 'sums_of_x', as a parameter of the kernel is called; rename it":
        {"mask": lambda batch, head, i, j, sums_of_x: sums_of_x[batch, i] == 0, "reads": {"sums_of_x": IDS}},
    "reads has an array 'lse', as a parameter of the kernel is called; rename it":
        {"mask": lambda batch, head, i, j, lse: lse[batch, i] == 0, "reads": {"lse": IDS}},
    "mask reads the array 'IDS' of its surroundings; give it a parameter IDS, and pass reads={'IDS': IDS}":
        {"mask": lambda batch, head, i, j: IDS[batch, i] == IDS[batch, j]},
    "score gives f32, the score of each pair, got <64 x 64 f16 spread over threads, 32 each>; convert it":
        {"score": lambda s, batch, head, i, j: s.to(lego_mlir.f16)},
    "mask gives a condition, whether a query attends to a key, got":
        {"mask": lambda batch, head, i, j: i - j},
}  # fmt: skip


@pytest.mark.parametrize("message", MESSAGES)
def test_what_is_refused(message):
    with pytest.raises((UsageError, TraceError), match=re.escape(message)):
        lego_mlir.attention(Q, Q, Q, **MESSAGES[message], check=True)


def test_a_branch_of_a_mask_is_told_with_its_line():
    with pytest.raises(SymbolicBranchError, match=rf"(?s){re.escape(__file__)}.*the truth of .* depends on symbols"):
        lego_mlir.attention(Q, Q, Q, mask=lambda batch, head, i, j: True if j < 3 else j <= i, check=True)


@pytest.mark.filterwarnings("ignore::lego_mlir.errors.ReferenceWarning")
def test_gradients_of_a_score_that_are_refused():
    torch = pytest.importorskip("torch")
    q = torch.zeros(1, 8, 64, dtype=torch.float16, requires_grad=True)
    with pytest.raises(UsageError, match="NumPy computes the score, and no gradients; move them to a GPU"):
        lego_mlir.attention(q, q, q, score=lambda s, batch, head, i, j: s * 2.0)
    reads = {"slopes": torch.zeros(1, requires_grad=True)}

    def biased(s, batch, head, i, j, slopes):
        return s + slopes[head]

    with pytest.raises(UsageError, match=r"gradients of slopes, .* are added in any order; pass deterministic=False"):
        lego_mlir.attention(q, q, q, score=biased, reads=reads, deterministic=True, check=True)
    places = {"places": torch.zeros(8, requires_grad=True)}

    def permuted(s, batch, head, i, j, places):
        return s + places[places[j].to(lego_mlir.i32)]

    o = lego_mlir.attention(q, q, q, score=permuted, reads=places, check=True)
    message = rf"(?s){re.escape(__file__)}.*depends on the array places by convert, which has no derivative here"
    with pytest.raises(TraceError, match=message):
        o.sum().backward()
