"""The translation check finds a text that means something else, and says for which index."""

from dataclasses import replace

import pytest

import lego_mlir as lego
from lego_mlir import Row, gallery
from lego_mlir.errors import TemplateError
from lego_mlir.printers import cuda, triton
from lego_mlir.templates import Template, check, indices, read_c, read_triton

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
        (RIGHT.replace("[:, None]", ""), "a block of 1 axes meets one of 2"),
        (RIGHT.replace("m * 2048", "m * 2048 * 1000000 // 1000000"), "overflows int32"),
        (RIGHT.replace("k *", "j *"), "the text uses j, which has no value here"),
        (RIGHT.replace("tl.arange(0, 32) * 64", "tl.arange(0, 31) * 64"), "tl.arange needs a power of two"),
        ("m +", "not a Python expression"),
    ],
)
def test_a_wrong_text_is_found(text, said):
    with pytest.raises(TemplateError, match=said):
        check.require(tampered(text, A=TILES))


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


def test_a_text_in_sizes_alone_is_compared_for_many_sizes():
    """(N + 30) // 32 is one too few only where N is one past a multiple of 32."""
    n = lego.size("N", min=2, max=4096)
    rendered = Template.of("{{ tiles }}{{ sizes }}", "t.py.jinja", tiles=(n + 31) // 32).render()
    (found,) = check.check(rendered)
    assert found.indices == check.LONE_SIZE_TRIALS and not found.exhaustive
    short = replace(rendered.placeholders[0], text="(N + 30) >> 5")
    with pytest.raises(TemplateError, match="the text gives"):
        check.require(replace(rendered, placeholders=(short,)))


def test_a_symbol_without_a_range_is_said_to_have_none():
    free = Template.of("{{ m + 1 }}", "t.py.jinja", m=m).render()
    with pytest.raises(
        TemplateError, match=r"nothing says how far m runs: use it as the index of a layout, or declare"
    ):
        check.require(free)


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
    from lego_mlir.templates import index

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
