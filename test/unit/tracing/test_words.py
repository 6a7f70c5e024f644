"""printf, assert_, fences, while loops and single MLIR operations."""

import re
import shutil
import subprocess

import numpy as np
import pytest
from assembling import assemble, needs_ptxas
from launching import launch, launch_emulated, launch_on_cpu

import lego_mlir as lego
from lego_mlir import Row, f16, f32, i1, i8, i32, i64, interp, u8, u64
from lego_mlir.errors import InterpreterError, LegoError, TraceError
from lego_mlir.interp.dialects import scf
from lego_mlir.interp.printed import MOST_CHARACTERS
from lego_mlir.interp.report import Kind
from lego_mlir.toolchain import compile_kernel

MLIR_OPT = shutil.which("mlir-opt-22") or shutil.which("/usr/lib/llvm-22/bin/mlir-opt")


def kernel(body, grid=1, block=4, dtype=f32, n=64):
    @lego.kernel(grid=grid, block=block)
    def k(y: lego.Tensor(dtype, Row(n))):
        body(y, lego.thread_id[0])
        y[0 * lego.thread_id[0]] = y[0]

    return k


def printed(body, values=(), **options):
    k = kernel(body, **options)
    y = np.zeros(64, k.params[0].dtype.numpy)
    y[: len(values)] = values
    return interp.launch(k.mlir(), args=[y], checks=False).printed


def assembled(k, target="sm_80"):
    text = compile_kernel(k, target=target).text
    assemble(text, target)
    return text


# -- printf


def test_lines_come_block_by_block_and_thread_by_thread():
    def body(y, t):
        with lego.when(t != 1):
            lego.printf("%d.%d ", lego.block_id[0], t)
        lego.printf("\n")

    assert printed(body, grid=2, block=3) == "0.0 0.2 1.0 1.2 " + "\n" * 6


@pytest.mark.parametrize(
    ("dtype", "value", "conversion", "expected"),
    [
        (f32, 1.5, "%f", "1.500000"),
        (f16, -2.25, "%8.2f|", "   -2.25|"),
        (f32, 1e30, "%g", "1e+30"),
        (i8, -3, "%d", "-3"),
        (i8, -3, "%x", "fffffffd"),
        (i64, -3, "%x", "fffffffffffffffd"),
        (i64, 2**40, "%lld", str(2**40)),
        (u8, 200, "%d", "200"),
        (u64, 2**64 - 1, "%u", str(2**64 - 1)),
        (i32, 42, "%-5d|", "42   |"),
        (i32, -1, "%u", str(2**32 - 1)),
    ],
    ids=str,
)
def test_conversions_are_those_of_c(dtype, value, conversion, expected):
    assert printed(lambda y, t: lego.printf(conversion, y[0]), [value], block=1, dtype=dtype) == expected


def test_what_is_known_while_tracing_is_printed_too():
    def body(y, t):
        lego.printf("%s: %d %d %f %d%%\n", "50% of é", 7, t + 2**40, 0.5, t < 1)

    assert printed(body, block=1) == f"50% of é: 7 {2**40} 0.500000 1%\n"


def test_the_cpu_prints_the_same(capfd):
    @lego.kernel(grid=2, block=2)
    def k(x: lego.Tensor(f16, Row(4)), y: lego.Tensor(u8, Row(4))):
        i = lego.block_id[0] * 2 + lego.thread_id[0]
        lego.printf('%d "é" %6.2f 100%% %x %d %u\n', i, x[i], y[i], x[i] > 1.0, u64(2**64 - 1))
        y[i] = 3

    arrays = [0.5, 1.5, -2.5, 3.5], [0, 1, 200, 255]
    launch_on_cpu(k, *arrays)
    printed_by_c = capfd.readouterr().out
    x, y = np.array(arrays[0], np.float16), np.array(arrays[1], np.uint8)
    assert printed_by_c == interp.launch(k.mlir(), args=[x, y.view(np.int8)]).printed
    assert printed_by_c.splitlines()[2] == f'2 "é"  -2.50 100% c8 0 {2**64 - 1}'
    k(x, y, check=True)
    k(x, y)
    assert capfd.readouterr().out.count("\n") == 8


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
@needs_ptxas
def test_printing_assembles(target):
    def body(y, t):
        lego.printf('t = %d, "y" = %f, %x, %d\n', t, y[t], lego.u8(t), t < 3)

    assert "vprintf" in assembled(kernel(body), target)


def test_printing_stops_where_the_buffer_of_a_gpu_would_end():
    text = printed(lambda y, t: lego.printf("x" * 5000), grid=300, block=1)
    assert len(text) < MOST_CHARACTERS + 100 and text.endswith(f"(printing stopped at {MOST_CHARACTERS} characters)\n")


# -- assertions


def test_a_failed_assertion_names_its_thread_and_line():
    def body(y, t):
        lego.assert_(y[t] < 3, "y is too large")

    report = interp.launch(kernel(body).mlir(), args=[np.arange(64, dtype=np.float32)])
    (fault,) = (fault for fault in report.faults if fault.kind is Kind.ASSERTION)
    assert fault.thread == (3, 0, 0)
    assert fault.message == "assertion failed: y is too large" and fault.place.file.endswith("test_words.py")


@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
@needs_ptxas
def test_assertions_assemble(target):
    assert "__assertfail" in assembled(kernel(lambda y, t: lego.assert_(t < 3, "no")), target)


# -- while


def test_each_thread_repeats_its_own_times():
    """Collatz: the steps to 1."""

    @lego.kernel(grid=1, block=32)
    def k(y: lego.Tensor(i32, Row(32))):
        t = lego.thread_id[0]
        n, steps = lego.register(i32, i32(t) + 1), lego.register(i32, 0)
        running = lego.register(i1, n != 1)
        with lego.while_(running):
            n.set(lego.where(n % 2 == 0, n // 2, 3 * n + 1))
            steps += 1
            running.set(n != 1)
        y[t] = steps

    def collatz(n):
        return 0 if n == 1 else 1 + collatz(n // 2 if n % 2 == 0 else 3 * n + 1)

    expected = [collatz(n) for n in range(1, 33)]
    assert launch(k, np.zeros(32))[0].tolist() == expected
    assert launch_on_cpu(k, np.zeros(32))[0].tolist() == expected
    assert "scf.while" in k.mlir()
    compile_kernel(k)


def test_a_block_waits_for_an_earlier_one():
    """Each block adds to what its predecessor published; the published word is never 0."""

    @lego.kernel(grid=8, block=1)
    def k(x: lego.Tensor(i32, Row(8)), flags: lego.Tensor(i32, Row(8)), y: lego.Tensor(i32, Row(8))):
        b = lego.block_id[0]
        found, running = lego.register(i32, 1), lego.register(i1, b > 0)
        flags.atomic_store(1, 0)
        with lego.while_(running):
            found.set(flags.atomic_load(0))
            running.set(found == 0)
        lego.fence("block")
        lego.fence()
        y[b] = found + x[b]

    _, _, y = launch(k, np.arange(8), np.zeros(8), np.zeros(8))
    np.testing.assert_array_equal(y, np.arange(8) + 1)
    text = compile_kernel(k, target="sm_90").text
    assert "fence.acq_rel.gpu" in text and "fence.acq_rel.cta" in text and "ld.relaxed.gpu" in text


def test_a_loop_that_spins_for_ever_is_reported(monkeypatch):
    monkeypatch.setattr(scf, "SPINS", 1000)

    def body(y, t):
        running = lego.register(i1, True)
        with lego.while_(running):
            running.set(y.atomic_load(0) == 0.0)

    with pytest.raises(
        InterpreterError, match=r"test_words.py:\d+: scf.while: the loop spins: in round 1000 no thread"
    ):
        interp.launch(kernel(body).mlir(), args=[np.zeros(64, np.float32)])


# -- one operation


def test_an_operation_by_its_name():
    @lego.kernel(grid=1, block=32)
    def k(x: lego.Tensor(f32, Row(32)), y: lego.Tensor(f32, Row(32)), z: lego.Tensor(i32, Row(32))):
        t = lego.thread_id[0]
        y[t] = lego.mlir_op("math.absf", x[t], result=f32, attributes={"fastmath": "#arith.fastmath<fast>"})
        z[t] = lego.mlir_op("arith.index_cast", t, result=i32)
        low, high = lego.mlir_op("arith.mulsi_extended", z[t], i32(2**30), result=(i32, i32))
        z[t] = low + high

    x = np.linspace(-2, 2, 32, dtype=np.float32)
    _, y, z = launch(k, x, np.zeros(32), np.zeros(32))
    np.testing.assert_array_equal(y, np.abs(x))
    products = np.arange(32, dtype=np.int64) << 30
    np.testing.assert_array_equal(z, (products.astype(np.int32) + (products >> 32)).astype(np.int32))
    assert "fastmath<fast>" in k.mlir()
    compile_kernel(k)


def test_vectors_give_vectors():
    @lego.kernel(grid=1, block=8)
    def k(x: lego.Tensor(f32, Row(32)), y: lego.Tensor(f32, Row(32))):
        i = 4 * lego.thread_id[0]
        y.store(lego.mlir_op("arith.negf", x.load(i, width=4), result=f32), i)

    x = np.arange(32, dtype=np.float32)
    np.testing.assert_array_equal(launch(k, x, np.zeros(32))[1], -x)


def test_the_interpreter_refuses_what_it_does_not_know_by_name():
    def body(y, t):
        y[t] = lego.mlir_op("nvvm.ex2", y[t], result=f32)

    k = kernel(body)
    with pytest.raises(InterpreterError, match=r"does not support the operation nvvm\.ex2"):
        launch(k, np.zeros(64))
    with pytest.raises(LegoError, match=r"nvvm\.ex2 has no form on a CPU"):
        launch_on_cpu(k, np.zeros(64))
    assert "ex2.approx" in compile_kernel(k).text


def test_an_instruction_of_ptx_by_its_text():
    facts = {"asm_string": '"mul.hi.s32 $0, $1, 65536;"', "constraints": '"=r,r"'}

    @lego.kernel(grid=1, block=32)
    def k(x: lego.Tensor(i32, Row(32)), y: lego.Tensor(i32, Row(32))):
        t = lego.thread_id[0]
        y[t] = lego.mlir_op("llvm.inline_asm", x[t], result=i32, attributes=facts)

    x = np.arange(-16, 16) * 98765
    np.testing.assert_array_equal(launch_emulated(k, x, np.zeros(32))[1], x * 65536 >> 32)


@pytest.mark.tools
@pytest.mark.skipif(MLIR_OPT is None, reason="mlir-opt 22 is not installed (Debian: mlir-22-tools)")
def test_mlir_opt_accepts_every_word(tmp_path):
    """What the words become is standard MLIR, also for a program that is not ours."""

    @lego.kernel(grid=2, block=64)
    def k(x: lego.Tensor(f32, Row(64)), y: lego.Tensor(i32, Row(64))):
        t, tile = lego.thread_id[0], lego.shared(f32, Row(20000))
        tile[t] = lego.block_scan(x[t]) + lego.block_reduce(x[t], "max") + lego.shuffle(x[t], 3, width=8)
        for name in ("add", "min", "max", "and", "or", "xor", "exchange"):
            y[t] = getattr(y, f"atomic_{name}")(3, t)
        y[t] = y.atomic_cas(1, 2, t) + y.atomic_load(t, scope="block")
        y.atomic_store(i32(lego.warp_ballot(lego.warp_any(t < 3) & lego.warp_all(t < 5))), t)
        lego.warp_sync()
        lego.fence()
        running = lego.register(i1, True)
        with lego.while_(running):
            running.set(x.atomic_cas(0.0, 1.0, t) == 0.0)
        lego.printf("%d %f\n", t, tile[t])
        lego.assert_(tile[t] > 0, "positive")

    (tmp_path / "k.mlir").write_text(k.mlir())
    done = subprocess.run(
        [MLIR_OPT, "--verify-each", "--canonicalize", tmp_path / "k.mlir"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    compile_kernel(k, target="sm_80")


# -- messages


def changed_nowhere(y, t):
    running = lego.register(i1, True)
    with lego.while_(running):
        y[t] = 0.0


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (lambda y, t: lego.printf("%d", y[t]), r"%d cannot print <f32 %\d+>; write %f, %e or %g"),
        (lambda y, t: lego.printf("%f", t), "%f cannot print tx; write %d, %u, %x or %o"),
        (lambda y, t: lego.printf("%d %d", t), "no value is left for %d in '%d %d'"),
        (lambda y, t: lego.printf("%d", t, t), "1 more values than conversions in '%d'"),
        (lambda y, t: lego.printf("100 %!", t), "begins no conversion such as %d; write %% for the sign itself"),
        (lambda y, t: lego.printf(t), "lego.printf takes the text first"),
        (lambda y, t: lego.printf("%d" * 33, *[t] * 33), "at most 32 values at once, got 33"),
        (
            lambda y, t: lego.printf("%f", y.load(0, width=2)),
            r"prints numbers, got <vector<2xf32> %\d+>; print its elem",
        ),
        (lambda y, t: lego.assert_(y[t]), "lego.assert_ takes a condition, got"),
        (lambda y, t: lego.assert_(t < 1, t), "takes the message as a str, got tx"),
        (lambda y, t: lego.fence("grid"), "lego.fence: the scope 'grid' must be block or device"),
        (lambda y, t: lego.while_(t < 3), "lego.while_ takes a register of i1"),
        (changed_nowhere, "the body never changes <register"),
        (lambda y, t: lego.mlir_op("cbrt", y[t], result=f32), "the full name of an operation, such as 'math.cbrt'"),
        (
            lambda y, t: lego.mlir_op("math.cubert", y[t], result=f32),
            "math.cubert is not valid MLIR: unregistered operation",
        ),
        (lambda y, t: lego.mlir_op("math.cbrt", y[t], result=i32), "math.cbrt is not valid MLIR: .* result"),
        (lambda y, t: lego.mlir_op("math.cbrt", y[t], y[t], result=f32), "math.cbrt is not valid MLIR: .*operand"),
        (lambda y, t: lego.mlir_op("math.cbrt", 1.0, result=f32), r"got 1.0; give a number an element type, such as"),
        (lambda y, t: lego.mlir_op("math.cbrt", y[t], result="f32"), "a result has an element type such as lego.f32"),
        (
            lambda y, t: lego.mlir_op("math.absf", y[t], result=f32, attributes={"fastmath": "fast"}),
            "math.absf is not valid MLIR: ",
        ),
        (lambda y, t: lego.mlir_op("scf.if", t < 1), "scf.if is not valid MLIR: "),
        (lambda y, t: lego.mlir_op("gpu.return"), "gpu.return is not valid MLIR: "),
    ],
)
def test_messages(body, message):
    with pytest.raises(TraceError, match=message):
        kernel(body).trace()


def test_a_loop_without_with_is_refused():
    def body(y, t):
        lego.while_(lego.register(i1, True))

    with pytest.raises(TraceError, match=re.escape("write `with lego.while_(..):` and a body")):
        kernel(body).trace()


def test_the_cpu_refuses_assertions_which_would_end_the_process():
    with pytest.raises(LegoError, match=r"cf.assert has no form on a CPU; the interpreter runs it, by check=True or"):
        launch_on_cpu(kernel(lambda y, t: lego.assert_(t < 2)), np.zeros(64))
