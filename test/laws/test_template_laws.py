"""Laws of rendered text: whatever the layout, the C and the Triton text of it mean what it says."""

from dataclasses import replace

from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from lego_mlir.layout import GroupBy, OrderBy, Row, gallery
from lego_mlir.templates import Template, indices
from lego_mlir.templates.header import render_header
from lego_mlir.templates.readback import check

import strategies

(n,) = indices("n")


@settings(max_examples=40)
@given(strategies.layouts(max_elements=120))
@example(OrderBy(Row(3), gallery.reverse(33)).GroupBy([11, 1, 9]))  # one of its coordinates is 0 whatever p is
def test_c_functions_and_inverses_of_any_layout(layout):
    assume(len(layout.dims()) <= 4)
    for found in check.check(render_header("Any", layout)):
        assert found.error is None, found
        assert found.exhaustive


@settings(max_examples=30)
@given(strategies.permutations(64), st.data())
def test_triton_slices_of_any_permutation(permutation, data):
    rows = data.draw(st.sampled_from([1, 2, 4, 8, 16, 32, 64]))
    columns = 64 // rows
    width = data.draw(st.sampled_from([w for w in (1, 2, 4, 8, 16, 32, 64) if w <= columns]))
    tiles = GroupBy([rows, columns], orders=(OrderBy(permutation),)).tile_by([1, columns // width], [rows, width])
    rendered = Template.of("{{ helpers }}\n{{ A[0, n, :, :] }}", "t.py.jinja", A=tiles, n=n).render()
    check.require(rendered)
    (placeholder,) = rendered.placeholders
    wrong = replace(placeholder, text=f"1 + ({placeholder.text})")
    (found,) = check.check(replace(rendered, placeholders=(wrong,)))
    assert found.error is not None


def test_the_law_would_notice_a_wrong_inverse():
    rendered = render_header("Any", gallery.antidiagonal(5))
    wrong = replace(rendered.placeholders[1], text="p % 4")
    (found,) = check.check(replace(rendered, placeholders=(wrong,)))
    assert found.error is not None
