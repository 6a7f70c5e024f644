"""The text of a layout inside MLIR: the attribute `#lego.layout<...>`.

The text is the layout's repr with three changes that MLIR requires: a blank joins the parts of a chain where Python has
a dot, sizes are affine expressions (`floordiv`, `mod`), and symbolic sizes are declared in front, with their facts:

    OrderBy(Col(2, 2), gallery.antidiagonal(3)) OrderBy(RegP([2, 3, 2, 3], [1, 3, 2, 4])) GroupBy([6, 6])
    [M multiple_of 32, N]: Row(M, N) tile_by([M floordiv 32, (N + 31) floordiv 32], [32, 32])

A `GenP` made of the user's functions is a symbol, `GenP([4, 4], @zigzag)`, which the module defines by a pair of
functions. `notation_parser.py` reads the text; the grammar is in docs/reference/dialect.md.

>>> from lego_mlir import Row, gallery, size
>>> to_attribute(gallery.xor_swizzle(32, 64, vec=8))
'#lego.layout<gallery.xor_swizzle(32, 64, vec=8)>'
>>> M = size("M", multiple_of=32)
>>> to_attribute(Row(M, 64).tile_by([M // 32, 2], [32, 32]))
'#lego.layout<[M multiple_of 32]: Row(M, 64) tile_by([M floordiv 32, 2], [32, 32])>'
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from lego_mlir.aliases import Expr
from lego_mlir.errors import LayoutError
from lego_mlir.expr.index import Index
from lego_mlir.layout import gallery
from lego_mlir.layout.base import Layout
from lego_mlir.layout.canonical import Size
from lego_mlir.layout.chain import GroupBy, OrderBy, TileBy
from lego_mlir.layout.gallery import table, xor_swizzle
from lego_mlir.layout.padded import Padded
from lego_mlir.layout.permutations import GenP, RegP
from lego_mlir.layout.strided import Strided
from lego_mlir.layout.tiled import Tiled
from lego_mlir.schedule.orders import columns, grouped

if TYPE_CHECKING:
    from lego_mlir.expr.nodes import Size as SizeSymbol

_GRIDS: Final[dict[str, Callable[..., Layout]]] = {"grids.grouped": grouped, "grids.columns": columns}
_WRITTEN_AS_OTHERS: Final = ("padded", "tabulated")  # Padded(Row(..), ..) and gallery.table(..)
GALLERY: Final[dict[str, Callable[..., Layout]]] = _GRIDS | {
    f"gallery.{name}": getattr(gallery, name) for name in gallery.__all__ if name not in _WRITTEN_AS_OTHERS
}
"""The named permutations."""
_NAMES: Final = {make: name for name, make in GALLERY.items()}
KEYWORDS: Final = ("floordiv", "ceildiv", "mod", "min", "max", "multiple_of")
"""Words of the notation, which cannot name a size."""
_SWIZZLE_OPTIONS: Final = (("vec", 1), ("per_phase", 1), ("max_phase", None))


def to_attribute(layout: Layout, symbols: Mapping[GenP, str] | None = None) -> str:
    """The text `#lego.layout<...>` of a layout.

    `symbols` names each `GenP` that has functions instead of a name in the gallery. Raises LayoutError for such a
    permutation without a name, for a layout outside the algebra (a transposed partial tiling, a linear layout), and for
    a size that is not an affine expression of `lego.size`s.
    """
    body = _Writer(symbols or {}).layout(layout)
    declared = ", ".join(_declaration(size) for size in sizes_in_order(layout))
    return f"#lego.layout<[{declared}]: {body}>" if declared else f"#lego.layout<{body}>"


def sizes_in_order(layout: Layout) -> list[SizeSymbol]:
    """The size symbols of a layout's text in the order of their declarations, that of their names."""
    found = {symbol for n in _sizes_of(layout) if isinstance(n, Index) for symbol in n.expr.free_symbols}
    return sorted(found, key=str)


def functions_of(layout: Layout) -> Iterator[GenP]:
    """The permutations of a layout that need a symbol, in the order of the text."""
    for perm in _permutations(layout):
        if isinstance(perm, GenP) and _made(perm) is None:
            yield perm


def _permutations(layout: Layout) -> Iterator[RegP | GenP]:
    match layout:
        case RegP() | GenP():
            yield layout
        case OrderBy():
            yield from layout.perms
        case GroupBy():
            for order in layout.orders:
                yield from order.perms
        case Padded() | Tiled():
            yield from _permutations(layout.inner)


def _sizes_of(layout: Layout) -> Iterator[Size]:
    """All sizes that the text of a layout contains."""
    yield from layout.dims()
    if isinstance(layout, Strided):
        yield from layout.strides()
    for perm in _permutations(layout):
        yield from perm.dims()
    inner = getattr(layout, "inner", None)
    if isinstance(inner, Layout):
        yield from _sizes_of(inner)


def _made(perm: GenP) -> str | None:
    """The text of a named permutation; None for one that needs a symbol."""
    if perm.made is None:
        return None
    make: Any
    make, arguments = perm.made
    options: dict[str, Any] = {}
    if isinstance(make, partial):
        make, options = make.func, make.keywords
    name = _NAMES.get(make)
    if name is None or (make is table and arguments[3]):  # the entries are known at run time
        return None
    if make is table:
        sizes, entries, label, _ = arguments
        named = f', name="{label}"' if label else ""
        return f"{name}({_sizes(sizes)}, {entries.tolist()}{named})"
    if make is xor_swizzle:
        given = zip(_SWIZZLE_OPTIONS, arguments[2:], strict=True)
        arguments, options = arguments[:2], {option: value for (option, default), value in given if value != default}
    return f"{name}({', '.join([*map(size_text, arguments), *(f'{option}={n}' for option, n in options.items())])})"


class _Writer:
    """Writes the parts of a layout."""

    def __init__(self, symbols: Mapping[GenP, str]) -> None:
        self.symbols = symbols

    def layout(self, layout: Layout) -> str:
        match layout:
            case RegP() | GenP():
                return self.permutation(layout)
            case OrderBy():
                return self.order(layout)
            case GroupBy():
                return self.view(layout)
            case Padded():
                return f"Padded({self.layout(layout.inner)}, {_sizes(layout.dims())})"
            case Strided():
                return f"Strided({_sizes(layout.dims())}, {_sizes(layout.strides())})"
            case Tiled():
                return f"{self.layout(layout.inner)} tile_by({', '.join(map(_sizes, layout.levels))})"
        raise LayoutError(
            f"{layout!r} has no text as #lego.layout: that has RegP, GenP, OrderBy, GroupBy, TileBy, tile_by, Padded, "
            f"Strided and the gallery, not {type(layout).__name__}"
        )

    def view(self, view: GroupBy) -> str:
        """The text of a view: as short as its repr."""
        perm = view._permutation()
        if perm is not None:
            return self.permutation(perm)
        levels, orders, word = ", ".join(map(_sizes, view.levels)), view.orders, "GroupBy"
        tiled = len(view.levels) > 1 and len({len(level) for level in view.levels}) == 1
        if tiled and orders and orders[-1] == TileBy(*view.levels).orders[0]:
            word, orders = "TileBy", orders[:-1]
        return " ".join([*map(self.order, orders), f"{word}({levels})"])

    def order(self, order: OrderBy) -> str:
        return f"OrderBy({', '.join(map(self.permutation, order.perms))})"

    def permutation(self, perm: RegP | GenP) -> str:
        if isinstance(perm, GenP):
            return self.general(perm)
        rank = len(perm.sigma)
        for word, sigma in (("Row", range(1, rank + 1)), ("Col", range(rank, 0, -1))):
            if perm.sigma == tuple(sigma):
                return f"{word}({', '.join(map(size_text, perm.dims()))})"
        return f"RegP({_sizes(perm.dims())}, {list(perm.sigma)})"

    def general(self, perm: GenP) -> str:
        named = _made(perm)
        if named is not None:
            return named
        if perm not in self.symbols:
            raise LayoutError(
                f"{perm!r} is defined by functions, which a text cannot contain; name it, with "
                "symbols={perm: 'name'}, and define @name in the module"
            )
        return f"GenP({_sizes(perm.dims())}, @{self.symbols[perm]})"


def _declaration(size: SizeSymbol) -> str:
    """A size with its facts: `M min 32 max 4096 multiple_of 32`.

    A relation to other sizes is not part of the text; nor is a size of 0, as an empty layout has no index.
    """
    if str(size) in KEYWORDS:
        raise LayoutError(f"the size {size} has the name of an operator of #lego.layout; rename it")
    facts = [("min", max(size.min, 1), 1), ("max", size.max, None), ("multiple_of", size.multiple_of, 1)]
    return " ".join([str(size), *(f"{fact} {value}" for fact, value, default in facts if value != default)])


def _sizes(sizes: Sequence[Size]) -> str:
    return f"[{', '.join(map(size_text, sizes))}]"


def size_text(n: Size) -> str:
    """A size as an affine expression: `M floordiv 32`."""
    return str(n) if isinstance(n, int) else _sum(n.expr)


_INFIX: Final = {"FloorDiv": "floordiv", "FloorMod": "mod"}


def _sum(expr: Expr) -> str:
    """A sum, its constant last."""
    if not expr.is_Add:
        return _product(expr)
    text = ""
    for term in sorted(expr.args, key=lambda t: (t.is_Integer, _is_negative(t))):
        if _is_negative(term) and text:
            text += f" - {_product(-term)}"
        else:
            text += f"{' + ' if text else ''}{_product(term)}"
    return text


def _is_negative(term: Expr) -> bool:
    factor = term if term.is_Integer else term.args[0] if term.is_Mul else None
    return factor is not None and bool(factor.is_Integer) and int(factor) < 0


def _product(expr: Expr) -> str:
    """A product, its constant last, or a division."""
    if expr.is_Mul:
        return " * ".join(map(_factor, sorted(expr.args, key=lambda f: bool(f.is_Integer))))
    if expr.is_Pow and expr.args[1].is_Integer and 1 <= int(expr.args[1]) <= 8:
        return " * ".join([_factor(expr.args[0])] * int(expr.args[1]))
    name = _INFIX.get(type(expr).__name__)
    if name is not None:
        return f"{_factor(expr.args[0])} {name} {_factor(expr.args[1])}"
    return _factor(expr)


def _factor(expr: Expr) -> str:
    if expr.is_Symbol:
        return str(expr)
    if expr.is_Integer:
        return str(int(expr))
    if expr.is_Add or expr.is_Mul or expr.is_Pow or type(expr).__name__ in _INFIX:
        return f"({_sum(expr)})"
    raise LayoutError(
        f"the size {Index(expr)!r} is not an affine expression (+ * // %), as #lego.layout needs; declare a size for "
        "it, lego.size(.., equals=..)"
    )
