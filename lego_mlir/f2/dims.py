"""Labelled dimensions of power-of-two sizes, and their flattening to one number.

Dimensions are (name, bits), lowest first: of a flat value the first dimension holds the low bits.

>>> dims = (("col", 2), ("row", 3))
>>> join((1, 5), dims), split(21, dims)
(21, (1, 5))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from lego_mlir.errors import LayoutError
from lego_mlir.layout.canonical import require_bits

Dims: TypeAlias = tuple[tuple[str, int], ...]
"""Labelled dimensions as (name, number of bits), lowest first."""


def split(value: int, dims: Dims) -> tuple[int, ...]:
    """The coordinates of a flat value, the first dimension in the low bits."""
    coordinates = []
    for _, bits in dims:
        coordinates.append(value & ((1 << bits) - 1))
        value >>= bits
    return tuple(coordinates)


def join(coordinates: Sequence[int], dims: Dims) -> int:
    """The flat value of coordinates; the inverse of `split`."""
    flat = start = 0
    for value, (_, bits) in zip(coordinates, dims, strict=True):
        flat += value << start
        start += bits
    return flat


def offsets(dims: Dims) -> list[int]:
    """The first bit of each dimension."""
    starts, at = [], 0
    for _, bits in dims:
        starts.append(at)
        at += bits
    return starts


def summed(a: Dims, b: Dims) -> Dims:
    """Dimensions of a product: the bits of each name add up; names of `a` first."""
    bits = dict(a)
    for name, n in b:
        bits[name] = bits.get(name, 0) + n
    return tuple(bits.items())


def name_of(name: object, what: str) -> str:
    """A dimension's name. Raises LayoutError for anything but a non-empty string."""
    if not isinstance(name, str) or not name:
        raise LayoutError(f"LinearLayout: an {what} is named by a string, got {name!r}")
    return name


def log2(value: int) -> int:
    """The exponent of a power of two."""
    return value.bit_length() - 1


def bits_of_size(name: str, size: object) -> int:
    """The number of bits of a size. Raises LayoutError unless it is a power of two."""
    require_bits(f"LinearLayout: the size of {name}", size)
    if type(size) is not int or size < 1 or size & (size - 1):
        raise LayoutError(f"LinearLayout: the size of {name} must be a power of two, got {size!r}")
    return log2(size)


def reordered(what: str, dims: Dims, names: Sequence[str]) -> Dims:
    """Dimensions in the order of their names. Raises LayoutError unless each is named once."""
    if sorted(names) != sorted(name for name, _ in dims):
        raise LayoutError(
            f"LinearLayout: the {what} are {[name for name, _ in dims]}, each to be named once; got {names}"
        )
    return tuple((name, dict(dims)[name]) for name in names)


def resized(what: str, dims: Dims, sizes: Mapping[str, int]) -> Dims:
    """New dimensions with as many bits. Raises LayoutError for another number."""
    new = tuple((name_of(name, what[:-1]), bits_of_size(name, size)) for name, size in sizes.items())
    if sum(b for _, b in new) != sum(b for _, b in dims):
        raise LayoutError(f"LinearLayout: cannot reshape the {what} { {n: 1 << b for n, b in dims} } to {dict(sizes)}")
    return new
