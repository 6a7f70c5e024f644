"""CUDA C++ compiled by g++ and run on the CPU, and the kernels that come along run against NumPy."""

import ctypes
import subprocess
from pathlib import Path

import numpy as np

from lego_mlir.templates.library.stencil import STENCILS

HEADERS = Path(__file__).parent / "unit" / "templates"  # cuda_on_host.h


def build(folder, text, standard="c++20"):
    """A shared library of C++ text."""
    source, library = folder / "source.cpp", folder / "library.so"
    source.write_text(text)
    options = [f"-std={standard}", "-O1", "-Wall", "-Werror", "-Wno-unknown-pragmas", "-fPIC", "-shared", "-pthread"]
    options += ["-fno-gnu-unique", "-I", str(HEADERS), "-I", str(folder)]  # libraries share no variables
    subprocess.run(["g++", *options, str(source), "-o", str(library)], check=True)
    return ctypes.CDLL(str(library))


def pointer(array):
    return array.ctypes.data_as(ctypes.c_void_p)


NW_DRIVER = """
extern "C" void run(int *scores, const int *substitution, int penalty, int blocks, int b) {
  for (int d = 0; d < blocks; ++d)
    launch({d + 1}, {b}, [=] { nw_growing(scores, substitution, penalty, d); });
  for (int d = blocks; d < 2 * blocks - 1; ++d)
    launch({2 * blocks - 1 - d}, {b}, [=] { nw_shrinking(scores, substitution, penalty, d); });
}
"""


def scores_in_numpy(substitution, penalty):
    n = substitution.shape[0]
    scores = np.zeros((n, n), np.int32)
    scores[0] = scores[:, 0] = -penalty * np.arange(n)
    for i in range(1, n):
        for j in range(1, n):
            gap = max(scores[i, j - 1], scores[i - 1, j]) - penalty
            scores[i, j] = max(scores[i - 1, j - 1] + substitution[i, j], gap)
    return scores


def check_nw(folder, text, n, b, penalty=3):
    """The text of `nw(n, b)` gives NumPy's scores."""
    library = build(folder, f'#include "cuda_on_host.h"\n{text}\n{NW_DRIVER}')
    substitution = np.random.default_rng(1).integers(-4, 5, (n + 1, n + 1), dtype=np.int32)
    scores = np.zeros((n + 1, n + 1), np.int32)
    scores[0] = scores[:, 0] = -penalty * np.arange(n + 1)
    library.run(pointer(scores), pointer(substitution), penalty, n // b, b)
    assert np.array_equal(scores, scores_in_numpy(substitution, penalty))


def check_stencil(folder, text, name, layout, n, block, each):
    """The text of `stencil(n, name, layout, ..)` gives NumPy's field."""
    grid = f"{n // block[2] // each[1]}, {n // block[1]}, {n // block[0] // each[0]}"
    threads = ", ".join(map(str, reversed(block)))
    driver = (
        'extern "C" void run(const float *in, float *out) { '
        f"launch({{{grid}}}, {{{threads}}}, [=] {{ stencil(in, out); }}); }}"
    )
    library = build(folder, f'#include "cuda_on_host.h"\n{text}\n{driver}')
    field = np.random.default_rng(2).standard_normal((n, n, n)).astype(np.float32)
    places = np.asarray(layout[:, :, :])
    memory, out = np.zeros(n**3, np.float32), np.zeros(n**3, np.float32)
    memory[places] = field
    library.run(pointer(memory), pointer(out))
    reach = max(abs(d) for p in STENCILS[name] for d in p[:3])
    inner = slice(reach, n - reach)
    expected = sum(
        np.float32(w) * np.roll(field, (-dz, -dy, -dx), (0, 1, 2))[inner, inner, inner]
        for dz, dy, dx, w in STENCILS[name]
    )
    np.testing.assert_allclose(out[places][inner, inner, inner], expected, rtol=1e-5, atol=1e-6)
