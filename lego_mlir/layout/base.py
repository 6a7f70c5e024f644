"""What every layout can do: apply, inv, dims, check, slices, and the index expressions of all three.

A layout is a bijection between a logical index space, a box of sizes `dims()`, and physical positions
`0 .. physical_size()-1`. Subclasses give the two maps for values that are already known to be in range
(`_apply`, `_inv`); this class looks after the door: it takes ints, NumPy integer arrays, `Index` and SymPy
expressions, refuses a concrete index out of range, and gives back the kind that came in.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lego_mlir.errors import LayoutError, LayoutIndexError
from lego_mlir.expr.frozen import Frozen
from lego_mlir.expr.index import Index, as_expr, index_symbol
from lego_mlir.expr.ranges import Range
from lego_mlir.expr.verdict import Proved, Refuted, Unknown, Verdict
from lego_mlir.layout.canonical import Size, product
from lego_mlir.layout.counting import Whole
from lego_mlir.layout.values import check_range, end_of, enter_all, flat_index, leave, show, symbol_of

if TYPE_CHECKING:
    from lego_mlir.expr.simplify import Derivation
    from lego_mlir.layout.slices import Slice


class Layout(Frozen):
    """A bijection from logical indices to physical positions. Compared and hashed by value; it does not change."""

    __slots__ = ()

    def dims(self) -> tuple[Size, ...]:
        """The logical sizes, outermost first; the levels of a tiling one after the other."""
        raise NotImplementedError  # every subclass defines it

    def _apply(self, index: tuple[Any, ...]) -> Any:
        """Logical index -> physical position, for values known to be in range."""
        raise NotImplementedError  # every subclass defines it

    def _inv(self, position: Any) -> tuple[Any, ...]:
        """Physical position -> logical index, for values known to be in range."""
        raise NotImplementedError  # every subclass defines it

    def _mask(self, index: tuple[Any, ...]) -> Any:
        """The condition under which an index inside of `dims()` names an element; True where every one does."""
        return True

    def _holds(self, position: Any) -> Any:
        """The condition under which a physical position holds an element; True where every one does."""
        return True

    def _elements(self, axes: Sequence[Whole]) -> Size:
        """The number of elements whose index has an allowed value along each axis."""
        return product([axis.count(n) for axis, n in zip(axes, self.dims(), strict=True)])

    def _past_the_end(self, index: tuple[int, ...]) -> str:
        """What is wrong with an index that names no element."""
        return f"index {show(index)} of {self!r} names no element"

    def _regular(self) -> bool:
        """Whether the maps are arithmetic on axes alone, so that they have a value outside of their range as well."""
        return True

    def _key(self) -> tuple[Any, ...]:
        """What equality and hash compare: the kind of layout, then its parts."""
        raise NotImplementedError  # every subclass defines it

    def numel(self) -> Size:
        """The number of elements: of the logical indices those that `mask` is true for."""
        return product(self.dims())

    def physical_size(self) -> Size:
        """The number of physical positions; more than `numel()` only for a padded layout."""
        return self.numel()

    def _index(self, given: tuple[Any, ...], caller: str) -> tuple[Any, ...]:
        """A logical index as the algebra computes with it. Refuses a wrong number of them and what is out of range."""
        dims = self.dims()
        if len(given) != len(dims):
            raise LayoutError(
                f"{caller} takes {len(dims)} indices for the logical sizes {show(dims)}, got {len(given)}: {given}"
            )
        values = enter_all(given, self.physical_size())
        for axis, (i, n) in enumerate(zip(values, dims, strict=True)):
            check_range(i, n, f"index {axis} of {show(dims)}")
        return values

    def apply(self, *index: Any) -> Any:
        """The physical position of a logical index, one argument a dimension (nested lists of a level are accepted).

        Ints, NumPy integer arrays (elementwise, broadcast), `Index` or SymPy expressions in, the same kind out.
        Raises LayoutIndexError for a concrete index that is out of range or names no element, LayoutError for a wrong
        number of them.
        """
        given = flat_index(index)
        values = self._index(given, "apply")
        if self._mask(values) is False:
            raise LayoutIndexError(self._past_the_end(values))
        return leave(self._apply(values), given)

    def inv(self, position: Any) -> tuple[Any, ...]:
        """The logical index of a physical position; the inverse of `apply`, with the same kinds of values.

        Raises LayoutError for a concrete position that is out of range or padding.
        """
        value = self._position(position)
        if self._holds(value) is False:
            raise LayoutError(f"position {value} of {self!r} is padding: it holds no element")
        return tuple(leave(i, (position,)) for i in self._inv(value))

    def _position(self, position: Any) -> Any:
        (value,) = enter_all((position,), self.physical_size())
        check_range(value, self.physical_size(), "the position")
        return value

    def mask(self, *index: Any) -> Any:
        """Whether an index inside of `dims()` names an element: a bool, an array of bools, or a condition.

        True where every one does, as wherever tiles divide their sizes. A symbol is taken to be inside of its size.
        """
        given = flat_index(index)
        values = self._index(given, "mask")
        self.require()
        mask = self._mask(values)
        return mask if isinstance(mask, bool) else leave(mask, given)

    def holds(self, position: Any) -> Any:
        """Whether a physical position holds an element: a bool, an array of bools or a condition."""
        value = self._position(position)
        held = self._holds(value)
        return held if isinstance(held, bool) else leave(held, (position,))

    def check(self) -> Verdict:
        """Proved, Refuted with a counter-example, or Unknown with its reason.

        Whether the two maps are bijections and each other's inverse: exact for concrete sizes of up to 2**24 elements,
        by proof for symbolic ones.
        """
        raise NotImplementedError  # every subclass defines it

    def require(self) -> None:
        """Raise LayoutError with the counter-example where the layout is refuted; Unknown passes."""
        verdict = self.check()
        if isinstance(verdict, Refuted):
            raise LayoutError(f"{self!r} is not a bijection: {verdict.explanation}")

    def ranges(self, *symbols: Any) -> dict[Any, Range]:
        """The range of each symbol when they are used as this layout's logical index, one symbol a dimension."""
        dims = self.dims()
        if len(symbols) != len(dims):
            raise LayoutError(f"ranges takes one symbol for each of the sizes {show(dims)}, got {len(symbols)}")
        return {symbol_of(s): Range(0, end_of(n)) for s, n in zip(symbols, dims, strict=True)}

    def derive(self, *symbols: Any) -> Derivation:
        """The simplified `apply` of these symbols (fresh `i0, i1, ...` without any), with the trail of its proofs."""
        from lego_mlir.expr.simplify import simplify

        names = symbols or tuple(self._unlike_sizes(f"i{axis}") for axis in range(len(self.dims())))
        return simplify(Index(self.apply(*names)).expr, self.ranges(*names))

    def derive_inv(self, position: Any = None) -> tuple[Derivation, ...]:
        """The simplified `inv` of a symbol (fresh `p` without one), a derivation for each dimension."""
        from lego_mlir.expr.simplify import simplify_all

        p = self._unlike_sizes("p") if position is None else position
        ranges = {symbol_of(p): Range(0, end_of(self.physical_size()))}
        return tuple(simplify_all([Index(i).expr for i in self.inv(p)], ranges))

    def _unlike_sizes(self, name: str) -> Index:
        """A symbol of this name, or of one like it that none of the sizes has."""
        sizes = (as_expr(n) for n in (*self.dims(), self.physical_size()))
        taken = {str(symbol) for n in sizes for symbol in n.free_symbols}
        while name in taken:
            name += "_"
        return index_symbol(name)

    def explain(self) -> str:
        """How `apply` and `inv` are derived, step by step: rule, condition, proof and operations, for reading."""
        from lego_mlir.expr.explain import explain

        parts = [("apply", self.derive())]
        parts += [(f"inv, dimension {axis}", derivation) for axis, derivation in enumerate(self.derive_inv())]
        return "\n".join(line for title, d in parts for line in (title, *(f"  {x}" for x in explain(d).splitlines())))

    def tile_by(self, *levels: Sequence[Any]) -> Layout:
        """The same memory by tiles: `tile_by([M//T, N//T], [T, T])` takes (tile row, tile column, row, column).

        Tiles that do not divide the sizes reach past the end: `mask` says which indices name an element.
        """
        from lego_mlir.layout.tiled import Tiled

        return Tiled(self, levels)

    def __matmul__(self, inner: Any) -> Layout:
        """`A @ B`, the composition: `B` first, and its position is a row-major logical index of `A`."""
        from lego_mlir.layout.group import compose

        return compose(self, inner)

    def inverse(self) -> Layout:
        """The layout of one axis whose `apply(p)` is the row-major number of the logical index `inv(p)`."""
        from lego_mlir.layout.group import inverse

        return inverse(self)

    def reshape(self, *dims: Any) -> Layout:
        """The same memory under another logical box of as many elements, in the same row-major order."""
        from lego_mlir.layout.group import reshape

        return reshape(self, *dims)

    def transpose(self, *axes: Any) -> Layout:
        """The same memory with its logical axes in another order, 1-based; reversed without arguments."""
        from lego_mlir.layout.group import transpose

        return transpose(self, *axes)

    def equivalent(self, other: Any) -> Verdict:
        """Whether another layout has the same logical sizes and the same position for every index."""
        from lego_mlir.layout.equivalence import equivalent

        return equivalent(self, other)

    def subs(self, **sizes: Any) -> Layout:
        """The layout with some of its sizes replaced by ints or by other sizes: `L.subs(M=64)`.

        Raises LayoutError for a name that is none of its sizes, and for a value that its size may not have.
        """
        from lego_mlir.layout.substitute import substitute

        found: Layout = substitute(self, sizes)
        return found

    def strides(self) -> tuple[Any, ...] | None:
        """The distance in elements between neighbours along each axis; None where no constant one is proved."""
        from lego_mlir.layout.equivalence import strides

        return strides(self)

    def __getitem__(self, index: Any) -> Slice | Any:
        """`L[i, :, :]`: the positions over the ranges of the colons; with no colon, `apply`."""
        from lego_mlir.layout.slices import take

        return take(self, index)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Layout) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())


def key_of(sizes: Sequence[Size]) -> tuple[Any, ...]:
    """Sizes for comparing: `==` of an `Index` builds a condition, that of its expression compares."""
    return tuple(n.expr if isinstance(n, Index) else n for n in sizes)


def all_of(verdicts: Sequence[Verdict]) -> Verdict:
    """The verdict on a composition: refuted by the first refuted part, unknown by the first unknown one."""
    for kind in (Refuted, Unknown):
        for verdict in verdicts:
            if isinstance(verdict, kind):
                return verdict
    reasons = dict.fromkeys(reason for v in verdicts if isinstance(v, Proved) for reason in v.by.split("; "))
    return Proved("; ".join(reasons) or "it permutes nothing")
