"""The end of a language model's training step: softmax, cross entropy and its gradient in one kernel, in place.

A row of logits is read twice: for its maximum and sum, and to be overwritten by (softmax - one at the label) times the
gradient of the loss (llm.c, `fused_classifier`). Columns from V on are padding: their gradient is 0.

lego-mlir run examples/second_week/fused_classifier.py --size M=3 --size V=1001 --size P=1024
"""

import numpy as np

import lego_mlir as lego
from lego_mlir import Row, bf16, f32, i32

T, WIDTH = 256, 8
M = lego.size("M")
P = lego.size("P", min=1, max=1 << 20, multiple_of=WIDTH)  # columns with padding
V = lego.size("V", min=1, max=P)


@lego.kernel(grid=M, block=T)
def fused_classifier(
    logits: lego.Tensor(bf16, Row(M, P)),
    losses: lego.Tensor(f32, Row(M)),
    labels: lego.Tensor(i32, Row(M), range=(0, V)),
    scale: f32,
):
    row, t = lego.block_id[0], lego.thread_id[0]
    label = labels[row]
    largest, total = lego.register(f32, float("-inf")), lego.register(f32, 0.0)
    for j in lego.range(WIDTH * t, P, WIDTH * T):
        numbers = known(logits.load(row, j, width=WIDTH).to(f32), j)
        most = largest.get()
        for k in range(WIDTH):
            most = lego.maximum(most, numbers[k])
        rest = lego.where(most > float("-inf"), most, 0.0)
        total.set(total * lego.exp(largest - rest) + sum(lego.exp(number - rest) for number in numbers))
        largest.set(most)
    most = lego.block_reduce(largest, "max")
    sums = lego.block_reduce(total * lego.exp(largest - most), "add")
    with lego.when(t < 1):
        losses[row] = lego.log(sums) + most - logits[row, label].to(f32)
    lego.barrier()
    factor = scale / sums
    for j in lego.range(WIDTH * t, P, WIDTH * T):
        numbers = known(logits.load(row, j, width=WIDTH).to(f32), j)
        found = [lego.exp(number - most) * factor for number in numbers]
        for k in range(WIDTH):
            found[k] = lego.where(lego.index(label) == j + k, found[k] - scale, found[k])
        logits.store(lego.vector(*found).to(bf16), row, j)


def known(numbers, j):
    """The numbers of a vector, -inf in the padding."""
    return [lego.where(j + k < V, numbers[k], float("-inf")) for k in range(WIDTH)]


@fused_classifier.reference(rtol=2e-2, atol=1e-4)
def expected(logits, labels, scale, V):
    x = logits[:, :V].astype(np.float64)
    powers = np.exp(x - x.max(1, keepdims=True))
    share = powers / powers.sum(1, keepdims=True)
    rows = np.arange(len(x))
    losses = -np.log(share[rows, labels])
    share[rows, labels] -= 1
    return np.pad(share * scale, ((0, 0), (0, logits.shape[1] - V))), losses


@fused_classifier.inputs
def inputs(rng, M, V, P):
    return {"logits": rng.standard_normal((M, P)) * 2, "labels": rng.integers(0, V, M), "scale": 0.125}
