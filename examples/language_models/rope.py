"""Rotary position embedding of all heads of a token, by a table of sines and cosines of f32.

Pairs are elements of the halves of a head, (i, i + D / 2), or neighbours, (2 i, 2 i + 1). The gradient is the rotation
back, by the same kernel with `turn` = -1.

lego-mlir run examples/language_models/rope.py --size S=5 --size P=100
"""

import numpy as np
from row_parts import WIDTH

import lego_mlir as lego
from lego_mlir import Row, bf16, f32, i32

S, P = lego.size("S"), lego.size("P", max=1 << 24)  # tokens, and rows of the table


@lego.generic
def rope(T, heads, D, neighbours):
    """Heads of D elements of T, turned by the angles of each token's position.

    Raises ValueError for a D that is no power of two, as tiles are that are reshaped.
    """
    if D < 2 or D & (D - 1):
        raise ValueError(f"rope takes heads of a power of two elements, got {D}: tiles of other sizes are not reshaped")
    half, tile = D // 2, 1 << (heads - 1).bit_length()  # of heads, of which those past the end are masked
    tokens, table = lego.Tensor(T, Row(S, heads, D)), lego.Tensor(f32, Row(P, half))
    threads = max(32, min(256, tile * half // WIDTH))

    @lego.kernel(grid=S, block=threads)
    def kernel(
        x: tokens, cosines: table, sines: table, positions: lego.Tensor(i32, Row(S), range=(0, P)), turn: f32, y: tokens
    ):  # fmt: skip
        s, angle = lego.block_id[0], lego.index(positions[lego.block_id[0]])
        cosine, sine = (lego.load(array, (1, half), at=(angle, 0)) for array in (cosines, sines))
        sine = sine * turn
        if neighbours:
            pairs = lego.load(x, (1, tile, D), at=(s, 0, 0)).reshape(tile, half, 2).to(f32)
            a, b = pairs.split()
        else:
            a, b = (lego.load(x, (1, tile, half), at=(s, 0, k)).reshape(tile, half).to(f32) for k in (0, half))
        turned = (a * cosine - b * sine).to(T), (a * sine + b * cosine).to(T)
        if neighbours:
            turned[0].join(turned[1]).reshape(1, tile, D).store(y, at=(s, 0, 0))
        else:
            for part, k in zip(turned, (0, half), strict=True):
                part.reshape(1, tile, half).store(y, at=(s, 0, k))

    # Both products and their sum are of f32; the result is rounded once.
    @kernel.reference(rtol=1e-5 if T is f32 else 2**-8, atol=1e-6)
    def expected(x, cosines, sines, positions, turn):
        pairs = x.astype(np.float64).reshape(*x.shape[:2], *((half, 2) if neighbours else (2, half)))
        axis = 3 if neighbours else 2
        a, b = (pairs.take(k, axis) for k in (0, 1))
        cosine, sine = (array[positions][:, None].astype(np.float64) for array in (cosines, turn * sines))
        return np.stack([a * cosine - b * sine, a * sine + b * cosine], axis).reshape(x.shape)

    @kernel.inputs
    def inputs(rng, S, P):
        angles = np.arange(P)[:, None] * 10_000.0 ** (-np.arange(half) / half)
        return {"cosines": np.cos(angles), "sines": np.sin(angles), "turn": 1.0}

    return kernel


of_halves, of_neighbours, odd_heads = rope[bf16, 8, 128, False], rope[bf16, 8, 64, True], rope[f32, 7, 64, False]
