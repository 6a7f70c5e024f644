"""The safety of a traced kernel: every access stays in bounds. Each claim as text, with its verdict.

A claim assumes the conditions of the enclosing branches, the access's mask, and the bounds of the enclosing loops. A
variable's range is weaker than its loop's bounds if these are not sizes, as in `lego.range(tx, n, 32)` or
`lego.range(row[i], row[i + 1])`; a counter-example counts only if it also satisfies the bounds.

A position computed from data, or from the variable of a loop that ends at data, may be in bounds for all inputs that
occur, so such a claim is Unknown instead of Refuted. An argument in a condition alone does not weaken a refutation: the
branch can be taken, and the first iteration of a loop can run. A register, a shuffled value or another value that the
kernel computes does, because it may never have the value of the counter-example. Where a claim is not proved, ranges of
what passes through registers and shared tiles are added (`stored_ranges`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import sympy

from lego_mlir.aliases import Expr, Symbol
from lego_mlir.errors import brief
from lego_mlir.expr.index import as_expr
from lego_mlir.expr.nodes import Eq, FloorMod, Le, Lt, Ne, Select, Size
from lego_mlir.expr.prove import prove
from lego_mlir.expr.ranges import Range
from lego_mlir.expr.verdict import Proved, Refuted, Unknown, Verdict
from lego_mlir.tracing.checks.stored_ranges import StoredRanges
from lego_mlir.tracing.trace.data_ranges import DataRanges
from lego_mlir.tracing.trace.trace import (
    AsyncCopy,
    Atomic,
    For,
    If,
    KernelTrace,
    Load,
    MatrixLoad,
    Statement,
    Store,
    Value,
    While,
    accesses_of,
)

if TYPE_CHECKING:
    from lego_mlir.expr.ranges import Ranges


_VERBS: Final = {
    Load: "load from", Store: "store to", Atomic: "atomic update of", MatrixLoad: "load of matrices from",
    AsyncCopy: "copy of",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Claim:
    """An access as text, the claim, the conditions it assumes, and the enclosing loops."""

    text: str
    inside: Any
    position: Any
    conditions: tuple[Any, ...]
    loops: tuple[For, ...]

    @property
    def symbols(self) -> frozenset[Symbol]:
        """The symbols of the claim, its conditions and the ends of its loops."""
        ends = (end for loop in self.loops for end in (loop.lo, loop.hi, loop.step))
        return frozenset[Symbol]().union(*(part.free_symbols for part in (self.inside, *self.conditions, *ends)))

    def given(self, facts: tuple[Any, ...]) -> Any:
        """The claim under the conditions and these facts."""
        return sympy.Or(sympy.Not(sympy.And(*self.conditions, *facts)), self.inside)


def access_verdicts(
    trace: KernelTrace, timeout_ms: int, is_filled: Callable[[str], bool] = lambda tile: False
) -> Iterator[tuple[str, Verdict]]:
    """Each access of a kernel as text, with the verdict on its bounds.

    Ranges of what is read from a shared tile count where the tile `is_filled`: proved to be written before it is read,
    without a race.
    """
    words = DataMeaning(trace)
    stored: Callable[[], DataMeaning] = cache(lambda: DataMeaning(trace, StoredRanges(trace)))
    words.changed = frozenset(a.buffer.name for s, a in trace.accesses() if isinstance(s, (Store, Atomic)))
    for body in (trace.body, *(function.body for function in trace.functions())):
        plain = _access_claims(trace, body, words)
        kept: Callable[[DataMeaning], list[Claim]] = cache(lambda of, body=body: [*_access_claims(trace, body, of)])
        for number, claim in enumerate(plain):
            verdict = _possible(_proved(claim, trace, words, timeout_ms), claim, words)
            if not isinstance(verdict, Proved) and claim.symbols & words.values.keys():
                named = [words.values[s] for s in claim.symbols & words.values.keys()]
                ranged = kept(stored())[number]
                verdict = _by_stored(ranged, named, trace, stored(), timeout_ms, is_filled) or verdict
            yield claim.text, verdict


def _access_claims(trace: KernelTrace, body: tuple[Statement, ...], words: DataMeaning) -> Iterator[Claim]:
    required = tuple(requirement.condition for requirement in trace.requirements)
    return _claims(body, required, (), words.meaning)


def _proved(claim: Claim, trace: KernelTrace, words: DataMeaning, timeout_ms: int) -> Verdict:
    return _verdict(claim, {**trace.ranges, **words.ranges}, set(words.ranges), timeout_ms)


def _by_stored(
    claim: Claim,
    named: Sequence[Value],
    trace: KernelTrace,
    words: DataMeaning,
    timeout_ms: int,
    is_filled: Callable[[str], bool],
) -> Verdict | None:
    """The proof by ranges of what registers and shared tiles hold; None without one.

    The claim without these ranges has the values `named`: some may cancel in the claim with them, which holds only
    where no sum overflows, so what they are computed from must be in its range too.
    """
    verdict = _proved(claim, trace, words, timeout_ms)
    if not isinstance(verdict, Proved):
        return None
    data = words.data
    assert isinstance(data, StoredRanges)
    tiles = sorted(data.tiles_behind([*named, *(words.values[s] for s in claim.symbols if s in words.values)]))
    if unfilled := [tile for tile in tiles if not is_filled(tile)]:
        return Unknown(
            f"what {', '.join(unfilled)} holds has a sufficient range, if every read comes after a write, without a "
            "race; mend those claims first"
        )
    passed = f", through {', '.join(tiles)}" if tiles else ""
    return Proved(f"{verdict.by}, with ranges of stored data{passed}")


class DataMeaning:
    """The meaning of the symbols that represent data, over symbols named as the user wrote them.

    An operation on data that cannot overflow becomes index arithmetic, and a comparison a condition, so that a guard on
    data counts, and a counter-example has values that memory can hold.
    """

    def __init__(self, trace: KernelTrace, data: DataRanges | None = None) -> None:
        self.data = trace.data if data is None else data
        self.meaning: dict[Any, Any] = {}
        self.ranges: dict[Any, Range] = {}
        self.values: dict[Any, Value] = {}
        self.changed: frozenset[str | None] = frozenset()
        self._symbols: dict[int, Any] = {}
        self._taken = {str(symbol) for symbol in trace.ranges}
        for symbol, value in self.data.symbols.items():
            if symbol in self.data.claimed:
                self.meaning[symbol] = self._symbol(value, self.data.claimed[symbol])
            elif value.dtype.family == "bool":
                holds = self.data.condition(value, self.leaf).xreplace(self.meaning)
                self.meaning |= {Ne(symbol, 0): holds, Eq(symbol, 0): sympy.Not(holds), symbol: Select(holds, 1, 0)}
            else:
                self.meaning[symbol] = self.data.expression(value, self.leaf).xreplace(self.meaning)

    def leaf(self, value: Value) -> Any:
        """The symbol of a value that is not computed from others, such as a loaded one."""
        if value.number not in self._symbols:
            self._symbols[value.number] = self._symbol(value, self.data.range_of(value))
        return self._symbols[value.number]

    def _symbol(self, value: Value, within: Range) -> Any:
        """A new symbol named as the value; the same location may hold another value when read again.

        An index that does not fit its type, such as i8(tx), reads as the index and is another value.
        """
        text = self.data.text(value)
        name = f"({text})" if " " in text and not text.endswith("]") else text
        while name in self._taken:
            name += "'"
        self._taken.add(name)
        symbol = sympy.Symbol(name, integer=True)
        lo, hi = (as_expr(end).xreplace(self.meaning) for end in (within.lo, within.hi))
        self.ranges[symbol] = Range(lo, hi, within.step)
        self.values[symbol] = value
        return symbol


def _possible(verdict: Verdict, claim: Claim, words: DataMeaning) -> Verdict:
    """Unknown for a counter-example with values that the kernel computes, or two elements of one tensor."""
    if not isinstance(verdict, Refuted):
        return verdict
    symbols = {s for part in claim.conditions for s in part.free_symbols if s in words.values}
    inputs = [words.data.input_of(words.values[s]) for s in symbols]
    if None in inputs or len(set(inputs)) < len(inputs) or words.changed & set(inputs):
        values = ", ".join(f"{name} = {value}" for name, value in verdict.counter_example.items())
        names = ", ".join(sorted(map(str, symbols)))
        return Unknown(
            f"it fails for {values}, if {names} can have such values; guard it with a condition on the index"
        )
    return verdict


def _claims(
    body: tuple[Any, ...], conditions: tuple[Any, ...], loops: tuple[For, ...], words: Mapping[Any, Any]
) -> Iterator[Claim]:
    for statement in body:
        match statement:
            case Load() | Store() | Atomic() | MatrixLoad() | AsyncCopy():
                for access in accesses_of(statement):
                    position, mask = as_expr(access.position).xreplace(words), access.mask.xreplace(words)
                    inside = sympy.And(
                        Le(0, position), Lt(position + access.width - 1, as_expr(access.buffer.size).xreplace(words))
                    )
                    verb = _VERBS[type(statement)]
                    index = brief(", ".join(_in_words(part, words) for part in access.index))
                    text = f"{access.source}: {verb} {access.buffer.name}[{index}] stays inside"
                    yield Claim(text, inside, position, (*conditions, mask), loops)
            case For(symbol=symbol, lo=lo, hi=hi, step=step, body=inner, source=source):
                low, high, by = (as_expr(end).xreplace(words) for end in (lo, hi, step))
                yield from _claims(inner, conditions, (*loops, For(symbol, low, high, by, (), source)), words)
            case While(body=inner):
                yield from _claims(inner, conditions, loops, words)
            case If(condition=condition, then=then, otherwise=otherwise):
                holds = condition.xreplace(words)
                yield from _claims(then, (*conditions, holds), loops, words)
                yield from _claims(otherwise, (*conditions, sympy.Not(holds)), loops, words)


def _in_words(index: Expr, words: Mapping[Any, Any]) -> str:
    text = str(as_expr(index).xreplace(words))
    return text[1:-1] if words.get(index, index).is_Symbol and text.startswith("(") else text


def _verdict(claim: Claim, ranges: Ranges, data: set[Any], timeout_ms: int) -> Verdict:
    verdict = prove(claim.given(()), ranges, timeout_ms=timeout_ms)
    facts = tuple(fact for loop in claim.loops for fact in _facts(loop))
    if facts and not isinstance(verdict, Proved):
        verdict = prove(claim.given(facts), ranges, timeout_ms=timeout_ms)
    if isinstance(verdict, Refuted) and claim.position.free_symbols & _from_memory(claim.loops, data):
        return _of_data(claim, facts, verdict, ranges, data, timeout_ms)
    return verdict


def _facts(loop: For) -> Iterator[Any]:
    """The loop's bounds that the variable's range does not contain, because they are not sizes."""
    if not _over_sizes(loop.lo):
        yield Le(loop.lo, loop.symbol)
        if loop.step != 1:
            yield Eq(FloorMod(loop.symbol - loop.lo, loop.step), 0)
    if not _over_sizes(loop.hi):
        yield Lt(loop.symbol, loop.hi)


def _over_sizes(expr: Expr) -> bool:
    return all(isinstance(symbol, Size) for symbol in expr.free_symbols)


def _from_memory(loops: tuple[For, ...], data: set[Any]) -> set[Any]:
    """The symbols that depend on data: data itself, and variables of loops whose bounds are computed from it."""
    found = set(data)
    for loop in loops:
        if (loop.lo.free_symbols | loop.hi.free_symbols | loop.step.free_symbols) & found:
            found.add(loop.symbol)
    return found


def _of_data(
    claim: Claim, facts: tuple[Any, ...], refuted: Refuted, ranges: Ranges, data: set[Any], timeout_ms: int
) -> Verdict:
    """Unknown for a position that depends on data, unless the first iteration is out of bounds anyway."""
    first = {loop.symbol: loop.lo for loop in claim.loops if not loop.lo.free_symbols & _from_memory(claim.loops, data)}
    position = claim.position.xreplace(first)
    if not position.free_symbols & _from_memory(claim.loops, data):
        begun = prove(claim.given(facts).xreplace(first), ranges, timeout_ms=timeout_ms)
        if isinstance(begun, Refuted):
            return begun
    values = ", ".join(f"{name} = {value}" for name, value in refuted.counter_example.items())
    return Unknown(
        f"it depends on the contents of memory, and fails for {values}; to prove it, take i = lego.index(data) "
        "and use i % n, or guard with lego.when((0 <= i) & (i < n))"
    )
