"""Figures 3.1, 3.2, 3.3, 4.4 and 4.6 of the thesis on column-based iteration, from its tables 3.1 and 3.2.

    python -m bench.schedule_figures [--folder docs/images] [--suffix .svg]

Tables: a 16 x 16 input; 24 lines of cache for the 7 x 7 stencil, 32 for the product; 4 elements a line; LRU. The tables
give a column width of 8, the captions of figures 4.4 and 4.6 give 4: both are drawn.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lego_mlir import schedule
from lego_mlir.caches import workloads
from lego_mlir.caches.levels import CacheLevel
from lego_mlir.caches.simulation import rows
from lego_mlir.caches.space_time import SpaceTime, space_time

if TYPE_CHECKING:
    from lego_mlir.caches.simulation import OrderLike

SIZE: Final = 16
LINE: Final = 16  # bytes: 4 elements of 4 bytes


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure: a stencil or a product, `lines` of cache, columns of a width (0: rows)."""

    number: str
    kernel: str
    lines: int
    width: int

    @property
    def title(self) -> str:
        order = f"columns of {self.width}" if self.width else "rows in order"
        return f"{self.number}: {self.kernel}, {SIZE} x {SIZE}, {order}, {self.lines} lines of L1"

    @property
    def stem(self) -> str:
        return f"schedule-{self.number.replace(' ', '-')}"

    def data(self) -> SpaceTime:
        """The diagram's data."""
        product = self.kernel == "product"
        workload = workloads.product(SIZE, SIZE, SIZE) if product else workloads.stencil(SIZE, SIZE, 7)
        order: OrderLike = schedule.columns(SIZE, SIZE, width=self.width) if self.width else rows(SIZE)
        return space_time(workload, order, (CacheLevel("L1", self.lines * LINE, line=LINE, sector=LINE),))


FIGURES: Final = (
    Figure("3.1", "7 x 7 stencil", 24, 0),
    Figure("3.2a", "7 x 7 stencil", 28, 0),
    Figure("3.2b", "7 x 7 stencil", 14, 0),
    Figure("3.3", "product", 32, 0),
    Figure("4.4", "7 x 7 stencil", 24, 4),
    Figure("4.4 width 8", "7 x 7 stencil", 24, 8),
    Figure("4.6", "product", 32, 4),
    Figure("4.6 width 8", "product", 32, 8),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path(__file__).parent.parent / "docs" / "images")
    parser.add_argument("--suffix", choices=(".svg", ".png"), default=".svg")
    options = parser.parse_args()
    from lego_mlir.viz import cache_diagram

    options.folder.mkdir(parents=True, exist_ok=True)
    for figure in FIGURES:
        found = figure.data()
        path = options.folder / f"{figure.stem}{options.suffix}"
        cache_diagram.draw(found, figure.title).save(path)
        print(f"{path}: {found.fetched[0]} lines fetched, {found.compulsory} compulsory")


if __name__ == "__main__":
    main()
