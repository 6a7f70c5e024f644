"""A kernel printed back with the layouts that the engine chose, for a person to pin and edit.

    tile = lego.load(x, (4, 512))       ->      tile = lego.load(x, (4, 512), pin=LAYOUT_1)
    y.store(out)                        ->      y.store(out, pin=LAYOUT_1)

Each load and store has its layout; what is between them follows, as the engine finds the cheapest choice with these
layouts given. A load or store is left as it is where one call has several layouts: in an
unrolled loop, or where the tile is loaded again in another one; and a load into shared memory, which has none.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from lego_mlir.engine.choice_reasons import written
from lego_mlir.engine.layout_choice import LayoutChoice
from lego_mlir.engine.shared_placements import is_shared
from lego_mlir.engine.tile_graph import LoadTile, StoreTile
from lego_mlir.f2.linear import LinearLayout


class Edit(NamedTuple):
    """Text in place of a range of the source, both ends as (line from 0, column)."""

    start: tuple[int, int]
    end: tuple[int, int]
    text: str


def pinned_source(function: Callable[..., Any], choice: LayoutChoice) -> str:
    """The source of a kernel's function with its layouts, and their definitions before it."""
    lines, first = inspect.getsourcelines(function)
    text = textwrap.dedent("".join(lines))
    names: dict[tuple[LinearLayout, tuple[int, ...]], str] = {}
    edits = list(_edits(ast.parse(text), first, function.__code__.co_filename, choice, names))
    kept = text.splitlines(keepends=True)
    for edit in sorted(edits, reverse=True):
        (line, column), (last, end) = edit.start, edit.end
        kept[line : last + 1] = [kept[line][:column] + edit.text + kept[last][end:]]
    warps = choice.alternatives.graph.warps
    defined = [f"{name} = {_expression(layout, shape, warps)}\n" for (layout, shape), name in names.items()]
    return "".join([*defined, *(["\n\n"] if defined else []), *kept])


def _edits(
    tree: ast.Module,
    first: int,
    path: str,
    choice: LayoutChoice,
    names: dict[tuple[LinearLayout, tuple[int, ...]], str],
) -> Iterator[Edit]:
    """The edits of all loads and stores whose layout is one."""
    calls: dict[tuple[str, int], list[ast.Call]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("load", "store"):
            calls.setdefault((node.func.attr, first + node.lineno - 1), []).append(node)
    for (word, line), here in calls.items():
        kind = LoadTile if word == "load" else StoreTile
        values = [
            value
            for value in choice.values.values()
            if isinstance(value.node.operation, kind) and value.node.source == f"{path}:{line}"
        ]
        here.sort(key=_end)  # the order of evaluation
        for number, call in enumerate(here):
            states = {(v.computed[0][0], v.node.state_shape) for v in values[number :: len(here)]}
            if len(states) != 1 or len(values) % len(here) or any(len(v.computed) > 1 for v in values):
                continue
            (state,) = states
            if is_shared(state[0]):
                continue
            name = names.setdefault(state, f"LAYOUT_{len(names) + 1}")
            last = (call.args + [keyword.value for keyword in call.keywords])[-1]
            yield Edit(_end(last), _end(last), f", pin={name}")


def _end(node: ast.expr) -> tuple[int, int]:
    assert node.end_lineno is not None and node.end_col_offset is not None
    return node.end_lineno - 1, node.end_col_offset


def _expression(layout: LinearLayout, shape: tuple[int, ...], warps: int) -> str:
    """The layout as an expression of the names `lego` and `f2`."""
    text = written(layout, shape, warps)
    return text.replace("LinearLayout(", "f2.LinearLayout(").replace("boxed(", "f2.boxed.boxed(")
