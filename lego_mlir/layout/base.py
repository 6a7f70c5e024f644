"""The interface of every layout: apply, inv, dims, check, slices and index expressions.

A layout is a bijection between a logical index space, a box of sizes `dims()`, and physical positions
`0 .. physical_size()-1`. Subclasses define the two maps for values known to be in range (`_apply`, `_inv`). This class
validates the arguments: it accepts ints, NumPy integer arrays, `Index` and SymPy expressions, rejects a concrete index
that is out of range, and returns the kind it was given.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING

from lego_mlir.aliases import Cond, IndexLike, Symbol
from lego_mlir.errors import LayoutError, LayoutIndexError, RefutedLayoutError
from lego_mlir.expr.frozen import Frozen
from lego_mlir.expr.index import Index, as_expr, index_symbol
from lego_mlir.expr.ranges import Range
from lego_mlir.expr.verdict import Proved, Refuted, Unknown, Verdict
from lego_mlir.layout.canonical import Size, SizeLike, product
from lego_mlir.layout.counting import Whole
from lego_mlir.layout.named_maps import names_for
from lego_mlir.layout.values import check_range, coerce_indices, end_of, flat_index, restore_kind, show, symbol_of

if TYPE_CHECKING:
    from lego_mlir.expr.simplify import Derivation
    from lego_mlir.layout.permutations import GenP
    from lego_mlir.layout.slices import Slice


class Layout(Frozen):
    """A bijection from logical indices to physical positions. Immutable, compared and hashed by value."""

    __slots__ = ()

    def dims(self) -> tuple[Size, ...]:
        """The logical sizes, outermost first; the levels of a tiling are concatenated."""
        raise NotImplementedError  # every subclass defines it

    def _apply(self, index: tuple[IndexLike, ...]) -> IndexLike:
        """Logical index -> physical position, for values known to be in range."""
        raise NotImplementedError  # every subclass defines it

    def _inv(self, position: IndexLike) -> tuple[IndexLike, ...]:
        """Physical position -> logical index, for values known to be in range."""
        raise NotImplementedError  # every subclass defines it

    def _mask(self, index: tuple[IndexLike, ...]) -> Cond:
        """The condition under which an index within `dims()` names an element; True if all of them do."""
        return True

    def _holds(self, position: IndexLike) -> Cond:
        """The condition under which a physical position holds an element; True if all of them do."""
        return True

    def _elements(self, axes: Sequence[Whole]) -> Size:
        """The number of elements whose index is allowed along each axis."""
        return product([axis.count(n) for axis, n in zip(axes, self.dims(), strict=True)])

    def _past_the_end(self, index: tuple[int, ...]) -> str:
        """The message for an index that names no element."""
        return f"index {show(index)} of {self!r} names no element"

    def _regular(self) -> bool:
        """Whether the maps are plain arithmetic on axes, which is defined out of range as well."""
        return True

    def _key(self) -> tuple[Hashable, ...]:
        """The key of equality and hash: the kind of layout, then its parts."""
        raise NotImplementedError  # every subclass defines it

    def numel(self) -> Size:
        """The number of elements: logical indices for which `mask` is true."""
        return product(self.dims())

    def physical_size(self) -> Size:
        """The number of physical positions; more than `numel()` only for a padded layout."""
        return self.numel()

    def _index(self, given: tuple[IndexLike, ...], caller: str) -> tuple[IndexLike, ...]:
        """Coerce a logical index. Raises LayoutError for a wrong number of coordinates or one out of range."""
        dims = self.dims()
        if len(given) != len(dims):
            raise LayoutError(
                f"{caller} takes {len(dims)} indices for the logical sizes {show(dims)}, got {len(given)}: {given}"
            )
        values = coerce_indices(given, self.physical_size())
        for axis, (i, n) in enumerate(zip(values, dims, strict=True)):
            if not isinstance(i, Index):  # a symbol is not checked, and the text of symbolic sizes takes long
                check_range(i, n, f"index {axis} of {show(dims)}")
        return values

    def apply(self, *index: IndexLike) -> IndexLike:
        """The physical position of a logical index, one argument per dimension (or one list per level).

        Ints, NumPy integer arrays (elementwise, broadcast), `Index` or SymPy expressions in, the same kind out.
        Raises LayoutIndexError for a concrete index that is out of range or names no element, LayoutError for a wrong
        number of indices.
        """
        given = flat_index(index)
        values = self._index(given, "apply")
        if self._mask(values) is False:
            raise LayoutIndexError(self._past_the_end(values))
        names = names_for(*values)
        named = None if names is None else names.apply(self, values)
        return restore_kind(self._apply(values) if named is None else named, given)

    def inv(self, position: IndexLike) -> tuple[IndexLike, ...]:
        """The logical index of a physical position; the inverse of `apply`, with the same kinds of values.

        Raises LayoutError for a concrete position that is out of range or padding.
        """
        value = self._position(position)
        if self._holds(value) is False:
            raise LayoutError(f"position {value} of {self!r} is padding: it holds no element")
        names = names_for(value)
        named = None if names is None else names.inv(self, value)
        return tuple(restore_kind(i, (position,)) for i in (self._inv(value) if named is None else named))

    def _position(self, position: IndexLike) -> IndexLike:
        (value,) = coerce_indices((position,), self.physical_size())
        check_range(value, self.physical_size(), "the position")
        return value

    def mask(self, *index: IndexLike) -> Cond:
        """Whether an index within `dims()` names an element: a bool, an array of bools, or a condition.

        True if all of them do, as when tiles divide their sizes. Symbols are assumed to be in range.
        """
        given = flat_index(index)
        values = self._index(given, "mask")
        self.require()
        mask = self._mask(values)
        return mask if isinstance(mask, bool) else restore_kind(mask, given)

    def holds(self, position: IndexLike) -> Cond:
        """Whether a physical position holds an element: a bool, an array of bools or a condition."""
        value = self._position(position)
        held = self._holds(value)
        return held if isinstance(held, bool) else restore_kind(held, (position,))

    def check(self) -> Verdict:
        """Whether the two maps are bijections and inverse to each other: Proved, Refuted or Unknown.

        Refuted carries a counter-example, Unknown a reason. Exact for concrete sizes of up to 2**24 elements, by proof
        for symbolic ones.
        """
        raise NotImplementedError  # every subclass defines it

    def claims(self) -> tuple[Cond, ...]:
        """Conditions on sizes that are claimed instead of proved, which a launch checks."""
        inner = getattr(self, "inner", None)
        return inner.claims() if isinstance(inner, Layout) else ()

    def require(self) -> None:
        """Raise LayoutError with the counter-example if the layout is refuted; Unknown passes."""
        verdict = self.check()
        if isinstance(verdict, Refuted):
            raise RefutedLayoutError(f"{self!r} is not a bijection: {verdict.explanation}", self, verdict.explanation)

    def ranges(self, *symbols: Index | Symbol) -> dict[Symbol, Range]:
        """The range of each symbol used as this layout's logical index, one symbol per dimension."""
        dims = self.dims()
        if len(symbols) != len(dims):
            raise LayoutError(f"ranges takes one symbol for each of the sizes {show(dims)}, got {len(symbols)}")
        return {symbol_of(s): Range(0, end_of(n)) for s, n in zip(symbols, dims, strict=True)}

    def derive(self, *symbols: Index | Symbol) -> Derivation:
        """The simplified `apply` of these symbols (by default fresh `i0, i1, ...`), with the trail of its proofs."""
        from lego_mlir.expr.simplify import simplify

        names = symbols or tuple(self.fresh_symbol(f"i{axis}") for axis in range(len(self.dims())))
        return simplify(Index(self.apply(*names)).expr, self.ranges(*names))

    def derive_inv(self, position: Index | Symbol | None = None) -> tuple[Derivation, ...]:
        """The simplified `inv` of a symbol (by default a fresh `p`), one derivation per dimension."""
        from lego_mlir.expr.simplify import simplify_all

        p = self.fresh_symbol("p") if position is None else position
        ranges = {symbol_of(p): Range(0, end_of(self.physical_size()))}
        return tuple(simplify_all([Index(i).expr for i in self.inv(p)], ranges))

    def fresh_symbol(self, name: str) -> Index:
        """A symbol of this name, with underscores appended while a size has the same name.

        >>> from lego_mlir import Row, size
        >>> Row(size("i0"), 4).fresh_symbol("i0"), Row(4).fresh_symbol("i0")
        (i0_, i0)
        """
        sizes = (as_expr(n) for n in (*self.dims(), self.physical_size()))
        taken = {str(symbol) for n in sizes for symbol in n.free_symbols}
        while name in taken:
            name += "_"
        return index_symbol(name)

    def explain(self) -> str:
        """The derivation of `apply` and `inv` as text, step by step: rule, condition, proof and operations."""
        from lego_mlir.expr.explain import explain

        parts = [("apply", self.derive())]
        parts += [(f"inv, dimension {axis}", derivation) for axis, derivation in enumerate(self.derive_inv())]
        return "\n".join(line for title, d in parts for line in (title, *(f"  {x}" for x in explain(d).splitlines())))

    def tile_by(self, *levels: Sequence[SizeLike]) -> Layout:
        """The same memory indexed by tiles: `tile_by([M//T, N//T], [T, T])` takes (tile row, tile column, row, column).

        Tiles that do not divide the sizes reach past the end: `mask` is true for the indices that name an element.
        """
        from lego_mlir.layout.tiled import Tiled

        return Tiled(self, levels)

    def __matmul__(self, inner: Layout) -> Layout:
        """`A @ B`, the composition: `B` first, and its position is a row-major logical index of `A`."""
        from lego_mlir.layout.group import compose

        return compose(self, inner)

    def inverse(self) -> Layout:
        """The one-axis layout whose `apply(p)` is the row-major number of the logical index `inv(p)`."""
        from lego_mlir.layout.group import inverse

        return inverse(self)

    def reshape(self, *dims: SizeLike | Sequence[SizeLike]) -> Layout:
        """The same memory viewed as another logical box of equal size, in the same row-major order."""
        from lego_mlir.layout.group import reshape

        return reshape(self, *dims)

    def transpose(self, *axes: int | Sequence[int]) -> Layout:
        """The same memory with its logical axes permuted, 1-based; reversed by default."""
        from lego_mlir.layout.group import transpose

        return transpose(self, *axes)

    def equivalent(self, other: Layout) -> Verdict:
        """Whether another layout has the same logical sizes and the same position for every index."""
        from lego_mlir.layout.equivalence import equivalent

        return equivalent(self, other)

    def subs(self, **sizes: SizeLike) -> Layout:
        """The layout with some sizes replaced by ints or other sizes: `L.subs(M=64)`.

        Raises LayoutError for an unknown name, and for a value that the size may not have.
        """
        from lego_mlir.layout.substitute import substitute

        found: Layout = substitute(self, sizes)
        return found

    def to_mlir(self, symbols: Mapping[GenP, str] | None = None) -> str:
        """The text of this layout in MLIR, `#lego.layout<...>`, which `lego.parse_layout` reads.

        `symbols` names each `GenP` made of functions: the text refers to it as `@name`. Raises LayoutError for such a
        permutation without a name, and for a layout that has no text (docs/reference/dialect.md).
        """
        from lego_mlir.layout.notation import to_attribute

        return to_attribute(self, symbols)

    def strides(self) -> tuple[Size, ...] | None:
        """The stride of each axis in elements; None unless constant strides are proved."""
        from lego_mlir.layout.equivalence import strides

        return strides(self)

    def __getitem__(self, index: IndexLike | slice | tuple[IndexLike | slice, ...]) -> Slice | IndexLike:
        """`L[i, :, :]`: a slice over the ranges of the colons; without a colon, `apply`."""
        from lego_mlir.layout.slices import take

        return take(self, index)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Layout) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())


def key_of(sizes: Sequence[Size]) -> tuple[Hashable, ...]:
    """Sizes as comparable keys: `==` of an `Index` builds a condition, `==` of its expression compares."""
    return tuple(n.expr if isinstance(n, Index) else n for n in sizes)


def all_of(verdicts: Sequence[Verdict]) -> Verdict:
    """The verdict on a composition: refuted by the first refuted part, unknown by the first unknown one."""
    for kind in (Refuted, Unknown):
        for verdict in verdicts:
            if isinstance(verdict, kind):
                return verdict
    reasons = dict.fromkeys(reason for v in verdicts if isinstance(v, Proved) for reason in v.by.split("; "))
    return Proved("; ".join(reasons) or "it permutes nothing")
