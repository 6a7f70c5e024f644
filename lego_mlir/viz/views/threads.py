"""Threads and registers that hold each element of a tile, and the matrix of a linear layout.

>>> from lego_mlir.f2 import MmaSync
>>> holders(MmaSync((1, 1)).layout([16, 8]))[0].cells[0][1].title
'[0, 1]: warp 0, lane 0, register 1'
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from lego_mlir.aliases import Drawable
from lego_mlir.errors import UsageError
from lego_mlir.f2.encodings import (
    Blocked,
    Encoding,
    Mfma,
    MfmaOperand,
    MmaOperand,
    MmaSync,
    Sliced,
    SwizzledShared,
    TensorCopyShared,
    Wgmma,
    Wmma,
    WmmaOperand,
)
from lego_mlir.f2.linear import LinearLayout
from lego_mlir.f2.mixed import MixedLayout
from lego_mlir.f2.ptx_fragments import fragment
from lego_mlir.tracing.spread.distributed import Spread
from lego_mlir.viz import palettes
from lego_mlir.viz.panels import GridCell, GridPanel
from lego_mlir.viz.views.subjects import MOST_CELLS

PARTS: Final = ("register", "lane", "warp", "block")
MOST_HELD: Final = 1 << 18
"""Registers of all threads beyond which each drawn element shows one of its holders, and others are not sought."""


@dataclass(frozen=True, slots=True)
class TileOfThreads:
    """A linear layout that is drawn by its threads, with a title and notes for the caption."""

    layout: LinearLayout | MixedLayout
    title: str = "threads of a tile"
    notes: tuple[str, ...] = ()


def spread_over_threads(drawn: Drawable) -> TileOfThreads | None:
    """What a linear or mixed layout, an encoding, a fragment's name or a spread value shows; None for anything else.

    An encoding shows its own tile. Raises LayoutError for an unknown name, UsageError for an encoding of memory, whose
    tile has any size.
    """
    if isinstance(drawn, (LinearLayout, MixedLayout)):
        return TileOfThreads(drawn)
    if isinstance(drawn, Spread):
        return TileOfThreads(drawn.layout, f"threads of {drawn.dtype}")
    if isinstance(drawn, str):
        passed = ("lane r passes the address of row r",) if "matrix" in drawn else ()
        return TileOfThreads(fragment(drawn), drawn, passed)
    if isinstance(drawn, ENCODINGS):
        shape = _own_tile(drawn)
        if shape is None:
            raise UsageError(f"{drawn} is drawn for a shape; call .layout, such as .layout({[64] * drawn.rank})")
        return TileOfThreads(drawn.layout(shape), repr(drawn))
    return None


ENCODINGS: Final = (
    Blocked, Mfma, MfmaOperand, MmaOperand, MmaSync, Sliced, SwizzledShared, TensorCopyShared, Wgmma, Wmma, WmmaOperand,
)  # fmt: skip


def _own_tile(encoding: Encoding) -> tuple[int, ...] | None:
    """The shape of which every register of a thread holds one element; None for encodings that are drawn by shape."""
    match encoding:
        case Blocked(size_per_thread=elements, threads_per_warp=lanes, warps=warps):
            return tuple(map(math.prod, zip(elements, lanes, warps, strict=True)))
        case MmaSync(warps=(*batch, m, n), instruction=(rows, columns)):
            return *batch, m * rows, n * columns
        case Wgmma(warps=(*batch, m, n), n=columns):
            return *batch, 16 * m, n * columns
        case MmaOperand(index=index, parent=MmaSync() | Wgmma() as parent, k_width=k_width):
            *batch, m, n = parent.warps
            return (*batch, 16 * m, 8 * k_width) if index == 0 else (*batch, 8 * k_width, 8 * n)
        case Sliced(dim=dim, parent=parent):
            whole = _own_tile(parent)
            return None if whole is None else whole[:dim] + whole[dim + 1 :]
    return None


Holder = dict[str, int]
"""A register of a thread: its number, lane, warp and block."""
Holders = dict[tuple[int, int], list[Holder]]
"""The holders of each element, by row and column."""


def holders(layout: LinearLayout | MixedLayout, title: str = "threads of a tile", *notes: str) -> list[GridPanel]:
    """The tile, each element with the thread that holds it: `T5:2` is register 2 of lane 5, `w1` is warp 1."""
    if not set(layout.in_sizes) <= set(PARTS) or not layout.out_sizes:
        raise UsageError(
            f"threads are drawn for layouts from {', '.join(PARTS)} to dimensions of a tile; this one goes from "
            f"{', '.join(layout.in_sizes) or 'nothing'} to {', '.join(layout.out_sizes) or 'nothing'}"
        )
    *outer, across = layout.out_sizes.values()
    sizes = (math.prod(outer), across)
    held = _all_held(layout) if math.prod(layout.in_sizes.values()) <= MOST_HELD else _one_held(layout, sizes)
    return [tile_of_holders(title, held, sizes, layout.in_sizes.get("warp", 1) > 1, *notes)]


def _all_held(layout: LinearLayout | MixedLayout) -> Holders:
    names = list(layout.in_sizes)
    values = [v.reshape(-1) for v in np.meshgrid(*map(np.arange, layout.in_sizes.values()), indexing="ij")]
    *outer, column = (np.asarray(v) for v in layout.apply(**dict(zip(names, values, strict=True))).values())
    row = np.ravel_multi_index(outer, tuple(layout.out_sizes.values())[:-1]) if outer else np.zeros_like(column)
    held: Holders = {}
    for number in np.flatnonzero((row < MOST_CELLS) & (column < MOST_CELLS)).tolist():
        place = int(row[number]), int(column[number])
        held.setdefault(place, []).append({name: int(v[number]) for name, v in zip(names, values, strict=True)})
    return held


def _one_held(layout: LinearLayout | MixedLayout, sizes: Sequence[int]) -> Holders:
    """One holder of each drawn element, by the inverse of the layout. Raises UsageError where elements have none."""
    if isinstance(layout, MixedLayout) or not layout.is_surjective():
        raise UsageError(
            f"a layout of {math.prod(layout.in_sizes.values())} registers is too large to draw unless it is linear and "
            "every element has a holder"
        )
    drawn = np.meshgrid(*(np.arange(min(n, MOST_CELLS)) for n in sizes), indexing="ij")
    row, column = (v.reshape(-1) for v in drawn)
    outer = np.unravel_index(row, tuple(layout.out_sizes.values())[:-1]) if len(layout.out_sizes) > 1 else ()
    found = layout.right_inverse().apply(*outer, column)
    values = {name: np.broadcast_to(v, row.shape) for name, v in found.items()}
    return {
        (int(r), int(c)): [{name: int(v[k]) for name, v in values.items()}]
        for k, (r, c) in enumerate(zip(row, column, strict=True))
    }


def tile_of_holders(title: str, held: Holders, sizes: Sequence[int], many_warps: bool, *notes: str) -> GridPanel:
    """A tile of these rows and columns, or its first part, with the holders of its elements."""
    rows, columns = (min(n, MOST_CELLS) for n in sizes)
    cells = tuple(tuple(_holder((r, c), held.get((r, c), []), many_warps) for c in range(columns)) for r in range(rows))
    caption = ["T lane : register" + ("; w is the warp, which sets the colour" if many_warps else ""), *notes]
    if [rows, columns] != list(sizes):
        caption.append(f"the first {rows} x {columns} of {sizes[0]} x {sizes[1]} elements")
    if any(len(copies) > 1 for copies in held.values()):
        caption.append("+: further threads or registers hold the element too")
    return GridPanel(title, cells, tuple(caption))


def _holder(place: tuple[int, int], copies: list[Holder], many_warps: bool) -> GridCell:
    if not copies:
        return GridCell("")
    first = copies[0]
    lane, register, warp = (first.get(name, 0) for name in ("lane", "register", "warp"))
    label = (f"w{warp} " if many_warps else "") + f"T{lane}:{register}" + ("+" if len(copies) > 1 else "")
    group = warp if many_warps else lane // 4
    where = "; ".join(
        ", ".join(
            f"{name} {copy[name]}" for name in reversed(PARTS) if name in copy and (name != "block" or copy[name])
        )
        for copy in copies[:8]
    )
    title = f"[{place[0]}, {place[1]}]: {where}" + ("; .." if len(copies) > 8 else "")
    return GridCell(label, palettes.CATEGORIES[group % len(palettes.CATEGORIES)], title)


def matrix(layout: LinearLayout | MixedLayout) -> list[GridPanel]:
    """The matrix over F2: a column for each input bit, a row for each output bit, grouped by their dimensions."""
    if isinstance(layout, MixedLayout):
        raise UsageError(f"{layout!r} has digits that are not bits, so it has no matrix over F2; draw layout.low")
    columns = [(name, bit) for name, n in layout.in_sizes.items() for bit in range(n.bit_length() - 1)]
    rows = [(name, bit) for name, n in layout.out_sizes.items() for bit in range(n.bit_length() - 1)]
    if not columns or not rows:
        raise UsageError(f"{layout!r} has no bits to draw")
    colour = {name: palettes.CATEGORIES[i % len(palettes.CATEGORIES)] for i, name in enumerate(layout.in_sizes)}
    images = {
        (name, bit): dict(zip(layout.out_sizes, basis, strict=True))
        for name, bases in layout.bases.items()
        for bit, basis in enumerate(bases)
    }
    cells = []
    for out, out_bit in rows:
        line = []
        for source in columns:
            one = images[source][out] >> out_bit & 1
            title = f"{source[0]} bit {source[1]} -> {out} bit {out_bit}: {one}"
            line.append(GridCell(str(one), colour[source[0]] if one else palettes.EMPTY, title))
        cells.append(tuple(line))
    return [
        GridPanel(
            "matrix over F2", tuple(cells), (", ".join(f"{n}: {len(b)} bits" for n, b in layout.bases.items()),),
            row_labels=tuple(f"{name}.{bit}" for name, bit in rows),
            column_labels=tuple(f"{name[:1]}{bit}" for name, bit in columns),
        )
    ]  # fmt: skip
