"""`lego-mlir analyze --cache`: what each order of the blocks hits and fetches, ranked.

The interpreter runs each kernel once and records every request to global memory; the simulator then replays the blocks
in each order on the caches of a chip. An order of threads is part of a kernel, so kernels of one spec are ranked
together: a spec with one kernel for each order of threads compares these.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lego_mlir.aliases import Array, Json
from lego_mlir.cli import options
from lego_mlir.cli.progress import Progress
from lego_mlir.cli.terminal import ResultTable
from lego_mlir.errors import SpecError, UsageError
from lego_mlir.runtime.manifest import sizes_of

if TYPE_CHECKING:
    from lego_mlir.caches.simulation import Simulated
    from lego_mlir.caches.time_model import Chip
    from lego_mlir.caches.workloads import Workload
    from lego_mlir.layout.base import Layout
    from lego_mlir.spec import Spec
    from lego_mlir.tracing.definition.kernel import Kernel

LAUNCHED: Final = "launched"
IDLE: Final = ("layout", "access", "free", "dtype", "width")
WIDE: Final = ("columns", "zigzag", "grouped")
"""Orders that take a width or a number of rows: `columns:32`."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """`--cache`, `--order`, `--chip` and `--diagram`."""
    parser.add_argument("--cache", action="store_true", help="simulate the caches instead, and rank orders of blocks")
    parser.add_argument(
        "--order", metavar="ORDER", action="append", default=[],
        help="an order of the blocks: a layout of the spec, or a name such as columns:8, grouped:4, morton",
    )  # fmt: skip
    parser.add_argument("--chip", help="the chip whose caches to simulate (default: h200)")
    parser.add_argument(
        "--diagram",
        metavar="FILE",
        help="also draw the lines that each warp reads, as .svg or .png: one kernel, one order",
    )


def refuse_idle(args: argparse.Namespace) -> None:
    """Raise UsageError for an option that only `--cache` uses, or that it does not use."""
    if not args.cache:
        for name in ("order", "chip", "diagram"):
            if getattr(args, name):
                raise UsageError(f"--{name} applies to the simulation of caches; add --cache")
        return
    if args.html:
        raise UsageError("--html writes the counts of lines, which --cache does not make; omit one of them")
    for option in IDLE:
        if getattr(args, option) not in (None, []):
            raise UsageError(f"--{option} applies to a layout, and --cache simulates kernels; omit one of them")


def results(args: argparse.Namespace) -> list[Json]:
    """The simulated orders of the chosen kernels, fewest sectors fetched by L1 first."""
    from lego_mlir import spec
    from lego_mlir.caches import time_model
    from lego_mlir.tracing.definition.kernel import Kernel

    chip = time_model.chip_named(args.chip or time_model.REFERENCE_CHIP.name)
    loaded = spec.load(args.spec)
    kernels = loaded.runnable(args.kernel)
    if args.diagram:
        _require_one(args, len(kernels))
    variables = {id(kernel): name for name, kernel in loaded.kernels.items()}
    found: list[Json] = []
    with Progress(f"simulating {loaded.path.name}") as progress, spec.blame(*loaded.files):
        for kernel in kernels:
            if not isinstance(kernel, Kernel):
                raise UsageError(f"{kernel.name} is a program of several kernels; name one of them with --kernel NAME")
            workload, grid, threads = _recorded(args, kernel, progress)
            orders = list(_orders(args.order, loaded, grid, workload))  # a name that is none ends here
            for name, blocks in orders:
                progress.update(f"{kernel.name}, {name}")
                if args.diagram and name == (args.order or [LAUNCHED])[0]:
                    _draw(Path(args.diagram), f"{kernel.name}, {name}", workload, blocks, chip)
                simulated = _simulated(workload, blocks, threads, chip, progress)
                found.append(_row(variables.get(id(kernel), kernel.name), name, grid, chip, simulated))
    return sorted(found, key=lambda row: row["levels"][0]["fetched"])


def _recorded(args: argparse.Namespace, kernel: Kernel, progress: Progress) -> tuple[Workload, tuple[int, int], int]:
    """The requests of a kernel, its grid as (rows, columns) of blocks, and the threads of a block."""
    from lego_mlir import interp
    from lego_mlir.analysis.recorded_requests import RecordedTraces

    file = options.input_of(args, [kernel])
    from lego_mlir.runtime.kernel_input import make_input

    made = make_input(kernel, sizes_of(args.size), 0, file)
    traces = RecordedTraces(
        {name: memory.nbytes for name, memory in made.memories.items() if hasattr(memory, "nbytes")}
    )

    def finished(done: int, total: int) -> None:
        traces.finished(done, total)
        progress.update(f"{kernel.name}, blocks", done=done, total=total)

    report = interp.run_kernel(
        kernel,
        made.memories,
        made.sizes,
        module=options.transformed(args, (kernel,)),
        checks=False,
        blocks=None if args.blocks is None else range(args.blocks),
        observe=traces,
        progress=finished,
    )
    x, y, z = report.grid
    bx, by, bz = report.block
    grid = (y * z, x) if args.blocks is None else (1, args.blocks)
    return traces.workload(kernel.name, bx * by * bz), grid, bx * by * bz


def _orders(
    given: Sequence[str], loaded: Spec, grid: tuple[int, int], workload: Workload
) -> Iterator[tuple[str, Array | None]]:
    """Each order with the block that launch number t runs; the launched order first."""
    import numpy as np

    yield LAUNCHED, None
    for text in given:
        layout = _order(text, loaded, grid)
        _, columns = layout.dims()
        position = np.arange(int(layout.physical_size()))
        held = np.broadcast_to(np.asarray(layout.holds(position)), position.shape)
        y, x = layout.inv(position[held])
        yield text, np.asarray(y) * columns + np.asarray(x)


def _order(text: str, loaded: Spec, grid: tuple[int, int]) -> Layout:
    """The layout of the blocks that `--order` names. Raises UsageError, SpecError or LayoutError."""
    from lego_mlir import schedule

    name, _, number = text.partition(":")
    if text in loaded.layouts:
        layout = loaded.layouts[text]
        if tuple(layout.dims()) != grid:
            raise SpecError(f"--order {text}: the grid has {grid[0]} x {grid[1]} blocks, {text} is {layout!r}")
        return layout
    if number:
        if name not in WIDE or not number.isdigit() or int(number) < 1:
            raise UsageError(f"--order {text}: a number follows {', '.join(WIDE)}, such as columns:8")
        if name == "grouped":
            return schedule.grouped(*grid, rows=int(number))
        return schedule.columns(*grid, width=int(number), zigzag=name == "zigzag")
    return schedule.tile_order("--order", text, grid)


def _require_one(args: argparse.Namespace, kernels: int) -> None:
    """Raise UsageError unless `--diagram` has one kernel and at most one order, and names a picture."""
    from lego_mlir.viz import cache_diagram

    cache_diagram.require_suffix(Path(args.diagram))
    if kernels > 1 or len(args.order) > 1:
        raise UsageError(
            f"--diagram draws one order of one kernel, got kernels: {kernels}, orders: {len(args.order)}; choose with "
            "--kernel NAME and one --order"
        )


def _draw(path: Path, title: str, workload: Workload, blocks: Array | None, chip: Chip) -> None:
    """Write the diagram of a launch whose blocks run one after another on one SM."""
    from lego_mlir.analysis.recorded_requests import in_order
    from lego_mlir.caches import simulation, space_time
    from lego_mlir.viz import cache_diagram

    ordered = workload if blocks is None else in_order(workload, blocks)
    found = space_time.space_time(ordered, simulation.rows(ordered.width), chip.levels)
    cache_diagram.draw(found, f"{title}, on {chip.name}").save(path)


def _simulated(workload: Workload, blocks: Array | None, threads: int, chip: Chip, progress: Progress) -> Simulated:
    from lego_mlir.analysis.recorded_requests import in_order
    from lego_mlir.caches import placement, simulation

    count = -(-workload.tasks // threads)
    placed = placement.scattered(count, sms=chip.sms, slots=chip.resident(threads, 32))
    return simulation.simulate(
        workload if blocks is None else in_order(workload, blocks),
        simulation.rows(workload.width),
        threads,
        chip.levels,
        placement=placed,
        progress=lambda done, total: progress.update("blocks", done=done, total=total),
    )


def _row(kernel: str, order: str, grid: tuple[int, int], chip: Chip, found: Simulated) -> Json:
    from dataclasses import asdict

    return {
        "kernel": kernel,
        "order": order,
        "grid": list(grid),
        "chip": chip.name,
        "blocks": found.blocks,
        "instructions": found.instructions,
        "compulsory": found.compulsory,
        "written": found.written,
        "levels": [{**asdict(level), "hit_rate": level.hit_rate} for level in found.levels],
    }


def text(found: Sequence[Mapping[str, Any]]) -> list[str | ResultTable]:
    """The ranked orders as a table; sectors are of 32 bytes."""
    rows = []
    for row in found:
        l1, l2 = row["levels"]
        rows.append([
            f"{row['kernel']}, {row['order']}",
            f"{100 * l1['hit_rate']:.1f}%",
            l1["fetched"],
            f"{l1['fetched'] / max(row['compulsory'], 1):.2f}",
            f"{100 * l2['hit_rate']:.1f}%",
            l2["fetched"],
            row["compulsory"],
        ])  # fmt: skip
    header = (
        "kernel, order of blocks",
        "L1 hits",
        "L1 fetches",
        "of compulsory",
        "L2 hits",
        "L2 fetches",
        "compulsory",
    )
    first = f"caches of {found[0]['chip']}, sectors of 32 bytes, fewest fetched by L1 first"
    return [first, ResultTable(header, rows)]
