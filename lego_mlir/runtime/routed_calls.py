"""Calls that a kernel for fixed arguments takes: `k(x, None)` runs that without a tensor, `k(x, 0.0)` that of a number.

Which one depends on values that a plan does not, so it is found before a plan is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final

from lego_mlir.runtime import binding, calls
from lego_mlir.runtime.calls import Calls, TracedKernelCalls
from lego_mlir.runtime.plans import number
from lego_mlir.tracing.definition.fixed_arguments import optional_names, specialised_numbers

if TYPE_CHECKING:
    from pathlib import Path

    from lego_mlir.aliases import Given, Returned
    from lego_mlir.runtime.plans import Plan
    from lego_mlir.tracing.definition.reference import Fixed

Routed = tuple[Calls, tuple["Given", ...], dict[str, "Given"]]
_NUMBERS: Final = (bool, int, float)


class RoutedCalls(TracedKernelCalls):
    """The calls of such a kernel; each set of arguments that are fixed has calls, in `fixed`."""

    @cached_property
    def fixed(self) -> dict[frozenset[tuple[str, str]], TracedKernelCalls]:
        """The calls for some arguments, by their names and values; at most SPECIAL have numbers among these."""
        return {}

    def __call__(self, *given: Given, **named: Given) -> Returned:
        """Run the kernel for these arguments."""
        routed, there, by_name = self._routed(given, named)
        return super().__call__(*there, **by_name) if routed is self else routed(*there, **by_name)

    def call(
        self, given: Sequence[Given], named: Mapping[str, Given], stream: int | None, check: bool = False
    ) -> Returned:
        """The same on a stream, or checked by the interpreter."""
        routed, given, named = self._routed(given, named, check)
        return super().call(given, named, stream, check) if routed is self else routed.call(given, named, stream, check)

    def on(self, stream: Given) -> Callable[..., Returned]:
        """The kernel on a stream."""
        here = super().on(stream)

        def launch(*given: Given, **named: Given) -> Returned:
            routed, there, by_name = self._routed(given, named)
            return here(*there, **by_name) if routed is self else routed.on(stream)(*there, **by_name)

        return launch

    def plan(self, given: Sequence[Given], named: Mapping[str, Given], check: bool = False) -> tuple[Plan, list[Given]]:
        """The plan of the kernel for these arguments."""
        routed, given, named = self._routed(given, named, check)
        return super().plan(given, named, check) if routed is self else routed.plan(given, named, check)

    def prepare(self, *given: Given, **named: Given) -> Callable[..., Returned]:
        """Bind and check arrays once; arguments that are fixed stay so, and are left out of later calls."""
        routed, there, by_name = self._routed(given, named)
        return super().prepare(*there, **by_name) if routed is self else routed.prepare(*there, **by_name)

    def transformed(self, script: str | Path, **parameters: int | bool) -> RoutedCalls:
        """The kernel through a transform script where it is compiled for a GPU."""
        return RoutedCalls(self.kernel, script, parameters)

    def _routed(self, given: Sequence[Given], named: Mapping[str, Given], check: bool = False) -> Routed:
        """The calls that take these values, and the values that they take; a checked run has all numbers."""
        entry, numbers = self.host_entry, frozenset[str]() if check else specialised_numbers(self.kernel)
        if not numbers and not any(value is None for value in (*given, *named.values())):
            return self, tuple(given), dict(named)
        names = [argument.name for argument in binding.positional(entry, len(given), named)]
        values = {**dict(zip(names, given, strict=True)), **named}
        known: dict[str, Fixed] = {n: None for n in optional_names(self.kernel) if values.get(n, self) is None}
        found = self._calls_of(self._numbers(values, numbers) | known) or self._calls_of(known)
        if found is None:
            return self, tuple(given), dict(named)
        there = tuple(
            value for name, value in zip(names, given, strict=True) if name not in found.kernel.arguments_fixed
        )
        return found, there, {n: value for n, value in named.items() if n not in found.kernel.arguments_fixed}

    def _numbers(self, values: Mapping[str, Given], names: frozenset[str]) -> dict[str, Fixed]:
        """The numbers among the values, each in its type. Raises UsageError for one that is not of it."""
        entry = self.host_entry
        arguments = [a for a in entry.arguments if a.name in names and type(values.get(a.name)) in _NUMBERS]
        return {a.name: number(entry, a, values[a.name]).item() for a in arguments}

    def _calls_of(self, known: Mapping[str, Fixed]) -> TracedKernelCalls | None:
        """The calls for some arguments; None without any, and for further numbers than are kept."""
        key = frozenset((name, repr(value)) for name, value in known.items())
        if key and key not in self.fixed:
            with_numbers = sum(any(value != "None" for _, value in other) for other in list(self.fixed))
            if with_numbers >= calls.SPECIAL and any(value is not None for value in known.values()):
                return None
            self.fixed[key] = TracedKernelCalls(self.kernel.fixed(**known), self.script, self.parameters)
        return self.fixed.get(key)
