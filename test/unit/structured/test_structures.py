"""Structures by their two dictionaries, and storages by their positions."""

import numpy as np
import pytest

from lego_mlir.structured import structures as st
from lego_mlir.structured.lower import Leaf
from lego_mlir.structured.sets import Region
from lego_mlir.structured.storage import Band, Full, Packed, StorageError, as_storage
from lego_mlir.structured.structures import Access, Structure, StructureError

ALL = [
    st.general(3, 5), st.zero(4, 2), st.lower(5), st.upper(5), st.unit_lower(4), st.unit_upper(4), st.diagonal(4),
    st.identity(3), st.banded(6, 6, 1, 2), st.banded(4, 7, 0, 3), st.symmetric(5, "L"), st.symmetric(5, "U"),
    st.symmetric_banded(6, 2, "L"), st.symmetric_banded(6, 1, "U"),
    st.blocked([[st.general(2, 3), st.lower(2)], [st.symmetric(3, "U"), st.zero(3, 2)]]),
    st.blocked([[st.blocked([[st.unit_lower(2), st.general(2, 1)]]), st.upper(2)]]),
]  # fmt: skip


@pytest.mark.parametrize("structure", ALL, ids=str)
def test_every_element_has_one_kind_and_a_source_that_is_its_own(structure):
    kinds = structure.kinds
    assert kinds.shape == (structure.rows, structure.columns)
    rows, columns = structure.sources
    there = kinds == st.STORED
    # reading a source must lead to the source itself, or two elements would disagree about one place
    assert (rows[rows[there], columns[there]] == rows[there]).all()
    assert (columns[rows[there], columns[there]] == columns[there]).all()


def test_kinds_and_symmetry():
    assert st.symmetric(4, "L").symmetric
    assert st.diagonal(4).symmetric
    assert not st.lower(4).symmetric
    assert st.unit_upper(2).kinds.tolist() == [[2, 1], [0, 2]]
    assert np.array_equal(st.banded(5, 5, 1, 2).kinds, np.tri(5, 5, 2) - np.tri(5, 5, -2))
    assert st.symmetric_banded(4, 1, "U").read_from(2, 1) == (1, 2)


def test_blocked_is_its_blocks():
    whole = st.blocked([[st.general(2, 3), st.lower(2)], [st.symmetric(3, "U"), st.zero(3, 2)]])
    assert whole.kinds[:2, 3:].tolist() == [[1, 0], [1, 1]]
    assert whole.read_from(4, 0) == (2, 2)
    assert not whole.kinds[2:, 3:].any()


def test_a_wrong_dictionary_is_refused():
    box = "{ [i, j] : 0 <= i, j < 2 }"
    with pytest.raises(StructureError, match=r"gives element \(0, 0\) two tags"):
        _ = Structure("Twice", 2, 2, (("G", box), ("Z", box)), (Access(box),)).kinds
    with pytest.raises(StructureError, match=r"gives element \(0, 0\) of 2 x 2 no tag"):
        _ = Structure("Gap", 2, 2, (("G", "{ [i, j] : 0 <= i < 2 and j = 1 }"),), (Access(box),)).kinds
    with pytest.raises(StructureError, match=r"AInfo has no access for element \(0, 1\)"):
        _ = Structure("Lost", 2, 2, (("G", box),), (Access("{ [i, j] : 0 <= j <= i < 2 }"),)).sources


@pytest.mark.parametrize("structure", ALL, ids=str)
@pytest.mark.parametrize("storage", [Full(), Full("F"), Packed(), Packed("F")], ids=str)
def test_positions_of_stored_elements_are_distinct_and_inside(structure, storage):
    held = storage.positions(structure)
    inside = held[held >= 0]
    assert np.array_equal(held >= 0, structure.stored)
    assert len(set(inside.tolist())) == inside.size
    assert (inside < np.prod(storage.shape(structure))).all()
    assert Leaf("x", structure, storage).positions.shape == structure.kinds.shape


def test_storages_are_the_known_ones():
    rng = np.random.default_rng(0)
    full = np.triu(np.tril(rng.uniform(size=(6, 6)), 1), -2)
    band = np.zeros((4, 6))
    for i in range(6):
        for j in range(max(0, i - 2), min(6, i + 2)):
            band[1 + i - j, j] = full[i, j]
    structure = st.banded(6, 6, 2, 1)
    held = Band().positions(structure)
    assert np.array_equal(band.ravel()[held[held >= 0]], full[held >= 0])
    held = Band("F").positions(structure)
    assert np.array_equal(band.T.ravel()[held[held >= 0]], full[held >= 0])
    packed = Packed("F").positions(st.lower(3))
    assert packed.tolist() == [[0, -1, -1], [1, 3, -1], [2, 4, 5]]


def test_a_layout_is_a_storage():
    from lego_mlir.layout import Col

    given = as_storage(Col(3, 4))
    assert np.array_equal(given.positions(st.general(3, 4)), Full("F").positions(st.general(3, 4)))
    with pytest.raises(StorageError, match=r"the layout is over \(3, 4\), the matrix Matrix\(4, 3\)"):
        given.positions(st.general(4, 3))
    with pytest.raises(StorageError, match="a storage is a name"):
        as_storage(7)


def test_region_equality_and_masks_agree_with_points():
    region = Region("{ [i, j] : 0 <= i < 5 and 0 <= j < 6 and (i + j) mod 2 = 0 }")
    mask = region.mask(5, 6)
    assert sorted(map(tuple, np.argwhere(mask).tolist())) == region.points()
    assert region.count() == mask.sum()
