"""The kernels of "Convert your kernel": what stands on the left is run as well, and lines are counted.

The kernels on the right are run by the commands of the pages (`test_page_blocks.py`).
"""

import ctypes
import importlib.util
import re
import sys

import numpy as np
import page_commands
import pytest
from host_cuda import build, pointer

from lego_mlir.templates import Template
from lego_mlir.templates.run.triton_interpreter import interpret

HOW_TO = page_commands.ROOT / "docs" / "how-to"
TRITON, CUDA = HOW_TO / "convert-triton.md", HOW_TO / "convert-cuda.md"


def files(page):
    return {block.title: block.text for block in page_commands.blocks(page) if block.title}


def draw(*shape, dtype=np.float32):
    return np.random.default_rng(1).standard_normal(shape).astype(dtype)


def of_the_page(name, folder, monkeypatch):
    """The spec of a page as a module, for its reference."""
    (folder / f"{name}.py").write_text({**files(TRITON), **files(CUDA)}[f"{name}.py"])
    spec = importlib.util.spec_from_file_location(f"page_{name}", folder / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, f"page_{name}", module)
    spec.loader.exec_module(module)
    return module


def triton(name, kernel, grid, *arguments, **constants):
    text = files(TRITON)[f"{name}_triton.py"]
    interpret(Template.of(text, f"{name}.py.jinja").render(), kernel, grid, *arguments, **constants)


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs triton: pip install 'lego-mlir[triton]'")
class TestTriton:
    def test_vector_add(self, tmp_path, monkeypatch):
        x, y, z = draw(3000), draw(3000)[::-1].copy(), np.zeros(3000, np.float32)
        triton("vector_add", "add", (3,), x, y, z, 3000, BLOCK=1024)
        assert np.array_equal(z, of_the_page("vector_add", tmp_path, monkeypatch).expected(x, y))

    def test_softmax(self, tmp_path, monkeypatch):
        x, y = draw(10, 777), np.zeros((10, 777), np.float32)
        triton("softmax", "softmax", (10,), x, y, 777, 777, BLOCK=1024)
        assert np.allclose(y, of_the_page("softmax", tmp_path, monkeypatch).expected(x), atol=1e-6)

    def test_matmul(self, tmp_path, monkeypatch):
        m, n, k = 72, 40, 56
        a, b, c = draw(m, k, dtype=np.float16), draw(k, n, dtype=np.float16), np.zeros((m, n), np.float16)
        triton("matmul", "matmul", (2, 3), a, b, c, m, n, k, k, 1, n, 1, n, 1, BM=32, BN=32, BK=32)
        expected = of_the_page("matmul", tmp_path, monkeypatch).expected(a.astype(np.float32), b.astype(np.float32))
        assert np.allclose(c, expected, rtol=2e-3, atol=2e-3)

    def test_layer_norm(self, tmp_path, monkeypatch):
        x, w, b, y = draw(5, 1000), draw(1000), draw(1000) + 1, np.zeros((5, 1000), np.float32)
        triton("layer_norm", "layer_norm", (5,), x, w, b, y, 1000, 1000, 1e-5, BLOCK=1024)
        assert np.allclose(y, of_the_page("layer_norm", tmp_path, monkeypatch).expected(x, w, b), atol=1e-5)

    def test_attention(self, tmp_path, monkeypatch):
        q, k, v = (draw(2, 50, 64, dtype=np.float16) + shift for shift in (0, 0.5, 1))
        q, k, v, o = *(a.astype(np.float16) for a in (q, k, v)), np.zeros((2, 50, 64), np.float16)
        triton("attention", "attention", (2, 2), q, k, v, o, 50, 0.125, BM=32, BN=16, D=64)
        expected = of_the_page("attention", tmp_path, monkeypatch).expected(*(a.astype(np.float32) for a in (q, k, v)))
        assert np.allclose(o, expected, rtol=2**-8, atol=2**-8)


# The launch of each CUDA kernel on the CPU: its C signature, the grid and the block.
LAUNCHES = {
    "transpose": ("const float *x, float *y, int M, int N", "{(N + 31) / 32, (M + 31) / 32}, {32, 8}", "x, y, M, N"),
    "matrix_mul": (
        "const float *a, const float *b, float *c, int M, int N, int K",
        "{(N + 15) / 16, (M + 15) / 16}, {16, 16}",
        "a, b, c, M, N, K",
    ),
    "needleman_wunsch": ("const int *match, int penalty, int *scores", "{1}, {32}", "match, penalty, scores"),
    "lu": ("const float *a, float *factors", "{1}, {32}", "a, factors"),
    "hotspot": (
        "const float *t, const float *p, float *r, int H, int W, float step, float rx, float ry, float rz, float cold",
        "{(W + 31) / 32, (H + 7) / 8}, {32, 8}",
        "t, p, r, H, W, step, rx, ry, rz, cold",
    ),
}


def cuda(name, folder, *arguments):
    parameters, launched, passed = LAUNCHES[name]
    driver = f'extern "C" void run({parameters}) {{ launch({launched}, [=] {{ {name}({passed}); }}); }}'
    head = '#include <algorithm>\n#include "cuda_on_host.h"\nusing std::max;\nusing std::min;\n'
    library = build(folder, f"{head}{files(CUDA)[f'{name}.cu']}\n{driver}\n")
    plain = [ctypes.c_float(a) if isinstance(a, float) else a for a in arguments]
    library.run(*(pointer(a) if isinstance(a, np.ndarray) else a for a in plain))


@pytest.mark.parametrize("name", LAUNCHES)
def test_cuda_by_hand(name, tmp_path, monkeypatch):
    page = of_the_page(name, tmp_path, monkeypatch)
    rng = np.random.default_rng(0)
    given = {
        "transpose": [draw(50, 70)], "matrix_mul": [draw(33, 71), draw(71, 50)],
        "needleman_wunsch": [rng.integers(-4, 5, (32, 32), dtype=np.int32), 2],
        "lu": [(draw(32, 32) + 8 * np.eye(32)).astype(np.float32)], "hotspot": [draw(50, 70), draw(50, 70)],
    }[name]  # fmt: skip
    numbers = [0.5, 0.1, 0.2, 0.05, 80.0] if name == "hotspot" else []
    expected = page.expected(*given, *numbers)
    result = np.zeros(np.shape(expected), given[0].dtype)
    sizes = {"transpose": [50, 70], "matrix_mul": [33, 50, 71], "hotspot": [50, 70]}.get(name, [])
    cuda(name, tmp_path, *given, result, *sizes, *numbers)
    assert np.allclose(result, expected, rtol=1e-4, atol=1e-4)


def counted(lines):
    return sum(1 for line in lines if line.strip() and not line.strip().startswith(("#", "//")))


@pytest.mark.parametrize("page", [TRITON, CUDA], ids=lambda page: page.stem)
def test_the_lines_of_the_table_are_those_of_the_page(page):
    pairs = list(files(page).values())
    rows = re.findall(r"^\| \[[^|]+ \| (\d+) \| (\d+) \|", page.read_text(), re.MULTILINE)
    assert len(rows) == 5
    for (before, after), old, new in zip(rows, pairs[::2], pairs[1::2], strict=True):
        old, new = old.splitlines(), new.splitlines()
        start = next(i for i, line in enumerate(old) if line.startswith(("@triton.jit", "__global__")))
        assert int(before) == counted(old[start:])
        start = next(i for i, line in enumerate(new) if line.startswith("@lego.kernel"))
        end = next(i for i, line in enumerate(new) if re.match(r"@\w+\.(reference|inputs)", line))
        assert int(after) == counted(new[start:end])
