"""Clusters of blocks: run in the interpreter, where every planted fault is found, and as PTX in the emulator."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from cluster_kernels import BLOCKS, THREADS, K, M, N, product, sums

import lego_mlir as lego
from lego_mlir import Row, f16, f32, gallery, i32, spec
from lego_mlir.errors import ToolchainError, UsageError
from lego_mlir.hardware.targets import target_named
from lego_mlir.interp.ptx.traced_ptx import PtxRun
from lego_mlir.interp.report import Kind
from lego_mlir.interp.traced_kernels import run_kernel
from lego_mlir.toolchain.ptxas import assemble, find

EXAMPLES = Path(__file__).parents[3] / "examples"


def data():
    x = np.random.default_rng(0).standard_normal(2 * BLOCKS * THREADS).astype(np.float32)
    return {"x": x, "y": np.zeros(2 * BLOCKS, np.float32)}, np.repeat(x.reshape(2, -1).sum(1), BLOCKS)


@pytest.mark.parametrize("remote_store", [False, True])
@pytest.mark.parametrize("on", [run_kernel, lambda k, a: PtxRun("sm_90")(k, a, {})], ids=["interpreter", "ptx"])
def test_blocks_of_a_cluster_add_their_parts(on, remote_store):
    arrays, expected = data()
    report = on(sums(remote_store=remote_store), arrays)
    assert report.faults == []
    assert np.allclose(arrays["y"], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("planted", "kind", "words"),
    [
        ({"first": False}, Kind.RACE, "write of part[1], read by warp 0 of block (0, 0, 0)"),
        ({"first": False, "remote_store": True}, Kind.RACE, "written by warp 0 of block (0, 0, 0)"),
        ({"last": False}, Kind.ENDED, "block (0, 0, 0) may end while its part[0] is read by block (3, 0, 0)"),
        ({"rank": lambda b: 0}, Kind.UNINITIALISED, "read of part[0], which nothing has written"),
    ],
)
def test_planted_faults_are_found(planted, kind, words):
    arrays, _ = data()
    report = run_kernel(sums(**planted), arrays)
    found = [fault for fault in report.faults if fault.kind is kind and words in fault.message]
    assert found, [(fault.kind, fault.message) for fault in report.faults]
    assert found[0].place.file.endswith("cluster_kernels.py")


def folded(op, turns):
    """Each turn combines a number of each block of a cluster of three, and the next one depends on it."""

    @lego.kernel(grid=6, block=THREADS, cluster=3)
    def combined(x: lego.Tensor(f32, Row(6)), y: lego.Tensor(f32, Row(6))):
        value = lego.register(f32, x[lego.block_id[0]])
        left = lego.register(i32, turns)
        going = lego.register(lego.i1, True)
        with lego.while_(going):
            value.set(lego.cluster_reduce(value.get() + f32(lego.cluster_rank), op))
            left -= 1
            going.set(left.get() > 0)
        with lego.when(lego.thread_id[0] < 1):
            y[lego.block_id[0]] = value.get()

    return combined


@pytest.mark.parametrize(("op", "fold"), [("add", np.sum), ("max", np.max), ("mul", np.prod)])
@pytest.mark.parametrize("turns", [1, 3])
@pytest.mark.parametrize("on", [run_kernel, lambda k, a: PtxRun("sm_90")(k, a, {})], ids=["interpreter", "ptx"])
def test_numbers_of_blocks_are_combined(on, op, fold, turns):
    arrays = {"x": np.arange(1, 7, dtype=np.float32), "y": np.zeros(6, np.float32)}
    expected = arrays["x"].reshape(2, 3)
    for _ in range(turns):
        expected = np.repeat(fold(expected + np.arange(3), axis=1, keepdims=True), 3, axis=1)
    report = on(folded(op, turns), arrays)
    assert report.faults == []
    np.testing.assert_allclose(arrays["y"], expected.reshape(-1), rtol=1e-6)


def test_vectors_of_blocks_are_combined():
    @lego.kernel(grid=4, block=32, cluster=2)
    def added(x: lego.Tensor(f32, Row(4, 4)), y: lego.Tensor(f32, Row(4, 4))):
        total = lego.cluster_reduce(x.load(lego.block_id[0], 0, width=4))
        with lego.when(lego.thread_id[0] < 1):
            y.store(total, lego.block_id[0], 0)

    x = np.arange(16, dtype=np.float32).reshape(4, 4)
    found = added(x, check=True)
    np.testing.assert_array_equal(found, x.reshape(2, 2, 4).sum(1).repeat(2, axis=0))


def test_a_block_that_has_ended_has_no_memory():
    @lego.kernel(grid=2, block=32, cluster=2)
    def late(y: lego.Tensor(f32, Row(64))):
        tile = lego.shared(f32, Row(32), "tile")
        tile[lego.thread_id[0]] = 1.0
        lego.cluster_barrier()
        with lego.when(lego.cluster_rank < 1):
            y[lego.thread_id[0]] = tile.of_block(1)[lego.thread_id[0]]

    report = run_kernel(late, {"y": np.zeros(64, np.float32)})
    assert [f.message for f in report.faults if f.kind is Kind.ENDED] == [
        "read of tile of block (1, 0, 0), which has ended; a barrier of the cluster must follow the last access"
    ]


def test_a_barrier_that_a_block_skips_is_a_deadlock():
    @lego.kernel(grid=4, block=32, cluster=2)
    def skipped(y: lego.Tensor(f32, Row(4))):
        with lego.when(lego.cluster_rank < 1):
            lego.cluster_barrier()
        with lego.when(lego.thread_id[0] < 1):
            y[lego.block_id[0]] = 1.0

    report = run_kernel(skipped, {"y": np.zeros(4, np.float32)})
    (fault,) = report.faults
    assert fault.kind is Kind.DEADLOCK and fault.count == 2
    assert fault.message == (
        "the wait hangs: block (1, 0, 0) did not arrive at the barrier of the cluster; block (1, 0, 0) ended without it"
    )


def test_ranks_and_places_follow_the_hardware():
    @lego.kernel(grid=(4, 6, 2), block=32, cluster=(2, 3, 1))
    def numbered(y: lego.Tensor(i32, Row(2, 6, 4))):
        x, column, z = lego.block_in_cluster
        with lego.when(lego.thread_id[0] < 1):
            place = lego.block_id[2], lego.block_id[1], lego.block_id[0]
            y[place] = lego.i32(100 * lego.cluster_rank + 10 * x + column + z)
        lego.cluster_barrier()

    y, z = np.zeros(48, np.int32), np.zeros(48, np.int32)
    assert run_kernel(numbered, {"y": y}).faults == []
    row, column = np.mgrid[:6, :4] % np.array([3, 2])[:, None, None]
    assert np.array_equal(y.reshape(2, 6, 4)[1], 100 * (column + 2 * row) + 10 * column + row)
    assert PtxRun("sm_90")(numbered, {"y": z}, {}).faults == []
    assert np.array_equal(y, z)


def test_order_of_global_memory_within_a_cluster():
    @lego.kernel(grid=4, block=32, cluster=2)
    def exchanged(x: lego.Tensor(f32, Row(128))):
        here, there = lego.block_id[0] * 32, lego.block_id[0] // 2 * 64 + 32 * (1 - lego.cluster_rank)
        x[here + lego.thread_id[0]] = lego.f32(lego.block_id[0])
        lego.cluster_barrier()
        value = x[there + lego.thread_id[0]]
        lego.cluster_barrier()
        x[here + lego.thread_id[0]] = value

    x = np.zeros(128, np.float32)
    assert run_kernel(exchanged, {"x": x}).faults == []
    assert np.array_equal(x[::32], [1, 0, 3, 2])


def test_global_memory_of_another_cluster_is_a_race():
    @lego.kernel(grid=4, block=32, cluster=2)
    def exchanged(x: lego.Tensor(f32, Row(128)), y: lego.Tensor(f32, Row(128))):
        x[lego.block_id[0] * 32 + lego.thread_id[0]] = 1.0
        lego.cluster_barrier()
        y[lego.block_id[0] * 32 + lego.thread_id[0]] = x[(3 - lego.block_id[0]) * 32 + lego.thread_id[0]]

    report = run_kernel(exchanged, {"x": np.zeros(128, np.float32), "y": np.zeros(128, np.float32)})
    assert any(f.kind is Kind.RACE and "of block" in f.message for f in report.faults)


def test_a_cluster_of_one_block_runs_everywhere():
    @lego.kernel(grid=4, block=32, cluster=(1,))
    def alone(y: lego.Tensor(f32, Row(128))):
        tile = lego.shared(f32, Row(32), "tile")
        tile[lego.thread_id[0]] = lego.f32(lego.thread_id[0])
        lego.cluster_barrier()
        y[lego.block_id[0] * 32 + lego.thread_id[0]] = tile.of_block(lego.cluster_rank)[31 - lego.thread_id[0]]

    assert "cluster" not in alone.mlir(locations=False)
    y = np.zeros(128, np.float32)
    alone(y)
    assert np.array_equal(y, np.tile(np.arange(32)[::-1], 4))
    assert "cluster" not in alone.compile(target="sm_80").text


def test_targets_without_clusters_and_the_cpu_refuse():
    with pytest.raises(ToolchainError, match=r"clusters of \(4, 1, 1\) blocks, and sm_80 has no clusters; compile for"):
        sums().compile(target="sm_80")
    arrays, expected = data()
    with pytest.raises(UsageError, match=r"a CPU runs them one after the other; run it in the interpreter"):
        sums()(arrays["x"], arrays["y"])
    assert np.allclose(sums()(arrays["x"], arrays["y"], check=True), expected, rtol=1e-4, atol=1e-4)


def test_the_manifest_has_the_grid_of_blocks():
    (entry,) = sums().compile(target="sm_90a").manifest["kernels"]
    assert entry["grid"] == [8] and entry["cluster"] == 4  # blocks of a cluster are counted in the grid


def test_the_softmax_of_the_examples():
    kernel = spec.load(EXAMPLES / "cluster_softmax.py").kernels["softmax"]
    x, y = np.random.default_rng(1).standard_normal((6, 8192)).astype(np.float32), np.zeros((6, 8192), np.float32)
    assert run_kernel(kernel, {"x": x.reshape(-1), "y": y.reshape(-1)}, blocks=1).faults == []
    assert np.allclose(y[:1], kernel.expected(x)[:1], rtol=1e-5)


def factors():
    random = np.random.default_rng(2)
    a, b = random.integers(-2, 3, (M, K)).astype(np.float16), random.integers(-2, 3, (K, N)).astype(np.float16)
    return {"a": a.reshape(-1), "b": b.reshape(-1), "c": np.zeros(M * N, np.float32)}, a.astype(int) @ b.astype(int)


@pytest.mark.parametrize(
    "masks", [{}, {"mask": 3}, {"second_mask": lambda: 1 + lego.cluster_rank}], ids=["all", "3", "own"]
)
@pytest.mark.parametrize("on", [run_kernel, lambda k, a: PtxRun("sm_90a")(k, a, {})], ids=["interpreter", "ptx"])
def test_blocks_copy_parts_of_a_tile_for_each_other(on, masks):
    arrays, expected = factors()
    assert on(product(stages=1, **masks), arrays).faults == []
    assert np.array_equal(arrays["c"].reshape(M, N), expected)


@pytest.mark.parametrize(
    ("planted", "kind", "words"),
    [
        ({"arrivals": 1}, Kind.MBARRIER, "1 arrivals at barrier 0, whose phase has 0 of 1 left"),
        ({"arrivals": 3}, Kind.DEADLOCK, "1 of the 3 arrivals of phase 0 of barrier 0 are missing, and all that runs"),
        ({"released": "own"}, Kind.DEADLOCK, "2 of the 4 arrivals of phase 0"),
        ({"released": "zero"}, Kind.DEADLOCK, "4 of the 4 arrivals of phase 0"),
        ({"meet": False}, Kind.RACE, "barrier 0 of block (1, 0, 0) is used with no barrier of the cluster after"),
        ({"last": False}, Kind.ENDED, "block (1, 0, 0) may end before block (0, 0, 0) arrives at its barrier"),
        ({"mask": 1}, Kind.UNINITIALISED, "read of left[0], which nothing has written"),
        ({"rows": 0}, Kind.RACE, "written by a copy of warp 2 of block (1, 0, 0)"),
        ({"empty_wait": False}, Kind.RACE, "asynchronous copy of left["),
    ],
)
def test_planted_faults_of_a_product_are_found(planted, kind, words):
    arrays, _ = factors()
    report = run_kernel(product(**{"stages": 1, **planted}), arrays)
    assert any(f.kind is kind and words in f.message for f in report.faults), [str(f) for f in report.faults]


def test_the_scope_of_arrivals_and_waits():
    """Copies by the tensor unit need the scope of a block; data that threads store, that of the cluster."""
    text = product().compile(target="sm_90a").text
    assert "multicast::cluster" in text and "mbarrier.arrive.shared::cluster.b64" in text
    assert ".acquire.cluster" not in text

    @lego.kernel(grid=2, block=64, cluster=2)
    def passed(y: lego.Tensor(f32, Row(64))):
        tile, full = lego.shared(f32, Row(32), "tile"), lego.barriers(1, arrivals=1)
        lego.cluster_barrier()
        with lego.warps(0, 1):
            there = 1 - lego.cluster_rank
            tile.of_block(there)[lego.lane_id] = lego.f32(lego.cluster_rank)
            full[0].arrive(block=there)
        with lego.warps(1, 2):
            full[0].wait()
            y[lego.block_id[0] * 32 + lego.lane_id] = tile[lego.lane_id]
        lego.cluster_barrier()

    text = passed.compile(target="sm_90").text
    assert "try_wait.parity.acquire.cluster.shared::cta" in text and "arrive.release.cluster.shared::cluster" in text
    for run in (run_kernel, lambda k, a: PtxRun("sm_90")(k, a, {})):
        y = np.zeros(64, np.float32)
        assert run(passed, {"y": y}).faults == []
        assert np.array_equal(y, np.repeat([1, 0], 32))


@pytest.mark.skipif(find() is None, reason="needs ptxas")
@pytest.mark.parametrize("kernel", [sums(), sums(remote_store=True), product()], ids=["loads", "stores", "multicast"])
def test_ptxas_assembles_clusters(kernel):
    cubin, _ = assemble(kernel.compile(target="sm_90a").text, target_named("sm_90a"))
    assert cubin[:4] == b"\x7fELF"


@pytest.mark.parametrize(
    ("planted", "kinds"),
    [
        ({"arrivals": 1}, {Kind.MBARRIER}),
        ({"released": "own"}, {Kind.DEADLOCK}),
        ({"meet": False}, {Kind.RACE, Kind.MBARRIER}),
        ({"last": False}, {Kind.RACE}),
    ],
)
def test_planted_faults_are_found_in_compiled_code(planted, kinds):
    arrays, _ = factors()
    assert PtxRun("sm_90a")(product(**{"stages": 1, **planted}), arrays, {}).kinds() & kinds


@pytest.mark.parametrize(
    "run", [run_kernel, lambda k, arrays: PtxRun("sm_90a")(k, arrays, {})], ids=["interpreted", "emulated"]
)
def test_the_product_of_the_examples_multiplies_by_warpgroups(run):
    kernel = spec.load(EXAMPLES / "cluster_product.py").kernels["product"]
    text = kernel.compile(target="sm_90a").text
    assert "wgmma.mma_async" in text and "multicast::cluster" in text
    random = np.random.default_rng(4)
    a, b = random.integers(-2, 3, (96, 160)).astype(np.float16), random.integers(-2, 3, (160, 200)).astype(np.float16)
    c = np.zeros((96, 200), np.float32)
    assert run(kernel, {"a": a.reshape(-1), "b": b.reshape(-1), "c": c.reshape(-1)}).faults == []
    assert np.array_equal(c, a.astype(int) @ b.astype(int))


def test_a_copy_to_several_blocks_is_one_request():
    arrays, _ = factors()
    moved = {traffic.name: (traffic.moved, traffic.compulsory) for traffic in run_kernel(product(), arrays).buffers}
    assert moved["a"] == (2 * M * K, 2 * M * K)


@pytest.mark.parametrize("meet", [True, False])
def test_atomic_updates_of_a_block_are_ordered_with_reads_of_others(meet):
    @lego.kernel(grid=2, block=64, cluster=2)
    def histogram(x: lego.Tensor(i32, Row(128), range=(0, 8)), y: lego.Tensor(i32, Row(8))):
        counts, thread = lego.shared(i32, Row(8), "counts"), lego.thread_id[0]
        with lego.when(thread < 8):
            counts[thread] = 0
        lego.barrier()
        counts.atomic_add(1, lego.index(x[lego.block_id[0] * 64 + thread]))
        if meet:
            lego.cluster_barrier()
        with lego.when(thread < 4):
            bin = lego.cluster_rank * 4 + thread
            y[bin] = counts.of_block(0)[bin] + counts.of_block(1)[bin]
        lego.cluster_barrier()

    x, y = np.random.default_rng(3).integers(0, 8, 128).astype(np.int32), np.zeros(8, np.int32)
    report = run_kernel(histogram, {"x": x, "y": y})
    if meet:
        assert report.faults == [] and np.array_equal(y, np.bincount(x, minlength=8))
    else:
        assert Kind.RACE in report.kinds()


@pytest.mark.skipif(shutil.which("mlir-opt-22") is None, reason="needs mlir-opt-22")
@pytest.mark.parametrize("kernel", [sums(), product()], ids=["loads", "multicast"])
def test_another_mlir_verifies_the_module(kernel):
    done = subprocess.run(["mlir-opt-22"], input=kernel.mlir(), capture_output=True, text=True, check=True)
    assert "lego.of_block" in done.stdout and "known_cluster_size" in done.stdout


def halves(*, after=True, all_blocks=True):
    """Two blocks copy half of a tile each to both, and arrive after the copy or before, at all barriers or one."""

    @lego.kernel(grid=2, block=64, cluster=2)
    def copied(x: lego.Tensor(f16, Row(64, 64)), y: lego.Tensor(f16, Row(2, 64, 32))):
        tile = lego.shared(f16, gallery.xor_swizzle(64, 64, 8), "tile")
        full = lego.barriers(1, arrivals=2 if all_blocks else 1)
        lego.cluster_barrier()
        with lego.warps(0, 1):
            top = lego.cluster_rank * 32
            for copies in (True, False) if after else (False, True):
                if copies:
                    part = tile.part((top, 0), (32, 64))
                    lego.copy_async(x, part, at=(top, 0), barrier=full[0], blocks="all")
                for r in () if copies else lego.unroll(2) if all_blocks else (lego.cluster_rank,):
                    full[0].arrive(block=r)
        with lego.warps(1, 2):
            full[0].wait()
            for row in lego.range(64):
                y[lego.cluster_rank, row, lego.lane_id] = tile[row, lego.lane_id]
        lego.cluster_barrier()

    return copied


@pytest.mark.parametrize("on", [run_kernel, lambda k, a: PtxRun("sm_90a")(k, a, {})], ids=["interpreter", "ptx"])
def test_a_phase_that_may_end_before_a_copy_of_another_block_is_found(on):
    def run(**options):
        x, y = np.arange(64 * 64).astype(np.float16), np.zeros(2 * 64 * 32, np.float16)
        return on(halves(**options), {"x": x, "y": y}), x, y

    report, x, y = run()
    assert not report.faults
    assert np.array_equal(y.reshape(2, 64, 32)[1], x.reshape(64, 64)[:, :32])
    found = run(all_blocks=False)[0].faults
    assert {fault.kind for fault in found} == {Kind.MBARRIER} and "so that the phase may end before" in found[0].message
    assert run(after=False)[0].faults


@lego.kernel(grid=2, block=64, cluster=2)
def signalled(y: lego.Tensor(f32, Row(128))):
    signal = lego.barriers(1, arrivals=2)
    for _ in range(2):
        lego.cluster_barrier()
    with lego.when(lego.cluster_rank == 0):
        signal[0].arrive(1)
    with lego.when(lego.cluster_rank == 1):
        signal[0].wait()
    y[lego.block_id[0] * 64 + lego.thread_id[0]] = 1.0
    lego.cluster_barrier()


ARRIVE, WAIT = "nvvm.cluster.arrive\n", "nvvm.cluster.wait\n"


def divided(between):
    """The kernel with other halves of its second barrier before the signal, and the wait for it after the signal."""
    whole = "nvvm.cluster.arrive\n      nvvm.cluster.wait\n"
    head, first, middle, tail = signalled.mlir(locations=False).split(whole)
    signal, store, rest = middle.partition("%cst = ")
    return f"{head}{whole}{first}{between}{signal}nvvm.cluster.wait\n{store}{rest}{whole}{tail}"


@pytest.mark.parametrize(
    ("arrivals", "words"),
    [(1, None), (0, "waits at the barrier of its cluster without having"), (2, "its cluster twice without a wait")],
)
def test_a_block_may_wait_for_its_cluster_long_after_it_has_arrived(arrivals, words):
    y = np.zeros(128, np.float32)
    report = run_kernel(signalled, {"y": y}, module=divided("nvvm.cluster.arrive\n" * arrivals))
    if words is None:
        assert report.faults == []
        assert (y == 1).all()
    else:
        assert any(fault.kind is Kind.BARRIER and words in fault.message for fault in report.faults), report.faults
