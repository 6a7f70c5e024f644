"""A kernel: its report line by line, the stages to PTX with their sizes, its requests in time, its repairs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from lego_mlir.analysis.recorded_requests import RecordedRequests
from lego_mlir.expr.explain import shortened
from lego_mlir.hardware.limits import WARP
from lego_mlir.hardware.memory import SECTOR_BYTES
from lego_mlir.viz import palettes
from lego_mlir.viz.panels import GridCell, GridPanel, Panel, TablePanel
from lego_mlir.viz.views import repairs
from lego_mlir.viz.views.kernel_line import LineRecorder, used_bytes

if TYPE_CHECKING:
    from lego_mlir.hardware.banks import Array
    from lego_mlir.interp.counters import Observe
    from lego_mlir.interp.report import Report, Site
    from lego_mlir.runtime.inputs import InputFile
    from lego_mlir.tracing.definition.kernel import Kernel

BLOCKS: Final = 8
"""Of a kernel that are run to draw its requests."""
MOST_REQUESTS: Final = 32
_INDEX: Final = re.compile(r"(?:arith|index|affine)\.")
_OPERATION: Final = re.compile(
    r"^\s*(?:%[\w#:, %]+ = )?\"?[a-z_]\w*\.[\w.]+|^\s*(?:%[\w.]+ = )?[a-z]\w*[ .(]", re.ASCII
)


def report_table(report: Report) -> TablePanel:
    """Each line that accesses memory, with its counts; faults in the caption."""
    rows = [
        (
            site.place, f"{site.kind} of {site.buffer}",
            *((site.wavefronts, site.wavefronts - site.conflicts) if site.space == "shared" else ("", "")),
            *((site.sectors, site.ideal_sectors) if site.space == "global" else ("", "")),
        )
        for site in report.by_line()
    ]  # fmt: skip
    header = ("line", "access", "wavefronts", "at best", "sectors", "at best")
    faults = [str(fault) for fault in report.faults[:8]] or ["no fault"]
    found = TablePanel.of(f"kernel {report.kernel}", header, rows, *faults)
    costly = {
        (i, column): palettes.HEAT.at(0.25)
        for i, site in enumerate(report.by_line())
        for column, more in ((2, site.conflicts), (4, site.space == "global" and site.sectors > site.ideal_sectors))
        if more
    }
    return TablePanel(found.title, found.header, found.rows, found.caption, costly)


def accesses_table(kernel: Kernel) -> TablePanel:
    """Each access of the trace: its line, logical index, the position derived from it, and the operations of that."""
    rows = [
        (
            access.source.line,
            f"{type(statement).__name__.lower()} {access.buffer.name}[{', '.join(map(str, access.index))}]",
            shortened(access.position, 70), access.width, access.derivation.before, access.derivation.after,
        )
        for statement, access in kernel.trace().accesses()
    ]  # fmt: skip
    header = ("line", "access", "position", "elements", "operations before", "after")
    return TablePanel.of(f"kernel {kernel.name}", header, rows or [("",) * 6])


def stages_table(kernel: Kernel, target: str = "sm_80", script: str | None = None) -> TablePanel:
    """The stages from MLIR to PTX: lines of text, operations, and those among them that compute indices in MLIR."""
    from lego_mlir.hardware.targets import target_named
    from lego_mlir.toolchain.stages import STAGES, Settings, run_stage
    from lego_mlir.transforms import scripts

    settings = Settings(target=target_named(target), script=None if script is None else scripts.read(script))
    text, rows = kernel.mlir().encode(), []
    for stage in STAGES[: [s.name for s in STAGES].index("ptx") + 1]:
        text = run_stage(stage, text, settings, kernel.name)
        lines = [line for line in text.decode().splitlines() if line.strip()]
        operations = [line for line in lines if _is_operation(line, stage.suffix)]
        index = sum(bool(_INDEX.search(line)) for line in operations) if stage.suffix == ".mlir" else ""
        rows.append((stage.name, len(lines), len(operations), index))
    return TablePanel.of(
        f"{kernel.name}: from MLIR to PTX for {target}{f' by {script}' if script else ''}",
        ("stage", "lines", "operations", "index"),
        rows,
    )


def _is_operation(line: str, suffix: str) -> bool:
    """Whether a line is one operation: of MLIR, LLVM IR or PTX."""
    text = line.strip()
    if suffix == ".ptx":
        return text.endswith(";") and not text.startswith((".", "//"))
    if suffix == ".ll":
        return line.startswith("  ") and not text.startswith(";")
    return bool(_OPERATION.match(line)) and not text.startswith(("module", "gpu.module", "gpu.func", "llvm.func"))


class RequestSeries:
    """The first requests of one warp at one source line, in time; pass it as `observe`."""

    def __init__(self, line: int) -> None:
        self.line = line
        self.seen: dict[tuple[str, str], list[tuple[Array, Array, int]]] = {}

    def __call__(self, site: Site, address: Array, active: Array | None, width: int) -> None:
        """Keep the request of the first warp of the first block."""
        if site.place.line != self.line or site.space != "global":
            return
        taking = np.ones(address.shape, bool) if active is None else np.broadcast_to(active, address.shape)
        kept = self.seen.setdefault((site.kind, site.buffer), [])
        if len(kept) < MOST_REQUESTS:
            kept.append((address.reshape(-1, WARP)[0].copy(), taking.reshape(-1, WARP)[0].copy(), width))

    def grids(self) -> list[GridPanel]:
        """A grid for each buffer: a row for each request, a column for each lane, the sector fetched in each cell."""
        return [_in_time(f"{kind} of {buffer}, line {self.line}", kept) for (kind, buffer), kept in self.seen.items()]


def _in_time(title: str, kept: list[tuple[Array, Array, int]]) -> GridPanel:
    first: dict[int, int] = {}
    rows, labels, asked = [], [], 0
    for time, (address, taking, width) in enumerate(kept):
        sectors = (address // SECTOR_BYTES).tolist()
        row = []
        for lane in range(WARP):
            if not taking[lane]:
                row.append(GridCell(""))
                continue
            is_new = first.setdefault(sectors[lane], time) == time
            colour = palettes.HEAT.at(0.45) if is_new else palettes.BLUES.at(0.3)
            tip = f"request {time}, lane {lane}: {width} bytes of sector {sectors[lane]}"
            row.append(GridCell("", colour, tip, mark="+" if is_new else "."))
        rows.append(tuple(row))
        labels.append(f"{time}: {sum(at == time for at in first.values())} new")
        asked += len({sector for sector, takes in zip(sectors, taking, strict=True) if takes})
    fetched, width = len(first) * SECTOR_BYTES, kept[0][2]
    addresses, active = (np.concatenate(parts) for parts in zip(*((a, t) for a, t, _ in kept), strict=True))
    used = used_bytes(addresses, active, width)
    caption = (
        "a row is a request of the first warp, with its new sectors; a column is a lane",
        f"orange, +: {len(first)} sectors of {SECTOR_BYTES} bytes fetched first here; blue, .: by an earlier request",
        f"{len(kept)} requests ask for {asked} sectors: a cache that keeps them all fetches {len(first)}, and "
        f"{used} of their {fetched} bytes are used",
    )
    return GridPanel(title, tuple(rows), caption, row_labels=tuple(labels))


@dataclass(frozen=True, slots=True)
class SampleRun:
    """Some blocks of a kernel, run on drawn input or on the arrays of a `file`, at given `sizes`."""

    kernel: Kernel
    sizes: Mapping[str, int] = field(default_factory=dict)
    file: InputFile | None = None

    def observed(self, observer: Observe) -> Mapping[str, int]:
        """Run with an observer of the requests. Returns the sizes of the run."""
        from lego_mlir.interp import run_kernel
        from lego_mlir.runtime.kernel_input import make_input

        made = make_input(self.kernel, self.sizes, 0, self.file)
        run_kernel(self.kernel, made.memories, made.sizes, blocks=BLOCKS, observe=observer)
        return made.sizes


def requests_of(run: SampleRun, line: int, by: str) -> list[GridPanel]:
    """The worst request of a line for each buffer, or with by="time" the first ones."""
    recorder = RequestSeries(line) if by == "time" else LineRecorder(line)
    run.observed(recorder)
    return recorder.grids()


def repairs_of(run: SampleRun, line: int | None) -> list[Panel]:
    """The tiles that a line accesses, or all, before and after their repair."""
    recorded = RecordedRequests()
    sizes = run.observed(recorded)
    return repairs.of_kernel(run.kernel, sizes, line, recorded)
