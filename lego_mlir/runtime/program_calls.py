"""`p(a, b)`: a program called on arrays, with its temporaries, on the device of the arrays.

A program is bound and checked like one kernel whose parameters are its own. Its plan holds a bound launch of each step;
a call allocates all temporaries as one block of memory, and runs the steps in order on one stream:

    array addresses, numbers ──► memory for temporaries ──► step 1 ► step 2 ► .. ──► memory freed

On a CUDA device the block is allocated and freed in the order of the stream (CUDA driver API, "Stream Ordered Memory
Allocator"), so a call returns before the steps have run, and can be captured in a graph. On the CPU, `check=True` runs
every step in the interpreter, and temporaries begin as NaN and -1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from lego_mlir.aliases import Given, Returned
from lego_mlir.errors import UsageError
from lego_mlir.runtime import binding
from lego_mlir.runtime.arrays import CPU, ArrayFacts, ArrayLibrary, Device, numpy_dtype
from lego_mlir.runtime.binding import HELD_BY, Bound
from lego_mlir.runtime.calls import Calls
from lego_mlir.runtime.manifest import Argument, KernelEntry, evaluate, kernel_from
from lego_mlir.runtime.plans import (
    Backend,
    HostBackend,
    InterpreterBackend,
    Plan,
    known_library,
    number,
    require_no_gradient,
)
from lego_mlir.tracing.definition.program import KernelProgram, ProgramNumber, ProgramStep, ProgramTensor

ALIGNMENT: Final = 256  # bytes: of each temporary, as cuMemAlloc aligns; at least that of the widest access
UNWRITTEN: Final = 0xFF  # each byte of a temporary in a checked run: NaN, or -1
Launch = Callable[[Mapping[str, int], Mapping[str, object], int], None]
"""Runs a step with addresses and numbers by their names in the program, on a stream."""


@dataclass(frozen=True, slots=True)
class ProgramBackend:
    """A program whose kernels are compiled for one device: a backend for each step."""

    entry: KernelEntry
    program: KernelProgram
    steps: tuple[Backend, ...]

    def plan(self, bound: Bound, given: Sequence[Given], library: ArrayLibrary | None) -> Plan:
        """The launches of the program for bound arrays."""
        return ProgramPlan(self, bound, given, library)


class ProgramPlan(Plan):
    """The bound launches of a program, and where its temporaries are in their block of memory."""

    def __init__(
        self, backend: ProgramBackend, bound: Bound, given: Sequence[Given], library: ArrayLibrary | None
    ) -> None:
        super().__init__(backend.entry, bound, given, library)
        self.checked = any(isinstance(step, InterpreterBackend) for step in backend.steps)
        sizes = dict(zip((size.name for size in backend.entry.sizes), bound.sizes, strict=True))
        self.places: dict[str, int] = {}
        self.bytes = 0
        for tensor in backend.program.temporaries:
            self.places[tensor.name] = self.bytes
            self.bytes += -(-_extent(tensor.size, sizes) * tensor.dtype.bytes // ALIGNMENT) * ALIGNMENT
        self.launches = [
            _launch(made, step, sizes, bound.device)
            for made, step in zip(backend.steps, backend.program.steps, strict=True)
        ]

    def __call__(self, given: Sequence[Given], stream: int | None) -> Returned:
        on_host = self.bound.device == CPU
        if on_host and stream is not None:
            raise UsageError(
                f"program {self.entry.entry}: the arrays are on the CPU, which has no streams; leave out .on(..)"
            )
        if self.bound.needs_gradient:
            require_no_gradient(self.entry)
        arrays = self.arrays(given)
        addresses = {
            s.position: known_library(arrays[s.position]).pointer(arrays[s.position]) for s in self.bound.spans
        }
        binding.require_addresses(self.entry, self.bound, addresses)
        names = [argument.name for argument in self.entry.arguments]
        tensors = {names[position]: address for position, address in addresses.items()}
        numbers = {
            argument.name: number(self.entry, argument, arrays[position])
            for position, argument in enumerate(self.entry.arguments)
            if argument.kind != "tensor"
        }
        used = 0 if on_host else self.stream() if stream is None else stream
        with self._memory(used) as begin:
            tensors |= {name: begin + place for name, place in self.places.items()}
            for launch in self.launches:
                launch(tensors, numbers, used)
        if not on_host and self.library is not None and self.library.waits:
            from lego_mlir.runtime.driver import driver

            driver().synchronise(self.bound.device[1], used)
        return self.returned(arrays)

    @contextmanager
    def _memory(self, stream: int) -> Iterator[int]:
        """The address of the temporaries' memory, while the steps are launched."""
        if not self.bytes:
            yield 0
        elif self.bound.device == CPU:
            import numpy

            block = numpy.empty(self.bytes + ALIGNMENT, numpy.uint8)
            if self.checked:
                block.fill(UNWRITTEN)
            yield -(-block.ctypes.data // ALIGNMENT) * ALIGNMENT
        else:
            from lego_mlir.runtime.driver import driver

            pointer = driver().allocate(self.bytes, self.bound.device[1], stream)
            try:
                yield pointer
            finally:
                driver().free(pointer, self.bound.device[1], stream)


def _extent(value: object, sizes: Mapping[str, int]) -> int:
    from lego_mlir.toolchain.manifest import portable

    return evaluate(portable(value), sizes)


def _launch(backend: Backend, step: ProgramStep, sizes: Mapping[str, int], device: Device) -> Launch:
    """A bound launch of a step. Raises UsageError where its kernel cannot be launched for these sizes."""
    entry = backend.entry
    given = {name: _extent(value, sizes) for name, value in step.sizes.items()}
    bound = binding.bind(entry, [_facts(a, given, device) for a in entry.arguments], given)
    sources: list[str | object] = []
    for argument, operand in zip(entry.arguments, step.arguments, strict=True):
        if isinstance(operand, (ProgramTensor, ProgramNumber)):
            sources.append(operand.name)
        else:
            value = operand if isinstance(operand, (int, float)) else _extent(operand, sizes)
            sources.append(number(entry, argument, value))
    if isinstance(backend, (HostBackend, InterpreterBackend)):
        run = backend.run
        return lambda tensors, numbers, stream: run(bound, _values(sources, tensors, numbers))
    return _cuda_launch(backend, bound, sources)


def _cuda_launch(backend: Backend, bound: Bound, sources: Sequence[object]) -> Launch:
    from lego_mlir.runtime.driver import Frame
    from lego_mlir.runtime.launches import CudaBackend, frame_of, write_number

    assert isinstance(backend, CudaBackend)
    entry, device = backend.entry, backend.driver
    frames: list[Frame] = []  # not in use: threads that launch together take several

    def launch(tensors: Mapping[str, int], numbers: Mapping[str, object], stream: int) -> None:
        try:
            frame = frames.pop()
        except IndexError:
            frame = frame_of(backend, bound)
        for position, value in enumerate(_values(sources, tensors, numbers)):
            if entry.arguments[position].kind == "tensor":
                frame.slots[position] = value
            else:
                write_number(entry, entry.arguments[position], value, frame, position)
        frame.configuration.stream = stream
        failed = frame.launch()
        if failed:
            device.launch_failed(frame, backend.function, failed)
        frames.append(frame)

    return launch


def _values(sources: Sequence[object], tensors: Mapping[str, int], numbers: Mapping[str, object]) -> list[object]:
    """The arguments of a launch: addresses and numbers of the program, and the step's own numbers."""
    return [(tensors[s] if s in tensors else numbers[s]) if isinstance(s, str) else s for s in sources]


def _facts(argument: object, sizes: Mapping[str, int], device: Device) -> ArrayFacts | None:
    """The memory of a step's tensor, in memory order; None for a number."""
    assert isinstance(argument, Argument)
    if argument.kind != "tensor":
        return None
    dtype = HELD_BY.get(argument.dtype, (argument.dtype,))[0]
    assert argument.elements is not None
    elements = evaluate(argument.elements, sizes)
    return ArrayFacts("program", dtype, (elements,), (1,), 0, device, numpy_dtype(dtype).itemsize)


class ProgramCalls(Calls):
    """The calls of a program: its kernels are compiled for each device at its first use there."""

    def __init__(self, program: KernelProgram) -> None:
        super().__init__(program.name, self._compiled)
        self.program = program

    def _compiled(self, device: Device, checked: bool) -> Backend:
        steps = tuple(step.kernel.calls.backend(device, checked) for step in self.program.steps)
        return ProgramBackend(self._entry(steps), self.program, steps)

    def _entry(self, steps: Sequence[Backend]) -> KernelEntry:
        """The program as an entry, so that arrays are bound to it as to a kernel."""
        from lego_mlir.toolchain.manifest import describe_program

        entries = {step.kernel.name: made.entry for step, made in zip(self.program.steps, steps, strict=True)}
        alignments: dict[str, int] = {}
        for step in self.program.steps:
            for argument, operand in zip(entries[step.kernel.name].arguments, step.arguments, strict=True):
                if isinstance(operand, ProgramTensor):
                    alignments[operand.name] = max(argument.alignment, alignments.get(operand.name, 1))
        return kernel_from(describe_program(self.program, alignments))
