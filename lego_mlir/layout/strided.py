"""A layout given by a stride for each axis, as arrays of other libraries have: part of a matrix, rows with a pitch.

Index (i, j) of `Strided([M, K], [sm, sk])` has the position i*sm + j*sk. That is one-to-one if, with the axes in some
order, each stride exceeds the reach of those before it: the digits of a number with mixed radices. A 2 x 3 case with
strides 4 and 1, whose positions 3 is unused:

    0 1 2
    4 5 6

>>> from lego_mlir import size
>>> Strided([2, 3], [4, 1]).apply(1, 2), Strided([2, 3], [4, 1]).physical_size(), Strided([2, 3], [4, 1]).inv(5)
(6, 7, (1, 1))
>>> pitch = size("pitch")
>>> M, K = size("M"), size("K", max=pitch)
>>> Strided([M, K], [pitch, 1]).check()
Proved(by='each stride exceeds the reach of the smaller ones, by arithmetic, intervals')
>>> Strided([2, 3], [2, 1])
Traceback (most recent call last):
    ...
lego_mlir.errors.LayoutError: Strided([2, 3], [2, 1]): the indices [0, 2] and [1, 0] are both at position 2
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterable, Mapping, Sequence
from typing import Final

from lego_mlir.aliases import Cond, IndexLike
from lego_mlir.errors import LayoutError
from lego_mlir.expr.index import Index, as_expr
from lego_mlir.expr.verdict import Proved, Refuted, Unknown, Verdict
from lego_mlir.layout.base import Layout, key_of
from lego_mlir.layout.canonical import Size, SizeLike, as_sizes, is_static, require_bits
from lego_mlir.layout.padded import conjunction
from lego_mlir.layout.values import show


class Strided(Layout):
    """Index -> the sum of each coordinate times its stride, in elements; sizes and strides are ints or `lego.size`.

    Strides that are sizes become arguments of a kernel, so that arrays that are not contiguous can be passed:
    `sizes_of_array` gives their values. Raises LayoutError, with two indices that collide, for strides that are not
    proved to be one-to-one. With `claim=True` strides without a proof are accepted, and a launch checks them.
    """

    __slots__ = ("_dims", "_order", "_strides", "_verdict", "claim")
    _dims: tuple[Size, ...]
    _strides: tuple[Size, ...]
    _order: tuple[int, ...] | None
    _verdict: Verdict
    claim: bool

    def __init__(self, dims: Sequence[SizeLike], strides: Sequence[SizeLike], claim: bool = False) -> None:
        self._set(_dims=as_sizes("Strided", dims), _strides=as_sizes("Strided: a stride", strides), claim=bool(claim))
        if len(self._dims) != len(self._strides):
            raise LayoutError(
                f"Strided takes one stride for each of the sizes {show(self._dims)}, got {show(self._strides)}"
            )
        if is_static((*self._dims, *self._strides)):
            require_bits(f"{self!r}: the number of positions", int(self.physical_size()))
        from lego_mlir.layout.strided_proofs import judged

        order, verdict = judged(self._dims, self._strides)
        self._set(_order=order, _verdict=verdict)
        if isinstance(verdict, Refuted) and not (claim and verdict.counter_example):
            advice = "" if is_static((*self._dims, *self._strides)) else f"; {_ADVICE}"
            raise LayoutError(f"{self!r}: {verdict.explanation}{advice}")
        if isinstance(verdict, Unknown) and not claim:
            raise LayoutError(f"{self!r}: {verdict.reason}; {_ADVICE}")

    def _arguments(self) -> tuple[object, ...]:
        return self._dims, self._strides, self.claim

    def dims(self) -> tuple[Size, ...]:
        return self._dims

    def strides(self) -> tuple[Size, ...]:
        """The stride of each axis in elements."""
        return self._strides

    def physical_size(self) -> Size:
        size = 1 + sum((n - 1) * s for n, s in zip(self._dims, self._strides, strict=True))
        return int(size.expr) if isinstance(size, Index) and size.expr.is_Integer else size

    def _apply(self, index: tuple[IndexLike, ...]) -> IndexLike:
        return sum(i * s for i, s in zip(index, self._strides, strict=True))

    def _inv(self, position: IndexLike) -> tuple[IndexLike, ...]:
        if self._order is None:
            raise LayoutError(f"{self!r} has no inverse: the order of its strides is not known")
        index: list[IndexLike] = [0 * position] * len(self._dims)
        for axis in reversed(self._order):
            stride = self._strides[axis]
            index[axis] = position // stride
            position = position % stride
        return tuple(index)

    def _holds(self, position: IndexLike) -> Cond:
        index = self._inv(position)
        held: Cond = self._apply(index) == position
        for i, n in zip(index, self._dims, strict=True):
            held = conjunction(held, i < n)
        return held

    def check(self) -> Verdict:
        if self.claim and not isinstance(self._verdict, Proved):
            return Unknown("it is claimed that the strides are one-to-one; a launch checks it")
        return self._verdict

    def explain(self) -> str:
        if self._order is not None:
            return super().explain()
        from lego_mlir.expr.explain import explain

        return "\n".join(["apply", *(f"  {line}" for line in explain(self.derive()).splitlines())])

    def claims(self) -> tuple[Cond, ...]:
        if isinstance(self._verdict, Proved):
            return ()
        from lego_mlir.layout.strided_proofs import condition

        return (condition(self._dims, self._strides),)

    def sizes_of_array(self, shape: Sequence[int], strides: Sequence[int]) -> dict[str, int]:
        """The values of the sizes for an array of this shape, whose strides count elements, to launch a kernel with.

        The memory of the argument begins at element (0, 0, ..) and has `physical_size()` elements. Raises LayoutError
        for an array that does not have this layout.
        """
        rank = len(self._dims)
        if len(shape) != rank or len(strides) != rank:
            raise LayoutError(f"{self!r} has {rank} axes, and the array has shape {tuple(shape)}")
        from lego_mlir.expr.evaluate import evaluate
        from lego_mlir.expr.nodes import Size as SizeSymbol

        # the stride of an axis of one element is never used, and may have any value
        used = [(n, s) for n, s, extent in zip(self._strides, strides, shape, strict=True) if extent > 1]
        found: dict[str, int] = {}
        for n, value in (*zip(self._dims, shape, strict=True), *used):
            if isinstance(n, Index) and isinstance(n.expr, SizeSymbol):
                found.setdefault(n.expr.name, int(value))
        if all(_known(n, found) for n in self._dims):
            found |= self.default_strides(found)
        for what, wanted in (("shape", zip(self._dims, shape, strict=True)), ("strides", used)):
            for n, given in wanted:
                value = int(evaluate(as_expr(n), found)) if _known(n, found) else given
                if value != given:
                    has = tuple(shape) if what == "shape" else tuple(strides)
                    raise LayoutError(f"{self!r} needs {what} with {n!r} = {value}, and the array has {has}")
        return found

    def default_strides(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """Values for strides that are sizes without one: those of rows with unused elements at their ends."""
        from lego_mlir.expr.evaluate import evaluate
        from lego_mlir.expr.nodes import Size as SizeSymbol

        found, reach = dict(sizes), 1
        for n, stride in reversed([*zip(self._dims, self._strides, strict=True)]):
            symbol = as_expr(stride)
            if isinstance(symbol, SizeSymbol) and symbol.name not in found:
                least = reach if reach == 1 else reach + 1
                step = symbol.multiple_of
                found[symbol.name] = max(symbol.least, -(-least // step) * step)
            if not _known(symbol, found) or not _known(n, found):
                break
            reach = int(evaluate(symbol, found)) * int(evaluate(as_expr(n), found))
        return {name: value for name, value in found.items() if name not in sizes}

    def _key(self) -> tuple[Hashable, ...]:
        return ("Strided", key_of(self._dims), key_of(self._strides), self.claim)

    def __repr__(self) -> str:
        return f"Strided({show(self._dims)}, {show(self._strides)}{', claim=True' if self.claim else ''})"


def claimed_strides(
    layouts: Iterable[Layout | None], given: Container[str], chosen: Mapping[str, int]
) -> dict[str, int]:
    """Values that make the strides of layouts one-to-one which these only claim to be, except those of `given` names.

    `chosen` has a value for every size.
    """
    found: dict[str, int] = {}
    for layout in layouts:
        while layout is not None and not isinstance(layout, Strided):
            layout = getattr(layout, "inner", None)
        if layout is not None and layout.claims():
            dims = {str(symbol) for n in layout.dims() for symbol in as_expr(n).free_symbols}
            found |= layout.default_strides({n: v for n, v in chosen.items() if n in given or n in dims or n in found})
    return found


_ADVICE: Final = (
    "relate the sizes, as in K = lego.size('K', max=pitch) for Strided([M, K], [pitch, 1]), or claim that the strides "
    "are one-to-one with claim=True, which a launch checks"
)


def _known(n: Size, values: Mapping[str, int]) -> bool:
    return all(str(symbol) in values for symbol in as_expr(n).free_symbols)
