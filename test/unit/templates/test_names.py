"""Names are kept apart, blocks can be named, and a text that is not Python is refused."""

import ast
from dataclasses import replace

import pytest

import lego_mlir as lego
from lego_mlir import Col, Padded, Row, as_layout, gallery
from lego_mlir.errors import TemplateError
from lego_mlir.templates import Template, index, indices
from lego_mlir.templates.library.matmul import matmul
from lego_mlir.templates.readback import check

m, k, p = indices("m k p")
MORTON = as_layout(gallery.morton(8))
M, N = (lego.size(name, max=4096) for name in "MN")
ASSIGN = '{{ helpers }}\ndef f(x{{ sizes }}):\n%s    {{ assign("i, j", grid.inv(p)) }}\n    return i + j\n'


def rendered(text, name="t.py.jinja", **names):
    result = Template.of(text, name, m=m, k=k, p=p, **names).render()
    check.require(result, sampled=10_000)
    return result


def refused(text, said, name="t.py.jinja", **names):
    with pytest.raises(TemplateError, match=said):
        rendered(text, name, **names)


# -- temporaries


def test_what_values_share_is_named_like_nothing_else_in_the_text():
    plain = rendered(ASSIGN % "", grid=MORTON).text
    assert "    t_0 = " in plain and "    t_1 = " in plain
    own = "    t_0 = tl.program_id(1)\n    t_1_ = t_0\n"
    text = rendered(ASSIGN % own, grid=MORTON).text
    assert text.replace(own, "") == plain.replace("t_0", "t_0_")


def test_a_name_that_a_value_of_the_spec_puts_into_the_text_is_taken_too():
    text = rendered(ASSIGN % "    {{ mine }} = tl.program_id(1)\n", grid=MORTON, mine="t_1").text
    assert text.count("    t_1 = ") == 1 and "    t_1_ = " in text


def test_every_assign_has_temporaries_of_its_own():
    twice = '{{ helpers }}\n{{ assign("a, b", grid.inv(p)) }}\n{{ assign("c, d", grid.inv(k)) }}\n'
    text = rendered(twice, grid=MORTON).text
    assert text.startswith("t_0 = ") and "\nt1_0 = " in text
    assert "const int t_0 = " in rendered(twice, "t.cu.jinja", grid=MORTON).text


# -- sizes, indices, keywords


def test_a_size_and_an_index_of_one_name():
    n = lego.size("n", min=16, max=100)
    layout = Padded(Row(4, n), [4, 16])
    refused("x = {{ A[n, :] }}{{ sizes }}", "a size and an index are both called n; give one", A=layout, n=index("n"))
    both = "x = {{ n + 1 }} + {{ A[0, k] }}{{ sizes }}"
    refused(both, "a size and an index are both called N", A=Row(N, 4), n=index("N", 4))


def test_a_size_is_not_assigned_to():
    for name, line in (("t.py.jinja", "def f(x{{ sizes }}):"), ("t.cu.jinja", "void f(int p{{ sizes }}) {")):
        text = f'{line}\n    {{{{ assign("M, n", grid.inv(p)) }}}}\n    return {{{{ A[m, k] }}}}\n'
        refused(
            text, rf"{name}:2: assign: M is a size of the kernel; take another name", name, grid=Row(4, 8), A=Row(M, 8)
        )
    pitch = Padded(Row(4, lego.size("pitch", min=4)), [4, 4])
    text = '{{ assign("pitch", p // 2) }}\ndef f(x{{ sizes }}): return {{ A[m, k] }}\n'
    with pytest.raises(TemplateError, match=r":1: assign: pitch is a size of the kernel"):
        Template.of(text, "t.py.jinja", A=pitch, m=m, k=k, p=index("p", 8)).render()


@pytest.mark.parametrize(
    ("text", "name", "said"),
    [
        (
            '{{ assign("a b, c", grid.inv(p)) }}',
            "t.py.jinja",
            "assign: a variable is called 'a b', which is not an ident",
        ),
        (
            '{{ assign("for, c", grid.inv(p)) }}',
            "t.py.jinja",
            "assign: a variable is called 'for', which Python reserves",
        ),
        (
            '{{ assign("tl, c", grid.inv(p)) }}',
            "t.py.jinja",
            "assign: a variable is called 'tl', which Python reserves",
        ),
        ('{{ assign("int, c", grid.inv(p)) }}', "t.cu.jinja", r"a variable is called 'int', which C\+\+ reserves"),
        ('{{ assign("c, c", grid.inv(p)) }}', "t.py.jinja", "assign: one name for two values in c, c; use different"),
        ("{{ device_function('at me', grid) }}", "t.cu.jinja", "device_function: a function is called 'at me', which"),
        ("{{ device_function('switch', grid) }}", "t.cu.jinja", "a function is called 'switch', which C"),
        ("{{ layout_class('class', grid) }}", "t.cu.jinja", "layout_class: a class is called 'class', which C"),
        ("{{ S[m, k] }}", "t.cu.jinja", r"t\.cu\.jinja: S: a size is called 'int', which C\+\+ reserves"),
        (
            "{{ grid[reserved, k] }}",
            "t.cu.jinja",
            r"t\.cu\.jinja:1: an index is called 'register', which C\+\+ reserves",
        ),
    ],
)
def test_names_that_the_language_has_no_room_for(text, name, said):
    refused(text, said, name, grid=Row(4, 8), S=Row(lego.size("int"), 8), reserved=index("register"))


def test_a_function_of_a_layout_whose_size_is_called_like_a_coordinate():
    text = "{{ helpers }}{{ device_function('at', A) }}"
    found = rendered(text, "t.cuh.jinja", A=Col(lego.size("i", max=64), lego.size("t0", max=64)))
    assert "int at(int i0, int j, int i, int /*t0*/) {\n  return i * j + i0;" in found.text


# -- words of the other language


@pytest.mark.parametrize(
    ("text", "name", "said"),
    [
        ('{{ load("x", A[m, :]) }}', "t.cu.jinja", "load is Triton's, and this template becomes C; write a"),
        ('{{ store("x", A[m, :], 1) }}', "t.cu.jinja", "store is Triton's"),
        ("{{ masked(A[m, :]) }}", "t.cu.jinja", "masked is Triton's"),
        ("{{ hints }}", "t.cu.jinja", "hints are promises to Triton's compiler, and this template becomes C"),
        ("{{ A.mask[m, :] }}", "t.cu.jinja", "a slice with ':' is a block of offsets, which only Triton has"),
        ('{{ assign("x", A[m, :]) }}', "t.cu.jinja", "a slice with ':' is a block of offsets, which only Triton has"),
        ("{{ device_function('at', A) }}", "t.py.jinja", "device_function declares C, and this template"),
        ("{{ layout_class('At', A) }}", "t.py.jinja", "layout_class declares C, and this template becomes Triton"),
    ],
)
def test_words_that_write_the_other_language(text, name, said):
    refused("\n" + text, rf"{name}:2: {said}", name, A=Row(4, 8))


# -- loads and stores


def test_options_that_are_strings_are_strings_in_the_call_and_other_is_an_expression():
    text = """{{ load("x", A[m, 0, 0, :], other="-float('inf')", cache_modifier=".cg", volatile=True) }}"""
    shown = rendered(text, A=Row(4, 30).tile_by([4, 1], [1, 32])).text
    assert shown.endswith(", mask=tl.arange(0, 32) < 30, other=-float('inf'), cache_modifier='.cg', volatile=True)")
    text = """{{ store("x", A[m, :], "v", eviction_policy="evict_last") }}"""
    assert rendered(text, A=Row(4, 32)).text.endswith(", v, eviction_policy='evict_last')")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{{ load("x", A[m, k]) }}', r"load: .* got the one position .*; for one element write tl\.load\(a_ptr"),
        ('{{ store("x", A[0, 0], 1) }}', r"store: a slice such as A\[i, :, :\] is needed, got the one position 0"),
        ("{{ load(A[m, :], A[m, :]) }}", r'load: the pointer comes first, as text, load\("a_ptr", A\[i, :\], \.\.\)'),
        ("{{ load(A[m, :]) }}", "load.*missing a required argument: 'block'"),
        ('{{ store("x", A[m, :]) }}', "store.*missing a required argument: 'value'"),
        ('{{ load("x", A[m, :], mask="a < 3") }}', r"load: the mask is the layout's; add a condition on indices"),
        ('{{ load("x", A[m, :], othr=0.0) }}', r"load has no option 'othr'; did you mean other\?"),
        ('{{ store("x", A[m, :], "v", evict="x") }}', r"store has no option 'evict'; .*eviction_policy"),
        ('{{ store("x", A[m, :], "v", other=0.0) }}', r"store has no option 'other'"),
        ('{{ store("x", A[m, :], 1) }}', r"store: the value is an expression of Triton, as text"),
        ("{{ always(3) }}", r"always: a mask or a condition is needed, always\(A.mask\[i, :\]\), got 3"),
        ('{{ load("x", "A[m, :]") }}', r"load: a slice such as A\[i, :, :\] is needed, got 'A\[m, :\]'"),
    ],
)
def test_what_cannot_be_loaded_or_stored(text, said):
    refused("\n" + text, r"t\.py\.jinja:2: " + said, A=Row(4, 8))


def test_a_mask_that_is_proved_is_none_on_its_own_and_true_among_others():
    for text, shown in (
        ("tl.load(p, mask={{ mask }}, other=0)", "tl.load(p, mask=None, other=0)"),
        ("inside = {{ mask }}", "inside = None"),
        ("{{ mask }}", "None"),
        ("tl.load(p, mask={{ mask }} & (x > 0))", "tl.load(p, mask=True & (x > 0))"),
        ("inside = (x > 0) & {{ mask }}", "inside = (x > 0) & True"),
        ("tl.where({{ mask }}, x, 0)", "tl.where(True, x, 0)"),
        ("x == {{ mask }}", "x == True"),
    ):
        filled = text.replace("mask }}", "A.mask[m, :] }}")
        assert rendered(filled, A=Row(4, 8)).text == shown


# -- blocks


@pytest.mark.parametrize("layout", [gallery.morton(32), gallery.antidiagonal(32), gallery.xor_swizzle(32, 32)])
@pytest.mark.parametrize("relative", ["", ".offsets"])
def test_a_block_of_positions_can_be_named_and_what_it_shares_is_computed_once(layout, relative):
    tiles = as_layout(layout).tile_by([4, 2], [8, 16])
    text = f'{{{{ helpers }}}}\n{{{{ assign("at", A[m, k, :, :]{relative}) }}}}\n'
    found = Template.of(text, "t.py.jinja", A=tiles, m=m, k=k).render()
    assert [c.exhaustive for c in check.check(found)] == [True]
    check.require(found)
    alone = rendered(f"{{{{ helpers }}}}\nat = {{{{ A[m, k, :, :]{relative} }}}}\n", A=tiles).text
    assert found.text.strip().split("\n")[-1].startswith("at = ")
    if "morton" in repr(layout):
        assert len(found.text) < len(alone) / 2


def test_a_wrong_text_of_a_named_block_is_found():
    found = rendered('{{ helpers }}\n{{ assign("at", A[m, k, :, :]) }}', A=MORTON.tile_by([2, 2], [4, 4]))
    (placed,) = found.placeholders
    (name, text), *rest = placed.bindings
    wrong = replace(placed, bindings=((name, f"{text} + 1"), *rest))
    with pytest.raises(TemplateError, match="the text gives"):
        check.require(replace(found, placeholders=(wrong,)))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{{ assign("a, b", (A[m, :], m)) }}', "assign: a block of positions is assigned on its own; write one assign"),
        ('{{ assign("a", A.mask[m, :]) }}', "assign: an index, a position or a block of positions is needed, got a"),
        ('{{ assign("a", A) }}', "assign: an index, a position or a block of positions is needed, got A = Row"),
        ('{{ assign("a", "x") }}', "assign: an index, a position or a block of positions is needed, got 'x'"),
        ('{{ assign("m", A[m, :]) }}', "assign: m is both assigned and used in the values; rename it"),
    ],
)
def test_what_cannot_be_assigned(text, said):
    refused(text, r"t\.py\.jinja:1: " + said, A=Row(4, 8))


# -- the whole text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("\ndef f(x):\n    return ({{ A[m, k] }}\n", r"^t\.py\.jinja:3: the rendered text is not Python \('\(' was "),
        ("x = 1\n1 = 2 3\n", r"^t\.py\.jinja:2: the rendered text is not Python .*: 1 = 2 3$"),
        (
            "{% for i in range(2) %}\nx{{ i }} = = 3\n{% endfor %}\n",
            r"^t\.py\.jinja: line 1 of the rendered text is not Python \(invalid syntax\): x0 = = 3$",
        ),
        ('if x:\n{{ assign("i, j", A.inv(p)) }}\n', r"^t\.py\.jinja:2: the rendered text is not Python \(expected"),
        ("x = \0\n", r"^t\.py\.jinja.* is not Python \(source code string cannot contain null bytes\)"),
    ],
)
def test_a_text_that_is_no_python_is_refused_where_it_goes_wrong(text, said):
    refused(text, said, A=Row(4, 8))


def test_a_text_in_c_is_taken_as_it_is():
    assert rendered("}} {", "t.cu.jinja").text == "}} {"


def test_matmuls_own_text_is_python_in_all_its_forms():
    for form in ({}, {"descriptors": True}, {"persistent": 4}):
        ast.parse(matmul(64, 64, 64, tile=(32, 32, 32), **form).render().text)


@pytest.mark.parametrize(
    ("body", "size"),
    [("for K in range(0, 3):\n        x = {{ A[m, k] }}", "K"), ("K = 3\n    x = {{ A[m, k] }}", "K"),
     ("M, K = 3, tl.arange(0, 8)\n    x = {{ A[m, k] }}", "K")],
)  # fmt: skip
def test_a_size_is_not_given_another_value(body, size):
    layout = Row(8, lego.size(size, max=64))
    refused(f"def f(p{{{{ sizes }}}}):\n    {body}\n", rf"{size} is a size and a parameter of f, and the", A=layout)
    own = "def f(p{{ sizes }}):\n    K = K // 8 * 8\n    x = {{ A[m, k] }}\ndef g():\n    K = 3\n"
    assert Template.of(own, "t.py.jinja", A=layout, m=m, k=k).render().text


@pytest.mark.parametrize(
    ("name", "template"),
    [("_lego_floor_div", "t.py.jinja"), ("threadIdx", "t.cu.jinja"), ("lego_isqrt", "t.cu.jinja"),
     ("min", "t.cu.jinja"), ("LEGO_DEVICE", "t.cu.jinja")],
)  # fmt: skip
def test_what_printed_texts_call_is_no_name_of_a_size(name, template):
    text = "{{ helpers }}f(p{{ sizes }}) {{ A[m, k] }}"
    refused(text, f"a size is called '{name}', which", template, A=Row(8, lego.size(name, max=64)))
