"""Softmax of rows of up to 262,144 elements, and its gradient y (g - sum(g y)): each array is read or written once.

lego-mlir run examples/language_models/softmax.py --size M=3
"""

import math

import numpy as np
from row_parts import parts_of, powers_of

import lego_mlir as lego
from lego_mlir import Row, bf16, f32

M = lego.size("M")


@lego.generic
def softmax(T, N):
    """Softmax of rows of N elements of T."""
    row = parts_of(N, size=T.bytes)
    rows = lego.Tensor(T, Row(M, N))

    @row.kernel(M)
    def kernel(x: rows, y: rows):
        at = row.place()
        (values,) = row.held(at, x, other=-math.inf)
        powers, share, _, total, _ = powers_of(row, values)
        (powers() * (share / total)).to(T).store(y, at=at)

    # exp of a difference d is within 2 + 1.2 |d| units of f32; a result of 16 bits is rounded once.
    @kernel.reference(rtol=1e-5 if T is f32 else 2**-8 + 1e-5, atol=1e-9)
    def expected(x):
        powers = np.exp(x.astype(np.float64) - x.astype(np.float64).max(1, keepdims=True))
        return powers / powers.sum(1, keepdims=True)

    return kernel


@lego.generic
def softmax_gradient(T, N):
    """The gradient of the rows by that of their softmax y."""
    row = parts_of(N, each=16, size=2 * T.bytes)
    rows = lego.Tensor(T, Row(M, N))

    @row.kernel(M)
    def kernel(gradient: rows, y: rows, of_x: rows):
        at = row.place()
        given, share = row.held(at, gradient, y)
        together = lego.cluster_reduce((given() * share()).sum(0))
        (share() * (given() - together)).to(T).store(of_x, at=at)

    @kernel.reference(rtol=1e-4 if T is f32 else 2**-7, atol=1e-4)
    def expected(gradient, y):
        given, share = gradient.astype(np.float64), y.astype(np.float64)
        return share * (given - (given * share).sum(1, keepdims=True))

    @kernel.inputs
    def inputs(rng, M):
        powers = np.exp(rng.standard_normal((M, N)))
        return {"gradient": rng.standard_normal((M, N)), "y": powers / powers.sum(1, keepdims=True)}

    return kernel


one_block, of_cluster = softmax[bf16, 5000], softmax[f32, 33_000]
gradient_of_one_block, gradient_of_cluster = softmax_gradient[f32, 1001], softmax_gradient[bf16, 33_000]
