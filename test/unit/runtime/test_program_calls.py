"""Programs called on arrays: on the CPU, checked by the interpreter, and through the driver."""

import threading

import numpy as np
import pytest
from cuda_stand_in import DeviceArray

import lego_mlir as lego
from lego_mlir import Row, f16, f32, i32
from lego_mlir.errors import KernelFaultError, UsageError

N = lego.size("N", multiple_of=64, max=2**20)
M = lego.size("M", max=2**14)


def make():
    """The three passes of a scan; new objects for each test, since plans and loaded code belong to them."""

    @lego.kernel(grid=N // 64, block=64)
    def scan_blocks(x: lego.Tensor(f32, Row(N)), y: lego.Tensor(f32, Row(N)), sums: lego.Tensor(f32, Row(N // 64))):
        b, t = lego.block_id[0], lego.thread_id[0]
        part = lego.block_scan(x[b * 64 + t])
        y[b * 64 + t] = part
        with lego.when(t == 63):
            sums[b] = part

    @lego.kernel(grid=1, block=1)
    def scan_sums(part: lego.Tensor(f32, Row(M)), start: f32, count: i32, before: lego.Tensor(f32, Row(M))):
        total = lego.register(f32, start)
        for k in lego.range(M):
            before[k] = total
            total += part[k]
        with lego.when(count < 0):
            before[0] = 0.0

    @lego.kernel(grid=N // 64, block=64)
    def add(before: lego.Tensor(f32, Row(N // 64)), y: lego.Tensor(f32, Row(N))):
        b, t = lego.block_id[0], lego.thread_id[0]
        y[b * 64 + t] += before[b]

    @lego.program
    def scan(start: f32, x: lego.Tensor(f32, Row(N)), y: lego.Tensor(f32, Row(N))):
        sums, before = lego.empty(f32, Row(N // 64)), lego.empty(f32, Row(N // 64))
        scan_blocks(x, y, sums)
        scan_sums(sums, start, N // 64, before)
        add(before, y)

    return scan


@pytest.mark.parametrize("check", [False, True], ids=["compiled", "checked"])
def test_numpy_arrays(check):
    scan = make()
    for n in (64, 640):
        x, y = np.random.default_rng(n).integers(0, 9, n).astype(np.float32), np.zeros(n, np.float32)
        assert scan(2.0, x, y, check=check) is y
        assert (y == np.cumsum(x) + 2).all()
        assert (scan(0, x, check=check) == np.cumsum(x)).all()  # a result that is left out is allocated


def test_prepared_and_compiled():
    scan = make()
    x, y = np.ones(128, np.float32), np.zeros(128, np.float32)
    launch = scan.prepare(0.0, x, y)
    x[:] = 3
    launch()
    assert (y == np.arange(3, 387, 3)).all()
    assert scan.ptx("sm_90").count(".entry") == 3
    assert scan.compile(emit="cubin").bytes


def test_a_fault_of_a_step_names_its_kernel():
    @lego.kernel(grid=1, block=64)
    def racing(x: lego.Tensor(f32, Row(64)), y: lego.Tensor(f32, Row(64))):
        tile, t = lego.shared(f32, Row(64)), lego.thread_id[0]
        tile[t] = x[t]
        y[t] = tile[63 - t]

    @lego.program
    def wrapped(x: lego.Tensor(f32, Row(64)), y: lego.Tensor(f32, Row(64))):
        racing(x, y)

    with pytest.raises(KernelFaultError, match=r"(?s)kernel racing: .*race: read of shared0"):
        wrapped(np.zeros(64, np.float32), check=True)


def test_an_unwritten_temporary_is_nan_in_a_checked_run():
    @lego.kernel(grid=1, block=32)
    def copy(x: lego.Tensor(f16, Row(32)), y: lego.Tensor(f16, Row(32))):
        y[lego.thread_id[0]] = x[lego.thread_id[0]]

    @lego.program
    def forgetful(y: lego.Tensor(f16, Row(32))):
        copy(lego.empty(f16, Row(32)), y)

    assert np.isnan(forgetful(np.zeros(32, np.float16), check=True)).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0.0, np.zeros(64, np.float64)), r"kernel scan: x holds f32, and the numpy array holds float64"),
        ((0.0, np.zeros(100, np.float32)), r"size N = 100: .*a multiple of 64"),
        ((0.0, np.zeros(64, np.float32), np.zeros(128, np.float32)), r"kernel scan: y has .*64.* 128|128"),
        (("a", np.zeros(64, np.float32)), r"start"),
    ],
)
def test_arrays_are_checked_as_those_of_a_kernel(arguments, message):
    with pytest.raises(UsageError, match=message):
        make()(*arguments)


def test_memory_that_overlaps_is_refused():
    x = np.zeros(64, np.float32)
    with pytest.raises(UsageError, match=r"kernel scan: y, which it writes, shares 256 bytes of memory with x"):
        make()(0.0, x, x)


def test_the_limits_of_a_size_are_those_of_the_program():
    with pytest.raises(UsageError, match=r"size N = 1048640: the kernel was compiled for at least 1, at most 1048576"):
        make()(0.0, np.zeros(64 * 16385, np.float32))


def allocated(machine):
    import ctypes

    return ctypes.c_int.in_dll(machine.library, "stand_in_allocated").value


def test_cuda_arrays_run_on_one_stream_with_memory_of_that_stream(machine):
    scan = make()
    for kernel in scan.kernels:
        machine.runs(kernel)
    x = np.random.default_rng(0).integers(0, 9, 256).astype(np.float32)
    for stream in (0, 7):
        machine.launches.clear()
        given, result = DeviceArray(x, 0), DeviceArray(np.zeros_like(x), 0)
        run = scan if stream == 0 else scan.on(stream)
        assert run(1.0, given, result) is result
        assert (result.host == np.cumsum(x) + 1).all()
        assert [(launch[0], launch[1], launch[4]) for launch in machine.launches] == [
            ("scan_blocks", (4, 1, 1), stream), ("scan_sums", (1, 1, 1), stream), ("add", (4, 1, 1), stream),
        ]  # fmt: skip
        assert allocated(machine) == 0
    assert machine.library.stand_in_modules() == 3


def test_temporaries_are_freed_where_a_launch_fails(machine):
    scan = make()
    arrays = [DeviceArray(np.zeros(64, np.float32), 0) for _ in range(2)]
    scan(0.0, *arrays)
    machine.set(fail_next=700)
    with pytest.raises(Exception, match="ILLEGAL_ADDRESS"):
        scan(0.0, *arrays)
    assert allocated(machine) == 0


def test_streams_do_not_apply_to_the_cpu(machine):
    with pytest.raises(UsageError, match=r"program scan: the arrays are on the CPU, which has no streams"):
        make().on(3)(0.0, np.zeros(64, np.float32))


def test_threads_share_a_program():
    scan, found = make(), {}

    def work(number):
        x = np.full(128, number, np.float32)
        for _ in range(20):
            found[number] = scan(0.0, x)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(4):
        assert (found[number] == number * np.arange(1, 129)).all()
