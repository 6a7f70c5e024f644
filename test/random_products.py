"""Random kernels of products in tiles: loops, branches, edges, functions of indices, and what NumPy makes of them.

`c = f(a b + d)` in tiles that may reach past the ends of the tensors, with sizes that are no powers of two among them.
Values are small whole numbers, so that every order of operations gives the same.
"""

from dataclasses import dataclass

import numpy as np

import lego_mlir as lego
from lego_mlir import Row, f16, f32, f64, i8, i32

TYPES = {f16: (np.float16, f32, np.float32), f32: (np.float32, f32, np.float32), f64: (np.float64, f64, np.float64)}
TYPES |= {i8: (np.int8, i32, np.int32)}
DEPTHS = {f16: 16, f32: 8, f64: 4, i8: 32}


@dataclass
class RandomProduct:
    """Sizes (M, N, K) of the tensors and of the tiles, the element type, the threads, and what happens to the sum."""

    sizes: tuple
    tile: tuple
    dtype: object
    block: int
    outside: int
    starts: bool
    branch: bool
    ending: str

    @property
    def grid(self):
        """Blocks along the rows and the columns."""
        return tuple(-(-n // t) for n, t in zip(self.sizes[:2], self.tile[:2], strict=True))


def random_product(draw):
    """A random one; about half of them have odd sizes or ends."""
    dtype = draw.choice(list(TYPES))
    depth = DEPTHS[dtype]
    tile = (draw.choice((16, 32, 48, 64, 96)), draw.choice((16, 24, 32, 40, 64)), depth * draw.choice((1, 2, 2, 3)))
    blocks, steps = (draw.choice((1, 2)), draw.choice((1, 2))), draw.choice((1, 2, 3))
    cuts = [draw.choice((0, 0, 3, 8)) for _ in range(3)]
    whole = (tile[0] * blocks[0], tile[1] * blocks[1], tile[2] * steps)
    sizes = tuple(max(1, n - cut) for n, cut in zip(whole, cuts, strict=True))
    ending = draw.choice(["plain", "lower", "rows", "column", "scaled", "positive"])
    warps = 3 if tile[0] in (48, 96) and draw.random() < 0.4 else draw.choice((1, 2, 4))
    return RandomProduct(
        sizes, tile, dtype, 32 * warps, draw.choice((0, 0, 5)), draw.random() < 0.5, draw.random() < 0.4, ending
    )


def product_kernel(made):
    """The kernel."""
    (m, n, k), (rows, columns, depth), outside = made.sizes, made.tile, made.outside
    _, result, _ = TYPES[made.dtype]

    @lego.kernel(grid=made.grid, block=made.block)
    def product(
        a: lego.Tensor(made.dtype, Row(m, k)),
        b: lego.Tensor(made.dtype, Row(k, n)),
        d: lego.Tensor(result, Row(m, n)),
        c: lego.Tensor(result, Row(m, n)),
    ):
        i, j = rows * lego.block_id[0], columns * lego.block_id[1]
        start = (
            lego.load(d, (rows, columns), at=(i, j), other=outside)
            if made.starts
            else lego.zeros(result, (rows, columns))
        )
        total = lego.register(start)
        for step in lego.range(0, k, depth):
            x, y = lego.load(a, (rows, depth), at=(i, step)), lego.load(b, (depth, columns), at=(step, j))
            total.set(lego.mma(x, y, total.get()))
        if made.branch:
            with lego.when(lego.block_id[0] > 0):
                total.set(total.get() * 2)
        ended(made, total.get(), lego.where, lambda t, axis: t.index(axis), result).store(c, at=(i, j))

    return product


def ended(made, t, where, index, result):
    """What happens to the sum, on a tile or on an array of one tile."""
    match made.ending:
        case "lower":
            return where(index(t, 0) >= index(t, 1), t, 0)
        case "rows":
            return t + (index(t, 0) * 2 + 1).to(result)
        case "column":
            return t - t.max(axis=1)[:, None]
        case "scaled":
            return t * 3
        case "positive":
            return where(t > 0, t, 0)
    return t


class _Indices(np.ndarray):
    """Indices with the method of tiles."""

    def to(self, dtype):
        return np.asarray(self).astype(dtype)


def product_arrays(made, seed):
    """The inputs a, b and d, and the wanted c."""
    operand, _, result = TYPES[made.dtype]
    rng, (m, n, k) = np.random.default_rng(seed), made.sizes
    a, b = (rng.integers(-2, 3, shape).astype(operand) for shape in ((m, k), (k, n)))
    d = rng.integers(-4, 5, (m, n)).astype(result)
    grid, (rows, columns, _) = made.grid, made.tile
    wide = [grid[0] * rows, grid[1] * columns]
    whole = np.full(wide, made.outside if made.starts else 0, result)
    whole[:m, :n] = d if made.starts else 0
    whole[:m, :n] += a.astype(result) @ b.astype(result)
    if made.branch:
        whole[rows:] *= 2

    def index(t, axis):
        return np.broadcast_to(np.expand_dims(np.arange(t.shape[axis]), 1 - axis), t.shape).view(_Indices)

    for i in range(grid[0]):
        for j in range(grid[1]):
            place = np.s_[i * rows : (i + 1) * rows, j * columns : (j + 1) * columns]
            whole[place] = ended(made, whole[place], np.where, index, result)
    return (a, b, d), whole[:m, :n]
