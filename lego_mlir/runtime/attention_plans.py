"""Attention bound to arrays of certain types, shapes and strides: its launches, and those of its gradients.

    known      plans of this process, by what `key_of` tells of q, k and v, and the options of the call
    forward    q, k, v, .. -> the result and the log-sum-exps of its rows
    backward   the three launches of gradients, bound at their first use

A kernel takes heads in one dimension; the arrays may have leading dimensions, and the results have their shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from lego_mlir.runtime.products.operands import ALIGNMENT, in_rows

if TYPE_CHECKING:
    from lego_mlir.aliases import AnyArray, Foreign, Returned, Tensor
    from lego_mlir.runtime.calls import Calls
    from lego_mlir.runtime.plans import Plan

_KEPT: Final = 4096
"""Calls of one process; a caller whose shapes change all the time starts over."""
Views = Callable[[Sequence["Tensor"]], list["Tensor"]]
"""Arrays as the kernels index them."""
Shapes = Sequence[Sequence[int]]


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


@dataclass(slots=True)
class BoundAttention:
    """Attention of q, k and v, and perhaps the starts of sequences, bound to all but their addresses.

    `views` makes what the kernels index of q, k, v, and of arrays like them. `gradients` names the kernels, for
    `deterministic` ones or not.
    """

    forward: Plan
    pointer: Callable[[AnyArray], int]
    views: Views
    gradients: Callable[[bool], GradientCalls]
    shapes: tuple[tuple[int, ...], tuple[int, ...]]
    rows: tuple[int, int]
    """Heads of q and its rows: the shape of what there is for each row."""
    check: bool = False
    learns: bool = False
    in_place: bool = True
    _plans: dict[bool, Callable[..., list[Tensor]]] = field(default_factory=dict)

    def __call__(self, given: Sequence[Tensor], deterministic: bool | None = None) -> Tensor:
        """The result for arrays like those that this was bound to, with gradients where they are recorded."""
        pointer = self.pointer
        if not self.in_place or (pointer(given[0]) | pointer(given[1]) | pointer(given[2])) % ALIGNMENT:
            given = [*map(in_rows, given[:3]), *given[3:]]
        if self.learns and gradients_enabled():
            found: Tensor = _function().apply(self, deterministic, *given)
            return found
        return self.forward(given, None)[0]

    def differentiated(self, saved: Sequence[Tensor], do: Tensor, deterministic: bool) -> list[Tensor]:
        """The gradients of q, k and v."""
        plan = self._plans.get(deterministic)
        if plan is None:
            calls = self.gradients(deterministic)
            plan = self._plans[deterministic] = self._added(calls) if calls.add else self._ordered(calls)
        return plan(saved, do)

    def _bound(self, calls: Calls, given: Sequence[Tensor], *shapes: Sequence[int]) -> Callable[..., Returned]:
        """The launch of a kernel of gradients at its first arrays, and of others like them from then on."""
        plan: Plan = calls.plan_of_views(self.views(given), given, {}, shapes, self.check)
        return plan

    def _added(self, calls: GradientCalls) -> Callable[..., list[Tensor]]:
        """All in one kernel, which adds the gradients of queries."""
        plans: list[Any] = []
        of_q, of_k = self.shapes
        (main,) = calls.main

        def run(saved: Sequence[Tensor], do: Tensor) -> list[Tensor]:
            q, k, v, *starts, o, lse = saved
            if not plans:
                plans.append(self._bound(calls.prepare, (o, do), self.rows, (*self.rows, of_q[-1])))
                delta, sums = plans[0]((o, do), None)
                given = (q, k, v, do, lse, delta, *starts, sums)
                plans.append(self._bound(main, given, of_k, of_k))
                plans.append(self._bound(calls.last, (sums,), of_q))
            prepare, main_plan, rounded = plans
            delta, sums = prepare((o, do), None)
            _, dk, dv = main_plan((q, k, v, do, lse, delta, *starts, sums), None)
            return [rounded((sums,), None), dk, dv]

        return run

    def _ordered(self, calls: GradientCalls) -> Callable[..., list[Tensor]]:
        """In two passes, with one order of each sum."""
        plans: list[Any] = []
        of_q, of_k = self.shapes

        def run(saved: Sequence[Tensor], do: Tensor) -> list[Tensor]:
            q, k, v, o, lse = saved
            if not plans:
                plans.append(self._bound(calls.prepare, (o, do), self.rows))
                given = (q, k, v, do, lse, plans[0]((o, do), None))
                each = [of_k] * (2 if len(calls.main) == 1 else 1)
                plans.append([self._bound(kernel, given, *each) for kernel in calls.main])
                plans.append(self._bound(calls.last, given, of_q))
            prepare, of_keys, of_queries = plans
            given = (q, k, v, do, lse, prepare((o, do), None))
            found = [plan(given, None) for plan in of_keys]
            dk, dv = found if len(found) > 1 else found[0]
            return [of_queries(given, None), dk, dv]

        return run


known: Final[dict[Hashable, BoundAttention]] = {}


def keep(key: Hashable, bound: BoundAttention) -> None:
    """Keep what was bound for the next arrays like these."""
    if len(known) >= _KEPT:
        known.clear()
    known[key] = bound


def gradients_enabled() -> bool:
    """Whether PyTorch, whose tensors came, records what is computed."""
    import torch

    return torch.is_grad_enabled()


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
            context.bound, context.deterministic = bound, deterministic
            return o

        @staticmethod
        def backward(context: Foreign, gradient: Tensor) -> tuple[Tensor | None, ...]:
            do, bound = gradient.contiguous(), context.bound
            do = do.clone() if bound.pointer(do) % ALIGNMENT else do
            found = bound.differentiated(context.saved_tensors, do, context.deterministic)
            return None, None, *found, *[None] * (len(context.saved_tensors) - 5)

    return FusedAttention
