"""Shifted layouts, strides as arguments and related sizes in templates: read back, and run."""

import importlib.util
import shutil

import numpy as np
import pytest
from host_cuda import build, pointer

import lego_mlir as lego
from lego_mlir import Row, Strided, size
from lego_mlir.errors import TemplateError
from lego_mlir.expr.verdict import Proved, Refuted
from lego_mlir.templates import Template, index, indices
from lego_mlir.templates.readback import check

PAD = {"zero": "constant", "clamp": "edge", "mirror": "reflect", "wrap": "wrap"}
M, K = size("M", min=2, max=4096), size("K", min=2, max=4096)
TRITON = """import triton
import triton.language as tl

{{ helpers }}


@triton.jit
def shift(x_ptr, y_ptr{{ sizes }}):
    m, k = tl.program_id(0), tl.program_id(1)
    {{ hints }}
    x = {{ load("x_ptr", A.shifted(-1, 2, boundary=boundary)[m, k, :, :], other=0.0) }}
    {{ store("y_ptr", A[m, k, :, :], "x") }}
"""
CUDA = """{{ helpers }}
extern "C" void shift(const float *x, float *y{{ sizes }}) {
  for (int i = 0; i < {{ A.shape[0] }}; ++i)
    for (int j = 0; j < {{ A.shape[1] }}; ++j)
      y[{{ A[i, j] }}] = {{ near.mask(i, j) }} ? x[{{ near[i, j] }}] : 0;
}
"""


def triton(dims, boundary):
    m, k = indices("m k")
    tiles = Row(*dims).tile_by([lego.cdiv(dims[0], 4), lego.cdiv(dims[1], 8)], [4, 8])
    return Template.of(TRITON, "shift.py.jinja", A=tiles, m=m, k=k, boundary=boundary).render()


def expected(x, boundary):
    return np.pad(x, 2, mode=PAD[boundary])[1:-3, 4:]


@pytest.mark.parametrize("boundary", PAD)
def test_the_text_is_that_of_the_layout(boundary):
    fixed = [verdict for _, verdict in check.verdicts(triton((12, 40), boundary))]
    assert all(isinstance(verdict, Proved) for verdict in fixed)
    assert not any(isinstance(verdict, Refuted) for _, verdict in check.verdicts(triton((M, K), boundary)))


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs the package triton")
@pytest.mark.parametrize("boundary", PAD)
@pytest.mark.parametrize("fixed", [True, False])
def test_triton_agrees_with_numpy(boundary, fixed):
    from lego_mlir.templates.run.triton_interpreter import interpret

    rows, columns = (12, 40) if fixed else (9, 21)
    x = np.arange(rows * columns, dtype=np.float32).reshape(rows, columns) + 1
    y = np.zeros_like(x)
    rendered = triton((rows, columns) if fixed else (M, K), boundary)
    sizes = [{"M": rows, "K": columns}[str(name)] for name in rendered.sizes]
    interpret(rendered, "shift", (-(-rows // 4), -(-columns // 8)), x, y, *sizes)
    np.testing.assert_array_equal(y, expected(x, boundary))


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs the compiler g++")
@pytest.mark.parametrize("boundary", PAD)
def test_c_agrees_with_numpy(tmp_path, boundary):
    text = CUDA.replace("near", f'A.shifted(-1, 2, boundary="{boundary}")')
    rendered = Template.of(text, "shift.cpp.jinja", A=Row(M, K), i=index("i"), j=index("j")).render()
    check.require(rendered)
    x = np.arange(9 * 21, dtype=np.float32).reshape(9, 21) + 1
    y = np.zeros_like(x)
    sizes = [{"M": 9, "K": 21}[str(name)] for name in rendered.sizes]
    build(tmp_path, rendered.text).shift(pointer(x), pointer(y), *sizes)
    np.testing.assert_array_equal(y, expected(x, boundary))


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs the compiler g++")
def test_strides_are_arguments(tmp_path):
    text = """{{ helpers }}
extern "C" void copy(const float *x, float *y{{ sizes }}) {
  for (int i = 0; i < {{ A.shape[0] }}; ++i)
    for (int j = 0; j < {{ A.shape[1] }}; ++j) y[{{ B[i, j] }}] = x[{{ A[i, j] }}];
}
"""
    strided = Strided([M, K], [size("sm", max=4096), size("sk", max=4096)], claim=True)
    names = {"A": strided, "B": Row(M, K), "i": index("i"), "j": index("j")}
    rendered = Template.of(text, "copy.cpp.jinja", **names).render()
    check.require(rendered)
    assert {str(name) for name in rendered.sizes} == {"M", "K", "sm", "sk"}
    whole = np.arange(400, dtype=np.float32).reshape(20, 20)
    part = whole[1:10, 2:18:2].T
    y = np.zeros(part.shape, np.float32)
    values = strided.sizes_of_array(part.shape, [s // 4 for s in part.strides])
    build(tmp_path, rendered.text).copy(
        pointer(whole[1:, 2:]), pointer(y), *(values[str(name)] for name in rendered.sizes)
    )
    np.testing.assert_array_equal(y, part)


def test_related_sizes_are_drawn_together():
    n = size("N", max=1000)
    rows, twice = size("M", max=n), size("T", equals=2 * n)
    text = "def f(x{{ sizes }}):\n    return x + {{ A[i + M, j] }}\n"
    names = {"A": Row(twice, 8), "M": rows, "i": index("i", n), "j": index("j")}
    assert not any(isinstance(v, Refuted) for _, v in check.verdicts(Template.of(text, "x.py.jinja", **names).render()))


def test_uses_that_are_refused():
    def render(text):
        return Template.of(text, "x.py.jinja", A=Row(8, 8), i=index("i")).render()

    with pytest.raises(TemplateError, match="maps indices outside to elements inside, which several lanes would write"):
        render('{{ store("y", A.shifted(1, 0, boundary="clamp")[i, :], "x") }}')
    with pytest.raises(TemplateError, match=r"A: shifted takes an int for each of the sizes \[8, 8\], got \[1\]"):
        render("x = {{ A.shifted(1)[i, :] }}")
    render('{{ store("y", A.shifted(1, 0)[i, :], "x") }}')
