"""Orders of execution as layouts: the position is the number of a task, the index is its work.

`order.inv(i)` is the work of task i, `order.apply(y, x)` the task that does it, and `order.check()` proves that every
element is done once. The same value orders the blocks of a grid, the threads of a block, the iterations of a loop, and
the tiles of a matrix product; it prints to MLIR, Triton and CUDA like any other layout.

| order | visits |
|---|---|
| `columns(h, w, width=32)` | columns of `width`, the last one narrower; `zigzag`, `up_down` |
| `prepared_columns(h, w, width=c)` | columns of a run-time width, with reciprocals as arguments |
| `grouped(m, n, rows=8)` | groups of rows, column by column |
| `by_length(m, n, together=8)` | parts of rows that grow with their number, next to parts of like length |
| `tiles(h, w, tile=(8, 32))` | tiles, those at the ends smaller |
| `Cuts([h, w], [(2, 128), (1, 8), (2, 32)])` | any sequence of cuts, for example columns of tiles |
| `morton`, `hilbert`, `generalised_hilbert` | space-filling curves of a rectangle |
| `nested(blocks, warps, threads)` | orders inside each other |
"""

from lego_mlir.schedule.cuts import Cuts
from lego_mlir.schedule.named import ORDERS, tile_order
from lego_mlir.schedule.orders import by_length, columns, grouped, nested, tiles
from lego_mlir.schedule.prepared import arguments, prepared_columns
from lego_mlir.schedule.rectangles import generalised_hilbert, hilbert, morton

__all__ = [
    "ORDERS",
    "Cuts",
    "arguments",
    "by_length",
    "columns",
    "generalised_hilbert",
    "grouped",
    "hilbert",
    "morton",
    "nested",
    "prepared_columns",
    "tile_order",
    "tiles",
]
