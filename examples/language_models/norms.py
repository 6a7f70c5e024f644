"""RMS norm and layer norm of rows of up to 262,144 elements, which are read once.

`residual`, where it is given, is added first and the sums are stored. Results are of the rows' type, or f8 with a scale
for each row: its largest number becomes 448. Sums are of f32. What a gradient needs is stored too: the inverse of each
row's root mean square or standard deviation, and its mean.

lego-mlir run examples/language_models/norms.py --size M=3
"""

import numpy as np
from row_parts import LONGEST, STAGED, parts_of

import lego_mlir as lego
from lego_mlir import Row, bf16, f8e4m3fn, f32

M = lego.size("M")
OF_ROWS = lego.Tensor(f32, Row(M))
LARGEST, EPSILON = 448.0, 1e-6  # of f8e4m3fn; added to a mean square


@lego.generic
def norm(T, N, centred, added, R):
    """A layer norm if `centred`, an RMS norm otherwise, of rows of N elements of T, with a result of R.

    A `residual` may be `added`. Long rows have smaller parts where there is more to do or to hold: more blocks fit.
    """
    more = centred or added or R is f8e4m3fn
    staged = STAGED // 2 if more and N > LONGEST else STAGED
    row = parts_of(N, size=T.bytes, longest=16_384, staged=staged, more=T.bytes * added)
    tile, rows, vector = (row.part,), lego.Tensor(T, Row(M, N)), lego.Tensor(T, Row(N))

    @row.kernel(M, registers=64 if centred else 0)
    def kernel(
        x: rows,
        residual: rows | None,
        weight: vector,
        bias: vector | None,
        y: lego.Tensor(R, Row(M, N)),
        sums: rows | None,
        inverse: OF_ROWS,
        mean: OF_ROWS | None,
        scales: OF_ROWS | None,
    ):
        r, first = row.place()
        held = row.held((r, first), *(array for array in (x, residual) if array is not None))
        values = row.again(lambda: held[0]() if residual is None else held[0]() + held[1]())
        if residual is not None:
            values().to(T).store(sums, at=(r, first))
        if centred:
            count = f32(lego.minimum(N - first, row.part))
            own = values().sum(0) / count
            apart = values() - own
            if row.blocks * row.part != N:
                apart = lego.where(first + lego.arange(tile) < N, apart, 0.0)
            moments = lego.vector(count, own, (apart * apart).sum(0), 0.0)
            _, middle, squares, _ = lego.cluster_reduce(moments, moments_of_both)
        else:
            middle, squares = f32(0.0), lego.cluster_reduce((values() * values()).sum(0))
        factor = lego.rsqrt(squares * (1 / N) + EPSILON)

        def normed():
            found = (values() - middle if centred else values()) * factor
            found = found * lego.load(weight, tile, at=(first,)).to(f32)
            return found if bias is None else found + lego.load(bias, tile, at=(first,)).to(f32)

        result = row.again(normed)
        if scales is None:
            result().to(R).store(y, at=(r, first))
        else:
            scale = lego.maximum(lego.cluster_reduce(abs(result()).max(0), "max"), 1e-12) * (1 / LARGEST)
            (result() * (1.0 / scale)).to(R).store(y, at=(r, first))
        with lego.when((lego.thread_id[0] < 1) & (lego.cluster_rank < 1)):
            inverse[r] = factor
            if mean is not None:
                mean[r] = middle
            if scales is not None:
                scales[r] = scale

    # One rounding to the result's type, and one of the sums: an f8 may be its neighbour, 1/8 away.
    @kernel.reference(rtol=0.13 if R is f8e4m3fn else 1e-5 if R is f32 else 2**-7, atol=2e-3)
    def expected(x, residual, weight, bias, sums, mean, scales):
        found = x.astype(np.float64) + (0 if residual is None else residual.astype(np.float64))
        middle = found.mean(1, keepdims=True) * centred
        factor = 1 / np.sqrt(((found - middle) ** 2).mean(1, keepdims=True) + EPSILON)
        y = (found - middle) * factor * weight.astype(np.float64) + (0 if bias is None else bias.astype(np.float64))
        scale = np.maximum(np.abs(y).max(1), 1e-12) / LARGEST
        stored = y if scales is None else y / scale[:, None]
        more = ((sums, found), (mean, np.ravel(middle)), (scales, scale))
        given = [array for parameter, array in more if parameter is not None]
        return (stored, *given[: sums is not None], factor[:, 0], *given[sums is not None :])

    return kernel


def moments_of_both(a, b):
    """The number, mean and sum of squared differences of two parts (Chan, Golub, LeVeque, 1979)."""
    count, apart = a[0] + b[0], b[1] - a[1]
    share = b[0] / count
    return lego.vector(count, a[1] + apart * share, a[2] + b[2] + apart * apart * a[0] * share, 0.0)


rms_norm = norm[bf16, 4096, False, False, bf16].without("residual", "bias", "sums", "mean", "scales")
added_rms_norm_f8 = norm[bf16, 5000, False, True, f8e4m3fn].without("bias", "mean")
layer_norm = norm[bf16, 33_000, True, False, bf16].without("residual", "sums", "scales")
