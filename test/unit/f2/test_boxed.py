"""Boxes in padded layouts: which registers are made, and the boxes that need a mask."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lego_mlir.errors import LayoutError
from lego_mlir.f2.boxed import BoxedLayout, boxed, is_inside, linear, misfit, registers_of, shape_of_box, whole_bits
from lego_mlir.f2.dims import join, split
from lego_mlir.f2.encodings import Blocked, MmaOperand, MmaSync

ROWS = 64
WARPS = (4, 1)


def accumulator(columns):
    return MmaSync(WARPS).layout((ROWS, columns))


def places(layout, register):
    """The elements that a register holds, over all lanes and warps."""
    sizes = layout.in_sizes
    return [
        tuple(layout.apply(register=register, lane=lane, warp=warp, block=0).values())
        for lane, warp in itertools.product(range(sizes["lane"]), range(sizes["warp"]))
    ]


IN_A_PUSH = (8, 24, 64, 80, 136, 192, 208, 256)


@pytest.mark.parametrize(
    "columns", [n if n in IN_A_PUSH else pytest.param(n, marks=pytest.mark.long) for n in range(8, 257, 8)]
)
def test_each_element_of_the_box_is_in_one_register_that_is_made(columns):
    layout = accumulator(columns)
    held = np.zeros((ROWS, columns), int)
    for register in range(layout.in_sizes["register"]):
        found = places(layout, register)
        inside = [column < columns for _, column in found]
        assert len(set(inside)) == 1, "a register is inside for all threads or for none"
        assert is_inside(layout, register) == inside[0]
        for place in found if inside[0] else ():
            held[place] += 1
    assert (held == 1).all()
    assert shape_of_box(layout) == (ROWS, columns)
    assert len(registers_of(layout)) == ROWS * columns // 128


@pytest.mark.parametrize("columns", [8, 64, 256])
def test_a_box_of_the_padded_sizes_is_the_plain_layout(columns):
    layout = accumulator(columns)
    assert not isinstance(layout, BoxedLayout)
    assert boxed(layout, (ROWS, columns)) == layout == linear(layout)


def test_layouts_are_compared_with_their_boxes():
    small, large = accumulator(80), accumulator(96)
    assert linear(small) == linear(large)
    assert small != large
    assert len({small, large, linear(small)}) == 3


@given(st.integers(1, 32).map(lambda n: 8 * n))
def test_an_access_extends_along_bits_that_do_not_leave_the_box(columns):
    layout = accumulator(columns)
    bits = whole_bits(layout)
    for place in itertools.product((0, ROWS - 1), range(columns)):
        for bit in (1 << b for b in range(bits.bit_length()) if bits >> b & 1):
            row, column = split(join(place, layout.outs) ^ bit, layout.outs)
            assert row < ROWS and column < columns


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: accumulator(100),
            "a tile of 100 along axis 1 ends inside what lanes hold, which reaches to 4; use a mul",
        ),
        (
            lambda: MmaSync((8, 1)).layout((192, 64)),
            r"a tile of 192 along axis 0 ends inside what warps hold, which reaches to 64; use a multiple of 128",
        ),
        (lambda: boxed(accumulator(64), (64, 16)), r"a box of \[64, 16\] in a layout of \[64, 64\]: each size is more"),
        (lambda: boxed(accumulator(64), (64,)), "each size is more than half of the layout's"),
    ],
)
def test_messages(make, message):
    with pytest.raises(LayoutError, match=message):
        make()


@pytest.mark.parametrize(
    ("layout", "fitting"),
    [
        (MmaSync((4, 1)).layout((48, 24)), [3]),
        (MmaSync((8, 1)).layout((80, 16)), [5]),
        (MmaSync((4, 2)).layout((48, 16)), [6]),
        (MmaSync((2, 4)).layout((32, 24)), []),  # the first six are four of the upper rows, and two of the lower ones
        (MmaSync((4, 1)).layout((64, 24)), [4]),
        (MmaOperand(1, MmaSync((4, 1))).layout((32, 16)), [3, 4]),
        (boxed(Blocked((1, 4), (2, 16), (4, 1), order=(1, 0)).layout((8, 64)), (6, 64)), [3]),
        (Blocked((1, 4), (2, 16), (4, 1), order=(1, 0)).layout((2, 64)), [3, 4]),
    ],
)
def test_a_block_fits_if_its_warps_hold_the_tile_and_nothing_else(layout, fitting):
    """Compared with the elements of each warp, one by one."""
    for warps in range(1, 9):
        held, size = set(), layout.in_sizes.get("warp", 1)
        for warp, lane, register in itertools.product(range(min(warps, size)), range(32), registers_of(layout)):
            held.add(tuple(layout.apply(register=register, lane=lane, warp=warp, block=0).values()))
        exact = held == set(itertools.product(*map(range, shape_of_box(layout))))
        assert (misfit(layout, warps) == "") == (exact and size // 2 < warps <= size) == (warps in fitting)


def test_operands_of_boxed_products_are_boxed():
    parent = MmaSync(WARPS)
    assert shape_of_box(MmaOperand(0, parent).layout((64, 48))) == (64, 48)
