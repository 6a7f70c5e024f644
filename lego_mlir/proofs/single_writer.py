"""The claims that no two programs of a rendered template write one element.

Stores to one tensor are compared in pairs, each with itself included: equal logical indices must imply equal program
ids, rounds and lanes (`overlap`). A claim that is not proved is refuted by numbers: the ids, rounds and lanes of a
small launch are enumerated, and two of them that write one position are shown. As many programs run as the layouts that
number them have positions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations_with_replacement
from typing import Final

import numpy as np
import sympy

from lego_mlir.aliases import Cond, Expr, Symbol
from lego_mlir.errors import LegoError
from lego_mlir.expr.context import PlainRanges
from lego_mlir.expr.evaluate import evaluate
from lego_mlir.expr.index import as_expr
from lego_mlir.expr.nodes import Le, Lt, Size, tables_of
from lego_mlir.expr.prove import prove
from lego_mlir.expr.ranges import Range
from lego_mlir.expr.verdict import Proved, Refuted, Unknown, Verdict
from lego_mlir.layout.naming import NamedMaps
from lego_mlir.proofs.collisions import grid
from lego_mlir.proofs.images import Maps, with_variables
from lego_mlir.proofs.mixed_radix import Digits, primed
from lego_mlir.proofs.overlap import Question, answered
from lego_mlir.proofs.program_stores import COUNT, ProgramStore, is_open, programs_of
from lego_mlir.templates.render.template import Rendered, Template

SMALL: Final = (1, 2, 3, 7, 16, 33, 64)
"""Values of the sizes in counter-examples."""
MOST_STORES: Final = 1 << 20
"""Elements that an enumerated launch writes."""


def once_claims(template: Template) -> Iterator[tuple[str, Verdict]]:
    """A claim for each tensor that a function of a rendered template stores to."""
    rendered = template.render()
    plain = _by_tensor(rendered)
    if not plain:
        return
    names = NamedMaps(declared=rendered.template.language == "cuda")
    try:
        with names.current():
            named = _by_tensor(template.render())
    except LegoError:
        named = {}
    for (function, tensor), stores in plain.items():
        lines = ", ".join(map(str, dict.fromkeys(s.line for s in stores)))
        verdict = _once(named.get((function, tensor), stores), names.maps)
        if not isinstance(verdict, Proved) and not any(s.unread for s in stores):
            by_formulas = _once(stores, {})
            verdict = by_formulas if isinstance(by_formulas, Proved) else _tried(rendered, stores, verdict)
        yield f"no element of {tensor} is written twice (line {lines} of the rendered text)", verdict


def _by_tensor(rendered: Rendered) -> dict[tuple[int, str], list[ProgramStore]]:
    found: dict[tuple[int, str], list[ProgramStore]] = {}
    for number, program in enumerate(programs_of(rendered)):
        for store in program.stores:
            found.setdefault((number, store.tensor), []).append(store)
    return found


def _once(stores: Sequence[ProgramStore], maps: Maps) -> Verdict:
    methods: dict[str, None] = {}
    for one, other in combinations_with_replacement(stores, 2):
        for store in (one, other):
            if store.unread is not None:
                return Unknown(f"the value of {store.unread} in line {store.line} is not known before it runs")
        if one.layout != other.layout:
            return Unknown(f"the stores in lines {one.line} and {other.line} are through two layouts")
        verdict = _apart(one, other, maps)
        if not isinstance(verdict, Proved):
            return verdict
        methods[verdict.by] = None
    return Proved(", ".join(methods))


def _apart(one: ProgramStore, other: ProgramStore, maps: Maps) -> Verdict:
    """Whether two stores touch one element only if they are the same, by the same program, round and lane."""
    digits = Digits({**one.ranges, **other.ranges})
    digits.of([*one.index, *other.index, *one.who, *other.who])
    for store in (one, other):
        reason = _outside(store, digits, maps)
        if reason is not None:
            return Unknown(reason)

    def over(exprs: Sequence[Expr]) -> list[Expr]:
        return [digits.simple(e) for e in exprs]

    conditions = [over([*s.defined, s.mask]) + digits.limits for s in (one, other)]
    who = over(one.who) if one is other else [sympy.Integer(1)]
    first, second = over(one.index), over(other.index)
    prime = {s: primed(s) for e in (*second, *conditions[1], *who) for s in e.free_symbols if not isinstance(s, Size)}
    equations = [a - b.xreplace(prime) for a, b in zip(first, second, strict=True)]
    goals = [w - w.xreplace(prime) for w in who] if one is other else who
    both = [*conditions[0], *(c.xreplace(prime) for c in conditions[1])]
    parts, images = with_variables([*equations, *both, *goals], maps)
    ranges = PlainRanges({**digits.with_primes(), **dict(r for image in images for r in image.ranges())})
    rest = iter(parts)
    equations, both, goals = (
        [sympy.expand(next(rest)) if of is not both else next(rest) for _ in of] for of in (equations, both, goals)
    )
    verdict = answered(Question(tuple(equations), tuple(both), tuple(goals), ranges, images=tuple(images)))
    if isinstance(verdict, Proved):
        return verdict
    which = f"store in line {one.line}" if one is other else f"stores in lines {one.line} and {other.line}"
    return Unknown(f"not proved that the elements of the {which} are different ones")


def _outside(store: ProgramStore, digits: Digits, maps: Maps) -> str | None:
    """Why an index may not be compared: it is not proved inside its layout, or a map is not defined there."""
    given = [*store.defined, *digits.limits, *([store.mask] if store.masked else [])]
    dims = () if store.layout is None else store.layout.dims()
    inside = [sympy.And(Le(0, i), Lt(i, as_expr(n))) for i, n in zip(store.index, dims, strict=bool(dims))]
    if not all(_is_proved(digits, maps, claim, given) for claim in inside):
        return f"an index in line {store.line} is not proved to be inside its layout"
    nodes = [node for node in tables_of(*store.index, store.mask) if node.name in maps]
    plain = [c for c in given if not any(n.name in maps for n in tables_of(c))]
    for node in nodes:
        if not _is_proved(digits, maps, sympy.And(Le(0, node.index), Lt(node.index, node.length)), plain):
            return f"a position of a layout in line {store.line} is not proved to be in range"
    return None


def _is_proved(digits: Digits, maps: Maps, claim: Cond, given: Sequence[Cond]) -> bool:
    simple = [digits.simple(c) for c in (claim, *given)]
    (implied,), images = with_variables([sympy.Or(simple[0], *map(sympy.Not, simple[1:]))], maps)
    ranges = {**digits.ranges, **dict(r for image in images for r in image.ranges())}
    return isinstance(prove(implied, ranges), Proved)


# ---- counter-examples


def _tried(rendered: Rendered, stores: Sequence[ProgramStore], verdict: Verdict) -> Verdict:
    """Refuted by two programs that write one element of a small launch."""
    if len(stores) != 1 or not stores[0].free:
        return verdict
    store = stores[0]
    sizes = sorted(
        {s for e in (store.position, store.mask, *_ends(store.ranges, store.who)) for s in as_expr(e).free_symbols
         if isinstance(s, Size)}, key=str,
    )  # fmt: skip
    if any(is_open(store.ranges.get(s)) and s not in store.position.free_symbols for s in store.who):
        return verdict  # one program may be launched
    for value in SMALL:
        chosen = {s: _near(s, value) for s in sizes}
        found = _collision(rendered, store, chosen)
        if found is not None:
            return found
        if not sizes:
            break
    return verdict


def _ends(ranges: Mapping[Symbol, Range], who: Sequence[Symbol]) -> Iterator[Expr]:
    return (as_expr(end) for s in who if s in ranges for end in (ranges[s].lo, ranges[s].hi))


def _near(size: Size, value: int) -> int:
    near = max(size.least, -(-value // size.multiple_of) * size.multiple_of)
    return near if size.max is None else min(near, size.max)


def _collision(rendered: Rendered, store: ProgramStore, sizes: Mapping[Symbol, int]) -> Refuted | None:
    ranges = {}
    for symbol in store.who:
        within = store.ranges.get(symbol)
        if within is None:
            return None
        lo, hi = (
            int(as_expr(end).xreplace({s: as_expr(n) for s, n in sizes.items()})) for end in (within.lo, within.hi)
        )
        ranges[symbol] = Range(lo, hi)
    values = grid(store.who, ranges, MOST_STORES)
    if values is None or not values:
        return None
    count = len(next(iter(values.values())))
    everything = {str(s): v for s, v in (*values.items(), *sizes.items())}
    try:
        kept = np.ones(count, bool)
        for condition in (*store.defined, store.mask):
            kept &= np.broadcast_to(np.asarray(evaluate(condition, everything, rendered.tables)), (count,)).astype(bool)
        at = np.broadcast_to(np.asarray(evaluate(store.position, everything, rendered.tables), np.int64), (count,))
    except (LegoError, ZeroDivisionError, ValueError):
        return None
    rows = np.flatnonzero(kept)
    order = rows[np.argsort(at[rows], kind="stable")]
    same = np.flatnonzero(at[order[1:]] == at[order[:-1]])
    if not same.size:
        return None
    first, second = (int(order[same[0] + k]) for k in (0, 1))
    lanes = {s for s in store.who if str(s) not in store.shown}
    texts = [", ".join(f"{s} = {values[s][k]}" for s in store.who if s not in lanes) for k in (first, second)]
    sizes = {s: n for s, n in sizes.items() if not str(s).endswith(COUNT)}
    example: dict[str, object] = {str(s): n for s, n in sizes.items()}
    example |= {"element": int(at[first]), "one": texts[0], "other": texts[1]}
    given = f"for {', '.join(f'{s} = {n}' for s, n in sizes.items())}, " if sizes else ""
    how = f"by {texts[0]} and by {texts[1]}" if texts[0] != texts[1] else f"by two lanes of {texts[0] or 'a program'}"
    return Refuted(example, f"{given}element {int(at[first])} is written {how}, in line {store.line}")
