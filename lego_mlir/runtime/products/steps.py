"""Products that take more than one launch, or memory besides their arrays, as one plan.

    a: odd rows ── pad ──► wide_a ┐
    b: odd rows ── pad ──► wide_b ┴► product ──► wide_c ── crop ──► c        one block of memory, freed after it
    a, b ────────────────────────► product, K in parts ──────────► c        partial sums and counters beside it

A step names its kernel and its arguments: a, b and c are the arrays of the call, every other tensor is scratch memory.
All steps run on one stream, where memory is allocated and freed in order (CUDA driver API, "Stream Ordered Memory
Allocator"), so that a call can be captured in a graph: a captured call allocates and clears its own.

Other calls on a stream share one block of scratch memory, of at most `KEPT` bytes, that is kept: two calls to the
driver less. One thread at a time launches the steps of a product there. Counters must be 0 when a product begins, and
it leaves them so: a product keeps its own for each stream from its first call on, which are few bytes, and its partial
sums share the block of the stream, of any size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lego_mlir.aliases import Given, Returned
from lego_mlir.runtime import binding
from lego_mlir.runtime.arrays import ArrayFacts, ArrayLibrary, Device, numpy_dtype
from lego_mlir.runtime.binding import HELD_BY, Bound
from lego_mlir.runtime.driver import Driver, StreamScratch
from lego_mlir.runtime.launches import AddressCheck, CudaBackend, LaunchChain
from lego_mlir.runtime.manifest import Argument, KernelEntry, evaluate
from lego_mlir.runtime.plans import Backend, Plan

ALIGNMENT: Final = 256  # bytes: of each scratch tensor, as cuMemAlloc aligns
KEPT: Final = 1 << 26
"""Bytes of scratch memory that a stream keeps."""
OF_EACH_THREAD: Final = 2
"""The default stream of the thread that uses it, so many streams (CUDA driver API, `CU_STREAM_PER_THREAD`)."""
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

    def bytes(self, device: Device) -> dict[str, int]:
        """The bytes of each of its tensors."""
        return {name: facts.bytes for name, facts in zip(self.tensors, self._facts(device), strict=True)}

    def bound(self, device: Device, known: Mapping[str, int]) -> tuple[CudaBackend, Bound, list[int]]:
        """The launch, bound to all but addresses, and the number of the address that each argument takes."""
        assert isinstance(self.backend, CudaBackend)  # products are computed on GPUs
        entry, numbers = self.backend.entry, [known[name] for name in self.tensors]
        sizes = {size.name: self.sizes[size.name] for size in entry.sizes}
        return self.backend, binding.bind(entry, self._facts(device), sizes), numbers

    def _facts(self, device: Device) -> list[ArrayFacts]:
        return [_facts(argument, self.sizes, device) for argument in self.backend.entry.arguments]


class StepsPlan(Plan):
    """The bound launches of a product on a, b and c, and where its scratch tensors are in their block of memory."""

    def __init__(
        self, entry: KernelEntry, bound: Bound, given: Sequence[Given], library: ArrayLibrary | None,
        steps: Sequence[ProductStep],
    ) -> None:  # fmt: skip
        super().__init__(entry, bound, given, library)
        names = [argument.name for argument in entry.arguments]
        self.readers = [(span.position, self.reader(span.position, given)) for span in bound.spans]
        self.require = AddressCheck(entry, bound)
        extents: dict[str, int] = {}
        for step in steps:
            for name, size in step.bytes(bound.device).items():
                extents[name] = max(size, extents.get(name, 0))
        scratch = sorted(extents.keys() - set(names), key=lambda name: name != COUNTERS)  # counters first
        self.places, self.bytes = list[int](), 0
        for name in scratch:
            self.places.append(self.bytes)
            self.bytes += -(-extents[name] // ALIGNMENT) * ALIGNMENT
        self.cleared = extents.get(COUNTERS, 0)
        self.own = -(-self.cleared // ALIGNMENT) * ALIGNMENT
        known = {name: number for number, name in enumerate([*(names[i] for i, _ in self.readers), *scratch])}
        self.launch = LaunchChain([step.bound(bound.device, known) for step in steps], len(known))
        self.driver: Driver = self.launch.parts[0][0].driver
        self.kept: dict[int, int] = {}
        self.streams: dict[int, StreamScratch] = {}
        self.waits = library is not None and library.waits

    def __call__(self, given: Sequence[Given], stream: int | None) -> Returned:
        arrays = self.arrays(given)
        addresses = [pointer(arrays[i]) for i, pointer in self.readers]
        self.require(addresses)
        used = self.stream() if stream is None else stream
        device = self.bound.device[1]
        scratch = self.streams.get(used) or self.streams.setdefault(used, self.driver.scratch_of(device, used))
        if not self.bytes:
            self.launch(addresses, used)
        elif used == OF_EACH_THREAD or scratch.is_capturing() or (self.bytes > KEPT and not self.cleared):
            begin = self.driver.allocate(self.bytes, device, used)
            try:
                if self.cleared:
                    self.driver.clear(begin, self.cleared, device, used)
                self.launch([*addresses, *[begin + place for place in self.places]], used)
            finally:
                self.driver.free(begin, device, used)
        else:
            with scratch.lock:  # no launch of another thread between these
                begin = scratch.of(self.bytes - self.own) - self.own
                kept = [self._kept(used)] if self.cleared else []
                self.launch([*addresses, *kept, *[begin + place for place in self.places[len(kept) :]]], used)
        if self.waits:
            self.driver.synchronise(device, used)
        return self.returned(arrays)

    def _kept(self, stream: int) -> int:
        """The counters of a stream, 0 at first; who holds the lock of its scratch memory allocates them."""
        found = self.kept.get(stream)
        if found is None:
            found = self.driver.allocate(self.cleared, self.bound.device[1], stream)
            self.driver.clear(found, self.cleared, self.bound.device[1], stream)
            self.kept[stream] = found
        return found


def _facts(argument: Argument, sizes: Mapping[str, int], device: Device) -> ArrayFacts:
    """The memory of a step's tensor, in memory order."""
    assert argument.kind == "tensor" and argument.elements is not None  # kernels of products take tensors
    dtype = HELD_BY.get(argument.dtype, (argument.dtype,))[0]
    elements = evaluate(argument.elements, sizes)
    return ArrayFacts("product", dtype, (elements,), (1,), 0, device, numpy_dtype(dtype).itemsize)


def workspace_of(entry: KernelEntry) -> tuple[str, ...]:
    """The names of a product's arguments that are scratch memory."""
    return tuple(argument.name for argument in entry.arguments if argument.name in WORKSPACE)
