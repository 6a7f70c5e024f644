"""The door of a layout: what may come in as an index, and in which kind the result goes out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lego_mlir.errors import LayoutError, LayoutIndexError
from lego_mlir.expr.index import Condition, Index, is_array, is_symbolic
from lego_mlir.layout.canonical import Size

ARRAY_LIMIT = 2**63
"""Positions that int64 arrays can tell apart; NumPy does not say when a larger one wraps around."""


def show(values: Sequence[Any]) -> str:
    """A tuple as a list in messages and reprs: `[4, 6]`."""
    return f"[{', '.join(map(repr, values))}]"


def flat_index(index: Sequence[Any]) -> tuple[Any, ...]:
    """An index given as nested lists, one list a level, as one tuple."""
    flat: list[Any] = []
    for i in index:
        flat.extend(flat_index(i) if isinstance(i, (list, tuple)) else (i,))
    return tuple(flat)


def enter(value: Any) -> Any:
    """An index as the algebra computes with it: an int, an int64 array, or an `Index`."""
    if isinstance(value, Index):
        return int(value.expr) if value.expr.is_Integer else value
    if is_array(value):
        if value.dtype.kind not in "iu":
            raise LayoutError(f"an index array must have an integer dtype, got {value.dtype}; convert it with .astype")
        return value.astype("int64", copy=False)
    if isinstance(value, Condition) or is_symbolic(value):
        return Index(value)
    try:
        return int(value.__index__())
    except (AttributeError, TypeError):
        raise LayoutError(
            f"an index is an int, a NumPy integer array, a lego index or a SymPy expression, got {value!r} "
            f"of type {type(value).__name__}"
        ) from None


def enter_all(given: Sequence[Any], elements: Size) -> tuple[Any, ...]:
    """The coordinates of one index of a layout of so many positions, which must agree in kind and shape."""
    values = tuple(map(enter, given))
    arrays = [v for v in values if is_array(v)]
    if not arrays:
        return values
    if any(map(is_symbolic, values)):
        raise LayoutError(f"an index is of arrays or of symbols, not of both, got {show(values)}")
    if isinstance(elements, int) and elements > ARRAY_LIMIT:
        raise LayoutError(
            f"{elements} positions are too many for int64 arrays; give Python's ints, one index at a time"
        )
    import numpy as np

    try:
        np.broadcast_shapes(*(a.shape for a in arrays))
    except ValueError:
        shapes = ", ".join(str(a.shape) for a in arrays)
        raise LayoutError(
            f"the arrays of an index must broadcast against each other, got the shapes {shapes}"
        ) from None
    return values


def leave(value: Any, given: Sequence[Any]) -> Any:
    """A result in the caller's kind: SymPy for SymPy, `Index` for `Index`, ints and arrays as they are."""
    if any(is_symbolic(g) and not isinstance(g, (Index, Condition)) for g in given):
        return value.expr if isinstance(value, (Index, Condition)) else Index(value).expr
    if any(isinstance(g, (Index, Condition)) for g in given) and not isinstance(value, Condition):
        return Index(value)
    return value


def check_range(i: Any, n: Size, what: str) -> None:
    """Raise LayoutIndexError, naming `what`, for a concrete index outside 0..n-1; symbols pass."""
    if isinstance(i, int):
        if i < 0 or (isinstance(n, int) and i >= n):
            raise LayoutIndexError(f"{what} is {i}, outside 0..{_last(n)}")
    elif is_array(i) and i.size and isinstance(n, int):
        low, high = int(i.min()), int(i.max())
        if low < 0 or high >= n:
            raise LayoutIndexError(f"{what} runs over {low}..{high}, outside 0..{_last(n)}")


def _last(n: Size) -> str:
    return str(n - 1) if isinstance(n, int) else f"{n!r}-1"


def symbol_of(value: Any) -> Any:
    """The SymPy symbol of a symbol. Raises LayoutError for anything else."""
    expr = value.expr if isinstance(value, Index) else value
    if not getattr(expr, "is_Symbol", False):
        raise LayoutError(f"a range belongs to a symbol, got {value!r}")
    return expr


def end_of(n: Size) -> Any:
    """A size as the end of a `Range`: an int or a SymPy expression."""
    return n.expr if isinstance(n, Index) else n


def subexpressions(exprs: Sequence[Any]) -> set[Any]:
    """Every subexpression, each visited once."""
    from lego_mlir.expr.sharing import operands

    found: set[Any] = set()
    stack = list(exprs)
    while stack:
        expr = stack.pop()
        if expr not in found:
            found.add(expr)
            stack.extend(operands(expr))
    return found
