"""The tuning table of the matrix product: tile, stages and tile order by problem size.

`bench/matmul.py` generates the table. Its basis is "measured", on the device that it names, or "static", from the
registers, the shared memory and the instructions of each kernel, without a device. A row holds the sizes that it was
tuned for; other sizes take the nearest row, by log2 of the sizes, adapted to their depth and target.

>>> table = load()
>>> choose(table, 4096, 4096, 4096, "NN", shared_bytes=227 * 1024).tiling.threads
256
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any, Final

from lego_mlir.errors import SpecError, UsageError
from lego_mlir.kernels.matmul import LEAST_STEPS, OUT_PAD, Tiling
from lego_mlir.tracing.dtypes import f32

FORMAT: Final = 2
FILE: Final = "matmul_choices.json"
LAYOUTS: Final = ("NN", "NT", "TN", "TT")
BYTES: Final = 2  # of an element of A or B
LEAST_STAGES: Final = 2


@dataclass(frozen=True, slots=True)
class Choice:
    """A kernel of the family. It is persistent with `resident` blocks per SM; with 0, there is one block per tile."""

    tiling: Tiling
    stages: int
    order: str = "grouped"
    resident: int = 0

    def shared_bytes(self, element: int = f32.bytes) -> int:
        """Shared memory of a block: its staged tiles, and the tile of C with `element` bytes per element.

        The tile of C reuses the staged tiles' memory, except in a persistent block, which prefetches its next tiles.
        """
        t = self.tiling
        staged = self.stages * (t.m + t.n) * t.k * BYTES
        result = (t.m + OUT_PAD) * (t.n + OUT_PAD) * element
        return staged + result if self.resident else max(staged, result)

    def blocks(self, multiprocessors: int) -> int | None:
        """The number of blocks of a persistent kernel; None otherwise."""
        return self.resident * multiprocessors or None

    def __str__(self) -> str:
        persistent = f", {self.resident} resident" if self.resident else ""
        return f"{self.tiling}, {self.stages} stages, {self.order}{persistent}"

    def to_data(self) -> dict[str, Any]:
        """The choice as JSON data."""
        t = self.tiling
        return {
            "tile": [t.m, t.n, t.k], "warps": list(t.warps), "stages": self.stages, "order": self.order,
            "resident": self.resident,
        }  # fmt: skip


def choice_from(data: dict[str, Any]) -> Choice:
    """The choice from JSON data."""
    (m, n, k), warps = data["tile"], data["warps"]
    return Choice(Tiling(m, n, k, (warps[0], warps[1])), data["stages"], data["order"], data["resident"])


# The benchmark's candidates, largest first: the tile of C and its step along K, the warps, and the stages.
CANDIDATES: Final = (
    Choice(Tiling(128, 256, 64, (2, 4)), 4),
    Choice(Tiling(128, 256, 64, (2, 4)), 3, resident=1),
    Choice(Tiling(256, 128, 64, (4, 2)), 4),
    Choice(Tiling(256, 128, 64, (4, 2)), 3, resident=1),
    Choice(Tiling(128, 128, 64, (2, 2)), 3),
    Choice(Tiling(128, 64, 64, (2, 2)), 4),
    Choice(Tiling(64, 128, 128, (2, 2)), 3),
    Choice(Tiling(64, 128, 64, (2, 2)), 4),
    Choice(Tiling(64, 128, 64, (1, 4)), 4),
    Choice(Tiling(64, 64, 64, (2, 2)), 4),
    Choice(Tiling(32, 64, 128, (1, 2)), 4),
    Choice(Tiling(32, 64, 64, (1, 2)), 6),
    Choice(Tiling(32, 32, 128, (1, 2)), 6),
)


@dataclass(frozen=True, slots=True)
class Row:
    """The best choice at one size."""

    layouts: str
    m: int
    n: int
    k: int
    choice: Choice

    def distance(self, m: int, n: int, k: int) -> float:
        """The distance of the sizes to this row's: the sum of |log2| of their ratios."""
        return sum(abs(math.log2(here / there)) for here, there in ((self.m, m), (self.n, n), (self.k, k)))


@dataclass(frozen=True, slots=True)
class ChoiceTable:
    """The rows; `basis` is "static", or "measured" on `device`."""

    basis: str
    device: str | None
    rows: tuple[Row, ...]


@cache
def load() -> ChoiceTable:
    """The shipped table."""
    return read(resources.files("lego_mlir.kernels").joinpath(FILE).read_text())


def read(text: str) -> ChoiceTable:
    """The table from JSON text. Raises SpecError for an invalid one."""
    try:
        data = json.loads(text)
        if data["format"] != FORMAT:
            raise SpecError(f"the table must have format {FORMAT}, got {data['format']}; generate it again")
        kinds = [choice_from(choice) for choice in data["choices"]]
        rows = tuple(Row(r["layouts"], r["m"], r["n"], r["k"], kinds[r["choice"]]) for r in data["rows"])
        return ChoiceTable(data["basis"], data["device"], rows)
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise SpecError(
            f"the table of kernels is not complete ({error!r}); generate it with bench/matmul.py"
        ) from error


def to_text(table: ChoiceTable, made_by: str) -> str:
    """The table as JSON, each kernel written once."""
    kinds = list(dict.fromkeys(row.choice for row in table.rows))
    rows = [{"layouts": r.layouts, "m": r.m, "n": r.n, "k": r.k, "choice": kinds.index(r.choice)} for r in table.rows]
    head = {"format": FORMAT, "basis": table.basis, "device": table.device, "made_by": made_by}
    parts = [json.dumps(head)[1:-1]]
    parts += [f'"{name}": [\n  {body}\n ]' for name, body in (
        ("choices", ",\n  ".join(json.dumps(kind.to_data()) for kind in kinds)),
        ("rows", ",\n  ".join(map(json.dumps, rows))),
    )]  # fmt: skip
    return "{" + ",\n ".join(parts) + "}\n"


def choose(
    table: ChoiceTable, m: int, n: int, k: int, layouts: str, shared_bytes: int, element: int = f32.bytes
) -> Choice:
    """The kernel for a product of these sizes, on a target with `shared_bytes` of shared memory per block.

    `element` is the size in bytes of an element of C in shared memory. Raises UsageError for layouts outside LAYOUTS.
    """
    if layouts not in LAYOUTS:
        raise UsageError(f"the layouts of A and B are one of {', '.join(LAYOUTS)} (N: rows, T: columns), got {layouts}")
    rows = [row for row in table.rows if row.layouts == layouts] or list(table.rows)
    nearest = min(rows, key=lambda row: row.distance(m, n, k))
    return fitting(nearest.choice, k, shared_bytes, element)


def fitting(choice: Choice, k: int, shared_bytes: int, element: int = f32.bytes) -> Choice:
    """The choice with as many stages as the depth and the shared memory of a block allow, or a smaller one.

    If its tiles do not fit with two stages, the fallbacks are the same choice without persistent blocks, which has room
    for another stage, then the largest candidate that fits.
    """
    smaller = (c for c in CANDIDATES if c.tiling.threads <= choice.tiling.threads)
    alone = replace(choice, resident=0, stages=choice.stages + bool(choice.resident))
    for candidate in (choice, alone, *smaller):
        iterations = max(LEAST_STEPS, -(-k // candidate.tiling.k))
        for stages in range(min(candidate.stages, iterations + 1), LEAST_STAGES - 1, -1):
            fitted = replace(candidate, stages=stages)
            if fitted.shared_bytes(element) <= shared_bytes:
                return fitted
    raise UsageError(f"no kernel of the family fits {shared_bytes} bytes of shared memory a block")
