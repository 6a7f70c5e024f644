"""Tables of docs/results: a rendered kernel, the same by hand, and the library, by size.

>>> fast, slow = {"ms": 1.0, "p10": 0.9, "p90": 1.1}, {"ms": 1.5, "p10": 1.4, "p90": 1.6}
>>> print(as_table(["n"], [Line(("64",), fast, {"by hand": slow, "torch": None})]), end="")
| n | rendered ms | by hand ms | torch ms | by hand / rendered | torch / rendered |
|---|---|---|---|---|---|
| 64 | 1.0000 (0.9000 to 1.1000) | 1.5000 (1.4000 to 1.6000) |  | 1.50 |  |
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import mlir_kernels

TARGET = "sm_90"
Row = dict[str, Any]


@dataclass(frozen=True)
class Line:
    """One case: what names it, the rendered kernel's row, the baselines' rows, and further columns of the table."""

    case: tuple[str, ...]
    ours: Row | None
    baselines: Mapping[str, Row | None]
    more: Mapping[str, str] | None = None

    def ratio(self, baseline: str, quantity: str = "ms") -> float | None:
        """How many times as long as ours a baseline takes, or as many instructions; None where one was not measured."""
        ours, theirs = ((row or {}).get(quantity) for row in (self.ours, self.baselines[baseline]))
        return theirs / ours if ours and theirs else None


def rows_of(name: str) -> list[Row]:
    """The newest measured rows of a benchmark; none where nothing was measured."""
    results = mlir_kernels.latest(name)
    return [] if results is None else results["rows"]


def find(rows: Sequence[Row], **facts: Any) -> Row | None:
    """The fastest row with these values."""
    here = [row for row in rows if all(row.get(key) == value for key, value in facts.items())]
    return min(here, key=lambda row: row["ms"], default=None)


def ratios(
    rows: Iterable[Row], case: str | Sequence[str], theirs: Iterable[str], ours: Iterable[str], field: str = "ms"
) -> Any:
    """For each case the least time of some kernels over the least time of others; cases without either are left out."""
    keys, theirs, ours = ([case] if isinstance(case, str) else case), set(theirs), set(ours)
    best: dict[Any, dict[bool, float]] = {}
    for row in rows:
        for mine, names in ((True, ours), (False, theirs)):
            if row["kernel"] in names and row.get(field):
                name = hashable(row[keys[0]]) if len(keys) == 1 else tuple(hashable(row[key]) for key in keys)
                found = best.setdefault(name, {})
                found[mine] = min(row[field], found.get(mine, math.inf))
    return {name: found[False] / found[True] for name, found in best.items() if len(found) == len((True, False))}


def hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def as_table(heads: Sequence[str], lines: Sequence[Line], ours: str = "rendered") -> mlir_kernels.Table:
    """A table: times with their spread, and how many times as long each baseline takes."""
    others = list(lines[0].baselines)
    columns = [*heads, f"{ours} ms", *(f"{other} ms" for other in others), *(f"{other} / {ours}" for other in others)]
    counted = [other for other in others if any(line.ratio(other, "instructions") for line in lines)]
    columns += [f"instructions, {other} / {ours}" for other in counted]
    columns += lines[0].more or {}
    cells = []
    for line in lines:
        times = [mlir_kernels.time_cell(row) for row in (line.ours, *line.baselines.values())]
        ratios = [_cell(line.ratio(other)) for other in others]
        counts = [_cell(line.ratio(other, "instructions")) for other in counted]
        cells.append([*line.case, *times, *ratios, *counts, *(line.more or {}).values()])
    return mlir_kernels.table("|".join(columns), cells)


def _cell(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}"


def write(name: str, heads: Sequence[str], lines: Sequence[Line], ours: str = "rendered") -> None:
    """Put a benchmark's measured table and its static table into the page."""
    results, table = mlir_kernels.latest(name), as_table(heads, lines, ours)
    if results is None:
        about = "Not measured yet: the cells are empty"
    else:
        versions = ("triton", "torch") if name.startswith("triton") else ()
        about = mlir_kernels.circumstances(name, results, *versions)
    page = f"results/{name.replace('_', '-')}.md"
    mlir_kernels.put_into(page, f"{name} measured", f"{about}.\n\n", table)
    mlir_kernels.put_into(page, f"{name} static", static_table(mlir_kernels.static_results(name, TARGET)))


STATIC = {
    "registers": "registers", "spill_bytes": "bytes spilled", "instructions": "instructions",
    "loop_instructions": "in the main loop", "outputs": "outputs a thread", "wavefronts": "wavefronts a block",
}  # fmt: skip


def static_table(rows: Sequence[Row]) -> mlir_kernels.Table:
    """What was counted without a GPU; a column that no row has is left out."""
    keys = [key for key in STATIC if any(row.get(key) is not None for row in rows)]
    cells = [[row["kernel"], *("" if row.get(key) is None else f"{row[key]:g}" for key in keys)] for row in rows]
    return mlir_kernels.table("|".join(["kernel", *(STATIC[key] for key in keys)]), cells)


def configuration(row: Row | None) -> str:
    """What the search over configurations chose."""
    if row is None or "config" not in row:
        return ""
    parts = row["config"] if isinstance(row["config"], list) else [row["config"]]
    return " ".join("x".join(map(str, part)) if isinstance(part, list) else str(part) for part in parts)
