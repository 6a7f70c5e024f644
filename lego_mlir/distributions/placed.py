"""A layout as a distribution: its positions numbered by named axes, some of its logical axes copies.

The physical positions of any layout are the row-major numbers of a box of named axes, so `(rank, offset)`, `(warp,
lane, register)` or `(row, bank)` name them. Leading logical axes may be copies.

>>> from lego_mlir import Col, Row
>>> PlacedLayout(Col(4, 6), {"rank": 6, "offset": 4}).place(1, 5)
{'rank': 5, 'offset': 1}
>>> PlacedLayout(Row(2, 8), {"replica": 2, "offset": 8}, {"replica": None}).apply(3)
({'replica': 0, 'offset': 3}, {'replica': 1, 'offset': 3})
"""

from __future__ import annotations

from collections.abc import Mapping

from lego_mlir.aliases import Cond
from lego_mlir.distributions.base import CopyAxis, Distribution, Index, sizes_of
from lego_mlir.errors import LayoutError
from lego_mlir.expr.verdict import Refuted, Verdict
from lego_mlir.layout.base import Layout, all_of
from lego_mlir.layout.canonical import Size, SizeLike, flatten, product, unflatten
from lego_mlir.layout.chain import as_layout, same_number
from lego_mlir.layout.values import show


class PlacedLayout(Distribution):
    """Position p of a layout is the place with row-major number p in the box `axes`.

    `copies` names the leading logical axes of the layout that count copies, each with None for replicas or the name of
    what combines the parts ("sum"). Raises LayoutError for a box of another size than the positions.
    """

    __slots__ = ("_axes", "_fits", "_shape", "combined", "layout")
    layout: Layout
    combined: tuple[tuple[str, str | None], ...]
    _axes: dict[str, Size]
    _shape: tuple[Size, ...]
    _fits: Verdict

    def __init__(
        self, layout: Layout, axes: Mapping[str, SizeLike], copies: Mapping[str, str | None] | None = None
    ) -> None:
        layout, named = as_layout(layout), tuple((copies or {}).items())
        self._set(
            layout=layout, combined=named, _axes=sizes_of("PlacedLayout", axes), _shape=layout.dims()[len(named) :]
        )
        if len(named) > len(layout.dims()):
            raise LayoutError(
                f"PlacedLayout: {layout!r} has {len(layout.dims())} axes, of which {len(named)} cannot be copies"
            )
        self._set(_fits=same_number(product(list(self._axes.values())), layout.physical_size()))
        if isinstance(self._fits, Refuted):
            raise LayoutError(
                f"PlacedLayout: {layout!r} has {layout.physical_size()!r} positions, and the axes {self._axes} have "
                f"{product(list(self._axes.values()))!r} places"
            )

    def _arguments(self) -> tuple[object, ...]:
        return self.layout, self._axes, dict(self.combined)

    @property
    def shape(self) -> tuple[Size, ...]:
        return self._shape

    @property
    def axes(self) -> dict[str, Size]:
        return dict(self._axes)

    @property
    def copies(self) -> tuple[CopyAxis, ...]:
        return tuple(CopyAxis(name, n, how) for (name, how), n in zip(self.combined, self.layout.dims(), strict=False))

    def _sizes(self) -> list[Size]:
        return list(self._axes.values())

    def _place(self, index: Index, copy: Index) -> Index:
        return unflatten(self.layout._apply((*copy, *index)), self._sizes())

    def _element(self, place: Index) -> tuple[Index, Index]:
        found = self.layout._inv(flatten(place, self._sizes()))
        return found[len(self.combined) :], found[: len(self.combined)]

    def _holds(self, place: Index) -> Cond:
        return self.layout._holds(flatten(place, self._sizes()))

    def check(self) -> Verdict:
        return all_of([self._fits, self.layout.check()])

    def __repr__(self) -> str:
        copies = f", {dict(self.combined)}" if self.combined else ""
        return f"PlacedLayout({self.layout!r}, {{{', '.join(f'{k!r}: {v!r}' for k, v in self._axes.items())}}}{copies})"


def require_filled(distribution: Distribution, what: str) -> None:
    """Raise LayoutError for places without elements where each is needed."""
    if distribution._holds(tuple(0 for _ in distribution.axes)) is not True:
        raise LayoutError(
            f"{what}: some places of {distribution!r} hold no element; axes {show(list(distribution.axes))}"
        )
