"""The results of a run as plain values: faults, counts for each access site, and totals.

A *fault* is something a correct kernel never does. A kernel with a race often computes the right values, in the
interpreter and on the GPU; faults are therefore detected from accesses, not from results. A *site* is one operation
that accesses memory; a source line may have several (an unrolled loop has one for each copy).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from lego_mlir.aliases import Array


@dataclass(frozen=True, slots=True, order=True)
class SourceLocation:
    """The file, line and column of an operation in the source."""

    file: str
    line: int
    column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class LoopRound:
    """A round of a loop, counted from 0."""

    loop: SourceLocation
    number: int

    def __str__(self) -> str:
        return f"round {self.number} of the loop of line {self.loop.line}"


WARP_LANES: Final = 32
SHOWN_LINES, FEW_LANES = 8, 16
"""The lines of a summary of those whose branches divide warps, or in whose instructions fewer lanes take part."""


class Kind(Enum):
    """The faults that the interpreter detects."""

    OUT_OF_BOUNDS = "out of bounds"
    UNINITIALISED = "uninitialised read"
    RACE = "race"
    BARRIER = "barrier not reached by every thread"
    PENDING = "asynchronous copy not waited for"
    MISALIGNED = "misaligned vector access"
    SHUFFLE = "shuffle from an inactive lane"
    UNDEFINED = "undefined arithmetic"
    ASSERTION = "failed assertion"
    DEADLOCK = "deadlock"
    UNFENCED = "missing fence"
    MBARRIER = "mbarrier misuse"
    REGISTERS = "register allocation"
    ENDED = "shared memory of a block that ended"
    LEAK = "memory that was not freed"
    TENSOR_MEMORY = "tensor memory misuse"
    NONFINITE = "NaN or infinity from finite operands"
    OVERFLOW = "integer overflow in an address"


def names_other_block(message: str) -> bool:
    """Whether the other thread that a message names is of another block."""
    return any(words in message for words in (" of block ", " of other blocks"))


@dataclass(slots=True)
class Fault:
    """One kind of fault at one location: the first lane affected, and the number of lane accesses in all.

    `block` and `thread` are (x, y, z); `address` is the element index within the buffer that the message names;
    `rounds` are those of the loops around `place`, the outermost first.
    """

    kind: Kind
    message: str
    place: SourceLocation
    block: tuple[int, int, int]
    thread: tuple[int, int, int]
    address: int | None = None
    other: SourceLocation | None = None
    count: int = 1
    buffer: str = ""
    rounds: tuple[LoopRound, ...] = ()

    @property
    def location(self) -> str:
        return str(self.place)

    @property
    def across_blocks(self) -> bool:
        """Whether the other thread is of another block."""
        return names_other_block(self.message)

    def to_dict(self) -> dict[str, Any]:
        """What `--json` prints."""
        return {
            "kind": self.kind.value, "message": self.message, "file": self.place.file, "line": self.place.line,
            "block": self.block, "thread": self.thread, "buffer": self.buffer, "address": self.address,
            "count": self.count,
            "other": None if self.other is None else str(self.other),
            **({"rounds": [{"line": r.loop.line, "round": r.number} for r in self.rounds]} if self.rounds else {}),
        }  # fmt: skip

    def __str__(self) -> str:
        times = "" if self.count == 1 else f" ({self.count} times in all)"
        return f"{self.place}: {self.kind.value}: {self.message}, block {self.block}, thread {self.thread}{times}"


@dataclass(slots=True)
class Site:
    """The traffic of one access operation, summed over all warps of all blocks that ran.

    `requests` counts warp-level instructions. Shared memory: `wavefronts` against `ideal_wavefronts`. Global memory:
    32-byte `sectors` against `ideal_sectors`, the fewest that could hold the distinct bytes of each request. Atomic
    updates of one element by several lanes of a warp are serialised: `rounds` sums the most lanes at one element over
    all requests, `worst_sharing` is the most of any. `remedy` is a placement with fewer bank conflicts, `remedied` the
    wavefronts with it.
    """

    place: SourceLocation
    operation: str
    buffer: str
    space: str
    kind: str
    width: int
    requests: int = 0
    lanes: int = 0
    lane_bytes: int = 0
    wavefronts: int = 0
    ideal_wavefronts: int = 0
    worst_wavefronts: int = 0
    worst_lanes: tuple[int, ...] = ()
    worst_bank: int | None = None
    sectors: int = 0
    ideal_sectors: int = 0
    widest: int | None = None
    rounds: int = 0
    worst_sharing: int = 0
    remedy: str = ""
    remedied: int = 0

    @property
    def conflicts(self) -> int:
        """Wavefronts beyond the fewest that the request's width needs."""
        return self.wavefronts - self.ideal_wavefronts

    @property
    def ways(self) -> int:
        """Wavefronts of the worst pass of a warp: 1 is free of conflicts, 32 is the maximum."""
        return self.worst_wavefronts

    @property
    def coalescing(self) -> float:
        """The fraction of the moved sectors that the requests needed: 1.0 if coalesced, 0.125 for one f32 a sector."""
        return self.ideal_sectors / self.sectors if self.sectors else 1.0

    def merge(self, other: Site) -> Site:
        """The sum of the two sites' traffic, as one row for their common line."""
        worst = self if self.worst_wavefronts >= other.worst_wavefronts else other
        widths = [w for w in (self.widest, other.widest) if w is not None]
        return Site(
            self.place, self.operation, self.buffer, self.space, self.kind, min(self.width, other.width),
            self.requests + other.requests, self.lanes + other.lanes, self.lane_bytes + other.lane_bytes,
            self.wavefronts + other.wavefronts, self.ideal_wavefronts + other.ideal_wavefronts,
            worst.worst_wavefronts, worst.worst_lanes, worst.worst_bank,
            self.sectors + other.sectors, self.ideal_sectors + other.ideal_sectors, min(widths, default=None),
            self.rounds + other.rounds, max(self.worst_sharing, other.worst_sharing), self.remedy or other.remedy,
            (self.remedied or self.wavefronts) + (other.remedied or other.wavefronts),
        )  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """What `--json` prints."""
        return {
            "file": self.place.file, "line": self.place.line, "operation": self.operation, "buffer": self.buffer,
            "space": self.space, "kind": self.kind, "width": self.width, "widest": self.widest,
            "requests": self.requests, "lanes": self.lanes, "lane_bytes": self.lane_bytes,
            "wavefronts": self.wavefronts, "conflicts": self.conflicts, "ways": self.ways,
            "worst_lanes": list(self.worst_lanes), "worst_bank": self.worst_bank,
            "sectors": self.sectors, "ideal_sectors": self.ideal_sectors, "coalescing": self.coalescing,
            **({"rounds": self.rounds, "worst_sharing": self.worst_sharing} if self.rounds else {}),
            **({"remedy": self.remedy, "remedied": self.remedied} if self.remedy else {}),
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class BufferTraffic:
    """One kernel argument: bytes moved in sectors, and its compulsory traffic (each byte once)."""

    name: str
    moved: int
    compulsory: int


@dataclass(frozen=True, slots=True)
class LastWrite:
    """The last write of an element: block, thread and source location."""

    block: tuple[int, int, int]
    thread: tuple[int, int, int]
    place: SourceLocation


@dataclass(slots=True)
class LineMix:
    """What a line executes: instructions of warps by kind, the lanes that took part, branches that divided a warp."""

    place: SourceLocation
    kinds: dict[str, int] = field(default_factory=dict)
    lanes: int = 0
    divided: int = 0

    def add(self, kind: str, warps: int, lanes: int) -> None:
        """Count an instruction of some warps."""
        self.kinds[kind] = self.kinds.get(kind, 0) + warps
        self.lanes += lanes

    @property
    def instructions(self) -> int:
        return sum(self.kinds.values())

    @property
    def lanes_each(self) -> float:
        """The lanes that take part in an instruction, of 32."""
        return self.lanes / max(self.instructions, 1)

    def merge(self, other: LineMix) -> LineMix:
        """The counts of both, at the first's place."""
        kinds = {name: self.kinds.get(name, 0) + other.kinds.get(name, 0) for name in {**self.kinds, **other.kinds}}
        return LineMix(self.place, kinds, self.lanes + other.lanes, self.divided + other.divided)

    def to_dict(self) -> dict[str, Any]:
        """What `--json` prints."""
        return {
            "file": self.place.file, "line": self.place.line, "instructions": self.instructions, "kinds": self.kinds,
            "lanes_each": self.lanes_each, "divided": self.divided,
        }  # fmt: skip

    def __str__(self) -> str:
        kinds = ", ".join(f"{count} {name}" for name, count in sorted(self.kinds.items(), key=lambda kind: -kind[1]))
        divided = f"; {self.divided} branches divide a warp" if self.divided else ""
        lanes = "" if self.lanes_each == WARP_LANES else f", {self.lanes_each:.1f} lanes each"
        return f"{self.instructions} instructions of warps ({kinds}){lanes}{divided}"


@dataclass(slots=True)
class Report:
    """The report of a launch. `clean` is True if there are no faults; `str()` gives a readable summary.

    `printed` is what `gpu.printf` wrote.
    """

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    blocks_run: int
    faults: list[Fault]
    sites: list[Site]
    buffers: list[BufferTraffic]
    shadows: Mapping[int, Any] = field(default_factory=dict, repr=False)
    printed: str = ""
    mix: list[LineMix] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        return not self.faults

    def to_dict(self) -> dict[str, Any]:
        """What `--json` prints."""
        return {
            "kernel": self.kernel, "grid": self.grid, "block": self.block, "blocks_run": self.blocks_run,
            "faults": [fault.to_dict() for fault in self.faults],
            "sites": [site.to_dict() for site in self.by_line()],
            "buffers": [{"name": b.name, "moved": b.moved, "compulsory": b.compulsory} for b in self.buffers],
            **({"printed": self.printed} if self.printed else {}),
            **({"mix": [line.to_dict() for line in self.mix_by_line()]} if self.mix else {}),
        }  # fmt: skip

    def kinds(self) -> set[Kind]:
        return {fault.kind for fault in self.faults}

    def by_line(self) -> list[Site]:
        """One row per source line, buffer and direction: the unrolled copies of an access summed."""
        rows: dict[tuple[SourceLocation, str, str], Site] = {}
        for site in self.sites:
            key = (SourceLocation(site.place.file, site.place.line), site.buffer, site.kind)
            rows[key] = rows[key].merge(site) if key in rows else site
        return [rows[key] for key in sorted(rows, key=lambda key: (key[0], key[1], key[2]))]

    def mix_by_line(self) -> list[LineMix]:
        """One row per source line."""
        rows: dict[tuple[str, int], LineMix] = {}
        for line in self.mix:
            key = line.place.file, line.place.line
            rows[key] = rows[key].merge(line) if key in rows else line
        return [rows[key] for key in sorted(rows) if rows[key].instructions]

    @property
    def totals(self) -> Totals:
        return Totals.of(self.sites, self.buffers)

    def writer(self, argument: int, element: int) -> LastWrite | None:
        """The block and thread that last wrote `element` of a kernel argument, or None."""
        shadow = self.shadows.get(argument)
        return None if shadow is None else shadow.writer(element)

    def written(self, argument: int) -> Array | None:
        """Which elements of a kernel argument were written, as a boolean array; None if it was not tracked."""
        shadow = self.shadows.get(argument)
        return None if shadow is None else shadow.written()

    def __str__(self) -> str:
        where = f"of {self.block} in a grid of {self.grid}"
        if self.blocks_run > math.prod(self.grid):  # the blocks of all launches of a host program
            where = "in the kernels that it launches"
        lines = [f"{self.kernel}: {self.blocks_run} blocks {where}"]
        lines += [f"  | {line}" for line in self.printed.splitlines()]
        lines += [f"  {fault}" for fault in self.faults] or ["  no faults"]
        lines += [f"  {site.place}: {describe(site)}" for site in self.by_line()]
        divided = [line for line in self.mix_by_line() if line.divided or line.lanes_each < FEW_LANES]
        costly = sorted(divided, key=lambda line: -line.instructions)[:SHOWN_LINES]
        lines += [f"  {line.place}: {line}" for line in sorted(costly, key=lambda line: line.place)]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Totals:
    """The whole launch in one row."""

    wavefronts: int
    conflicts: int
    sectors: int
    ideal_sectors: int
    moved: int
    compulsory: int
    ldmatrix: int

    @classmethod
    def of(cls, sites: Iterable[Site], buffers: Iterable[BufferTraffic]) -> Totals:
        sites, buffers = list(sites), list(buffers)
        return cls(
            wavefronts=sum(s.wavefronts for s in sites),
            conflicts=sum(s.conflicts for s in sites),
            sectors=sum(s.sectors for s in sites),
            ideal_sectors=sum(s.ideal_sectors for s in sites),
            moved=sum(b.moved for b in buffers),
            compulsory=sum(b.compulsory for b in buffers),
            ldmatrix=sum(s.requests for s in sites if s.operation == "nvgpu.ldmatrix"),
        )


def describe(site: Site) -> str:
    """A one-line description of a site."""
    who = f"{site.kind} of {site.buffer}"
    if site.rounds:
        shared = "no two lanes of a warp update one element"
        if site.worst_sharing > 1:
            shared = f"up to {site.worst_sharing} lanes of a warp update one element, {site.rounds} rounds"
        return f"{who}: {site.lanes} updates in {site.requests} requests, {shared}"
    if site.space == "shared":
        if not site.conflicts:
            return f"{who}: {site.wavefronts} wavefronts, no bank conflict"
        remedy = f"; remedy: {site.remedy}: {site.wavefronts} -> {site.remedied} wavefronts" if site.remedy else ""
        counted = f"{site.wavefronts} wavefronts where {site.ideal_wavefronts} do"
        return f"{who}: {site.ways}-way bank conflict, {counted}{remedy}"
    wide = "" if site.widest in (None, site.width) else f"; {site.width} bytes a lane, {site.widest} possible"
    return f"{who}: {site.sectors} sectors, {100 * site.coalescing:.0f}% needed{wide}"
