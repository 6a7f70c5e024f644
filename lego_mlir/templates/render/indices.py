"""Index expressions that carry the ranges of their symbols.

An index that no layout bounds declares its range, and every result computed from it keeps the range:

>>> k = index("k", 64)
>>> (k + 1).ranges
{k: Range(0, 64)}
"""

from __future__ import annotations

import keyword
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, ClassVar

from lego_mlir.aliases import IndexLike, Symbol
from lego_mlir.errors import TemplateError
from lego_mlir.expr.index import Condition, Index, as_expr, index_symbol
from lego_mlir.expr.ranges import Range

Ranges = Mapping[Any, Range]

printing: ContextVar[Callable[[Any], str] | None] = ContextVar("printing", default=None)
"""Converts a value to text while a template is rendered, for `~`, `join` and `format`."""


class Shown:
    """A value whose `str` is its text in the target language while a template is rendered, and its repr otherwise.

    `offers` lists the attributes available to templates.
    """

    __slots__ = ()
    offers: ClassVar[tuple[str, ...]] = ()

    def __str__(self) -> str:
        show = printing.get()
        return repr(self) if show is None else show(self)


class Bounded(Shown, Index):
    """An index expression with the ranges of its symbols, which every result keeps."""

    __slots__ = ("ranges",)
    ranges: dict[Any, Range]

    def __init__(self, expr: IndexLike, ranges: Ranges | None = None) -> None:
        super().__init__(expr)
        self._set(ranges=dict(ranges or {}))

    def _arguments(self) -> tuple[Any, ...]:
        return self.expr, self.ranges

    def keep(self, result: Any, given: Sequence[Any]) -> Any:
        """A result of these operands with their ranges."""
        return _with_ranges(result, given)

    def __hash__(self) -> int:
        return super().__hash__()


class BoundedCondition(Shown, Condition):
    """A condition with the ranges of its symbols, which every result keeps."""

    __slots__ = ("ranges",)
    ranges: dict[Any, Range]

    def __init__(self, expr: IndexLike, ranges: Ranges) -> None:
        super().__init__(expr)
        self._set(ranges=dict(ranges))

    def _arguments(self) -> tuple[Any, ...]:
        return self.expr, self.ranges

    def keep(self, result: Any, given: Sequence[Any]) -> Any:
        """A result of these operands with their ranges."""
        return _with_ranges(result, given)


def _with_ranges(result: Any, given: Sequence[Any]) -> Any:
    if isinstance(result, Condition):
        return BoundedCondition(result, ranges_of(*given))
    return Bounded(result, ranges_of(*given)) if isinstance(result, Index) else result


def _keeping_ranges(kind: type, name: str) -> Any:
    plain = getattr(kind, name)

    def operator(*given: Any) -> Any:
        return _with_ranges(plain(*given), given)

    operator.__name__ = name
    return operator


for _name in ("add", "radd", "sub", "rsub", "mul", "rmul", "neg", "pow"):  # the others call `keep`
    setattr(Bounded, f"__{_name}__", _keeping_ranges(Index, f"__{_name}__"))
    if _name not in ("neg", "pow"):
        setattr(BoundedCondition, f"__{_name}__", _keeping_ranges(Condition, f"__{_name}__"))


class Coordinate(Bounded):
    """One coordinate of an inverse, below `stop`, the layout's size along its axis."""

    __slots__ = ("stop",)
    stop: Any

    def __init__(self, expr: IndexLike, ranges: Ranges, stop: IndexLike) -> None:
        super().__init__(expr, ranges)
        self._set(stop=stop)

    def _arguments(self) -> tuple[Any, ...]:
        return self.expr, self.ranges, self.stop

    def __hash__(self) -> int:
        return super().__hash__()


def index(name: str, stop: IndexLike = None, start: IndexLike = 0, step: int = 1) -> Bounded:
    """An index variable of a template: a program id, a loop variable. Without `stop`, layouts imply its range.

    Its values are range(start, stop, step). Raises TemplateError for a name that is not a valid identifier.
    """
    if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
        raise TemplateError(
            f"index: no variable can be called {name!r}; use an identifier that is not a Python keyword"
        )
    symbol = index_symbol(name)
    return Bounded(symbol, {} if stop is None else {symbol.expr: Range(as_expr(start), as_expr(stop), step)})


def indices(names: str) -> tuple[Bounded, ...]:
    """Index variables whose ranges the layouts imply: `lpid_m, lpid_n, k = indices("lpid_m lpid_n k")`."""
    return tuple(index(name) for name in names.replace(",", " ").split())


def ranges_of(*values: Any) -> dict[Symbol, Range]:
    """The ranges that these values carry."""
    found: dict[Any, Range] = {}
    for value in values:
        found.update(getattr(value, "ranges", None) or {})
    return found
