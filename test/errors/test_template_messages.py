"""Every message that a template's author can meet: the line, the values, the remedy."""

import pytest

import lego_mlir as lego
from lego_mlir import GenP, Row, as_layout, gallery
from lego_mlir.cli.main import main
from lego_mlir.errors import ExpressionError, TemplateError
from lego_mlir.templates import Template, index, indices

m, k = indices("m k")
TILES = Row(128, 64).tile_by([4, 2], [32, 32])


def render(text, name="t.py.jinja", **names):
    return Template.of(text, name, A=TILES, m=m, k=k, **names).render().text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "a\nb {{ lpid_q }}",
            r"^t\.py\.jinja:2: 'lpid_q' is undefined; the spec gives: A, k, m; every template has: all, always, assign",
        ),
        ("{{ AA[m] }}", "'AA' is undefined; did you mean A"),
        ("x\n{{ A[m, 0, 0] }}", r"t\.py\.jinja:2: A: 4 indices are needed for its sizes \[4, 2, 32, 32\], got 3"),
        ("{{ order }}", r"^t\.py\.jinja:1: 'order' is undefined; the spec gives: A, k, m; every"),  # not: store
        ("{{ A[m, 5, :, :] }}", r"t\.py\.jinja:1: A: index 1 of \[4, 2, 32, 32\] is 5, outside 0\.\.1"),
        ("{% if m < 3 %}{% endif %}", r"t\.py\.jinja:1: the truth of 'm < 3' depends on symbols"),
        ("{% if m + 1 %}{% endif %}", r"t\.py\.jinja:1: the truth of 'm \+ 1 != 0' depends on symbols"),
        ("\n{{ A[m, k, :, :] + 1 }}", r"^t\.py\.jinja:2: a block of positions is known only at run time; write"),
        ("{% if 1 == A[m, k, :, :] %}{% endif %}", "a block of positions is known only at run time"),
        ("{% if A.mask[m, k, :, :] %}{% endif %}", r"a condition is known .*; \{% if always\(A\.mask\[i, :\]\)"),
        ("{{ not A.mask(m, k, 0, 0) }}", "a condition is known only at run time"),
        ("{{ (m + k) / 2 }}", r"t\.py\.jinja:1: k \+ m / 2: an index has no fractions; write integer division as //"),
        ("{% for i in range(m + 1) %}{% endfor %}", r"a plain int is needed here, but m \+ 1 is symbolic"),
        ("{{ A[m, 5, 0, 0] }}", r"t\.py\.jinja:1: A: index 1 of \[4, 2, 32, 32\] is 5, outside 0\.\.1"),
        ("x\n\n{{ A }}", r"t\.py\.jinja:3: A is a layout and cannot be printed; index it, A\[\.\.\.\]"),
        ("{{ A[m, k, 0:24, :] }}", "has 24 values, and tl.arange needs a power of two; tile by 32 and use the mask"),
        ("{{ none }}", "a value of type NoneType cannot be printed in a template: None"),
        ("{{ 1.5 }}", "a value of type float cannot be printed in a template: 1.5"),
        ("\n{% if %}\n", r"t\.py\.jinja:2: Expected an expression"),
        ("{% for x in y %}\n", r"^t\.py\.jinja:1: "),
        ("{{ m / 2 }}", r"t\.py\.jinja:1: m / 2: an index has no fractions; write integer division as //"),
        ("{{ 1 // 0 }}", r"t\.py\.jinja:1: cannot be computed \(ZeroDivisionError"),
        ('{{ assign("a, b", m + 1) }}', r"t\.py\.jinja:1: assign: 2 names \(a, b\) for 1 values"),
        ('{{ assign("m, b", A.inv(m + 1)) }}', r"t\.py\.jinja:1: assign: 2 names \(m, b\) for 4 values"),
        ('{{ assign("m", m + 1) }}', r"t\.py\.jinja:1: assign: m is both assigned and used in the values; rename it"),
        ("{{ laod('x', A[m, k, :, :]) }}", r"t\.py\.jinja:1: 'laod' is undefined; did you mean load\?$"),
        ("\n{{ A.shpe }}", r"t\.py\.jinja:2: A has no 'shpe'; did you mean shape\?$"),
        ("{{ A.foo }}", r"A has no 'foo'; it has: apply, holds, inv, mask, numel, shape, shifted, size$"),
        ("{{ A[m, k, :, :].maks }}", r"A\[m, k, :, :\] has no 'maks'; did you mean mask\?$"),
        ("{{ A[m, k, 8:24, :].offsets.foo }}", r"A\[m, k, 8:24, :\]\.offsets has no 'foo'; it has: base, mask, offs"),
        ("{{ A[m, k, 0, 0].mask }}", r"2048\*m has no 'mask'; it has: nothing"),
        (
            "{{ A(m, k) }}",
            r"t\.py\.jinja:1: A is not a function and cannot be called; index a layout with brackets, A\[i, j\]",
        ),
        ("{{ A[m, k, 0, 0](3) }}", r"2048\*m is not a function and cannot be called; .* operator between two values$"),
        ("{{ A.inv() }}", r"t\.py\.jinja:1: inv\(position\): missing a required argument: 'position'$"),
        ("{% for i in [1] %}{{ A.inv(i, n=i) }}{% endfor %}", r"inv\(position\): got an unexpected keyword argument"),
        (
            '\n{% include "x" %}',
            r"t\.py\.jinja:2: include, import and extends need another file, 'x', and a template is",
        ),
        ('{% extends "x" %}', r"t\.py\.jinja:1: include, import and extends need another file"),
        ("{{ A.apply(m, k, 0, A[m, k, :, :]) }}", r":1: index 3 of A is A\[m, k, :, :\]; an index is a number, an ind"),
        ("{{ A.mask(m, k, 0, A) }}", r"index 3 of A is A = .*; an index is a number"),
        ("{{ A.inv(A[m, k, :, :]) }}", r"A\.inv takes the number of one position, got A\[m, k, :, :\]$"),
        ("{{ A.mask(m, k) }}", r"t\.py\.jinja:1: A: 4 indices are needed for its sizes \[4, 2, 32, 32\], got 2$"),
        ("{{ A[m, k, :, :].step(q) }}", r"^t\.py\.jinja:1: 'q' is undefined"),
        ("{{ A[m, q, :, :] }}", r"^t\.py\.jinja:1: 'q' is undefined"),
        ("{{ m + q }}", r"^t\.py\.jinja:1: 'q' is undefined"),
        ('{{ assign("i", q) }}', r"^t\.py\.jinja:1: 'q' is undefined"),
        ('{{ load("p", q) }}', r"^t\.py\.jinja:1: 'q' is undefined"),
        ("{{ A[m, 0, :, :].step(k) }}", r"t\.py\.jinja:1: A\[m, 0, :, :\] cannot step by k, .* its indices are m$"),
        (
            "{{ A[m, k + 1, :, :].steps(5) }}",
            r"cannot step by 5, which is not one of its indices; its indices are k, m$",
        ),
        ("{{ A[m, k, :, :].step(k + 1) }}", r"cannot step by k \+ 1, which is not one of its indices"),
        ("{{ A[m, k, :, :].step('k') }}", r"cannot step by 'k', which is not one of its indices"),
        ("{{ A[0, 1, :, :].step(m) }}", r"A\[0, 1, :, :\] cannot step by m, .*; none of its indices is a variable$"),
        ("{{ A[m + 1, k, :, :] }}", r":1: m has no known range, .* hold .*: declare it with index\('m', stop\)"),
        ("{{ m * 3 }}", r"m has no known range, so no integer type is proved to hold 3\*m: declare it"),
        ('{{ assign("p", m + k) }}', r"k has no known range, .* to hold k \+ m: declare it with index\('k', "),
        (
            '{{ load_block("d", A[m, k, 0, 0]) }}',
            r"load_block: a slice such as A\[i, k, :, :\] is needed, got 32\*k \+ 2048\*m",
        ),
        ('{{ store_block("d", A[m, k, :, :].offsets, "v") }}', r"store_block: a slice such as .*\.offsets$"),
        ('{{ descriptor("d", 3) }}', r"descriptor: a layout is needed, descriptor\('d', A\), got 3"),
        ('{{ load("x", m) }}', r"a slice such as A\[i, :, :\] is needed, got "),
        (
            '{{ load_block("d", A[m, k, 0, :]) }}',
            "a descriptor reads whole tiles; give ':' for each of the last 2 axes",
        ),
    ],
)
def test_messages_with_the_templates_line(text, said):
    with pytest.raises(TemplateError, match=said):
        render(text)


@pytest.mark.parametrize(
    ("opening", "inside", "closing"),
    [("{{", "x", "}}"), ("{{ " + "(" * 300, "1", ")" * 300 + " }}"), ("{% for i in range(1) %}", "x", "{% endfor %}")],
)
def test_texts_that_nest_too_deeply(opening, inside, closing):
    times = 1 if "(" * 9 in opening else 50
    with pytest.raises(TemplateError, match=r"^t\.py\.jinja: braces, brackets or blocks are nested too deeply"):
        render(opening * times + inside + closing * times)


@pytest.mark.parametrize(
    "text",
    ['{{ descriptor("x", A) }}', '{{ load_block("d", A[m, k, :, :]) }}', '{{ store_block("d", A[m, k, :, :], "v") }}'],
)
def test_descriptors_are_for_triton_only(text):
    word = text[3:].partition("(")[0]
    with pytest.raises(TemplateError, match=rf"t\.cu\.jinja:1: {word}: tensor descriptors are Triton's, .* write the"):
        render(text, "t.cu.jinja")


def test_long_expressions_are_shortened_and_the_remedy_is_seen():
    morton = as_layout(gallery.morton(32, 16)).tile_by([4, 2], [8, 8])
    for text, remedy in (
        ('{{ descriptor("x", A) }}', "use offsets"),
        ('{{ load_block("d", A[m, k, :, :]) }}', "use offsets"),
        ("{{ D[m, :].step(m) }}", "index the layout with m inside the loop instead of stepping"),
    ):
        with pytest.raises(TemplateError) as caught:
            Template.of(text, "t.py.jinja", A=morton, D=as_layout(gallery.antidiagonal(32)), m=m, k=k).render()
        assert remedy in str(caught.value)[:150]
        assert len(str(caught.value)) < 400


@pytest.mark.parametrize("name", ["for", "a b", "lambda", "", "1x", "None"])
def test_names_that_no_variable_can_have(name):
    with pytest.raises(TemplateError, match=rf"index: no variable can be called '{name}'; use an identifier that is"):
        index(name)
    with pytest.raises(ExpressionError, match=rf"the name '{name}' must be an identifier and not a Python keyword"):
        lego.size(name)
    with pytest.raises(TemplateError, match="no variable can be called 'for'"):
        indices("i, for")


def test_an_index_by_which_nothing_moves_steps_by_nothing():
    still = as_layout(GenP([1, 8], lambda i, j: j, lambda p: (0, p)))
    assert render("{{ B[k, :].step(k) }}", B=still) == "0"


def test_a_name_that_is_a_word_of_templates():
    with pytest.raises(
        TemplateError, match=r"t\.py\.jinja: sizes: this name is reserved in every template; rename yours"
    ):
        render("", sizes=[1])


def test_what_the_text_needs_and_the_template_does_not_place():
    n = lego.size("N")
    with pytest.raises(
        TemplateError, match=r"the text needs N; write \{\{ sizes \}\} at the end of the kernel's parameters"
    ):
        render("{{ B[m, 0] }}", B=Row(4, n))
    with pytest.raises(TemplateError, match=r"the text needs _lego_isqrt; write \{\{ helpers \}\} above the kernel"):
        render("{{ root }}", root=lego.isqrt(index("j", 64)))


def test_an_index_that_leaves_its_axis():
    j = index("j", 8)
    with pytest.raises(TemplateError, match=r"t\.py\.jinja:1: index 0 of B is j \+ 1, outside 0\.\.8-1 for j = 7"):
        render("{{ B[j + 1, :] }}", B=Row(8, 4), j=j)
    with pytest.raises(TemplateError, match=r"m was assigned from a layout with range 8, but A has 4 along that"):
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
    for name in ("kernel.txt", "kernel.txt.jinja", "kernel.py", "kernel.jinja", "kernel.py.jinja.bak"):
        with pytest.raises(
            TemplateError, match=rf"^{name}: a template's name must end in its language's suffix and \.jin"
        ):
            render("", name)
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
