"""A machine with CUDA devices that are not there: the driver is a small C library, memory is the host's.

`Machine.kernel(entry, function)` says what a kernel does: a function of its parameters' slots, as bytes. Arrays on the
device are `DeviceArray`, which have `__cuda_array_interface__`, or NumPy's subclass of the tests' choice.
"""

import ctypes
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import numpy as np

from lego_mlir.runtime import arrays, driver

SOURCE = Path(__file__).with_suffix(".c")
RUN = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p))
ALIGNMENT = 256  # of a device's allocations


class Encoded(ctypes.Structure):
    """What the stand-in keeps of a tensor map."""

    _fields_ = (
        ("address", ctypes.c_uint64), ("strides", ctypes.c_uint64 * 4), ("type", ctypes.c_uint32),
        ("rank", ctypes.c_uint32), ("swizzle", ctypes.c_uint32), ("sizes", ctypes.c_uint32 * 5),
        ("box", ctypes.c_uint32 * 5),
    )  # fmt: skip


@cache
def library_file():
    path = Path(mkdtemp(prefix="lego-cuda-"), "libcuda.so")
    subprocess.run(["cc", "-O1", "-w", "-shared", "-fPIC", str(SOURCE), "-o", str(path)], check=True)
    return path


class Machine:
    """The stand-in, with counts and settings. `launches` holds (entry, grid, block, shared, stream)."""

    def __init__(self):
        self.library = ctypes.CDLL(str(library_file()))
        self.library.stand_in_reset()
        self.launches, self.kernels = [], {}
        self._callback = RUN(self._run)
        self.library.stand_in_run(self._callback)

    def set(self, **values):
        for name, value in values.items():
            ctypes.c_int.in_dll(self.library, f"stand_in_{name}").value = value

    def _run(self, entry, configuration, parameters):
        found = driver._Configuration.from_address(configuration)
        grid = found.grid_x, found.grid_y, found.grid_z
        block = found.block_x, found.block_y, found.block_z
        self.launches.append((entry.decode(), grid, block, found.shared_bytes, found.stream or 0))
        if entry.decode() in self.kernels:
            self.kernels[entry.decode()](parameters, grid)

    def plug_in(self, monkeypatch):
        """Make this the driver of the process."""
        monkeypatch.setattr(driver, "open_library", lambda: self.library)
        driver.driver.cache_clear()
        return self

    def runs(self, kernel, name=None):
        """Let a kernel object, an entry of that name, be run by its CPU code, at the addresses it gets."""
        compiled, count = {}, len(kernel.params)

        def run(parameters, grid):
            from lego_mlir.runtime.cpu_kernels import compile_kernels

            made = compiled.setdefault("kernel", None) or compile_kernels(kernel.mlir())[kernel.name]
            compiled["kernel"] = made
            values = []
            for i, parameter in enumerate(kernel.params):
                if parameter.layout is not None:
                    values.append(ctypes.c_uint64.from_address(parameters[i]).value)
                else:
                    words = ctypes.string_at(parameters[i], parameter.dtype.bytes)
                    values.append(np.frombuffer(words, parameter.dtype.numpy)[0])
            values += [ctypes.c_int64.from_address(parameters[count + i]).value for i in range(len(kernel.sizes))]
            made(values, grid)

        self.kernels[name or kernel.name] = run


class DeviceArray:
    """An array of an unknown library, in the memory of a device."""

    def __init__(self, values, device=0, shift=0, read_only=False):
        values = np.asarray(values)
        self.host, self.device, self.read_only = aligned(values, shift), device, read_only

    @property
    def __cuda_array_interface__(self):
        interface = dict(self.host.__array_interface__)
        interface["data"] = (interface["data"][0], self.read_only)
        return {**interface, "version": 3}

    def __dlpack_device__(self):
        return (2, self.device)


def aligned(values, shift=0):
    """A copy that begins `shift` bytes after a multiple of ALIGNMENT, with the strides of the given array."""
    order = "F" if values.flags.f_contiguous and not values.flags.c_contiguous else "C"
    memory = np.zeros(values.nbytes + 2 * ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT + shift
    made = memory[start : start + values.nbytes].view(values.dtype).reshape(values.shape, order=order)
    made[...] = values
    return made


class OwnArray(np.ndarray):
    """An array of a library whose arrays are on a device, with results: what CuPy is on a real one."""

    number = 0

    def __array_finalize__(self, given):
        self.number = getattr(given, "number", 0)

    def copy(self, order="C"):
        return own(np.ascontiguousarray(self), self.number)


def own(values, number=0, shift=0):
    made = aligned(np.asarray(values), shift).view(OwnArray)
    made.number = number
    return made


def _own_facts(array):
    steps = tuple(step // array.itemsize for step in array.strides)
    address = array.__array_interface__["data"][0]
    return arrays.ArrayFacts(
        "own", array.dtype.name, array.shape, steps, address, ("cuda", array.number), array.itemsize
    )  # fmt: skip


def _own_results(dtype, shape, strides, device):
    stored = arrays.numpy_dtype(dtype)
    if tuple(strides) == arrays.dense_strides(shape):
        return lambda: own(np.zeros(shape, stored), device[1])
    steps = [step * stored.itemsize for step in strides]
    return lambda: np.lib.stride_tricks.as_strided(
        own(np.zeros(arrays.spanned(shape, strides), stored), device[1]), shape, steps, subok=True
    )


class OwnLibrary:
    """Registers OwnArray with the package; `stream` is the current stream of its devices."""

    def __init__(self, monkeypatch):
        self.stream = 0
        library = arrays.ArrayLibrary(
            "own", "{0}.dtype, {0}.shape, {0}.strides, {0}.number", lambda a: a.__array_interface__["data"][0],
            _own_facts, lambda device: self.stream + device, _own_results,
        )  # fmt: skip
        monkeypatch.setitem(arrays._by_type, OwnArray, library)
        for kinds in [kinds for kinds in arrays._keyers if OwnArray in kinds]:
            monkeypatch.delitem(arrays._keyers, kinds)


_ALONE = """
import ctypes, sys


class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"sympy", "z3", "torch_mlir", "mlir", "llvmlite", "islpy", "jinja2", "ml_dtypes"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Blocked())
sys.path.insert(0, TESTS)
import numpy as np
import pytest
import lego_mlir
from cuda_stand_in import DeviceArray, OwnLibrary, own
from lego_mlir.runtime import driver

library = ctypes.CDLL(LIBRARY)
driver.open_library = lambda: library
OwnLibrary(pytest.MonkeyPatch())
"""


def printed_without_compiler(program, **names):
    """The lines that a program prints in a process without MLIR, SymPy and Z3, on the stand-in of a GPU."""
    names |= {"TESTS": str(Path(__file__).parent), "LIBRARY": str(library_file())}
    given = [f"{name} = {value!r}" for name, value in names.items()]
    command = [sys.executable, "-c", "\n".join([*given, _ALONE, program])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
