"""Ranges that the author of a kernel states: of a tensor's elements, and of one value as an index."""

from pathlib import Path

import numpy as np
import pytest

import lego_mlir as lego
from lego_mlir import Row, f32, i32, i64, interp, size, spec
from lego_mlir.cli.main import main
from lego_mlir.errors import TraceError, UsageError
from lego_mlir.expr.verdict import Proved, Unknown
from lego_mlir.proofs.claims import bounds_claims
from lego_mlir.proofs.models import Models
from lego_mlir.runtime import data
from lego_mlir.runtime.cpu_kernels import compile_kernels
from lego_mlir.toolchain import compile_kernel
from lego_mlir.tracing.checks.claims import access_verdicts
from lego_mlir.tracing.trace.trace import MatrixLoad

N, M = size("N"), size("M")


def verdicts(kernel):
    return [verdict for _, verdict in access_verdicts(kernel.trace(), 1000)]


def gather(values=None, dtype=i32):
    @lego.kernel(grid=lego.cdiv(N, 32), block=32)
    def gather(
        order: lego.Tensor(dtype, Row(N), range=values), x: lego.Tensor(f32, Row(M)), y: lego.Tensor(f32, Row(N))
    ):
        i = lego.block_id[0] * 32 + lego.thread_id[0]
        with lego.when(i < N):
            y[i] = x[order[i]]

    return gather


@pytest.mark.parametrize("dtype", [i32, i64])
def test_a_gather_by_a_tensor_of_a_declared_range_is_proved(dtype):
    assert all(isinstance(verdict, Proved) for verdict in verdicts(gather((0, M), dtype)))
    assert sum(isinstance(verdict, Unknown) for verdict in verdicts(gather(None, dtype))) == 1
    assert sum(isinstance(verdict, Unknown) for verdict in verdicts(gather((0, M + 1), dtype))) == 1
    assert sum(isinstance(verdict, Unknown) for verdict in verdicts(gather((-1, M), dtype))) == 1


def test_input_is_drawn_in_range_and_arrays_are_compared():
    kernel = gather((2, M))
    drawn = data.draw(kernel, {"N": 500, "M": 6}, 0)
    assert set(drawn["order"].tolist()) == {2, 3, 4, 5}
    x = np.arange(6, dtype=np.float32)
    order = np.array([2, 5, 3], np.int32)
    np.testing.assert_array_equal(kernel(order, x, check=True), x[order])
    np.testing.assert_array_equal(kernel(order, x), x[order])
    order[1] = 6
    with pytest.raises(UsageError, match=r"order\[1\] = 6, and the kernel declares 2 <= order < 6"):
        kernel(order, x, check=True)

    @kernel.inputs
    def outside(rng, N):
        return {"order": np.full(N, 1, np.int32)}

    with pytest.raises(UsageError, match=r"order\[0\] = 1, and the kernel declares 2 <= order < 200"):
        data.draw(kernel, {"N": 5, "M": 200}, 0)


def test_floats_are_drawn_in_range():
    @lego.kernel(grid=1, block=32)
    def logs(x: lego.Tensor(f32, Row(32), range=(0.5, 2)), y: lego.Tensor(f32, Row(32))):
        i = lego.thread_id[0]
        y[i] = lego.log(x[i])

    drawn = data.draw(logs, {}, 3)["x"]
    assert 0.5 <= drawn.min() < drawn.max() < 2


def csr():
    K, E = size("K"), size("E")

    @lego.kernel(grid=lego.cdiv(M, 32), block=32)
    def csr(
        rows: lego.Tensor(i32, Row(M + 1), range=(0, E + 1)),
        columns: lego.Tensor(i32, Row(E), range=(0, K)),
        values: lego.Tensor(f32, Row(E)),
        x: lego.Tensor(f32, Row(K)),
        y: lego.Tensor(f32, Row(M)),
    ):
        i = lego.block_id[0] * 32 + lego.thread_id[0]
        with lego.when(i < M):
            total = lego.register(f32, 0.0)
            for k in lego.range(rows[i], rows[i + 1]):
                total += values[k] * x[columns[k]]
            y[i] = total

    return csr


def test_loops_that_end_at_data_of_a_declared_range_are_proved():
    found = verdicts(csr())
    assert all(isinstance(verdict, Proved) for verdict in found), found
    assert len(found) == 6


def test_vectors_conversions_and_masks_keep_the_range():
    @lego.kernel(grid=1, block=8)
    def k(
        order: lego.Tensor(i32, Row(32), range=(0, M)),
        part: lego.Tensor(i32, Row(60).tile_by([1], [64]), range=(0, M)),
        x: lego.Tensor(f32, Row(M)),
        y: lego.Tensor(f32, Row(32)),
    ):
        t = lego.thread_id[0]
        four = order.load(t * 4, width=4)
        for lane in lego.unroll(4):
            y[t * 4 + lane] = x[four[lane]] + x[four[lane].to(i64)] + x[part[0, t * 8]] + x[part.load(0, t, other=0)]

    assert all(isinstance(verdict, Proved) for verdict in verdicts(k))

    @lego.kernel(grid=1, block=64)
    def other(
        part: lego.Tensor(i32, Row(60).tile_by([1], [64]), range=(0, M)),
        x: lego.Tensor(f32, Row(M)),
        y: lego.Tensor(f32, Row(64)),
    ):
        t = lego.thread_id[0]
        y[t] = x[part.load(0, t, other=-1)]

    assert any(isinstance(verdict, Unknown) for verdict in verdicts(other))


def claimed(hi=M):
    @lego.kernel(grid=lego.cdiv(N, 32), block=32)
    def claimed(order: lego.Tensor(i32, Row(N)), x: lego.Tensor(f32, Row(M)), y: lego.Tensor(f32, Row(N))):
        i = lego.block_id[0] * 32 + lego.thread_id[0]
        with lego.when(i < N):
            y[i] = x[lego.index(order[i], range=(0, hi))]

    return claimed


def test_a_claimed_index_is_proved_and_checked_by_the_interpreter():
    kernel = claimed()
    assert all(isinstance(verdict, Proved) for verdict in verdicts(kernel))
    assert "llvm.intr.assume %" in kernel.mlir()
    x, order = np.arange(6, dtype=np.float32), np.array([2, 5, 3], np.int32)
    arguments = {"order": order, "x": x, "y": np.zeros(3, np.float32)}
    assert interp.run_kernel(kernel, arguments, {"N": 3, "M": 6}).clean
    np.testing.assert_array_equal(arguments["y"], x[order])
    order[2] = 6
    report = interp.run_kernel(kernel, arguments, {"N": 3, "M": 6})
    fault = next(fault for fault in report.faults if fault.kind.value == "failed assertion")
    assert fault.message == "a claim does not hold: 0 <= order[32*bx + tx] < M"
    assert fault.place.line == kernel.source.line + 4
    assert fault.thread == (2, 0, 0)


def test_a_claim_that_is_too_weak_proves_nothing():
    assert any(isinstance(verdict, Unknown) for verdict in verdicts(claimed(M + 1)))


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
def test_a_claim_takes_no_instruction(target):
    def instructions(kernel):
        found = compile_kernel((kernel,), emit="ptx", target=target, cache=None).text
        return [line.split()[0] for line in found.splitlines() if line.startswith("\t")]

    with_claim, without = instructions(claimed()), instructions(gather())
    assert len(with_claim) <= len(without)
    assert with_claim.count("setp.ge.s64") == without.count("setp.ge.s64")


def test_the_cpu_path_takes_claims():
    kernel = claimed()
    x, order, y = np.arange(6, dtype=np.float32), np.array([2, 5, 3], np.int32), np.zeros(3, np.float32)
    sizes = {"N": 3, "M": 6}
    compile_kernels(kernel.mlir())[kernel.name]([order, x, y, *(sizes[s.name] for s in kernel.sizes)], [1])
    np.testing.assert_array_equal(y, x[order])


def test_check_notes_claims(tmp_path, capsys):
    spec = tmp_path / "spec.py"
    spec.write_text(
        "import lego_mlir as lego\nfrom lego_mlir import Row, f32, i32\n"
        "@lego.kernel(grid=1, block=32)\n"
        "def pick(o: lego.Tensor(i32, Row(32), range=(0, 8)), p: lego.Tensor(i32, Row(32)),\n"
        "         x: lego.Tensor(f32, Row(8)), y: lego.Tensor(f32, Row(32))):\n"
        "    t = lego.thread_id[0]\n"
        "    y[t] = x[o[t]] + x[lego.index(p[t], range=(0, 8))]\n"
        "@pick.reference\ndef expected(o, p, x):\n    return x[o] + x[p]\n"
        "@pick.inputs\ndef inputs(rng):\n    return {'p': rng.integers(0, 8, 32).astype('int32')}\n"
    )
    assert main(["check", str(spec)]) == 0
    shown = capsys.readouterr().out
    assert "0 refuted, 0 unknown" in shown
    assert "claimed, and checked by the interpreter: 0 <= p[tx] < 8" in shown
    for command in (["run", str(spec)], ["analyze", str(spec)], ["explain", str(spec)]):
        assert main(command) == 0, command


@pytest.mark.parametrize(
    ("dtype", "within", "message"),
    [
        (i32, 4, r"a range is a pair \(lo, hi\) of the least value and the end, got 4"),
        (i32, (0.5, 2), "the ends of the range of i32 are ints or expressions of sizes"),
        (i32, (5, 5), r"the range \(5, 5\) is empty"),
        (f32, (0, M), "the ends of the range of f32 are numbers"),
        (f32, (1, 0), "is empty; its first end is the least value"),
    ],
)
def test_ranges_that_are_refused(dtype, within, message):
    with pytest.raises(TraceError, match=message):
        lego.Tensor(dtype, Row(N), range=within)


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda o, x: lego.index(o[0], range=3), "a range is a pair"),
        (lambda o, x: lego.index(x[0], range=(0, 4)), "takes one integer of the kernel's data"),
        (lambda o, x: lego.index(lego.thread_id[0], range=(0, 4)), "takes one integer of the kernel's data, got tx"),
        (lambda o, x: i32(o[0], range=(0, 4)), "only lego.index claims a range"),
        (lambda o, x: o.store(3, 0), "cannot store to it; leave out the range"),
    ],
)
def test_uses_that_are_refused(use, message):
    @lego.kernel(grid=1, block=32)
    def refused(o: lego.Tensor(i32, Row(32), range=(0, 4)), x: lego.Tensor(f32, Row(32))):
        use(o, x)
        x[0] = 1.0

    with pytest.raises(TraceError, match=message):
        refused.trace()


@pytest.mark.parametrize("declared", [True, False])
def test_words_of_matrices_that_ldmatrix_loads_keep_a_declared_range(declared, tmp_path):
    """The segments of the example are stored in shared memory, and read 8 to a lane as words of matrices."""
    text = (Path(__file__).parents[3] / "examples" / "second_week" / "segmented_sum.py").read_text()
    file = tmp_path / "segments.py"
    file.write_text(text if declared else text.replace(", range=(0, S)", ""))
    (kernel,) = spec.load(file).kernels.values()
    assert any(isinstance(statement, MatrixLoad) for statement in kernel.trace().statements())
    found = [verdict for _, verdict in bounds_claims(Models(kernel), 1000)]
    assert sum(isinstance(verdict, Unknown) for verdict in found) == (0 if declared else 8)
