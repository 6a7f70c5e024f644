"""Cross entropy of rows of up to 262,144 logits: log(sum(exp(x))) - x[label], and its gradient.

In one kernel the gradient (softmax(x) - one at the label) * scale overwrites the logits, which are read once; or the
logarithm of each row's sum is kept, and `cross_entropy_gradient` makes the gradient from it, by any of the losses.
Rows whose label is negative are left out: their loss and gradient are 0. With a label beyond the logits, for which
PyTorch stops the program by an assertion on the GPU, a row has NaN as its loss and gradient.

lego-mlir run examples/language_models/cross_entropy.py --size M=3
"""

import math

import numpy as np
from row_parts import WIDTH, parts_of, powers_of

import lego_mlir as lego
from lego_mlir import Row, bf16, f32, i32, i64

M = lego.size("M", max=2**20)
LOSSES, LABELS = lego.Tensor(f32, Row(M)), lego.Tensor(i64, Row(M))
STEP = 128 * WIDTH * 2  # logits of a block of `cross_entropy_gradient`


def losses_of(logits, labels):
    """The losses of rows and the logarithms of their sums, in f64."""
    x = logits.astype(np.float64)
    most = x.max(1)
    whole = np.log(np.exp(x - most[:, None]).sum(1)) + most
    own = x[np.arange(len(x)), np.clip(labels, 0, x.shape[1] - 1)]
    return chosen(labels, x.shape[1], whole - own), whole


def chosen(labels, N, values):
    """The values of rows; 0 where the label is negative, NaN where it is N or more."""
    return np.where(labels < 0, 0, np.where(labels >= N, np.nan, values))


def gradients_of(logits, labels, scale):
    """(softmax - one at the label) times a scale for each row, in f64."""
    share = np.exp(logits.astype(np.float64) - losses_of(logits, labels)[1][:, None])
    share[np.arange(len(share)), np.clip(labels, 0, share.shape[1] - 1)] -= 1
    return chosen(labels[:, None], share.shape[1], share * np.reshape(scale, (-1, 1)))


def drawn(N, **more):
    """Inputs of rows of N logits, of which one is left out, and one has no logit for its label."""

    def inputs(rng, M):
        labels = np.where(np.arange(M) % 4 == 1, -100, rng.integers(0, N, M))
        labels = np.where(np.arange(M) % 4 == 2, N + rng.choice([0, 1, 2**32]), labels)
        logits = rng.standard_normal((M, N)) * 2
        return {"logits": logits, "labels": labels, **more}

    return inputs


def of_row(label, N, value):
    """The value of a row, by its label: 0 without one, NaN where there is no such logit."""
    return lego.where(label >= N, f32(math.nan), lego.where(label >= 0, value, 0.0))


@lego.generic
def cross_entropy(T, N, in_place):
    """The losses, and the gradient `in_place` of the logits; otherwise, in `whole`, the logarithm of each sum."""
    row = parts_of(N, size=T.bytes)
    tile, rows = (row.part,), lego.Tensor(T, Row(M, N))

    def losses_and_powers(logits, labels, losses):
        (r, first), found = row.place(), lego.register(f32, 0.0)
        label = lego.index(labels[r])
        with lego.when((label >= first) & (label < lego.minimum(first + row.part, N))):
            found.set(logits[r, label].to(f32))  # by its own block, before the barriers of the sums
        (values,) = row.held((r, first), logits, other=-math.inf)
        powers, share, most, total, own = powers_of(row, values, found.get())
        whole = lego.log(total) + most
        with lego.when((lego.thread_id[0] < 1) & (lego.cluster_rank < 1)):
            losses[r] = of_row(label, N, whole - own)
        return r, first, label, powers, share / total, whole

    if in_place:

        @row.kernel(M)
        def kernel(logits: rows, labels: LABELS, losses: LOSSES, scale: f32):
            r, first, label, powers, share, _ = losses_and_powers(logits, labels, losses)
            factor = of_row(label, N, scale)
            own = lego.arange(tile) == i32(label - first)
            found = powers() * (factor * share) - lego.where(own, factor, 0.0)
            found.to(T).store(logits, at=(r, first))

        @kernel.reference(rtol=1e-5 if T is f32 else 2**-7, atol=1e-6)
        def expected(logits, labels, scale):
            return gradients_of(logits, labels, scale), losses_of(logits, labels)[0]
    else:

        @row.kernel(M)
        def kernel(logits: rows, labels: LABELS, losses: LOSSES, whole: LOSSES):
            r, *_, logarithm = losses_and_powers(logits, labels, losses)
            with lego.when((lego.thread_id[0] < 1) & (lego.cluster_rank < 1)):
                whole[r] = logarithm

        kernel.reference(rtol=1e-5, atol=1e-6)(losses_of)

    kernel.inputs(drawn(N, scale=0.125) if in_place else drawn(N))
    return kernel


@lego.generic
def cross_entropy_gradient(T, N):
    """The gradient of logits by those of the losses, from the logarithms of the sums."""
    rows, steps = lego.Tensor(T, Row(M, N)), -(-N // STEP)

    @lego.kernel(grid=steps * M, block=128, fast=True)
    def kernel(gradient: LOSSES, logits: rows, labels: LABELS, whole: LOSSES, of_logits: rows):
        r, first = lego.block_id[0] // steps, lego.block_id[0] % steps * STEP
        powers = lego.exp(lego.load(logits, (STEP,), at=(r, first)).to(f32) - whole[r])
        one = lego.where(lego.arange((STEP,)) == i32(lego.index(labels[r]) - first), f32(1.0), 0.0)
        factor = of_row(labels[r], N, gradient[r])
        ((powers - one) * factor).to(T).store(of_logits, at=(r, first))

    @kernel.reference(rtol=1e-5 if T is f32 else 2**-7, atol=1e-5)
    def expected(gradient, logits, labels):
        return gradients_of(logits, labels, gradient)

    @kernel.inputs
    def inputs(rng, M):
        given = drawn(N)(rng, M)
        logits = given["logits"].astype(T.numpy)
        return {**given, "logits": logits, "whole": losses_of(logits, given["labels"])[1]}

    return kernel


in_place_of_cluster, in_place_of_block = cross_entropy[bf16, 33_000, True], cross_entropy[f32, 1001, True]
losses, gradient = cross_entropy[bf16, 1001, False], cross_entropy_gradient[bf16, 5000]
