"""Layouts for `attention.py.jinja`: head-major or position-major order, and a transposed K, by layout alone."""

from __future__ import annotations

import math

from lego_mlir.errors import TemplateError
from lego_mlir.expr.index import cdiv
from lego_mlir.layout import RegP, Row
from lego_mlir.templates.render.indices import index, indices
from lego_mlir.templates.render.require import require_one_of, require_parts
from lego_mlir.templates.render.template import Template

ORDERS = {"bhsd": (1, 2, 3, 4), "bshd": (1, 3, 2, 4)}
"""Storage orders of a (batch, head, position, feature) array: its axes, slowest first."""


def attention(
    batch: int,
    heads: int,
    positions: int,
    features: int,
    *,
    order: str = "bhsd",
    causal: bool = False,
    tile: tuple[int, int] = (128, 64),
    descriptors: bool = False,
) -> Template:
    """softmax(Q K^T / sqrt(features)) V: arguments q_ptr, k_ptr, v_ptr, o_ptr, and lse_ptr (log2 of the sums, float32).

    `tile` is (queries per program, keys per iteration). `order` is "bhsd" or "bshd". `descriptors` reads and writes
    through TMA.
    """
    require_one_of("attention", "order", order, tuple(ORDERS))
    require_parts("attention", "tile", tile, ("queries", "keys"))
    if features & (features - 1):
        raise TemplateError(f"attention: {features=} must be a power of two, for a head is read as one block")
    block_m, block_n = tile
    tiles_m, tiles_n = cdiv(positions, block_m), cdiv(positions, block_n)
    sizes, sigma = [batch, heads, positions, features], ORDERS[order]
    stored = RegP(sizes, sigma)
    transposed = RegP([batch, heads, features, positions], [{3: 4, 4: 3}.get(axis, axis) for axis in sigma])
    queries = stored.tile_by([batch, heads, tiles_m, 1], [1, 1, block_m, features])
    b, h, m, n, pid = indices("batch head m n pid")
    return Template.shipped(
        "attention.py.jinja",
        Q=queries,
        O=queries,
        K=transposed.tile_by([batch, heads, 1, tiles_n], [1, 1, features, block_n]),
        V=stored.tile_by([batch, heads, tiles_n, 1], [1, 1, block_n, features]),
        M=Row(batch, heads, positions).tile_by([batch, heads, tiles_m], [1, 1, block_m]),
        grid=Row(batch, heads, tiles_m),
        batch=b,
        head=h,
        m=m,
        n=n,
        inner=index("n", max(1, positions // block_n)),
        whole=positions // block_n,
        pid=pid,
        positions=positions,
        scale=repr(math.log2(math.e) / math.sqrt(features)),
        causal=causal,
        descriptors=descriptors,
    )
