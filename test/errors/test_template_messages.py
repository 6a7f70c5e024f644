"""Every message that a template's author can meet: the line, the values, the remedy."""

import pytest

import lego_mlir as lego
from lego_mlir import Row, as_layout, gallery
from lego_mlir.cli.main import main
from lego_mlir.errors import TemplateError
from lego_mlir.templates import Template, index, indices

m, k = indices("m k")
TILES = Row(128, 64).tile_by([4, 2], [32, 32])


def render(text, name="t.py.jinja", **names):
    return Template.of(text, name, A=TILES, m=m, k=k, **names).render().text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a\nb {{ lpid_q }}", r"^t\.py\.jinja:2: 'lpid_q' is undefined; the spec gives: A, k, m$"),
        ("{{ AA[m] }}", "'AA' is undefined; did you mean A"),
        ("x\n{{ A[m, 0, 0] }}", r"t\.py\.jinja:2: 4 indices are needed for the sizes \[4, 2, 32, 32\], got 3"),
        ("{{ A[m, 5, 0, 0] }}", r"t\.py\.jinja:1: index 1 of \[4, 2, 32, 32\] is 5, outside 0\.\.1"),
        ("x\n\n{{ A }}", r"t\.py\.jinja:3: A is a layout and has no text of its own; index it, A\[\.\.\.\]"),
        ("{{ A[m, k, 0:24, :] }}", "has 24 values, and tl.arange needs a power of two; tile by 32 and use the mask"),
        ("{{ none }}", "a value of type NoneType has no text in a template: None"),
        ("{{ 1.5 }}", "a value of type float has no text in a template: 1.5"),
        ("\n{% if %}\n", r"t\.py\.jinja:2: Expected an expression"),
        ("{% for x in y %}\n", r"^t\.py\.jinja:1: "),
        ("{{ m / 2 }}", r"t\.py\.jinja:1: m / 2: an index has no fractions; write integer division as //"),
        ("{{ 1 // 0 }}", r"t\.py\.jinja:1: ZeroDivisionError"),
        ('{{ assign("a, b", m + 1) }}', r"t\.py\.jinja:1: assign: 2 names \(a, b\) for 1 values"),
        ('{{ assign("m, b", A.inv(m + 1)) }}', r"t\.py\.jinja:1: assign: 2 names \(m, b\) for 4 values"),
        (
            '{{ assign("m", m + 1) }}',
            r"t\.py\.jinja:1: assign: m would change while the values are computed; rename it",
        ),
        ('{{ load("x", m) }}', r"a slice such as A\[i, :, :\] is needed, got Bounded: m"),
        (
            '{{ load_block("d", A[m, k, 0, :]) }}',
            "a descriptor reads whole tiles; give ':' for each of the last 2 axes",
        ),
    ],
)
def test_messages_with_the_templates_line(text, said):
    with pytest.raises(TemplateError, match=said):
        render(text)


def test_a_name_that_is_a_word_of_templates():
    with pytest.raises(
        TemplateError, match=r"t\.py\.jinja: sizes: every template has a word of this name; rename yours"
    ):
        render("", sizes=[1])


def test_what_the_text_needs_and_the_template_does_not_place():
    n = lego.size("N")
    with pytest.raises(
        TemplateError, match=r"the text needs N; write \{\{ sizes \}\} at the end of the kernel's parameters"
    ):
        render("{{ B[m, 0] }}", B=Row(4, n))
    with pytest.raises(TemplateError, match=r"the text needs _lego_isqrt; write \{\{ helpers \}\} above the kernel"):
        render("{{ root }}", root=lego.isqrt(m))


def test_an_index_that_leaves_its_axis():
    j = index("j", 8)
    with pytest.raises(TemplateError, match=r"t\.py\.jinja:1: index 0 of B is j \+ 1, outside 0\.\.8-1 for j = 7"):
        render("{{ B[j + 1, :] }}", B=Row(8, 4), j=j)
    with pytest.raises(TemplateError, match=r"m was assigned from a layout where it runs to 8, but A has 4 along that"):
        render('{{ assign("m, k", G.inv(p)) }}{{ A[m, k, 0, :] }}', G=Row(8, 2), p=index("p"))


def test_two_sizes_of_one_name():
    with pytest.raises(TemplateError, match="two different sizes are called N; give one of them another name"):
        render("{{ B[m, 0] }}{{ C[m, 0] }}{{ sizes }}", B=Row(4, lego.size("N")), C=Row(4, lego.size("N", min=2)))


def test_a_slice_whose_length_tl_arange_cannot_take():
    n = lego.size("N")
    with pytest.raises(TemplateError, match=r"a slice over N - 1 values: tl\.arange needs a number or a constexpr"):
        render("{{ B[m, 1:] }}{{ sizes }}", B=Row(4, n))


def test_slices_are_for_triton_only():
    with pytest.raises(TemplateError, match="a slice with ':' is a block of offsets, which only Triton has"):
        render("{{ A[m, k, :, :] }}", "t.cu.jinja")


def test_names_of_templates():
    with pytest.raises(TemplateError, match=r"its name must say its language, such as kernel\.py\.jinja"):
        render("", "kernel.txt")
    with pytest.raises(TemplateError, match=r"no template 'mat' is shipped; there are: .*matmul\.py\.jinja"):
        Template.shipped("mat")
    with pytest.raises(TemplateError, match=r"nowhere\.py\.jinja: the template cannot be read"):
        Template.read("nowhere.py.jinja")


def test_a_descriptor_needs_a_contiguous_axis_and_tiles():
    with pytest.raises(TemplateError, match=r"B: a descriptor needs a tiled layout"):
        render('{{ descriptor("x", B) }}', B=Row(8, 8))
    with pytest.raises(TemplateError, match=r"B: no axis has stride 1 \(strides \['-4', '-1'\]\)"):
        render('{{ descriptor("x", B) }}', B=as_layout(gallery.reverse(8, 4)).tile_by([2, 2], [4, 2]))


def test_a_descriptor_needs_offsets_of_32_bits():
    n = lego.size("N")
    with pytest.raises(
        TemplateError, match=r"B: a descriptor takes 32-bit offsets, and 64\*m is not shown to fit; give a"
    ):
        render('{{ sizes }}{{ load_block("d", B[m, 0, :, :]) }}', B=Row(n, 64).tile_by([lego.cdiv(n, 64), 1], [64, 64]))


def test_the_command_line_says_file_and_line(tmp_path, capsys):
    spec, template = tmp_path / "spec.py", tmp_path / "t.py.jinja"
    spec.write_text("x = 1\n")
    template.write_text("{{ x }}\n{{ y }}\n")
    assert main(["render", str(template), "--spec", str(spec)]) == 2
    assert f"lego-mlir render: {template}:2: 'y' is undefined" in capsys.readouterr().err
    assert main(["render", "missing.py.jinja", "--spec", str(spec)]) == 2
    assert "missing.py.jinja: no such template file" in capsys.readouterr().err
