"""A refuted bijection with its colliding indices, and the derivation of an index as a table of rules."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from lego_mlir.errors import RefutedLayoutError, UsageError
from lego_mlir.expr.explain import shortened
from lego_mlir.expr.verdict import Proved, Refuted, Verdict
from lego_mlir.hardware.banks import Array
from lego_mlir.layout.permutations import GenP
from lego_mlir.viz import palettes
from lego_mlir.viz.panels import GridCell, GridPanel, Place, TablePanel
from lego_mlir.viz.views.subjects import MOST_CELLS, Subject

if TYPE_CHECKING:
    from lego_mlir.expr.simplify import Derivation


_LONGEST: Final = 60  # characters of an expression in a table
_RESULT: Final = 160  # of the result, which the reader came for


def collision(error: RefutedLayoutError) -> list[GridPanel]:
    """The map of a refuted layout: indices that share a position are framed, arrows join the first ones."""
    subject = _unchecked(error.layout)
    if max(subject.grid) > MOST_CELLS:
        raise UsageError(f"{subject.name} has more than {MOST_CELLS} rows or columns; draw a smaller one that collides")
    row, column = np.indices(subject.grid)
    place = subject.at(row, column)
    holders: dict[int, list[Place]] = {}
    for r in range(place.shape[0]):
        for c in range(place.shape[1]):
            holders.setdefault(int(place[r, c]), []).append((r, c))
    shared = {position: places for position, places in holders.items() if len(places) > 1}
    top = max(1, int(place.max()))
    cells = tuple(
        tuple(
            _cell(subject.index(r, c), int(place[r, c]), top, int(place[r, c]) in shared) for c in range(place.shape[1])
        )
        for r in range(place.shape[0])
    )
    arrows = tuple((places[1], places[0]) for places in list(shared.values())[:1])
    return [GridPanel(subject.name, cells, (error.explanation,), arrows=arrows)]


def _unchecked(layout: object) -> Subject:
    """The map of a refuted permutation, called with one index at a time: it need not take arrays."""
    if not isinstance(layout, GenP):
        raise UsageError(f"{layout!r} cannot be drawn; the counter-example of a GenP can")
    values = np.frompyfunc(lambda *index: int(layout.f(*index)), len(layout.dims()), 1)

    def position(*index: Array) -> Array:
        return np.asarray(values(*index), np.int64)

    return Subject(repr(layout), tuple(int(n) for n in layout.dims()), position)


def _cell(index: tuple[int, ...], position: int, top: int, collides: bool) -> GridCell:
    title = f"[{', '.join(map(str, index))}]: position {position}" + (", shared" if collides else "")
    return GridCell(str(position), palettes.BLUES.at(position / top), title, collides)


def verdict_table(verdict: Verdict) -> TablePanel:
    """A verdict: the method of a proof, the values of a counter-example, or the reason why neither was found."""
    if isinstance(verdict, Proved):
        return TablePanel.of("proved", ("by",), [(verdict.by,)])
    if isinstance(verdict, Refuted):
        rows = list(verdict.counter_example.items()) or [("", "")]
        found = TablePanel.of("refuted", ("name", "value"), rows, verdict.explanation)
        return TablePanel(found.title, found.header, found.rows, found.caption, {(0, 1): palettes.HEAT.at(0.25)})
    return TablePanel.of("unknown", ("reason",), [(verdict.reason,)])


def derivation(title: str, derived: Derivation) -> TablePanel:
    """Each step: the operations left after it, the rule, what it replaces by what, and why it may."""
    rows: list[tuple[object, ...]] = [(derived.before, "definition", _cut(derived.raw), "", "")]
    for step in derived.steps:
        why = f"{' and '.join(map(str, step.condition))}, by {step.proof}" if step.condition else ""
        rows.append((step.operations[1], step.rule, _cut(step.before), _cut(step.after), _cut(why)))
    rows.append((derived.after, "result", _cut(derived.raw), shortened(derived.expr, _RESULT), ""))
    found = TablePanel.of(title, ("operations", "rule", "expression", "becomes", "since"), rows)
    last = len(rows) - 1
    return replace(found, colours={(last, column): palettes.BLUES.at(0.15) for column in range(len(found.header))})


def _cut(text: object) -> str:
    return shortened(text, _LONGEST)
