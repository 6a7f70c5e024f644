"""Which thread and register holds each element of a tile, and the matrix of a linear layout.

>>> from lego_mlir.f2 import MmaSync
>>> holders(MmaSync((1, 1)).layout([16, 8]))[0].cells[0][1].title
'[0, 1]: warp 0, lane 0, register 1'
"""

from __future__ import annotations

from typing import Final

import numpy as np

from lego_mlir.errors import UsageError
from lego_mlir.f2.linear import LinearLayout
from lego_mlir.viz import palettes
from lego_mlir.viz.panels import GridCell, GridPanel
from lego_mlir.viz.views.subjects import MOST_CELLS

PARTS: Final = ("register", "lane", "warp", "block")


def holders(layout: LinearLayout) -> list[GridPanel]:
    """The tile, each element with the thread that holds it: `T5:2` is register 2 of lane 5, `w1` is warp 1."""
    if not set(layout.in_sizes) <= set(PARTS) or not 1 <= len(layout.out_sizes) <= 2:
        raise UsageError(
            f"threads are drawn for layouts from {', '.join(PARTS)} to one or two dimensions; this one goes from "
            f"{', '.join(layout.in_sizes)} to {', '.join(layout.out_sizes)}"
        )
    values = np.meshgrid(*(np.arange(n) for n in layout.in_sizes.values()), indexing="ij")
    found = layout.apply(*(v.reshape(-1) for v in values))
    names, sizes = list(layout.in_sizes), list(layout.out_sizes.values())
    at = [np.asarray(found[name]) for name in layout.out_sizes]
    if len(at) == 1:
        at, sizes = [np.zeros_like(at[0]), at[0]], [1, *sizes]
    rows, columns = (min(n, MOST_CELLS) for n in sizes)
    held: dict[tuple[int, int], list[dict[str, int]]] = {}
    flat = [v.reshape(-1) for v in values]
    for number in range(len(flat[0])):
        place = int(at[0][number]), int(at[1][number])
        if place[0] < rows and place[1] < columns:
            held.setdefault(place, []).append({name: int(v[number]) for name, v in zip(names, flat, strict=True)})
    many_warps = layout.in_sizes.get("warp", 1) > 1
    cells = tuple(tuple(_holder((r, c), held.get((r, c), []), many_warps) for c in range(columns)) for r in range(rows))
    caption = ["T lane : register" + ("; w is the warp, which sets the colour" if many_warps else "")]
    if [rows, columns] != sizes:
        caption.append(f"the first {rows} x {columns} of {sizes[0]} x {sizes[1]} elements")
    if any(len(copies) > 1 for copies in held.values()):
        caption.append("+: further threads or registers hold the element too")
    return [GridPanel("threads of a tile", cells, tuple(caption))]


def _holder(place: tuple[int, int], copies: list[dict[str, int]], many_warps: bool) -> GridCell:
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


def matrix(layout: LinearLayout) -> list[GridPanel]:
    """The matrix over F2: a column for each input bit, a row for each output bit, grouped by their dimensions."""
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
