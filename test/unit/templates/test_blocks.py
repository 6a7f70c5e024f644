"""Vectors of indices in Triton templates: gathers, page tables and scatters, rendered, checked, run against NumPy."""

import importlib.util
from dataclasses import replace

import numpy as np
import pytest

from lego_mlir import Padded, Row, as_layout, cdiv, gallery, size
from lego_mlir.errors import TemplateError
from lego_mlir.templates import Template, block, index, indices
from lego_mlir.templates.readback import check
from lego_mlir.templates.readback.unmasked import unmasked

triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="needs the package triton (pip install lego-mlir[triton])"
)
HEAD = "import triton\nimport triton.language as tl\n{{ helpers }}\n@triton.jit\n"
rows, columns = block("rows", 8, 30), block("columns", 4, 40)
i, j, seq, head, n = indices("i j seq head n")


def filled(text, name="t.py.jinja", **names):
    return Template.of(text, name, **{"rows": rows, "columns": columns, "i": i, "j": j, **names}).render().text


def ran(body, grid, *arguments, sizes=None, **names):
    """Render a kernel `f`, compare its placeholders with the layouts, and run it."""
    from lego_mlir.templates.run.triton_interpreter import interpret

    rendered = Template.of(HEAD + body, "t.py.jinja", **names).render()
    check.require(rendered, sampled=20_000)
    interpret(rendered, "f", grid, *arguments, **(sizes or {}))


@triton
@pytest.mark.parametrize(("m", "columns"), [(37, 45), (5, 64), (1, 1)])
def test_rows_are_gathered_by_a_loaded_block_of_indices(m, columns):
    rng = np.random.default_rng(m)
    M, N, L = size("M", max=5000), size("N", max=3000), size("L", max=10**5)
    body = """def f(i_ptr, x_ptr, y_ptr{{ sizes }}):
    i = tl.program_id(0)
    rows = tl.load(i_ptr + i * 16 + tl.arange(0, 16))
    for j in range(0, {{ X.shape[1] }}):
        x = {{ load("x_ptr", X[rows, j, 0, :], other="-1.0") }}
        {{ store("y_ptr", Y[i, j, :, :], "x") }}
"""
    at, x = rng.integers(0, m, 32).astype(np.int32), rng.standard_normal((m, columns)).astype(np.float32)
    y = np.zeros((32, columns), np.float32)
    tiled = Row(M, N).tile_by([M, cdiv(N, 32)], [1, 32])
    out = Row(L, N).tile_by([cdiv(L, 16), cdiv(N, 32)], [16, 32])
    values = {"M": m, "N": columns, "L": 32}
    ran(body, (2,), at, x, y, sizes=values, X=tiled, Y=out, rows=block("rows", 16, M), i=i, j=j)
    assert np.array_equal(y, x[at])


@triton
def test_a_paged_cache_is_read_through_its_page_table():
    pages, positions, lengths = 7, 64, np.array([5, 64, 33], np.int32)
    rng = np.random.default_rng(3)
    table = rng.integers(0, pages, (3, 8)).astype(np.int32)
    cache = rng.standard_normal((pages, 8, 2, 32)).astype(np.float32)
    out, wanted = np.zeros((3, 2, positions, 32), np.float32), np.zeros((3, 2, positions, 32), np.float32)
    p = block("p", 16, positions)
    body = """def f(t_ptr, l_ptr, k_ptr, o_ptr):
    seq, head = tl.program_id(0), tl.program_id(1)
    length = tl.load(l_ptr + seq)
    for n in range(0, 4):
        p = n * 16 + tl.arange(0, 16)
        page = {{ load("t_ptr", T[seq, p // 8], other=0, where=p < length) }}
        k = {{ load("k_ptr", K[page, p % 8, head, :], other="0.0", where=p < length) }}
        {{ store("o_ptr", O[seq, head, p, :], "k", where=p < length) }}
"""
    names = {"T": Row(3, 8), "K": Row(pages, 8, 2, 32), "O": Row(3, 2, positions, 32), "seq": seq, "head": head}
    names |= {"p": p, "page": block("page", 16, along=p), "length": index("length", positions + 1)}
    ran(body, (3, 2), table, lengths, cache, out, **names)
    for s, length in enumerate(lengths):
        at = np.arange(length)
        wanted[s, :, :length] = cache[table[s, at // 8], at % 8].transpose(1, 0, 2)
    assert np.array_equal(out, wanted)


@triton
def test_values_are_scattered_to_rows_and_columns_that_were_loaded():
    rng = np.random.default_rng(4)
    at, to = rng.permutation(30)[:8].astype(np.int32), rng.permutation(40)[:4].astype(np.int64)
    values, x, wanted = rng.integers(1, 99, (8, 4)).astype(np.int32), np.zeros(1200, np.int32), np.zeros(1200, np.int32)
    X = as_layout(gallery.reverse(30, 40))
    body = """def f(r_ptr, c_ptr, v_ptr, x_ptr):
    rows = tl.load(r_ptr + tl.arange(0, 8))
    columns = tl.load(c_ptr + tl.arange(0, 4))
    v = {{ load("v_ptr", V[:, :]) }}
    {{ store("x_ptr", X[rows, columns], "v", where=(rows < 25, columns < 40)) }}
"""
    ran(body, (1,), at, to, values, x, X=X, V=Row(8, 4), rows=rows, columns=columns)
    kept = at < 25
    wanted[X.apply(at[kept, None].astype(np.int64), to[None, :])] = values[kept]
    assert np.array_equal(x, wanted)


@triton
def test_the_length_of_a_block_may_be_a_constexpr():
    B = size("B", max=64)
    body = """def f(i_ptr, x_ptr, y_ptr{{ sizes }}):
    i = tl.program_id(0)
    rows = tl.load(i_ptr + {{ I[i, :] }})
    tl.store(y_ptr + {{ Y[i, :, 0] }}, tl.load(x_ptr + {{ X[rows, 3] }}))
"""
    at, x, y = np.array([4, 0, 2, 2, 1, 3, 0, 4], np.int32), np.arange(25, dtype=np.float32), np.zeros(8, np.float32)
    names = {"X": Row(5, 5), "I": Row(2, B), "Y": Row(2, B, 1), "rows": block("rows", B, 5), "i": i}
    ran(body, (2,), at, x, y, sizes={"B": 4}, **names)
    assert np.array_equal(y, x.reshape(5, 5)[at, 3])


def test_a_vector_has_one_axis_in_the_order_of_the_index():
    assert filled("{{ X[rows, :] }}", X=Row(30, 16)) == "(rows * 16)[:, None] + tl.arange(0, 16)[None, :]"
    assert filled("{{ X[:, rows] }}", X=Row(16, 30)) == "(tl.arange(0, 16) * 30)[:, None] + rows[None, :]"
    assert filled("{{ X[i, rows] }}", X=Row(16, 30)) == "i * 30 + rows"
    assert filled("{{ X[rows // 8, rows % 8] }}", X=Row(4, 8)) == "rows"
    assert filled("{{ assign('i, j', X.inv(rows)) }}", X=Row(3, 10)) == "i = rows // 10\nj = rows % 10"
    assert filled("{{ rows < 5 }}, {{ X.mask[rows, 3] }}", X=Padded(Row(30, 8), [30, 7])) == "rows < 5, True"


def test_in_c_such_a_variable_is_one_number():
    assert filled("x[{{ X[rows, 3] + 1 }}]", "t.cu.jinja", X=Row(30, 40)) == "x[rows * 40 + 4]"


def test_the_translation_check_sees_a_vector_along_the_wrong_axis():
    rendered = Template.of("{{ X[rows, :] }}", "t.py.jinja", X=Row(30, 8), rows=rows).render()
    check.require(rendered)
    wrong = replace(rendered.placeholders[0], text="(rows * 8)[None, :] + tl.arange(0, 8)[:, None]")
    with pytest.raises(TemplateError, match=r"the text gives .* and the layout .* for rows = "):
        check.require(replace(rendered, placeholders=(wrong,)))


def test_a_ragged_block_of_indices_without_a_mask_is_noted():
    X = Row(30, 20).tile_by([30, 2], [1, 16])
    for access, noted in (("tl.load(p + {{ X[rows, 1, 0, :] }})", 1), ('{{ load("p", X[rows, 1, 0, :]) }}', 0)):
        assert len(unmasked(Template.of(f"x = {access}", "t.py.jinja", X=X, rows=rows).render())) == noted


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{{ X[rows, :].base }}", r"X\[rows, :\] has no base: rows holds a vector"),
        ("{{ X[rows, :].offsets }}", r"X\[rows, :\]\.offsets has no base"),
        ("{{ X[columns + rows // 2, 1] }}", "computes with columns and rows, which are blocks along different axes"),
        ("{{ rows + columns }}", "declare one along the other"),
        ("{{ X[rows:rows + 2, 1] }}", "a slice begins at one place, and rows holds 8"),
        ("{{ X[rows + 40, 1] }}", r"index 0 of X is rows \+ 40, outside 0..60-1"),
        ("{{ load('x', X[rows, :], where=columns < 3) }}", r"where= compares columns, .* not an index of X\[rows, :\]"),
        ("{{ load('x', X[rows, :], where='a < 3') }}", "where= is a condition on the indices of the slice"),
        ("{{ load_block('d', Y[rows, 0, :, :]) }}", "a descriptor reads one tile, and rows holds 8 indices"),
    ],
)
def test_what_a_vector_cannot_do(text, said):
    with pytest.raises(TemplateError, match=said):
        filled("\n" + text, X=Row(60, 64), Y=Row(320, 32).tile_by([40, 4], [8, 8]))


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("i = tl.load(p + tl.arange(0, 16))\n    v = {{ X[i, :] }}", "i is declared as one number, .* assigns a block"),
        ("i = (tl.arange(0, 8) * 2)[:, None]\n    v = {{ X[i, :] }}", "assigns a block of 2 axes to it; index with"),
        ("{{ assign('i, j', X.inv(rows)) }}\n    v = {{ X[i, :] }}", r"declare it block\('i', length, \.\.\)"),
        ("rows = tl.program_id(0)\n    v = {{ X[rows, :] }}", "rows is declared as a block, .* assigns one number"),
    ],
)
def test_a_vector_that_is_declared_as_a_number_is_refused(lines, said):
    with pytest.raises(TemplateError, match=said):
        filled(f"def f(p):\n    {lines}\n", X=Row(64, 16))


def test_what_reduces_a_vector_and_what_is_not_known_is_left_alone():
    for value in ("tl.max(tl.arange(0, 8))", "g(tl.arange(0, 8))", "q[3]"):
        filled(f"def f(p):\n    i = {value}\n    v = {{{{ X[i, :] }}}}\n", X=Row(64, 16))
    filled(
        "def f(p):\n    v = {{ X[i, :] }}\ndef g(p):\n    i = tl.arange(0, 16)\n    v = {{ X[rows, :] }}\n",
        X=Row(64, 16),
    )


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda: block("b", 12), "block b: Triton's vectors have a power of two of elements or a size, got 12"),
        (lambda: block("b", True), "got True"),
        (lambda: block("b", "x"), "got 'x'"),
        (lambda: block("b", 8, along=i), "along= is another block variable of 8 elements, got i"),
        (lambda: block("b", 8, along=columns), "along= is another block variable of 8 elements, got columns of 4"),
    ],
)
def test_what_no_block_can_be(made, said):
    with pytest.raises(TemplateError, match=said):
        made()
