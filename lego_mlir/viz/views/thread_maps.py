"""Threads of a block by the element that each accesses at a line of a kernel: copies, `lego.stage`, `ldmatrix`.

The register of a thread is the number of the element among those that the thread accesses at the line. An element that
`ldmatrix` moves is drawn with the lane that receives it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from lego_mlir.analysis.kernel_repairs import guarded_accesses, lane_values, tile_access, unknown_data
from lego_mlir.analysis.repair import TileAccess
from lego_mlir.errors import UsageError
from lego_mlir.hardware.limits import WARP
from lego_mlir.layout.substitute import sizes_of, substitute
from lego_mlir.tracing.trace.trace import AsyncCopy, Atomic, MatrixLoad, Statement, Store, TensorAccess
from lego_mlir.viz.panels import GridPanel
from lego_mlir.viz.views.subjects import MOST_CELLS
from lego_mlir.viz.views.threads import Holder, Holders, tile_of_holders

if TYPE_CHECKING:
    from lego_mlir.tracing.definition.kernel import Kernel

ROWS: Final = 8
"""Of a matrix that `ldmatrix` moves."""
Element = tuple[tuple[int, ...], Holder]
"""The logical index of an element, and the register of the thread that accesses it."""


def of_kernel(kernel: Kernel, sizes: Mapping[str, int], line: int) -> list[GridPanel]:
    """A tile for each buffer that the line accesses, with the threads of the first block.

    Raises UsageError for a line without accesses, and where all of them depend on data or on sizes without a value.
    """
    statements = {id(access): statement for statement, access in kernel.trace().accesses()}
    warps = int(lane_values(kernel, sizes)[0]["x"].shape[0])
    drawn: dict[str, _Tile] = {}
    reasons = []
    for access, guards in guarded_accesses(kernel.trace().body):
        if access.source.line != line:
            continue
        if reason := _obstacle(kernel, access, sizes):
            reasons.append(reason)
            continue
        layout = substitute(access.buffer.layout, {name: sizes[name] for name in sizes_of(access.buffer.layout)})
        placed = replace(access, buffer=replace(access.buffer, layout=layout))
        use, statement = tile_access(kernel, placed, sizes, guards), statements[id(access)]
        name = f"{_direction(statement, access)} of {access.buffer.name}"
        tile = drawn.setdefault(name, _Tile(tuple(map(int, layout.dims()))))
        tile.add(_received(use, warps, statement) if isinstance(statement, MatrixLoad) else _accessed(use, warps))
    if not drawn:
        why = reasons[0] if reasons else f"line {line} has no such access; lego-mlir analyze lists the lines"
        raise UsageError(f"kernel {kernel.name}: {why}")
    return [tile.panel(f"threads of the {name}, line {line}", warps > 1) for name, tile in drawn.items()]


class _Tile:
    """The holders of the elements of a buffer, over several accesses. A long line of elements is drawn in rows."""

    def __init__(self, dims: tuple[int, ...]) -> None:
        self.folded = len(dims) == 1 and dims[0] > MOST_CELLS
        self.dims = (-(-dims[0] // MOST_CELLS), MOST_CELLS) if self.folded else dims
        self.held: Holders = {}
        self._registers = 0

    def add(self, elements: Iterator[Element]) -> None:
        """The elements of one more access; its registers follow those of the others."""
        first, last = self._registers, self._registers
        for at, holder in elements:
            index = divmod(at[0], MOST_CELLS) if self.folded else at
            row = int(np.ravel_multi_index(index[:-1], self.dims[:-1])) if len(index) > 1 else 0
            register = first + holder["register"]
            self.held.setdefault((row, index[-1]), []).append({**holder, "register": register})
            last = max(last, register + 1)
        self._registers = last

    def panel(self, title: str, many_warps: bool) -> GridPanel:
        notes = [f"rows of {MOST_CELLS} elements"] if self.folded else []
        return tile_of_holders(title, self.held, (math.prod(self.dims[:-1]), self.dims[-1]), many_warps, *notes)


def _direction(statement: Statement, access: TensorAccess) -> str:
    match statement:
        case Store():
            return "write"
        case Atomic():
            return "update"
        case AsyncCopy(target=target) if target is access:
            return "write"
        case _:
            return "read"


def _obstacle(kernel: Kernel, access: TensorAccess, sizes: Mapping[str, int]) -> str:
    """Why the elements of an access are not known without a run; empty if they are."""
    name = access.buffer.name
    missing = [size for size in sizes_of(access.buffer.layout) if size not in sizes]
    if missing:
        return f"{name} has symbolic sizes; give sizes={{{', '.join(f'{size!r}: 64' for size in missing)}}}"
    unknown = unknown_data(kernel.trace(), access.position, sizes)
    return f"the position in {name} depends on {unknown}" if unknown else ""


def _accessed(use: TileAccess, warps: int) -> Iterator[Element]:
    """The elements that each thread accesses. Rows of the access are the warps of one loop iteration after another."""
    active = np.ones(use.index[0].shape, bool) if use.active is None else use.active
    for row, lane in np.argwhere(active).tolist():
        *outer, last = (int(axis[row, lane]) for axis in use.index)
        for step in range(use.width):
            register = row // warps * use.width + step
            yield (*outer, last + step), {"register": register, "lane": lane, "warp": row % warps}


def _received(use: TileAccess, warps: int, load: MatrixLoad) -> Iterator[Element]:
    """The elements that each lane receives of 8x8 matrices: a word of row l / 4, or, transposed, of column l / 4.

    Lane 8 m + r passes the address of row r of matrix m (PTX ISA, "ldmatrix").
    """
    assert isinstance(load.result.width, tuple)
    matrices, in_word = load.result.width
    for row, m, lane, k in np.ndindex(use.index[0].shape[0], matrices, WARP, in_word):
        down, along = lane // 4, in_word * (lane % 4) + k
        if load.transposed:
            down, along = along, down
        *outer, last = (int(axis[row, ROWS * m + down]) for axis in use.index)
        register = (row // warps * matrices + m) * in_word + k
        yield (*outer, last + along), {"register": register, "lane": lane, "warp": row % warps}
