"""Derivations as values of a cell: short ones are written out, large ones are counted."""

from lego_mlir import Row, gallery


def test_a_short_derivation_shows_its_expressions():
    assert "operations>" in repr(Row(4, 8).derive()) and "->" in repr(Row(4, 8).derive())
    assert repr(Row(4, 8).derive()).startswith("<8*i0 + i1 -> ")


def test_a_large_derivation_is_counted():
    shown = repr(gallery.hilbert(512).derive())
    assert shown.startswith("<Derivation, ") and len(shown) < 80
