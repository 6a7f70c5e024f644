"""The shipped CUDA kernels and headers: translation checked, run on the CPU, and compiled by nvcc for sm_90."""

import ctypes
import shutil

import numpy as np
import pytest
from host_cuda import build, check_nw, check_stencil, pointer

import lego_mlir as lego
from lego_mlir import Col, GenP, Padded, RegP, Row, TileOrderBy, as_layout, gallery
from lego_mlir.errors import DependencyError, TemplateError, ToolchainError
from lego_mlir.hardware.limits import WARP
from lego_mlir.templates import Template, indices
from lego_mlir.templates.header import header, render_header
from lego_mlir.templates.library.nw import BUFFERS, TURN, Sweep, nw
from lego_mlir.templates.library.stencil import STENCILS, bricks, row_major, stencil
from lego_mlir.templates.readback import check
from lego_mlir.templates.run import nvcc

needs_gcc = pytest.mark.skipif(shutil.which("g++") is None, reason="needs the compiler g++")
needs_nvcc = [
    pytest.mark.tools,
    pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc of the CUDA toolkit on PATH"),
]


@needs_gcc
@pytest.mark.parametrize(("n", "b"), [(24, 8), (128, 64)], ids=["part of a warp", "two warps"])
@pytest.mark.parametrize("kind", BUFFERS)
def test_needleman_wunsch_gives_the_same_scores_whatever_the_buffer(tmp_path, kind, n, b):
    rendered = nw(n, b, kind).render()
    check.require(rendered)
    check_nw(tmp_path, rendered.text, n, b)


@pytest.mark.parametrize("b", [64, 128, 1024])
def test_a_warp_reads_only_what_the_one_on_its_left_wrote_before_a_barrier(b):
    """Its first lane, about to do row r, reads row r + 1 of the last column of the warp on its left."""
    sweep = Sweep.of(b)
    for c in range(WARP, b, WARP):
        for r in range(-1, b - 1):
            read, written = r + sweep.delay(c), r + 1 + sweep.delay(c - 1)
            assert written // TURN < read // TURN
    assert sweep.steps % TURN == 0 and sweep.steps - TURN < b + sweep.delay(b - 1) <= sweep.steps


def test_a_block_of_one_warp_waits_for_its_warp_only():
    assert "__syncthreads" not in nw(64, 32).render().text
    assert "__syncwarp" not in nw(128, 64).render().text


LAYOUTS_OF_CUBES = {
    "row-major": row_major,
    "bricks": lambda n: bricks(n, 4),
    "bricks backwards": lambda n: TileOrderBy(gallery.reverse(2, 2, 2), Row(4, 4, 4)).GroupBy([n, n, n]),
    "columns first": lambda n: as_layout(RegP([n, n, n], [3, 2, 1])),
}


@needs_gcc
@pytest.mark.parametrize("name", STENCILS)
@pytest.mark.parametrize("order", ["row-major", "bricks", "bricks backwards", "columns first"])
@pytest.mark.parametrize("each", [(1, 1), (4, 4), (2, 2)])
def test_stencils_give_the_same_field_whatever_the_layout(tmp_path, name, order, each):
    n, block = 8, (1, 2, 2)
    layout = LAYOUTS_OF_CUBES[order](n)
    rendered = stencil(n, name, layout, block=block, each=each).render()
    check.require(rendered)
    check_stencil(tmp_path, rendered.text, name, layout, n, block, each)


HEADERS = {
    "AntiDiag": (gallery.antidiagonal(lego.size("n", max=8192)), "AntiDiag(b + 1)", gallery.antidiagonal(7)),
    "Columns": (Col(lego.size("m"), lego.size("n")), "Columns(b + 1, b + 1)", Col(7, 7)),
    "Fixed": (gallery.antidiagonal(7), "Fixed()", gallery.antidiagonal(7)),
    "Room": (Padded(Row(7, 8), [7, 7]), "Room()", Padded(Row(7, 8), [7, 7])),
    "Listed": (gallery.table([7, 7], range(48, -1, -1)), "Listed()", gallery.reverse(7, 7)),
}


@needs_gcc
@pytest.mark.parametrize("name", HEADERS)
def test_a_header_redirects_the_subscripts_of_existing_code(tmp_path, name):
    """The paper's two lines, and nothing else, change in code that indexes `buff[i][j]`."""
    layout, made, concrete = HEADERS[name]
    check.require(render_header(name, layout))
    (tmp_path / "layout.h").write_text(header(name, layout))
    user = f"""
#include "layout.h"
extern "C" void run(int *out, int *back, int b) {{
  int base[7][8];
  Arr2D buff(&base[0][0], {made});
  for (int i = 0; i <= b; ++i)
    for (int j = 0; j <= b; ++j) buff[i][j] = 10 * i + j;
  for (int p = 0; p < 49; ++p) out[p] = (&base[0][0])[p];
  for (int i = 0; i <= b; ++i)
    for (int j = 0; j <= b; ++j) {{
      {name}::index i2, j2;
      buff.layout.inv(&buff(i, j) - &base[0][0], i2, j2);
      back[i * 7 + j] = buff[i][j] == 10 * i + j && i2 == i && j2 == j;
    }}
}}
"""
    out, back = np.zeros(49, np.int32), np.zeros(49, np.int32)
    build(tmp_path, user, "c++17").run(pointer(out), pointer(back), 6)
    assert back.all()
    for i in range(7):
        for j in range(7):
            place = as_layout(concrete).apply(i, j)
            assert place >= 49 or out[place] == 10 * i + j


@needs_gcc
def test_a_variable_of_ones_own_may_be_an_int_however_far_it_runs(tmp_path):
    """Its size has no maximum, so the index needs 64 bits; nothing says that the variable has as many."""
    rows, columns = lego.size("M"), lego.size("N", max=100_000)
    tiles = Row(rows, columns).tile_by([lego.cdiv(rows, 32), lego.cdiv(columns, 32)], [32, 32])
    by, bx, ty, tx = indices("by bx ty tx")
    text = 'extern "C" long long f(int by, int bx, int ty, int tx{{ sizes }}) {\n  return {{ A[by, bx, ty, tx] }};\n}\n'
    found = Template.of(text, "t.cpp.jinja", A=tiles, by=by, bx=bx, ty=ty, tx=tx).render()
    check.require(found, sampled=20_000)
    assert "(long long)by" in found.text
    library = build(tmp_path, found.text)
    library.f.restype = ctypes.c_longlong
    at, sizes = (1249, 2187, 31, 15), (ctypes.c_longlong(40_000), 70_000)
    assert library.f(*at, *sizes) == (1249 * 32 + 31) * 70_000 + 2187 * 32 + 15


SQUARES = {"columns": lambda n: Col(n, n), "anti-diagonals": gallery.antidiagonal}
CLASHES = {
    "columns": ("i", "j", "k", "l", "p", "n_", "size", "apply", "inv", "index", "base", "layout", "i0", "p0", "T"),
    "anti-diagonals": ("i", "j", "t0", "t1_", "size"),
}


@needs_gcc
@pytest.mark.parametrize("kind", SQUARES)
def test_the_names_of_sizes_are_kept_apart_from_those_of_the_class(tmp_path, kind):
    """For any name of a size, its member collides with no parameter, method or temporary of the class."""
    texts, calls = [], []
    for number, name in enumerate(CLASHES[kind]):
        layout, made = SQUARES[kind](lego.size(name, max=1000)), f"Any{number}(7)"
        found = render_header(f"Any{number}", layout)
        check.require(found)
        texts.append(found.text)
        calls.append(f"  if (Arr2D(out, {made})(i, j) != want) return {number + 1};")
        calls.append(f"  {made}.inv({made}.apply(i, j), a, b);\n  if (a != i || b != j) return -{number + 1};")
    run = ['extern "C" int run(int *out, int i, int j, int want) {', "  int a, b;", *calls, "  return 0;", "}"]
    library = build(tmp_path, "\n".join([*texts, *run]), "c++17")
    memory, square = np.arange(49, dtype=np.int32), SQUARES[kind](7)
    for i in range(7):
        for j in range(7):
            assert library.run(pointer(memory), i, j, square.apply(i, j)) == 0


@needs_gcc
def test_a_header_works_in_64_bits_where_its_sizes_need_it(tmp_path):
    """Rows beyond 2**31, there and back; the array is of one byte elements that are never touched."""
    rows = Row(lego.size("R"), lego.size("C"))
    found = render_header("Long", rows)
    check.require(found)
    user = (
        found.text
        + """
extern "C" long long there(long long i, long long j) {
  char *base = nullptr;
  Arr2D at(base, Long(3000000000LL, 2));
  return (long long)&at[i][j] - (long long)&at(0, 0);
}
extern "C" long long back(long long p) {
  long long i, j;
  Long(3000000000LL, 2).inv(p, i, j);
  return i * 10 + j;
}
"""
    )
    library = build(tmp_path, user, "c++17")
    library.there.restype = library.back.restype = ctypes.c_longlong
    assert library.there(ctypes.c_longlong(2_999_999_999), ctypes.c_longlong(1)) == 5_999_999_999
    assert library.back(ctypes.c_longlong(5_999_999_999)) == 29_999_999_991
    mixed = render_header("Mixed", Row(lego.size("R"), 8)).text
    assert "using index = long long;" in mixed
    assert "void inv(long long p, long long &i, long long &j) const" in mixed
    assert "(long long R, long long C)" in found.text  # the order of the dims, not of the names


def test_a_class_and_a_function_take_the_sizes_in_the_order_of_the_dims():
    rows, columns = lego.size("R", max=64), lego.size("C", max=64)
    for layout in (Row(rows, columns), Col(rows, columns), as_layout(gallery.reverse(rows, columns))):
        assert "explicit Any(int R, int C)" in header("Any", layout)
        found = Template.of('{{ helpers }}{{ device_function("at", A) }}', "t.cuh.jinja", A=layout).render()
        assert "int at(int i, int j, int R, int C)" in found.text.replace("/*", "").replace("*/", "")


@needs_gcc
def test_headers_of_three_and_four_dimensions(tmp_path):
    cube, four = bricks(8, 4), Row(2, 3, 4, 5)
    (tmp_path / "cube.h").write_text(header("Cube", cube))
    (tmp_path / "four.h").write_text(header("Four", four))
    user = """
#include "cube.h"
#include "four.h"
extern "C" int run(float *base, int i, int j, int k) {
  Arr3D cube(base, Cube());
  Arr4D four(base, Four());
  return 1000 * (int)(&cube[i][j][k] - base) + (int)(&four[1][2][j][k] - base);
}
"""
    library, base = build(tmp_path, user, "c++17"), np.zeros(512, np.float32)
    found = library.run(pointer(base), 5, 3, 4)
    assert found == 1000 * cube.apply(5, 3, 4) + as_layout(four).apply(1, 2, 3, 4)


def test_constants_are_folded_into_a_header():
    assert "n_ * n_" in header("AntiDiag", gallery.antidiagonal(lego.size("n", max=8192)))
    fixed = header("Fixed", gallery.antidiagonal(7))
    assert "return 49;" in fixed and "int n_;" not in fixed


def test_what_a_header_cannot_be_made_of():
    with pytest.raises(TemplateError, match="header: a layout of at most 4 dimensions, got 5"):
        header("Big", Row(2, 2, 2, 2, 2))
    with pytest.raises(TemplateError, match="header: the class is called 'a b', which is not an identifier; rename it"):
        header("a b", Row(2, 2))
    with pytest.raises(TemplateError, match=r"header: the class is called 'class', which C\+\+ reserves"):
        header("class", Row(2, 2))
    for name in ("inv", "index"):
        with pytest.raises(TemplateError, match=f"layout_class: a class cannot be called '{name}', as one of its"):
            header(name, Row(2, 2))
    with pytest.raises(TemplateError, match="header: the class cannot be called 'Arr2D', as its array is; rename it"):
        header("Arr2D", Row(2, 2))


def test_what_the_kernels_refuse():
    with pytest.raises(TemplateError, match=r"nw: n=30 must be a multiple of b=16"):
        nw(30, 16)
    with pytest.raises(TemplateError, match="nw: the buffer is one of row-major, anti-diagonal, padded, got 'odd'"):
        nw(32, 16, "odd")
    with pytest.raises(TemplateError, match=r"bricks: n=30 must be a multiple of side=8"):
        bricks(30)
    with pytest.raises(TemplateError, match="nw: a block of more than 32 columns must be whole warps of 32, got b=48"):
        nw(96, 48)
    with pytest.raises(TemplateError, match=r"stencil: n=16 must be a multiple of a block's outputs, \(1, 8, 32\)"):
        stencil(16, "7-point", row_major(16))
    with pytest.raises(TemplateError, match="stencil: name is one of 7-point, 13-point, 27-point, got '5-point'"):
        stencil(16, "5-point", row_major(16))


def test_what_is_proved_of_a_layout_decides_how_a_stencil_reads_it():
    """Rows by fours where they lie together, positions as sums where axes are apart; else element by element."""
    text = stencil(16, "7-point", bricks(16), block=(1, 8, 4), each=(4, 4)).render().text
    assert "struct alignas(16) strip" in text and "plane[4] = plane[1] + 192;" in text
    columns = stencil(16, "7-point", as_layout(RegP([16, 16, 16], [3, 2, 1])), block=(1, 8, 4), each=(4, 4))
    assert "strip" not in columns.render().text
    twisted = GenP(
        [16, 16, 16],
        lambda z, y, x: z * 256 + y * 16 + (x ^ y),
        lambda p: (p // 256, p // 16 % 16, p % 16 ^ p // 16 % 16),
    )
    assert "plane" not in stencil(16, "7-point", as_layout(twisted), block=(1, 8, 4), each=(4, 4)).render().text


class TestWithNvcc:
    pytestmark = needs_nvcc

    @pytest.mark.parametrize("kind", BUFFERS)
    def test_needleman_wunsch_compiles_for_hopper_without_spills(self, kind):
        found = nvcc.compile_text(nw(2048, 32, kind).render().text)
        assert {r.kernel for r in found.resources} == {"nw_growing", "nw_shrinking"}
        assert all(r.spill_loads == r.spill_stores == 0 for r in found.resources)

    def test_a_block_of_more_than_48_kib_takes_its_memory_at_the_launch(self):
        text = nw(2048, 128, "padded").render().text
        assert (
            "extern __shared__ int buffer[];" in text
            and "extern __shared__" not in nw(2048, 64, "padded").render().text
        )
        assert len(nvcc.compile_text(text).resources) == 2

    def test_a_stencil_and_every_header_compile_for_hopper(self):
        texts = [header(name, layout) for name, (layout, _, _) in HEADERS.items()]
        uses = "".join(
            f'extern "C" __global__ void use_{name}(int *out, int b, int i, int j) {{\n'
            f"  Arr2D buff(out, {made});\n  buff[i][j] = 1;\n}}\n"
            for name, (_, made, _) in HEADERS.items()
        )
        brick = stencil(64, "27-point", bricks(64), block=(1, 8, 8), each=(4, 4)).render().text
        found = nvcc.compile_text("\n".join([*texts, uses, brick]))
        assert {r.kernel for r in found.resources} == {*(f"use_{name}" for name in HEADERS), "stencil"}

    def test_what_nvcc_refuses_comes_with_the_way_to_see_it_again(self):
        with pytest.raises(ToolchainError, match=r"(?s)stage 'nvcc' failed.*undefined.*to reproduce: nvcc") as error:
            nvcc.compile_text("__global__ void f() { undefined; }")
        assert error.value.rerun.kept_input.read_text() == "__global__ void f() { undefined; }"


def test_without_nvcc_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setattr(nvcc, "version", lambda: None)
    with pytest.raises(DependencyError, match="nvcc is needed to compile CUDA C\\+\\+, and it was not found; install"):
        nvcc.compile_text("")
