"""Masks and scores of a user in calls of attention: their keys, and the tables of tiles that masks need.

Two functions with one code, and equal plain values as defaults, in their closures and in the globals that they name,
are one rule, so that a lambda in a loop is traced once, and a global that has changed is seen.

A table of tiles is kept while PyTorch's tensors, from which it was made, are the same objects with the same versions,
on the same stream; of other libraries' arrays it is made in each call, by an evaluation of the mask for each pair. A
captured call makes its own, in each replay of the graph.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Final

from lego_mlir.aliases import Operand, Tensor
from lego_mlir.errors import LegoError, UsageError
from lego_mlir.kernels.pair_rules import GRADIENT_OF, OWN, SUMS_OF, PairRule, PairRules, ReadArray
from lego_mlir.runtime.arrays import library_of
from lego_mlir.tracing.trace.dtypes import DTYPES

if TYPE_CHECKING:
    from lego_mlir.kernels.attention_forms import AttentionForm
    from lego_mlir.runtime.plans import Plan

PLAIN: Final = (bool, int, float, str, type(None), FunctionType)
"""Types of values of closures and globals that are compared."""
_PACKAGE: Final = __name__.partition(".")[0]


def key_of_rule(function: Callable[..., Operand] | None, inside: tuple[Hashable, ...] = ()) -> Hashable:
    """The key of a rule, equal for rules that trace to the same: of a function without code, the function itself.

    `inside` are the functions that name this one.
    """
    if type(function) is not FunctionType or function in inside:
        return function
    inside = (*inside, function)
    try:
        held = [cell.cell_contents for cell in function.__closure__ or ()]
    except ValueError:  # a name that is not bound yet
        return function
    held += [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    if not all(type(value) in PLAIN for value in held):
        return function
    named = tuple(_key_of_value(function.__globals__.get(name), inside) for name in _names(function.__code__))
    values = tuple(_key_of_value(value, inside) for value in held)
    return function.__code__, id(function.__globals__), values, named


def _key_of_value(value: object, inside: tuple[Hashable, ...]) -> Hashable:
    """The key of a plain value or of a user's function; the identity of any other object."""
    if type(value) is FunctionType and not (value.__module__ or "").startswith(_PACKAGE):
        return key_of_rule(value, inside)
    return (type(value), repr(value) if type(value) in PLAIN[:-1] else id(value))


@lru_cache(256)
def _names(code: CodeType) -> tuple[str, ...]:
    """The globals and attributes that code names, functions in it included."""
    inner = [name for one in code.co_consts if isinstance(one, CodeType) for name in _names(one)]
    return tuple(dict.fromkeys([*code.co_names, *inner]))


def rules_of(
    mask: Callable[..., Operand] | None, score: Callable[..., Operand] | None, reads: Mapping[str, Tensor]
) -> PairRules | None:
    """The rules of a call, None without any. Raises UsageError for arrays that no rule reads, or cannot."""
    if mask is None and score is None:
        if reads:
            raise UsageError(f"attention: reads has {', '.join(reads)} for a mask or a score, and there is none")
        return None
    arrays = []
    for name, array in reads.items():
        library = library_of(array)
        if library is None or not library.facts(array).shape or 0 in library.facts(array).shape:
            raise UsageError(
                f"attention: reads[{name!r}] is an array with an axis and an element at least, got "
                f"{getattr(array, 'shape', type(array).__name__)}; close over a number instead"
            )
        if name in OWN or name.startswith((SUMS_OF, GRADIENT_OF)):
            raise UsageError(
                f"attention: reads has an array {name!r}, as a parameter of the kernel is called; rename it"
            )
        facts = library.facts(array)
        dtype = next((d for d in DTYPES.values() if d.numpy_name == facts.dtype and not d.is_f8), None)
        if dtype is None:
            raise UsageError(
                f"attention: reads[{name!r}] has elements of {facts.dtype}, which no kernel reads; convert it"
            )
        arrays.append(ReadArray(name, dtype, len(facts.shape)))
    rules = {
        word: PairRule.of(word, f, tuple(reads)) for word, f in (("mask", mask), ("score", score)) if f is not None
    }
    for word, rule in rules.items():
        _refuse_closed_over(word, rule.function)
    unread = [name for name in reads if not any(name in rule.names for rule in rules.values())]
    if unread:
        raise UsageError(f"attention: reads has {', '.join(unread)}, which neither mask nor score has as a parameter")
    return PairRules(rules.get("mask"), rules.get("score"), tuple(arrays))


def _refuse_closed_over(word: str, function: Callable[..., Operand]) -> None:
    """Raise UsageError for a rule that reads an array that is not given by name."""
    if type(function) is not FunctionType:
        return
    held = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    found = {name: cell.cell_contents for name, cell in held.items()}
    found |= {name: function.__globals__[name] for name in function.__code__.co_names if name in function.__globals__}
    for name, value in found.items():
        if library_of(value) is not None:
            raise UsageError(
                f"attention: {word} reads the array {name!r} of its surroundings; give it a parameter {name}, and pass "
                f"reads={{{name!r}: {name}}}"
            )


def with_tables(form: AttentionForm) -> AttentionForm:
    """The form, whose tiles are found by a table where no formula tells them."""
    rules = form.rules
    if rules.mask is None:
        return form
    listed = bool(rules.mask.names) or not _is_affine(form)
    return replace(form, pairs=replace(rules, listed=listed))


def _is_affine(form: AttentionForm) -> bool:
    """Whether formulas tell the tiles that a mask allows."""
    import lego_mlir as lego
    from lego_mlir.kernels.pair_rules import PairsOf
    from lego_mlir.kernels.rule_spans import NotAffineError, spans

    batch, head, first = (lego.size(name, min=0) for name in ("batch", "head", "first"))
    pairs = PairsOf(form.rules, batch, head, {})
    try:
        spans(lambda i, j: form.reaches(i, j, pairs), first, 1)
    except (NotAffineError, LegoError):  # a kernel raises an error of the rule again, with its line
        return False
    return True


class KeptTable:
    """The table of tiles for the arrays of a call, q, k, v and those of rules; `reads` tells which the mask reads."""

    def __init__(self, plan: Plan, reads: Sequence[int]) -> None:
        self.plan, self.reads = plan, reads
        self._kept: tuple[Hashable, list[weakref.ref[Tensor]], Tensor] | None = None

    def __call__(self, given: Sequence[Tensor]) -> Tensor:
        """The table."""
        read = [given[n] for n in self.reads]
        state = self._state(given[0], read)
        if self._kept is not None and state is not None:
            known, arrays, table = self._kept
            if state == known and all(ref() is x for ref, x in zip(arrays, read, strict=True)):
                return table
        table = self.plan([*given[:2], *read], None)
        table = table[0] if isinstance(table, tuple) else table
        if state is not None:
            self._kept = state, [weakref.ref(x) for x in read], table
        return table

    def _state(self, q: Tensor, read: Sequence[Tensor]) -> Hashable:
        """The versions of arrays and the stream for which a table is ready; None if versions are unknown."""
        torch = sys.modules.get("torch")
        if torch is None or not isinstance(q, torch.Tensor) or any(x.is_inference() for x in read):
            return None
        if q.is_cuda and torch.cuda.is_current_stream_capturing():  # arrays may change between replays
            return None
        stream = torch.cuda.current_stream(q.device).cuda_stream if q.is_cuda else 0
        return stream, tuple(x._version for x in read)
