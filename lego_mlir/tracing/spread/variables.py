"""A tile that loops and branches may change: one register of the kernel for each register of the layout.

acc = lego.register(lego.zeros(f32, layout))
for k in lego.range(tiles):
    acc += lego.load(a, layout, at=(0, 64 * k))
acc.store(b)
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import cast

from lego_mlir.aliases import Operand
from lego_mlir.errors import brief
from lego_mlir.tracing.spread.distributed import Spread, each_element, once_each, open_tile
from lego_mlir.tracing.trace.tracer import current
from lego_mlir.tracing.words import control
from lego_mlir.tracing.words.in_place import SetInPlace
from lego_mlir.tracing.words.packed_values import PackedNumbers, broadcast_number
from lego_mlir.tracing.words.packed_variables import PackedCell
from lego_mlir.tracing.words.scalar import Scalar, as_value, convert


class SpreadVariable(SetInPlace, Spread):
    """A mutable tile: in an expression it is read at that point."""

    __slots__ = ()

    def _held(self, registers: Sequence[Operand]) -> Sequence[Operand]:
        return list(registers)

    def get(self) -> Spread:
        """The current tile; later changes of the variable do not affect it."""
        return each_element(self.layout, lambda r: self.registers[r].get())

    def set(self, value: object) -> None:
        """Replace the tile: by one of this layout and element type, or by one number everywhere."""
        if not isinstance(value, Spread):
            value = each_element(self.layout, lambda r: Scalar(as_value(value, self.dtype)))
        given = value.broadcast_to(self.layout)
        made = [(cell, v) for cell, v in zip(self.registers, given.registers, strict=True) if cell is not None]
        held = [(cell, as_value(v, self.dtype)) for cell, v in made]  # all are read before one is written
        for cell, new in {id(cell): (cell, new) for cell, new in held}.values():
            cell.set(Scalar(new))


class PackedVariable(SpreadVariable):
    """A mutable tile of packed numbers, whose words are registers; it is stored and converted as its current value."""

    __slots__ = ("_numbers", "_order")

    def __init__(self, first: Spread) -> None:
        self.layout, self.dtype = first.layout, first.dtype
        each, self._order = _distinct(first)
        self._numbers = PackedCell(_together(each))

    @property
    def registers(self) -> Sequence[Operand]:  # type: ignore[override]
        return self.get().registers

    def get(self) -> Spread:
        """The current tile; later changes of the variable do not affect it."""
        codes = self._numbers.get().codes
        each = [PackedNumbers(self.dtype, [code], None) for code in codes]
        return Spread(self.layout, self.dtype, [None if k is None else each[k] for k in self._order])

    def set(self, value: object) -> None:
        """Replace the tile: by one of this layout and element type, or by one number, rounded, everywhere."""
        if isinstance(value, Real):
            number = broadcast_number(value, self.dtype, None)
            value = each_element(self.layout, lambda _: number)
        if not isinstance(value, Spread) or value.dtype != self.dtype:
            raise current("a register").error(
                f"a variable of a tile of {self.dtype} is set to {brief(repr(value))}; convert it with "
                f".to(lego.{self.dtype})"
            )
        self._numbers.set(_together(_distinct(value.get().broadcast_to(self.layout))[0]))


def _distinct(tile: Spread) -> tuple[list[PackedNumbers], list[int | None]]:
    """The number of each element that a thread has, and the place of each register's among them."""
    each: list[PackedNumbers] = []

    def place(register: int) -> int:
        each.append(cast(PackedNumbers, tile.registers[register]))
        return len(each) - 1

    order = once_each(tile.layout, place)
    return each, order


def _together(each: Sequence[PackedNumbers]) -> PackedNumbers:
    return PackedNumbers(each[0].dtype, [number.codes[0] for number in each], len(each))


def tile_variable(initial: object) -> SpreadVariable:
    """A variable with the values of a tile. Raises TraceError for anything else, and for a tile of indices."""
    tracer = current("lego.register")
    if not isinstance(initial, Spread):
        raise tracer.error(
            f"lego.register takes an element type and a value, such as (lego.f32, 0.0), or a spread value, got "
            f"{brief(repr(initial))}"
        )
    if initial.dtype.family == "index":
        raise tracer.error(
            "lego.register takes a tile of data, got one of indices; convert it, for example with .to(lego.i32)"
        )
    if (tile := open_tile(initial)) is not None:
        return cast("SpreadVariable", tile.variable())  # with the same methods
    dtype = initial.dtype
    if dtype.is_packed:
        return PackedVariable(initial)
    cells = once_each(initial.layout, lambda r: control.register(dtype, convert(initial.registers[r], dtype)))
    return SpreadVariable(initial.layout, dtype, cells)
