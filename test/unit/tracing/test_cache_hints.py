"""Hints to caches change instructions and no value; proofs rely on `lego.assume`, and the interpreter checks it."""

import re

import numpy as np
import pytest
from launching import launch, launch_emulated, launch_on_cpu

import lego_mlir as lego
from lego_mlir import Row, f2, f16, f32, f64, i1, i32, u8
from lego_mlir.errors import LayoutError, TraceError
from lego_mlir.expr.verdict import Proved
from lego_mlir.toolchain import compile_kernel
from lego_mlir.tracing.checks.claims import access_verdicts
from lego_mlir.tracing.words.cache_hints import CACHED, EVICTED

HINTS = {kind: [*({"cache": name} for name in CACHED[kind]), *({"evict": name} for name in EVICTED)] for kind in CACHED}


def accesses(kernel, target="sm_80"):
    return re.findall(r"(?:ld|st)\.global(?!\.nc)\S*|prefetch\S*", compile_kernel((kernel,), target=target).text)


@pytest.mark.parametrize("dtype", [i1, u8, f16, f32, f64], ids=str)
def test_hinted_accesses_of_each_width_move_the_same_bytes(dtype):
    """One after the other all hints; each width is in one kernel, at offsets that a mask cuts off."""
    widths = [w for w in (1, 2, 4, 8, 16) if w * dtype.bytes <= 16]
    n = 16 * 31

    @lego.kernel(grid=1, block=32)
    def k(x: lego.Tensor(dtype, Row(n)), y: lego.Tensor(dtype, Row(len(widths), n))):
        t, padded = lego.thread_id[0], x.tile_by([32], [16])
        for row, w in enumerate(widths):
            for number, start in enumerate(range(0, 16, w)):
                loads, stores = (HINTS[kind][number % len(HINTS[kind])] for kind in ("load", "store"))
                value = padded.load(t, start, width=w, **loads)
                with lego.when(t < 31):
                    y.store(value, row, t * 16 + start, **stores)

    x = np.random.default_rng(1).integers(0, 2 if dtype is i1 else 200, n)
    expected = np.stack([x.astype(dtype.numpy)] * len(widths))
    for run in (launch, launch_on_cpu, launch_emulated):
        np.testing.assert_array_equal(run(k, x, np.zeros((len(widths), n)))[1], expected)


@pytest.mark.parametrize(("kind", "hint"), [(kind, hint) for kind in HINTS for hint in HINTS[kind]], ids=str)
def test_a_hint_is_a_modifier_of_the_instruction(kind, hint):
    @lego.kernel(grid=1, block=32)
    def k(x: lego.Tensor(f32, Row(128)), y: lego.Tensor(f32, Row(128))):
        i = 4 * lego.thread_id[0]
        y.store(x.load(i, width=4, **(hint if kind == "load" else {})), i, **(hint if kind == "store" else {}))

    (name,) = hint.values()
    modifier = (CACHED[kind] if "cache" in hint else EVICTED)[name]
    mnemonic = {"load": "ld", "store": "st"}[kind]
    assert f"{mnemonic}.global.{modifier}.v4.b32" in accesses(k)
    assert (f"{mnemonic}.global.{modifier}.v4.b32" in accesses(k, "sm_75")) == ("cache" in hint)


def test_tiles_take_hints_for_all_their_accesses():
    layout = f2.Blocked((4,), (32,), (1,), order=(0,)).layout((256,))

    @lego.kernel(grid=1, block=32)
    def k(x: lego.Tensor(f16, Row(250)), y: lego.Tensor(f16, Row(250))):
        lego.load(x, layout, evict="first").store(y, cache="streaming")

    found = accesses(k)
    assert found and all(".L1::evict_first" in a if a.startswith("ld") else ".cs" in a for a in found)
    x = np.arange(250)
    for run in (launch, launch_emulated):
        np.testing.assert_array_equal(run(k, x, 0 * x)[1], x)


@pytest.mark.parametrize("level", ["l1", "l2"])
def test_prefetches_do_nothing_outside_of_the_tensor(level):
    @lego.kernel(grid=2, block=32)
    def k(x: lego.Tensor(f32, Row(64)), y: lego.Tensor(f32, Row(64))):
        i = lego.block_id[0] * 32 + lego.thread_id[0]
        lego.prefetch(x, i + 32, level)
        y[i] = x[i]

    assert f"prefetch.global.{level.upper()}" in accesses(k)
    x = np.arange(64)
    for run in (launch, launch_on_cpu, launch_emulated):
        np.testing.assert_array_equal(run(k, x, 0 * x)[1], x)


@pytest.mark.parametrize(
    ("access", "pattern"),
    [
        (lambda x, s: x.load(0, cache="stream"), "x: cache of a load is one of l2, streaming, last_use, got 'stream'"),
        (lambda x, s: x.store(0.0, 0, cache="last_use"), "x: cache of a store is one of l2, streaming, through"),
        (lambda x, s: x.load(0, evict="early"), "x: evict of a load is one of first, last, unchanged, none"),
        (lambda x, s: x.load(0, cache="l2", evict="first"), "cache='l2' or evict='first', not both"),
        (lambda x, s: s.load(0, cache="l2"), "tile: cache='l2' is of tensors; shared memory has no cache"),
        (lambda x, s: lego.prefetch(s, 0), "lego.prefetch takes a tensor of the kernel"),
        (lambda x, s: lego.prefetch(x, 0, "l3"), "lego.prefetch: level is one of l1, l2, got 'l3'"),
        (lambda x, s: lego.assume(x[0], aligned=4), "lego.assume takes one integer of the kernel's data"),
        (lambda x, s: lego.assume(x[0].to(i32), aligned=0), "aligned=0 is a positive int"),
        (lambda x, s: lego.assume(x[0].to(i32), aligned=4, range=(2, 8)), r"begins at 2, which is not proved to be a"),
    ],
)
def test_refused_hints(access, pattern):
    @lego.kernel(grid=1, block=32)
    def k(x: lego.Tensor(f32, Row(64))):
        access(x, lego.shared(f32, Row(32), name="tile"))

    with pytest.raises(TraceError, match=pattern):
        k.trace()


def offset_kernel(of):
    @lego.kernel(grid=1, block=32)
    def k(first: lego.Tensor(i32, Row(32)), x: lego.Tensor(f32, Row(256)), y: lego.Tensor(f32, Row(128))):
        t = lego.thread_id[0]
        y.store(x.load(of(first[t]), width=4), 4 * t)

    return k


def test_an_assumed_multiple_grants_a_vector_and_is_checked():
    with pytest.raises(LayoutError, match=r"not (inside|aligned)"):
        offset_kernel(lego.index).trace()
    k = offset_kernel(lambda v: lego.assume(v, aligned=4, range=(0, 256)))
    assert all(isinstance(verdict, Proved) for _, verdict in access_verdicts(k.trace(), 1000))
    first, x = np.random.default_rng(2).permutation(64)[:32] * 4, np.arange(256)
    for run in (launch, launch_on_cpu, launch_emulated):
        np.testing.assert_array_equal(run(k, first, x, np.zeros(128))[2], (first[:, None] + np.arange(4)).ravel())
    first[7] += 2
    with pytest.raises(AssertionError, match="a multiple of 4"):
        launch(k, first, x, np.zeros(128))


@pytest.mark.parametrize(("dtype", "aligned"), [(u8, 16), (i32, 12)], ids=str)
def test_a_multiple_without_a_range_has_that_of_the_type(dtype, aligned):
    @lego.kernel(grid=1, block=32)
    def k(first: lego.Tensor(dtype, Row(32)), y: lego.Tensor(i32, Row(32))):
        t = lego.thread_id[0]
        y[t] = i32(lego.assume(first[t], aligned=aligned))

    first = np.arange(32) % 8 * aligned
    np.testing.assert_array_equal(launch(k, first, 0 * first)[1], first)
    first[3] += 1
    with pytest.raises(AssertionError, match=f"a multiple of {aligned}"):
        launch(k, first, 0 * first)
