"""Columns of a width known at run time without a division: the reciprocals are arguments (listing 9, carried further).

The map divides by the elements of a column and by its width. Both are the same for all tasks, so a launch computes for
each divisor d a multiplier m and a shift s with n // d == n * m >> s for every task n below 2**31, and passes both as
one size, m + 2**32 * s. The last column, which may be narrower, has a reciprocal as well. docs/reference/schedules.md
has the machine instructions.

>>> from lego_mlir.expr.sizes import size
>>> order = prepared_columns(size("H"), size("W"), width=size("w"))
>>> values = arguments(order, H=5, W=13, w=4)
>>> values["column_last"], values["column_size"], values["column_size_reciprocal"] == 3435973837 + (36 << 32)
(3, 20, True)
"""

from __future__ import annotations

from lego_mlir.aliases import IndexLike
from lego_mlir.errors import LayoutError
from lego_mlir.expr.evaluate import evaluate
from lego_mlir.expr.index import Index, as_expr, index_symbol, where
from lego_mlir.expr.nodes import Divisor
from lego_mlir.expr.nodes import Size as SizeSymbol
from lego_mlir.expr.reciprocal import packed_reciprocal
from lego_mlir.expr.related import in_order, with_related
from lego_mlir.expr.verdict import Verdict
from lego_mlir.layout.base import Layout
from lego_mlir.layout.canonical import Size, SizeLike, as_sizes, is_static
from lego_mlir.layout.permutations import GenP
from lego_mlir.schedule.orders import columns


class PreparedColumns(GenP):
    """`columns` whose divisors are `Divisor`s; for concrete sizes it is `columns`."""

    __slots__ = ("order",)
    order: GenP

    def __init__(self, dims: tuple[Size, ...], width: Size, name: str) -> None:
        height, wide = dims
        order = columns(height, wide, width=width)
        last = _derived(f"{name}_last", (wide - 1) // width)
        in_column = _derived(f"{name}_size", height * width, divides=True)
        usual = _derived(f"{name}_width", width + 0, divides=True)
        final = _derived(f"{name}_last_width", wide - width * ((wide - 1) // width), divides=True)
        self._set(order=order)

        def task(p: IndexLike) -> tuple[IndexLike, IndexLike]:
            c, r = p // in_column, p % in_column
            y = where(c < last, r // usual, r // final)
            return y, c * width + r - y * where(c < last, usual, final)

        super().__init__(
            dims,
            lambda y, x: order._apply((y, x)),
            task,
            text=f"schedule.prepared_columns({height}, {wide}, width={width}, name={name!r})",
            made=(_made, (dims, width, name)),
        )

    def check(self) -> Verdict:
        """That of `columns`: the two are the same map, by the values of the sizes that a launch checks."""
        return self.order.check()


def prepared_columns(height: SizeLike, wide: SizeLike, *, width: SizeLike, name: str = "column") -> GenP:
    """Columns of `width` of a height x wide box, as `columns`, with the reciprocals of its divisors as sizes.

    The additional sizes of a kernel start with `name`; `arguments` computes them for a launch, which checks them.
    With three ints it is `columns`.
    """
    dims, (column,) = as_sizes("schedule.prepared_columns", (height, wide)), as_sizes("schedule", [width])
    return _made(dims, column, name)


def _made(dims: tuple[Size, ...], width: Size, name: str) -> GenP:
    if is_static((*dims, width)):
        return columns(*dims, width=width)
    return PreparedColumns(dims, width, name)


def _derived(name: str, value: IndexLike, divides: bool = False) -> Index:
    """A size computed from others."""
    from lego_mlir.expr.intervals import bounds

    expr = as_expr(value)
    known = bounds(expr, {})
    kind = Divisor if divides else SizeSymbol
    return Index(kind(name, max(known.lo or 0, int(divides)), known.hi, equals=expr))


def arguments(order: Layout, **sizes: int) -> dict[str, int]:
    """All sizes of a kernel with a prepared order, from the given ones. Raises LayoutError where one is missing."""
    used = {symbol for i in order.inv(index_symbol("p")) for symbol in as_expr(i).free_symbols}
    found = dict(sizes)
    for symbol in in_order(with_related(sorted((s for s in used if isinstance(s, SizeSymbol)), key=str))):
        if symbol.equals is not None:
            missing = sorted({s.name for s in symbol.equals.free_symbols} - found.keys())
            if missing:
                raise LayoutError(
                    f"schedule.arguments: {symbol} needs the size {missing[0]}; given are {sorted(sizes)}"
                )
            found[symbol.name] = int(evaluate(symbol.equals, found))
        if isinstance(symbol, Divisor):
            found[symbol.reciprocal.name] = packed_reciprocal(found[symbol.name])
    return found
