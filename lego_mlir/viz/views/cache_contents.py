"""Contents of the caches while an order runs: a row for each line of memory, a column for each task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lego_mlir.errors import UsageError
from lego_mlir.viz.cache_diagram import HELD, MEMORY, READ
from lego_mlir.viz.panels import GridCell, GridPanel

if TYPE_CHECKING:
    from lego_mlir.caches.space_time import SpaceTime

MOST_TASKS: Final = 256
MOST_LINES: Final = 128


def contents(found: SpaceTime) -> GridPanel:
    """The diagram of `caches.space_time`: what each task reads and from where, and the lines that stay in a cache."""
    tasks, lines = found.served.shape
    if tasks > MOST_TASKS or lines > MOST_LINES:
        raise UsageError(
            f"{tasks} tasks and {lines} lines are too many for cells, at most {MOST_TASKS} and {MOST_LINES}; use "
            "lego_mlir.viz.cache_diagram.draw"
        )
    cells = tuple(tuple(_cell(found, task, line) for task in range(tasks)) for line in range(lines))
    fetched = ", ".join(f"{n} lines missed {name}" for name, n in zip(found.levels, found.fetched, strict=True))
    caption = (
        f"a row is a line of memory, a column a task; {fetched}, {found.compulsory} lines are read at all",
        "strong colours are reads, red from memory; pale ones, or dots, are lines that a cache holds",
    )
    return GridPanel(found.title, cells, caption)


def _cell(found: SpaceTime, task: int, line: int) -> GridCell:
    served, held = int(found.served[task, line]), int(found.held[task, line])
    if served >= 0:
        source = found.levels[served] if served < len(found.levels) else "memory"
        colour = READ[served % len(READ)] if served < len(found.levels) else MEMORY
        return GridCell("", colour, f"task {task} reads line {line} from {source}", mark=source[:2])
    if held >= 0:
        title = f"after task {task}, {found.levels[held]} holds line {line}"
        return GridCell("", HELD[held % len(HELD)], title, mark=".")
    return GridCell("", title=f"after task {task}, no cache holds line {line}")
