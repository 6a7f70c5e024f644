"""Plans: launches of one kernel that are bound to everything but addresses and numbers.

A backend is the kernel compiled for one device. Here are the two of the CPU, machine code and the interpreter;
`launches` has that of a CUDA device.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from lego_mlir.aliases import AnyArray, Given, Returned
from lego_mlir.errors import KernelFaultError, UsageError
from lego_mlir.runtime import binding, manifest
from lego_mlir.runtime.arrays import CPU, ArrayLibrary, MakeArray, library_of, likeness, numpy_dtype
from lego_mlir.runtime.binding import Bound
from lego_mlir.runtime.comparing import WORDS
from lego_mlir.runtime.manifest import KernelEntry, evaluate
from lego_mlir.runtime.value_ranges import require_arguments, require_distinct_elements

if TYPE_CHECKING:
    import numpy

    from lego_mlir.runtime.cpu_kernels import HostKernel
    from lego_mlir.runtime.value_ranges import CheckedTables
    from lego_mlir.tracing.definition.kernel_traces import Parameter


class Backend(Protocol):
    """A kernel compiled for one device."""

    @property
    def entry(self) -> KernelEntry:
        """How it is launched."""

    def plan(self, bound: Bound, given: Sequence[Given], library: ArrayLibrary | None) -> Plan:
        """A launch for bound arrays; `given` are the values of the parameters but for results that are left out."""


@dataclass(frozen=True, slots=True)
class HostBackend:
    """The kernel as machine code of this CPU. Calls return when it has run."""

    entry: KernelEntry
    kernel: HostKernel

    def plan(self, bound: Bound, given: Sequence[Given], library: ArrayLibrary | None) -> Plan:
        """A run of this kernel for bound arrays."""
        return HostPlan(self, bound, given, library)

    def run(self, bound: Bound, values: Sequence[Given]) -> None:
        """Run all blocks in this thread; a tensor's value is its address."""
        self.kernel([*values, *bound.sizes], bound.grid)


@dataclass(frozen=True, slots=True)
class InterpreterBackend:
    """The kernel in the interpreter, which finds races and accesses out of bounds. Memory is copied in and out.

    `distinct` has the parameters whose elements are compared first, since the kernel assumes them distinct.
    """

    entry: KernelEntry
    text: str
    distinct: Mapping[str, Parameter] = field(default_factory=dict)

    def plan(self, bound: Bound, given: Sequence[Given], library: ArrayLibrary | None) -> Plan:
        """A checked run for bound arrays."""
        return HostPlan(self, bound, given, library)

    def run(self, bound: Bound, values: Sequence[Given]) -> None:
        """Interpret all blocks. Raises KernelFaultError for faults; the results are then left as they were.

        Raises UsageError for equal elements of a tensor that the kernel assumes to have none.
        """
        import numpy

        from lego_mlir import interp
        from lego_mlir.runtime.data import distinct_ends, elements_of

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
            if argument.name in self.distinct:
                parameter = self.distinct[argument.name]
                among, named = distinct_ends(parameter, sizes), elements_of(parameter.layout, sizes)
                require_distinct_elements(argument.name, memory, among, named)
            arguments.append(memory)
            if argument.written:
                outside.append((there, memory))
        report = interp.launch(
            self.text, self.entry.entry, bound.grid, bound.block, [*arguments, *bound.sizes],
            names=[argument.name for argument in self.entry.arguments], counts=False,
        )  # fmt: skip
        sys.stdout.write(report.printed)
        if not report.clean:
            raise KernelFaultError(self.entry.entry, [str(fault) for fault in report.faults])
        for there, memory in outside:
            there[...] = memory[: there.size]


class Plan:
    """A launch of one kernel, bound to everything but addresses and numbers.

    Calling it launches on values for the parameters, without those of results that are left out, on a stream, None for
    the current one; it returns the tensors that the kernel writes.
    """

    def __init__(self, entry: KernelEntry, bound: Bound, given: Sequence[Given], library: ArrayLibrary | None) -> None:
        self.entry, self.bound, self.library = entry, bound, library
        self.results = {result.position: result for result in bound.results}
        arguments = entry.arguments
        left_out = iter(range(len(given)))
        self.sources = [None if i in self.results else next(left_out) for i in range(len(arguments))]
        self.written = [i for i, argument in enumerate(arguments) if argument.written and argument.kind == "tensor"]
        self.makers = self._makers()
        self._alike: Callable[..., bool] | None = None
        self.converted = library is not None and library.finish is not None and bool(self.results)
        self.only = self.written[0] if len(self.written) == 1 and not self.converted else None
        self.tables = _tables(entry)

    def __call__(self, given: Sequence[Given], stream: int | None) -> Returned:
        raise NotImplementedError  # a plan of each backend defines it

    def prepared(self, given: Sequence[Given]) -> Callable[..., Returned]:
        """The launch as a function of arrays of the same types, shapes and strides; of these without arguments."""
        return lambda *arrays: self(arrays or given, None)

    def alike(self, given: Sequence[Given]) -> Callable[..., bool]:
        """Whether values are like those that this plan was made for, of which `given` are some."""
        if self._alike is None:
            self._alike = likeness(given)
        return self._alike

    def stream(self) -> int:
        """The current stream of the library whose arrays came, on their device."""
        return 0 if self.library is None or self.bound.device == CPU else self.library.stream(self.bound.device[1])

    def arrays(self, given: Sequence[Given]) -> list[Given]:
        """A value for every parameter; results that were left out are allocated."""
        found = list(given)
        for position, make in self.makers.items():
            found.insert(position, make())
        return found

    def reader(self, position: int, given: Sequence[Given]) -> Callable[[AnyArray], int]:
        """How the address of a tensor is read."""
        source = self.sources[position]
        library = self.library if source is None else known_library(given[source])
        assert library is not None  # results are allocated by a library
        return library.pointer

    def _makers(self) -> dict[int, MakeArray]:
        """How each result is allocated, by its position, in the order of positions."""
        makers = {}
        for position, result in sorted(self.results.items()):
            if self.library is None or self.library.results is None:
                raise UsageError(
                    f"kernel {self.entry.entry}: pass an array for the result {self.entry.arguments[position].name}: "
                    "results are allocated as arrays of NumPy, PyTorch, CuPy and JAX, and the first array is of "
                    "another library"
                )
            makers[position] = self.library.results(result.dtype, result.shape, result.strides, self.bound.device)
        return makers

    def returned(self, arrays: Sequence[Given]) -> Returned:
        """The tensors that are written: one, or a tuple."""
        if self.only is not None:
            return arrays[self.only]
        written = [arrays[i] for i in self.written]
        if self.converted and self.library is not None and self.library.finish is not None:
            finish, device = self.library.finish, self.bound.device
            written = [finish(arrays[i], device) if i in self.results else arrays[i] for i in self.written]
        return written[0] if len(written) == 1 else tuple(written)


def _tables(entry: KernelEntry) -> CheckedTables | None:
    """What compares the run-time tables of a kernel; None where it has none."""
    if not any(argument.permutation for argument in entry.arguments):
        return None
    from lego_mlir.runtime.value_ranges import CheckedTables

    return CheckedTables(entry)


class EmptyPlan(Plan):
    """A launch that has nothing to write: results are allocated and returned."""

    def __call__(self, given: Sequence[Given], stream: int | None) -> Returned:
        if self.bound.needs_gradient:
            require_no_gradient(self.entry)
        return self.returned(self.arrays(given))


class HostPlan(Plan):
    """A bound run on the CPU."""

    def __init__(
        self, backend: HostBackend | InterpreterBackend, bound: Bound, given: Sequence[Given],
        library: ArrayLibrary | None,
    ) -> None:  # fmt: skip
        super().__init__(backend.entry, bound, given, library)
        self.backend = backend

    def __call__(self, given: Sequence[Given], stream: int | None) -> Returned:
        if stream is not None:
            raise UsageError(
                f"kernel {self.entry.entry}: the arrays are on the CPU, which has no streams; leave out .on(..)"
            )
        if self.bound.needs_gradient:
            require_no_gradient(self.entry)
        arrays = self.arrays(given)
        if self.tables is not None:
            self.tables.require(arrays)
        addresses = {
            s.position: known_library(arrays[s.position]).pointer(arrays[s.position]) for s in self.bound.spans
        }
        binding.require_addresses(self.entry, self.bound, addresses)
        if isinstance(self.backend, InterpreterBackend):
            require_arguments(self.entry, self.bound.sizes, arrays)
        values = [
            addresses[i] if argument.kind == "tensor" else number(self.entry, argument, arrays[i])
            for i, argument in enumerate(self.entry.arguments)
        ]
        self.backend.run(self.bound, values)
        return self.returned(arrays)


def require_no_gradient(entry: KernelEntry) -> None:
    """Refuse a tensor whose gradient the kernel would lose, unless gradients are disabled."""
    if sys.modules["torch"].is_grad_enabled():
        raise UsageError(
            f"kernel {entry.entry} has no derivative, and a tensor requires a gradient; pass tensor.detach(), or call "
            "it under torch.no_grad()"
        )


def stored_number(entry: KernelEntry, argument: manifest.Argument, given: Given) -> numpy.generic:
    """The value of a scalar parameter as memory holds it. Raises UsageError for a value that is not of its type."""
    from lego_mlir.runtime.argument_checks import scalar

    library = library_of(given)
    if library is not None:
        facts = library.facts(given)
        if facts.shape or facts.device != CPU:
            raise UsageError(
                f"kernel {entry.entry}: {argument.name} is one number of {argument.dtype}, and an array was given; "
                "pass array.item()"
            )
        given = given.item()
    stored: numpy.generic = scalar(argument, given)
    return stored


def number(entry: KernelEntry, argument: manifest.Argument, given: Given) -> numpy.generic:
    """The value of a scalar parameter as a number of its type."""
    stored = stored_number(entry, argument, given)
    return stored.view(numpy_dtype(binding.HELD_BY[argument.dtype][0])) if argument.dtype in WORDS else stored


def known_library(array: Given) -> ArrayLibrary:
    """The library of an array that a plan was made for."""
    found = library_of(array)
    assert found is not None  # a plan is kept for arrays of known libraries
    return found
