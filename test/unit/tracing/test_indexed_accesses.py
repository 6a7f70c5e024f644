"""Accesses by tiles of indices are NumPy's fancy indexing, on random layouts, with masks and copies."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from launching import launch, launch_emulated, launch_on_cpu
from spread_strategies import layouts

import lego_mlir as lego
from lego_mlir import Row, f2, f16, f32, i32, size
from lego_mlir.errors import TraceError
from lego_mlir.expr.verdict import Proved
from lego_mlir.toolchain import compile_kernel
from lego_mlir.tracing.checks.claims import access_verdicts

BLOCKED = f2.Blocked((1, 4), (4, 8), (4, 1), order=(1, 0))
TILE = BLOCKED.layout((16, 32))
ROWS = f2.Sliced(1, BLOCKED).layout((16,))


def moves(layout, elements):
    """Gather, scatter and count by one tile of indices, each under a mask."""
    shape = tuple(layout.out_sizes.values())

    @lego.kernel(grid=1, block=32 * layout.in_sizes["warp"])
    def k(
        at: lego.Tensor(i32, Row(*shape), range=(0, elements)),
        to: lego.Tensor(i32, Row(*shape), range=(0, elements)),
        x: lego.Tensor(f32, Row(elements)),
        y: lego.Tensor(f32, Row(*shape)),
        z: lego.Tensor(f32, Row(elements)),
        counts: lego.Tensor(i32, Row(elements)),
    ):
        i, j = lego.load(at, layout), lego.load(to, layout)
        value = x.load(i, mask=i % 3 != 0, other=-1)
        value.store(y)
        z.store(value, j, mask=j % 2 == 0)
        counts.atomic_add(i, i, mask=i > 4)

    return k


def expected(at, to, x):
    value = np.where(at % 3 != 0, x[at], -1)
    z, counts = np.zeros(len(x)), np.zeros(len(x), np.int64)
    z[to[to % 2 == 0]] = value[to % 2 == 0]
    np.add.at(counts, at[at > 4], at[at > 4])
    return value, z, counts


def check(layout, run, seed=0):
    shape = tuple(layout.out_sizes.values())
    draws, n = np.random.default_rng(seed), int(np.prod(shape)) + 7
    at, to = draws.integers(0, n, shape), draws.permutation(n)[: np.prod(shape)].reshape(shape)
    x = draws.integers(0, 100, n)
    *_, y, z, counts = run(moves(layout, n), at, to, x, np.zeros(shape), np.zeros(n), np.zeros(n))
    for found, wanted in zip((y, z, counts), expected(at, to, x), strict=True):
        np.testing.assert_array_equal(found, wanted)


@settings(max_examples=8, deadline=None)
@given(layout=layouts(), seed=st.integers(0, 99))
def test_random_layouts(layout, seed):
    check(layout, launch, seed)


@pytest.mark.parametrize("run", [launch_on_cpu, launch_emulated])
def test_other_backends(run):
    check(TILE, run)
    check(f2.MmaOperand(0, f2.MmaSync((2, 1))).layout((32, 16)), run)


def test_rows_selected_by_data_are_loaded_in_vectors():
    """The paged tile: row numbers from memory, and consecutive columns, at any size."""
    M = size("M", min=1)

    @lego.kernel(grid=1, block=128)
    def k(
        rows: lego.Tensor(i32, Row(16), range=(0, M)), x: lego.Tensor(f16, Row(M, 64)), y: lego.Tensor(f16, Row(16, 32))
    ):
        r = lego.load(rows, ROWS)[:, None]
        x[r, 32 + lego.arange(TILE, 1)].store(y)

    text = compile_kernel((k,), target="sm_80").text
    assert re.findall(r"ld\.global(?:\.nc)?\.v\d\.b\d+", text) == ["ld.global.v2.b32"]
    draws = np.random.default_rng(1)
    rows, x = draws.integers(0, 50, 16), draws.integers(0, 99, (50, 64))
    *_, y = launch(k, rows, x, np.zeros((16, 32)), sizes={"M": 50})
    np.testing.assert_array_equal(y, x[rows, 32:])


def test_a_mask_guards_indices_that_are_outside():
    N = size("N", min=1)
    layout = f2.Blocked((4,), (32,), (4,), order=(0,)).layout((512,))

    @lego.kernel(grid=lego.cdiv(N, 512), block=128)
    def k(x: lego.Tensor(f32, Row(N)), y: lego.Tensor(f32, Row(N))):
        i = lego.block_id[0] * 512 + lego.arange(layout)
        y.store(2 * x.load(i, mask=i < N), i, mask=i < N)

    assert all(isinstance(verdict, Proved) for _, verdict in access_verdicts(k.trace(), 1000))
    x = np.arange(777.0)
    np.testing.assert_array_equal(launch(k, x, 0 * x, sizes={"N": 777})[1], 2 * x)


def test_old_values_of_updates_are_a_tile_where_no_thread_shares_elements():
    layout = f2.Blocked((2,), (32,), (2,), order=(0,)).layout((128,))

    @lego.kernel(grid=1, block=64)
    def k(y: lego.Tensor(i32, Row(128)), old: lego.Tensor(i32, Row(128))):
        i = lego.arange(layout)
        y.atomic_add(5, i, mask=i < 100).store(old)

    for run in (launch, launch_emulated):
        y, old = run(k, np.arange(128), np.zeros(128))
        np.testing.assert_array_equal(y, np.arange(128) + 5 * (np.arange(128) < 100))
        np.testing.assert_array_equal(old, np.where(np.arange(128) < 100, np.arange(128), 0))


@pytest.mark.parametrize(
    ("access", "pattern"),
    [
        (lambda x, i: x[i.to(f32)], "a tile of indices has integers, got .*convert it with .to"),
        (lambda x, i: x.load(i, mask=i), "a mask has conditions, such as i < n"),
        (lambda x, i: x.load(i, width=4), "a tile of indices is accessed in the widest way; leave out width"),
        (lambda x, i: x.load(3, mask=i < 3), "mask is of a tile of indices; write `with lego.when"),
        (lambda x, i: x.atomic_add(1.0, 3, mask=i < 3), "mask is of a tile of indices; write `with lego.when"),
    ],
)
def test_refused(access, pattern):
    @lego.kernel(grid=1, block=128)
    def k(x: lego.Tensor(f32, Row(16)), rows: lego.Tensor(i32, Row(16), range=(0, 16))):
        access(x, lego.load(rows, ROWS))

    with pytest.raises(TraceError, match=pattern):
        k.trace()
