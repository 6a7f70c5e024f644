"""Filling a template in: slices, masks, steps, statements, sizes, helpers; and the same through the command line."""

from dataclasses import replace

import pytest

import lego_mlir as lego
from lego_mlir import Col, Padded, Row, TileOrderBy, as_layout, gallery, schedule
from lego_mlir.cli.main import main
from lego_mlir.errors import TemplateError
from lego_mlir.expr.index import cdiv
from lego_mlir.templates import Template, index, indices
from lego_mlir.templates.readback import check

m, k, p = indices("m k p")


def filled(text, name="t.py.jinja", **names):
    rendered = Template.of(text, name, m=m, k=k, p=p, **names).render()
    check.require(rendered, sampled=10**4)
    return rendered.text


@pytest.fixture
def tiles():
    return Row(128, 64).tile_by([4, 2], [32, 32])


def test_a_slice_becomes_offsets_with_arange(tiles):
    assert filled("{{ A[m, k, :, :] }}", A=tiles) == (
        "m * 2048 + k * 32 + (tl.arange(0, 32) * 64)[:, None] + tl.arange(0, 32)[None, :]"
    )
    assert filled("{{ A[m, 1, 3, :] }}", A=tiles) == "m * 2048 + 224 + tl.arange(0, 32)"
    assert filled("{{ A[m, k, 8:24, 0] }}", A=tiles) == "m * 2048 + k * 32 + 512 + tl.arange(0, 16) * 64"


def test_parentheses_only_where_what_is_around_needs_them(tiles):
    assert filled("f({{ A[m, 0, 0, :] }}, 2)", A=tiles) == "f(m * 2048 + tl.arange(0, 32), 2)"
    assert filled("x = {{ A[m, 0, 0, 0] }}", A=tiles) == "x = m * 2048"
    assert filled("x == {{ A[m, 0, 0, 0] }}", A=tiles) == "x == (m * 2048)"
    assert filled("p + {{ A[m, k, 0, 0] }}", A=tiles) == "p + (m * 2048 + k * 32)"
    assert filled("{{ A[m, k, 0, 0] }} * 2", A=tiles) == "(m * 2048 + k * 32) * 2"
    assert filled("{{ j }} * 2", j=index("j", 3)) == "j * 2"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = (2 *\n  ", ")"),
        ("x = (2 *  # twice\n\n  # what follows\n  ", ")"),
        ("x = 2 * \\\n  ", ""),
        ("x = (", "\n  * 2)"),
        ("x = (", "  # the position\n  * 2)"),
        ("x = ", " \\\n  * 2"),
        ("x = 2 * {# twice #}\\\n", ""),
    ],
)
def test_an_operator_on_another_line_takes_all_of_a_placeholder(tiles, before, after):
    text = filled(f"{before}{{{{ A[m, k, 0, 0] }}}}{after}", A=tiles)
    assert "(m * 2048 + k * 32)" in text
    values = {"m": 3, "k": 1}
    exec(text, values)
    assert values["x"] == 2 * (3 * 2048 + 32)


def test_a_line_of_its_own_is_no_reason_for_parentheses(tiles):
    assert filled("x = f(a,\n  {{ A[m, k, 0, 0] }},\n  b)", A=tiles) == "x = f(a,\n  m * 2048 + k * 32,\n  b)"
    loop = "x = {{ A[m, k, 0, 0] }}  # the first\n\nfor i in range(4):\n    pass"
    assert filled(loop, A=tiles).startswith("x = m * 2048 + k * 32  # the first\n")
    in_c = filled("int x =\n  {{ A[m, k, 0, 0] }};\nint y = {{ A[m, 0, 0, 0] }}\n  * 2;", "t.cu.jinja", A=tiles)
    assert in_c == "int x =\n  m * 2048 + k * 32;\nint y = (m * 2048)\n  * 2;"


def test_a_mask_that_always_holds_is_none_only_where_it_is_all_of_an_argument(tiles):
    assert filled("f(mask=other &\n  {{ A.mask[m, k, :, :] }})", A=tiles) == "f(mask=other &\n  True)"
    assert filled("f(mask=\n  {{ A.mask[m, k, :, :] }})", A=tiles) == "f(mask=\n  None)"


def test_a_mask_is_there_where_tiles_do_not_divide_and_only_then(tiles):
    ragged = Row(100, 64).tile_by([4, 2], [32, 32])
    both = Row(100, 60).tile_by([4, 2], [32, 32])
    mask = "m * 32 + tl.arange(0, 32) < 100"
    assert filled("{{ A[m, k, :, :].mask }}", A=tiles) == "None"
    assert filled("{{ A.mask[m, k, :, :] }}", A=ragged) == f"({mask})[:, None]"
    assert (
        filled("{{ A.mask(m, k, all, all) }}", A=both)
        == f"(k * 32 + tl.arange(0, 32) < 60)[None, :] & ({mask})[:, None]"
    )
    assert filled("{{ A.mask(m, 0, 5, 0) }}", A=ragged) == "m < 3"
    assert filled("{{ A.mask(m, 0, 5, 0) }}", A=tiles) == "True"
    assert filled('{{ load("x", A[m, 0, :, 0], other=0) }}', A=ragged) == (
        f"tl.load(x + (m * 2048 + tl.arange(0, 32) * 64), mask={mask}, other=0)"
    )
    assert (
        filled('{{ store("x", A[m, 0, :, 0], "v") }}', A=tiles) == "tl.store(x + (m * 2048 + tl.arange(0, 32) * 64), v)"
    )


def test_program_ids_through_inv_are_statements_with_what_they_share_named():
    grid = schedule.grouped(4, 2, rows=2)
    text = filled('def f():\n    {{ assign("i, j", grid.inv(p)) }}\n    return i\n{{ helpers }}', grid=grid)
    assert text.splitlines()[:4] == [
        "def f():",
        "    i = (p >> 2) * 2 + (p & 1)",
        "    j = (p >> 1) & 1",
        "    return i",
    ]
    text = filled('{{ helpers }}{{ assign("i, j", grid.inv(p)) }}', grid=as_layout(gallery.morton(8)))
    assert "t_0 = " in text and text.count("t_0") > 2


@pytest.mark.parametrize("sizes", [(8, 8, 3), (7, 5, 2), (1, 9, 4), (6, 4, 6)])
def test_grouped_and_columns_are_proved_bijections(sizes):
    rows, columns, group = sizes
    for grid in (schedule.grouped(rows, columns, rows=group), schedule.columns(rows, columns, width=group)):
        assert grid.check()
        filled('{{ assign("i, j", grid.inv(p)) }}{{ helpers }}', grid=grid)


def test_symbolic_grids_with_a_ragged_last_group_are_checked_too():
    n = lego.size("N", max=4096)
    grid = schedule.grouped(cdiv(n, 32), cdiv(n, 64), rows=8)
    assert "tl.minimum(" in filled('f(a{{ sizes }})\n{{ assign("i, j", grid.inv(p)) }}\n{{ helpers }}', grid=grid)


def test_a_tile_whose_size_is_a_constexpr_needs_no_floor_division():
    n, tile = lego.size("N", max=4096), lego.size("T", max=256)
    text = filled(
        'f(a{{ sizes }})\n{{ assign("i, j", grid.inv(p)) }}\n{{ helpers }}',
        grid=schedule.grouped(cdiv(n, tile), cdiv(n, 64), rows=8),
    )
    assert "_lego_floor" not in text and "int64" not in text


def test_how_far_a_tile_moves_is_asked_of_the_layout(tiles):
    assert filled("{{ A[m, k, :, :].step(k) }}", A=tiles) == "32"
    assert filled("{{ A[m, k, :, :].step(m) }}", A=tiles) == "2048"
    blocked = TileOrderBy(Row(4, 2), gallery.antidiagonal(32)).GroupBy([128, 64]).tile_by([4, 2], [32, 32])
    assert filled("{{ A[m, k, :, :].steps(k) }}", A=blocked) == "True"
    with pytest.raises(TemplateError, match=r"t\.py\.jinja:2: A\[k, :\]: index the layout with k inside the loop"):
        filled("\n{{ A[k, :].step(k) }}", A=as_layout(gallery.antidiagonal(32)))


def test_a_declared_range_is_kept_by_every_function_and_comparison():
    i, j = index("i", 64), index("j", 8)
    for value, text in (
        (lego.isqrt(i), "_lego_isqrt(i)"),
        (lego.minimum(i, j) + 1, "tl.minimum(i, j) + 1"),
        (lego.where(i < j, i + 1, 0), "tl.where(i < j, i + 1, 0)"),
        ((i < j) + j, "j + tl.where(i < j, 1, 0)"),
        (2**j, "1 << j"),
        ((i + 1 < 10) & ~(j >= i), "(i < 9) & (j < i)"),
        (abs(j - i), "tl.where(j < i, i - j, j - i)"),
    ):
        assert filled("{{ helpers }}x = {{ x }}", x=value).splitlines()[-1] == f"x = {text}"
    assert filled("{{ helpers }}x = {{ i + 1 < j }}", i=i, j=j).endswith("x = i + 1 < j")


def test_a_block_is_its_first_position_and_how_far_the_others_lie_from_it():
    n = lego.size("N", max=4096, multiple_of=32)
    tiles = Row(n, 64).tile_by([n // 32, 2], [32, 32])
    text = filled(
        "def f(x{{ sizes }}):\n    at = {{ A[m, k, :, :].base }}\n    y = {{ A[m, k, :, :].offsets }}\n", A=tiles
    )
    assert "    at = m * 2048 + k * 32\n" in text
    assert "    y = (tl.arange(0, 32) * 64)[:, None] + tl.arange(0, 32)[None, :]\n" in text
    assert (
        filled("{{ A[m, :].offsets }}", A=as_layout(gallery.xor_swizzle(8, 8))).count("m") > 1
    )  # not the same for all m


def test_the_parts_of_a_block_are_checked_like_the_block():
    tiles = Col(64, 96).tile_by([2, 3], [32, 32])
    rendered = Template.of(
        "{{ A[m, k, :, :].base }}, {{ A[m, k, :, :].offsets }}", "t.py.jinja", A=tiles, m=m, k=k
    ).render()
    base, offsets = rendered.placeholders
    check.require(rendered)
    for part, wrong in ((base, "m * 32 + k * 2049"), (offsets, offsets.text.replace("64", "65"))):
        parts = tuple(replace(p, text=wrong) if p is part else p for p in rendered.placeholders)
        with pytest.raises(TemplateError, match="the text gives"):
            check.require(replace(rendered, placeholders=parts))


def test_sizes_become_arguments_hints_and_nothing_when_they_are_numbers():
    n, block = lego.size("N", max=4096, multiple_of=16), lego.size("BLOCK")
    source = "def f(x{{ sizes }}):\n    {{ hints }}\n    y = {{ A[m, :] }}\n"
    assert filled(source, A=Row(16, 64)) == "def f(x):\n    y = m * 64 + tl.arange(0, 64)\n"
    assert filled(source, A=Padded(Row(64, n), [64, 16])) == (
        "def f(x, N):\n    tl.assume(N >= 16)\n    tl.assume(N <= 4096)\n"
        "    N = tl.multiple_of(tl.maximum(N, 16), 16)\n"
        "    y = N * m + tl.arange(0, 16)\n"
    )
    text = filled("def f(x{{ sizes }}):\n    y = {{ A[m, :] }}\n", A=Row(64, block))
    assert text.startswith("def f(x, BLOCK: tl.constexpr):\n") and "tl.arange(0, BLOCK)" in text


def test_hints_name_no_bound_that_an_int32_argument_could_not_be_compared_with():
    n = lego.size("N", max=2**40)
    text = filled("def f(x{{ sizes }}):\n    {{ hints }}\n    y = {{ A[m, k] }}\n", A=Row(64, n))
    assert "tl.assume(N >= 1)\n" in text and "tl.assume(N <=" not in text


@pytest.mark.parametrize(
    ("rows", "block", "hints", "wide"),
    [
        (2**10, "m, 0, 0, :", False, False),  # one axis: 2**20 elements
        (2**12, "m, 0, 0, :", False, True),
        (2**12, "m, 0, 0, :", True, True),
        (2**13, "m, 0, :, :", False, True),  # 2**19 elements beside an axis of two
        (2**12, "m, 0, :, :", True, False),  # 4096, which hints assert
    ],
)
def test_a_tile_size_is_as_large_as_blocks_let_it_be(rows, block, hints, wide):
    B = lego.size("B")
    tiles = Row(rows, B).tile_by([rows // 2, 1], [2, B])
    text = f"def f(x{{{{ sizes }}}}):\n    {'{{ hints }}' * hints}\n    y = {{{{ A[{block}] }}}}\n"
    assert ("int64" in filled(text, A=tiles)) == wide


def test_a_size_that_the_kernel_reads_is_hinted_where_it_is_read():
    n = lego.size("N", max=4096, multiple_of=16)
    text = filled("{{ local(n) }} = tl.load(p)\n{{ hints }}\ny = {{ A[m, k] }}\n", A=Row(64, n), n=n)
    assert "\nN = tl.multiple_of(N, 16)\ntl.assume(N >= 16)\n" in text


def test_an_unbounded_size_is_computed_in_int64():
    assert "tl.cast(" in filled(
        "f(x{{ sizes }}) {{ A[m, k, 0, 0] }}", A=Row(128, lego.size("N")).tile_by([4, lego.size("N")], [32, 1])
    )


def test_descriptors_of_row_and_column_major_matrices():
    row, column = (kind(128, 64).tile_by([4, 2], [32, 32]) for kind in (Row, Col))
    assert filled('{{ descriptor("x", A) }}', A=row) == (
        "tl.make_tensor_descriptor(x, shape=[128, 64], strides=[64, 1], block_shape=[32, 32])"
    )
    assert filled('{{ load_block("d", A[m, k, :, :]) }}', A=row) == "d.load([m * 32, k * 32])"
    assert filled('{{ load_block("d", A[m, k, :, :]) }}', A=column) == "d.load([k * 32, m * 32]).T"
    assert filled('{{ store_block("d", A[m, k, :, :], "v") }}', A=column) == "d.store([k * 32, m * 32], tl.trans(v))"
    with pytest.raises(
        TemplateError, match=r"not strided, so use offsets, A\[\.\.\., :, :\], .*: one step along i0 moves"
    ):
        filled('{{ descriptor("x", A) }}', A=as_layout(gallery.antidiagonal(8)).tile_by([2, 2], [4, 4]))


def test_runs_that_triton_would_not_see_are_said_to_it_and_others_are_not(tiles):
    swizzled = as_layout(gallery.xor_swizzle(64, 64, vec=8))
    text = filled("{{ A[m, k, :, :] }}", A=swizzled.tile_by([2, 1], [32, 64]))
    assert text.startswith("tl.max_contiguous(tl.multiple_of(") and text.endswith("[1, 8]), [1, 8])")
    assert "max_contiguous" not in filled("{{ A[m, k, :, :] }}", A=tiles)
    assert "max_contiguous" not in filled("{{ A[m, :] }}", A=as_layout(gallery.reverse(4, 8)))


def test_indices_carry_their_ranges_through_arithmetic():
    j = index("j", 100)
    assert filled("x = {{ (j + 3) // 7 }}", j=j) == "x = (j + 3) // 7"
    assert filled("x = {{ A[(j + 3) // 7] }}", A=Row(15), j=j) == "x = (j + 3) // 7"


def test_cuda_functions_and_statements():
    text = filled(
        '{{ helpers }}{{ device_function("at", A) }}\n{\n  {{ assign("i, j", A.inv(p)) }}\n}\n',
        "t.cu.jinja",
        A=Col(30, 7),
    )
    assert "LEGO_DEVICE int at(int i, int j) {\n  return j * 30 + i;\n}" in text
    assert "  const int i = (int)((unsigned)p % 30u);" in text
    text = filled('{{ helpers }}{{ device_function("at", A) }}\n', "t.cuh.jinja", A=as_layout(gallery.antidiagonal(5)))
    assert text.count("return") >= 1 and "int at(int i, int j)" in text


def test_the_command_line_writes_nothing_where_the_text_is_not_what_the_layout_says(tmp_path, capsys, monkeypatch):
    from lego_mlir.printers.triton import TritonPrinter

    monkeypatch.setattr(TritonPrinter, "_expander", lambda self, expr: "[None, :]")
    spec, template, out = (tmp_path / name for name in ("spec.py", "t.py.jinja", "t.py"))
    spec.write_text(
        "from lego_mlir import Row\nfrom lego_mlir.templates import Template, indices\n"
        '(m,) = indices("m")\nA = Row(8, 4, 4)\nx = Template.of("{{ A[m, :, :] }}", "x.py.jinja", A=A, m=m)\n'
    )
    template.write_text("x = {{ A[m, :, :] }}\n")
    assert main(["render", str(template), "--spec", str(spec), "--check", "-o", str(out)]) == 1
    assert "t.py.jinja:1: m * 16 + " in (said := capsys.readouterr().err) and "the text gives" in said
    assert not out.exists()
    assert main(["check", str(spec)]) == 1
    assert "REFUTED  x.py.jinja:1:" in capsys.readouterr().out


def test_the_command_line_writes_what_python_renders(tmp_path, capsys):
    spec, template, out = (tmp_path / name for name in ("spec.py", "t.py.jinja", "t.py"))
    spec.write_text(
        "from lego_mlir import Row\nfrom lego_mlir.templates import Template, indices\n"
        'm, k = indices("m k")\nA = Row(128, 64).tile_by([4, 2], [32, 32])\n'
        'mine = Template.of("y = {{ A[m, k, 0, 0] }}\\n", "mine.py.jinja", A=A, m=m, k=k)\n'
    )
    template.write_text("x = {{ A[m, k, :, :] }}\n")
    assert main(["render", str(template), "--spec", str(spec), "--check", "-o", str(out)]) == 0
    assert out.read_text() == ("x = m * 2048 + k * 32 + (tl.arange(0, 32) * 64)[:, None] + tl.arange(0, 32)[None, :]\n")
    assert main(["render", "mine", "--spec", str(spec)]) == 0
    assert capsys.readouterr().out == "y = m * 2048 + k * 32\n"
    assert main(["check", str(spec)]) == 0
    assert "proved   mine.py.jinja:1: m * 2048 + k * 32 equals its layout: read back, all 8 indices" in (
        capsys.readouterr().out
    )
