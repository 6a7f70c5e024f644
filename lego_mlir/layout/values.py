"""Conversion of the arguments of a layout: coerce and validate indices, restore the caller's kind of value.

>>> import sympy
>>> i = sympy.Symbol("i", integer=True)
>>> (value,) = coerce_indices((i,), 4)
>>> value, restore_kind(value * 2, (i,))
(i, 2*i)
"""

from __future__ import annotations

from collections.abc import Sequence

from lego_mlir.aliases import Array, Expr, IndexLike, IntArray, Symbol
from lego_mlir.errors import LayoutError, LayoutIndexError
from lego_mlir.expr.index import Condition, Index, is_array, is_masked, is_symbolic
from lego_mlir.layout.canonical import Size, require_bits

ARRAY_LIMIT = 2**63
"""Positions that an int64 array can represent; NumPy wraps around silently beyond."""


def show(values: Sequence[object]) -> str:
    """A tuple as a list in messages and reprs: `[4, 6]`."""
    return f"[{', '.join(map(repr, values))}]"


def flat_index(index: Sequence[IndexLike | Sequence[IndexLike]]) -> tuple[IndexLike, ...]:
    """Flatten an index given as nested lists, one list per level."""
    flat: list[IndexLike] = []
    for i in index:
        flat.extend(flat_index(i) if isinstance(i, (list, tuple)) else (i,))
    return tuple(flat)


def coerce_index(value: IndexLike) -> IndexLike:
    """One coordinate as an int, an int64 array or an `Index`. Raises LayoutError for any other value."""
    if isinstance(value, Index):
        return int(value) if value.is_number else value
    if is_array(value):
        return _coerce_array(value)
    if isinstance(value, Condition) or is_symbolic(value):
        return Index(value)
    try:
        found = int(value.__index__())
    except (AttributeError, TypeError):
        raise LayoutError(
            f"an index is an int, a NumPy integer array, a lego index or a SymPy expression, got {value!r} "
            f"of type {type(value).__name__}"
        ) from None
    require_bits("an index", found)
    return found


def _coerce_array(value: Array) -> int | IntArray:
    """An index array as int64, without a subclass of other arithmetic; an array of no dimensions as an int."""
    import numpy as np

    if value.dtype.kind not in "iu":
        raise LayoutError(f"an index array must have an integer dtype, got {value.dtype}; convert it with .astype")
    if is_masked(value):
        raise LayoutError("an index array must not be masked; pass array.filled(index), or array.compressed()")
    if not value.ndim:
        return int(value)
    if value.dtype.kind == "u" and value.dtype.itemsize == 8 and value.size and int(value.max()) >= ARRAY_LIMIT:
        raise LayoutError(f"an index array holds {int(value.max())}, beyond int64; use Python's ints, one at a time")
    if isinstance(value, np.matrix):  # its * is the product of matrices
        value = np.asarray(value)
    return value.astype("int64", copy=False)


def coerce_indices(given: Sequence[IndexLike], elements: Size) -> tuple[IndexLike, ...]:
    """The coordinates of one index of a layout with `elements` positions; they must agree in kind and shape."""
    values = tuple(map(coerce_index, given))
    arrays = [v for v in values if is_array(v)]
    if not arrays:
        return values
    if any(map(is_symbolic, values)):
        raise LayoutError(f"an index takes arrays or symbols, not both; got {show(values)}")
    if isinstance(elements, int) and elements > ARRAY_LIMIT:
        raise LayoutError(f"{elements} positions are too many for int64 arrays; use Python's ints, one index at a time")
    import numpy as np

    try:
        np.broadcast_shapes(*(a.shape for a in arrays))
    except ValueError:
        shapes = ", ".join(str(a.shape) for a in arrays)
        raise LayoutError(
            f"the arrays of an index must broadcast against each other, got the shapes {shapes}"
        ) from None
    return values


def restore_kind(value: IndexLike, given: Sequence[IndexLike]) -> IndexLike:
    """A result in the caller's kind: SymPy for SymPy, `Index` for `Index`; ints and arrays are unchanged."""
    if any(is_symbolic(g) and not isinstance(g, (Index, Condition)) for g in given):
        return value.expr if isinstance(value, (Index, Condition)) else Index(value).expr
    if any(isinstance(g, (Index, Condition)) for g in given) and not isinstance(value, Condition):
        return Index(value)
    return value


def check_range(i: IndexLike, n: Size, what: str) -> None:
    """Raise LayoutIndexError, naming `what`, for a concrete index outside 0..n-1; symbols are not checked."""
    if isinstance(i, int):
        if i < 0 or (isinstance(n, int) and i >= n):
            raise LayoutIndexError(f"{what} is {i}, outside 0..{_last(n)}")
    elif is_array(i) and i.size and isinstance(n, int):
        low, high = int(i.min()), int(i.max())
        if low < 0 or high >= n:
            raise LayoutIndexError(f"{what} runs over {low}..{high}, outside 0..{_last(n)}")


def _last(n: Size) -> str:
    return str(n - 1) if isinstance(n, int) else f"{n!r}-1"


def symbol_of(value: Index | Symbol) -> Symbol:
    """The SymPy symbol of a symbol. Raises LayoutError for anything else."""
    expr = value.expr if isinstance(value, Index) else value
    if not getattr(expr, "is_Symbol", False):
        raise LayoutError(f"only a symbol has a range, got {value!r}")
    return expr


def end_of(n: Size) -> Expr:
    """A size as the end of a `Range`: an int or a SymPy expression."""
    return n.expr if isinstance(n, Index) else n


def subexpressions(exprs: Sequence[Expr]) -> set[Expr]:
    """All distinct subexpressions."""
    from lego_mlir.expr.sharing import operands

    found: set[Expr] = set()
    stack = list(exprs)
    while stack:
        expr = stack.pop()
        if expr not in found:
            found.add(expr)
            stack.extend(operands(expr))
    return found
