"""Mutable variables of packed numbers: the words that hold the codes are registers of the kernel.

    ahead = lego.register(w.load(i, j, width=8))     one register: a word with 8 numbers of i4
    ahead.set(w.load(i, j + 8, width=8))

A word is kept as it was loaded, so that its codes stay where conversions want them. Codes of a value that has them at
other places are moved.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import TYPE_CHECKING, Final

from lego_mlir.errors import brief
from lego_mlir.tracing.trace.dtypes import DType, u32
from lego_mlir.tracing.trace.tracer import current
from lego_mlir.tracing.trace.uncompared import Uncompared
from lego_mlir.tracing.words.packed_values import Code, PackedNumbers, broadcast_number
from lego_mlir.tracing.words.scalar import Scalar

if TYPE_CHECKING:
    from lego_mlir.tracing.words.control import Cell


WORD: Final = 32
"""Bits of a register."""


class PackedCell(Uncompared):
    """A mutable number of a packed type, or a vector of `width` of them: `lego.register` of packed numbers."""

    __slots__ = ("_places", "_words", "dtype", "width")
    _instead = "convert its value, for example with .get().to(lego.f32)"

    def __init__(self, first: PackedNumbers) -> None:
        from lego_mlir.tracing.words.control import register

        words, self._places = _divided(first.codes)
        if len({*self._places}) < len(self._places):  # of a number that is there several times
            bits = first.dtype.bits
            self._places = [(k // (WORD // bits), k % (WORD // bits) * bits) for k in range(len(first.codes))]
            words = self._moved(first.codes, first.dtype)
        self._words: list[Cell] = [register(u32, word) for word in words]
        self.dtype, self.width = first.dtype, first.width

    def get(self) -> PackedNumbers:
        """The current numbers; later changes of the variable do not affect them."""
        words = [word.get() for word in self._words]
        return PackedNumbers(self.dtype, [(words[k], shift) for k, shift in self._places], self.width)

    @property
    def value(self) -> PackedNumbers:
        """What `get()` returns."""
        return self.get()

    def to(self, dtype: DType) -> object:
        """The current numbers in another element type."""
        return self.get().to(dtype)

    def set(self, value: object) -> None:
        """Replace the numbers, by as many of this type, or each by a Python number rounded to it."""
        given = value.get() if isinstance(value, PackedCell) else value
        if isinstance(given, Real):
            given = broadcast_number(given, self.dtype, self.width)
        if not isinstance(given, PackedNumbers) or (given.dtype, given.width) != (self.dtype, self.width):
            raise current("a register").error(
                f"a variable of {self.get()!r} is set to {brief(repr(given))}; convert it, for example with "
                f".to(lego.{self.dtype})"
            )
        words, places = _divided(given.codes)
        for cell, word in zip(
            self._words, words if places == self._places else self._moved(given.codes, self.dtype), strict=True
        ):
            cell.set(word)

    def _moved(self, codes: Sequence[Code], dtype: DType) -> list[Scalar]:
        """The words of this variable with these codes at its places."""
        words: dict[int, Scalar] = {}
        for (word, start), (k, shift) in zip(codes, self._places, strict=True):
            code = (word >> start if start else word) & ((1 << dtype.bits) - 1)
            code = code << shift if shift else code
            words[k] = words[k] | code if k in words else code
        return [words[k] for k in range(len(words))]

    def __repr__(self) -> str:
        return f"<variable of {len(self._places)} {self.dtype}, packed>"


def _divided(codes: Sequence[Code]) -> tuple[list[Scalar], list[tuple[int, int]]]:
    """The words of codes, each once, and for each code the number of its word and the bit at which it begins."""
    words: dict[int, tuple[int, Scalar]] = {}
    places = []
    for word, shift in codes:
        number, _ = words.setdefault(word.entry.number, (len(words), word))
        places.append((number, shift))
    return [word for _, word in words.values()], places
