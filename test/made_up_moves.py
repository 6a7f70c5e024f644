"""Moves for property tests."""

from hypothesis import strategies as st

from lego_mlir.formats.field_moves import Move


@st.composite
def moves(draw):
    """A permutation of the digits of units of 1 to 128 bits, dense on both sides."""
    unit = draw(st.sampled_from([1, 2, 4, 8, 16, 32, 64, 128]))
    sizes = draw(st.lists(st.sampled_from([2, 2, 3, 4, 8, 16]), min_size=1, max_size=4))
    places = []
    for order in (list(range(len(sizes))), draw(st.permutations(range(len(sizes))))):
        stride, strides = unit, {}
        for k in order:
            strides[k] = stride
            stride *= sizes[k]
        places.append(strides)
    digits = sorted(((n, places[0][k], places[1][k]) for k, n in enumerate(sizes)), key=lambda d: -d[2])
    return Move(tuple(digits), unit, (0, 0))
