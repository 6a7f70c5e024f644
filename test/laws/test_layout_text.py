"""The text of a layout in MLIR: it reads back as the same layout, and malformed text gives one message."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mutations import mutated

import lego_mlir as lego
from lego_mlir import (
    Col,
    GenP,
    OrderBy,
    Padded,
    RegP,
    Row,
    Strided,
    TileOrderBy,
    as_layout,
    gallery,
    parse_layout,
    schedule,
)
from lego_mlir.errors import LegoError
from lego_mlir.layout.notation import functions_of

from strategies import layouts

EVERYDAY, LONG = 400, 10_000
M, N = lego.size("M", multiple_of=32), lego.size("N", min=3, max=4096)
SYMBOLIC = [
    Row(M, N),
    RegP([M, 2, N], [3, 1, 2]),
    gallery.antidiagonal(N),
    gallery.xor_swizzle(M, 64, vec=8, max_phase=4),
    gallery.reverse(M, N + 1),
    Row(M, N).tile_by([M // 32, lego.cdiv(N, 32)], [32, 32]),
    lego.TileBy([M // 32, 3], [32, 5]),
    OrderBy(Row(M // 32), Col(32, N)).GroupBy([M, N]),
    Padded(Row(M, N + 1), [M, N]),
    Strided([M, 7], [7, 1]),
    schedule.grouped(M, N, rows=5),
    schedule.columns(3, N, width=5),
    gallery.block_cyclic(M, 4, 2),
    as_layout(Row(M * N - N // 2 + 3, N % 7 + 2, M * M)),
]


def named(layout):
    """Names for the permutations of a layout that are made of functions."""
    return {perm: f"perm{k}" for k, perm in enumerate(dict.fromkeys(functions_of(layout)))}


@settings(max_examples=300)
@given(layouts(), st.booleans())
def test_a_text_reads_back_as_its_layout(layout, tile):
    if tile:
        layout = layout.tile_by([1] * len(layout.dims()), [n + n % 2 for n in layout.dims()])
    names = named(layout)
    text = layout.to_mlir(names)
    back = parse_layout(text, {name: perm for perm, name in names.items()})
    assert back == layout
    assert back.to_mlir(names) == text


@settings(max_examples=300)
@given(layouts())
def test_a_repr_reads_back_as_its_layout(layout):
    if not named(layout) and "entries" not in repr(layout):
        assert parse_layout(repr(layout)) == layout


def test_the_repr_of_a_table_with_a_name_reads_back():
    named = gallery.table([2, 2], [3, 1, 0, 2], name="order")
    assert repr(parse_layout(repr(named))) == repr(named)


@pytest.mark.parametrize("layout", SYMBOLIC, ids=repr)
def test_symbolic_sizes_keep_their_facts(layout):
    assert parse_layout(layout.to_mlir()) == layout


def test_texts_are_those_of_the_page():
    figure = OrderBy(RegP([2, 2], [2, 1]), gallery.antidiagonal(3)).OrderBy(RegP([2, 3, 2, 3], [1, 3, 2, 4]))
    assert figure.GroupBy([6, 6]).to_mlir() == (
        "#lego.layout<OrderBy(Col(2, 2), gallery.antidiagonal(3)) OrderBy(RegP([2, 3, 2, 3], [1, 3, 2, 4])) "
        "GroupBy([6, 6])>"
    )
    assert as_layout(Row(6, 6)).to_mlir() == "#lego.layout<Row(6, 6)>"
    assert Row(6, 6).tile_by([2, 2], [3, 3]).to_mlir() == "#lego.layout<Row(6, 6) tile_by([2, 2], [3, 3])>"
    tiles = Row(M, N).tile_by([M // 32, lego.cdiv(N, 32)], [32, 32])
    assert tiles.to_mlir() == (
        "#lego.layout<[M multiple_of 32, N min 3 max 4096]: Row(M, N) "
        "tile_by([M floordiv 32, (N + 31) floordiv 32], [32, 32])>"
    )
    assert parse_layout("TileOrderBy(Row(2, 2), Row(3, 3)) GroupBy([6, 6])") == TileOrderBy(
        Row(2, 2), Row(3, 3)
    ).GroupBy([6, 6])
    assert parse_layout("[N min 3 max 4096]: Row(N ceildiv 2, -1 + (N + 2) mod 4)") == Row(
        lego.cdiv(N, 2), (N + 2) % 4 - 1
    )
    assert parse_layout("OrderBy(Row(2)) OrderBy(Col(2), Row(1))") == OrderBy(Row(2)).OrderBy(Col(2), Row(1)).GroupBy(
        [2, 1]
    )


def test_a_permutation_of_functions_is_a_symbol():
    zigzag = GenP([4], lambda i: 3 - i, lambda p: (3 - p,))
    layout = OrderBy(Row(2), zigzag).GroupBy([2, 4])
    text = layout.to_mlir({zigzag: "zigzag"})
    assert text == "#lego.layout<OrderBy(Row(2), GenP([4], @zigzag)) GroupBy([2, 4])>"
    assert parse_layout(text, {"zigzag": zigzag}) == layout


def test_strides_without_a_proof_are_claims_of_the_text():
    pitch = lego.size("pitch")
    claimed = Strided([M, N], [pitch, 1], claim=True)
    assert parse_layout(claimed.to_mlir()) == claimed


TEXTS = [
    *(layout.to_mlir() for layout in SYMBOLIC),
    "#lego.layout<OrderBy(Col(2, 2), gallery.antidiagonal(3)) OrderBy(RegP([2, 3, 2, 3], [1, 3, 2, 4])) "
    "GroupBy([6, 6])>",
    "#lego.layout<TileOrderBy(Row(2, 2), Row(3, 3)) TileBy([2, 2], [3, 3])>",
    '#lego.layout<gallery.table([2, 2], [3, 1, 0, 2], name="order")>',
    "#lego.layout<Padded(OrderBy(gallery.morton(4, 8)) GroupBy([4, 8]), [3, 7]) tile_by([2, 2], [2, 4])>",
    "#lego.layout<OrderBy(GenP([4], @zigzag), gallery.hilbert(4)) GroupBy([64])>",
]


def require_one_message(numbers):
    """Each mutation of a text is a layout, or one LegoError."""
    symbols = {"zigzag": GenP([4], lambda i: 3 - i, lambda p: (3 - p,), text="zigzag")}
    read = 0
    for number in numbers:
        draw = random.Random(number)
        text = mutated(draw, draw.choice(TEXTS)).decode(errors="replace")
        try:
            parse_layout(text, symbols)
            read += 1
        except LegoError as error:
            assert "\n" not in str(error), text
    return read


def test_mutated_texts_are_layouts_or_one_message():
    assert 0 < require_one_message(range(EVERYDAY)) < EVERYDAY


@pytest.mark.long
def test_many_mutated_texts_are_layouts_or_one_message():
    first = random.SystemRandom().randrange(1, 10**6) * LONG
    require_one_message(range(first, first + LONG))
