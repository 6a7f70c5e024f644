"""The translation check: compare the value of every placeholder's text with its layout.

The emitted text is parsed and evaluated by the target's rules (`read_triton`, `read_c`); the expected values come from
the layout's `apply`, `inv` and `mask` on arrays or, for symbolic sizes, from its expression before simplification. All
indices of all sizes are compared if there are few, otherwise a million that name an element, including the corners
(`points`).

>>> from lego_mlir.layout import Col
>>> from lego_mlir.templates import Template, index
>>> t = Template.of("x = {{ A[i, :] }}\\n", "x.py.jinja", A=Col(8, 4), i=index("i", 8))
>>> check(t.render())
(Checked(line=1, text='i + tl.arange(0, 4) * 8', indices=32, exhaustive=True, error=None),)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, Final

import numpy as np

from lego_mlir.aliases import Array
from lego_mlir.errors import LegoError, TemplateError
from lego_mlir.expr.evaluate import evaluate
from lego_mlir.expr.index import as_expr
from lego_mlir.expr.verdict import Proved, Refuted, Unknown, Verdict
from lego_mlir.layout.base import Layout
from lego_mlir.layout.canonical import is_static
from lego_mlir.layout.slices import Colon
from lego_mlir.printers.cuda import TYPES, CudaPrinter
from lego_mlir.templates.readback import read_c, read_triton
from lego_mlir.templates.readback.points import Points, lengths, mask_of
from lego_mlir.templates.render.blocks import lanes
from lego_mlir.templates.render.placeholders import Placeholder
from lego_mlir.templates.render.template import Rendered

SAMPLED: Final = 10**6


@dataclass(frozen=True, slots=True)
class Checked:
    """One placeholder: its line and text, the number of indices compared, whether those are all, and any error."""

    line: int
    text: str
    indices: int
    exhaustive: bool
    error: str | None = None


def check(rendered: Rendered, *, sampled: int = SAMPLED, seed: int = 0) -> tuple[Checked, ...]:
    """Compare every placeholder of a rendered text with its layout."""
    return tuple(_check(rendered, p, sampled, seed) for p in rendered.placeholders)


def require(rendered: Rendered, *, sampled: int = SAMPLED) -> None:
    """Raise TemplateError with the first placeholder whose text differs from its layout."""
    for found in check(rendered, sampled=sampled):
        if found.error is not None:
            raise TemplateError(f"{rendered.template.name}:{found.line}: {found.text!r}: {found.error}")


def verdicts(rendered: Rendered, *, sampled: int = SAMPLED) -> list[tuple[str, Verdict]]:
    """A claim and a verdict for every placeholder: proved only if every index was compared."""
    found: list[tuple[str, Verdict]] = []
    for c in check(rendered, sampled=sampled):
        claim = f"{rendered.template.name}:{c.line}: {c.text} equals its layout"
        if c.error is not None:
            found.append((claim, Refuted({}, c.error)))
        elif c.exhaustive:
            found.append((claim, Proved(f"read back, all {c.indices} indices")))
        else:
            found.append((claim, Unknown(f"read back, {c.indices} drawn indices agree; there are more")))
    return found


def _check(rendered: Rendered, placeholder: Placeholder, sampled: int, seed: int) -> Checked:
    compared, complete = 0, True
    try:
        choices = lengths(placeholder, seed)
        for done, chosen in enumerate(choices):
            share = max(1, -(-(sampled - compared) // (len(choices) - done)))
            points = Points.of(placeholder, sampled=share, seed=seed, chosen=chosen)
            counted, all_of_them = _check_at(rendered, points)
            compared, complete = compared + counted, complete and all_of_them
    except LegoError as error:
        return Checked(placeholder.line, placeholder.text, compared, False, str(error))
    return Checked(placeholder.line, placeholder.text, compared, complete)


def _check_at(rendered: Rendered, points: Points) -> tuple[int, bool]:
    """Compare until enough points name an element, or none is left: the number compared, and whether those are all."""
    compared = visited = 0
    for values, axes in points.batches():
        for part in _by_width(values):
            compared += _compare(rendered, points.placeholder, part, axes)
            visited += prod(_shape(part, axes))
        if compared >= points.sampled:
            break
    return compared, not points.chosen and visited == points.total


def _by_width(values: dict[str, Array]) -> Iterator[dict[str, Array]]:
    """Split the samples by whether all values fit in 32 bits, because a column has one width."""
    wide = np.zeros(_shape(values, {}), dtype=bool)
    for column in values.values():
        beyond = (column < read_triton.INT32[0]) | (column > read_triton.INT32[1])
        wide |= beyond if np.ndim(beyond) < 2 else beyond.any(axis=1)
    if wide.all() or not wide.any():
        yield values
        return
    for part in (wide, ~wide):
        yield {name: column[part] if np.ndim(column) else column for name, column in values.items()}


def _shape(values: Mapping[str, Array], axes: Mapping[str, int]) -> tuple[int, ...]:
    """The axis of the samples, then those of the block."""
    return (max([1, *(len(v) for v in values.values() if np.ndim(v))]), *axes.values())


def _compare(rendered: Rendered, placeholder: Placeholder, values: dict[str, Array], axes: dict[str, int]) -> int:
    """Compare all samples at once: the number compared. Raises TemplateError at the first difference."""
    read = _read_triton if rendered.template.language == "triton" else _read_c
    found = read(rendered, placeholder, values)
    shape = _shape(values, axes)
    spread = _spread(placeholder, values, axes)
    expected = np.broadcast_to(np.asarray(evaluate(placeholder.raw, spread, rendered.tables)), shape)
    found = _broadcast(found.reshape(-1, *[1] * len(axes)) if found.ndim == 1 else found, shape)
    counts = _inside(placeholder, spread, shape)
    _same(found, expected, counts, placeholder, values, axes)
    positions = _positions(placeholder, spread)
    if positions is not None:
        _same(found, np.broadcast_to(positions, shape), counts, placeholder, values, axes)
    return int(counts.sum())


def _broadcast(found: Array, shape: tuple[int, ...]) -> Array:
    """The text's values broadcast to the shape of the block. Raises TemplateError if they cannot be."""
    try:
        return np.broadcast_to(found, shape)
    except ValueError as error:
        given, wanted = (" x ".join(map(str, s[1:])) for s in (found.shape, shape))
        raise TemplateError(f"the text is a block of {given}, and the layout's is {wanted}") from error


def _read_triton(rendered: Rendered, placeholder: Placeholder, values: Mapping[str, Array]) -> Array:
    """The text's values by Triton's rules: sizes and indices are as wide as their values, bindings as their text."""
    names: dict[str, Array | read_triton.TypedBlock] = dict(values)
    for name, text in placeholder.bindings:
        names[name] = read_triton.typed(text, names, rendered.tables)
    return read_triton.evaluate(placeholder.text, names, rendered.tables)


def _read_c(rendered: Rendered, placeholder: Placeholder, values: Mapping[str, Array]) -> Array:
    """The text's values by C's rules: declared variables have the type of their range, all others are int."""
    printer = CudaPrinter(placeholder.ranges)
    printer.declared |= placeholder.declared
    printer.read = placeholder.read
    names: dict[str, Any] = {}
    for symbol in {s for s in placeholder.raw.free_symbols | set(placeholder.ranges) if str(s) in values}:
        array = np.atleast_1d(np.asarray(values[str(symbol)], dtype=np.int64))
        names[str(symbol)] = read_c.TypedValue(array, TYPES[printer.width_of(symbol)])
    for name, text in placeholder.bindings:
        names[name] = read_c.typed(text, names, rendered.tables)
    return read_c.evaluate(placeholder.text, names, rendered.tables)


def _spread(placeholder: Placeholder, values: Mapping[str, Array], axes: Mapping[str, int]) -> dict[str, Array]:
    """The values reshaped to one array axis for the samples and one for each axis of the block."""
    rank = len(axes)
    spread: dict[str, Any] = {
        n: np.reshape(v, (-1,) + (1,) * rank) if np.ndim(v) == 1 else v for n, v in values.items()
    }
    for name, place in _lanes(placeholder, values, axes).items():
        lengths = [axis if k == place else 1 for k, axis in enumerate(axes.values())]
        spread[name] = np.reshape(values[name], (-1, *lengths))
    for place, (name, count) in enumerate(axes.items()):
        spread[name] = np.arange(count).reshape([1] + [-1 if k == place else 1 for k in range(rank)])
    return spread


def _lanes(placeholder: Placeholder, values: Mapping[str, Array], axes: Mapping[str, int]) -> dict[str, int]:
    """The block variables, each with the number of its axis."""
    places = list(axes)
    found = lanes([placeholder.raw, *placeholder.ranges], (s for s, _ in placeholder.axes))
    return {str(symbol): places.index(str(axis)) for symbol, axis in found.items() if str(symbol) in values}


def _index(placeholder: Placeholder, spread: Mapping[str, Array]) -> tuple[Layout, tuple[Array | int, ...]] | None:
    """The layout of a placeholder, and the index as arrays; None without a layout of constant sizes."""
    if placeholder.origin is None:
        return None
    layout, places = placeholder.origin
    if not is_static(layout.dims()) or not is_static((layout.physical_size(),)):
        return None
    exprs = [as_expr(p.at(p.symbol) if isinstance(p, Colon) else p) for p in places]
    return layout, tuple(np.asarray(evaluate(e, spread)) if e.free_symbols else int(e) for e in exprs)


def _positions(placeholder: Placeholder, spread: Mapping[str, Array]) -> Array | int | None:
    """The layout's own positions, for constant sizes."""
    known = _index(placeholder, spread)
    if known is None:
        return None
    layout, index = known
    return layout.apply(*np.broadcast_arrays(*index)) if any(np.ndim(i) for i in index) else layout.apply(*index)


def _inside(placeholder: Placeholder, spread: Mapping[str, Array], shape: tuple[int, ...]) -> Array:
    """The samples to compare: those whose index names an element."""
    if placeholder.origin is None:
        return np.ones(shape, dtype=bool)
    mask = mask_of(placeholder)
    if isinstance(mask, bool):
        return np.full(shape, mask)
    return np.broadcast_to(np.asarray(evaluate(mask.expr, spread)), shape).astype(bool)


def _same(
    found: Array,
    expected: Array,
    counts: Array,
    placeholder: Placeholder,
    values: Mapping[str, Array],
    axes: Mapping[str, int],
) -> None:
    wrong = (found != expected) & counts
    if not wrong.any():
        return
    place = tuple(int(i) for i in np.argwhere(wrong)[0])
    along = _lanes(placeholder, values, axes)
    at = {n: int(np.ravel(v)[min(place[0], np.size(v) - 1)]) for n, v in values.items() if n not in along}
    at |= {n: int(values[n][place[0], place[1 + axis]]) for n, axis in along.items()}
    at |= {n: k for n, k in zip(axes, place[1:], strict=True) if not n.startswith("along ")}
    shown = ", ".join(f"{name} = {value}" for name, value in at.items())
    raise TemplateError(f"the text gives {found[place]} and the layout {expected[place]} for {shown}")
