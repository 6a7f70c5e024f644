"""The work of a block: that at a position of an order, its share of numbered parts, and sizes that a width divides.

Padded orders, such as a curve's, have positions without any work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import lego_mlir as lego
from lego_mlir.aliases import IndexLike
from lego_mlir.layout.base import Layout
from lego_mlir.layout.canonical import SizeLike


def visit(order: Layout, position: IndexLike, work: Callable[[tuple[IndexLike, ...]], None]) -> None:
    """Trace `work` at the index that has this position in the order, in a branch if some positions have none."""
    if order.physical_size() == order.numel():
        work(order.inv(position))
    else:
        with lego.when(order.holds(position)):
            work(order.inv(position))


def in_turns(parts: IndexLike, blocks: int) -> Iterator[tuple[IndexLike, IndexLike]]:
    """The turns of this block of `blocks`, and the number of its part in each: one loop, traced once.

    Turns go up and down: block b takes parts b, 2 blocks - 1 - b, 2 blocks + b and so on. Parts that are sorted by
    length are shared evenly so, up to the length of one part.
    """
    back = blocks - 1 - 2 * lego.block_id[0]
    last = lego.block_id[0] + parts // blocks % 2 * back
    for turn in lego.range(lego.cdiv(parts - last, blocks)):
        yield turn, turn * blocks + lego.block_id[0] + turn % 2 * back


def is_multiple_of(size: SizeLike, width: int) -> bool:
    """Whether a size is a multiple of the width, by its declaration if it is symbolic."""
    if isinstance(size, int):
        return size % width == 0
    return bool(size.expr.multiple_of % width == 0)
