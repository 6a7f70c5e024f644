"""`+=`, `-=` and `*=` of variables: each sets the value that the operator gives."""

from __future__ import annotations

from typing import Protocol, TypeVar

from lego_mlir.aliases import Operand


class Variable(Protocol):
    """What has a value that is replaced."""

    def set(self, value: Operand) -> None: ...

    def __add__(self, other: Operand) -> Operand: ...

    def __sub__(self, other: Operand) -> Operand: ...

    def __mul__(self, other: Operand) -> Operand: ...


V = TypeVar("V", bound=Variable)


class SetInPlace:
    """The operators of a variable."""

    __slots__ = ()

    def __iadd__(self: V, other: Operand) -> V:
        self.set(self + other)
        return self

    def __isub__(self: V, other: Operand) -> V:
        self.set(self - other)
        return self

    def __imul__(self: V, other: Operand) -> V:
        self.set(self * other)
        return self
