"""The canonical bijection between a multi-dimensional index and its flat position (LEGO, figure 3, equations 1 and 2).

`flatten` is the paper's B: row-major order, `B(i, j) = i*n2 + j`. `unflatten` is its inverse. Everything else in the
algebra permutes; these two only change the number of coordinates. They use only `+ * // %`, so the same code works for
ints, NumPy arrays (elementwise) and symbols.

>>> flatten((4, 2), (6, 6)), unflatten(26, (6, 6))
(26, (4, 2))
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from numbers import Integral
from operator import mul
from typing import TypeAlias

from lego_mlir.aliases import Expr, IndexLike
from lego_mlir.errors import LayoutError
from lego_mlir.expr.index import MOST_BITS, Index, is_array, is_symbolic

Size = int | Index
"""A positive int, or an `Index` over sizes that are known at run time."""
SizeLike: TypeAlias = int | Index | Expr
"""What a constructor accepts as a size: an int, a `lego.size`, or an expression over sizes."""


def flatten(index: Sequence[IndexLike], dims: Sequence[Size]) -> IndexLike:
    """Index -> flat position in row-major order. `index` and `dims` have the same length, at least 1."""
    flat = index[0]
    for i, n in zip(index[1:], dims[1:], strict=True):
        flat = flat * n + i
    return flat


def unflatten(flat: IndexLike, dims: Sequence[Size]) -> tuple[IndexLike, ...]:
    """Flat position -> index. The outermost coordinate is the last quotient and needs no remainder (figure 6)."""
    index: list[IndexLike] = []
    for n in reversed(dims[1:]):
        quotient = flat // n
        # NumPy is fast at dividing by a scalar but not at the remainder; the rewrite rules for symbols match `%`.
        index.append(flat - quotient * n if is_array(flat) else flat % n)
        flat = quotient
    return (flat, *reversed(index))


def product(sizes: Sequence[Size]) -> IndexLike:
    """The number of elements of a box of these sizes; 1 for no sizes."""
    return reduce(mul, sizes, 1)


def as_sizes(owner: str, sizes: Sequence[SizeLike]) -> tuple[Size, ...]:
    """Sizes as ints or `Index`. Raises LayoutError, naming `owner`, for an invalid size."""
    if isinstance(sizes, (str, bytes)) or not isinstance(sizes, Sequence):
        raise LayoutError(f"{owner}: sizes must be a list such as [4, 6], got {sizes!r}")
    if not sizes:
        raise LayoutError(f"{owner}: a tile needs at least one size, got []")
    return tuple(_as_size(owner, n) for n in sizes)


def _as_size(owner: str, n: SizeLike) -> Size:
    if is_symbolic(n):
        n = n if isinstance(n, Index) else Index(n)
        if not n.is_number:
            return n
    try:
        value = int(n.__index__())
    except (AttributeError, TypeError):
        raise LayoutError(
            f"{owner}: a size is an int >= 1 or lego.size(...), got {n!r} of type {type(n).__name__}"
        ) from None
    require_bits(f"{owner}: a size", value)
    if value < 1 or isinstance(n, bool):
        raise LayoutError(f"{owner}: a size is an int >= 1 or lego.size(...), got {n!r}")
    return value


def require_bits(what: str, value: object) -> None:
    """Raise LayoutError, naming `what`, for an int of more bits than are printed."""
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        raise LayoutError(f"{what} has at most {MOST_BITS} bits, got an int of {value.bit_length()}")


def as_count(owner: str, **given: SizeLike) -> int:
    """Validate the one keyword argument as an int >= 1. Raises LayoutError, naming `owner`, otherwise."""
    ((name, value),) = given.items()
    counted = isinstance(value, Integral) and not isinstance(value, bool)
    if not counted or value < 1:
        raise LayoutError(f"{owner}: {name}={value!r} must be an int >= 1")
    return int(value)


def is_static(sizes: Sequence[Size]) -> bool:
    """Whether all sizes are concrete."""
    return all(isinstance(n, int) for n in sizes)
