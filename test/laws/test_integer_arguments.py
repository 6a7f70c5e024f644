"""An int means the same whichever library's type it has: the same layout or position, or a refusal."""

import numpy as np
import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

import lego_mlir as lego
from lego_mlir import GroupBy, LayoutError, RegP, Row, Strided, cute, gallery
from lego_mlir.errors import LegoError
from lego_mlir.expr.index import Index

TYPES = [
    np.int8,
    np.int16,
    np.int32,
    np.int64,
    np.uint8,
    np.uint16,
    np.uint32,
    np.uint64,
    np.array,
    sympy.Integer,
    Index,
]
DOORS = {
    "slice from": lambda v: Row(8)[v(-2) :].positions().tolist(),
    "slice to": lambda v: Row(8)[: v(-3)].positions().tolist(),
    "slice by": lambda v: Row(8)[:: v(2)].positions().tolist(),
    "slice back": lambda v: Row(8)[v(6) : v(1) : v(-2)].positions().tolist(),
    "slice of a size": lambda v: repr(Row(lego.size("n"))[v(-2) :: v(1)]),
    "fixed": lambda v: Row(8, 4)[v(3), :].positions().tolist(),
    "fixed from the end": lambda v: Row(8, 4)[v(-3), :].positions().tolist(),
    "index": lambda v: int(Row(8, 200)[v(7), v(100)]),
    "position": lambda v: [int(i) for i in Row(8, 16).inv(v(100))],
    "size": lambda v: repr(Row(v(100), v(100))),
    "sigma": lambda v: repr(RegP([4, 2, 3], [v(2), v(3), v(1)])),
    "stride": lambda v: repr(Strided([4, 2], [v(2), v(1)])),
    "axis": lambda v: repr(Row(4, 2).transpose(v(2), v(1))),
    "tile": lambda v: repr(Row(120).tile_by([v(2)], [v(60)])),
    "group": lambda v: repr(GroupBy([v(4), v(3)])),
    "shape": lambda v: repr(Row(4, 2).reshape(v(8))),
    "vector": lambda v: repr(gallery.xor_swizzle(v(8), v(64), vec=v(8))),
    "cute shape": lambda v: repr(cute.CuteLayout((v(100), v(4)), (v(4), v(1)))),
    "cute coordinate": lambda v: int(cute.CuteLayout("(4,100):(100,3)")(v(3), v(99))),
    "cute index": lambda v: int(cute.CuteLayout("Sw<1,0,3> o (4,100):(100,3)")(v(100))),
    "cute offset": lambda v: int(cute.CuteSwizzle(2, 0, 7)(v(127))),
    "cute swizzle": lambda v: repr(cute.CuteSwizzle(v(2), v(1), v(3))),
    "cute tiler": lambda v: repr(cute.logical_divide(cute.CuteLayout(8), v(4))),
    "cute extent": lambda v: repr(cute.complement(cute.CuteLayout("4:2"), v(100))),
}


def empty():
    """The body of a kernel."""


def outcome(door, kind):
    """What a door gives, or the type of its refusal."""
    try:
        return door(kind)
    except LegoError as refused:
        return type(refused)


@pytest.mark.parametrize("name", DOORS)
@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.__name__)
def test_the_same_or_a_refusal(name, kind):
    expected = outcome(DOORS[name], int)
    try:
        found = outcome(DOORS[name], kind)
    except OverflowError:  # NumPy's own: its unsigned types hold no negative number
        assert np.issubdtype(kind, np.unsignedinteger)
        return
    assert found == expected or (isinstance(found, type) and issubclass(found, LegoError))


@given(st.integers(-12, 12), st.integers(-12, 12), st.integers(-4, 4).filter(bool), st.sampled_from(TYPES[:4]))
def test_slices_are_those_of_lists(start, stop, step, kind):
    expected = list(range(8))[start:stop:step]
    given = slice(kind(start), kind(stop), kind(step))
    if expected:
        assert Row(8)[given].positions().tolist() == expected
    else:
        with pytest.raises(LayoutError, match="holds no index"):
            Row(8)[given]


@pytest.mark.parametrize("name", DOORS)
@pytest.mark.parametrize("value", [float, np.float64, np.float32, np.bool_, str, lambda v: np.array([[v, 0.5]])])
def test_other_values_are_refused(name, value):
    with pytest.raises(LegoError):
        DOORS[name](value)


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (np.ma.array([1, 2], mask=[0, 1]), r"must not be masked; pass array.filled\(index\)"),
        (np.array([2**63], np.uint64), "holds 9223372036854775808, beyond int64"),
        (np.array([1], object), "must have an integer dtype, got object"),
        (np.array([(1,)], [("a", "i4")]), "must have an integer dtype"),
        pytest.param(10**5000, "at most 256 bits, got an int of 16610", id="huge"),
    ],
)
def test_index_arrays_without_a_meaning(index, message):
    for layout in (Row(8), Row(lego.size("n")), cute.CuteLayout(8)):
        with pytest.raises(LayoutError, match=message):
            layout.apply(index) if layout != cute.CuteLayout(8) else layout(index)


def test_matrices_are_arrays_and_bytes_are_swapped():
    i, j = np.array([[1, 2]]), np.array([[3, 1]])
    expected = [[1 * 8 + 3, 2 * 8 + 1]]
    assert Row(8, 8).apply(i.view(np.matrix), j.view(np.matrix)).tolist() == expected
    assert Row(8, 8).apply(i.astype(">i4"), j.astype(">u2")).tolist() == expected
    assert Row(8, 8).apply(i[:, ::-1], j[:, ::-1]).tolist() == [expected[0][::-1]]


def test_arrays_beside_a_colon():
    with pytest.raises(LayoutError, match="an index with a colon takes ints and symbols, not arrays; call apply"):
        Row(8, 8)[np.array([0, 1]), :]
    with pytest.raises(LayoutError, match="the positions must not be masked"):
        gallery.table([2], np.ma.array([0, 1], mask=[0, 1]))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Row(10**5000), "Row: a size has at most 256 bits, got an int of 16610"),
        (lambda: RegP([10**5000, 2], [2, 1]), "at most 256 bits"),
        (lambda: GroupBy([10**5000]), "at most 256 bits"),
        (lambda: Row(8).tile_by([10**5000], [2]), "at most 256 bits"),
        (lambda: Strided([4], [10**5000]), "at most 256 bits"),
        (lambda: lego.f2.LinearLayout({"i": [10**5000]}, {"o": 8}), "basis 0 of i has at most 256 bits"),
        (lambda: lego.f2.LinearLayout({"i": [1]}, {"o": 2**5000}), "at most 256 bits, got an int of 5001"),
        (lambda: lego.f2.SwizzledShared(10**5000, 1, 1, [1, 0]), "SwizzledShared: vec has at most 256 bits"),
        (lambda: lego.kernel(grid=10**5000, block=1)(empty), "grid x has 16610 bits, more than any launch"),
        (lambda: lego.size("n", max=10**5000), "size n: max has at most 256 bits, got an int of 16610"),
        (lambda: cute.CuteLayout(10**5000), "at most 256 bits"),
        (lambda: cute.CuteLayout(4, 10**5000), "at most 256 bits"),
        (lambda: cute.CuteSwizzle(10**5000, 0, 0), "at most 256 bits"),
        (lambda: Row(2**40)[:].positions(), "1099511627776 positions; an array has at most 268435456: slice fewer"),
        (lambda: Row(2**63 - 1)[:].positions(), "an array has at most 268435456"),
    ],
)
def test_sizes_beyond_any_memory(make, message):
    with pytest.raises(LegoError, match=message):
        make()


def test_a_slice_of_more_than_int64_holds_is_exact():
    assert Row(2**70)[1:].shape == (2**70 - 1,)
