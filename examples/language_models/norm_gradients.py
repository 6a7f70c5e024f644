"""Gradients of RMS norm and layer norm: of the rows, and of the weights in two steps.

With u = gradient * weight and z = (x - mean) * inverse, that of x is (u - z mean(u z) - mean(u)) * inverse, the last
mean of a layer norm alone; that of the weights is the sum of gradient * z over the rows. Rows of up to `FUSED` elements
are read once, by blocks that take them in turn, loaded a row ahead, and add up what they give the weights in registers.
For longer ones `row_gradient` and `weight_gradient` are two kernels, since a thread has no registers for sums of 16
elements beside the next row's. `column_sums` then adds the parts of the weights' gradients.

lego-mlir run examples/language_models/norm_gradients.py --size M=5 --size G=2
"""

import numpy as np
from row_parts import parts_of

import lego_mlir as lego
from lego_mlir import Row, bf16, f32

M = lego.size("M", max=2**31 - 1)
G, C = lego.size("G", min=1, max=2**16), lego.size("C")  # clusters, and columns
OF_ROWS = lego.Tensor(f32, Row(M))
FUSED, BLOCK = 16_384, 8192  # elements of a row; of a block, for whose sums its threads have registers
TILE, TOGETHER = 256, 8  # columns and rows that a block of `weight_gradient` and `column_sums` takes at once


def of_rows(u, z, N, centred):
    """u - z mean(u z) - mean(u) of rows that clusters hold."""
    if centred:
        means = lego.cluster_reduce(lego.vector((u * z).sum(0), u.sum(0))) * (1 / N)
        return u - z * means[0] - means[1]
    return u - z * (lego.cluster_reduce((u * z).sum(0)) * (1 / N))


@lego.generic
def fused_gradient(T, N):
    """Gradients of a layer norm, and without `mean` of an RMS norm, by its sums or rows where nothing was added.

    `onward` is the gradient of the sums, which goes on to x beside that through the norm.
    """
    row = parts_of(N, each=16, block=BLOCK)
    tile, rows, parts = (row.part,), lego.Tensor(T, Row(M, N)), lego.Tensor(f32, Row(G, N))

    @row.kernel(G, registers=128)
    def kernel(
        gradient: rows,
        onward: rows | None,
        x: rows,
        weight: lego.Tensor(T, Row(N)),
        inverse: OF_ROWS,
        mean: OF_ROWS | None,
        of_x: rows,
        of_weight: parts,
        of_bias: parts | None,
    ):
        group, first = row.place()
        scale = lego.load(weight, tile, at=(first,)).to(f32)
        weighted, plain = (lego.register(lego.zeros(f32, tile)) for _ in range(2))
        ahead = [lego.register(lego.load(array, tile, at=(group, first))) for array in (gradient, x)]
        for r in lego.range(group, M, G):
            given, shifted = (kept.get().to(f32) for kept in ahead)
            for kept, array in zip(ahead, (gradient, x), strict=True):
                kept.set(lego.load(array, tile, at=(r + G, first)))
            if mean is not None:
                shifted = shifted - mean[r]
            z, u = shifted * inverse[r], given * scale  # past the end of a row u is 0
            found = of_rows(u, z, N, mean is not None) * inverse[r]
            if onward is not None:
                found = found + lego.load(onward, tile, at=(r, first)).to(f32)
            found.to(T).store(of_x, at=(r, first))
            weighted += given * z
            if of_bias is not None:
                plain += given
        weighted.get().store(of_weight, at=(group, first))
        if of_bias is not None:
            plain.get().store(of_bias, at=(group, first))

    @kernel.reference(rtol=1e-4 if T is f32 else 2**-7, atol=1e-4 if T is f32 else 1e-2)
    def expected(gradient, onward, x, weight, inverse, mean, of_weight, of_bias):
        groups = len(of_weight)
        parts = gradients_of_weights(gradient, x, inverse, mean, lambda g: slice(g, None, groups), groups)
        found = gradient_of_rows(gradient, onward, x, weight, inverse, mean)
        return (found, *parts[: 1 if of_bias is None else 2])

    return kernel


@lego.generic
def row_gradient(T, N):
    """The gradient of the rows alone."""
    row = parts_of(N, each=16)
    tile, rows = (row.part,), lego.Tensor(T, Row(M, N))

    @row.kernel(M)
    def kernel(
        gradient: rows,
        onward: rows | None,
        x: rows,
        weight: lego.Tensor(T, Row(N)),
        inverse: OF_ROWS,
        mean: OF_ROWS | None,
        of_x: rows,
    ):
        r, first = row.place()
        given, shifted = (lego.load(array, tile, at=(r, first)).to(f32) for array in (gradient, x))
        if mean is not None:
            shifted = shifted - mean[r]
        u = given * lego.load(weight, tile, at=(first,)).to(f32)
        found = of_rows(u, shifted * inverse[r], N, mean is not None) * inverse[r]
        if onward is not None:
            found = found + lego.load(onward, tile, at=(r, first)).to(f32)
        found.to(T).store(of_x, at=(r, first))

    kernel.reference(rtol=1e-4 if T is f32 else 2**-7, atol=1e-4 if T is f32 else 1e-2)(gradient_of_rows)
    return kernel


@lego.generic
def weight_gradient(T, N):
    """What G groups of rows give the weights, and the bias: a block takes 8 rows of 256 columns at once."""
    rows, parts, shape = lego.Tensor(T, Row(M, N)), lego.Tensor(f32, Row(G, N)), (TOGETHER, TILE)
    steps = -(-N // TILE)

    @lego.kernel(grid=steps * G, block=256)
    def kernel(
        gradient: rows, x: rows, inverse: OF_ROWS, mean: OF_ROWS | None, of_weight: parts, of_bias: parts | None
    ):  # fmt: skip
        group, first = lego.block_id[0] // steps, lego.block_id[0] % steps * TILE
        weighted, plain = (lego.register(lego.zeros(f32, shape)) for _ in range(2))
        for r in lego.range(TOGETHER * group, M, TOGETHER * G):
            given, shifted = (lego.load(array, shape, at=(r, first)).to(f32) for array in (gradient, x))
            if mean is not None:
                shifted = shifted - lego.load(mean, (TOGETHER,), at=(r,))[:, None]
            weighted += given * (shifted * lego.load(inverse, (TOGETHER,), at=(r,))[:, None])
            if of_bias is not None:
                plain += given
        weighted.get().sum(0).store(of_weight, at=(group, first))
        if of_bias is not None:
            plain.get().sum(0).store(of_bias, at=(group, first))

    @kernel.reference(rtol=1e-4, atol=1e-4)
    def expected(gradient, x, inverse, mean, of_weight, of_bias):
        groups, of_group = len(of_weight), np.arange(len(x)) // TOGETHER % len(of_weight)
        parts = gradients_of_weights(gradient, x, inverse, mean, lambda g: of_group == g, groups)
        return tuple(parts[: 1 if of_bias is None else 2])

    return kernel


def gradient_of_rows(gradient, onward, x, weight, inverse, mean):
    """The gradient of x in f64."""
    given, shifted = gradient.astype(np.float64), x.astype(np.float64) - (0 if mean is None else mean[:, None])
    z, u = shifted * inverse[:, None], given * weight.astype(np.float64)
    found = u - z * (u * z).mean(1, keepdims=True) - (0 if mean is None else u.mean(1, keepdims=True))
    return found * inverse[:, None] + (0 if onward is None else onward.astype(np.float64))


def gradients_of_weights(gradient, x, inverse, mean, rows_of, groups):
    """The gradients of weights and bias by each group of rows, in f64."""
    given, shifted = gradient.astype(np.float64), x.astype(np.float64) - (0 if mean is None else mean[:, None])
    return [
        np.stack([a[rows_of(g)].sum(0) for g in range(groups)]) for a in (given * shifted * inverse[:, None], given)
    ]


def groups_for(rows, columns, multiprocessors=132):
    """G, the number of groups of rows: as many as fit the multiprocessors at once, by default of an H200."""
    if columns <= FUSED:
        row = parts_of(columns, each=16, block=BLOCK)
        return min(max(1, rows), 512 // row.threads * multiprocessors // row.blocks)
    return min(max(1, rows // TOGETHER), max(1, 8 * multiprocessors * TILE // columns))


@lego.generic
def column_sums(T):
    """The sums of the columns of G x C numbers of f32, in T."""

    @lego.kernel(grid=lego.cdiv(C, TILE), block=256)
    def kernel(parts: lego.Tensor(f32, Row(G, C)), y: lego.Tensor(T, Row(C))):
        first, total = lego.block_id[0] * TILE, lego.register(lego.zeros(f32, (TOGETHER, TILE)))
        for g in lego.range(0, G, TOGETHER):
            total += lego.load(parts, (TOGETHER, TILE), at=(g, first))
        total.get().sum(0).to(T).store(y, at=(first,))

    @kernel.reference(rtol=1e-5 if T is f32 else 2**-8, atol=1e-5)
    def expected(parts):
        return parts.astype(np.float64).sum(0)

    return kernel


rms_norm_gradient = fused_gradient[bf16, 4096].without("onward", "mean", "of_bias")
layer_norm_gradient = fused_gradient[f32, 1000].without("onward")
of_long_rows = row_gradient[bf16, 33_000].without("onward")
of_their_weights = weight_gradient[bf16, 1000]
sums = column_sums[bf16]
