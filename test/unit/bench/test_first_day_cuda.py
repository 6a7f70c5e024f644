"""The CUDA kernels of bench/rivals/first_day.cu compute what the examples compute: run on the CPU, on ragged sizes.

The kernels of the two sides are compared by their lines, which means something only if both are right. Each `launch`
of the file is called with the arrays of the example, in the order of its parameters, then its sizes.
"""

import ctypes
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from lego_mlir import spec
from lego_mlir.runtime import comparing, data, tolerance
from lego_mlir.runtime.kernel_input import make_input

ROOT = Path(__file__).resolve().parents[3]
SIZES = {  # sizes that tiles do not divide, in the order of the parameters of `launch`
    "axpy_f16": {"N": 2056},
    "big_tile": {},
    "bitonic_sort": {"M": 2},
    "conv2d": {"H": 5, "W": 33},
    "csr_matvec": {"M": 30, "K": 20, "E": 2000},
    "embedding": {"N": 301},
    "embedding_in_range": {"N": 9, "D": 520, "V": 40},
    "flash_attention": {},
    "grid_sum": {"N": 20000},
    "histogram": {"N": 20000},
    "layer_norm": {"M": 3, "N": 130},
    "look_back_scan": {"N": 20001},
    "matmul_gelu": {},
    "matvec": {"M": 9, "K": 70},
    "morton_matmul": {},
    "nchw_to_nhwc": {"C": 40, "P": 50},
    "persistent_matmul": {},
    "quantise_int8": {"M": 3, "N": 130},
    "ragged_matmul": {"M": 17, "N": 20, "K": 37},
    "rope": {"S": 3},
    "row_softmax": {"M": 3, "N": 130},
    "stencil": {"H": 9, "W": 40},
    "three_pass_scan": {"N": 5001},
    "vector_add": {"N": 1303},
}
GUARD = 4096  # bytes before and after each array


def on_fibers(cuda):
    """The text of the CUDA file for g++: launches as calls, and each `launch` with a C name."""
    text = re.sub(r"#include <(cuda_fp16|mma)\.h>", "", cuda)
    text = text.replace("extern __shared__ float tile[];", "static float tile[1 << 14];")
    text = re.sub(r"(\w+)<<<(.*?), \w+, stream>>>\((.*?)\);", r"run_grid(\2, [&] { \1(\3); });", text)
    entries = []
    for name, body in re.findall(r"^namespace (\w+) \{$(.*?)^\}  // namespace", text, re.M | re.S):
        parameters = re.search(r"void launch\((.*?)\) \{", body, re.S)[1]
        given = ", ".join(p.split()[-1] for p in parameters.split(","))
        entries.append(f'extern "C" void run_{name}({parameters}) {{ {name}::launch({given}); }}')
    header = Path(__file__).with_name("cuda_on_fibers.h")
    return "\n".join([f'#include "{header}"', text, *entries])


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("first_day")
    source = folder / "first_day.cpp"
    source.write_text(on_fibers((ROOT / "bench/rivals/first_day.cu").read_text()))
    command = ["g++", "-std=c++20", "-O1", "-w", "-fPIC", "-shared", source, "-o", folder / "first_day.so"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(folder / "first_day.so"))


def guarded(memory, fill):
    """A copy of the memory between guards that hold this byte, and all of the bytes."""
    around = np.full(memory.nbytes + 2 * GUARD, fill, np.uint8)
    inside = around[GUARD:-GUARD].view(memory.dtype)
    inside[:] = memory.reshape(-1)
    return inside.reshape(memory.shape), around


def argument(value):
    """A scalar by its bits, an array by its address."""
    if value.ndim:
        return ctypes.c_void_p(value.ctypes.data)
    return ctypes.c_uint16(int(value.view(np.uint16)))  # the only scalar is f16


@pytest.mark.tools
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
@pytest.mark.parametrize("descending", [0, 1], ids=["threads_ascending", "threads_descending"])
@pytest.mark.parametrize("example", sorted(path.stem for path in (ROOT / "examples/first_day").glob("*.py")))
def test_it_computes_what_the_example_computes(example, descending, library):
    runnable = spec.load(ROOT / f"examples/first_day/{example}.py").runnable(None)
    (entry,) = (kernel for kernel in runnable if kernel.expected is not None)
    sizes = SIZES[example]
    made = make_input(entry, sizes, seed=0)
    results = data.expected(entry, made.logical, made.sizes)
    allowed = tolerance.allowed(entry, made.logical, made.sizes, results)
    given = {name: np.asarray(memory) for name, memory in made.memories.items()}
    fill = {name: 0xAA if name in results else 0xFF for name in given}  # a NaN is read past the end of an input
    arrays = {name: guarded(memory, fill[name]) for name, memory in given.items() if memory.ndim}
    memories = {name: arrays[name][0] if memory.ndim else memory for name, memory in given.items()}
    hidden = {"csr_matvec": ("K", "E"), "embedding_in_range": ("V",)}.get(example, ())  # bounds that no access needs
    passed = [ctypes.c_int(n) for name, n in sizes.items() if name not in hidden]
    ctypes.c_int.in_dll(library, "descending").value = descending
    getattr(library, f"run_{example}")(*map(argument, memories.values()), *passed, ctypes.c_int(0))
    for name, (_, around) in arrays.items():
        assert {*around[:GUARD], *around[-GUARD:]} == {fill[name]}, f"{name}: written out of bounds"
    for parameter in (p for p in entry.params if p.name in results):
        places = made.places[parameter.name]
        expected, bound = (
            places.of(np.broadcast_to(a, np.shape(results[parameter.name])))
            for a in (results[parameter.name], allowed[parameter.name])
        )
        stored = memories[parameter.name][places.at]
        values = stored.astype(np.float64) if stored.dtype.kind == "f" else stored
        found = comparing.compare(values, expected, parameter.dtype.name, bound)
        assert found, f"{parameter.name}: {found}"
