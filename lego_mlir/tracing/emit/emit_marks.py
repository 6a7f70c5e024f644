"""Warp roles and tile copies as MLIR: branches and regions that carry their meaning as attributes.

    role         scf.if of its threads            {lego.warps = array<i32: first, end>, lego.registers = 232 : i32}
    tile copy    scf.execute_region               {lego.tile_copy = {tensor map, boxes}}
    of_block     builtin.unrealized_conversion_cast %tile, %rank      {lego.of_block}

The region of a tile copy holds the copy by the threads, which is its meaning: without the attribute it still computes
the same. It yields what the tensor copy unit takes: the index of the box's first element in the tensor, the dimensions
of the map innermost first; the position of the tile's first element in the shared tile; the number of the thread's warp
among those that share the copy; for a copy to several blocks, the mask of these; and for one with an edge, the size of
the tensor along the rows, where the tile begins there, and the steps since then, less the stages.
"""

from __future__ import annotations

from typing import Final

from lego_mlir import bindings
from lego_mlir.aliases import Attribute, Expr, Op, Value
from lego_mlir.errors import LayoutError
from lego_mlir.hardware.limits import WARP
from lego_mlir.printers.mlir import MlirPrinter
from lego_mlir.tracing.emit.tile_units import CopyUnit, copy_unit
from lego_mlir.tracing.trace.marks import TileCopy, WarpRole
from lego_mlir.tracing.trace.trace import Barrier, If, KernelTrace
from lego_mlir.transforms.kernel_facts import map_attribute

WARPS: Final = "lego.warps"
REGISTERS: Final = "lego.registers"
TILE_COPY: Final = "lego.tile_copy"
REGION: Final = "scf.execute_region"
OF_BLOCK: Final = "lego.of_block"
AGAIN: Final = "lego.again"
"""Of a copy of elements that another copy, to another block, reads by the same request."""
CAST: Final = "builtin.unrealized_conversion_cast"


def role_attributes(role: WarpRole) -> dict[str, str]:
    """The attributes of the branch of a role."""
    found = {WARPS: f"array<i32: {role.first}, {role.end}>"}
    if role.registers is not None:
        found[REGISTERS] = f"{role.registers} : i32"
    return found


def emit_barrier(printer: MlirPrinter, barrier: Barrier) -> None:
    """A barrier of the block, or of a role's warps by number and count of threads."""
    build = printer.build
    if barrier.role is None:
        build.operation("gpu.barrier")
        return
    number = printer.value(barrier.number, "i32")
    threads = build.constant(barrier.role.warps * WARP, "i32")
    bindings.load().dialect("nvvm").BarrierOp(barrierId=number, numberOfThreads=threads)


def emit_peer(printer: MlirPrinter, own: Value, rank: Expr) -> Value:
    """The memref of a shared tile in another block of the cluster."""
    number = printer.value(rank, "index")
    return printer.build.value(CAST, (own, number), str(own.type), {OF_BLOCK: "unit"})


def tile_copies(trace: KernelTrace) -> list[TileCopy]:
    """The tile copies of a kernel."""
    return [s.mark for s in trace.statements() if isinstance(s, If) and isinstance(s.mark, TileCopy)]


def copy_region(printer: MlirPrinter, trace: KernelTrace, copy: TileCopy) -> tuple[Op, list[Value]]:
    """The region of a copy, without a block yet, and the values that it yields."""
    build = printer.build
    try:
        unit = copy_unit(trace, copy)
        axes, edge = unit.axes, unit.edge
        described = _described(copy, unit)
    except LayoutError as error:
        edge = None
        axes = tuple(reversed(range(len(copy.at))))
        described = f'{{refused = "{_escaped(str(error))}"}}'
    values = [printer.value(copy.at[axis], "index") for axis in axes]
    values += [printer.value(copy.position, "index"), printer.value(copy.warp, "index")]
    values += [] if copy.blocks is None else [printer.value(copy.blocks, "index")]
    values += [] if edge is None else [printer.value(i, "index") for i in (edge.size, edge.begin, edge.since)]
    attributes: dict[str, str | Attribute] = {TILE_COPY: described}
    region = build.operation(REGION, (), ["index"] * len(values), attributes, regions=1)
    return region, values


def _described(copy: TileCopy, unit: CopyUnit) -> str:
    """The tensor map and boxes as an attribute."""
    places = [n for (first, other), byte in unit.boxes.places for n in (first, other, byte)]
    other = next(k for k, axis in enumerate(unit.axes) if axis == (2 * len(unit.axes) - 3) - unit.axes[0])
    more = f'places = array<i64: {", ".join(map(str, places))}>, other = {other} : i64, tensor = "{copy.tensor.name}"'
    more += ", adds" if copy.adds else ""
    more += (
        "" if copy.blocks is None else f", multicast, mutual = {copy.mutual} : i64" if copy.mutual else ", multicast"
    )
    return map_attribute(unit.tensor_map, copy.stores, f", {more}")


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', "'").replace("\n", " ")
