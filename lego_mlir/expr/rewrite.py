"""Applies the rules innermost first, each condition proved before its rule is used.

An atom is rewritten after its operands, by the first rule whose instantiated pattern equals the atom and whose
condition is proved; the result is rewritten in turn. A sum is examined after its atoms: a quotient and a remainder of
one number may recombine there. Results are memoized as `Trace`s, so work shared by two expressions is done once and
still appears in the trail of both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lego_mlir.errors import ExpressionError
from lego_mlir.expr.budgets import Budget
from lego_mlir.expr.cost import OPERATIONS
from lego_mlir.expr.nodes import COMPARISONS, FloorDiv, FloorMod, Larger, Ne, Smaller
from lego_mlir.expr.poly import PRODUCT, SYMBOL, ZERO, Argument, Atom, Comparison, Poly, Truth
from lego_mlir.expr.prover import THOROUGHLY
from lego_mlir.expr.rules import BY_NODE, RECOMPOSE, REMAINDER, Rule
from lego_mlir.expr.terms import Factor, outer

if TYPE_CHECKING:
    from lego_mlir.expr.context import Context

ROUNDS = 20  # of the sum rules over one sum
STEPS = 20_000  # terms looked at in one such round


@dataclass(frozen=True, slots=True)
class Applied:
    """One replacement: the rule, the operands before and after, its condition, and the methods that proved it."""

    rule: str
    before: Poly | Atom
    after: Poly | Truth
    condition: tuple[tuple[Any, Poly, Poly], ...]
    proof: str


@dataclass(slots=True)
class Trace:
    """The result of rewriting `subject`, and its history: replacements and the traces of parts, in order."""

    result: Any
    history: list[Applied | Trace] = field(default_factory=list)
    subject: Any = None


class Rewriter:
    """Rewrites polynomials and conditions of one context."""

    def __init__(self, context: Context) -> None:
        self.terms = context.terms
        self.facts = context.facts
        self.prover = context.prover
        self._sums: dict[Poly, Trace] = {}
        self._atoms: dict[Atom, Trace] = {}
        self._weights: dict[Poly, int] = {}

    # ---- sums

    def sum(self, poly: Poly) -> Trace:
        """Rewrite a whole operand or expression: its atoms, then the sum itself."""
        known = self._sums.get(poly)
        if known is None:
            known = Trace(poly, subject=poly)
            self._sums[poly] = known  # a recursive occurrence is left unchanged
            known.result = self._atomwise(poly, known.history)
            for _ in range(ROUNDS):
                better = next(self._cheaper_sums(known.result, known.history), None)
                if better is None:
                    break
                known.result = better
        return known

    def _atomwise(self, poly: Poly, history: list[Applied | Trace]) -> Poly:
        """The polynomial with every atom replaced by its rewritten form."""
        result = poly
        for atom in poly.atoms():
            if atom.op is SYMBOL:
                continue
            trace = self.atom(atom)
            history.append(trace)
            if trace.result.atom is not atom:
                result = result.substituted(atom, trace.result)
        return result

    def _cheaper_sums(self, poly: Poly, history: list[Applied | Trace]) -> Iterator[Poly]:
        """Cheaper sums equal to this one, with a remainder expanded or a quotient recombined."""
        if len(poly.terms) < 2:
            return
        budget = Budget(STEPS)
        for atom in poly.atoms():
            if atom.op is not FloorMod and atom.op is not FloorDiv:
                continue
            if not budget.spend(len(poly.terms)):
                return
            parts = poly.split(atom)
            if parts is None:
                continue
            if atom.op is FloorMod:
                yield from self._taken_apart(poly, atom, parts, history)
            else:
                yield from self._put_together(poly, atom, parts, history)

    def _taken_apart(
        self, poly: Poly, atom: Atom, parts: tuple[Poly, Poly], history: list[Applied | Trace]
    ) -> Iterator[Poly]:
        """x % d as x - d*(x//d), where the sum already contains the quotient and it cancels."""
        value, divisor = atom.args
        proof = self._nonzero(divisor)
        if proof is None:
            return
        quotient = self.terms.node(FloorDiv, value, divisor)
        whole = parts[1] + parts[0] * (value - divisor * quotient)
        parts_history: list[Applied | Trace] = []
        result = self._atomwise(whole, parts_history)
        cancelled = not _divisions(self._atomwise(quotient, [])) & _divisions(result)
        if cancelled and self._weight(result) < self._weight(poly):
            rule = RECOMPOSE if whole == result else REMAINDER
            history.append(Applied(rule.name, poly, whole, (_nonzero(divisor),), proof))
            history.extend(parts_history)
            yield result

    def _put_together(
        self, poly: Poly, atom: Atom, parts: tuple[Poly, Poly], history: list[Applied | Trace]
    ) -> Iterator[Poly]:
        """x - d*(x//d) as x % d."""
        value, divisor = atom.args
        factor, rest = (-parts[0]).divided(divisor)
        proof = self._nonzero(divisor)
        if rest or not factor or proof is None:
            return
        whole = parts[1] + factor * (self.terms.node(FloorMod, value, divisor) - value)
        if len(whole.terms) < len(poly.terms) and self._weight(whole) < self._weight(poly):
            rule = REMAINDER if _divisions(whole) - _divisions(poly) else RECOMPOSE
            history.append(Applied(rule.name, poly, whole, (_nonzero(divisor),), proof))
            yield self._atomwise(whole, history)

    def _nonzero(self, divisor: Poly) -> str | None:
        return self.prover.proof(*_nonzero(divisor))

    def _weight(self, poly: Poly) -> int:
        """An estimate of a sum's cost, each distinct atom once."""
        known = self._weights.get(poly)
        if known is None:
            terms = outer(poly)
            known = max(0, len(terms) - 1)
            factors: set[Any] = set()
            for m, c in terms.items():
                known += max(0, len(m) - 1 + (abs(c) != 1)) if m else 0
                factors.update(m)
            for f in factors:
                known += self._factor_weight(f)
            self._weights[poly] = known
        return known

    def _factor_weight(self, factor: Factor) -> int:
        if isinstance(factor, tuple):
            return 0 if factor[1] == 1 else OPERATIONS.divide
        own = OPERATIONS.divide if factor.op in (FloorDiv, FloorMod) else OPERATIONS.other
        inner = 0
        for argument in factor.args:
            if isinstance(argument, Poly):
                inner += self._weight(argument)
            elif isinstance(argument, Atom):
                inner += self._factor_weight(argument)
        return own + inner

    # ---- atoms

    def atom(self, atom: Atom) -> Trace:
        """Rewrite one operation; the result is a polynomial whose atoms are rewritten."""
        known = self._atoms.get(atom)
        if known is None:
            known = Trace(Poly({(atom,): 1}), subject=atom)
            self._atoms[atom] = known
            known.result = self._new_atom(atom, known.history)
        return known

    def _new_atom(self, atom: Atom, history: list[Applied | Trace]) -> Poly:
        arguments = tuple(self._argument(argument, history) for argument in atom.args)
        try:
            current = self.terms.node(atom.op, *arguments) if atom.op is not PRODUCT else self._product(arguments)
        except ExpressionError:  # a division by zero, which only an unreachable branch can contain: leave it
            return Poly({(atom,): 1})
        rebuilt = current.atom
        if rebuilt is None or rebuilt is not atom:
            return self._atomwise(current, history)
        for rule in BY_NODE.get(atom.op, ()):
            applied = self._apply(rule, atom)
            if applied is not None:
                history.append(applied)
                assert isinstance(applied.after, Poly)
                return self._atomwise(applied.after, history)
        return current

    def _product(self, arguments: tuple[Poly, ...]) -> Poly:
        return self.terms.product([arguments[0]]) if len(arguments[0].terms) <= 1 else self._kept(arguments)

    def _kept(self, arguments: tuple[Poly, ...]) -> Poly:
        return self.terms._intern(PRODUCT, arguments)

    def _argument(self, argument: Argument, history: list[Applied | Trace]) -> Argument:
        if isinstance(argument, Poly):
            trace = self.sum(argument)
        elif isinstance(argument, Atom):
            trace = self.condition(argument)
        else:
            return argument
        history.append(trace)
        return trace.result

    def _apply(self, rule: Rule, atom: Atom) -> Applied | None:
        subject = Poly({(atom,): 1})
        for binding in rule.match(self.facts, atom):
            if rule.build_pattern(self.terms, binding) != subject:
                continue
            condition = tuple((op, left(self.terms, binding), right(self.terms, binding))
                              for op, left, right in rule.conditions)  # fmt: skip
            methods = []
            for op, left, right in condition:
                method = self.prover.proof(op, left, right)
                if method is None or (method == THOROUGHLY and atom.op in (Smaller, Larger)):
                    break  # the plain facts need the maximum, whose bound lets printers divide unsigned
                methods.append(method)
            else:
                result = rule.build_result(self.terms, binding)
                if result != subject:
                    return Applied(rule.name, atom, result, condition, ", ".join(dict.fromkeys(methods)) or "always")
        return None

    # ---- conditions

    def condition(self, truth: Truth) -> Trace:
        """Rewrite a condition: its operands, then the condition itself if it is proved or refuted."""
        if isinstance(truth, bool):
            return Trace(truth, subject=truth)
        known = self._atoms.get(truth)
        if known is None:
            known = Trace(truth, subject=truth)
            self._atoms[truth] = known
            arguments = tuple(self._argument(argument, known.history) for argument in truth.args)
            known.result = self.terms.truth(truth.op, *arguments)
            if not isinstance(known.result, bool) and known.result.op in COMPARISONS:
                decided = self._decided(known.result)
                if decided is not None:
                    known.history.append(decided)
                    known.result = decided.after
        return known

    def _decided(self, comparison: Atom) -> Applied | None:
        left, right = comparison.args
        method = self.prover.proof(comparison.op, left, right)
        if method is not None:
            return Applied("comparison that holds", comparison, True, ((comparison.op, left, right),), method)
        opposite = self.prover.negated(comparison.op, left, right)
        method = self.prover.proof(*opposite)
        if method is not None:
            return Applied("comparison that fails", comparison, False, (opposite,), method)
        return None


def _divisions(poly: Poly) -> set[Atom]:
    return {atom for atom in poly.atoms() if atom.op is FloorDiv or atom.op is FloorMod}


def _nonzero(divisor: Poly) -> Comparison:
    return Ne, divisor, ZERO
