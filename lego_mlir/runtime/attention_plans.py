"""Attention bound to arrays of certain types, shapes and strides: its launches, and those of its gradients.

    known      plans of this process, by what `key_of` tells of q, k and v, and the options of the call
    forward    q, k, v, .. -> the result and the log-sum-exps of its rows
    backward   the launches of gradients, bound at their first use, and then launched as one chain

Kernels read arrays by their strides, as [batch, heads, positions, features] or [heads, rows, features]; results have
the shapes of q, k and v, and the order of their axes in memory. An array that a kernel cannot read is copied into rows.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from math import prod
from typing import TYPE_CHECKING, Final

from lego_mlir.aliases import AnyArray, Foreign, Tensor
from lego_mlir.errors import UsageError
from lego_mlir.hardware.tensor_maps import CHUNK
from lego_mlir.kernels.attention_forms import AXES
from lego_mlir.kernels.pair_rules import GRADIENT_OF, SUMS_OF
from lego_mlir.runtime.arrays import ArrayFacts, key_of
from lego_mlir.runtime.binding import DenseShape
from lego_mlir.runtime.first_derivatives import refusing
from lego_mlir.runtime.launches import PlanChain, chain_of
from lego_mlir.runtime.products.operands import ALIGNMENT, in_rows, read

if TYPE_CHECKING:
    from lego_mlir.runtime.calls import Calls
    from lego_mlir.runtime.exact_kernels import ExactKernel
    from lego_mlir.runtime.plans import Plan

_KEPT: Final = 4096
"""Calls of one process; a caller whose shapes change all the time starts over."""
OF_HEADS: Final = ("q", "k", "v", "o", "do", "dq", "dk", "dv")
"""Arrays whose strides are sizes of the kernels; all others are in rows."""
STARTS: Final = ("starts_q", "starts_k")
"""Where the sequences of packed arrays begin."""
GRADIENTS: Final = ("dq", "dk", "dv")


@dataclass(frozen=True, slots=True)
class GradientCalls:
    """The kernels of gradients, in their order; the last ones' results are those of q, k and v.

    Those that `add` compute deltas and sums of zeros, add to the sums, and round these. Others compute deltas, the
    gradients of keys and values by one kernel or two, and those of queries.
    """

    add: bool
    prepare: Calls
    main: tuple[Calls, ...]
    last: Calls
    table: Calls | None = None
    """Lists the tiles that a user's mask allows, before the main ones."""
    of_reads: Mapping[str, tuple[Calls, Calls | None]] = field(default_factory=dict)
    """For each array that the score reads and that has a gradient: what clears its sums in f32, and what rounds them.

    f32 are not rounded. The last kernel adds to the sums, or the main one of those that `add`.
    """


@dataclass(frozen=True, slots=True)
class GradientStep:
    """A launch of gradients: its kernel, the names of the arrays that it takes, and the forms of those it makes."""

    calls: Calls
    takes: tuple[str, ...]
    makes: Mapping[str, DenseShape]


@dataclass(frozen=True, slots=True)
class HeadAxes:
    """How kernels index arrays: [batch, heads, rows, features], or as [heads, rows, features] what is `packed`.

    Packed arrays are [rows, heads, features]. Others may have more leading dimensions, or none. The strides of axes of
    one element are `unknown` to kernels of constant sizes.
    """

    packed: bool = False
    unknown: frozenset[str] = frozenset()
    copied: bool = False
    """Whether views are copies, as JAX makes them: then these are launched on."""

    def launched(self, given: Sequence[Tensor]) -> Sequence[Tensor]:
        """The arrays whose addresses a launch takes."""
        return self.views(given, ("q", "k", "v")) if self.copied else given

    def views(self, given: Sequence[Tensor], names: Sequence[str]) -> list[Tensor]:
        """Arrays as the kernels index them, those of heads by their names; others, and what follows, as they are."""
        views = [self._view(x) if name in OF_HEADS else x for x, name in zip(given, names, strict=False)]
        return [*views, *given[len(names) :]]

    def _view(self, x: Tensor) -> Tensor:
        if self.packed:
            return x.swapaxes(0, 1)
        return x if len(x.shape) == len(AXES) else x.reshape(-1, *x.shape[-3:])

    def sizes(self, results: Mapping[str, DenseShape]) -> dict[str, int]:
        """The strides of results like q, k and v, which are sizes of a kernel."""
        found = {}
        for name, dense in results.items():
            if name not in OF_HEADS:
                continue
            *outer, second, last, _ = dense.strides
            found[f"{name}_head"], found[f"{name}_row"] = (last, second) if self.packed else (second, last)
            if not self.packed:
                found[f"{name}_batch"] = outer[-1] if outer else prod(dense.shape)
        return {name: step for name, step in found.items() if name not in self.unknown}


def bound_launch(
    calls: Calls, axes: HeadAxes, given: Sequence[Tensor], names: Sequence[str], results: Mapping[str, DenseShape],
    check: bool,
) -> Plan:  # fmt: skip
    """A kernel bound to arrays, of which the first have these names, and to its results in the order of parameters."""
    views = axes.views(given, names)
    arrays = views if axes.copied else given
    return calls.plan_of_views(views, arrays, axes.sizes(results), list(results.values()), check)


def readable(x: Tensor) -> Tensor:
    """An array that the kernels can read; with more dimensions than theirs, in rows, so that its batches are one."""
    return by_strides(x) if len(x.shape) <= len(AXES) else in_rows(x)


def by_strides(x: Tensor) -> Tensor:
    """The array if the kernels can read it by its strides, else a copy in rows."""
    facts = read("an operand", x, "attention").facts
    return x if has_strides(facts) and facts.pointer % ALIGNMENT == 0 else in_rows(x)


def has_strides(facts: ArrayFacts) -> bool:
    """Whether the kernels can read arrays of these strides: no element is at two places."""
    axes = sorted((step, n) for n, step in zip(facts.shape[:-1], facts.strides, strict=False) if n > 1)
    reach, fits = facts.shape[-1], facts.strides[-1] == 1
    for step, n in axes:
        fits, reach = fits and step >= reach and step * facts.itemsize % CHUNK == 0, reach + (n - 1) * step
    return fits


def dense_like(x: Tensor, features: int | None = None) -> DenseShape:
    """The shape of a result like an array, or with other `features`, in its order of axes where kernels can tell it."""
    given = read("an operand", x, "attention")
    shape, strides = given.facts.shape, given.facts.strides
    shape = shape if features is None else (*shape[:-1], features)
    if given.library.name == "jax" or len(shape) > len(AXES):
        return DenseShape.rows(*shape)
    return DenseShape.like(shape, (*(max(step, 1) for step in strides[:-1]), 0))


@dataclass(frozen=True, slots=True)
class BoundRules:
    """What a user's rules add to the launches: arrays that they read, those of the mask, and tables of tiles."""

    reads: tuple[str, ...] = ()
    of_mask: tuple[str, ...] = ()
    table: Callable[[Sequence[Tensor]], Tensor] | None = None
    """Makes the table of tiles for the result, of the arrays of a call."""
    of_keys: DenseShape | None = None
    """The form of the table for gradients."""
    learned: Mapping[str, DenseShape] = field(default_factory=dict)
    """The forms of the arrays that the score reads and that have gradients."""

    @property
    def names(self) -> tuple[str, ...]:
        """What a call has after q, k and v."""
        return (*self.reads, *["tiles"] * (self.table is not None))


@dataclass(slots=True)
class BoundAttention:
    """Attention of q, k and v, and perhaps the starts of sequences, bound to all but their addresses.

    `axes` tells how the kernels index q, k, v and arrays like them, whose forms are `shapes`. `gradients` names the
    kernels, for `deterministic` ones or not. Raises UsageError, before anything is computed, where gradients are
    recorded that no kernel computes.
    """

    forward: Plan
    pointer: Callable[[AnyArray], int]
    axes: HeadAxes
    gradients: Callable[[bool], GradientCalls]
    shapes: tuple[DenseShape, DenseShape]
    rows: tuple[int, ...]
    """The shape of what there is for each row, as the kernels index it."""
    check: bool = False
    learns: bool = False
    without_gradients: str = ""
    """Why there are no gradients, where no kernel computes them."""
    exact: ExactKernel | None = None
    """Counts the calls of a kernel for all sizes."""
    rules: BoundRules = field(default_factory=BoundRules)
    _plans: dict[Hashable, BoundGradients] = field(default_factory=dict)

    def __call__(self, given: Sequence[Tensor], deterministic: bool | None = None) -> Tensor:
        """The result for arrays like those that this was bound to, with gradients where they are recorded."""
        if self.exact is not None:
            self.exact.called()
        if self.rules.table is not None:
            given = (*given, self.rules.table(given))
        if self.learns and gradients_enabled():
            if self.without_gradients:
                raise UsageError(self.without_gradients)
            found: Tensor = _function().apply(self, deterministic, *given)
            return found
        return self.forward(self.axes.launched(given), None)[0]

    def takes(self, given: Sequence[Tensor]) -> bool:
        """Whether arrays of the types, shapes and strides that this was bound to can be read where they are."""
        pointer = self.pointer
        return (pointer(given[0]) | pointer(given[1]) | pointer(given[2])) % ALIGNMENT == 0

    def differentiated(self, saved: Sequence[Tensor], do: Tensor, deterministic: bool) -> list[Tensor]:
        """The gradients of q, k and v, and of the arrays that the score reads and that have one."""
        key = deterministic, key_of((do,))
        plan = self._plans.get(key)
        if plan is None or self.pointer(do) % ALIGNMENT:
            do = readable(do)
            key = deterministic, key_of((do,))  # of a copy, where it is one
            plan = self._plans.get(key)
        if plan is None:
            calls = self.gradients(deterministic)
            steps = self._steps(calls)
            wanted = [GRADIENT_OF + name if last else SUMS_OF + name for name, (_, last) in calls.of_reads.items()]
            names = ("q", "k", "v", *(STARTS if self.axes.packed else self.rules.names), "o", "lse", "do")
            plan = self._plans[key] = BoundGradients(steps, names, (*GRADIENTS, *wanted), self.axes, self.check)
        return plan([*saved, do])

    def _steps(self, calls: GradientCalls) -> list[GradientStep]:
        """The launches of gradients, in their order."""
        of_q, of_k = self.shapes
        rules, tables = self.rules, []
        given: tuple[str, ...] = ("q", "k", "v", "do", "lse", "delta", *rules.reads)
        delta = {"delta": DenseShape.rows(*self.rows)}
        if calls.table is not None and rules.of_keys is not None:
            tables = [GradientStep(calls.table, ("q", "k", *rules.of_mask), {"tiles_of_keys": rules.of_keys})]
            given = (*given, "tiles_of_keys")
        added = tuple(SUMS_OF + name for name in calls.of_reads)
        before, after = [], []
        for name, (clear, last) in calls.of_reads.items():
            before.append(GradientStep(clear, (name,), {SUMS_OF + name: rules.learned[name]}))
            if last is not None:
                after.append(GradientStep(last, (SUMS_OF + name,), {GRADIENT_OF + name: rules.learned[name]}))
        if calls.add:
            given, added = (*given, *added), ()
            delta["sums"] = DenseShape.rows(*self.rows, of_q.shape[-1])
            given = (*given, *(STARTS if self.axes.packed else ()), "sums")
        of_queries = ("sums",) if calls.add else (*given, *added)
        each = [("dk", "dv")] if len(calls.main) == 1 else [("dk",), ("dv",)]
        return [
            GradientStep(calls.prepare, ("o", "do"), delta),
            *tables,
            *before,
            *[GradientStep(main, given, dict.fromkeys(n, of_k)) for main, n in zip(calls.main, each, strict=True)],
            GradientStep(calls.last, of_queries, {"dq": of_q}),
            *after,
        ]


class BoundGradients:
    """The launches of gradients, bound one by one at the first arrays; from then on as one chain where there is one."""

    def __init__(
        self, steps: Sequence[GradientStep], names: Sequence[str], wanted: Sequence[str], axes: HeadAxes, check: bool
    ) -> None:
        self.steps, self.names, self.wanted, self.axes, self.check = steps, names, wanted, axes, check
        self.plans: list[Plan] = []
        self.chain: PlanChain | None = None

    def __call__(self, given: Sequence[Tensor]) -> list[Tensor]:
        """The wanted gradients; `given` are the arrays of the names."""
        found = None if self.chain is None else self.chain(given)
        return self._one_by_one(given) if found is None else found

    def _one_by_one(self, given: Sequence[Tensor]) -> list[Tensor]:
        known, plans = dict(zip(self.names, given, strict=True)), list(self.plans)
        for number, step in enumerate(self.steps):
            arrays = [known[name] for name in step.takes]
            if number == len(plans):
                plans.append(bound_launch(step.calls, self.axes, arrays, step.takes, step.makes, self.check))
            written = plans[number](arrays, None)
            results = (written if isinstance(written, tuple) else (written,))[-len(step.makes) :]
            known.update(zip(step.makes, results, strict=True))
        if not self.plans:
            wires = [(step.takes, tuple(step.makes)) for step in self.steps]
            self.chain = chain_of(plans, wires, self.names, self.wanted)
            self.plans = plans  # whole, for other threads
        return [known[name] for name in self.wanted]


known: Final[dict[Hashable, BoundAttention]] = {}


def keep(key: Hashable, bound: BoundAttention) -> None:
    """Keep what was bound for the next arrays like these."""
    if len(known) >= _KEPT:
        known.clear()
    known[key] = bound


def drop(exact: ExactKernel) -> None:
    """Bind anew what counts the calls of a kernel for all sizes."""
    for key in [key for key, bound in list(known.items()) if bound.exact is exact]:
        known.pop(key, None)


def gradients_enabled() -> bool:
    """Whether PyTorch, whose tensors came, records what is computed."""
    import torch

    return torch.is_grad_enabled()


def records(given: Sequence[Tensor]) -> bool:
    """Whether PyTorch records what is computed of these arrays."""
    return any(getattr(x, "requires_grad", False) for x in given) and gradients_enabled()


@cache
def _function() -> Foreign:
    """The differentiable function of PyTorch."""
    import torch

    class FusedAttention(torch.autograd.Function):
        """Saves the result and its log-sum-exps, from which the gradients compute the weights again."""

        @staticmethod
        def forward(context: Foreign, bound: BoundAttention, deterministic: bool | None, *given: Tensor) -> Tensor:
            o, lse = bound.forward(given, None)
            context.save_for_backward(*given, o, lse)
            if deterministic is None:
                deterministic = torch.are_deterministic_algorithms_enabled()
            if deterministic and bound.rules.learned:
                raise UsageError(
                    f"attention: gradients of {', '.join(bound.rules.learned)}, which the score reads, are added in "
                    "any order; pass deterministic=False, or tensor.detach()"
                )
            context.bound, context.deterministic = bound, deterministic
            return o

        @staticmethod
        def backward(context: Foreign, gradient: Tensor) -> tuple[Tensor | None, ...]:
            bound = context.bound
            saved = context.saved_tensors
            found = bound.differentiated(saved, gradient, context.deterministic)
            learned, names = list(bound.rules.learned), bound.rules.names
            given = [*saved[:3], *(saved[3 + names.index(name)] for name in learned)]
            dq, dk, dv, *of_reads = refusing("attention", found, given)
            others: list[Tensor | None] = [None] * (len(saved) - 5)
            for name, one in zip(learned, of_reads, strict=True):
                others[names.index(name)] = one
            return None, None, dq, dk, dv, *others

    return FusedAttention
