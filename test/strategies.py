"""What Hypothesis draws: permutations, chains and layouts of every kind, small enough to be enumerated."""

from math import prod

from hypothesis import strategies as st

from lego_mlir.errors import LayoutError
from lego_mlir.layout import Col, GenP, GroupBy, OrderBy, Padded, RegP, Row, TileBy, TileOrderBy, gallery
from lego_mlir.layout.notation_parser import parse_layout


@st.composite
def factorizations(draw, n, max_rank=4):
    """An ordered list of sizes that multiply to n."""
    sizes = []
    rest = n
    for _ in range(draw(st.integers(1, max_rank)) - 1):
        size = draw(st.sampled_from([d for d in range(1, rest + 1) if rest % d == 0]))
        sizes.append(size)
        rest //= size
    return [*sizes, rest]


@st.composite
def regular(draw, n):
    """A RegP over n elements."""
    dims = draw(factorizations(n))
    return RegP(dims, draw(st.permutations(range(1, len(dims) + 1))))


def _rotation(n, k):
    return GenP([n], lambda i: (i + k) % n, lambda p: (p + (n - k) % n) % n, text=f"rotation({n}, {k})")


@st.composite
def general(draw, n):
    """A GenP over n elements."""
    choices = [
        lambda: gallery.reverse(*draw(factorizations(n))),
        lambda: _rotation(n, draw(st.integers(0, n - 1))),
        lambda: gallery.table(draw(factorizations(n)), draw(st.permutations(range(n)))),
    ]
    root = round(n**0.5)
    if root * root == n:
        choices.append(lambda: gallery.antidiagonal(root))
    powers = [1 << k for k in range(n.bit_length()) if n % (1 << k) == 0]
    if n == powers[-1]:
        rows = draw(st.sampled_from(powers))
        choices.append(lambda: gallery.morton(rows, n // rows))
        if root * root == n:
            choices.append(lambda: gallery.hilbert(root))
    columns = draw(st.sampled_from([d for d in range(1, n + 1) if n % d == 0]))
    vec = draw(st.sampled_from([d for d in (1, 2, 3, 4) if columns % d == 0]))
    choices.append(lambda: gallery.xor_swizzle(n // columns, columns, vec=vec, per_phase=draw(st.integers(1, 3))))
    return draw(st.sampled_from(choices))()


def permutations(n):
    return st.one_of(regular(n), general(n))


@st.composite
def orders(draw, n):
    """An OrderBy of one to three levels over n elements."""
    return OrderBy(*(draw(permutations(size)) for size in draw(factorizations(n, max_rank=3))))


@st.composite
def layouts(draw, max_elements=240):
    """A GroupBy over a chain of up to three reorderings, a sugared form, or a padded layout."""

    def sizes(count):
        """So many small sizes whose product stays within the bound."""
        drawn = []
        for _ in range(count):
            drawn.append(draw(st.integers(1, min(4, max_elements // prod(drawn)))))
        return draw(st.permutations(drawn))

    n = draw(st.integers(1, max_elements))
    kind = draw(st.sampled_from(["chain", "chain", "chain", "tile_by", "tile_order_by", "padded"]))
    if kind == "tile_by":
        rank = draw(st.integers(1, 3))
        drawn = sizes(rank * draw(st.integers(1, 3)))
        return TileBy(*(drawn[k : k + rank] for k in range(0, len(drawn), rank)))
    if kind == "tile_order_by":
        rank = draw(st.integers(1, 2))
        drawn = sizes(rank * draw(st.integers(1, 3)))
        perms = [draw(st.sampled_from([Row, Col]))(*drawn[k : k + rank]) for k in range(0, len(drawn), rank)]
        return TileOrderBy(*perms).GroupBy(draw(factorizations(prod(drawn))))
    chain = tuple(draw(orders(n)) for _ in range(draw(st.integers(0, 3))))
    view = GroupBy(draw(factorizations(n)), orders=chain)
    if kind == "padded":
        return Padded(view, [draw(st.integers(1, size)) for size in view.dims()])
    return view


@st.composite
def readable_layouts(draw, max_elements=64):
    """The text of a layout, and the layout read from it; those of Python functions have no text."""
    layout = draw(layouts(max_elements))
    try:
        return repr(layout), parse_layout(repr(layout))
    except LayoutError:
        return "Row(4, 8)", Row(4, 8)
