"""Growth of an encoding from its tile to a tensor's shape.

An encoding describes one tile: which register of which lane of which warp holds which element. A larger tensor repeats
the tile in further registers; of a smaller one the tile holds copies. Blocks of a cluster are units of the whole.

>>> tile = LinearLayout.identity(2, "register", "dim0") * LinearLayout.identity(4, "lane", "dim0")
>>> fitted(tile, (16,), ()).bases
{'register': [(1,), (8,)], 'lane': [(2,), (4,)], 'warp': [], 'block': []}
>>> fitted(tile, (4,), ()).bases
{'register': [(1,)], 'lane': [(2,), (0,)], 'warp': [], 'block': []}
"""

from __future__ import annotations

from collections.abc import Sequence

from lego_mlir.errors import LayoutError, brief
from lego_mlir.f2.boxed import padded
from lego_mlir.f2.linear import LinearLayout
from lego_mlir.f2.shape_ops import standard_dims
from lego_mlir.layout.canonical import require_bits

PLACES = ("register", "lane", "warp", "block")
MEMORY = ("offset", "block")
Blocks = Sequence[Sequence[int]]
"""The bases of a cluster's blocks: one coordinate per dimension, in units of one block's part."""


def require_sizes(encoding: str, **sizes: Sequence[int]) -> None:
    """Raise LayoutError, naming the field, unless all sizes are powers of two."""
    for field, values in sizes.items():
        for value in _entries(encoding, field, values):
            require_bits(f"{encoding}: {field}", value)
            if type(value) is not int or value < 1 or value & (value - 1):
                raise LayoutError(f"{encoding}: {field}={list(values)} must be powers of two{_rounded_up(values)}")


def _rounded_up(values: Sequence[object]) -> str:
    sizes = [n for n in values if type(n) is int and n > 0]
    return f"; the next ones are {[1 << (n - 1).bit_length() for n in sizes]}" if len(sizes) == len(values) else ""


def require_rank(encoding: str, rank: int, **fields: Sequence[object]) -> None:
    """Raise LayoutError, naming the field, unless each has one entry per dimension."""
    for field, values in fields.items():
        if len(_entries(encoding, field, values)) != rank:
            raise LayoutError(f"{encoding}: {field}={list(values)} must have {rank} entries, one for each dimension")


def _entries(encoding: str, field: str, values: Sequence[object]) -> Sequence[object]:
    if not isinstance(values, Sequence) or isinstance(values, str):
        raise LayoutError(f"{encoding}: {field}={brief(repr(values))} must be a tuple of ints")
    return values


def require_shape(encoding: str, shape: Sequence[int], rank: int) -> tuple[int, ...]:
    """A tensor's shape. Raises LayoutError for a rank other than the encoding's or a size not a power of two."""
    require_rank(encoding, rank, shape=shape)
    require_sizes(encoding, shape=shape)
    return tuple(shape)


def require_box(encoding: str, shape: Sequence[int], rank: int) -> tuple[int, ...]:
    """The padded sizes of a tensor's shape. Raises LayoutError for another rank, and for sizes below 1."""
    require_rank(encoding, rank, shape=shape)
    if any(type(n) is not int or n < 1 for n in shape):
        raise LayoutError(f"{encoding}: shape={list(shape)} must be ints from 1 on")
    return padded(shape)


def product_of(*factors: LinearLayout) -> LinearLayout:
    """The product of some layouts, the first in the low bits."""
    result = LinearLayout.empty()
    for factor in factors:
        result = result * factor
    return result


def repeated(layout: LinearLayout, sizes: dict[str, int], place: str) -> LinearLayout:
    """The layout repeated in further values of `place`, until every output has at least its size."""
    for name, have in layout.out_sizes.items():
        if sizes[name] > have:
            layout = layout * LinearLayout.identity(sizes[name] // have, place, name)
    return layout


def truncated(layout: LinearLayout, sizes: dict[str, int]) -> LinearLayout:
    """The layout with its largest bases set to zero, until no output exceeds its size."""
    names = list(layout.out_sizes)
    bases = {name: [list(b) for b in images] for name, images in layout.bases.items()}
    for at, name in enumerate(names):
        have = layout.out_sizes[name]
        reaching = [(b[at], b) for images in bases.values() for b in images if b[at]]
        for _, basis in sorted(reaching, key=lambda pair: -pair[0]):
            if have <= sizes[name]:
                break
            basis[at] = 0
            have //= 2
    return LinearLayout(bases, {name: min(have, sizes[name]) for name, have in layout.out_sizes.items()})


def fitted(tile: LinearLayout, shape: Sequence[int], blocks: Blocks, places: Sequence[str] = PLACES) -> LinearLayout:
    """The layout of a tensor: the tile repeated or truncated to one block's part, times the blocks.

    Inputs come in the order of `places`, outputs as `dim0, dim1, ..`.
    """
    names = standard_dims(len(shape))
    cluster = truncated(cluster_layout(blocks, len(shape)), dict(zip(names, shape, strict=True)))
    part = dict(zip(names, part_of_a_block(shape, blocks), strict=True))
    tile = tile.with_outs((*tile.outs, *((n, 0) for n in names if n not in tile.out_sizes)))
    whole = truncated(repeated(tile, part, places[0]), part) * cluster
    ins = tuple((place, dict(whole.ins).get(place, 0)) for place in places)
    return whole.with_ins(ins).transpose_outs(names)


def cluster_layout(blocks: Blocks, rank: int) -> LinearLayout:
    """The layout of a cluster's blocks, in units of blocks. Raises LayoutError for a basis of another rank."""
    for k, basis in enumerate(blocks):
        if len(basis) != rank:
            raise LayoutError(f"block basis {k} is {list(basis)}; the tensor has {rank} dimensions")
    reach = [max((basis[d] for basis in blocks), default=0) for d in range(rank)]
    sizes = {name: 1 << value.bit_length() for name, value in zip(standard_dims(rank), reach, strict=True)}
    return LinearLayout({"block": [tuple(basis) for basis in blocks]}, sizes)


def part_of_a_block(shape: Sequence[int], blocks: Blocks) -> tuple[int, ...]:
    """The shape of one block's part of a tensor."""
    names = standard_dims(len(shape))
    cluster = truncated(cluster_layout(blocks, len(shape)), dict(zip(names, shape, strict=True)))
    return tuple(n // cluster.out_sizes[name] for name, n in zip(names, shape, strict=True))
