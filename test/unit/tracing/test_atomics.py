"""Atomic updates of tensors and tiles: values, races, counts, PTX, the CPU path."""

import re

import numpy as np
import pytest
from assembling import assemble, needs_ptxas
from command_line import output_of
from launching import launch, launch_emulated, launch_on_cpu

import lego_mlir as lego
from lego_mlir import Row, bf16, f16, f32, f64, i8, i32, i64, interp, u32, u64
from lego_mlir.cli.main import main
from lego_mlir.errors import LayoutError, TraceError
from lego_mlir.interp.report import Kind, describe
from lego_mlir.toolchain import compile_kernel, ptxas

INTEGERS = {
    "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor, "exchange": lambda old, new: new,
}  # fmt: skip
FLOATS = {name: INTEGERS[name] for name in ("add", "min", "max", "exchange")}
CASES = [(t, name) for t in (i32, i64, u32, u64) for name in INTEGERS] + [
    (t, name) for t in (f16, bf16, f32, f64) for name in FLOATS
]
LANES, BINS = 96, 5


def updates(dtype, name, shared):
    """Every thread updates one of a few elements, and keeps the old value."""

    @lego.kernel(grid=2, block=LANES // 2)
    def k(
        x: lego.Tensor(dtype, Row(LANES)),
        where: lego.Tensor(i32, Row(LANES)),
        y: lego.Tensor(dtype, Row(BINS)),
        old: lego.Tensor(dtype, Row(LANES)),
        z: lego.Tensor(dtype, Row(BINS)),
    ):
        t = lego.thread_id[0]
        i = lego.block_id[0] * (LANES // 2) + t
        target = y
        if shared:
            target = lego.shared(dtype, Row(BINS))
            with lego.when(t < BINS):
                target[t] = y[t]
            lego.barrier()
        old[i] = getattr(target, f"atomic_{name}")(x[i], where[i])
        if shared:
            lego.barrier()
            with lego.when((t < BINS) & (lego.block_id[0] == 1)):
                z[t] = target[t]

    return k


def drawn(dtype):
    rng = np.random.default_rng(3)
    x = rng.integers(-9, 9, LANES).astype(dtype.numpy)
    return (
        x,
        rng.integers(0, BINS, LANES).astype(np.int32),
        rng.integers(-9, 9, BINS).astype(dtype.numpy),
        np.zeros(LANES),
        np.zeros(BINS),
    )


def serial(compute, x, where, y, first=0):
    """The updates in the order of the threads: the elements at the end, and what every thread found."""
    y, old = y.copy(), np.zeros(len(x), y.dtype)
    for i in range(first, len(x)):
        old[i] = y[where[i]]
        y[where[i]] = compute(old[i], x[i])
    return y, old


@pytest.mark.parametrize(("dtype", "name"), CASES, ids=str)
def test_threads_update_in_order(dtype, name):
    x, where, y, *rest = drawn(dtype)
    _, _, found, olds, _ = launch(updates(dtype, name, shared=False), x, where, y, *rest)
    expected, before = serial(INTEGERS[name], x, where, y)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(olds, before)


@pytest.mark.parametrize(("dtype", "name"), [(i32, "add"), (f32, "max"), (i64, "xor"), (f16, "add")], ids=str)
def test_a_tile_is_updated_by_its_block(dtype, name):
    x, where, y, *rest = drawn(dtype)
    _, _, _, olds, found = launch(updates(dtype, name, shared=True), x, where, y, *rest)
    expected, before = serial(INTEGERS[name], x, where, y, LANES // 2)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(olds[LANES // 2 :], before[LANES // 2 :])


@pytest.mark.parametrize("dtype", [i32, i64, u32, u64, f16, bf16, f32, f64], ids=str)
@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
@needs_ptxas
def test_every_update_assembles(dtype, target):
    names = [name for t, name in CASES if t is dtype]

    @lego.kernel(grid=1, block=32)
    def k(y: lego.Tensor(dtype, Row(32)), z: lego.Tensor(dtype, Row(32))):
        t, tile = lego.thread_id[0], lego.shared(dtype, Row(32))
        tile[t] = y[t]
        lego.barrier()
        for memory in (y, tile):
            for name in names:
                z[t] = getattr(memory, f"atomic_{name}")(memory.atomic_load(31 - t), t)
            z[t] = memory.atomic_cas(1, 2, t)
            memory.atomic_store(3, t, scope="block")

    text = compile_kernel(k, target=target).text
    assemble(text, target)
    assert not re.search(r"acq_rel|acquire|release|\.sys", text), "the updates are relaxed"
    assert re.search(r"ld\.relaxed\.gpu\.global", text) and re.search(r"st\.relaxed\.cta\.shared", text)


@pytest.mark.parametrize(
    ("dtype", "name", "instruction"),
    [
        (i32, "add", "atom.global.add.u32"),
        (i32, "min", "atom.global.min.s32"),
        (i64, "max", "atom.global.max.s64"),
        (u32, "max", "atom.global.max.u32"),
        (f32, "add", "atom.global.add.f32"),
        (f64, "add", "atom.global.add.f64"),
        (f16, "add", "atom.global.add.noftz.f16"),
        (i32, "exchange", "atom.global.exch.b32"),
        (i64, "xor", "atom.global.xor.b64"),
    ],
    ids=str,
)
def test_one_instruction_where_the_hardware_has_it(dtype, name, instruction):
    text = compile_kernel(updates(dtype, name, shared=False), target="sm_80").text
    assert instruction in text and "cas" not in text


@pytest.mark.parametrize("dtype", [f16, bf16], ids=str)
@pytest.mark.parametrize("shared", [False, True])
def test_two_halves_are_added_at_once(dtype, shared):
    @lego.kernel(grid=1, block=64)
    def k(x: lego.Tensor(dtype, Row(128)), y: lego.Tensor(dtype, Row(8)), old: lego.Tensor(dtype, Row(128))):
        t, memory = lego.thread_id[0], y
        if shared:
            memory = lego.shared(dtype, Row(8))
            with lego.when(t < 8):
                memory[t] = y[t]
            lego.barrier()
        old.store(memory.atomic_add(x.load(2 * t, width=2), 2 * (t % 4)), 2 * t)
        if shared:
            lego.barrier()
            with lego.when(t < 8):
                y[t] = memory[t]

    x = np.random.default_rng(0).integers(-3, 4, 128)
    expected = 1 + x.reshape(16, 8).sum(axis=0)
    for run in (launch, launch_on_cpu):
        _, y, old = run(k, x, np.ones(8), np.zeros(128))
        np.testing.assert_array_equal(y, expected)
        np.testing.assert_array_equal(old[8:16], 1 + x[:8])
    for target in ("sm_80", "sm_90"):
        text = compile_kernel(k, target=target).text
        where = ".shared" if shared else ""
        assert (f"atom.relaxed.gpu{where}.add.noftz.f16x2" in text) == (dtype is f16)
        if ptxas.find() is not None:
            assemble(text, target)


def test_compare_and_swap():
    @lego.kernel(grid=1, block=64)
    def k(y: lego.Tensor(i32, Row(4)), old: lego.Tensor(i32, Row(64)), z: lego.Tensor(f32, Row(4))):
        t = lego.thread_id[0]
        old[t] = y.atomic_cas(7, i32(t), t % 4)
        z.atomic_cas(0.0, -1.0, t % 4)

    y = np.array([7, 8, 7, -7], np.int32)
    z = np.array([0.0, -0.0, np.nan, 0.0], np.float32)
    found, old, floats = launch(k, y, np.zeros(64), z)
    np.testing.assert_array_equal(found, [0, 8, 2, -7])
    np.testing.assert_array_equal(old.reshape(16, 4)[1:], np.tile([0, 8, 2, -7], (15, 1)))
    np.testing.assert_array_equal(old[:4], y)
    np.testing.assert_array_equal(floats, [-1, -0.0, np.nan, -1])  # -0.0 and NaN have other bits than 0.0
    for computed, expected in zip(launch_on_cpu(k, y, np.zeros(64), z), (found, old, floats), strict=True):
        np.testing.assert_array_equal(computed, expected)
    text = compile_kernel(k, target="sm_80").text
    assert text.count("atom.relaxed.gpu.global.cas.b32") == 2 and not re.search(r"@%p\d+ bra", text)


@pytest.mark.parametrize("dtype", [i32, i64, f32, f64, f16, bf16], ids=str)
@pytest.mark.parametrize("name", ["add", "max", "exchange"])
def test_the_cpu_computes_the_same(dtype, name):
    for shared in (False, True):
        kernel, arrays = updates(dtype, name, shared), drawn(dtype)
        for found, expected in zip(launch_on_cpu(kernel, *arrays), launch(kernel, *arrays), strict=True):
            np.testing.assert_array_equal(found, expected)


def test_masked_updates_do_nothing_and_give_zero():
    n = lego.size("n", max=64)

    @lego.kernel(grid=lego.cdiv(n, 32), block=32)
    def k(y: lego.Tensor(i32, Row(n)), old: lego.Tensor(i32, Row(64))):
        tiles = y.tile_by([lego.cdiv(n, 32)], [32])
        b, t = lego.block_id[0], lego.thread_id[0]
        old[b * 32 + t] = tiles.atomic_add(1, b, t) + 5
        tiles.atomic_max(3, b, t)

    y, old = launch(k, np.full(40, 1), np.full(64, -1), sizes={"n": 40})
    np.testing.assert_array_equal(y, np.full(40, 3))
    np.testing.assert_array_equal(old, [6] * 40 + [5] * 24)


def test_loads_and_stores_pass_values_between_blocks():
    @lego.kernel(grid=4, block=32)
    def k(flags: lego.Tensor(i32, Row(4)), y: lego.Tensor(i32, Row(4))):
        b, t = lego.block_id[0], lego.thread_id[0]
        with lego.when(t == 0):
            flags.atomic_store(i32(b) + 1, b)
        with lego.when(t == 1):
            y[b] = flags.atomic_load((b + 1) % 4)

    _, y = launch(k, np.zeros(4), np.zeros(4))
    assert set(y.tolist()) <= {0, 1, 2, 3, 4}
    assert [p.written for p in k.params] == [True, True] and k.params[0].read


def faults_of(kernel, *arrays):
    return interp.launch(kernel.mlir(), args=list(arrays)).faults


@pytest.mark.parametrize(("dtype", "width"), [(f32, 4), (f32, 2), (i32, 4), (f64, 2), (i64, 2)], ids=str)
@pytest.mark.parametrize("shared", [False, True])
def test_vectors_are_loaded_and_stored_element_by_element(dtype, width, shared):
    """Block 0 leaves vectors, whichever block comes last reads them: no race, one instruction each."""
    n, kind = 32 * width, {4: "v4", 2: "v2"}[width]

    @lego.kernel(grid=2, block=32)
    def k(x: lego.Tensor(dtype, Row(n)), y: lego.Tensor(dtype, Row(n)), z: lego.Tensor(dtype, Row(2, n))):
        t = lego.thread_id[0]
        memory = lego.shared(dtype, Row(n)) if shared else y
        if shared:
            memory.store(0, t * width, width=width)
        with lego.when(shared or lego.block_id[0] == 0):
            memory.atomic_store(x.load(t * width, width=width), t * width)
        if shared:
            lego.barrier()
        z.store(memory.atomic_load((31 - t) * width, width=width), lego.block_id[0], t * width)

    x = np.arange(n)
    expected = x.reshape(32, width)[::-1].reshape(-1)
    for run in (launch, launch_on_cpu, launch_emulated):
        _, _, z = run(k, x, x, np.zeros((2, n)))
        np.testing.assert_array_equal(z, [expected, expected])
    text = compile_kernel(k, target="sm_80").text
    for access in ("ld", "st"):
        assert len(re.findall(rf"{access}\.volatile\.{'shared' if shared else 'global'}\.{kind}", text)) == 1
    assert not re.search(r"relaxed", text)


@pytest.mark.parametrize(("dtype", "width"), [(f16, 2), (f32, 8), (f32, 3)], ids=str)
def test_vectors_of_other_widths_are_refused(dtype, width):
    @lego.kernel(grid=1, block=32)
    def k(y: lego.Tensor(dtype, Row(256))):
        y.atomic_load(lego.thread_id[0] * 8, width=width)

    with pytest.raises((LayoutError, TraceError), match=f"width={width}|{width} elements"):
        k.mlir()


def test_a_plain_access_races_with_an_atomic_one():
    @lego.kernel(grid=1, block=64)
    def k(y: lego.Tensor(i32, Row(64))):
        t, tile = lego.thread_id[0], lego.shared(i32, Row(2))
        with lego.when(t < 2):
            tile[t] = 0
        lego.barrier()
        tile.atomic_add(1, t % 2)
        y[t] = tile[0]

    (fault,) = faults_of(k, np.zeros(64, np.int32))
    assert fault.kind is Kind.RACE and "atomically updated by" in fault.message


def test_blocks_race_when_one_of_them_stores_plainly():
    @lego.kernel(grid=2, block=1)
    def k(y: lego.Tensor(i32, Row(1))):
        with lego.when(lego.block_id[0] == 0):
            y[0] = 3
        with lego.otherwise():
            y.atomic_add(1, 0)

    assert {fault.kind for fault in faults_of(k, np.zeros(1, np.int32))} == {Kind.RACE}


def test_updates_out_of_bounds_are_found():
    @lego.kernel(grid=1, block=8)
    def k(x: lego.Tensor(i32, Row(8)), y: lego.Tensor(i32, Row(4))):
        y.atomic_add(1, x[lego.thread_id[0]])

    y = np.zeros(4, np.int32)
    (fault,) = faults_of(k, np.arange(8, dtype=np.int32), y)
    assert fault.kind is Kind.OUT_OF_BOUNDS and fault.count == 4
    assert y.tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize(("bins", "sharing", "rounds"), [(1, 32, 64), (16, 2, 4), (64, 1, 2)])
def test_lanes_at_one_element_are_counted(bins, sharing, rounds):
    @lego.kernel(grid=1, block=64)
    def k(y: lego.Tensor(i32, Row(bins))):
        y.atomic_add(1, lego.thread_id[0] % bins)

    report = interp.launch(k.mlir(), args=[np.zeros(bins, np.int32)])
    (site,) = report.sites
    assert (site.worst_sharing, site.rounds, site.lanes, site.requests) == (sharing, rounds, 64, 2)
    assert "atomic update of" in describe(site) and "64 updates in 2 requests" in describe(site)


def test_a_partial_warp_counts_its_own_lanes():
    @lego.kernel(grid=1, block=40)
    def k(y: lego.Tensor(i32, Row(1))):
        with lego.when(lego.thread_id[0] >= 30):
            y.atomic_add(1, 0)

    (site,) = interp.launch(k.mlir(), args=[np.zeros(1, np.int32)]).sites
    assert (site.worst_sharing, site.rounds) == (8, 10)


def one(body, dtype=i32):
    @lego.kernel(grid=1, block=32)
    def k(y: lego.Tensor(dtype, Row(32))):
        body(y, lego.thread_id[0])

    return k.trace()


@pytest.mark.parametrize(
    ("dtype", "body", "kind", "message"),
    [
        (i8, lambda y, t: y.atomic_add(1, t), TraceError, "GPUs update no i8 atomically; use elements of i32"),
        (f32, lambda y, t: y.atomic_or(1, t), TraceError, "y.atomic_or is not defined for f32; integers have and"),
        (i32, lambda y, t: y.atomic_add(1, t, scope="grid"), TraceError, "the scope 'grid' must be block or device"),
        (i32, lambda y, t: y.atomic_add(1.5, t), TraceError, "1.5 is not a value of i32"),
        (i32, lambda y, t: y.atomic_add(1, t + 1), LayoutError, r"index 0 of \[32\] leaves 0 .. 31: for tx = 31"),
        (f32, lambda y, t: y.atomic_add(y.load(t * 0, width=4), t), TraceError, "updates one element, got"),
    ],
)
def test_messages(dtype, body, kind, message):
    with pytest.raises(kind, match=message):
        one(body, dtype)


def test_bounds_are_claimed():
    from lego_mlir.expr.verdict import Proved
    from lego_mlir.tracing.checks.claims import access_verdicts

    ((text, verdict),) = access_verdicts(one(lambda y, t: y.atomic_add(1, t)), 1000)
    assert text.endswith("atomic update of y[tx] stays inside") and isinstance(verdict, Proved)


def test_analyze_advises_against_many_lanes_at_one_element(tmp_path, capsys):
    (tmp_path / "total.py").write_text(
        "import lego_mlir as lego\n"
        "@lego.kernel(grid=2, block=64)\n"
        "def k(y: lego.Tensor(lego.i32, lego.Row(1))):\n"
        "    y.atomic_add(1, 0)\n"
    )
    assert main(["analyze", str(tmp_path / "total.py")]) == 0
    remark = (
        "line 4: atomic update of y: up to 32 lanes of a warp update one element, which takes 128 rounds in 4 requests"
    )
    assert f"{remark}; combine the lanes first, with lego.warp_reduce" in capsys.readouterr().out


def test_old_values_are_named_in_claims_and_updates_in_explanations(tmp_path, capsys):
    (tmp_path / "ticket.py").write_text(
        "import lego_mlir as lego\n"
        "@lego.kernel(grid=4, block=1)\n"
        "def k(n: lego.Tensor(lego.i32, lego.Row(1)), y: lego.Tensor(lego.i32, lego.Row(4))):\n"
        "    y[n.atomic_add(1, 0)] = 1\n"
    )
    assert main(["check", str(tmp_path / "ticket.py")]) == 0
    assert "store to y[n[0]] stays inside: it depends on the contents of memory" in capsys.readouterr().out
    assert "lanes of a warp update one element" not in output_of(capsys, ["analyze", str(tmp_path / "ticket.py")])
    assert "ticket.py:4: atomic add n[0]" in output_of(capsys, ["explain", str(tmp_path / "ticket.py")])


def test_sums_of_many_threads_have_a_bound():
    """The order of the threads is unknown, so the bound counts one rounding per thread of the launch."""
    from lego_mlir.tracing.checks.roundings import roundings

    @lego.kernel(grid=4, block=64)
    def k(x: lego.Tensor(f32, Row(256)), y: lego.Tensor(f32, Row(1))):
        y.atomic_add(x[lego.block_id[0] * 64 + lego.thread_id[0]], 0)

    assert roundings(k.trace(), {})["y"].count("f32") == 256
