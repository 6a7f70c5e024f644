"""Immutable values: a proof about a value must remain valid for its lifetime.

>>> from lego_mlir.expr.index import index_symbol
>>> i = index_symbol("i")
>>> i.expr = i.expr + 1
Traceback (most recent call last):
    ...
lego_mlir.errors.ExpressionError: i is immutable: expr cannot be set; construct a new value
"""

from __future__ import annotations

from typing import Any, ClassVar

from lego_mlir.errors import LayoutError, LegoError


class Frozen:
    """A value whose fields are set only by its constructor.

    `_arguments` returns the constructor's arguments: copies and unpickled values are constructed, and so checked, anew.
    """

    __slots__ = ()
    _refusal: ClassVar[type[LegoError]] = LayoutError

    def _set(self, **fields: Any) -> None:
        """Set fields. For constructors, and for derived facts that a value caches."""
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def _arguments(self) -> tuple[Any, ...]:
        raise NotImplementedError  # every subclass defines it

    def __setattr__(self, name: str, value: object) -> None:
        raise self._refusal(f"{self!r} is immutable: {name} cannot be set; construct a new value")

    def __delattr__(self, name: str) -> None:
        raise self._refusal(f"{self!r} is immutable: {name} cannot be deleted; construct a new value")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._arguments()
