"""Every message that a wrong layout can meet: what was wrong, with the values, and the remedy."""

import math

import numpy as np
import pytest
import sympy

import lego_mlir as lego
from lego_mlir.errors import ExpressionError, LayoutError, LayoutIndexError
from lego_mlir.expr.index import as_condition, index_symbol
from lego_mlir.expr.verdict import Proved, Refuted, Unknown
from lego_mlir.layout import Col, GenP, GroupBy, OrderBy, Padded, RegP, Row, TileBy, TileOrderBy, as_layout, gallery

REFUSED = [
    (lambda: RegP([4, 6], [1, 0]), LayoutError,
     r"counts axes from 0; sigma is 1-based, as in the paper: write \[2, 1\]"),
    (lambda: RegP([4, 6], ["a", "b"]), LayoutError, "sigma must be a list of ints"),
    (lambda: GenP([2, 2], lambda i, j: i + j, lambda p: (p // 2, p % 2)), LayoutError,
     r"apply maps \[0, 1\] and \[1, 0\] both to position 1"),
    (lambda: GenP([2, 2], lambda i, j: i * 2 + j + i * j, lambda p: (p // 2, p % 2)), LayoutError,
     r"apply maps \[1, 1\] to 4, outside 0..3"),
    (lambda: GenP([2, 2], lambda i, j: j * 2 + i, lambda p: (p // 2, p % 2)), LayoutError,
     r"apply maps \[1, 0\] to position 1, but f_inv maps 1 to \[0, 1\]"),
    (lambda: GenP([2, 2], lambda i, j: i * 2 + j, lambda p: (0 * p, p)), LayoutError, r"but f_inv maps 2 to \[0, 2\]"),
    (lambda: GenP([2, 2], lambda i, j: i * 2 + j, lambda p: p), LayoutError,
     r"f_inv must return one value for each of the sizes \[2, 2\], got 1"),
    (lambda: OrderBy(Row(6, 6)).GroupBy([5, 5]), LayoutError,
     r"GroupBy\(\[5, 5\]\) has 25 elements but OrderBy\(Row\(6, 6\)\) has 36"),
    (lambda: Row(4, 6).apply(np.zeros(7, int), np.arange(7)), LayoutIndexError,
     r"index 1 of \[4, 6\] runs over 0..6, outside 0..5"),
    (lambda: Row(4, 6).inv(24), LayoutIndexError, r"the position is 24, outside 0..23"),
    (lambda: Row(4, 6).apply(1, 2, 3), LayoutError, r"apply takes 2 indices for the logical sizes \[4, 6\], got 3"),
    (lambda: Row(4).apply(np.zeros(3)), LayoutError, r"integer dtype, got float64"),
    (lambda: OrderBy(), LayoutError, "at least one permutation"),
    (lambda: OrderBy([2, 2]), LayoutError, "OrderBy takes permutations"),
    (lambda: GroupBy(), LayoutError, "GroupBy needs the logical sizes"),
    (lambda: GroupBy(6, 6), LayoutError, "one list of sizes per level"),
    (lambda: GenP([2], 3, lambda p: p), LayoutError, "must be a function"),
    (lambda: TileBy([2, 2], [3]), LayoutError,
     r"TileBy: all levels must have the same number of sizes, got levels of \[2, 1\]"),
    (lambda: TileOrderBy(Row(2, 2), Row(3)), LayoutError, "TileOrderBy: all levels"),
    (lambda: RegP([], []), LayoutError, "at least one size"),
    (lambda: as_layout(OrderBy(Row(2)).OrderBy(Row(2))), LayoutError, r"has no logical view yet; end it with .GroupBy"),
    (lambda: as_layout("Row"), LayoutError, "a layout is needed"),
    (lambda: Row(100, 64).tile_by([3, 2], [32, 32]), LayoutError,
     r"the tiles of axis 0 cover 96 of its 100 elements; round .* lego.cdiv"),
    (lambda: Row(100, 64).tile_by([4, 2], [32, 32]).apply(3, 0, 4, 0), LayoutIndexError,
     r"index \[3, 0, 4, 0\] is past the end of \[100, 64\]: it is element \[100, 0\]"),
    (lambda: Padded(Row(32, 33), [33, 32]), LayoutError, r"\[33, 32\] does not fit into \[32, 33\]: 33 > 32"),
    (lambda: gallery.padded(32, 32).inv(32), LayoutError, r"position 32 of .* is padding"),
    (lambda: gallery.padded(32, 32, pad=0), LayoutError, "pad=0 must be >= 1; without padding the tile is Row"),
    (lambda: gallery.morton(12), LayoutError, "must be powers of two, got 12; pad to 16"),
    (lambda: gallery.hilbert(6), LayoutError, r"gallery.hilbert: sizes must be powers of two, got 6"),
    (lambda: gallery.xor_swizzle(8, 8, max_phase=3), LayoutError,
     r"max_phase=3 must be a power of two that divides the 8 groups.*8 is the largest"),
    (lambda: gallery.xor_swizzle(8, 8, vec=3), LayoutError, "vec=3 must divide columns=8"),
    (lambda: gallery.block_cyclic(10, 2, 3), LayoutError,
     r"must divide n=10; use Padded\(block_cyclic\(12, 2, 3\), \[10\]\)"),
    (lambda: gallery.table([3], [0, 1, 1]), LayoutError, "entries 1 and 2 are both 1"),
    (lambda: gallery.table([3], [0, 1, 3]), LayoutError, r"entry 2 is 3, outside 0..2"),
    (lambda: gallery.table([2, 2], [0, 1, 2]), LayoutError, "4 integers are needed for the sizes"),
    (lambda: Row(4, 4).apply(np.arange(3), np.arange(4)), LayoutError,
     r"must broadcast against each other, got the shapes \(3,\), \(4,\)"),
    (lambda: Row(4, 4).apply(np.arange(3), index_symbol("i")), LayoutError, "arrays or symbols, not both"),
    (lambda: Row(4, 6)[1], LayoutIndexError, r"2 indices are needed for the sizes \[4, 6\], got 1"),
    (lambda: Row(4, 6)[3:3, 0], LayoutIndexError, r"slice of axis 0: 3:3 holds no index of 0..3"),
    (lambda: Row(4, 6)[..., ...], LayoutIndexError, "one ellipsis"),
    (lambda: Row(4, 6)[index_symbol("i"), :].positions(), LayoutError, "has symbols besides its colons"),
    (lambda: Row(4).ranges(index_symbol("i") + 1), LayoutError, "only a symbol has a range"),
    (lambda: Row(4, 6).ranges(sympy.Symbol("i")), LayoutError, "ranges takes one symbol for each"),
    (lambda: gallery.xor_swizzle(8, lego.size("n")), LayoutError, "xor_swizzle: columns=n must be an int >= 1"),
    (lambda: gallery.xor_swizzle(8, 8.0), LayoutError, "columns=8.0 must be an int >= 1"),
    (lambda: gallery.xor_swizzle(8, 8, vec=None), LayoutError, "vec=None must be an int >= 1"),
    (lambda: gallery.xor_swizzle(8, 8, per_phase=0), LayoutError, "per_phase=0 must be an int >= 1"),
    (lambda: gallery.xor_swizzle(8, 8, max_phase=0), LayoutError, "max_phase=0 must be an int >= 1"),
    (lambda: gallery.block_cyclic(12, 0, 3), LayoutError, "block_cyclic: block=0 must be an int >= 1"),
    (lambda: gallery.block_cyclic(12, -2, -3), LayoutError, "block=-2 must be an int >= 1"),
    (lambda: gallery.antidiagonal(2.5), LayoutError, "gallery.antidiagonal: a size is an int >= 1"),
    (lambda: gallery.morton(lego.size("n")), LayoutError, "sizes must be ints that are powers of two, got n"),
    (lambda: gallery.morton(True), LayoutError, "sizes must be ints that are powers of two, got True"),
    (lambda: gallery.padded(4, 4, "a"), LayoutError, "pad='a' must be >= 1"),
    (lambda: gallery.table([2], [0, 1], name="a b"), LayoutError, "the name 'a b' must be an ASCII identifier"),
    (lambda: gallery.table([2], [0, 1], name="größe"), LayoutError, "the name 'größe' must be an ASCII identifier"),
    (lambda: gallery.table([4], [[0, 1], [2]]), LayoutError, "the positions are not an array of integers"),
    (lambda: gallery.table([2], np.array([2**63 + 1, 0], np.uint64)), LayoutError,
     "entry 0 is 9223372036854775809, outside"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "message"), REFUSED)
def test_a_call_that_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("sigma", [[1, 1], [1], [1, 2, 3], [2, 3]])
def test_sigma_orders_the_axes(sigma):
    with pytest.raises(LayoutError, match=r"sigma must order the 2 axes of \[4, 6\], got .*each of 1..2 appears once"):
        RegP([4, 6], sigma)


def test_large_genp_is_refused_when_used():
    bad = GenP([1024, 1024], lambda i, j: i * 1024 + j // 2, lambda p: (p // 1024, p % 1024))
    with pytest.raises(LayoutError, match=r"\[0, 0\] and \[0, 1\] both to position 0"):
        bad.apply(0, 0)
    assert isinstance(bad.check(), Refuted)
    with pytest.raises(LayoutError, match="is not a bijection"):
        OrderBy(bad).GroupBy([1024, 1024]).require()


def test_int_only_functions_are_told_apart():
    def f(i, j):
        return i * 2 + j if i < 2 else 0

    perm = GenP([2, 2], f, lambda p: (p // 2, p % 2))
    assert perm.apply(1, 1) == 3
    with pytest.raises(LayoutError, match=r"can only handle ints.*'i < 2'.*lego.where"):
        perm.apply(index_symbol("i"), index_symbol("j"))
    with pytest.raises(LayoutError, match=r"cannot handle a NumPy array.*lego.gallery.tabulated"):
        perm.apply(np.arange(2), np.arange(2))


def test_int_only_square_root():
    perm = GenP([4], lambda i: 3 - i + 0 * math.isqrt(i), lambda p: (3 - p,))
    with pytest.raises(LayoutError, match=r"can only handle ints.*lego.isqrt"):
        perm.apply(index_symbol("i"))


def test_true_division():
    perm = GenP([4], lambda i: int(i) ^ 1, lambda p: (int(p) ^ 1,))
    assert perm.apply(2) == 3
    with pytest.raises(LayoutError, match="write integer division as //"):
        GenP([4], lambda i: i / 1, lambda p: (p,)).apply(index_symbol("i"))


def test_symbolic_sizes_that_do_not_multiply_to_the_same_number():
    M = lego.size("M", min=1)
    with pytest.raises(LayoutError, match=r"must multiply to the same number \(they differ for M = \d+\)"):
        OrderBy(Row(M)).GroupBy([M // 32, 32])


@pytest.mark.parametrize("index", [(4, 0), (0, 6), (-1, 0)])
def test_index_out_of_range(index):
    with pytest.raises(LayoutIndexError, match=r"index \d of \[4, 6\] is -?\d, outside 0..\d"):
        Row(4, 6).apply(*index)


@pytest.mark.parametrize("value", [1.5, "1", None])
def test_index_of_a_wrong_kind(value):
    with pytest.raises(LayoutError, match="an index is an int, a NumPy integer array"):
        Row(4).apply(value)


@pytest.mark.parametrize("size", [0, -3, 2.0, True, "4"])
def test_bad_sizes(size):
    with pytest.raises(LayoutError, match=r"a size is an int >= 1 or lego.size"):
        Row(4, size)


def test_a_row_that_may_be_longer_than_the_distance_of_rows():
    m, n, distance = (lego.size(name) for name in ("M", "N", "LD"))
    with pytest.raises(
        LayoutError, match=r"N > LD for .*; make the larger a sum, N \+ P with P = lego\.size\('P', min=0\)"
    ):
        Padded(Row(m, distance), [m, n])
    assert Padded(Row(m, n + lego.size("P", min=0)), [m, n]).check()


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (lambda i, j: i, r"f fails for \[0\]: TypeError: .* missing 1 required positional argument"),
        (lambda i: None, "f gives NoneType, not integers; got None"),
        (lambda i: "a", "f gives str, not integers"),
        (lambda i: [i], "f gives list, not integers"),
        (lambda i: {0: 1}[int(i)], r"f fails for \[1\]: KeyError: 1"),
    ],
)
def test_functions_that_give_no_integers(f, message):
    with pytest.raises(LayoutError, match=message):
        GenP([4], f, lambda p: p)
    with pytest.raises(LayoutError, match="f_inv gives NoneType, not integers"):
        GenP([4], lambda i: i, lambda p: None)


def test_any_failure_with_a_symbol_or_an_array_says_what_to_do():
    swap = {0: 3, 1: 2, 2: 1, 3: 0}
    perm = GenP([4], lambda i: swap[i], lambda p: swap[p])
    assert perm.check() == Proved("enumeration of 4 elements")
    for index, kind in ((index_symbol("i"), "a symbol"), (np.arange(4), "a NumPy array")):
        with pytest.raises(LayoutError, match=f"f cannot handle {kind} .*lego.gallery.tabulated"):
            perm.apply(index)
    assert gallery.tabulated(perm).apply(np.arange(4)).tolist() == [3, 2, 1, 0]


def test_more_positions_than_an_array_can_tell_apart():
    huge = Row(2**40, 2**40)
    assert huge.inv(huge.apply(2**39, 5)) == (2**39, 5)
    with pytest.raises(LayoutError, match="too many for int64 arrays; use Python's ints"):
        huge.apply(np.array([2**39]), np.array([5]))
    with pytest.raises(LayoutError, match="too many for int64 arrays"):
        huge.inv(np.array([5]))


def test_beyond_the_exact_bound():
    """2^26 elements: too many to visit, so a proof or a sample decides."""
    wrong = GenP([2**13, 2**13], lambda i, j: i * 2**13 + (j // 2) * 2, lambda p: (p // 2**13, p % 2**13))
    assert isinstance(wrong.check(), Refuted)
    right = gallery.antidiagonal(2**13)
    assert not isinstance(right.check(), Refuted)
    if isinstance(right.check(), Unknown):
        assert "beyond the exact check" in right.check().reason


@pytest.mark.parametrize("perm", [gallery.antidiagonal(40000), gallery.hilbert(2**14)], ids=["long", "nested"])
def test_beyond_the_exact_bound_a_verdict_stays_readable(perm):
    """A proof that fails shows its claim cut short; one that is nested too deeply does not crash."""
    verdict = perm.check()
    assert isinstance(verdict, Unknown)
    assert len(verdict.reason) < 500


def test_what_cannot_even_be_sampled():
    ints = GenP([2**13, 2**13], lambda i, j: i * 2**13 + (j if j > 0 else 0), lambda p: (p // 2**13, p % 2**13))
    assert "none was sampled" in ints.check().reason
    huge = GenP([2**40, 2**40], lambda i, j: i * 2**40 + (j ^ i * i % 2**40), lambda p: (p // 2**40, p % 2**40))
    assert not isinstance(huge.check(), Proved)


def test_a_function_that_depends_on_more_than_its_arguments():
    calls = iter([[0, 1], [0, 0, 2, 3], [1, 0, 2, 3]])
    with pytest.raises(LayoutError, match="returns different positions when called again"):
        GenP([4], lambda i: np.array(next(calls)), lambda p: (p,))


def test_column_major_repr_round_trips():
    for layout in [Col(2, 3), TileBy([2, 2], [3, 3]), OrderBy(Col(4, 4)).TileBy([2, 2], [2, 2])]:
        assert eval(repr(layout)) == layout


def test_an_exception_of_a_function_of_the_user_names_the_function_and_its_line():
    class OwnError(Exception):
        pass

    def moved(i):
        half = i // 2
        raise OwnError(f"no place for {half}")

    line = moved.__code__.co_firstlineno + 2
    with pytest.raises(LayoutError, match=rf"f fails for .*OwnError: no place for 0, in moved \(.*\.py:{line}\)"):
        GenP([4], moved, lambda p: (p,))

    def unfinished(i):
        return i + missing  # noqa: F821

    with pytest.raises(LayoutError, match=rf"NameError.*in unfinished \(.*:{unfinished.__code__.co_firstlineno + 1}\)"):
        GenP([4], unfinished, lambda p: (p,))


@pytest.mark.parametrize("text", ["x", "__import__('os').abort()", b"4", None])
def test_a_text_is_no_size_and_is_not_evaluated(text):
    """SymPy reads a text by evaluating it as Python."""
    with pytest.raises(ExpressionError, match="an index is an int or an expression of sizes"):
        Row(lego.size("M"), 3).subs(M=text)
    with pytest.raises(ExpressionError, match="an index is an int or an expression of sizes"):
        as_condition(text)
