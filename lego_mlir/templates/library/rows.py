"""Layouts for the row-wise kernels: `softmax.py.jinja`, `layer_norm.py.jinja`.

A row is one block, rounded up to a power of two for `tl.arange`; where the width is a power of two, no mask is needed.
"""

from __future__ import annotations

from typing import Final

from lego_mlir.errors import TemplateError
from lego_mlir.expr.index import Index, cdiv
from lego_mlir.layout import Layout, Row
from lego_mlir.layout.canonical import Size
from lego_mlir.templates.render.indices import indices
from lego_mlir.templates.render.require import require_positive
from lego_mlir.templates.render.template import Template


def block_of(columns: int) -> int:
    """The smallest power of two that covers a row.

    >>> block_of(256), block_of(1000)
    (256, 1024)
    """
    if not isinstance(columns, int):
        raise TemplateError(f"a whole row is one block, so its width must be a number, got {columns}")
    return 1 << (columns - 1).bit_length()


def whole_rows(rows: Size, columns: int, at_a_time: int = 1) -> Layout:
    """A row-major matrix as tiles of `at_a_time` whole rows."""
    return Row(rows, columns).tile_by([cdiv(rows, at_a_time), 1], [at_a_time, block_of(columns)])


def softmax(rows: Size, columns: int, *, at_a_time: int = 1) -> Template:
    """Row-wise softmax: arguments x_ptr, y_ptr; each program handles `at_a_time` rows (a power of two)."""
    require_positive("softmax", at_a_time=at_a_time)
    (block,) = indices("block")
    tiles = whole_rows(rows, columns, at_a_time)
    return Template.shipped("softmax.py.jinja", X=tiles, Y=tiles, block=block)


PART: Final = 4096
"""Columns that `layer_norm_backward` processes at a time in rows wider than two such parts: for 16384 columns the two
gradients alone take half of a multiprocessor's registers."""


def layer_norm(
    rows: Size, columns: int, *, eps: float = 1e-5, groups: int = 64, block: int = 128, stages: int | None = None
) -> Template:
    """Layer norm, three kernels.

    `layer_norm_forward(x, w, b, y, mean, rstd)`: one program per row.
    `layer_norm_backward(dy, x, w, mean, rstd, dx, dw, db)`: `groups` programs, each writes one row of partial dw, db;
    `stages - 1` rows are prefetched into shared memory, by default two, or one for wide rows. Rows wider than two PARTs
    are read twice, one part at a time.
    `sum_groups(part, out)`: one program per `block` columns.
    """
    require_positive("layer_norm", groups=groups, block=block, stages=1 if stages is None else stages)
    row, group, place = indices("row group block")
    tiles, width = whole_rows(rows, columns), block_of(columns)
    part = PART if width > 2 * PART else width
    parts = cdiv(columns, part)
    count = rows if isinstance(rows, Index) else int(rows)
    return Template.shipped(
        "layer_norm.py.jinja",
        X=tiles,
        Y=tiles,
        W=Row(columns).tile_by([1], [width]),
        S=Row(rows).tile_by([rows]),
        XP=Row(rows, columns).tile_by([rows, parts], [1, part]),
        WP=Row(columns).tile_by([parts], [part]),
        P=Row(groups, columns).tile_by([groups, parts], [1, part]),
        Q=Row(groups, columns).tile_by([groups, cdiv(columns, block)], [1, block]),
        V=Row(columns).tile_by([cdiv(columns, block)], [block]),
        row=row,
        group=group,
        block=place,
        eps=str(eps),
        groups=groups,
        rows=count,
        columns=columns,
        stages=stages or (3 if parts == 1 else 2),
    )
