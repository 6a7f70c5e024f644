"""Every template that comes along, rendered at a small size: kept as text, and executed against NumPy."""

import importlib.util
import shutil
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pytest
from golden_files import FOLDER, compare
from host_cuda import build, check_nw, check_stencil, pointer
from triton_values import attended, batched, grouped, norm, product_in_f32, random, reversal, rows_of_softmax, same

import lego_mlir as lego
from lego_mlir import Row, as_layout, gallery
from lego_mlir.templates.header import render_header
from lego_mlir.templates.library.attention import attention
from lego_mlir.templates.library.matmul import batched_matmul, grouped_gemm, matmul, relayout
from lego_mlir.templates.library.nw import nw
from lego_mlir.templates.library.rows import layer_norm, softmax
from lego_mlir.templates.library.stencil import bricks, row_major, stencil
from lego_mlir.templates.readback import check
from lego_mlir.templates.render.template import SHIPPED, Rendered
from lego_mlir.templates.run.triton_interpreter import interpret

GOLDEN = FOLDER / "templates"
TILE = (32, 32, 32)
HAS_TRITON, HAS_GCC = importlib.util.find_spec("triton") is not None, shutil.which("g++") is not None


@dataclass(frozen=True)
class Golden:
    """A rendered template, and a function that runs it: of the rendered kernel, and of a folder for what it builds."""

    render: Any
    run: Any
    suffix: str = "py"

    @cached_property
    def rendered(self) -> Rendered:
        return self.render()


# -- the kernels in Triton


def product(kernel, grid, m, n, k, b="N"):
    left, right, c = random(m, k), random(k, n, seed=1), np.zeros((m, n), np.float16)
    stored = right if b == "N" else np.ascontiguousarray(right.T)
    values = {"M": m, "N": n, "K": k}
    interpret(kernel, "matmul", (grid,), left, stored, c, *(values[str(s)] for s in kernel.sizes))
    same(c, product_in_f32(left, right), 0.02)


# -- the classes of layouts

CLASS_USER = """
extern "C" void run(int *out, int n) {{
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j) {{
      {name}::index i2, j2;
      {made}.inv({made}.apply(i, j), i2, j2);
      {array}
      out[i * n + j] = i2 == i && j2 == j && &buff{subscript} == base + {made}.apply(i, j) ? {made}.apply(i, j) : -1;
    }}
}}
"""


def antidiagonal_class(rendered, folder):
    n, made = 7, "AntiDiag(7)"
    user = CLASS_USER.format(
        name="AntiDiag", made=made, array=f"int base[49]; Arr2D buff(&base[0], {made});", subscript="[i][j]"
    )
    out = np.zeros((n, n), np.int32)
    build(folder, rendered.text + user, "c++17").run(pointer(out), n)
    assert np.array_equal(out, np.asarray(gallery.antidiagonal(n)[:, :]))


def cube_class(rendered, folder):
    user = 'extern "C" int run(float *base, int i, int j, int k) { return &Arr3D(base, Cube())[i][j][k] - base; }\n'
    library, memory, cube = build(folder, rendered.text + user, "c++17"), np.zeros(512, np.float32), bricks(8, 4)
    for point in np.ndindex(8, 8, 8):
        assert library.run(pointer(memory), *point) == cube.apply(*point)


def sizes():
    return [lego.size(name, max=4096) for name in "MNK"]


def scores(n, b, kind):
    return Golden(lambda: nw(n, b, kind).render(), lambda r, folder: check_nw(folder, r.text, n, b), "cu")


def cube(name, layout, block, each):
    return Golden(
        lambda: stencil(8, name, layout, block=block, each=each).render(),
        lambda r, folder: check_stencil(folder, r.text, name, layout, 8, block, each),
        "cu",
    )


TEXTS = {
    "matmul": Golden(lambda: matmul(64, 128, 96, tile=TILE, group=2).render(), lambda r, _: product(r, 8, 64, 128, 96)),
    "matmul_symbolic": Golden(
        lambda: matmul(*sizes(), tile=TILE, group=2).render(), lambda r, _: product(r, 6, 50, 70, 40)
    ),
    "matmul_persistent_descriptors": Golden(
        lambda: matmul(64, 96, 32, b="T", tile=TILE, descriptors=True, persistent=4).render(),
        lambda r, _: product(r, 4, 64, 96, 32, "T"),
    ),
    "batched_matmul": Golden(lambda: batched_matmul(3, 40, 64, 32, tile=TILE).render(), lambda r, _: batched(r)),
    "batched_matmul_descriptors": Golden(
        lambda: batched_matmul(3, 40, 64, 32, tile=TILE, descriptors=True).render(), lambda r, _: batched(r)
    ),
    "grouped_gemm": Golden(lambda: grouped_gemm(tile=TILE, programs=2, group=2).render(), lambda r, _: grouped(r)),
    "grouped_gemm_descriptors": Golden(
        lambda: grouped_gemm(tile=TILE, programs=2, group=2, descriptors=True).render(), lambda r, _: grouped(r)
    ),
    "relayout": Golden(
        lambda: relayout(Row(40, 24), as_layout(gallery.reverse(40, 24)), tile=(16, 8)).render(),
        lambda r, _: reversal(r),
    ),
    "softmax": Golden(lambda: softmax(6, 100, at_a_time=4).render(), lambda r, _: rows_of_softmax(r)),
    "layer_norm": Golden(lambda: layer_norm(6, 50, groups=2, block=32).render(), lambda r, _: norm(r)),
    "attention": Golden(
        lambda: attention(1, 2, 64, 16, tile=(32, 16)).render(), lambda r, _: attended(r, 64, causal=False)
    ),
    "attention_causal_descriptors": Golden(
        lambda: attention(1, 2, 50, 16, causal=True, tile=(32, 16), descriptors=True).render(),
        lambda r, _: attended(r, 50, causal=True),
    ),
    "nw_antidiagonal": scores(24, 8, "anti-diagonal"),
    "nw_padded": scores(128, 64, "padded"),
    "stencil_row_major": cube("7-point", row_major(8), (1, 2, 2), (1, 1)),
    "stencil_bricks": cube("27-point", bricks(8, 4), (1, 2, 2), (4, 4)),
    "layout_antidiagonal": Golden(
        lambda: render_header("AntiDiag", gallery.antidiagonal(lego.size("n", max=8192))), antidiagonal_class, "h"
    ),
    "layout_bricks": Golden(lambda: render_header("Cube", bricks(8, 4)), cube_class, "h"),
}


def golden_file(name):
    """A file .txt: linters and the collection of doctests leave it alone."""
    return GOLDEN / f"{name}.{TEXTS[name].suffix}.txt"


@pytest.mark.parametrize("name", TEXTS)
def test_rendered_text(name, request):
    compare(TEXTS[name].rendered.text, golden_file(name), request)


@pytest.mark.parametrize("name", TEXTS)
def test_the_golden_text_computes_what_numpy_does(name, tmp_path):
    golden, file = TEXTS[name], golden_file(name)
    needed, found = ("triton", HAS_TRITON) if golden.suffix == "py" else ("the compiler g++", HAS_GCC)
    if not found:
        pytest.skip(f"needs {needed}")
    rendered = golden.rendered
    assert rendered.text.rstrip() == file.read_text().rstrip()
    check.require(rendered, sampled=20_000)
    golden.run(rendered, tmp_path)


def test_every_template_has_a_golden_file_and_none_is_left_over():
    assert {path.name for path in GOLDEN.iterdir()} == {golden_file(name).name for name in TEXTS}
    assert {golden.rendered.template.name for golden in TEXTS.values()} == {p.name for p in SHIPPED.glob("*.jinja")}
