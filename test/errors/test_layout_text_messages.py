"""What a malformed layout text, or a layout without a text, is told."""

import re

import pytest

import lego_mlir as lego
from lego_mlir import GenP, Row, parse_layout
from lego_mlir.errors import LayoutError
from lego_mlir.layout.transposed import Transposed

WRONG = {
    "#lego.layout<Row(6, 6) tile_by([2, 2] [3, 3])>": "column 26: expected ',' or ')', got '['",
    "Row(6, 6": "column 9: expected ',' or ')', got the end",
    "Row(6, 6) Row(2)": "column 11: expected the end, got 'Row'",
    "Rov(6, 6)": "column 1: unknown layout 'Rov'; did you mean Row?; known: Row, Col",
    "RegP([2, 3], [0, 1])": r"column 1: RegP: sigma \[0, 1\] counts axes from 0",
    "OrderBy(Row(2)) GroupBy([3])": r"column 17: GroupBy\(\[3\]\) has 3 elements but OrderBy\(Row\(2\)\) has 2",
    "Row(M, 4)": "column 5: the size M is not declared in front, as in [M]: ..; declared: none",
    "[M]: Row(M floordiv 0)": "column 21: division by 0",
    "[M, M]: Row(M)": "column 5: 'M' is declared twice",
    "[mod]: Row(2)": "column 2: 'mod' is a keyword",
    "[M min 2 min 3]: Row(M)": "M has two facts min",
    "[M min 5 max 4]: Row(M)": r"size M: no multiple of 1 lies in \[5, 4\]",
    "Row(12345678901234567890)": "column 5: a number of 20 digits; sizes are 64-bit integers",
    "Row(2 ; 3)": "column 7: unexpected ';'",
    "gallery.xor_swizzle(8, 8, vec=2, vec=4)": "vec is given twice",
    "gallery.xor_swizzle(8, vec=2, 8)": "a size follows an option",
    "gallery.xor_swizzle(8, 8, width=2)": "unexpected keyword argument 'width'",
    "gallery.table([2, 2], [3, 1, 0, 2], order=1)": "expected 'name', got 'order'",
    "GenP([4], @zigzag)": "column 1: @zigzag is not defined; known: none",
    "Padded(Row(4), [5])": r"column 1: Padded: \[5\] does not fit into \[4\]",
    "Padded(" * 70: "more than 64 levels of parentheses",
    f"Row({'(' * 70}": "more than 64 levels of parentheses",
    f"Row(4) {'tile_by([4]) ' * 70}": "more than 64 tilings",
    "": "column 1: expected a permutation or a layout, such as",
}


@pytest.mark.parametrize(("text", "message"), WRONG.items())
def test_malformed_text(text, message):
    with pytest.raises(LayoutError, match=message if "\\[" in message else re.escape(message)):
        parse_layout(text)


def test_a_symbol_of_another_size():
    with pytest.raises(LayoutError, match=r"@mirror permutes \[4\], not \[5\]"):
        parse_layout("GenP([5], @mirror)", {"mirror": GenP([4], lambda i: 3 - i, lambda p: (3 - p,))})


def test_not_a_text():
    with pytest.raises(LayoutError, match=r"parse_layout takes a text such as .*, got 3"):
        parse_layout(3)


def test_functions_without_a_name():
    mirror = GenP([4], lambda i: 3 - i, lambda p: (3 - p,))
    with pytest.raises(LayoutError, match="is defined by functions, which a text cannot contain; name it"):
        mirror.to_mlir()


def test_a_layout_without_a_text():
    with pytest.raises(LayoutError, match=r"has no text as #lego.layout: .*, not Transposed"):
        Transposed(lego.as_layout(Row(2, 3))).to_mlir()


def test_a_size_that_is_not_affine():
    n = lego.size("n")
    with pytest.raises(LayoutError, match=r"the size isqrt.n. is not an affine expression .*equals="):
        Row(lego.isqrt(n) + 1).to_mlir()


def test_a_size_named_as_an_operator():
    with pytest.raises(LayoutError, match="the size mod has the name of an operator"):
        Row(lego.size("mod")).to_mlir()
