"""Which sizes a kernel is given, and in which order: what its callers rely on does not follow from the layouts."""

from dataclasses import replace

import numpy as np
import pytest

import lego_mlir as lego
from lego_mlir import Col, Padded, Row, gallery
from lego_mlir.errors import TemplateError
from lego_mlir.templates import Template, index, indices
from lego_mlir.templates.library.matmul import batched_matmul, matmul
from lego_mlir.templates.readback import check

m, k = indices("m k")
M, N = (lego.size(name, max=4096) for name in "MN")
KERNEL = {
    "t.py.jinja": "def f(a{{ sizes }}):\n    return a + {{ A[m, k] }}\n",
    "t.cu.jinja": "float f(float *a, int m, int k{{ sizes }}) { return a[{{ A[m, k] }}]; }\n",
}
LAYOUTS = {
    "rows": Row(M, N),
    "columns": Col(M, N),
    "rows turned round": lego.OrderBy(gallery.reverse(M, N)).GroupBy([M, N]),
}


def rendered(name, text=None, **names):
    result = Template.of(text or KERNEL[name], name, m=m, k=k, **names).render()
    check.require(result, sampled=2000)
    return result


def signature(text):
    return text[: text.index(")") + 1]


@pytest.mark.parametrize("name", KERNEL)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_another_layout_is_no_other_signature(name, layout):
    found = rendered(name, A=LAYOUTS[layout])
    before = {"t.py.jinja": "def f(a, M, N)", "t.cu.jinja": "float f(float *a, int m, int k, int M, int N)"}
    assert signature(found.text) == before[name]
    assert found.sizes == (M.expr, N.expr)


def test_the_order_is_that_of_the_spec_and_of_each_layouts_dims():
    K = lego.size("K", max=4096)
    text = "def f(a{{ sizes }}):\n    return {{ B[m, k] }} + {{ A[m, k] }}\n"
    assert signature(rendered("t.py.jinja", text, A=Row(M, N), B=Row(N, K)).text) == "def f(a, M, N, K)"
    assert signature(rendered("t.py.jinja", text, B=Row(N, K), A=Row(M, N)).text) == "def f(a, N, K, M)"
    own = text.replace("return", "return {{ K }} +")
    assert signature(rendered("t.py.jinja", own, K=K, A=Row(M, N), B=Row(N, K)).text) == "def f(a, K, M, N)"


def test_what_a_template_does_not_mention_adds_nothing_and_a_branch_that_is_not_taken_does():
    other = Row(lego.size("P"), 4)
    assert rendered("t.py.jinja", A=Row(M, N), C=other, P=lego.size("Q")).sizes == (M.expr, N.expr)
    text = "{% if taken %}{{ C[m, k] }}{% endif %}\n" + KERNEL["t.py.jinja"]
    (_, _, p) = rendered("t.py.jinja", text, A=Row(M, N), C=other, taken=False).sizes
    assert str(p) == "P"


def test_sizes_inside_a_layout_come_after_by_name_and_only_where_they_are_used():
    pitch, gap = lego.size("pitch", max=4096), lego.size("gap", max=8)
    apart = Padded(Row(M + gap, N + pitch), [M, N])
    assert signature(rendered("t.py.jinja", A=apart).text) == "def f(a, M, N, pitch)"
    across = Padded(Col(M + gap, N + pitch), [M, N])
    assert signature(rendered("t.py.jinja", A=across).text) == "def f(a, M, N, gap)"


def test_sizes_that_tl_arange_runs_to_come_last_as_constexprs():
    block = lego.size("BLOCK", max=64)
    text = "def f(a{{ sizes }}):\n    return a + {{ A[m, :] }} + {{ C[m, k] }}\n"
    found = rendered("t.py.jinja", text, A=Row(4, block), C=Row(M, N))
    assert signature(found.text) == "def f(a, M, N, BLOCK: tl.constexpr)"
    assert list(map(str, found.sizes)) == ["M", "N", "BLOCK"]


def test_a_size_that_the_kernel_reads_itself_is_no_parameter():
    text = "def f(a{{ sizes }}):\n    {{ local(N) }} = tl.load(a)\n    return a + {{ A[m, k] }}\n"
    found = rendered("t.py.jinja", text, A=Row(M, N), N=N)
    assert signature(found.text) == "def f(a, M)" and found.sizes == (M.expr,)
    with pytest.raises(TemplateError, match=r"t\.py\.jinja:1: local: a size is needed, .*, got 4"):
        rendered("t.py.jinja", "{{ local(4) }}")


def test_no_sizes_where_the_template_has_no_place_for_them():
    assert rendered("t.py.jinja", "x = {{ A[0, k] }}\n", A=Row(M, 4)).sizes == ()


@pytest.mark.parametrize("form", [{}, {"descriptors": True}, {"persistent": 8}, {"a": "T"}, {"b": "T"}])
def test_every_form_of_the_products_takes_the_sizes_in_one_order(form):
    sizes = [lego.size(name, max=4096, multiple_of=16) for name in "MNK"]
    assert list(map(str, matmul(*sizes, tile=(32, 32, 32), **form).render().sizes)) == ["M", "N", "K"]


def test_a_batch_comes_first():
    sizes = [lego.size(name, max=4096, multiple_of=16) for name in ("batch_size", "M", "N", "K")]
    found = batched_matmul(*sizes, tile=(32, 32, 32)).render()
    assert list(map(str, found.sizes)) == ["batch_size", "M", "N", "K"]


@pytest.mark.parametrize("name", KERNEL)
@pytest.mark.parametrize("open_end", ["f(", "f(a, ", "f(a,\n  "])
def test_sizes_stand_right_behind_a_parameter(name, open_end):
    text = f"def {open_end}{{{{ sizes }}}}):\n    return {{{{ A[m, k] }}}}\n"
    line = 1 + open_end.count("\n")
    with pytest.raises(TemplateError, match=rf"{name}:{line}: \{{\{{ sizes \}}\}} begins with a comma if there are"):
        rendered(name, text, A=Row(M, N))
    assert "32" in Template.of(text, "t.py.jinja", A=Row(8, 32), m=m, k=k).render().text


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("t.py.jinja", "M"),
        ("t.py.jinja", "a, M: tl.constexpr"),
        ("t.py.jinja", "a=(1, 2), M=3, *rest"),
        ("t.cu.jinja", "const long long M"),
        ("t.cu.jinja", "float (&a)[4][4], int *__restrict__ M, int M2"),
    ],
)
def test_a_parameter_of_ones_own_that_is_called_like_a_size(name, given):
    with pytest.raises(TemplateError, match=rf"{name}:1: the parameter M has the name of a size, and"):
        rendered(name, f"def f({given}{{{{ sizes }}}}): return {{{{ A[m, k] }}}}\n", A=Row(M, N))
    other = given.replace("M", "m_")
    Template.of(f"def f({other}{{{{ sizes }}}}): x\n", "t.cu.jinja", A=Row(M, N)).render()


def test_two_sizes_of_one_name_are_refused_even_where_no_text_has_them():
    with pytest.raises(TemplateError, match=r"t\.py\.jinja: C: two different sizes are called M"):
        rendered("t.py.jinja", "x = {{ A[0, k] }} + {{ C[0, k] }}\n", A=Row(M, 4), C=Row(lego.size("M", min=2), 4))


def test_the_check_takes_a_variable_of_ones_own_for_an_int():
    rows = lego.size("M")
    found = Template.of("f(int m{{ sizes }}) { {{ A[m, 3] }} }", "t.cu.jinja", A=Row(rows, 10_000), m=m).render()
    check.require(found)
    narrow = replace(found.placeholders[0], text=found.placeholders[0].text.replace("(long long)", ""))
    with pytest.raises(TemplateError, match="an int overflows in"):
        check.require(replace(found, placeholders=(narrow,)))


def test_a_size_that_the_kernel_reads_may_be_an_int_in_c():
    """And products of it overflow one, where no maximum says that they fit."""
    pitch = lego.size("P")
    text = "void f(int m, const int *p) { const int {{ local(P) }} = *p; g({{ A[m, 3] }}); {{ assign('q', P) }} }"
    found = Template.of(text, "t.cu.jinja", A=Row(10_000, pitch), m=m, P=pitch).render()
    assert "g((long long)P * m + 3); const long long q = P;" in found.text
    check.require(found)
    wrong = replace(found.placeholders[0], text="P * m + 3")
    with pytest.raises(TemplateError, match=r"an int overflows in .P \* m"):
        check.require(replace(found, placeholders=(wrong,)))


def test_a_variable_that_is_assigned_another_is_as_wide_as_that_ones_range():
    """`far` needs a long long, and so does a copy of it."""
    far = index("far", 2**36)
    found = Template.of('{{ assign("a, b", (far, k)) }}', "t.cu.jinja", far=far, k=index("k", 8)).render()
    assert found.text.splitlines() == ["const long long a = far;", "const int b = k;"]
    check.require(found)
    first = found.placeholders[0]
    narrow = replace(first, bindings=(("a", "(int)(far)"), *first.bindings[1:]))
    with pytest.raises(TemplateError, match=r"an int overflows in '\(int\)\(far\)'"):
        check.require(replace(found, placeholders=(narrow,)))


def test_a_named_part_is_as_wide_as_it_was_computed():
    """far // 5 is computed in 32 bits where far fits in them, however far it might run; eight times it does not fit."""
    far = index("far", 2**36)
    found = Template.of(
        '{{ assign("a, b", (far // 5 * 8, far // 5 * 24 + 1)) }}\n{{ helpers }}', "t.py.jinja", far=far
    ).render()
    assert "tl.cast(t_0, tl.int64)" in found.text
    check.require(found)


def test_sizes_are_taken_by_position_and_by_name():
    interpret = pytest.importorskip("lego_mlir.templates.run.triton_interpreter").interpret
    pytest.importorskip("triton")
    text = (
        "import triton\nimport triton.language as tl\n\n\n@triton.jit\ndef row(x_ptr, y_ptr{{ sizes }}):\n"
        "    m = tl.program_id(0)\n    for k in range(0, {{ A.shape[1] }}):\n"
        "        tl.store(y_ptr + {{ B[m, k] }}, tl.load(x_ptr + {{ A[m, k] }}))\n"
    )
    x, y, z = np.arange(12, dtype=np.float32), np.zeros(12, np.float32), np.zeros(12, np.float32)
    found = Template.of(text, "row.py.jinja", A=Row(M, N), B=Col(M, N), m=m, k=k).render()
    interpret(found, "row", (3,), x, y, 3, 4)
    interpret(found, "row", (3,), x, z, N=4, M=3)
    assert np.array_equal(y, z) and np.array_equal(y, x.reshape(3, 4).T.ravel())
