"""Calls of a kernel with tensors that may be None: `k(x, None)` runs the kernel that is traced without them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from lego_mlir.aliases import Given, Returned
from lego_mlir.runtime import binding
from lego_mlir.runtime.calls import Calls, TracedKernelCalls
from lego_mlir.tracing.definition.absent import optional_names

if TYPE_CHECKING:
    from pathlib import Path

    from lego_mlir.runtime.plans import Plan

Routed = tuple[Calls, tuple["Given", ...], dict[str, "Given"]]


class OptionalCalls(TracedKernelCalls):
    """The calls of such a kernel; each set of its tensors that was None has calls of its own, `absent`."""

    @cached_property
    def absent(self) -> dict[frozenset[str], TracedKernelCalls]:
        """The calls without some tensors, by their names."""
        return {}

    def __call__(self, *given: Given, **named: Given) -> Returned:
        """Run the kernel, without the tensors that are None."""
        calls, there, by_name = self._routed(given, named)
        return super().__call__(*there, **by_name) if calls is self else calls(*there, **by_name)

    def call(
        self, given: Sequence[Given], named: Mapping[str, Given], stream: int | None, check: bool = False
    ) -> Returned:
        """The same on a stream, or checked by the interpreter."""
        calls, given, named = self._routed(given, named)
        return super().call(given, named, stream, check) if calls is self else calls.call(given, named, stream, check)

    def on(self, stream: Given) -> Callable[..., Returned]:
        """The kernel on a stream."""
        here = super().on(stream)

        def launch(*given: Given, **named: Given) -> Returned:
            calls, there, by_name = self._routed(given, named)
            return here(*there, **by_name) if calls is self else calls.on(stream)(*there, **by_name)

        return launch

    def plan(self, given: Sequence[Given], named: Mapping[str, Given], check: bool = False) -> tuple[Plan, list[Given]]:
        """The plan of the kernel without the tensors that are None."""
        calls, given, named = self._routed(given, named)
        return super().plan(given, named, check) if calls is self else calls.plan(given, named, check)

    def prepare(self, *given: Given, **named: Given) -> Callable[..., Returned]:
        """Bind and check arrays once; the tensors that are None stay so, and are left out of later calls."""
        calls, there, by_name = self._routed(given, named)
        return super().prepare(*there, **by_name) if calls is self else calls.prepare(*there, **by_name)

    def transformed(self, script: str | Path, **parameters: int | bool) -> OptionalCalls:
        """The kernel through a transform script where it is compiled for a GPU."""
        return OptionalCalls(self.kernel, script, parameters)

    def _routed(self, given: Sequence[Given], named: Mapping[str, Given]) -> Routed:
        """The calls that take these values, and the values that are there."""
        if not any(value is None for value in (*given, *named.values())):
            return self, tuple(given), dict(named)
        values, _ = binding.arrange(self.host_entry, given, named)
        none = {a.name for a, value in zip(self.host_entry.arguments, values, strict=True) if value is None}
        if not none or not none <= optional_names(self.kernel):
            return self, tuple(given), dict(named)  # refused there, as any value that is no array
        names = frozenset(none)
        if names not in self.absent:
            kernel = self.kernel.without(*sorted(names))
            self.absent[names] = TracedKernelCalls(kernel, self.script, self.parameters)
        there = tuple(value for value in given if value is not None)
        return self.absent[names], there, {name: value for name, value in named.items() if value is not None}
