"""The work at a position of an order: padded orders, such as a curve's, have positions without any."""

from __future__ import annotations

from collections.abc import Callable

import lego_mlir as lego
from lego_mlir.aliases import IndexLike
from lego_mlir.layout.base import Layout


def visit(order: Layout, position: IndexLike, work: Callable[[tuple[IndexLike, ...]], None]) -> None:
    """Trace `work` at the index that has this position in the order, in a branch if some positions have none."""
    if order.physical_size() == order.numel():
        work(order.inv(position))
    else:
        with lego.when(order.holds(position)):
            work(order.inv(position))
