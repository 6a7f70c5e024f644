"""Products that take more than one launch, or memory beside their arrays, as one plan.

    a: odd rows ── pad ──► wide_a ┐
    b: odd rows ── pad ──► wide_b ┴► product ──► wide_c ── crop ──► c        one block of memory, freed behind it
    a, b ────────────────────────► product, K in parts ──────────► c        partial sums and counters beside it

A step names its kernel and its arguments: a, b and c are the arrays of the call, every other tensor is scratch memory.
All steps run on one stream, where the memory is allocated and freed in order (CUDA driver API, "Stream Ordered Memory
Allocator"), so that a call can be captured in a graph.

Counters must be 0 when a product begins, and it leaves them so. A stream that is not being captured therefore keeps its
scratch memory from its first such call on; a captured call allocates and clears its own.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lego_mlir.runtime import binding
from lego_mlir.runtime.arrays import ArrayFacts, ArrayLibrary, Device, numpy_dtype
from lego_mlir.runtime.binding import HELD_BY, Bound
from lego_mlir.runtime.driver import Driver, Frame
from lego_mlir.runtime.launches import CudaBackend, frame_of
from lego_mlir.runtime.manifest import Argument, KernelEntry, evaluate
from lego_mlir.runtime.plans import Backend, Plan, known_library

if TYPE_CHECKING:
    from lego_mlir.aliases import Given, Returned

ALIGNMENT: Final = 256  # bytes: of each scratch tensor, as cuMemAlloc aligns
COUNTERS: Final = "counters"
"""The scratch tensor that is 0 before and after a launch."""
WORKSPACE: Final = ("partial", COUNTERS)
"""The last arguments of a product whose blocks or clusters divide K."""


@dataclass(frozen=True, slots=True)
class ProductStep:
    """A launch: its kernel, the tensor for each of the kernel's arguments, and the kernel's sizes."""

    backend: Backend
    tensors: tuple[str, ...]
    sizes: Mapping[str, int]


class StepsPlan(Plan):
    """The bound launches of a product on a, b and c, and where its scratch tensors are in their block of memory."""

    def __init__(
        self, entry: KernelEntry, bound: Bound, given: Sequence[Given], library: ArrayLibrary | None,
        steps: Sequence[ProductStep],
    ) -> None:  # fmt: skip
        super().__init__(entry, bound, given, library)
        self.names = [argument.name for argument in entry.arguments]
        self.launches = [_BoundStep(step, bound.device) for step in steps]
        self.driver: Driver = self.launches[0].backend.driver
        extents: dict[str, int] = {}
        for launch in self.launches:
            for name, size in launch.bytes.items():
                extents[name] = max(size, extents.get(name, 0))
        self.places, self.bytes = {}, 0
        for name in sorted(extents.keys() - set(self.names), key=lambda name: name != COUNTERS):  # counters first
            self.places[name] = self.bytes
            self.bytes += -(-extents[name] // ALIGNMENT) * ALIGNMENT
        self.cleared = extents.get(COUNTERS, 0)
        self.kept: dict[int, int] = {}
        self._keeping = threading.Lock()

    def __call__(self, given: Sequence[Given], stream: int | None) -> Returned:
        arrays = self.arrays(given)
        addresses = {
            s.position: known_library(arrays[s.position]).pointer(arrays[s.position]) for s in self.bound.spans
        }
        binding.require_addresses(self.entry, self.bound, addresses)
        used = self.stream() if stream is None else stream
        tensors = {self.names[position]: address for position, address in addresses.items()}
        device = self.bound.device[1]
        if self.cleared and not self.driver.is_capturing(used):
            self._launch(tensors, self._kept(used), used)
        else:
            begin = self.driver.allocate(self.bytes, device, used) if self.bytes else 0
            try:
                if self.cleared:
                    self.driver.clear(begin, self.cleared, device, used)
                self._launch(tensors, begin, used)
            finally:
                if self.bytes:
                    self.driver.free(begin, device, used)
        if self.library is not None and self.library.waits:
            self.driver.synchronise(device, used)
        return self.returned(arrays)

    def _launch(self, tensors: Mapping[str, int], begin: int, stream: int) -> None:
        known = {**tensors, **{name: begin + place for name, place in self.places.items()}}
        for launch in self.launches:
            launch(known, stream)

    def _kept(self, stream: int) -> int:
        """The scratch memory of a stream, with counters of 0; one thread allocates it."""
        found = self.kept.get(stream)
        if found is None:
            with self._keeping:
                found = self.kept.get(stream)
                if found is None:
                    found = self.driver.allocate(self.bytes, self.bound.device[1], stream)
                    self.driver.clear(found, self.cleared, self.bound.device[1], stream)
                    self.kept[stream] = found
        return found


class _BoundStep:
    """A step's launch, bound to everything but addresses; `bytes` of each of its tensors."""

    def __init__(self, step: ProductStep, device: Device) -> None:
        assert isinstance(step.backend, CudaBackend)  # products are computed on GPUs
        self.backend, self.tensors, self.frames = step.backend, step.tensors, list[Frame]()
        entry = step.backend.entry
        facts = [_facts(argument, step.sizes, device) for argument in entry.arguments]
        self.bound = binding.bind(entry, facts, {size.name: step.sizes[size.name] for size in entry.sizes})
        self.bytes = {name: fact.bytes for name, fact in zip(step.tensors, facts, strict=True)}

    def __call__(self, tensors: Mapping[str, int], stream: int) -> None:
        backend = self.backend
        try:
            frame = self.frames.pop()
        except IndexError:
            frame = frame_of(backend, self.bound)
        for slot, name in enumerate(self.tensors):
            frame.slots[slot] = tensors[name]
        frame.configuration.stream = stream
        failed = frame.launch()
        if failed:
            backend.driver.launch_failed(frame, backend.function, failed)
        self.frames.append(frame)


def _facts(argument: Argument, sizes: Mapping[str, int], device: Device) -> ArrayFacts:
    """The memory of a step's tensor, in memory order."""
    assert argument.kind == "tensor" and argument.elements is not None  # kernels of products take tensors
    dtype = HELD_BY.get(argument.dtype, (argument.dtype,))[0]
    elements = evaluate(argument.elements, sizes)
    return ArrayFacts("product", dtype, (elements,), (1,), 0, device, numpy_dtype(dtype).itemsize)


def workspace_of(entry: KernelEntry) -> tuple[str, ...]:
    """The names of a product's arguments that are scratch memory."""
    return tuple(argument.name for argument in entry.arguments if argument.name in WORKSPACE)
