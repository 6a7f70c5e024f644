"""The translation check: what every placeholder's text means, against what its layout says.

The text that was emitted is read back by the target's own rules (`read_triton`, `read_c`) and evaluated; the layout is
asked for the same indices by `apply`, `inv` and `mask` on arrays, or, where its sizes are symbols, by its expression
before simplification. All indices where there are few, a million drawn ones with the corners where there are more;
sizes are drawn within their declared range.

>>> from lego_mlir.layout import Col
>>> from lego_mlir.templates import Template, index
>>> t = Template.of("x = {{ A[i, :] }}\\n", "x.py.jinja", A=Col(8, 4), i=index("i", 8))
>>> check(t.render())
(Checked(line=1, text='i + tl.arange(0, 4) * 8', indices=32, exhaustive=True, error=None),)
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, Final

import numpy as np

from lego_mlir.errors import LegoError, TemplateError
from lego_mlir.expr.evaluate import evaluate
from lego_mlir.expr.index import as_expr
from lego_mlir.expr.nodes import Size, Table
from lego_mlir.expr.verdict import Proved, Refuted, Unknown, Verdict
from lego_mlir.layout.canonical import is_static
from lego_mlir.layout.slices import Colon
from lego_mlir.printers.cuda import TYPES, CudaPrinter
from lego_mlir.templates import read_c, read_triton
from lego_mlir.templates.placeholders import Placeholder
from lego_mlir.templates.template import Rendered

SAMPLED: Final = 10**6
SIZE_TRIALS: Final = 6  # each with its share of the indices
LONE_SIZE_TRIALS: Final = 100  # of a text in sizes alone, such as how many tiles there are
LARGEST_DRAWN: Final = 2**20  # for a size without a maximum: large enough for products beyond 32 bits
LARGEST_AXIS: Final = 64  # for a constexpr that tl.arange runs to


@dataclass(frozen=True, slots=True)
class Checked:
    """One placeholder: its line and text, how many indices were compared, whether all, and what was wrong, if any."""

    line: int
    text: str
    indices: int
    exhaustive: bool
    error: str | None = None


def check(rendered: Rendered, *, sampled: int = SAMPLED, seed: int = 0) -> tuple[Checked, ...]:
    """Compare every placeholder of a rendered text with its layout."""
    return tuple(_check(rendered, p, sampled, random.Random(seed)) for p in rendered.placeholders)


def require(rendered: Rendered, *, sampled: int = SAMPLED) -> None:
    """Raise TemplateError with the first placeholder whose text does not mean what its layout says."""
    for found in check(rendered, sampled=sampled):
        if found.error is not None:
            raise TemplateError(f"{rendered.template.name}:{found.line}: {found.text!r}: {found.error}")


def verdicts(rendered: Rendered, *, sampled: int = SAMPLED) -> list[tuple[str, Verdict]]:
    """A claim and a verdict for every placeholder: proved only where every index was compared."""
    found: list[tuple[str, Verdict]] = []
    for c in check(rendered, sampled=sampled):
        claim = f"{rendered.template.name}:{c.line}: {c.text} is what the layout says"
        if c.error is not None:
            found.append((claim, Refuted({}, c.error)))
        elif c.exhaustive:
            found.append((claim, Proved(f"read back, all {c.indices} indices")))
        else:
            found.append((claim, Unknown(f"read back, {c.indices} drawn indices agree; there are more")))
    return found


def _check(rendered: Rendered, placeholder: Placeholder, sampled: int, rng: random.Random) -> Checked:
    compared, exhaustive = 0, True
    try:
        for values, axes, complete in _trials(placeholder, sampled, rng):
            compared += _compare(rendered, placeholder, values, axes)
            exhaustive &= complete
    except LegoError as error:
        return Checked(placeholder.line, placeholder.text, compared, False, str(error))
    return Checked(placeholder.line, placeholder.text, compared, exhaustive)


def _compare(rendered: Rendered, placeholder: Placeholder, values: dict[str, Any], axes: dict[str, int]) -> int:
    """One trial: all samples at once. Raises TemplateError at the first difference; gives how many were compared."""
    read = _read_triton if rendered.template.language == "triton" else _read_c
    found = read(rendered, placeholder, values)
    shape = (max([1, *(np.size(v) for v in values.values())]), *axes.values())
    spread = _spread(values, axes)
    expected = np.broadcast_to(np.asarray(evaluate(placeholder.raw, spread, rendered.tables)), shape)
    found = np.broadcast_to(found.reshape(-1, *[1] * len(axes)) if found.ndim == 1 else found, shape)
    counts = _inside(placeholder, spread, shape)
    _same(found, expected, counts, placeholder, values, axes)
    asked = _asked(placeholder, spread)
    if asked is not None:
        _same(found, np.broadcast_to(asked, shape), counts, placeholder, values, axes)
    return int(counts.sum())


def _read_triton(rendered: Rendered, placeholder: Placeholder, values: Mapping[str, Any]) -> Any:
    """The text's values by Triton's rules, where a number is as wide as its value makes it."""
    names = dict(values)
    for name, text in placeholder.bindings:
        names[name] = read_triton.evaluate(text, names, rendered.tables)
    return read_triton.evaluate(placeholder.text, names, rendered.tables)


def _read_c(rendered: Rendered, placeholder: Placeholder, values: Mapping[str, Any]) -> Any:
    """The text's values by C's rules, where a variable has the type that its range asks for."""
    printer = CudaPrinter(placeholder.ranges)
    names: dict[str, Any] = {}
    for symbol in {s for s in placeholder.raw.free_symbols | set(placeholder.ranges) if str(s) in values}:
        array = np.atleast_1d(np.asarray(values[str(symbol)], dtype=np.int64))
        names[str(symbol)] = read_c.Value(array, TYPES[printer.width_of(symbol)])
    for name, text in placeholder.bindings:
        names[name] = read_c.typed(text, names, rendered.tables)
    return read_c.evaluate(placeholder.text, names, rendered.tables)


def _spread(values: Mapping[str, Any], axes: Mapping[str, int]) -> dict[str, Any]:
    """The same values with one array axis for the samples and one for each axis of the block."""
    rank = len(axes)
    spread: dict[str, Any] = {n: np.reshape(v, (-1,) + (1,) * rank) if np.ndim(v) else v for n, v in values.items()}
    for place, (name, count) in enumerate(axes.items()):
        spread[name] = np.arange(count).reshape([1] + [-1 if k == place else 1 for k in range(rank)])
    return spread


def _index(placeholder: Placeholder, spread: Mapping[str, Any]) -> tuple[Any, tuple[Any, ...]] | None:
    """The layout that a placeholder comes from, and the index as arrays; None where it comes from none."""
    if placeholder.origin is None:
        return None
    layout, places = placeholder.origin
    if not is_static(layout.dims()) or not is_static((layout.physical_size(),)):
        return None
    exprs = [as_expr(p.at(p.symbol) if isinstance(p, Colon) else p) for p in places]
    return layout, tuple(np.asarray(evaluate(e, spread)) if e.free_symbols else int(e) for e in exprs)


def _asked(placeholder: Placeholder, spread: Mapping[str, Any]) -> Any:
    """What the layout itself says, for concrete sizes."""
    known = _index(placeholder, spread)
    if known is None:
        return None
    layout, index = known
    return layout.apply(*np.broadcast_arrays(*index)) if any(np.ndim(i) for i in index) else layout.apply(*index)


def _inside(placeholder: Placeholder, spread: Mapping[str, Any], shape: tuple[int, ...]) -> Any:
    """Which samples count: those whose index names an element, where a mask says so."""
    if placeholder.origin is None:
        return np.ones(shape, dtype=bool)
    mask = _mask(placeholder)
    if isinstance(mask, bool):
        return np.full(shape, mask)
    return np.broadcast_to(np.asarray(evaluate(mask.expr, spread)), shape).astype(bool)


def _mask(placeholder: Placeholder) -> Any:
    layout, places = placeholder.origin
    return layout.mask(*(p.at(p.symbol) if isinstance(p, Colon) else p for p in places))


def _same(found: Any, expected: Any, counts: Any, placeholder: Placeholder, values: Any, axes: Any) -> None:
    wrong = (found != expected) & counts
    if not wrong.any():
        return
    place = tuple(int(i) for i in np.argwhere(wrong)[0])
    at = {n: int(np.ravel(v)[place[0]]) if np.size(v) > 1 else int(np.ravel(v)[0]) for n, v in values.items()}
    at |= dict(zip(axes, place[1:], strict=True))
    shown = ", ".join(f"{name} = {value}" for name, value in at.items())
    raise TemplateError(f"the text gives {found[place]} and the layout {expected[place]} for {shown}")


# -- which indices


def _trials(
    placeholder: Placeholder, sampled: int, rng: random.Random
) -> Iterator[tuple[dict[str, Any], dict[str, int], bool]]:
    """Values of the symbols, the lengths of the axes, and whether these are all indices there are."""
    arange = dict(placeholder.axes)
    tables = {table.args[0] for table in placeholder.raw.atoms(Table)}
    named = placeholder.raw.free_symbols - tables | _origin_symbols(placeholder) | _binding_symbols(placeholder)
    free = {s for s in named | _range_symbols(placeholder, named) if s not in arange}
    sizes = sorted((s for s in free if isinstance(s, Size)), key=str)
    symbols = sorted((s for s in free if not isinstance(s, Size)), key=str)
    trials = (SIZE_TRIALS if symbols or arange else LONE_SIZE_TRIALS) if sizes else 1
    for trial in range(trials):
        drawn = {str(s): _draw_size(s, trial, rng, str(s) in map(str, arange.values())) for s in sizes}
        axes = {str(s): drawn[n] if isinstance(n, str) else n for s, n in arange.items()}
        ends = [_ends(placeholder, s, drawn) for s in symbols]
        if any(low >= high for low, high in ends):
            continue
        room = max(1, sampled // (prod(axes.values()) * trials))
        total = prod(high - low for low, high in ends)
        if total <= room:
            grid = np.meshgrid(*(np.arange(low, high) for low, high in ends), indexing="ij")
            columns = [g.reshape(-1) for g in grid]
        else:
            columns = [_draw(low, high, room, rng) for low, high in ends]
        yield {**drawn, **dict(zip(map(str, symbols), columns, strict=True))}, axes, not sizes and total <= room


def _origin_symbols(placeholder: Placeholder) -> set[Any]:
    """The symbols of the index itself, and of the mask that says whether it names an element."""
    if placeholder.origin is None:
        return set()
    mask, places = _mask(placeholder), placeholder.origin[1]
    exprs = [as_expr(p.at(p.symbol) if isinstance(p, Colon) else p) for p in places]
    return {s for e in [*exprs, *([] if isinstance(mask, bool) else [mask.expr])] for s in e.free_symbols}


def _binding_symbols(placeholder: Placeholder) -> set[Any]:
    """The symbols of what is assigned before the text, which the text itself need not name (a coordinate that is 0)."""
    words = {word for _, text in placeholder.bindings for word in re.findall(r"\w+", text)}
    return {s for s in placeholder.ranges if str(s) in words}


def _range_symbols(placeholder: Placeholder, used: set[Any]) -> set[Any]:
    """The sizes that bound these symbols."""
    return {
        s
        for symbol, r in placeholder.ranges.items()
        if symbol in used
        for end in (r.lo, r.hi)
        for s in getattr(as_expr(end), "free_symbols", ())
    }


def _ends(placeholder: Placeholder, symbol: Any, sizes: Mapping[str, int]) -> tuple[int, int]:
    known = placeholder.ranges.get(symbol)
    if known is None:
        raise TemplateError(
            f"nothing says how far {symbol} runs: use it as the index of a layout, or declare it with "
            f"index({str(symbol)!r}, stop)"
        )
    low, high = (evaluate(as_expr(end), sizes) for end in (known.lo, known.hi))
    return int(low), int(high)


def _draw_size(size: Size, trial: int, rng: random.Random, is_axis: bool) -> int:
    """A value that the size may take: the least, the greatest, and others between."""
    step = size.multiple_of
    low = -(-size.min // step)
    if is_axis:
        powers = [
            p for p in (1 << k for k in range(11)) if p >= max(size.min, 1) and p % step == 0 and p <= LARGEST_AXIS
        ]
        return rng.choice(powers)
    high = max(low, (size.max if size.max is not None else max(LARGEST_DRAWN, size.min)) // step)
    return step * (low if trial == 0 else high if trial == 1 else rng.randint(low, high))


def _draw(low: int, high: int, count: int, rng: random.Random) -> Any:
    """Random indices, the first and the last among them."""
    drawn = np.random.default_rng(rng.randrange(2**32)).integers(low, high, size=count)
    drawn[:2] = (low, high - 1)[: min(2, count)]
    return drawn
