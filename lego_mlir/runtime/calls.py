"""`k(a, b, M=..)`: a kernel called on arrays.

    arrays ──key──► plan?  ──yes──────────────────────────────► addresses checked, launched
                      └─no──► facts ► backend of their device ► bound and checked, kept as the plan of this key

A plan holds all that does not depend on addresses and numbers, so that a second call on arrays of the same types,
shapes and strides repeats none of it. A backend is the kernel compiled for one device: for the CPU through the JIT
(`cpu_kernels`), for a CUDA device as PTX (`driver`), or the interpreter for a checked call on the CPU.

Results may be left out of a call: they are allocated by the library of the first array, on its device. A call returns
every tensor that the kernel writes, in the order of the signature: one array, or a tuple.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Protocol

from lego_mlir.errors import KernelFaultError, UsageError
from lego_mlir.runtime import binding, manifest
from lego_mlir.runtime.arrays import CPU, ArrayFacts, ArrayLibrary, Device, library_of, numpy_dtype
from lego_mlir.runtime.binding import MISSING, Bound
from lego_mlir.runtime.comparing import WORDS
from lego_mlir.runtime.manifest import KernelEntry, kernel_from

if TYPE_CHECKING:
    from lego_mlir.aliases import AnyArray, Given, Returned
    from lego_mlir.runtime.cpu_kernels import HostKernel
    from lego_mlir.tracing.definition import Kernel

_PLANS: Final = 1024  # of one kernel; a caller whose shapes change all the time starts over


class Backend(Protocol):
    """A kernel compiled for one device."""

    @property
    def entry(self) -> KernelEntry:
        """How it is launched."""

    def run(self, bound: Bound, values: Sequence[Given], stream: int) -> None:
        """Launch: `values` are addresses of tensors, and numbers, in the order of the parameters."""


@dataclass(frozen=True, slots=True)
class HostBackend:
    """The kernel as machine code of this CPU. Calls return when it has run."""

    entry: KernelEntry
    kernel: HostKernel

    def run(self, bound: Bound, values: Sequence[Given], stream: int) -> None:
        """Run all blocks in this thread."""
        self.kernel([*values, *bound.sizes], bound.grid)


@dataclass(frozen=True, slots=True)
class InterpreterBackend:
    """The kernel in the interpreter, which finds races and accesses out of bounds. Memory is copied in and out."""

    entry: KernelEntry
    text: str

    def run(self, bound: Bound, values: Sequence[Given], stream: int) -> None:
        """Interpret all blocks. Raises KernelFaultError for faults; the results are then left as they were."""
        import numpy

        from lego_mlir import interp
        from lego_mlir.runtime.manifest import evaluate

        sizes = dict(zip((size.name for size in self.entry.sizes), bound.sizes, strict=True))
        spans = {span.position: span for span in bound.spans}
        arguments: list[Any] = []
        outside: list[tuple[Any, Any]] = []
        for position, (argument, value) in enumerate(zip(self.entry.arguments, values, strict=True)):
            if argument.kind != "tensor":
                arguments.append(value)
                continue
            dtype = numpy_dtype(binding.HELD_BY.get(argument.dtype, (argument.dtype,))[0])
            words = (ctypes.c_ubyte * spans[position].bytes).from_address(value)
            there = numpy.frombuffer(memoryview(words), dtype)
            elements = there.size if argument.elements is None else evaluate(argument.elements, sizes)
            memory = numpy.zeros(elements, dtype)
            memory[: there.size] = there
            arguments.append(memory)
            if argument.written:
                outside.append((there, memory))
        report = interp.launch(
            self.text, self.entry.entry, bound.grid, bound.block, [*arguments, *bound.sizes],
            names=[argument.name for argument in self.entry.arguments],
        )  # fmt: skip
        if not report.clean:
            raise KernelFaultError(self.entry.entry, [str(fault) for fault in report.faults])
        for there, memory in outside:
            there[...] = memory[: there.size]


class Plan:
    """A launch of one kernel, bound to everything but addresses and numbers."""

    def __init__(self, backend: Backend, bound: Bound, given: Sequence[Given], library: ArrayLibrary | None) -> None:
        self.backend, self.bound, self.library = backend, bound, library
        self.results = {result.position: result for result in bound.results}
        arguments = backend.entry.arguments
        left_out = iter(range(len(given)))
        self.sources = [None if i in self.results else next(left_out) for i in range(len(arguments))]
        self.written = [i for i, argument in enumerate(arguments) if argument.written and argument.kind == "tensor"]
        self.converted = library is not None and library.finish is not None

    def __call__(self, given: Sequence[Given], stream: int | None) -> Returned:
        """Launch on arrays of the plan's shapes; the tensors that are written."""
        bound, entry = self.bound, self.backend.entry
        if bound.needs_gradient:
            require_no_gradient(entry)
        arrays, values, pointers = [], [], {}
        for position, (argument, source) in enumerate(zip(entry.arguments, self.sources, strict=True)):
            array = self._allocate(position) if source is None else given[source]
            arrays.append(array)
            if argument.kind == "tensor":
                pointers[position] = _known_library(array).pointer(array)
                values.append(pointers[position])
            else:
                values.append(number(entry, argument, array))
        binding.require_addresses(entry, bound, pointers)
        self.backend.run(bound, values, self.stream() if stream is None else stream)
        return self._returned(arrays)

    def stream(self) -> int:
        """The current stream of the library whose arrays came, on their device."""
        return 0 if self.library is None or self.bound.device == CPU else self.library.stream(self.bound.device[1])

    def _allocate(self, position: int) -> AnyArray:
        result = self.results[position]
        if self.library is None or self.library.empty is None:
            raise UsageError(
                f"kernel {self.backend.entry.entry}: pass an array for the result "
                f"{self.backend.entry.arguments[position].name}: results are allocated as arrays of NumPy, PyTorch, "
                "CuPy and JAX, and the first array is of another library"
            )
        return self.library.empty(result.dtype, result.shape, result.strides, self.bound.device)

    def _returned(self, arrays: Sequence[Given]) -> Returned:
        written = [arrays[i] for i in self.written]
        if self.converted and self.library is not None and self.library.finish is not None:
            finish, device = self.library.finish, self.bound.device
            written = [finish(arrays[i], device) if i in self.results else arrays[i] for i in self.written]
        return written[0] if len(written) == 1 else tuple(written)


def require_no_gradient(entry: KernelEntry) -> None:
    """Refuse a tensor whose gradient the kernel would lose, unless gradients are disabled."""
    if sys.modules["torch"].is_grad_enabled():
        raise UsageError(
            f"kernel {entry.entry} has no derivative, and a tensor requires a gradient; pass tensor.detach(), or call "
            "it under torch.no_grad()"
        )


def number(entry: KernelEntry, argument: manifest.Argument, given: Given) -> Given:
    """The value of a scalar parameter, as `passable.scalar` checks it."""
    from lego_mlir.runtime.passable import scalar

    if library_of(given) is not None:
        raise UsageError(
            f"kernel {entry.entry}: {argument.name} is one number of {argument.dtype}, and an array was given; pass "
            "array.item()"
        )
    passed = scalar(argument, given)
    if argument.dtype in WORDS:
        return passed.view(numpy_dtype(binding.HELD_BY[argument.dtype][0]))
    return passed


def _known_library(array: Given) -> ArrayLibrary:
    found = library_of(array)
    assert found is not None  # a plan is kept for arrays of known libraries
    return found


class Calls:
    """The calls of one kernel. `backend_for(device, checked)` compiles it, once for each device."""

    def __init__(self, name: str, backend_for: Callable[[Device, bool], Backend]) -> None:
        self.name = name
        self._backend_for = backend_for
        self._backends: dict[tuple[Device, bool], Backend] = {}
        self._plans: dict[Hashable, Plan] = {}
        self._loading = threading.Lock()

    def __call__(self, *given: Given, **named: Given) -> Returned:
        """Run the kernel on arrays, on the current stream of their library."""
        return self.call(given, named, None)

    def call(
        self, given: Sequence[Given], named: Mapping[str, Given], stream: int | None, check: bool = False
    ) -> Returned:
        """The same on a stream, or checked by the interpreter."""
        key = self._key(given, named, check)
        plan = None if key is None else self._plans.get(key)
        if plan is None:
            plan, given = self.plan(given, named, check)
            if key is not None and not any(name in _parameters(plan.backend.entry) for name in named):
                if len(self._plans) >= _PLANS:
                    self._plans.clear()
                self._plans[key] = plan
        if stream is not None and plan.bound.device == CPU:
            raise UsageError(f"kernel {self.name}: the arrays are on the CPU, which has no streams; leave out .on(..)")
        return plan(given, stream)

    def _key(self, given: Sequence[Given], named: Mapping[str, Given], check: bool) -> Hashable:
        """What a plan depends on; None where it cannot be kept."""
        parts: list[Hashable] = [check, *named.items()] if named or check else []
        for value in given:
            library = library_of(value)
            parts.append(None if library is None else library.key(value))
        key = tuple(parts)
        try:
            hash(key)
        except TypeError:
            return None
        return key

    def plan(self, given: Sequence[Given], named: Mapping[str, Given], check: bool = False) -> tuple[Plan, list[Given]]:
        """Bind these arrays, and the values in the order of the parameters, results that were left out aside."""
        facts = [_facts(value) for value in (*given, *named.values())]
        first = next((f for f in facts if f is not None), None)
        device = CPU if first is None else first.device
        if check and device != CPU:
            raise UsageError(
                f"kernel {self.name}: check=True runs the interpreter, on the CPU, and the arrays are on "
                f"{binding.device_name(device)}; pass NumPy arrays"
            )
        backend = self.backend(device, check)
        entry = backend.entry
        values, sizes = binding.arrange(entry, given, named)
        described = [
            _tensor_facts(entry, argument, value) if argument.kind == "tensor" else None
            for argument, value in zip(entry.arguments, values, strict=True)
        ]
        bound = binding.bind(entry, described, sizes, first)
        like = next((v for v in (*given, *named.values()) if library_of(v) is not None), None)
        library = library_of(like) if like is not None else _numpy_library()
        present = [value for value in values if value is not MISSING]
        return Plan(backend, bound, present, library), present

    def backend(self, device: Device, checked: bool = False) -> Backend:
        """The kernel compiled for a device, at its first use."""
        found = self._backends.get((device, checked))
        if found is None:
            with self._loading:
                found = self._backends.get((device, checked))
                if found is None:
                    found = self._backends[device, checked] = self._backend_for(device, checked)
        return found


def _parameters(entry: KernelEntry) -> set[str]:
    return {argument.name for argument in entry.arguments}


def _facts(value: Given) -> ArrayFacts | None:
    library = library_of(value)
    return None if library is None else library.facts(value)


def _numpy_library() -> ArrayLibrary | None:
    import numpy

    return library_of(numpy.empty(0))


def _tensor_facts(entry: KernelEntry, argument: manifest.Argument, value: Given) -> ArrayFacts | None:
    """The facts of a tensor argument, None for a result that was left out."""
    if value is MISSING:
        return None
    found = _facts(value)
    if found is None:
        shown = repr(value)
        given = shown if len(shown) < 60 else f"a {type(value).__module__}.{type(value).__qualname__}"
        raise UsageError(
            f"kernel {entry.entry}: {argument.name} is a tensor of {argument.dtype}; pass an array of NumPy, PyTorch, "
            f"CuPy or JAX, or one with DLPack, not {given}"
        )
    return found


class TracedKernelCalls(Calls):
    """The calls of a kernel object: compiled for each device at its first use there."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel.name, self._compiled)
        self.kernel = kernel

    @cached_property
    def host_entry(self) -> KernelEntry:
        """The launch of the module as traced."""
        from lego_mlir.toolchain.manifest import describe
        from lego_mlir.transforms.kernel_facts import kernel_facts

        (facts,) = kernel_facts(self.kernel.mlir(), self.name)
        return kernel_from(describe(facts, self.kernel))

    def _compiled(self, device: Device, checked: bool) -> Backend:
        if checked:
            return InterpreterBackend(self.host_entry, self.kernel.mlir())
        if device == CPU:
            from lego_mlir.runtime.cpu_kernels import compile_kernels

            return HostBackend(self.host_entry, compile_kernels(self.kernel.mlir())[self.name])
        raise UsageError(f"kernel {self.name}: CUDA")


def calls_of(kernel: Kernel) -> TracedKernelCalls:
    """How a kernel is called on arrays; `Kernel.__call__` and its companions use it."""
    return TracedKernelCalls(kernel)
