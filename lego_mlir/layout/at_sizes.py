"""A layout of symbolic sizes at the values that a command line gives: the same maps, with ints for its dimensions.

>>> from lego_mlir import Row, size
>>> tile = AtSizes(Row(size("M"), 32), {"M": 64})
>>> tile, tile.dims(), tile.apply(2, 1)
(Row(M, 32) at M=64, (64, 32), 65)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from lego_mlir.errors import UsageError
from lego_mlir.expr.evaluate import evaluate
from lego_mlir.expr.index import Index, as_expr, index_symbol
from lego_mlir.expr.nodes import Size


class AtSizes:
    """`layout` with a value for each of its sizes. Raises UsageError for a missing value, or one it may not have."""

    def __init__(self, layout: Any, given: Mapping[str, int]) -> None:
        self.layout = layout
        sizes = sizes_of_layout(layout)
        missing = [name for name in sizes if name not in given]
        if missing:
            raise UsageError(
                f"{layout!r} has symbolic sizes; give a value for {', '.join(missing)}: "
                + " ".join(f"--size {name}=N" for name in missing)
            )
        self.values = {name: given[name] for name in sizes}
        for name, size in sizes.items():
            value = given[name]
            if value < size.min or (size.max is not None and value > size.max) or value % size.multiple_of:
                upper = "" if size.max is None else f", at most {size.max}"
                raise UsageError(
                    f"--size {name}={value}: {name} is at least {size.min}{upper}, a multiple of {size.multiple_of}"
                )
        self._symbols = [index_symbol(f"index{axis}") for axis in range(len(layout.dims()))]
        self._position = as_expr(layout.apply(*self._symbols))

    def dims(self) -> tuple[int, ...]:
        return tuple(int(evaluate(n, self.values)) for n in self.layout.dims())

    def physical_size(self) -> int:
        return int(evaluate(self.layout.physical_size(), self.values))

    def apply(self, *index: Any) -> Any:
        """The position of a logical index: ints or arrays in, the same out; an Index gives an Index."""
        if any(isinstance(i, Index) for i in index):
            exact = {s.expr: as_expr(i) for s, i in zip(self._symbols, index, strict=True)}
            sizes = {symbol: self.values[name] for name, symbol in sizes_of_layout(self.layout).items()}
            return Index(self._position.xreplace(exact).subs(sizes))
        named = {str(s): np.asarray(i) for s, i in zip(self._symbols, index, strict=True)}
        placed = evaluate(self._position, {**self.values, **named})
        return placed if any(isinstance(i, np.ndarray) for i in index) else int(placed)

    def __repr__(self) -> str:
        return f"{self.layout!r} at {', '.join(f'{name}={value}' for name, value in self.values.items())}"


def sizes_of_layout(layout: Any) -> dict[str, Any]:
    """The symbolic sizes of a layout, by name."""
    symbols = {s for n in (*layout.dims(), layout.physical_size()) for s in as_expr(n).free_symbols}
    return {str(s): s for s in sorted(symbols, key=str) if isinstance(s, Size)}
