"""The translation check finds a text that means something else, and says for which index."""

from dataclasses import replace

import numpy as np
import pytest

import lego_mlir as lego
from lego_mlir import Col, Row, gallery
from lego_mlir.errors import TemplateError
from lego_mlir.printers import cuda, triton
from lego_mlir.templates import Template, index, indices
from lego_mlir.templates.library.matmul import grouped_gemm, matmul
from lego_mlir.templates.readback import check, points, read_c, read_triton

m, k = indices("m k")


def tampered(text, **names):
    """A rendered text whose first placeholder has been given another text."""
    rendered = Template.of("{{ A[m, k, :, :] }}{{ sizes }}", "t.py.jinja", m=m, k=k, **names).render()
    return replace(rendered, placeholders=(replace(rendered.placeholders[0], text=text),))


TILES = Row(128, 64).tile_by([4, 2], [32, 32])
RIGHT = "m * 2048 + k * 32 + (tl.arange(0, 32) * 64)[:, None] + tl.arange(0, 32)[None, :]"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (RIGHT.replace("2048", "2047"), "the text gives .* and the layout .* for k = .*, m = .*, s2 = .*, s3 = "),
        (RIGHT.replace("[:, None]", "[None, :]"), "the text gives"),
        (RIGHT.replace("[:, None]", ""), "a block of 1 axes is combined with one of 2"),
        (RIGHT.replace("m * 2048", "m * 2048 * 1000000 // 1000000"), "overflows int32"),
        (RIGHT.replace("k *", "j *"), "the text uses j, which has no value here"),
        (RIGHT.replace("tl.arange(0, 32) * 64", "tl.arange(0, 31) * 64"), "tl.arange needs a power of two"),
        ("m +", "not a Python expression"),
    ],
)
def test_a_wrong_text_is_found(text, said):
    with pytest.raises(TemplateError, match=said):
        check.require(tampered(text, A=TILES))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            RIGHT.replace("tl.arange(0, 32)[None, :]", "tl.arange(0, 64)[None, :]"),
            "the text is a block of 32 x 64, and ",
        ),
        (RIGHT.replace("tl.arange(0, 32)[None, :]", "tl.arange(0, 0)[None, :]"), "tl.arange needs a power of two"),
        (RIGHT.replace("tl.arange(0, 32)[None, :]", "tl.arange(32, 0)[None, :]"), "tl.arange needs a power of two"),
    ],
)
def test_a_block_of_another_shape_is_found(text, said):
    with pytest.raises(TemplateError, match=said):
        check.require(tampered(text, A=TILES))


def test_what_is_assigned_is_as_wide_as_its_text_however_small_its_values():
    """A root of a position below 2^32 is computed in int64: so are its squares, which need it for the largest."""
    grid = lego.as_layout(gallery.antidiagonal(lego.size("M", max=60000)))
    rendered = Template.of(
        '{{ helpers }}def f(p{{ sizes }}):\n    {{ assign("i, j", grid.inv(p)) }}',
        "t.py.jinja",
        grid=grid,
        p=index("p"),
    ).render()
    check.require(rendered, sampled=10**4)


def test_what_other_values_are_computed_from_needs_no_value():
    """Of two values that are assigned together, only one is computed from BN."""
    n, width = lego.size("N", max=4096), lego.size("BN", max=64)
    tiles = Col(32, n).tile_by([8, lego.cdiv(n, width)], [4, width])
    text = 'def f(p{{ sizes }}):\n    {{ assign("a, b, c, d", A.inv(p)) }}'
    rendered = Template.of(text, "t.py.jinja", A=tiles, p=index("p")).render()
    check.require(rendered, sampled=10**4)
    assert [len(placeholder.bindings) for placeholder in rendered.placeholders] == [1, 1, 1, 1]


def test_every_index_is_compared_where_there_are_few():
    (found,) = check.check(tampered(RIGHT, A=TILES))
    assert (found.indices, found.exhaustive, found.error) == (128 * 64, True, None)
    (found,) = check.check(tampered(RIGHT, A=TILES), sampled=4096)
    assert (found.indices, found.exhaustive) == (4096, False)


def test_an_offset_that_fits_only_the_small_sizes_is_found():
    n = lego.size("N", multiple_of=32)
    tiles = Row(n, n).tile_by([n // 32, n // 32], [32, 32])
    rendered = Template.of("{{ A[m, k, :, :] }}{{ sizes }}", "t.py.jinja", A=tiles, m=m, k=k).render()
    check.require(rendered)
    narrow = rendered.placeholders[0].text.replace("tl.cast(m, tl.int64)", "m").replace("tl.cast(N, tl.int64)", "N")
    with pytest.raises(TemplateError, match="overflows int32"):
        check.require(replace(rendered, placeholders=(replace(rendered.placeholders[0], text=narrow),)))


def test_a_text_in_sizes_alone_is_compared_for_every_size():
    """(N + 30) // 32 is one too few only where N is one past a multiple of 32."""
    n = lego.size("N", min=2, max=4096)
    rendered = Template.of("{{ tiles }}{{ sizes }}", "t.py.jinja", tiles=(n + 31) // 32).render()
    (found,) = check.check(rendered)
    assert (found.indices, found.exhaustive) == (4095, True)
    short = replace(rendered.placeholders[0], text="(N + 30) >> 5")
    with pytest.raises(TemplateError, match="the text gives"):
        check.require(replace(rendered, placeholders=(short,)))


def tiles_of(rows, columns, tile=(32, 64)):
    """A rendered block of a row-major matrix in tiles that need not divide it."""
    tiles = Row(rows, columns).tile_by([lego.cdiv(rows, tile[0]), lego.cdiv(columns, tile[1])], tile)
    return Template.of("{{ A[m, k, :, :] }}{{ sizes }}", "t.py.jinja", A=tiles, m=m, k=k).render()


def sizes(names, **facts):
    return [lego.size(name, **facts) for name in names]


@pytest.mark.parametrize(
    "make",
    [
        lambda: tiles_of(*sizes("MK", max=4096)),
        lambda: tiles_of(*sizes("MK")),
        lambda: tiles_of(4001, 3001),
        lambda: grouped_gemm().render(),
        lambda: matmul(*sizes("MNK", max=4096), tile=(lego.size("BM"), 64, lego.size("BK"))).render(),
    ],
    ids=["sizes with a maximum", "sizes without", "numbers", "grouped", "constexpr tiles"],
)
def test_a_million_points_are_compared_wherever_there_are_so_many(make):
    for found in check.check(make()):
        assert found.error is None
        assert found.exhaustive or found.indices >= check.SAMPLED, found


@pytest.mark.parametrize("seed", range(3))
def test_only_points_that_name_an_element_count(monkeypatch, seed):
    compare, seen = check._compare, []

    def counting(rendered, placeholder, values, axes):
        rows, columns = (v.reshape(-1, 1) * n + np.arange(n) for v, n in ((values["m"], 32), (values["k"], 64)))
        inside = (rows < values["M"][:, None]).sum(axis=1) * (columns < values["K"][:, None]).sum(axis=1)
        seen.append(inside.sum())
        return compare(rendered, placeholder, values, axes)

    monkeypatch.setattr(check, "_compare", counting)
    (found,) = check.check(tiles_of(*sizes("MK", max=500)), sampled=50_000, seed=seed)
    assert found.indices == sum(seen) >= 50_000


def test_every_point_that_names_an_element_is_compared_where_they_are_few_among_many():
    (found,) = check.check(tiles_of(1, 9000), sampled=10_000)  # a row in tiles of 32: 288,768 points
    assert (found.indices, found.exhaustive) == (9000, True)
    (found,) = check.check(tiles_of(lego.size("M", max=3), lego.size("K", max=5)))
    assert (found.indices, found.exhaustive) == (sum(m * k for m in (1, 2, 3) for k in (1, 2, 3, 4, 5)), True)


@pytest.mark.parametrize("row", ["0", "N - 1"])
@pytest.mark.parametrize("column", ["0", "N - 1"])
@pytest.mark.parametrize("greatest", [2**20, None])
def test_a_text_that_is_wrong_at_one_corner_of_the_greatest_matrix_is_found(row, column, greatest):
    n = lego.size("N", max=greatest)
    rendered = Template.of("{{ A[m, k] }}{{ sizes }}", "t.py.jinja", A=Row(n, n), m=m, k=k).render()
    check.require(rendered)
    there = f"tl.where(N == {2**20}, tl.where(m == {row}, tl.where(k == {column}, 1, 0), 0), 0)"
    wrong = f"tl.cast(N, tl.int64) * m + k + {there}"
    with pytest.raises(TemplateError, match="the text gives"):
        check.require(replace(rendered, placeholders=(replace(rendered.placeholders[0], text=wrong),)))


@pytest.mark.parametrize("room", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize("total", [0, 1, 2, 3, 8, 100, 200])
def test_every_row_is_visited_once(total, room):
    numbers = [n for batch in points._scattered(total, room, np.random.default_rng(total)) for n in batch.tolist()]
    assert sorted(numbers) == list(range(total))


def test_what_int64_cannot_count_is_not_called_complete():
    (found,) = check.check(Template.of("{{ (p // 3) }}", "t.py.jinja", p=index("p", 2**63)).render(), sampled=100)
    assert (found.indices, found.exhaustive) == (0, False)
    names = sizes("ABCD", max=2**31 - 1)
    inverse = Template.of("{{ assign('a, b, c, d', A.inv(p)) }}{{ sizes }}", "t.py.jinja", A=Row(*names), p=index("p"))
    for found in check.check(inverse.render(), sampled=1000):
        assert found.error is None and found.indices >= 1000 and not found.exhaustive


def test_a_block_as_long_as_its_size_is_compared_for_several_lengths():
    in_a_kernel = "def f(x{{ sizes }}): return x + {{ A[m, :] }}"
    (found,) = check.check(Template.of(in_a_kernel, "t.py.jinja", A=Row(3, lego.size("B")), m=m).render())
    assert found.error is None and found.indices >= 3 * (1 + 64) and not found.exhaustive
    (found,) = check.check(Template.of(in_a_kernel, "t.py.jinja", A=Row(3, lego.size("B", min=128)), m=m).render())
    assert (found.indices, found.error) == (3 * 128, None)
    odd = Template.of(in_a_kernel, "t.py.jinja", A=Row(3, lego.size("B", multiple_of=48)), m=m).render()
    with pytest.raises(TemplateError, match=r"tl\.arange\(B\) requires a power of two, and no value of B is one"):
        check.require(odd)


def test_a_number_is_as_wide_as_its_own_value_and_not_as_the_largest_drawn():
    far = index("far", 2**33)
    rendered = Template.of("{{ (far * 4) }}", "t.py.jinja", far=far).render()
    check.require(rendered)
    with pytest.raises(TemplateError, match=r"far \* 4 overflows int32"):
        check.require(replace(rendered, placeholders=(replace(rendered.placeholders[0], text="far * 4"),)))


@pytest.mark.parametrize("name", ["t.py.jinja", "t.cu.jinja"])
def test_a_name_alone_needs_no_range(name):
    text = 'x = {{ m }};\n{{ assign("i", m) }}'
    rendered = Template.of(text, name, m=m).render()
    check.require(rendered)
    wrong = replace(rendered.placeholders[0], text="0")
    with pytest.raises(TemplateError, match=r"the text gives 0 and the layout -?[1-9]"):
        check.require(replace(rendered, placeholders=(wrong,)))


def test_only_complete_comparisons_count_as_proved():
    rendered = tampered(RIGHT, A=TILES)
    assert [bool(v) for _, v in check.verdicts(rendered)] == [True]
    assert [str(v) for _, v in check.verdicts(rendered, sampled=4096)] == [
        "Unknown(reason='read back, 4096 drawn indices agree; there are more')"
    ]
    assert not check.verdicts(tampered("m", A=TILES))[0][1]


def test_a_printer_that_swaps_two_axes_does_not_get_past_the_check(monkeypatch):
    monkeypatch.setattr(triton.TritonPrinter, "_expander", lambda self, expr: "[None, :]")
    rendered = Template.of("{{ A[m, k, :, :] }}", "t.py.jinja", A=TILES, m=m, k=k).render()
    with pytest.raises(TemplateError, match="the text gives"):
        check.require(rendered)


def test_a_printer_that_truncates_does_not_get_past_the_check(monkeypatch):
    monkeypatch.setattr(cuda.CudaPrinter, "not_negative", lambda self, expr: True)
    i = index("i", 10, start=-10)
    rendered = Template.of("{{ (i // 3) }}{{ helpers }}", "t.cu.jinja", i=i).render()
    with pytest.raises(TemplateError, match=r"overflows|the text gives"):
        check.require(rendered)


def test_a_hint_that_is_not_true_is_found():
    values = {"m": range(4)}
    assert read_triton.evaluate("tl.max_contiguous(m * 8 + tl.arange(0, 8), [8])", values).shape == (4, 8)
    with pytest.raises(TemplateError, match=r"runs of 8 are not contiguous"):
        read_triton.evaluate("tl.max_contiguous(tl.arange(0, 8) * 2, [8])", values)
    with pytest.raises(TemplateError, match=r"not every run begins at a multiple of 8"):
        read_triton.evaluate("tl.multiple_of(m * 4 + tl.arange(0, 8), [8])", values)


@pytest.mark.parametrize("reader", [read_triton, read_c])
def test_readers_refuse_what_they_do_not_know(reader):
    for text in ("f(m)", "m[0]", "m @ m", "m ? m"):
        with pytest.raises(TemplateError):
            reader.evaluate(text, {"m": 1})


def test_tables_are_read_and_their_ends_are_respected():
    table = gallery.table([4], [2, 0, 3, 1])
    rendered = Template.of("{{ helpers }}{{ A.apply(m) }}", "t.cu.jinja", A=lego.as_layout(table), m=m).render()
    check.require(rendered)
    with pytest.raises(TemplateError, match="reads outside the 2 entries"):
        check.require(replace(rendered, tables=dict.fromkeys(rendered.tables, (2, 0))))
