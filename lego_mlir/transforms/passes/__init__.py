"""Passes of our own, for what no upstream pass or transform operation does. A script's `lego.pipeline` names them.

| pass | what it does |
|---|---|
| `lego-shared-to-alloc` | shared tiles of a loop become `memref.alloc`, which multi-buffering and the swizzle want |
| `lego-masked-reads` | a branch around a wide read becomes a masked read, which an asynchronous copy can take over |
| `lego-check-pipeline` | says why a loop cannot be pipelined so deep, before upstream refuses it without a reason |
| `lego-bypass-l1` | marks 16-byte asynchronous copies again, where pipelining dropped the mark |
| `lego-merge-barriers` | drops the barrier before the copies of a loop that has more than one buffer |
| `lego-drain-copies` | lets nothing be on its way behind a pipelined loop that is run again and again |
| `lego-rotate-fragments` | loads the next iteration's first fragments before this one's last products |
| `lego-load-ahead` | loads a step's fragments among the products of the step before |
| `lego-spread-copies` | puts the copies of a loop between its products |
| `lego-defer-rounding`, `lego-round-at-store` | move a result's rounding from the tile to the lanes that store it |
| `lego-bf16-as-f16`, `lego-bf16-again` | let tiles of bf16 be dealt out to lanes, which upstream does for f16 |
| `lego-scalars-aside`, `lego-scalars-again` | keep arithmetic on single numbers out of upstream's sight |
| `lego-order-fragments` | puts the tiles of an ldmatrix into the order that the product expects |
| `lego-next-tile-ahead` | sends for the next tile's first copies before this tile's result is stored |
| `lego-swizzle` | lets every access to a tile go where the tile's order says, so that banks do not conflict |
| `lego-place-shared-memory` | static memory if all fits, else dynamic; tiles that never meet share their place |

A pass is a function of the parsed module and a `Context`; it changes the module in place. One that found nothing to do
raises `PassError`, with what it looked for and what is there instead, unless nothing to do is an answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

from lego_mlir.transforms.passes import (
    bf16_tiles,
    bypass_l1,
    check_pipeline,
    load_ahead,
    masked_reads,
    order_fragments,
    place_shared,
    round_at_store,
    shared_alloc,
    swizzle,
)
from lego_mlir.transforms.passes import hide_scalars as scalars
from lego_mlir.transforms.passes import merge_barriers as barriers
from lego_mlir.transforms.passes import next_tile_ahead as next_tile
from lego_mlir.transforms.passes import rotate_fragments as rotate
from lego_mlir.transforms.passes import spread_copies as spread
from lego_mlir.transforms.passes.context import Context, PassError

__all__ = ["PASSES", "Context", "Pass", "PassError"]


@dataclass(frozen=True, slots=True)
class Pass:
    """A pass by its name. In a composed pipeline one marked `once` runs at its first or last place only."""

    name: str
    run: Callable[[Any, Context], None]
    once: Literal["", "first", "last"] = ""


PASSES: Final = {
    row.name: row
    for row in (
        Pass("lego-shared-to-alloc", shared_alloc.run, once="first"),
        Pass("lego-masked-reads", masked_reads.run),
        Pass("lego-check-pipeline", check_pipeline.run),
        Pass("lego-bypass-l1", bypass_l1.run),
        Pass("lego-merge-barriers", barriers.run),
        Pass("lego-drain-copies", barriers.drain),
        Pass("lego-rotate-fragments", rotate.run),
        Pass("lego-swizzle", swizzle.run),
        Pass("lego-next-tile-ahead", next_tile.run),
        Pass("lego-load-ahead", load_ahead.run),
        Pass("lego-spread-copies", spread.run),
        Pass("lego-defer-rounding", round_at_store.defer),
        Pass("lego-scalars-aside", scalars.defer),
        Pass("lego-scalars-again", scalars.run),
        Pass("lego-bf16-as-f16", bf16_tiles.defer),
        Pass("lego-order-fragments", order_fragments.run),
        Pass("lego-bf16-again", bf16_tiles.run),
        Pass("lego-round-at-store", round_at_store.run),
        Pass("lego-place-shared-memory", place_shared.run, once="last"),
    )
}
