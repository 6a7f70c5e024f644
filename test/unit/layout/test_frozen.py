"""Layouts do not change after their proof; they are copied and pickled by their constructors, which check again."""

import copy
import pickle

import numpy as np
import pytest

import lego_mlir as lego
from lego_mlir import Col, GenP, OrderBy, Padded, RegP, Row, TileBy, TileOrderBy, as_layout, gallery, schedule
from lego_mlir.errors import ExpressionError, LayoutError
from lego_mlir.expr.verdict import Proved
from lego_mlir.layout.transposed import Transposed
from lego_mlir.templates import index
from lego_mlir.templates.render.indices import Coordinate

M = lego.size("M", min=32, multiple_of=32)


def turned(i):
    return 7 - i


def back(p):
    return (7 - p,)


def merged(i):
    return i // 2


LAYOUTS = [
    RegP([2, 3, 4], [3, 1, 2]),
    Row(M, 64),
    Col(4, 8),
    GenP([8], turned, back),
    GenP([8], turned, back, text="turned", identity=("turned", 8)),
    gallery.antidiagonal(5),
    gallery.antidiagonal(M),
    gallery.morton(4, 8),
    gallery.hilbert(8),
    gallery.xor_swizzle(8, 8, vec=2, per_phase=2, max_phase=4),
    gallery.xor_swizzle(M, 8),
    gallery.reverse(2, 3),
    gallery.block_cyclic(12, 2, 3),
    schedule.grouped(5, 3, rows=2),
    schedule.columns(M, 5, width=2),
    gallery.padded(4, 4),
    gallery.table([2, 3], [3, 1, 0, 2, 5, 4], name="moved"),
    gallery.table([100], np.arange(100)[::-1], runtime=True),
    OrderBy(RegP([2, 2], [2, 1]), gallery.antidiagonal(3)).OrderBy(Row(36)).GroupBy([6, 6]),
    TileBy([2, 2], [3, 3]),
    TileOrderBy(Row(2, 2), Col(3, 3)),
    Row(M, 100).tile_by([M // 32, 4], [32, 32]),
    Padded(Row(100).tile_by([4], [32]), [4, 31]),
    Transposed(as_layout(Row(4, 8))),
]


@pytest.mark.parametrize("layout", LAYOUTS, ids=repr)
def test_pickles_and_copies_are_equal(layout):
    for again in (pickle.loads(pickle.dumps(layout)), copy.copy(layout), copy.deepcopy(layout)):
        assert type(again) is type(layout)
        assert repr(again) == repr(layout)
        if isinstance(layout, lego.Layout):
            assert again == layout
            assert hash(again) == hash(layout)
            assert again.check() == layout.check()
        else:
            assert again.orders == layout.orders


def test_slices_and_indices_pickle():
    taken = Row(4, 6)[1, ::2]
    assert pickle.loads(pickle.dumps(taken)).positions().tolist() == taken.positions().tolist()
    assert pickle.loads(pickle.dumps(M // 32)).same(M // 32)


@pytest.mark.parametrize("layout", LAYOUTS, ids=repr)
def test_no_part_of_a_layout_can_be_set_or_deleted(layout):
    fields = {name for kind in type(layout).__mro__ for name in getattr(kind, "__slots__", ())}
    assert fields
    for name in (*fields, "note"):
        with pytest.raises(LayoutError, match=f"is immutable: {name} cannot be set"):
            setattr(layout, name, None)
        with pytest.raises(LayoutError, match=f"is immutable: {name} cannot be deleted"):
            delattr(layout, name)
    assert not hasattr(layout, "__dict__")


i = index("i", 8)
INDICES = [M, M // 32 + 1, M < 64, i, i % 4, i < 3, Coordinate(i // 4, i.ranges, 2)]


@pytest.mark.parametrize("value", INDICES, ids=repr)
def test_no_part_of_an_index_can_be_set_or_deleted(value):
    fields = {name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())}
    kept = {name: getattr(value, name) for name in fields}
    for name in (*fields, "note"):
        with pytest.raises(ExpressionError, match=f"is immutable: {name} cannot be set"):
            setattr(value, name, i.expr)
        with pytest.raises(ExpressionError, match=f"is immutable: {name} cannot be deleted"):
            delattr(value, name)
    assert {name: getattr(value, name) for name in fields} == kept
    for again in (pickle.loads(pickle.dumps(value)), copy.copy(value), copy.deepcopy(value)):
        assert type(again) is type(value)
        assert {name: getattr(again, name) for name in fields} == kept


def test_a_size_inside_of_a_layout_does_not_change():
    layout = Row(M, 4)
    with pytest.raises(ExpressionError, match="M is immutable: expr cannot be set"):
        layout.dims()[0].expr = lego.size("N").expr
    assert layout.dims()[0].same(M)


def test_a_proof_holds_for_what_was_proved():
    g = GenP([8], turned, back)
    assert isinstance(g.check(), Proved)
    with pytest.raises(LayoutError, match="construct a new value"):
        g.f = merged
    assert [g.apply(i) for i in range(8)] == list(range(7, -1, -1))


def test_a_hash_is_kept():
    r = RegP([2, 3], [2, 1])
    kept = {r: 1}
    with pytest.raises(LayoutError, match="sigma cannot be set"):
        r.sigma = (1, 2)
    assert kept[RegP([2, 3], [2, 1])] == 1


def test_a_list_of_parts_that_changes_later_is_not_the_layout_s():
    sizes, sigma, levels = [2, 3], [2, 1], [[2, 2], [2, 2]]
    r, t = RegP(sizes, sigma), TileBy(*levels)
    sizes[0], sigma[0], levels[0][0] = 9, 9, 9
    assert (r.dims(), r.sigma, t.dims()) == ((2, 3), (2, 1), (2, 2, 2, 2))


def test_a_table_is_a_copy_that_cannot_be_written():
    entries = np.array([3, 1, 0, 2])
    table = gallery.table([4], entries)
    entries[:] = 0
    assert table.apply(np.arange(4)).tolist() == [3, 1, 0, 2]
    arrays = [
        c.cell_contents for f in (table.f, table.f_inv) for c in f.__closure__ if hasattr(c.cell_contents, "flags")
    ]
    assert len(arrays) == 2
    for array in arrays:
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_a_pickle_carries_no_proof():
    """A function that has changed where it is imported again is checked again."""
    text = pickle.dumps(GenP([8], turned, back)).replace(b"turned", b"merged")
    with pytest.raises(LayoutError, match="is not a bijection: apply maps"):
        pickle.loads(text)
    with pytest.raises((AttributeError, pickle.PicklingError)):
        pickle.dumps(GenP([8], lambda i: i, lambda p: p))
