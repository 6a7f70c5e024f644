"""Expressions that are small as graphs and endless as trees, and large ones: name -> (expressions, ranges)."""

import sympy

import lego_mlir as lego
from lego_mlir import OrderBy, gallery
from lego_mlir.expr.index import index_symbol, where
from lego_mlir.expr.ranges import Range

ROW, COLUMN, POSITION = (index_symbol(name) for name in "ijp")


def _both_ways(layout):
    layout = lego.as_layout(layout)
    n, m = layout.dims()
    there = ([layout.apply(ROW, COLUMN).expr], {ROW.expr: Range(0, n), COLUMN.expr: Range(0, m)})
    back = ([i.expr for i in layout.inv(POSITION)], {POSITION.expr: Range(0, n * m)})
    return there, back


def _antidiagonals():
    layout = OrderBy(gallery.antidiagonal(16))
    for _ in range(4):
        layout = layout.OrderBy(gallery.antidiagonal(16))
    return _both_ways(layout.GroupBy([16, 16]))


def _curves():
    layout = OrderBy(gallery.morton(2), gallery.hilbert(8)).OrderBy(gallery.hilbert(16))
    return _both_ways(layout.GroupBy([16, 16]))


def _wheres():
    x = ROW
    for k in range(32):
        x = where(x < 1000 - k, x + k, x - 2 * k)
    return [x.expr], {ROW.expr: Range(0, 1024)}


def _squarings():
    x = ROW
    for _ in range(20):
        x = x * x % 1009
    return [x.expr], {ROW.expr: Range(0, 1009)}


def _long_sum():
    terms = [index_symbol(f"x{k}").expr for k in range(2000)]
    return [sympy.Add(*((k % 7 + 1) * x for k, x in enumerate(terms)))], {x: Range(0, 16) for x in terms}


CASES = {
    "hilbert(1024)": lambda: _both_ways(gallery.hilbert(1024))[0],
    "hilbert(1024).inv": lambda: _both_ways(gallery.hilbert(1024))[1],
    "five antidiagonals": lambda: _antidiagonals()[0],
    "five antidiagonals.inv": lambda: _antidiagonals()[1],
    "curves": lambda: _curves()[0],
    "curves.inv": lambda: _curves()[1],
    "32 wheres": _wheres,
    "20 squarings": _squarings,
    "2000 terms": _long_sum,
}
