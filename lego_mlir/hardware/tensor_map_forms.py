"""Tensor maps of arrays whose sizes are known at launch: one form for a kernel, one map for each call.

Where a map has numbers, a form has multiples and quotients of the kernel's sizes, in the order of its arguments:

>>> rows = TensorMapForm("f16", (SizeTerm(1), SizeTerm(0)), strides=(SizeTerm(1, times=2),), box=(64, 128), swizzle=128)
>>> found = rows.at([1000, 512])
>>> found.sizes, found.strides, found.box
((512, 1000), (1024,), (64, 128))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lego_mlir.aliases import Json
from lego_mlir.errors import LayoutError
from lego_mlir.hardware.tensor_maps import TensorMap, edge_data


@dataclass(frozen=True, slots=True)
class SizeTerm:
    """`times` a size, or an `over`-th of one that is a multiple; `size` is its number. With `by`, times another size.

    >>> SizeTerm(0, times=2, by=1).at([1000, 512])
    1024000
    """

    size: int
    times: int = 1
    over: int = 1
    by: int | None = None

    def at(self, values: Sequence[int]) -> int:
        """The number for sizes of a launch. Raises LayoutError for a size that is no multiple."""
        value = values[self.size]
        if value % self.over:
            raise LayoutError(f"a size of {value}: this kernel takes multiples of {self.over}")
        return value * self.times // self.over * (1 if self.by is None else values[self.by])

    @property
    def numbers(self) -> list[int]:
        """The term as data: three numbers, or four with another size."""
        return [self.size, self.times, self.over, *([] if self.by is None else [self.by])]


MapExtent = int | SizeTerm


@dataclass(frozen=True, slots=True)
class TensorMapForm:
    """A tensor map over the sizes of a launch."""

    dtype: str
    sizes: tuple[MapExtent, ...]
    strides: tuple[MapExtent, ...]
    box: tuple[int, ...]
    swizzle: int = 0
    edge: int | None = None

    @property
    def is_fixed(self) -> bool:
        """Whether it has no term: one map for all sizes."""
        return all(isinstance(extent, int) for extent in (*self.sizes, *self.strides))

    def at(self, values: Sequence[int]) -> TensorMap:
        """The map for sizes of a launch. Raises LayoutError, with the reason, where the engine cannot copy it."""
        sizes, strides = (
            tuple(extent if isinstance(extent, int) else extent.at(values) for extent in part)
            for part in (self.sizes, self.strides)
        )
        return TensorMap(self.dtype, sizes, strides, self.box, self.swizzle, self.edge)

    def to_data(self) -> Json:
        """The form as JSON data: a term is a list of its numbers."""
        sizes, strides = (
            [extent if isinstance(extent, int) else extent.numbers for extent in part]
            for part in (self.sizes, self.strides)
        )
        return {"dtype": self.dtype, "sizes": sizes, "strides": strides, "box": list(self.box),
                "swizzle": self.swizzle, **edge_data(self.edge)}  # fmt: skip


def form_from(data: Json) -> TensorMapForm:
    """The form from JSON data, of a form or of a map."""
    sizes, strides = (tuple(map(_extent, data[name])) for name in ("sizes", "strides"))
    return TensorMapForm(data["dtype"], sizes, strides, tuple(data["box"]), data["swizzle"], data.get("edge"))


def _extent(data: int | Sequence[int]) -> MapExtent:
    return data if isinstance(data, int) else SizeTerm(*data)
