"""`k(a, b)` on CUDA arrays, with a stand-in for the driver whose kernels run on the CPU."""

import threading

import numpy as np
import pytest
from cuda_stand_in import DeviceArray

import lego_mlir as lego
from lego_mlir import Col, Row, f32
from lego_mlir.errors import DependencyError, LaunchError, UsageError
from lego_mlir.kernels import matmul
from lego_mlir.runtime import driver
from lego_mlir.tracing.trace.dtypes import bf16, f16, f64, i8, i64

M, N = lego.size("M"), lego.size("N")


def sum_kernel():
    """A new kernel object for each test: plans and loaded code belong to it."""

    @lego.kernel(grid=lego.cdiv(M * N, 64), block=64)
    def add(x: lego.Tensor(f32, Row(M, N)), y: lego.Tensor(f32, Col(M, N)), z: lego.Tensor(f32, Row(M, N))):
        i = lego.block_id.x * 64 + lego.thread_id.x
        with lego.when(i < M * N):
            r, c = i // N, i % N
            z[r, c] = x[r, c] + y[r, c]

    return add


def operands(m=5, n=7, device=0):
    x = np.arange(m * n, dtype=np.float32).reshape(m, n)
    y = np.asfortranarray(x * 10)
    return [DeviceArray(a, device) for a in (x, y, np.zeros_like(x))], x * 11


def test_a_launch_passes_addresses_sizes_and_extents(machine):
    add = sum_kernel()
    machine.runs(add)
    for m, n in ((5, 7), (8, 32), (5, 7)):
        (x, y, z), expected = operands(m, n)
        assert add(x, y, z) is z
        np.testing.assert_array_equal(z.host, expected)
        assert machine.launches[-1] == ("add", (-(-m * n // 64), 1, 1), (64, 1, 1), 0, 0)
    assert machine.library.stand_in_modules() == 1


def test_streams(machine):
    add = sum_kernel()
    machine.runs(add)
    arrays, expected = operands()

    class TorchStream:
        cuda_stream = 77

    class CupyStream:
        ptr = 78

    class CoreStream:
        def __cuda_stream__(self):
            return (0, 79)

    for stream, handle in ((76, 76), (TorchStream(), 77), (CupyStream(), 78), (CoreStream(), 79), (0, 0)):
        assert add.on(stream)(*arrays) is arrays[2]
        assert machine.launches[-1][-1] == handle
    np.testing.assert_array_equal(arrays[2].host, expected)
    with pytest.raises(UsageError, match=r"a stream is an int, or a stream of PyTorch, CuPy or cuda.core, got 'high'"):
        add.on("high")
    host = np.zeros((5, 7), np.float32)
    with pytest.raises(UsageError, match="the arrays are on the CPU, which has no streams"):
        add.on(5)(host, np.asfortranarray(host))


def test_prepared_launches(machine):
    add = sum_kernel()
    machine.runs(add)
    arrays, expected = operands()
    prepared = add.prepare(*arrays)
    assert not machine.launches
    assert prepared() is arrays[2]
    np.testing.assert_array_equal(arrays[2].host, expected)
    others, _ = operands()
    assert prepared(*others) is others[2]
    np.testing.assert_array_equal(others[2].host, expected)
    assert len(machine.launches) == 2


def test_a_launch_is_not_prepared_on_arrays_that_overlap(machine):
    add = sum_kernel()
    machine.runs(add)
    (x, y, _), _ = operands()
    with pytest.raises(UsageError, match="z, which it writes, shares 140 bytes of memory with x"):
        add.prepare(x, y, x)


@pytest.mark.parametrize(
    ("dtype", "value"),
    [(f32, 2), (f32, np.float64(0.5)), (f16, 1.5), (bf16, 2.5), (f64, 1e300), (i8, -3), (i64, 2**40), (i8, 4.0)],
)
def test_numbers_are_passed_as_their_type(machine, dtype, value):
    @lego.kernel(grid=1, block=1)
    def store(first: lego.i8, value: dtype, x: lego.Tensor(dtype, Row(1)), last: lego.i8):
        with lego.when(first + last == 3):
            x[0] = value

    machine.runs(store)
    x = DeviceArray(np.zeros(1, np.uint16 if dtype is bf16 else dtype.numpy))
    store(1, value, x, 2)
    assert x.host.view(dtype.numpy)[0] == np.asarray(value, dtype.numpy)
    store.prepare(1, value, x, 2)(1, 1, x, 2)
    assert x.host.view(dtype.numpy)[0] == 1
    with pytest.raises(UsageError, match=f"value is one number of {dtype}"):
        store(1, "2", x, 2)


def halves():
    whole = DeviceArray(np.zeros(140, np.float32))
    parts = [DeviceArray(np.zeros(1, np.float32)) for _ in range(2)]
    parts[0].host, parts[1].host = whole.host[:70].reshape(7, 10).T, whole.host[35:105].reshape(10, 7)
    return parts


def test_what_a_launch_would_reveal_by_crashing(machine):
    add = sum_kernel()
    (x, y, z), _ = operands()
    add(x, y, z)
    shifted = DeviceArray(x.host, shift=2)
    with pytest.raises(UsageError, match="x begins 2 bytes after a multiple of 4, which the kernel's accesses need"):
        add(shifted, y, z)
    with pytest.raises(UsageError, match="z, which it writes, shares 140 bytes of memory with x"):
        add(x, y, x)
    y2, z2 = halves()
    with pytest.raises(UsageError, match="z, which it writes, shares 140 bytes of memory with y"):
        add(DeviceArray(np.zeros((10, 7), np.float32)), y2, z2)
    with pytest.raises(UsageError, match="kernel add writes z, and the cuda_stand_in array is read-only"):
        add(x, y, DeviceArray(z.host, read_only=True))
    with pytest.raises(UsageError, match="x is on CUDA device 0, and y on the CPU; move one of them"):
        add(x, y.host, z)
    with pytest.raises(UsageError, match="check=True runs the interpreter, on the CPU, and the arrays are on CUDA dev"):
        add(x, y, z, check=True)
    with pytest.raises(UsageError, match="pass an array for the result z: results are allocated as arrays of NumPy"):
        add(x, y)
    assert len(machine.launches) == 1


def test_several_devices_have_their_own_code_and_context(machine):
    machine.set(devices=2)
    add = sum_kernel()
    machine.runs(add)
    for device in (0, 1, 0):
        arrays, expected = operands(device=device)
        add(*arrays)
        np.testing.assert_array_equal(arrays[2].host, expected)
    assert machine.library.stand_in_modules() == 2
    (x, y, z), _ = operands()
    with pytest.raises(UsageError, match="x is on CUDA device 1, and y on CUDA device 0"):
        add(DeviceArray(x.host, device=1), y, z)


def test_several_threads(machine):
    add = sum_kernel()
    machine.runs(add)
    results, failures = [], []

    def work(n):
        try:
            for _ in range(20):
                arrays, expected = operands(n, 3)
                results.append((add(*arrays).host.copy(), expected))
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in (1, 2, 3, 4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not failures
    assert machine.library.stand_in_modules() == 1
    for found, expected in results:
        np.testing.assert_array_equal(found, expected)


def test_the_driver_s_errors(machine):
    add = sum_kernel()
    arrays, _ = operands()
    machine.set(refuse_code=222)
    with pytest.raises(
        UsageError, match=r"kernel add for sm_90: the driver refuses this code on CUDA device 0, .*UNSUP"
    ):
        add(*arrays)
    machine.set(refuse_code=0)
    add(*arrays)
    machine.set(fail_next=700)
    with pytest.raises(
        LaunchError, match=r"launch on CUDA device 0 failed: CUDA_ERROR_ILLEGAL_ADDRESS; an earlier ker"
    ):
        add(*arrays)
    machine.set(fail_next=201)
    add(*arrays)  # another context was current


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"devices": 0}, "no CUDA device is visible; a GPU and NVIDIA's driver are needed"),
        ({"devices": -1}, r"no CUDA device answers \(CUDA_ERROR_NO_DEVICE\)"),
        ({"version": 11040}, "NVIDIA's driver supports CUDA 11.4, and launches need 11.8; install a newer driver"),
    ],
)
def test_machines_that_cannot_launch(machine, settings, message):
    machine.set(**settings)
    with pytest.raises(DependencyError, match=message):
        sum_kernel()(*operands()[0])


def test_without_the_driver(monkeypatch):
    monkeypatch.setattr(driver, "LIBRARIES", ("libcuda-that-is-missing.so",))
    with pytest.raises(DependencyError, match="NVIDIA's driver is not installed"):
        driver.open_library()


@pytest.mark.parametrize(("capability", "target"), [((8, 7), "sm_87"), ((9, 0), "sm_90"), ((12, 1), "sm_121")])
def test_code_is_compiled_for_the_device(machine, capability, target, monkeypatch, fresh_cache):
    machine.set(major=capability[0], minor=capability[1])
    add = sum_kernel()
    targets = []
    compiled = type(add).compile
    monkeypatch.setattr(type(add), "compile", lambda self, t, **o: targets.append(t) or compiled(self, t, **o))
    add(*operands()[0])
    assert targets == [target]


def test_an_old_device(machine):
    machine.set(major=7, minor=0)
    with pytest.raises(UsageError, match="compute capability 70, and kernels are compiled for 75 and later"):
        sum_kernel()(*operands()[0])


def test_compiling_without_arrays():
    add = sum_kernel()
    assert ".entry add(" in add.ptx()
    assert ".target sm_90" in add.ptx("sm_90")
    assert add.compile("sm_86").manifest["kernels"][0]["entry"] == "add"


def test_a_transform_script_for_tiles_of_a_matrix_unit(machine, monkeypatch, fresh_cache):
    kernel = matmul.build(32, 32, 32, f16, tiling=matmul.ProductTile(32, 32, 32, (1, 1)))
    scripts = []
    compiled = type(kernel).compile

    def recorded(self, target, **options):
        scripts.append((options["transform"], options["parameters"]))
        return compiled(self, target, **options)

    monkeypatch.setattr(type(kernel), "compile", recorded)
    a, b, c = (DeviceArray(np.zeros((32, 32), dtype)) for dtype in (np.float16, np.float16, np.float32))
    assert kernel(a, b, c) is c
    assert kernel.transformed("matmul_sm80.mlir", stages=2)(a, b, c) is c
    assert scripts == [("ldmatrix_mma.mlir", None), ("matmul_sm80.mlir", {"stages": 2})]


def test_dynamic_shared_memory(machine):
    kernel = matmul.build(64, 64, 256, f16, tiling=matmul.ProductTile(64, 64, 64, (2, 2)))
    a, b = (DeviceArray(np.zeros(shape, np.float16)) for shape in ((64, 256), (256, 64)))
    kernel.transformed("matmul_sm80.mlir", stages=4)(a, b, DeviceArray(np.zeros((64, 64), np.float32)))
    ((_, _, block, shared, _),) = machine.launches
    assert block == (128, 1, 1)
    assert shared == machine.library.stand_in_shared(0) > 48 * 1024
