"""Gating of a mixture of experts: the softmax of each token's scores, and its 4 most probable experts.

A warp has a row of 64 experts; `topk` orders it by shuffles. The weights of the chosen experts add up to 1.

lego-mlir run examples/second_week/top_experts.py --size M=100
"""

import numpy as np

import lego_mlir as lego
from lego_mlir import Row, f32, i32

EXPERTS, CHOSEN, ROWS = 64, 4, 4
M = lego.size("M")
CHOICE = lego.Tensor(f32, Row(M, CHOSEN))


@lego.kernel(grid=lego.cdiv(M, ROWS), block=32 * ROWS)
def top_experts(scores: lego.Tensor(f32, Row(M, EXPERTS)), weights: CHOICE, experts: lego.Tensor(i32, Row(M, CHOSEN))):
    at = (lego.block_id[0] * ROWS, 0)
    best, which = lego.load(scores, (ROWS, EXPERTS), at=at).topk(CHOSEN, axis=1)
    powers = lego.exp(best - best.max(axis=1)[:, None])
    (powers / powers.sum(axis=1)[:, None]).store(weights, at=at)
    which.store(experts, at=at)


@top_experts.reference
def expected(scores):
    which = np.argsort(-scores, axis=1, kind="stable")[:, :CHOSEN]
    best = np.take_along_axis(scores, which, 1)
    powers = np.exp(best - best.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True), which.astype(np.int32)
