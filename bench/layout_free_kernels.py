"""Kernels of TritonBench in this language, with no layout in any of them: the layout engine finds all.

`CASES` has a builder for each: sizes -> the kernel, the arrays that it takes, and what it computes by NumPy. The
programs have the shape that TritonBench gives them in Triton (`rivals/triton_layout_free.py`): a block a row, a tile a
block, or a tile of the result.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import lego_mlir as lego
from lego_mlir import Row, f8e4m3fn, f16, f32, gallery, i4, i32, schedule

Arrays = dict[str, np.ndarray]
LOG2E = math.log2(math.e)


@dataclass(frozen=True)
class LayoutFree:
    """One kernel of given sizes; `inputs` draws its arrays, outputs zero, `expected` are the outputs by name.

    `schedules` are compositions for it on a GPU, without one it runs as it is; `others` are the same of other tiles.
    """

    kernel: Any
    inputs: Callable[[np.random.Generator], Arrays]
    expected: Callable[[Arrays], Arrays]
    tolerance: float = 2e-3
    schedules: tuple[str, ...] = ()
    others: tuple[Any, ...] = ()

    def scheduled(self) -> list[Any]:
        """The kernels by each of their schedules."""
        kernels = (self.kernel, *self.others)
        return [kernel.schedule(text) for kernel in kernels for text in self.schedules] or list(kernels)


def padded(n: int) -> int:
    """The next power of two."""
    return 1 << (n - 1).bit_length()


def drawn(rng: np.random.Generator, *shape: int, dtype: Any = np.float32) -> np.ndarray:
    return rng.standard_normal(shape, np.float32).astype(dtype)


def given(**shapes: tuple[int, ...]) -> Callable[[np.random.Generator], Arrays]:
    """Draws arrays of f32 of these shapes; `y` is the output, of zeros."""
    return lambda rng: {
        name: np.zeros(shape, np.float32) if name == "y" else drawn(rng, *shape) for name, shape in shapes.items()
    }


def warps_for(columns: int) -> int:
    """The warps of a block for a row."""
    return 4 if columns <= 2048 else 8 if columns <= 8192 else 16


def sigmoid(x: Any) -> Any:
    return 1.0 / (1.0 + lego.exp2(x * -LOG2E, fast=True))


def np_sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def vector_exp(n: int) -> LayoutFree:
    @lego.kernel(grid=lego.cdiv(n, 1024), block=128)
    def vector_exp(x: lego.Tensor(f32, Row(n)), y: lego.Tensor(f32, Row(n))):
        at = (lego.block_id[0] * 1024,)
        lego.exp2(lego.load(x, (1024,), at=at) * LOG2E, fast=True).store(y, at=at)

    return LayoutFree(vector_exp, given(x=(n,), y=(n,)), lambda a: {"y": np.exp(a["x"])})


def softmax(m: int, n: int) -> LayoutFree:
    @lego.kernel(grid=m, block=32 * warps_for(n))
    def softmax(x: lego.Tensor(f32, Row(m, n)), y: lego.Tensor(f32, Row(m, n))):
        at = (lego.block_id[0], 0)
        row = lego.load(x, (padded(n),), at=at, other=-math.inf)
        e = lego.exp2((row - row.max(0)) * LOG2E, fast=True)
        (e * (1.0 / e.sum(0))).store(y, at=at)

    def expected(a: Arrays) -> Arrays:
        e = np.exp(a["x"] - a["x"].max(1, keepdims=True))
        return {"y": e / e.sum(1, keepdims=True)}

    return LayoutFree(softmax, given(x=(m, n), y=(m, n)), expected)


def layer_norm(m: int, n: int) -> LayoutFree:
    vector = lego.Tensor(f32, Row(n))

    @lego.kernel(grid=m, block=32 * warps_for(n))
    def layer_norm(x: lego.Tensor(f32, Row(m, n)), w: vector, b: vector, y: lego.Tensor(f32, Row(m, n))):
        at, shape = (lego.block_id[0], 0), (padded(n),)
        row = lego.load(x, shape, at=at)
        mean = row.sum(0) * (1.0 / n)
        centred = row - mean
        if padded(n) != n:
            centred = lego.where(lego.arange(shape) < n, centred, 0.0)
        scale = lego.rsqrt((centred * centred).sum(0) * (1.0 / n) + 1e-5)
        (centred * scale * lego.load(w, shape) + lego.load(b, shape)).store(y, at=at)

    def expected(a: Arrays) -> Arrays:
        c = a["x"] - a["x"].mean(1, keepdims=True)
        return {"y": c / np.sqrt((c * c).mean(1, keepdims=True) + 1e-5) * a["w"] + a["b"]}

    return LayoutFree(layer_norm, given(x=(m, n), w=(n,), b=(n,), y=(m, n)), expected)


def rms_norm(m: int, n: int) -> LayoutFree:
    @lego.kernel(grid=m, block=32 * warps_for(n))
    def rms_norm(x: lego.Tensor(f32, Row(m, n)), w: lego.Tensor(f32, Row(n)), y: lego.Tensor(f32, Row(m, n))):
        at, shape = (lego.block_id[0], 0), (padded(n),)
        row = lego.load(x, shape, at=at)
        (row * lego.rsqrt((row * row).sum(0) * (1.0 / n) + 1e-6) * lego.load(w, shape)).store(y, at=at)

    def expected(a: Arrays) -> Arrays:
        return {"y": a["x"] / np.sqrt((a["x"] ** 2).mean(1, keepdims=True) + 1e-6) * a["w"]}

    return LayoutFree(rms_norm, given(x=(m, n), w=(n,), y=(m, n)), expected)


def cross_entropy(m: int, n: int) -> LayoutFree:
    @lego.kernel(grid=m, block=32 * warps_for(n))
    def cross_entropy(
        x: lego.Tensor(f32, Row(m, n)), target: lego.Tensor(i32, Row(m), range=(0, n)), y: lego.Tensor(f32, Row(m))
    ):
        r = lego.block_id[0]
        row = lego.load(x, (padded(n),), at=(r, 0), other=-math.inf)
        most = row.max(0)
        total = lego.exp2((row - most) * LOG2E, fast=True).sum(0)
        with lego.when(lego.thread_id[0] < 1):
            y[r] = lego.log(total) + most - x[r, lego.index(target[r])]

    def inputs(rng: np.random.Generator) -> Arrays:
        return {"x": drawn(rng, m, n), "target": rng.integers(0, n, m).astype(np.int32), "y": np.zeros(m, np.float32)}

    def expected(a: Arrays) -> Arrays:
        most = a["x"].max(1)
        total = np.log(np.exp(a["x"] - most[:, None]).sum(1)) + most
        return {"y": total - a["x"][np.arange(m), a["target"]]}

    return LayoutFree(cross_entropy, inputs, expected)


def embedding(m: int, n: int) -> LayoutFree:
    rows = 4096

    @lego.kernel(grid=m, block=128)
    def embedding(
        i: lego.Tensor(i32, Row(m), range=(0, rows)),
        table: lego.Tensor(f32, Row(rows, n)),
        y: lego.Tensor(f32, Row(m, n)),
    ):
        r = lego.block_id[0]
        lego.load(table, (padded(n),), at=(lego.index(i[r]), 0)).store(y, at=(r, 0))

    def inputs(rng: np.random.Generator) -> Arrays:
        return {"i": rng.integers(0, rows, m).astype(np.int32), **given(table=(rows, n), y=(m, n))(rng)}

    return LayoutFree(embedding, inputs, lambda a: {"y": a["table"][a["i"]]})


def rope(m: int, n: int) -> LayoutFree:
    half = n // 2
    angles = lego.Tensor(f32, Row(m, half))

    @lego.kernel(grid=m, block=128)
    def rope(x: lego.Tensor(f32, Row(m, 2, half)), c: angles, s: angles, y: lego.Tensor(f32, Row(m, 2, half))):
        r, shape = lego.block_id[0], (padded(half),)
        first, second = (lego.load(x, shape, at=(r, k, 0)) for k in (0, 1))
        cosine, sine = lego.load(c, shape, at=(r, 0)), lego.load(s, shape, at=(r, 0))
        (first * cosine - second * sine).store(y, at=(r, 0, 0))
        (second * cosine + first * sine).store(y, at=(r, 1, 0))

    def expected(a: Arrays) -> Arrays:
        first, second = a["x"][:, 0], a["x"][:, 1]
        return {"y": np.stack([first * a["c"] - second * a["s"], second * a["c"] + first * a["s"]], 1)}

    inputs = given(x=(m, 2, half), c=(m, half), s=(m, half), y=(m, 2, half))
    return LayoutFree(rope, inputs, expected)


def _gated(name: str, m: int, n: int, gate: Callable[[Any], Any], np_gate: Callable[[Any], Any]) -> LayoutFree:
    tensor = lego.Tensor(f32, Row(m, n))

    def gated(a: Any, b: Any, y: Any) -> None:
        at, shape = (lego.block_id[0], 0), (padded(n),)
        (gate(lego.load(a, shape, at=at)) * lego.load(b, shape, at=at)).store(y, at=at)

    gated.__name__ = gated.__qualname__ = name
    gated.__annotations__ = {"a": tensor, "b": tensor, "y": tensor}

    kernel = lego.kernel(grid=m, block=32 * warps_for(n))(gated)
    return LayoutFree(kernel, given(a=(m, n), b=(m, n), y=(m, n)), lambda g: {"y": np_gate(g["a"]) * g["b"]})


def swiglu(m: int, n: int) -> LayoutFree:
    return _gated("swiglu", m, n, lambda x: x * sigmoid(x), lambda x: x * np_sigmoid(x))


def geglu(m: int, n: int) -> LayoutFree:
    def inner(x: Any) -> Any:  # gelu by tanh: x / 2 (1 + tanh(u)) is x sigmoid(2 u)
        return (x + x * x * x * 0.044715) * (2 * math.sqrt(2 / math.pi))

    return _gated("geglu", m, n, lambda x: x * sigmoid(inner(x)), lambda x: x * np_sigmoid(inner(x)))


def jagged_sum(b: int, n: int) -> LayoutFree:
    longest, tile = 128, (32, padded(n))
    total = b * longest

    @lego.kernel(grid=b, block=128)
    def jagged_sum(
        x: lego.Tensor(f32, Row(total, n)),
        ends: lego.Tensor(i32, Row(b + 1), range=(0, total + 1)),
        y: lego.Tensor(f32, Row(b, n)),
    ):
        r = lego.block_id[0]
        start, end = lego.index(ends[r]), lego.index(ends[r + 1])
        sums = lego.register(lego.zeros(f32, tile))
        for first in lego.range(start, end, tile[0]):
            rows = first + lego.arange(tile, 0)
            sums += lego.where(rows < end, lego.load(x, tile, at=(first, 0)), 0.0)
        sums.get().sum(0).store(y, at=(r, 0))

    def inputs(rng: np.random.Generator) -> Arrays:
        lengths = rng.integers(1, longest + 1, b)
        ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        return {"x": drawn(rng, total, n), "ends": ends, "y": np.zeros((b, n), np.float32)}

    def expected(a: Arrays) -> Arrays:
        return {"y": np.stack([a["x"][i:j].sum(0) for i, j in zip(a["ends"], a["ends"][1:], strict=False)])}

    return LayoutFree(jagged_sum, inputs, expected)


def row_sum(m: int, n: int) -> LayoutFree:
    @lego.kernel(grid=m, block=32 * warps_for(n))
    def row_sum(x: lego.Tensor(f32, Row(m, n)), y: lego.Tensor(f32, Row(m))):
        total = lego.load(x, (padded(n),), at=(lego.block_id[0], 0)).sum(0)
        with lego.when(lego.thread_id[0] < 1):
            y[lego.block_id[0]] = total

    return LayoutFree(row_sum, given(x=(m, n), y=(m,)), lambda a: {"y": a["x"].sum(1)})


def welford(m: int, n: int) -> LayoutFree:
    chunk = 1024
    assert n % chunk == 0

    @lego.kernel(grid=m, block=128)
    def welford(x: lego.Tensor(f32, Row(m, n)), y: lego.Tensor(f32, Row(m, 2))):
        r = lego.block_id[0]
        mean, spread = (lego.register(lego.zeros(f32, (chunk,))) for _ in range(2))
        count = lego.register(f32, 0.0)
        for first in lego.range(0, n, chunk):
            count += 1.0
            part = lego.load(x, (chunk,), at=(r, first))
            delta = part - mean.get()
            mean.set(mean.get() + delta * (1.0 / count.get()))
            spread.set(spread.get() + delta * (part - mean.get()))
        of_all = mean.get().sum(0) * (1.0 / chunk)
        off = mean.get() - of_all
        total = spread.get().sum(0) + (off * off).sum(0) * (n // chunk)
        with lego.when(lego.thread_id[0] < 1):
            y[r, 0], y[r, 1] = of_all, total * (1.0 / n)

    return LayoutFree(welford, given(x=(m, n), y=(m, 2)), lambda a: {"y": np.stack([a["x"].mean(1), a["x"].var(1)], 1)})


def low_mem_dropout(n: int) -> LayoutFree:
    @lego.kernel(grid=lego.cdiv(n, 1024), block=128)
    def low_mem_dropout(x: lego.Tensor(f32, Row(n)), keep: lego.Tensor(i32, Row(n)), y: lego.Tensor(f32, Row(n))):
        at = (lego.block_id[0] * 1024,)
        kept = lego.load(keep, (1024,), at=at)
        lego.where(kept != 0, lego.load(x, (1024,), at=at) * 2.0, 0.0).store(y, at=at)

    def inputs(rng: np.random.Generator) -> Arrays:
        return {"x": drawn(rng, n), "keep": rng.integers(0, 2, n).astype(np.int32), "y": np.zeros(n, np.float32)}

    return LayoutFree(low_mem_dropout, inputs, lambda a: {"y": np.where(a["keep"] != 0, 2 * a["x"], 0)})


def tile_order(rows: int, columns: int) -> Any:
    """The order of the tiles of a product: groups of 8 rows, column by column, as in Triton's tutorial."""
    return lego.as_layout(schedule.grouped(rows, columns, rows=min(8, rows)))


COMPOSITIONS = (
    "warpgroups, pipeline(stages=4), overlay, roles",
    "warpgroups, pipeline(stages=4), clusters(blocks=2), overlay, roles",
    "warpgroups, persistent(blocks=132), pipeline(stages=3), roles",
    "warpgroups, persistent(blocks=132), pipeline(stages=3), clusters(blocks=2), roles",
)
"""Schedules of a product on an H200, of which the fastest counts, as the fastest configuration of Triton's."""


def _product(name: str, m: int, n: int, k: int, dtype: Any, groups: int = 0) -> LayoutFree:
    """A product, or those of `groups` matrices below each other with a matrix each, which tiles find in a table."""
    bm, bn, bk = 128, 256, 128 // dtype.bytes
    count = max(1, groups)
    tiles = count * m // bm
    order = tile_order(tiles, n // bn)

    def product(a: Any, b: Any, of: Any, c: Any) -> None:
        row, column = order.inv(lego.block_id.x)
        first_row = lego.index(of[row]) * n + column * bn if groups else column * bn
        acc = lego.register(lego.zeros(f32, (bm, bn)))
        for first in lego.range(0, k, bk):
            x = lego.load(a, (bm, bk), at=(row * bm, first))
            y = lego.load(b, (bn, bk), at=(first_row, first))
            acc.set(lego.mma(x, y.T, acc))
        acc.get().to(f16).store(c, at=(row * bm, column * bn))

    def plain(a: Any, b: Any, c: Any) -> None:
        product(a, b, None, c)

    function = product if groups else plain
    function.__name__ = function.__qualname__ = name
    table = {"of": lego.Tensor(i32, Row(tiles), range=(0, groups))} if groups else {}
    function.__annotations__ = {
        "a": lego.Tensor(dtype, Row(count * m, k)), "b": lego.Tensor(dtype, Row(count * n, k)), **table,
        "c": lego.Tensor(f16, Row(count * m, n)),
    }  # fmt: skip
    kernel = lego.kernel(grid=tiles * (n // bn), block=256)(function)

    def inputs(rng: np.random.Generator) -> Arrays:
        a, b = (drawn(rng, count * rows, k).astype(dtype.numpy) for rows in (m, n))
        of = {"of": np.repeat(np.arange(groups, dtype=np.int32), m // bm)} if groups else {}
        return {"a": a, "b": b, **of, "c": np.zeros((count * m, n), np.float16)}

    def expected(g: Arrays) -> Arrays:
        a, b = (g[name].astype(np.float32).reshape(count, -1, k) for name in ("a", "b"))
        return {"c": (a @ b.transpose(0, 2, 1)).reshape(count * m, n)}

    alone = tuple(text for text in COMPOSITIONS if "clusters" not in text)  # tiles next to each other differ in data
    return LayoutFree(kernel, inputs, expected, 1e-2, alone if groups else COMPOSITIONS)


def gemm(m: int, n: int, k: int) -> LayoutFree:
    return _product("gemm", m, n, k, f16)


def fp8_gemm(m: int, n: int, k: int) -> LayoutFree:
    return _product("fp8_gemm", m, n, k, f8e4m3fn)


def grouped_gemm(groups: int, m: int, n: int, k: int) -> LayoutFree:
    return _product("grouped_gemm", m, n, k, f16, groups)


INT4_TILES = ((256, 128, 64), (128, 128, 64), (128, 256, 64), (128, 128, 128))
"""Rows and columns of a block of `int4_gemm`, and numbers along K of a step: the fastest counts."""
INT4_SCHEDULES = ("warpgroups, pipeline(stages=4), overlay, roles", "warpgroups, pipeline(stages=3), overlay, roles")


def _int4_product(m: int, n: int, k: int, tile: tuple[int, int, int]) -> Any:
    """The transpose of a product: weights in registers, where they become halves, are the left operand of `wgmma`."""
    bm, bn, bk = tile
    order = tile_order(m // bm, n // bn)

    @lego.kernel(grid=m // bm * (n // bn), block=256)
    def int4_gemm(a: lego.Tensor(f16, Row(m, k)), b: lego.Tensor(i4, Row(n, k)), c: lego.Tensor(f16, Row(m, n))):
        row, column = order.inv(lego.block_id.x)
        weights = lego.shared(i4, Row(bn, bk), name="weights")
        acc = lego.register(lego.zeros(f32, (bn, bm)))
        for first in lego.range(0, k, bk):
            x = lego.load(a, (bm, bk), at=(row * bm, first))
            lego.copy_async(b.bytes, weights.bytes, at=(column * bn, first // 2))
            lego.commit_copies()
            lego.wait_copies()
            lego.barrier()
            acc.set(lego.mma(lego.load(weights, (bn, bk)).to(f16), x.T, acc))
            lego.barrier()
        acc.get().to(f16).T.store(c, at=(row * bm, column * bn))

    return int4_gemm


def int4_gemm(m: int, n: int, k: int) -> LayoutFree:
    """f16 times signed integers of 4 bits."""
    fitting = [tile for tile in INT4_TILES if not (m % tile[0] or n % tile[1] or k % tile[2])]
    first, *others = (_int4_product(m, n, k, tile) for tile in fitting)

    def inputs(rng: np.random.Generator) -> Arrays:
        b = rng.integers(-128, 128, (n, k // 2)).astype(np.int8)
        return {"a": drawn(rng, m, k, dtype=np.float16), "b": b, "c": np.zeros((m, n), np.float16)}

    def expected(g: Arrays) -> Arrays:
        even, odd = (g["b"].astype(np.int32) + 8) % 16 - 8, g["b"].astype(np.int32) // 16
        numbers = np.stack([even, odd], -1).reshape(n, k)
        return {"c": g["a"].astype(np.float32) @ numbers.T.astype(np.float32)}

    return LayoutFree(first, inputs, expected, 1e-2, INT4_SCHEDULES, tuple(others))


ATTENTION_TILES = ((128, 64, 8), (128, 128, 8), (128, 64, 4), (64, 64, 4))
"""Queries and keys of a block, and its warps: the fastest counts."""


def _attention(name: str, heads: int, positions: int, flexible: bool, tile: tuple[int, int, int]) -> Any:
    """softmax(score(q k^T)) v for heads of 64 features, keys and values in rings of two stages.

    `flexible` scores are causal, with a bias that falls along the keys; the slope depends on the head.
    """
    bm, bn, warps = tile
    features, scale = 64, LOG2E / 8.0
    tensor = lego.Tensor(f16, Row(heads, positions, features))

    def attention(q: Any, k: Any, v: Any, slopes: Any, o: Any) -> None:
        first, head = (lego.cdiv(positions, bm) - 1 - lego.block_id[0]) * bm, lego.block_id[1]
        held, *rings = (lego.shared(f16, gallery.xor_swizzle(n, features, 8, 1, 8)) for n in (bm, 2 * bn, 2 * bn))
        end = lego.minimum(positions, first + bm) if flexible else positions
        whole = lego.minimum(positions, first) // bn if flexible else positions // bn
        zeros, out = lego.zeros(f32, (bm, bn)), lego.register(lego.zeros(f32, (bm, features)))
        best, total = lego.register(lego.full(f32, (bm,), -math.inf)), lego.register(lego.zeros(f32, (bm, 4)))
        slope = slopes[head] * LOG2E if flexible else 0.0

        def fetch(j: Any) -> None:
            for source, ring in zip((k, v), rings, strict=True):
                lego.copy_async(source, ring.part((j % 2 * bn, 0), (bn, features)), at=(head, j * bn, 0))
            lego.commit_copies()

        lego.copy_async(q, held, at=(head, first, 0))
        fetch(0)
        lego.wait_copies()
        lego.barrier()
        queries = lego.load(held, (bm, features))
        for start, stop in ((0, whole), (whole, lego.cdiv(end, bn))):
            for j in lego.range(start, stop):
                keys, values = (ring.part((j % 2 * bn, 0), (bn, features)) for ring in rings)
                lego.wait_copies()
                lego.barrier()
                with lego.when((j + 1) * bn < end):
                    fetch(j + 1)
                s = lego.mma(queries, keys.T, zeros) * scale
                row, column = first + s.index(0), j * bn + s.index(1)
                if flexible:
                    s = s + (column - row).to(f32) * slope
                if start is whole:
                    s = lego.where(
                        (column < positions) & (column <= row) if flexible else column < positions, s, -math.inf
                    )
                new = lego.maximum(best, s.max(axis=1))
                fade = lego.exp2(best - new, fast=True)[:, None]
                best.set(new)
                p = lego.exp2(s - new[:, None], fast=True)
                total.set(total * fade + p.reshape(bm, bn // 8, 4, 2).sum(axis=1).sum(axis=2))
                out.set(lego.mma(p.to(f16), values, out * fade))
        (out * (1.0 / total.sum(axis=1))[:, None]).to(f16).store(o, at=(head, first, 0))

    attention.__name__ = attention.__qualname__ = name
    attention.__annotations__ = {**dict.fromkeys("qkvo", tensor), "slopes": lego.Tensor(f32, Row(heads))}
    return lego.kernel(grid=(lego.cdiv(positions, bm), heads), block=32 * warps)(attention)


def _attending(name: str, heads: int, positions: int, flexible: bool) -> LayoutFree:
    kernels = tuple(_attention(name, heads, positions, flexible, tile) for tile in ATTENTION_TILES)

    def inputs(rng: np.random.Generator) -> Arrays:
        slopes = 2.0 ** (-0.5 * (np.arange(heads, dtype=np.float32) % 16 + 1))
        found = {letter: drawn(rng, heads, positions, 64, dtype=np.float16) for letter in "qkv"}
        return {**found, "slopes": slopes, "o": np.zeros((heads, positions, 64), np.float16)}

    def expected(g: Arrays) -> Arrays:
        q, k, v = (g[letter].astype(np.float32) for letter in "qkv")
        s = q @ k.transpose(0, 2, 1) / 8
        if flexible:
            i = np.arange(positions, dtype=np.float32)
            s = np.where(np.tri(positions), s + (i[None] - i[:, None]) * g["slopes"][:, None, None], -np.inf)
        w = np.exp(s - s.max(-1, keepdims=True))
        return {"o": w @ v / w.sum(-1, keepdims=True)}

    return LayoutFree(kernels[0], inputs, expected, 2e-2, ("warpgroups",), kernels[1:])


def template_attention(heads: int, positions: int) -> LayoutFree:
    return _attending("template_attention", heads, positions, flexible=False)


def flex_attention(heads: int, positions: int) -> LayoutFree:
    return _attending("flex_attention", heads, positions, flexible=True)


CASES: dict[str, tuple[Callable[..., LayoutFree], tuple[tuple[int, ...], ...]]] = {
    "vector_exp": (vector_exp, ((2**24,), (10_000_019,))),
    "softmax": (softmax, ((4096, 1024), (4096, 8192), (4096, 1000))),
    "layer_norm": (layer_norm, ((4096, 1024), (4096, 8192), (4096, 1000))),
    "rms_norm": (rms_norm, ((4096, 1024), (4096, 8192), (4096, 1000))),
    "cross_entropy": (cross_entropy, ((4096, 8192), (4096, 5000))),
    "embedding": (embedding, ((16384, 1024), (16384, 768))),
    "rope": (rope, ((32768, 128), (32768, 256))),
    "swiglu": (swiglu, ((4096, 8192), (4096, 5000))),
    "geglu": (geglu, ((4096, 8192), (4096, 5000))),
    "jagged_sum": (jagged_sum, ((2048, 128), (2048, 96))),
    "sum": (row_sum, ((4096, 8192), (4096, 5000))),
    "welford": (welford, ((4096, 8192), (4096, 3072))),
    "low_mem_dropout": (low_mem_dropout, ((2**24,), (10_000_019,))),
    "gemm": (gemm, ((2048, 2048, 2048), (4096, 4096, 4096))),
    "fp8_gemm": (fp8_gemm, ((2048, 2048, 2048), (4096, 4096, 4096))),
    "int4_gemm": (int4_gemm, ((2048, 2048, 2048), (4096, 4096, 4096))),
    "template_attention": (template_attention, ((64, 4096), (64, 4000))),
    "flex_attention": (flex_attention, ((64, 4096), (64, 4000))),
    "grouped_gemm": (grouped_gemm, ((4, 1024, 1024, 1024), (8, 1024, 2048, 4096))),
}
"""Name -> builder, and the sizes of TritonBench and odd ones."""
