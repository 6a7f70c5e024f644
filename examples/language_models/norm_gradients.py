"""Gradients of RMS norm and layer norm: of the rows, and of the weights in two steps.

Clusters take rows in turn, loaded a row ahead, and each adds up what its rows give the weights in registers;
`column_sums` then adds the parts of the clusters. With u = gradient * weight and z = (x - mean) * inverse, that of x
is (u - z mean(u z) - mean(u)) * inverse, the last mean of a layer norm alone.

lego-mlir run examples/language_models/norm_gradients.py --size M=5 --size G=2
"""

import numpy as np
from row_parts import parts_of

import lego_mlir as lego
from lego_mlir import Row, bf16, f32

M = lego.size("M", max=2**31 - 1)
G, C = lego.size("G", min=1, max=2**16), lego.size("C")  # clusters, and columns
OF_ROWS = lego.Tensor(f32, Row(M))
REGISTERS = 128  # of a thread
TILE = 256  # columns of a block of `column_sums`, which takes 8 rows at once


@lego.generic
def norm_gradient(T, N, centred):
    """Gradients of `norms.norm[T, N, centred, T]` by its sums, or rows where nothing was added.

    `onward` is the gradient of the sums, which goes on to x beside that through the norm.
    """
    row = parts_of(N, each=16)
    tile, rows, parts = (row.part,), lego.Tensor(T, Row(M, N)), lego.Tensor(f32, Row(G, N))

    @row.kernel(G, registers=REGISTERS)
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
            if centred:
                shifted = shifted - mean[r]
            z, u = shifted * inverse[r], given * scale  # past the end of a row u is 0
            found = u - z * (lego.cluster_reduce((u * z).sum(0)) * (1 / N))
            if centred:
                found = found - lego.cluster_reduce(u.sum(0)) * (1 / N)
            found = found * inverse[r]
            if onward is not None:
                found = found + lego.load(onward, tile, at=(r, first)).to(f32)
            found.to(T).store(of_x, at=(r, first))
            weighted += given * z
            if of_bias is not None:
                plain += given
        weighted.get().store(of_weight, at=(group, first))
        if of_bias is not None:
            plain.get().store(of_bias, at=(group, first))
        lego.cluster_barrier()

    @kernel.reference(rtol=1e-4 if T is f32 else 2**-7, atol=1e-4 if T is f32 else 1e-2)
    def expected(gradient, onward, x, weight, inverse, mean, of_weight, of_bias):
        given, shifted = gradient.astype(np.float64), x.astype(np.float64) - (mean[:, None] if centred else 0)
        z, u = shifted * inverse[:, None], given * weight.astype(np.float64)
        found = u - z * (u * z).mean(1, keepdims=True) - (u.mean(1, keepdims=True) if centred else 0)
        found = found * inverse[:, None] + (0 if onward is None else onward.astype(np.float64))
        every = len(of_weight)
        parts = [np.stack([a[g::every].sum(0) for g in range(every)]) for a in (given * z, given)]
        return (found, *parts[: 1 if of_bias is None else 2])

    return kernel


def clusters_for(rows, columns, multiprocessors=132):
    """G: the clusters that take the rows, as many as the GPU holds."""
    return min(max(1, rows), parts_of(columns, each=16).resident(REGISTERS, multiprocessors))


@lego.generic
def column_sums(T):
    """The sums of the columns of G x C numbers of f32, in T."""

    @lego.kernel(grid=lego.cdiv(C, TILE), block=256)
    def kernel(parts: lego.Tensor(f32, Row(G, C)), y: lego.Tensor(T, Row(C))):
        first, total = lego.block_id[0] * TILE, lego.register(lego.zeros(f32, (8, TILE)))
        for g in lego.range(0, G, 8):
            total += lego.load(parts, (8, TILE), at=(g, first))
        total.get().sum(0).to(T).store(y, at=(first,))

    @kernel.reference(rtol=1e-5 if T is f32 else 2**-8, atol=1e-5)
    def expected(parts):
        return parts.astype(np.float64).sum(0)

    return kernel


rms_norm_gradient = norm_gradient[bf16, 4096, False].without("onward", "mean", "of_bias")
layer_norm_gradient = norm_gradient[bf16, 20_000, True].without("onward")
added_gradient = norm_gradient[f32, 1000, False].without("mean", "of_bias")
sums = column_sums[bf16]
