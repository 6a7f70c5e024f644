"""Launching, with CuPy replaced by a stand-in that records: no GPU is needed to get the arguments right.

`test_on_a_gpu` at the end runs the same road on a real device, where there is one.
"""

import ctypes
import json
import subprocess
import sys
import types
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from cuda_stand_in import Encoded, Machine

import lego_mlir as lego
from lego_mlir import Col, Row, f16, f32, schedule
from lego_mlir.cli import main as cli
from lego_mlir.errors import DependencyError, UsageError
from lego_mlir.kernels import copy, epilogues, matmul, transpose
from lego_mlir.runtime import __main__ as command
from lego_mlir.runtime import argument_checks, cuda, data, data_files
from lego_mlir.runtime import driver as device_driver
from lego_mlir.runtime.manifest import Argument
from lego_mlir.toolchain import compile_kernel

M, N = lego.size("M"), lego.size("N", multiple_of=4)


class Array(np.ndarray):
    """A NumPy array that exposes its address as CuPy's arrays do."""

    number = 0

    @property
    def device(self):
        return types.SimpleNamespace(id=self.number)

    @property
    def data(self):
        return types.SimpleNamespace(ptr=self.__array_interface__["data"][0])


def array(shape, dtype=np.float32, shift=0):
    """Zeros that begin `shift` bytes after a multiple of 256, as a device's allocations do."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.zeros(size + 512, np.uint8)
    start = -memory.__array_interface__["data"][0] % 256 + shift
    return memory[start : start + size].view(dtype).reshape(shape).view(Array)


def on_device(values):
    made = array(np.shape(values), np.asarray(values).dtype)
    made[...] = values
    return made


class Driver:
    """What a launch asked for; `result(entry, arguments)` plays the kernel."""

    def __init__(self, result=lambda entry, arguments: None, capability="90"):
        self.launches, self.result, self.capability = [], result, capability

    def module(self):
        driver = self

        class Error(Exception):
            pass

        class Function:
            def __init__(self, name):
                self.name = name

            def __call__(self, grid, block, arguments, shared_mem=0):
                driver.launches.append((self.name, grid, block, arguments, shared_mem))
                driver.result(self.name, arguments)

        class RawModule:
            def __init__(self, path):
                assert Path(path).is_file()

            def compile(self):
                if driver.capability == "broken":
                    raise Error("CUDA_ERROR_UNSUPPORTED_PTX_VERSION")

            def get_function(self, name):
                return Function(name)

        capability = "90" if self.capability == "broken" else self.capability
        device = types.SimpleNamespace(compute_capability=capability, id=0)
        stream = types.SimpleNamespace(synchronize=lambda: None)
        return types.SimpleNamespace(
            RawModule=RawModule,
            ndarray=Array,
            asarray=on_device,
            asnumpy=np.asarray,
            empty=array,
            cuda=types.SimpleNamespace(
                Device=lambda: device,
                get_current_stream=lambda: stream,
                driver=types.SimpleNamespace(CUDADriverError=Error),
                runtime=types.SimpleNamespace(CUDARuntimeError=Error, getDeviceCount=lambda: 1),
            ),
        )


@pytest.fixture
def machine(monkeypatch):
    def plug_in(**options):
        driver = Driver(**options)
        monkeypatch.setitem(sys.modules, "cupy", driver.module())
        return driver

    return plug_in


def written(folder, kernel, *, target="sm_80", with_data=False, **sizes):
    compiled = compile_kernel(kernel, target=target)
    (folder / "k.ptx").write_bytes(compiled.bytes)
    (folder / "k.json").write_text(json.dumps(compiled.manifest))
    if with_data:
        (folder / "k.npz").write_bytes(data_files.to_npz(data.check_data(kernel, sizes)))
    return folder / "k.ptx"


def test_a_launch_passes_pointers_then_sizes(tmp_path, machine):
    driver = machine()
    launcher = cuda.load(written(tmp_path, transpose.build("padded", M, N, f32))).kernel()
    source, target = array(100 * 64), array(100 * 64)
    launcher(source, target, sizes={"M": 100, "N": 64})
    ((name, grid, block, arguments, shared),) = driver.launches
    assert (name, grid, block, shared) == ("transpose", (8,), (256,), 0)
    assert arguments[0] is source
    assert arguments[1] is target
    assert [(type(a), int(a)) for a in arguments[2:]] == [(np.int64, 100), (np.int64, 64)]


@pytest.fixture
def stand_in(monkeypatch):
    yield Machine().plug_in(monkeypatch)
    device_driver.driver.cache_clear()


def test_a_launch_encodes_tensor_maps(tmp_path, machine, stand_in):
    """A kernel of warpgroups takes maps of its matrices by value, and an epilogue's numbers by pointer."""
    recorded = machine()
    m, n, k = (lego.size(name, min=1, max=65536, multiple_of=8) for name in "MNK")
    order = schedule.grouped(lego.cdiv(m, 64), lego.cdiv(n, 64), rows=2)
    kernel = matmul.build(
        m, n, k, f16, b=Col(k, n), result=f16, tiling=matmul.ProductTile(64, 64, 64, (4, 1)), order=order, blocks=2,
        epilogue=epilogues.bias(n),
    )  # fmt: skip
    compiled = compile_kernel(kernel, transform="matmul_sm90.mlir", target="sm_90a", parameters={"stages": 2})
    (tmp_path / "k.ptx").write_bytes(compiled.bytes)
    (tmp_path / "k.json").write_text(json.dumps(compiled.manifest))
    a, b, c = array((96, 64), np.float16), array((128, 64), np.float16), array((96, 128), np.float16)
    bias = array(128)
    launcher = cuda.load(tmp_path / "k.ptx").kernel()
    launcher(a, b, c, bias, sizes={"M": 96, "N": 128, "K": 64})
    ((_, _, _, arguments, _),) = recorded.launches
    assert arguments[3] is bias and sorted(int(size) for size in arguments[4:]) == [64, 96, 128]
    assert ctypes.c_int.in_dll(stand_in.library, "stand_in_encoded").value == 5  # of a and b for edges too
    given_with = zip(arguments, (a, b, c), ((64, 96), (64, 128), (128, 96)), (256, 256, 128), strict=False)
    for passed, given, sizes, taken in given_with:
        assert (passed.nbytes, passed.dtype.itemsize) == (taken, taken)
        found = Encoded.from_buffer_copy(passed.tobytes())
        assert (found.address, tuple(found.sizes[:2])) == (given.data.ptr, sizes)


def halves():
    """Two arrays that share half of their memory."""
    memory = array(9600)
    return memory[:6400], memory[3200:]


def elsewhere(given):
    given.number = 1
    return given


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a, b, s: ((a,), s), r"kernel transpose takes src, dst; got 1 arguments"),
        (lambda a, b, s: ((a, b[:-1]), s), r"dst has 6400 elements in memory, and the array has 6399"),
        (lambda a, b, s: ((a.astype(np.float64), b), s), r"src holds f32, and the array holds float64"),
        (lambda a, b, s: ((3, b), s), r"src is a tensor of f32: pass a CuPy array, not 3$"),
        (
            lambda a, b, s: ((np.asarray(a), b), s),
            r"src is a tensor of f32: .*cupy.asarray\(array\), not a numpy array",
        ),
        (lambda a, b, s: ((a, list(range(100))), s), r"dst is a tensor of f32: pass a CuPy array, not a builtins.list"),
        (lambda a, b, s: ((array(12800)[::2], b), s), r"src: the array is not contiguous"),
        (
            lambda a, b, s: ((a.view(np.int32), b), s),
            r"src holds f32, and the array holds int32; convert it: .*'float32'",
        ),
        (
            lambda a, b, s: ((a.reshape(64, 100), b), s),
            r"src has the shape \(100, 64\) .*, and the array has \(64, 100\)",
        ),
        (
            lambda a, b, s: ((a, b.reshape(100, 64)), s),
            r"dst has the shape \(64, 100\) .*, and the array has \(100, 64\)",
        ),
        (lambda a, b, s: ((a, a), s), r"kernel transpose: dst, which it writes, shares 25600 bytes of memory with src"),
        (
            lambda a, b, s: (halves(), s),
            r"dst, which it writes, shares 12800 bytes of memory with src; threads run in no",
        ),
        (
            lambda a, b, s: ((array(6400, shift=2), b), s),
            r"src begins 2 bytes after a multiple of 4, which the kernel's",
        ),
        (lambda a, b, s: ((elsewhere(a), b), s), r"src is on device 1, and the launch on device 0; move one of them"),
        (lambda a, b, s: ((a, b), {"M": 100, "N": 64.0}), r"size N of kernel transpose must be an int, got 64.0"),
        (lambda a, b, s: ((a, b), {"M": 100}), r"needs the sizes M, N; N is missing"),
        (lambda a, b, s: ((a, b), {"M": 100, "N": 63}), r"size N = 63"),
    ],
)
def test_a_wrong_launch_is_refused_before_it_starts(tmp_path, machine, change, message):
    driver = machine()
    launcher = cuda.load(written(tmp_path, transpose.build("padded", M, N, f32))).kernel()
    arguments, sizes = change(array(6400), array(6400), {"M": 100, "N": 64})
    with pytest.raises(UsageError, match=message):
        launcher(*arguments, sizes=sizes)
    assert driver.launches == []


def test_shapes_that_memory_has_are_passed(tmp_path, machine):
    driver = machine()
    launcher = cuda.load(written(tmp_path, transpose.build("padded", M, N, f32))).kernel()
    launcher(array((100, 64)), array((64, 100)), sizes={"M": 100, "N": 64})
    columns = cuda.load(written(tmp_path, copy.build(8, 6, f32, source=Col(8, 6)))).kernel()
    columns(array((6, 8)), array((8, 6)))
    with pytest.raises(
        UsageError, match=r"src has the shape \(6, 8\) \(in memory Col\(8, 6\)\), and the array has \(8, 6\)"
    ):
        columns(array((8, 6)), array((8, 6)))
    assert len(driver.launches) == 2


def test_arrays_that_are_only_read_may_share_memory(tmp_path, machine):
    @lego.kernel(grid=1, block=64)
    def added(x: lego.Tensor(f32, Row(64)), z: lego.Tensor(f32, Row(64)), y: lego.Tensor(f32, Row(64))):
        t = lego.thread_id[0]
        y[t] = x[t] + z[t]

    driver = machine()
    for given in (added, added.mlir()):
        launcher = cuda.load(written(tmp_path, given)).kernel()
        x, y = array(64), array(64)
        launcher(x, x, y)
        with pytest.raises(UsageError, match=r"shares 256 bytes"):
            launcher(x, y, y)
    assert len(driver.launches) == 2


@pytest.mark.parametrize(
    ("variant", "width", "alignment"), [("vectorised", 4, 16), ("vectorised", 2, 8), ("padded", None, 4)]
)
def test_an_array_begins_where_the_widest_access_may(tmp_path, machine, variant, width, alignment):
    """A misaligned access ends the context of the process."""
    driver = machine()
    path = written(tmp_path, transpose.build(variant, 64, 64, f32, width=width))
    launcher = cuda.load(path).kernel()
    assert [argument.alignment for argument in launcher.kernel.arguments] == [alignment, alignment]
    launcher(array(4096, shift=alignment), array(4096))
    for arguments in (
        (array(4096, shift=alignment // 2), array(4096)),
        (array(4096), array(4096, shift=alignment // 2)),
    ):
        with pytest.raises(
            UsageError, match=f"begins {alignment // 2} bytes after a multiple of {alignment}, .*array.copy"
        ):
            launcher(*arguments)
    manifest = json.loads(path.with_suffix(".json").read_text())
    for argument in manifest["kernels"][0]["arguments"]:  # as older manifests come
        del argument["alignment"]
    path.with_suffix(".json").write_text(json.dumps(manifest))
    with pytest.raises(UsageError, match=r"begins 8 bytes after a multiple of 16"):
        cuda.load(path).kernel()(array(4096, shift=8), array(4096))
    assert len(driver.launches) == 1


@pytest.mark.parametrize(
    ("dtype", "given", "right"),
    [
        ("f32", np.float32, True), ("f32", np.int32, False), ("f32", np.uint32, False), ("f16", np.float16, True),
        ("f16", np.uint16, False), ("bf16", np.uint16, True), ("bf16", np.int16, True), ("bf16", np.float16, False),
        ("bf16", ml_dtypes.bfloat16, True), ("f16", ml_dtypes.bfloat16, False), ("i32", np.int32, True),
        ("i32", np.uint32, True), ("i32", np.float32, False), ("i1", np.bool_, True), ("i1", np.int8, False),
        ("i64", np.float64, False), ("i8", np.bool_, False),
    ],
)  # fmt: skip
def test_an_array_of_another_type_of_the_same_width_is_refused(dtype, given, right):
    declared = Argument("x", "tensor", dtype, (8,), 8, "Row(8)", alignment=1)
    device = types.SimpleNamespace(
        ndarray=Array, cuda=types.SimpleNamespace(Device=lambda: types.SimpleNamespace(id=0))
    )
    if right:
        assert argument_checks.tensor(declared, array(8, given), {}, device).dtype == given
        return
    with pytest.raises(UsageError, match=f"x holds {dtype}, and the array holds {np.dtype(given)}; convert it"):
        argument_checks.tensor(declared, array(8, given), {}, device)


@pytest.mark.parametrize(
    ("dtype", "given", "passed"),
    [("f32", 0.1, np.float32(0.1)), ("f32", 3, np.float32(3)), ("i32", 7, np.int32(7)), ("i8", -128, np.int8(-128)),
     ("bf16", 1.5, np.uint16(0x3FC0)), ("bf16", 1 + 2**-8, np.uint16(0x3F80)), ("bf16", np.uint16(5), np.uint16(5)),
     ("i1", True, np.uint8(1))],
)  # fmt: skip
def test_numbers_are_passed_in_their_type(dtype, given, passed):
    number = argument_checks.scalar(Argument("alpha", "scalar", dtype), given)
    assert (number, number.dtype) == (passed, passed.dtype)


@pytest.mark.parametrize(
    ("dtype", "given"), [("i32", 3.7), ("i8", 300), ("f32", "one"), ("i32", None), ("f64", [1.0, 2.0]), ("bf16", "x")]
)
def test_a_number_of_another_type_is_refused(dtype, given):
    with pytest.raises(UsageError, match=f"alpha is one number of {dtype}, and .* is none of that type"):
        argument_checks.scalar(Argument("alpha", "scalar", dtype), given)


class TorchTensor:
    """What a launch sees of a tensor of PyTorch."""

    def __init__(self, dtype="torch.float32", device="cuda"):
        self.dtype, self.device = dtype, types.SimpleNamespace(type=device)

    size, data = (lambda self: 4), property(lambda self: self)


TorchTensor.__module__ = "torch"


@pytest.mark.parametrize(
    ("tensor", "remedy"),
    [
        (TorchTensor(), r"cupy.from_dlpack\(tensor.detach\(\)\), not a torch.Tensor"),
        (TorchTensor("torch.bfloat16"), r"cupy.from_dlpack\(tensor.detach\(\).view\(torch.int16\)\), not"),
        (TorchTensor(device="cpu"), r"cupy.from_dlpack\(tensor.detach\(\).cuda\(\)\), not"),
    ],
)
def test_a_tensor_of_pytorch_is_refused_with_its_remedy(tmp_path, machine, tensor, remedy):
    machine()
    launcher = cuda.load(written(tmp_path, transpose.build("naive", 64, 64, f32))).kernel()
    with pytest.raises(UsageError, match=remedy):
        launcher(tensor, array(4096))


def test_an_open_grid_is_given_and_a_fixed_one_is_not(tmp_path, machine):
    text = """module { gpu.module @m { gpu.func @k(%p: memref<4xf32>) kernel { gpu.return } } }"""
    driver = machine()
    launcher = cuda.load(written(tmp_path, text)).kernel()
    with pytest.raises(UsageError, match=r"kernel k: its module does not fix the grid; pass grid=\(x, y, z\)"):
        launcher(array(4))
    launcher(array(4), grid=(3,), block=(32,))
    assert driver.launches[0][1:3] == ((3,), (32,))
    fixed = cuda.load(written(tmp_path, transpose.build("naive", 64, 64, f32))).kernel()
    with pytest.raises(UsageError, match=r"grid is fixed by its manifest"):
        fixed(array(4096), array(4096), grid=(1,))


def test_more_dynamic_shared_memory_than_48_kib_is_asked_for(tmp_path, machine):
    text = """module { gpu.module @m { gpu.func @k(%p: memref<4xf32>) kernel attributes
      {known_block_size = array<i32: 1, 1, 1>, known_grid_size = array<i32: 1, 1, 1>,
       lego.dynamic_shared_bytes = 100000 : i64} { gpu.return } } }"""
    driver = machine()
    launcher = cuda.load(written(tmp_path, text)).kernel()
    assert launcher.function.max_dynamic_shared_size_bytes == 100_000
    launcher(array(4))
    assert driver.launches[0][4] == 100_000


@pytest.mark.parametrize(
    ("target", "capability", "fine"),
    [
        ("sm_80", "90", True),
        ("sm_90a", "90", True),
        ("sm_90", "89", False),
        ("sm_90a", "100", False),
        ("sm_75", "120", True),
    ],
)
def test_code_runs_on_the_devices_it_was_made_for(target, capability, fine):
    if fine:
        cuda.check_device(target, capability)
        return
    with pytest.raises(UsageError, match=f"the code is for {target} and this device is sm_{capability}"):
        cuda.check_device(target, capability)


def test_a_driver_that_is_too_old(tmp_path, machine):
    machine(capability="broken")
    with pytest.raises(UsageError, match=r"the driver refuses this code for sm_80 \(CUDA_ERROR_UNSUPPORTED_PTX"):
        cuda.load(written(tmp_path, transpose.build("naive", 64, 64, f32)))


def test_without_cupy_the_remedy_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(DependencyError, match=r"pip install cupy-cuda13x"):
        cuda.cupy()


def play_transpose(entry, arguments):
    source, target, m, n = arguments
    target[:] = source.reshape(int(m), int(n)).T.ravel()


def test_the_command_checks_what_the_kernel_wrote(tmp_path, machine, capsys):
    machine(result=play_transpose)
    path = written(tmp_path, transpose.build("padded", M, N, f32), with_data=True, M=33, N=64)
    assert command.main([str(path)]) == 0
    assert capsys.readouterr().out.startswith("ok    transpose M=33 N=64: dst: 2112 elements equal")


def test_the_command_reports_a_wrong_result(tmp_path, machine, capsys):
    def broken(entry, arguments):
        play_transpose(entry, arguments)
        arguments[1][5] = 9

    machine(result=broken)
    path = written(tmp_path, transpose.build("padded", M, N, f32), with_data=True)
    assert command.main([str(path)]) == 1
    out = capsys.readouterr().out
    assert out.startswith("WRONG transpose M=200 N=200")
    assert "first wrong element at position 5: found 9.0" in out


def double_and_change_one(entry, arguments):
    source, target = arguments
    target[:] = source + source
    target[-1] *= np.float32(1.05)


@pytest.mark.parametrize(("tolerance", "exit_code"), [({}, 1), ({"rtol": 0.1}, 0), ({"atol": 1e-9}, 1)])
def test_one_wrong_element_of_many_is_wrong_unless_the_spec_allows_it(tmp_path, machine, capsys, tolerance, exit_code):
    @lego.kernel(grid=100, block=256)
    def double(x: lego.Tensor(f32, Row(25600)), y: lego.Tensor(f32, Row(25600))):
        i = lego.block_id[0] * 256 + lego.thread_id[0]
        y[i] = x[i] + x[i]

    double.reference(lambda x: 2 * x, **tolerance)
    machine(result=double_and_change_one)
    path = written(tmp_path, double, with_data=True)
    assert command.main([str(path)]) == exit_code
    out = capsys.readouterr().out
    assert ("WRONG: 1 of 25600 elements; first wrong element at position 25599" in out) == bool(exit_code)
    arrays = dict(np.load(path.with_suffix(".npz")))
    del arrays["double/y/allowed"]  # as older data come
    np.savez(path.with_suffix(".npz"), **arrays)
    assert command.main([str(path)]) == exit_code


def test_a_kernel_that_writes_nothing_is_wrong(tmp_path, machine, capsys):
    machine()
    path = written(tmp_path, transpose.build("padded", M, N, f32), with_data=True)
    assert command.main([str(path)]) == 1
    assert f"found {float(data_files.UNWRITTEN)}" in capsys.readouterr().out


def test_without_data_it_is_launched_and_nothing_is_claimed(tmp_path, machine, capsys):
    driver = machine()
    path = written(tmp_path, transpose.build("padded", M, N, f32))
    assert command.main([str(path), "--size", "M=10", "--size", "N=8"]) == 0
    assert len(driver.launches) == 1
    assert "nothing to compare with; compile with --with-data" in capsys.readouterr().out


def test_a_size_beside_data_is_that_of_the_data(tmp_path, machine, capsys):
    machine(result=play_transpose)
    path = written(tmp_path, transpose.build("padded", M, N, f32), with_data=True, M=33, N=64)
    assert command.main([str(path), "--size", "M=40"]) == 2
    said = capsys.readouterr().err
    assert "--size M=40: the data beside the code are for M = 33; leave out --size, or compile again with" in said
    assert command.main([str(path), "--size", "K=40"]) == 2
    assert "--size K: no kernel here has that size; sizes: M, N" in capsys.readouterr().err
    assert command.main([str(path), "--size", "M=33"]) == 0


def test_bad_input_to_the_command(tmp_path, machine, capsys):
    machine()
    assert command.main([str(tmp_path / "none.ptx")]) == 2
    assert "no manifest beside the code" in capsys.readouterr().err
    path = written(tmp_path, transpose.build("padded", M, N, f32))
    assert command.main([str(path), "--size", "M"]) == 2
    assert "--size takes NAME=N" in capsys.readouterr().err
    assert command.main([str(path)]) == 2
    assert "needs the sizes M, N; M is missing" in capsys.readouterr().err
    assert command.main([str(tmp_path)]) == 2
    assert "is a folder; give the .ptx or .cubin file in it" in capsys.readouterr().err


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 cut short", b"no archive"])
def test_data_that_cannot_be_read(tmp_path, machine, capsys, content):
    machine()
    path = written(tmp_path, transpose.build("padded", M, N, f32))
    (tmp_path / "k.npz").write_bytes(content)
    assert command.main([str(path)]) == 2
    assert "k.npz: not the data of a check" in capsys.readouterr().err


def test_the_runtime_needs_no_compiler():
    heavy = "{'sympy', 'z3', 'torch_mlir', 'mlir', 'llvmlite', 'cupy'}"
    code = f"import sys, lego_mlir.runtime.__main__, lego_mlir.runtime.cuda; assert not {heavy} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.gpu
def test_on_a_gpu(tmp_path, capsys):
    try:
        capability = cuda.cupy().cuda.Device().compute_capability
    except DependencyError as error:
        pytest.skip(str(error))
    for variant in transpose.VARIANTS:
        kernel = transpose.build(variant, M, N, f32)
        path = written(tmp_path, kernel, target=f"sm_{capability}", with_data=True)
        assert command.main([str(path)]) == 0, capsys.readouterr().out


PROGRAM = """
import lego_mlir as lego
import numpy as np
from lego_mlir import Row, f32

N, M = lego.size("N", multiple_of=32, max=2**20), lego.size("M", max=2**15)


@lego.kernel(grid=N // 32, block=32)
def sum_blocks(x: lego.Tensor(f32, Row(N)), sums: lego.Tensor(f32, Row(N // 32))):
    total = lego.block_reduce(x[lego.block_id[0] * 32 + lego.thread_id[0]])
    with lego.when(lego.thread_id[0] == 0):
        sums[lego.block_id[0]] = total


@lego.kernel(grid=1, block=1)
def add_up(part: lego.Tensor(f32, Row(M)), start: f32, total: lego.Tensor(f32, Row(1))):
    found = lego.register(f32, start)
    for k in lego.range(M):
        found += part[k]
    total[0] = found


@lego.program
def total(x: lego.Tensor(f32, Row(N)), y: lego.Tensor(f32, Row(1))):
    sums = lego.empty(f32, Row(N // 32))
    sum_blocks(x, sums)
    add_up(sums, 0.5, y)


@total.reference
def expected(x):
    return np.array([x.sum() + 0.5])
"""


def sums_in_numpy(entry, arguments):
    """The kernels of PROGRAM."""
    if entry == "sum_blocks":
        arguments[1][:] = np.asarray(arguments[0]).reshape(-1, 32).sum(1)
    else:
        arguments[2][0] = np.asarray(arguments[0]).sum() + arguments[1]


def test_a_program_is_launched_from_its_manifest(tmp_path, machine, capsys):
    spec, code = tmp_path / "spec.py", tmp_path / "total.ptx"
    spec.write_text(PROGRAM)
    assert cli.main(["compile", str(spec), "--with-data", "--size", "N=96", "-o", str(code), "--no-cache"]) == 0
    driver = machine(result=sums_in_numpy)
    assert command.main([str(code)]) == 0
    assert "ok    total N=96: y: 1 elements" in capsys.readouterr().out
    assert [(name, grid) for name, grid, *_ in driver.launches] == [("sum_blocks", (3,)), ("add_up", (1,))]
    (_, _, _, (sums, start, y, m), _) = driver.launches[1]
    assert (sums.shape, start, y.shape, m) == ((3,), np.float32(0.5), (1,), 3)
    machine(result=lambda entry, arguments: None)
    assert command.main([str(code), "--kernel", "total"]) == 1
    module = cuda.load(code)
    with pytest.raises(UsageError, match=r"program total takes x, y; got 1 arguments"):
        module.program("total")(array(96), sizes={"N": 96})
    with pytest.raises(UsageError, match=r"size N = 40: the kernel was compiled for at least 1, at most 1048576, a mu"):
        module.program("total")(array(40), array(1), sizes={"N": 40})
    with pytest.raises(UsageError, match=r"which program\? The code has: total"):
        module.program("other")


def test_run_on_cuda_takes_a_program(tmp_path, machine, capsys):
    spec = tmp_path / "spec.py"
    spec.write_text(PROGRAM)
    machine(result=sums_in_numpy)
    assert cli.main(["run", str(spec), "--on", "cuda", "--kernel", "total", "--no-cache"]) == 0
    assert "ok    total N=192: y" in capsys.readouterr().out
