"""Layouts drawn from a seed, of every kind that `#lego.layout<...>` can express, small enough to be enumerated."""

import random
from math import prod

import lego_mlir as lego
from lego_mlir.layout import Col, GroupBy, Layout, OrderBy, Padded, RegP, Row, Strided, TileBy, TileOrderBy, gallery
from lego_mlir.layout.permutations import GenP
from lego_mlir.schedule.orders import columns, grouped

LARGEST = 240  # elements


def random_layout(number: int) -> Layout:
    """The layout of a seed; sizes are ints."""
    draw = random.Random(number)
    n = draw.randint(2, LARGEST)
    kind = draw.choice(
        ["chain", "chain", "chain", "chain", "tiles", "tile order", "padded", "partial", "strided", "one"]
    )
    if kind == "tiles":
        rank, levels = draw.randint(1, 2), draw.randint(2, 3)
        return TileBy(*([draw.randint(1, 4) for _ in range(rank)] for _ in range(levels)))
    if kind == "tile order":
        rank = draw.randint(1, 2)
        perms = [draw.choice([Row, Col])(*(draw.randint(1, 5) for _ in range(rank))) for _ in range(2)]
        count = prod(prod(map(int, perm.dims())) for perm in perms)
        return TileOrderBy(*perms).GroupBy(_sizes(draw, count))
    if kind == "strided":
        rows, row = draw.randint(1, 12), draw.randint(1, 12)
        return Strided([rows, row], draw.choice([[row + draw.randint(0, 3), 1], [1, rows + draw.randint(0, 3)]]))
    if kind == "one":
        return lego.as_layout(_permutation(draw, n))
    view = GroupBy(_sizes(draw, n), orders=tuple(_order(draw, n) for _ in range(draw.choice([1, 1, 2, 3]))))
    if kind == "padded":
        return Padded(view, [draw.randint(1, int(size)) for size in view.dims()])
    if kind == "partial":
        inner = [draw.randint(1, int(size)) for size in view.dims()]
        return view.tile_by([-(-int(n) // t) for n, t in zip(view.dims(), inner, strict=True)], inner)
    return view


def _sizes(draw: random.Random, n: int, most: int = 4) -> list[int]:
    """Sizes that multiply to n."""
    sizes, rest = [], n
    for _ in range(draw.randint(0, most - 1)):
        sizes.append(draw.choice([d for d in range(1, rest + 1) if rest % d == 0]))
        rest //= sizes[-1]
    return [*sizes, rest]


def _order(draw: random.Random, n: int) -> OrderBy:
    return OrderBy(*(_permutation(draw, size) for size in _sizes(draw, n, 3)))


def _permutation(draw: random.Random, n: int) -> RegP | GenP:
    """A permutation of n elements: mostly regular."""
    if draw.random() < 0.6:
        sizes = _sizes(draw, n)
        return RegP(sizes, draw.sample(range(1, len(sizes) + 1), len(sizes)))
    choices = [lambda: gallery.reverse(*_sizes(draw, n)), lambda: _swizzle(draw, n), lambda: _cyclic(draw, n)]
    if n <= 32:
        choices.append(lambda: gallery.table(_sizes(draw, n), draw.sample(range(n), n)))
    root = round(n**0.5)
    if root * root == n:
        choices.append(lambda: gallery.antidiagonal(root))
        if n & (n - 1) == 0:
            choices.append(lambda: gallery.hilbert(root))
    if n & (n - 1) == 0:
        rows = 1 << draw.randrange(n.bit_length())
        choices.append(lambda: gallery.morton(rows, n // rows))
    rows = draw.choice([d for d in range(1, n + 1) if n % d == 0])
    part = draw.randint(2, 5)
    for make, size in (
        (lambda: grouped(rows, n // rows, rows=part), rows),
        (lambda: columns(rows, n // rows, width=part), n // rows),
    ):
        if size % part:
            choices.append(make)
    return draw.choice(choices)()


def _swizzle(draw: random.Random, n: int) -> GenP:
    width = draw.choice([d for d in range(1, n + 1) if n % d == 0])
    vec = draw.choice([d for d in (1, 2, 3, 4) if width % d == 0])
    return gallery.xor_swizzle(n // width, width, vec=vec, per_phase=draw.randint(1, 3))


def _cyclic(draw: random.Random, n: int) -> GenP:
    turn = draw.choice([d for d in range(1, n + 1) if n % d == 0])
    block = draw.choice([d for d in range(1, turn + 1) if turn % d == 0])
    return gallery.block_cyclic(n, block, turn // block)


M, N = lego.size("M", multiple_of=4), lego.size("N", min=2, max=64)
SYMBOLIC: list[tuple[Layout, list[dict[str, int]]]] = [
    (lego.as_layout(layout), values)
    for layout, values in [
        (Row(M, N), [{"M": 4, "N": 2}, {"M": 8, "N": 7}]),
        (Col(M, N), [{"M": 4, "N": 3}]),
        (RegP([M, 3, N], [3, 1, 2]), [{"M": 4, "N": 5}]),
        (
            Row(M, N).tile_by([M // 4, lego.cdiv(N, 8)], [4, 8]),
            [{"M": 8, "N": 2}, {"M": 4, "N": 16}, {"M": 4, "N": 13}],
        ),
        (OrderBy(Col(M // 4, 3), Row(4, N)).GroupBy([3 * M, N]), [{"M": 4, "N": 5}, {"M": 8, "N": 2}]),
        (TileBy([M // 4, N], [4, 3]), [{"M": 8, "N": 3}]),
        (gallery.antidiagonal(N), [{"N": 2}, {"N": 7}, {"N": 12}]),
        (gallery.reverse(M, N), [{"M": 4, "N": 3}]),
        (gallery.xor_swizzle(M, 16, vec=2), [{"M": 4}, {"M": 12}]),
        (gallery.block_cyclic(M, 2, 2), [{"M": 4}, {"M": 32}]),
        (Padded(Row(M, N + 1), [M, N]), [{"M": 4, "N": 7}]),
        (grouped(M, N, rows=3), [{"M": 8, "N": 5}, {"M": 4, "N": 2}]),
        (columns(M, N, width=5), [{"M": 4, "N": 7}, {"M": 4, "N": 4}]),
        (Strided([M, 5], [7, 1]), [{"M": 8}]),
    ]
]
"""Layouts of symbolic sizes, with values for them."""
