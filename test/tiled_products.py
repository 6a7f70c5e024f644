"""Products as users write them, one step beside the shipped one: what schedules take, and what they compute.

`PRODUCTS[name](m, n, k, tile)` gives a kernel with a tile of the result for each block, and the reference in float64:
the same ones in all tests of a process.
"""

from __future__ import annotations  # texts, which the decorator of a kernel evaluates

import operator
from dataclasses import dataclass
from functools import cache, reduce

import numpy as np
from ptx_runs import memories_of

import lego_mlir as lego
from lego_mlir import Col, Row, f16, f32, i32
from lego_mlir.interp.ptx import PtxRun
from lego_mlir.interp.traced_kernels import run_kernel
from lego_mlir.runtime import data
from lego_mlir.tracing.schedules.composition import parse

BK = 64
CLOSE = 0.02


@dataclass(frozen=True)
class Tile:
    """A block's part of the result, by warps of 64 x `columns` elements."""

    m: int = 128
    n: int = 128
    columns: int = 64

    @property
    def threads(self):
        return self.m * self.n // (64 * self.columns) * 32

    def accumulator(self):
        return lego.accumulator(f32, 64, self.columns)

    def part_of_warp(self):
        """The first row and column of the warp's elements."""
        across = self.n // self.columns
        return lego.warp_id // across * 64, lego.warp_id % across * self.columns

    def operands(self):
        return lego.shared(f16, Row(self.m, BK)), lego.shared(f16, Col(BK, self.n))

    def at(self, m, n):
        """The row and column of the block's tile: blocks that run together have rows and columns in common."""
        return lego.schedule.grouped(m // self.m, n // self.n, rows=16).inv(lego.block_id.x)

    def grid(self, m, n):
        return m // self.m * (n // self.n)

    def multiply(self, a, b, ta, tb, acc, at, k, fill=None):
        """acc += A B, a staged loop; `fill(ta, step)` stores A's tile instead of a copy."""
        row, column = self.part_of_warp()
        for step in lego.range(k // BK):
            if fill is None:
                lego.stage(a, (at[0], step), ta)
            else:
                fill(ta, step)
            lego.stage(b, (step, at[1]), tb)
            lego.barrier()
            lego.mma(ta.part((row, 0), (64, BK)), tb.part((0, column), (BK, self.columns)), acc)
            lego.barrier()

    def chunks(self):
        """The rows and columns of A's tile at which this thread stores 8 elements."""
        positions = (n * self.threads + lego.thread_id.x for n in range(self.m * BK // 8 // self.threads))
        return [(position // (BK // 8), position % (BK // 8) * 8) for position in positions]

    def kept(self, acc, out):
        """The tile of the sums in shared memory."""
        acc.store(out, at=self.part_of_warp())
        lego.barrier()
        return out

    def summed(self, a, b, at, k, fill=None, result=f16):
        """A B in shared memory, of `result`."""
        (ta, tb), out, acc = self.operands(), lego.shared(result, Row(self.m, self.n)), self.accumulator()
        self.multiply(a, b, ta, tb, acc, at, k, fill)
        return self.kept(acc, out)

    def product(self, a, b, c, at, k, fill=None):
        """C = A B."""
        self.store(self.summed(a, b, at, k, fill), c, at)

    def elements(self, width=1):
        """The rows and columns of a tile that this thread visits, `width` columns at once."""
        for step in lego.range(self.m * self.n // self.threads // width):
            position = (step * self.threads + lego.thread_id.x) * width
            yield position // self.n, position % self.n

    def store(self, out, c, at):
        lego.store_tile(out, c, at)


SQUARE = Tile()


def plain(m, n, k, t=SQUARE):
    @lego.kernel(grid=t.grid(m, n), block=t.threads)
    def product(a: lego.Tensor(f16, Row(m, k)), b: lego.Tensor(f16, Col(k, n)), c: lego.Tensor(f16, Row(m, n))):
        t.product(a, b, c, t.at(m, n), k)

    return product, lambda a, b: a @ b


def two_sums(m, n, k, t=SQUARE):
    """A B + A2 B2, in two loops into one sum."""

    @lego.kernel(grid=t.grid(m, n), block=t.threads)
    def product(
        a: lego.Tensor(f16, Row(m, k)), b: lego.Tensor(f16, Col(k, n)), a2: lego.Tensor(f16, Row(m, k)),
        b2: lego.Tensor(f16, Col(k, n)), c: lego.Tensor(f16, Row(m, n)),
    ):  # fmt: skip
        (ta, tb), out, at = t.operands(), lego.shared(f16, Row(t.m, t.n)), t.at(m, n)
        acc = t.accumulator()
        t.multiply(a, b, ta, tb, acc, at, k)
        t.multiply(a2, b2, ta, tb, acc, at, k)
        t.store(t.kept(acc, out), c, at)

    return product, lambda a, b, a2, b2: a @ b + a2 @ b2


def gated(m, n, k, t=SQUARE):
    """silu(A B) * (A B2): the gate of a language model, two products of one loop.

    Its division and exp are approximate, as the result has 11 bits: exact ones are 64 calls for each thread.
    """

    @lego.kernel(grid=t.grid(m, n), block=t.threads, fast=True)
    def product(
        a: lego.Tensor(f16, Row(m, k)), b: lego.Tensor(f16, Col(k, n)), b2: lego.Tensor(f16, Col(k, n)),
        c: lego.Tensor(f16, Row(m, n)),
    ):  # fmt: skip
        (ta, tb), tb2, at = t.operands(), lego.shared(f16, Col(BK, t.n)), t.at(m, n)
        gate, up = lego.shared(f32, Row(t.m, t.n)), lego.shared(f32, Row(t.m, t.n))
        first, second = t.accumulator(), t.accumulator()
        row, column = t.part_of_warp()
        for step in lego.range(k // BK):
            lego.stage(a, (at[0], step), ta)
            lego.stage(b, (step, at[1]), tb)
            lego.stage(b2, (step, at[1]), tb2)
            lego.barrier()
            lego.mma(ta.part((row, 0), (64, BK)), tb.part((0, column), (BK, t.columns)), first)
            lego.mma(ta.part((row, 0), (64, BK)), tb2.part((0, column), (BK, t.columns)), second)
            lego.barrier()
        first.store(gate, at=(row, column))
        second.store(up, at=(row, column))
        lego.barrier()
        lego.store_tile([gate, up], c, at, by=lambda x, y, place: x / (1.0 + lego.exp(-x)) * y)

    return product, lambda a, b, b2: (a @ b) / (1 + np.exp(-(a @ b))) * (a @ b2)


def row_maximum(m, n, k, t=SQUARE):
    """A B, and the maximum of each of its rows in a tile."""

    @lego.kernel(grid=t.grid(m, n), block=t.threads)
    def product(
        a: lego.Tensor(f16, Row(m, k)), b: lego.Tensor(f16, Col(k, n)), c: lego.Tensor(f16, Row(m, n)),
        most: lego.Tensor(f16, Row(m, n // t.n)),
    ):  # fmt: skip
        at = t.at(m, n)
        out = t.summed(a, b, at, k)
        t.store(out, c, at)
        width, rows = t.n // 32, t.m * 32 // t.threads
        for turn in lego.range(rows):
            row = lego.warp_id * rows + turn
            of_lane = list(out.load(row, lego.lane_id * width, width=width))
            best = lego.warp_reduce(reduce(lego.maximum, of_lane), "max")
            with lego.when(lego.lane_id == 0):
                most[at[0] * t.m + row, at[1]] = best

    def reference(a, b):
        return a @ b, (a @ b).reshape(m, n // t.n, t.n).max(2)

    return product, reference


def doubled(m, n, k, t=SQUARE):
    """2 A B, with A doubled by the threads on its way to shared memory."""

    @lego.kernel(grid=t.grid(m, n), block=t.threads)
    def product(a: lego.Tensor(f16, Row(m, k)), b: lego.Tensor(f16, Col(k, n)), c: lego.Tensor(f16, Row(m, n))):
        at = t.at(m, n)

        def fill(ta, step):
            for i, j in t.chunks():
                ta.store(a.load(at[0] * t.m + i, step * BK + j, width=8) * 2.0, i, j)

        t.product(a, b, c, at, k, fill)

    return product, lambda a, b: 2 * a @ b


def biased(m, n, k, t=SQUARE):
    """A B + bias + residual: an epilogue with two loads."""

    @lego.kernel(grid=t.grid(m, n), block=t.threads)
    def product(
        a: lego.Tensor(f16, Row(m, k)), b: lego.Tensor(f16, Col(k, n)), bias: lego.Tensor(f16, Row(n)),
        residual: lego.Tensor(f16, Row(m, n)), c: lego.Tensor(f16, Row(m, n)),
    ):  # fmt: skip
        at = t.at(m, n)
        out = t.summed(a, b, at, k, result=f32)
        lego.store_tile(out, c, at, by=lambda x, place: x + place.by_column(bias).to(f32) + place.of(residual).to(f32))

    return product, lambda a, b, bias, residual: a @ b + bias + residual


def computed(m, n, k, t=SQUARE):
    """relu(x + y) B: the left operand is computed in registers."""

    @lego.kernel(grid=t.grid(m, n), block=t.threads)
    def product(
        x: lego.Tensor(f16, Row(m, k)), y: lego.Tensor(f16, Row(m, k)), b: lego.Tensor(f16, Col(k, n)),
        c: lego.Tensor(f16, Row(m, n)),
    ):  # fmt: skip
        at = t.at(m, n)

        def fill(ta, step):
            for i, j in t.chunks():
                place = at[0] * t.m + i, step * BK + j
                ta.store(lego.maximum(x.load(*place, width=8) + y.load(*place, width=8), 0.0), i, j)

        t.product(None, b, c, at, k, fill)

    return product, lambda x, y, b: np.maximum(x + y, 0) @ b


def gathered(m, n, k, t=SQUARE):
    """A[rows] B, with the rows of A chosen by a tensor of indices."""

    @lego.kernel(grid=t.grid(m, n), block=t.threads)
    def product(
        a: lego.Tensor(f16, Row(m, k)), rows: lego.Tensor(i32, Row(m), range=(0, m)),
        b: lego.Tensor(f16, Col(k, n)), c: lego.Tensor(f16, Row(m, n)),
    ):  # fmt: skip
        at, chunks = t.at(m, n), t.chunks()
        chosen = [rows[at[0] * t.m + i] for i, _ in chunks]

        def fill(ta, step):
            for (i, j), line in zip(chunks, chosen, strict=True):
                ta.store(a.load(line, step * BK + j, width=8), i, j)

        t.product(a, b, c, at, k, fill)

    return product, lambda a, rows, b: a[rows.astype(int)] @ b


def gathered_copies(m, n, k, t=SQUARE):
    """The same by `lego.copy_async`, and rows whose index is negative are zero."""

    @lego.kernel(grid=t.grid(m, n), block=t.threads)
    def product(
        a: lego.Tensor(f16, Row(m, k)), rows: lego.Tensor(i32, Row(m), range=(-1, m)),
        b: lego.Tensor(f16, Col(k, n)), c: lego.Tensor(f16, Row(m, n)),
    ):  # fmt: skip
        (ta, tb), out, at = t.operands(), lego.shared(f16, Row(t.m, t.n)), t.at(m, n)
        acc = t.accumulator()
        row, column = t.part_of_warp()
        for step in lego.range(k // BK):
            lego.copy_async(a, ta, at=lambda r, step=step: (lego.index(rows[at[0] * t.m + r]), step * BK))
            lego.stage(b, (step, at[1]), tb)
            lego.commit_copies()
            lego.wait_copies()
            lego.barrier()
            lego.mma(ta.part((row, 0), (64, BK)), tb.part((0, column), (BK, t.columns)), acc)
            lego.barrier()
        acc.store(out, at=(row, column))
        lego.barrier()
        t.store(out, c, at)

    return product, lambda a, rows, b: np.where(rows[:, None] < 0, 0, a[rows.astype(int)]) @ b


def symmetric(m, n, k, t=SQUARE):
    """The tiles of A A' that reach its diagonal or are below it: a rank-k update that skips the others."""

    @lego.kernel(grid=t.grid(m, m), block=t.threads)
    def product(a: lego.Tensor(f16, Row(m, k)), c: lego.Tensor(f16, Row(m, m))):
        (ta, tb), out, at = t.operands(), lego.shared(f16, Row(t.m, t.n)), t.at(m, m)
        acc = t.accumulator()
        with lego.when(at[1] * t.n < (at[0] + 1) * t.m):
            t.multiply(a, a.T, ta, tb, acc, at, k)
        t.store(t.kept(acc, out), c, at)

    def reference(a):
        whole = a @ a.T
        lower = np.arange(m)[None, :] // t.n * t.n < (np.arange(m)[:, None] // t.m + 1) * t.m
        return np.where(lower, whole, 0)

    return product, reference


def softmax(m, n, k, t=SQUARE):
    """The softmax of the rows of A B, of one tile of columns; exp and division are approximate, as in `gated`."""

    @lego.kernel(grid=m // t.m, block=t.threads, fast=True)
    def product(a: lego.Tensor(f16, Row(m, k)), b: lego.Tensor(f16, Col(k, t.n)), c: lego.Tensor(f16, Row(m, t.n))):
        at = lego.block_id.x, 0
        out = t.summed(a, b, at, k, result=f32)
        rows, columns = t.m * 32 // t.threads, [lego.lane_id * 4 + first for first in range(0, t.n, 128)]
        for turn in lego.range(rows):
            row = lego.warp_id * rows + turn
            parts = [out.load(row, column, width=4) for column in columns]
            best = lego.warp_reduce(reduce(lego.maximum, [x for part in parts for x in part]), "max")
            powers = [lego.exp(part - best) for part in parts]
            total = lego.warp_reduce(reduce(operator.add, [x for part in powers for x in part]))
            for column, part in zip(columns, powers, strict=True):
                c.store((part / total).to(f16), at[0] * t.m + row, column, width=4)

    def reference(a, b):
        e = np.exp(a @ b - (a @ b).max(1, keepdims=True))
        return e / e.sum(1, keepdims=True)

    return product, reference


_ALL = (plain, two_sums, gated, row_maximum, doubled, biased, computed, gathered, gathered_copies, symmetric, softmax)
PRODUCTS = {f.__name__: cache(f) for f in _ALL}


def after(kernel, schedule):
    """The kernel after schedules: those of a process that begin alike have one kernel, traced once."""
    return reduce(_after, parse(schedule), kernel)


@cache
def _after(kernel, schedule):
    return kernel.schedule(schedule)


def inputs(kernel, seed=0):
    """Logical arrays for the parameters that a kernel reads: halves and quarters, so that sums are nearly exact."""
    rng = np.random.default_rng(seed)
    found = {}
    for p in kernel.params:
        shape = p.layout.dims()
        if p.dtype == i32:
            found[p.name] = rng.integers(*(p.values or (0, shape[0])), shape).astype(np.int32)
        elif p.read:
            values = (rng.integers(-8, 9, shape) / 16).astype(np.float16)
            found[p.name] = np.asfortranarray(values) if p.layout == Col(*shape) else values
    return found


def expected(kernel, reference, given):
    """What the kernel stores, by the name of its tensors, in float64."""
    results = reference(*(given[p.name].astype(np.float64) for p in kernel.params if p.name in given))
    names = [p.name for p in kernel.params if p.written]
    return dict(zip(names, results if isinstance(results, tuple) else (results,), strict=True))


def run(kernel, reference, machine, seed=0):
    """The faults of a run on the interpreter or the emulator, and the largest difference to the reference."""
    given = inputs(kernel, seed)
    memories = memories_of(kernel, given)
    report = machine(kernel, memories)
    differences = [0.0]
    for name, want in expected(kernel, reference, given).items():
        (p,) = [p for p in kernel.params if p.name == name]
        found = memories[name][data.positions(p.layout, {})].astype(np.float64)
        differences.append(float(np.abs(found.reshape(want.shape) - want).max()))
    return report.faults, max(differences)


def require(kernel, reference, machine, close=CLOSE):
    """No fault, and results that are right but for their rounding."""
    faults, difference = run(kernel, reference, machine)
    assert not faults, faults[0]
    assert difference <= close


def interpreted(kernel, memories):
    return run_kernel(kernel, memories, counts=False)


def emulated(kernel, memories):
    return PtxRun(target="sm_90a")(kernel, memories, {})
