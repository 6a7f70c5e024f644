"""Sizes replaced by values: `L.subs(M=64)` is the layout at M = 64, or at another size.

Every part is rebuilt with its sizes replaced. A permutation of the gallery is rebuilt by its constructor. The functions
of any other `GenP` may capture a size, which cannot be replaced in a closure, so their expressions are derived once and
evaluated at the values.

>>> from lego_mlir import Row, gallery, size
>>> M, N = size("M"), size("N", multiple_of=4)
>>> Row(M, N).tile_by([M, N // 4], [1, 4]).subs(N=12)
Row(M, 12).tile_by([M, 3], [1, 4])
>>> gallery.antidiagonal(M).subs(M=3)
gallery.antidiagonal(3)
>>> Row(M, N).subs(N=6)
Traceback (most recent call last):
    ...
lego_mlir.errors.LayoutError: subs: N = 6 must be at least 1, a multiple of 4
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

from lego_mlir.aliases import Expr, IndexLike, Symbol
from lego_mlir.errors import LayoutError, did_you_mean
from lego_mlir.expr.index import Index, as_expr, index_symbol, is_array, is_symbolic
from lego_mlir.expr.nodes import Size as SizeSymbol
from lego_mlir.expr.related import at, refusal, with_related
from lego_mlir.layout.base import Layout
from lego_mlir.layout.canonical import Size, SizeLike
from lego_mlir.layout.chain import GroupBy, OrderBy
from lego_mlir.layout.padded import Padded
from lego_mlir.layout.permutations import GenP, RegP
from lego_mlir.layout.strided import Strided
from lego_mlir.layout.tiled import Tiled
from lego_mlir.layout.transposed import Transposed
from lego_mlir.layout.values import subexpressions

Replacement: TypeAlias = Mapping[Symbol, Expr]
"""Size symbols and the expressions that replace them."""


def sizes_of(layout: Layout) -> dict[str, SizeSymbol]:
    """The symbolic sizes of a layout, in its dimensions or its functions, by name in alphabetical order."""
    index = [index_symbol(f"i[{axis}]") for axis in range(len(layout.dims()))]
    used = [*layout.dims(), layout.physical_size()]
    with suppress(LayoutError):  # a function that cannot handle symbols has no symbolic sizes in its result
        used.append(layout.apply(*index))
    symbols = {s for s in subexpressions([as_expr(n) for n in used]) if isinstance(s, SizeSymbol)}
    return {str(s): s for s in sorted(with_related(symbols), key=str)}


def substitute(layout: Layout, values: Mapping[str, SizeLike]) -> Layout:
    """The layout with sizes replaced by ints or by other sizes. Raises LayoutError for an unknown name, and for
    a value that the size may not have."""
    sizes = sizes_of(layout)
    replaced = {}
    for name, value in values.items():
        if name not in sizes:
            known = ", ".join(sizes) or "none"
            raise LayoutError(f"subs: {layout!r} has no size {name!r}{did_you_mean(name, sizes)}; its sizes: {known}")
        replaced[sizes[name]] = as_expr(_validated(sizes[name], value))
    if failed := refusal(sizes.values(), {name: n for name, n in values.items() if isinstance(n, int)}):
        raise LayoutError(f"subs: {failed}")
    for size in sizes.values():
        if size not in replaced and at(size, replaced) is not size:
            replaced[size] = at(size, replaced)
    return _rebuilt(layout, replaced) if replaced else layout


def _validated(size: SizeSymbol, value: SizeLike) -> SizeLike:
    if isinstance(value, Index) and value.expr.is_Integer:
        value = int(value.expr)
    if not isinstance(value, int):
        return value
    if value < size.min or (size.max is not None and value > size.max) or value % size.multiple_of:
        most = "" if size.max is None else f", at most {size.max}"
        raise LayoutError(f"subs: {size} = {value} must be at least {size.min}{most}, a multiple of {size.multiple_of}")
    return value


def _size(n: Size, values: Replacement) -> Size:
    if isinstance(n, int):
        return n
    found = Index(n.expr.xreplace(dict(values)))
    return int(found.expr) if found.expr.is_Integer else found


def _sizes(sizes: Sequence[Size], values: Replacement) -> list[Size]:
    return [_size(n, values) for n in sizes]


def _rebuilt(layout: Any, values: Replacement) -> Any:
    match layout:
        case RegP():
            return RegP(_sizes(layout.dims(), values), layout.sigma)
        case OrderBy():
            return OrderBy(*(_rebuilt(perm, values) for perm in layout.perms))
        case GroupBy():
            levels = [_sizes(level, values) for level in layout.levels]
            return GroupBy(*levels, orders=tuple(_rebuilt(order, values) for order in layout.orders))
        case Padded():
            return Padded(_rebuilt(layout.inner, values), _sizes(layout.dims(), values))
        case Tiled():
            return Tiled(_rebuilt(layout.inner, values), [_sizes(level, values) for level in layout.levels])
        case Transposed():
            return Transposed(_rebuilt(layout.inner, values))
        case Strided():
            return Strided(_sizes(layout.dims(), values), _sizes(layout.strides(), values), layout.claim)
        case GenP():
            return _remade(layout, values)
    raise LayoutError(f"subs: cannot replace sizes in a {type(layout).__name__}: {layout!r}")


def _remade(perm: GenP, values: Replacement) -> GenP:
    if perm.made is None:
        return _general(perm, values)
    make, arguments = perm.made
    if make is _substituted:  # repeat the earlier substitution together with this one
        inner, given = arguments
        replaced = {name: _argument(value, values) for name, value in given}
        more = {str(symbol): Index(value) for symbol, value in values.items()}
        made = _substituted(inner, tuple({**more, **replaced}.items()))
    else:
        made = make(*(_argument(argument, values) for argument in arguments))
    return made if isinstance(made, GenP) else _general(perm, values)  # a view cannot be a part of an OrderBy


def _argument(value: Any, values: Replacement) -> Any:
    match value:
        case Index():
            return _size(value, values)
        case tuple() | list():
            return type(value)(_argument(part, values) for part in value)
        case Layout():
            return _rebuilt(value, values)
    return value


def _general(perm: GenP, values: Replacement) -> GenP:
    """A permutation whose functions evaluate the expressions of `perm` at these values."""
    index = [index_symbol(f"i[{axis}]") for axis in range(len(perm.dims()))]
    position = index_symbol("p[]")
    forward = as_expr(perm.forward(tuple(index))).xreplace(dict(values))
    backward = [as_expr(i).xreplace(dict(values)) for i in perm.backward(position)]
    given = ", ".join(f"{symbol}={value}" for symbol, value in values.items())
    return GenP(
        _sizes(perm.dims(), values),
        lambda *at: _evaluated(forward, index, at),
        lambda p: tuple(_evaluated(expr, [position], (p,)) for expr in backward),
        text=f"{perm!r}.subs({given})",
        identity=("subs", perm, tuple(values.items())),
        made=(_substituted, (perm, tuple((str(symbol), Index(value)) for symbol, value in values.items()))),
    )


def _substituted(perm: GenP, given: Sequence[tuple[str, SizeLike]]) -> Layout:
    """The constructor of a permutation with replaced sizes, for pickling."""
    return substitute(perm, dict(given))


def _evaluated(expr: Expr, symbols: Sequence[Index], values: Sequence[IndexLike]) -> IndexLike:
    if any(map(is_symbolic, values)):
        return Index(expr.xreplace({s.expr: as_expr(v) for s, v in zip(symbols, values, strict=True)}))
    from lego_mlir.expr.evaluate import evaluate

    found = evaluate(expr, {s.expr: v for s, v in zip(symbols, values, strict=True)})
    return found if any(map(is_array, values)) or is_symbolic(found) else int(found)
