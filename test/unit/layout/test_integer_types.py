"""Permutations whose functions give narrow integers, truth values or wrong shapes, or compute beyond 64 bits."""

import numpy as np
import pytest

import lego_mlir as lego
from lego_mlir import GenP, OrderBy, RegP, Row, gallery
from lego_mlir.errors import LayoutError, PrintError, TemplateError
from lego_mlir.expr.verdict import Proved, Refuted, Unknown
from lego_mlir.printers.cuda import CudaPrinter
from lego_mlir.printers.triton import TritonPrinter
from lego_mlir.templates import Template, index


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int16, np.uint16, np.int32, np.uint64])
def test_a_table_of_narrow_integers_does_not_wrap_in_a_composition(dtype):
    n = 128
    there = np.random.default_rng(0).permutation(n).astype(dtype)
    back = np.argsort(there).astype(dtype)
    perm = GenP([n], lambda i: there[i], lambda p: back[p])
    assert isinstance(perm.check(), Proved)
    layout = OrderBy(perm, Row(2**20)).GroupBy([n, 2**20])
    index = np.arange(n), np.full(n, 2**20 - 1)
    expected = [int(there[i]) * 2**20 + 2**20 - 1 for i in range(n)]
    assert layout.apply(*index).tolist() == expected
    assert [layout.apply(i, 2**20 - 1) for i in range(n)] == expected
    assert [layout.inv(p) for p in expected] == [(i, 2**20 - 1) for i in range(n)]
    assert type(perm.apply(3)) is int
    assert perm.apply(np.arange(4)).dtype == np.int64


def test_truth_values_are_0_and_1():
    swap = GenP([2], lambda i: i < 1, lambda p: p < 1)
    assert isinstance(swap.check(), Proved)
    assert swap.apply(np.arange(2)).tolist() == [1, 0]
    assert (swap.apply(0), type(swap.apply(0)), swap.inv(1)) == (1, int, (0,))
    with pytest.raises(LayoutError, match=r"apply maps \[1\] and \[3\] both to position 1"):
        GenP([4], lambda i: i > 0, lambda p: p)


@pytest.mark.parametrize(
    ("f", "f_inv", "message"),
    [
        (lambda i: np.arange(4), lambda p: p, r"f gives an array of shape \(4,\) for the one value \[0\]"),
        (lambda i: np.arange(8).reshape(2, 4), lambda p: p, r"f gives an array of shape \(2, 4\) for"),
        (lambda i: i, lambda p: np.arange(4), r"f_inv gives an array of shape \(4,\) for the one value \[0\]"),
    ],
)
def test_another_shape_than_the_index_has(f, f_inv, message):
    with pytest.raises(LayoutError, match=message + ".*; it must give one integer for each element"):
        GenP([4], f, f_inv)


def test_a_shape_that_is_wrong_for_arrays_alone_is_refused_where_they_come():
    perm = GenP([4], lambda i: i if isinstance(i, int) else np.arange(4), lambda p: p)
    assert isinstance(perm.check(), Proved)
    with pytest.raises(LayoutError, match=r"f gives an array of shape \(4,\) for arrays of shape \(2,\)"):
        perm.apply(np.array([1, 2]))


def test_an_integer_beyond_int64_is_a_position_outside():
    huge = np.array([0, 2**63], np.uint64)
    with pytest.raises(LayoutError, match=rf"apply maps \[1\] to {2**63}, outside 0\.\.1"):
        GenP([2], lambda i: huge[i], lambda p: p)
    with pytest.raises(LayoutError, match=rf"apply maps \[1\] to {2**70}, outside 0\.\.3"):
        GenP([4], lambda i: 2**70 if int(i) == 1 else int(i), lambda p: int(p))
    with pytest.raises(LayoutError, match=rf"f_inv maps 1 to \[{2**70}\]"):
        GenP([4], lambda i: int(i), lambda p: 2**70 if int(p) == 1 else int(p))


def test_a_bijection_of_ints_that_wraps_in_64_bits_is_refused_with_that_reason():
    """i * 2**62 * 4 // 2**64 is i; in int64 it is 0 or -1."""
    with pytest.raises(LayoutError, match=r"in 64 bits, .* f maps \[1\] to 0 instead of 1; keep intermediate values"):
        GenP([8], lambda i: i * 2**62 * 4 // 2**32 // 2**32, lambda p: p)
    with pytest.raises(LayoutError, match=r"in 64 bits, .* f_inv maps 1 to \[0\] instead of \[1\]"):
        GenP([8], lambda i: i, lambda p: p * 2**62 * 4 // 2**32 // 2**32)


def test_a_collision_of_ints_that_only_64_bits_hide_is_refuted():
    """2 * 2**62 and 3 * 2**62 are negative in int64, so that arrays alone give 0, 1, 2, 3."""

    def f(i):
        return (i & 1) + 2 * lego.where(i * 2**62 < 0, 1, 0)

    assert f(np.arange(4)).tolist() == [0, 1, 2, 3]
    with pytest.raises(LayoutError, match=r"apply maps \[0\] and \[2\] both to position 0"):
        GenP([4], f, lambda p: p)


def test_wrapping_that_changes_nothing_is_allowed():
    """The low bits of a product are the same however far it wraps, as in a hash."""
    odd = 0x1E3779B97F4A7C15
    inverse = pow(odd, -1, 256)
    perm = GenP([256], lambda i: (i * odd) & 255, lambda p: (p * inverse) & 255)
    assert isinstance(perm.check(), Proved)
    assert np.array_equal(perm.apply(np.arange(256)), [(i * odd) & 255 for i in range(256)])


@pytest.mark.parametrize("n", [2**17, 2**25])
def test_larger_permutations_that_wrap_are_refused_too(n):
    perm = GenP([n], lambda i: i * 2**62 * 4 // 2**32 // 2**32, lambda p: p)
    verdict = perm.check()
    assert isinstance(verdict, Refuted)
    assert "in 64 bits" in verdict.explanation
    hashed = GenP([n], lambda i: (i * 0x1E3779B97F4A7C15) & (n - 1), lambda p: (p * pow(0x1E3779B97F4A7C15, -1, n)) % n)
    assert isinstance(hashed.check(), (Unknown, Proved))


def test_where_and_steps_in_place_are_watched():
    def f(i):
        i = lego.where(i > 3, i, i)
        i *= 2**61
        return i // 2**61

    with pytest.raises(LayoutError, match=r"in 64 bits, .* f maps \[4\] to -4 instead of 4"):
        GenP([8], f, lambda p: p)


def test_functions_of_this_package_are_as_before():
    assert isinstance(gallery.hilbert(64).check(), Proved)
    assert isinstance(RegP([4, 4], [2, 1]).check(), Proved)


def test_arrays_of_a_large_permutation_are_computed_with_ints_where_int64_wraps():
    """The inverse of an anti-diagonal order takes the root of 8q + 1, beyond 2**63 for q above 2**60."""
    large = gallery.antidiagonal(2**31)
    positions = np.array([0, 5, 2**61 - 1, 2**61, 2**62 - 1])
    back = large.inv(positions)
    assert [tuple(int(b[k]) for b in back) for k in range(5)] == [large.inv(int(p)) for p in positions]
    assert large.apply(*back).tolist() == positions.tolist()
    assert large.apply(np.array([[2**31 - 1]]), np.array([0, 1])).shape == (1, 2)


def test_positions_beyond_64_bits_are_not_printed():
    huge = Row(2**40, 2**40)
    for name in ("t.py.jinja", "t.cu.jinja"):
        with pytest.raises(TemplateError, match=rf"A: Row\(.*\) has {2**80} positions, more than the 64-bit integers"):
            Template.of("{{ A[i, j] }}", name, A=huge, i=index("i"), j=index("j")).render()
    i, j = lego.symbols("i j")
    ranges = huge.ranges(i, j)
    for printer in (CudaPrinter, TritonPrinter):
        with pytest.raises(PrintError, match=rf"i \+ j is {2**80 - 1} for values in its ranges, which no integer type"):
            printer(ranges).expression(huge.apply(i, j))
        assert printer(ranges).expression(Row(2**40, 2**20).apply(i, j % 2**20))  # within 64 bits
    m = lego.size("M", max=2**40)  # a maximum that no size reaches is not a position
    assert CudaPrinter(Row(m, m).ranges(i, j)).expression(Row(m, m).apply(i, j)) == "M * i + j"


def test_a_sample_that_wraps_around_refutes_nothing():
    """d(d + 1) exceeds 2**63 on the longest diagonals of a square of 2**31; with ints all positions are right."""
    assert isinstance(gallery.antidiagonal(2**31).check(), Unknown)
