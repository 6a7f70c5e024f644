"""Values that do not change once they are made: what was proved of one would not hold any longer.

>>> from lego_mlir.expr.index import index_symbol
>>> i = index_symbol("i")
>>> i.expr = i.expr + 1
Traceback (most recent call last):
    ...
lego_mlir.errors.ExpressionError: i does not change once it is made, and expr was set; make another one
"""

from __future__ import annotations

from typing import Any, ClassVar

from lego_mlir.errors import LayoutError, LegoError


class Frozen:
    """A value whose fields are set by its constructor alone.

    `_arguments` are those of the constructor: copies and pickles are made by it, and checked by it.
    """

    __slots__ = ()
    _refusal: ClassVar[type[LegoError]] = LayoutError

    def _set(self, **fields: Any) -> None:
        """Give fields their value. For constructors, and for what a value remembers of itself."""
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def _arguments(self) -> tuple[Any, ...]:
        raise NotImplementedError  # every subclass defines it

    def __setattr__(self, name: str, value: Any) -> None:
        raise self._refusal(f"{self!r} does not change once it is made, and {name} was set; make another one")

    def __delattr__(self, name: str) -> None:
        raise self._refusal(f"{self!r} does not change once it is made, and {name} was deleted; make another one")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._arguments()
