"""Launches on a CUDA device: a plan that fills in a frame and calls the driver once.

For a kernel whose parameters are n tensors, all given, a launch reads n addresses, combines their low bits, which one
comparison checks for alignment, compares each pair that must not overlap, writes addresses and stream into a frame, and
calls the driver. A frame belongs to one launch at a time: threads that launch together take several.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from lego_mlir.aliases import Foreign, Given, Returned
from lego_mlir.runtime import binding
from lego_mlir.runtime.arrays import ArrayLibrary, MakeArray
from lego_mlir.runtime.binding import Bound
from lego_mlir.runtime.driver import SLOT_BYTES, Driver, Frame, LoadedFunction, new_slots
from lego_mlir.runtime.manifest import Argument, KernelEntry
from lego_mlir.runtime.plans import Plan, known_library, require_no_gradient, stored_number

BLOCK_ALIGNMENT: Final = 256
"""Bytes to which the parts of a block of memory are aligned, as an allocation is."""
Wire = tuple[Sequence[str], Sequence[str]]
"""The names of the arrays that a launch takes, and of those that it makes."""

# How `struct` writes a number; others are written as the words that `argument_checks.scalar` makes.
_FORMATS: Final = {
    "f16": "<e", "f32": "<f", "f64": "<d", "i8": "<b", "i16": "<h", "i32": "<i", "i64": "<q", "index": "<q",
    "u8": "<B", "u16": "<H", "u32": "<I", "u64": "<Q",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class CudaBackend:
    """A kernel loaded onto one device."""

    entry: KernelEntry
    driver: Driver
    function: LoadedFunction

    def plan(self, bound: Bound, given: Sequence[Given], library: ArrayLibrary | None) -> Plan:
        """A launch of this kernel for bound arrays."""
        plain = len(bound.spans) == len(self.entry.arguments) and not bound.needs_gradient and bool(given)
        plain = plain and not any(argument.permutation for argument in self.entry.arguments)  # compared at each call
        alike = all(type(array) is type(given[0]) for array in given)
        if not (plain and alike and library is not None and library is known_library(given[0])):
            return CudaPlan(self, bound, given, library)
        if len(given) == len(bound.spans):
            return InPlacePlan(self, bound, given, library)
        if library.finish is None and not library.waits:
            return AllocatingPlan(self, bound, given, library)
        return CudaPlan(self, bound, given, library)


def frame_of(backend: CudaBackend, bound: Bound, places: Sequence[int] | None = None, slots: Foreign = None) -> Frame:
    """A frame with the extents and sizes of a bound launch; addresses, numbers and stream are still to be written.

    It may share `slots` with other frames, in which `places` has those of its parameters.
    """
    entry, count = backend.entry, len(backend.entry.arguments)
    extents, shared = (*bound.grid, *bound.block), entry.dynamic_shared_bytes
    places = range(count + len(bound.sizes)) if places is None else places
    described = {n: a.tensor_map for n, a in enumerate(entry.arguments) if a.tensor_map is not None}
    if described:
        from lego_mlir.hardware.tensor_map_forms import form_from
        from lego_mlir.runtime.tensor_map_frames import TensorMapFrame

        maps = {number: form_from(data).at(bound.sizes) for number, data in described.items()}
        frame: Frame = TensorMapFrame(backend.driver, backend.function, extents, shared, places, maps, slots)
        if entry.dependent:
            frame.begin_early()
    else:
        frame = Frame(backend.driver, backend.function, extents, shared, places, slots)
    for place, size in zip(places[count:], bound.sizes, strict=True):
        frame.slots[place] = size
    return frame


class LaunchChain:
    """Launches that follow each other on one stream, which take their addresses from one block of slots.

    `parts` has a bound launch of each kernel, and for each of its arguments the number of its address among the
    `count` addresses of a call. What does not change from call to call is written once.
    """

    def __init__(self, parts: Sequence[tuple[CudaBackend, Bound, Sequence[int]]], count: int) -> None:
        self.parts, self.count = parts, count
        self._pool: list[_ChainFrames] = []

    def __call__(self, addresses: Sequence[int], stream: int) -> None:
        """Launch all, one after the other."""
        try:
            frames = self._pool.pop()
        except IndexError:  # threads that launch together take several
            frames = _ChainFrames(self.parts, self.count)
        frames.slots[0 : self.count] = addresses
        if frames.stream != stream:
            frames.turn_to(stream)
        for launch in frames.launches:
            failed = launch()
            if failed:
                number = frames.launches.index(launch)
                backend = self.parts[number][0]
                backend.driver.launch_failed(frames.frames[number], backend.function, failed)
        self._pool.append(frames)


class _ChainFrames:
    """The frames of a chain, for one thread at a time; their slots hold the addresses, and then sizes."""

    __slots__ = ("frames", "launches", "slots", "stream")

    def __init__(self, parts: Sequence[tuple[CudaBackend, Bound, Sequence[int]]], count: int) -> None:
        self.slots = new_slots(count + sum(len(bound.sizes) for _, bound, _ in parts))
        self.frames: list[Frame] = []
        for backend, bound, numbers in parts:
            sizes = range(count, count := count + len(bound.sizes))
            self.frames.append(frame_of(backend, bound, (*numbers, *sizes), self.slots))
        self.launches = [frame.launch for frame in self.frames]
        self.stream: int | None = None

    def turn_to(self, stream: int) -> None:
        """Let all of them be launched on a stream."""
        for frame in self.frames:
            frame.configuration.stream = stream
        self.stream = stream


class AddressCheck:
    """Refuses addresses of a bound launch that are not aligned, or memory that overlaps and is written.

    What the launch allocates for itself overlaps nothing. `apart` has the pairs to compare, by their numbers among the
    spans: the second does not begin between `least` and `most` bytes after the first.
    """

    def __init__(self, entry: KernelEntry, bound: Bound) -> None:
        self.entry, self.bound = entry, bound
        self.mask = max((span.alignment for span in bound.spans), default=1) - 1
        number_of = {span.position: number for number, span in enumerate(bound.spans)}
        made = {result.position for result in bound.results}
        self.apart = [
            (number_of[written.position], number_of[other.position], -other.bytes, written.bytes)
            for written, other in bound.disjoint
            if written.position not in made and other.position not in made
        ]

    def __call__(self, addresses: Sequence[int]) -> None:
        """Raise UsageError for addresses, in the order of the spans, that are refused."""
        low = 0
        for address in addresses:
            low |= address
        if low & self.mask:
            self.refuse(addresses)
        for first, second, least, most in self.apart:
            if least < addresses[second] - addresses[first] < most:
                self.refuse(addresses)

    def refuse(self, addresses: Sequence[int]) -> None:
        """Raise UsageError where a tensor is not aligned or overlaps; some need less alignment than others."""
        known = {span.position: address for span, address in zip(self.bound.spans, addresses, strict=True)}
        binding.require_addresses(self.entry, self.bound, known)


class CudaPlan(Plan):
    """A bound launch on a CUDA device."""

    def __init__(
        self, backend: CudaBackend, bound: Bound, given: Sequence[Given], library: ArrayLibrary | None
    ) -> None:
        super().__init__(backend.entry, bound, given, library)
        self.backend = backend
        self.readers = [(span.position, self.reader(span.position, given)) for span in bound.spans]
        self.numbers = [(i, a) for i, a in enumerate(backend.entry.arguments) if a.kind != "tensor"]
        self.require = AddressCheck(backend.entry, bound)
        self.waits = library is not None and library.waits
        self.frames: list[Frame] = [self.new_frame()]

    def __call__(self, given: Sequence[Given], stream: int | None) -> Returned:
        return self.launch(given, stream, checked=True)

    def prepared(self, given: Sequence[Given]) -> Callable[..., Returned]:
        """The launch without the checks of addresses, which are made of these arrays once."""
        if not self.results:
            self.require([pointer(given[i]) for i, pointer in self.readers])
        return lambda *arrays: self.launch(arrays or given, None, checked=False)

    def launch(self, given: Sequence[Given], stream: int | None, checked: bool) -> Returned:
        """Launch, with or without the checks of addresses."""
        if self.bound.needs_gradient:
            require_no_gradient(self.entry)
        arrays = self.arrays(given) if self.results else given
        addresses = [pointer(arrays[i]) for i, pointer in self.readers]
        if checked:
            self.require(addresses)
            if self.tables is not None:
                self.tables.require(arrays)
        try:
            frame = self.frames.pop()
        except IndexError:
            frame = self.new_frame()
        slots = frame.slots
        for (i, _), address in zip(self.readers, addresses, strict=True):
            slots[i] = address
        for i, argument in self.numbers:
            write_number(self.entry, argument, arrays[i], frame, i)
        frame.configuration.stream = self.stream() if stream is None else stream
        failed = frame.launch()
        if failed:
            self.backend.driver.launch_failed(frame, self.backend.function, failed)
        if self.waits:
            self.backend.driver.synchronise(self.bound.device[1], frame.configuration.stream or 0)
        self.frames.append(frame)
        return self.returned(arrays)

    def new_frame(self) -> Frame:
        """Another frame, with the sizes of this plan."""
        return frame_of(self.backend, self.bound)


class InPlacePlan(CudaPlan):
    """The usual launch: tensors of one library, all given, and no numbers. Same steps, without those for the rest."""

    def __init__(self, backend: CudaBackend, bound: Bound, given: Sequence[Given], library: ArrayLibrary) -> None:
        super().__init__(backend, bound, given, library)
        self.pointer, self.current = library.pointer, library.stream
        self.device, self.count = bound.device[1], len(bound.spans)
        self.mask, self.apart, self.refuse = self.require.mask, self.require.apart, self.require.refuse

    def __call__(self, given: Sequence[Given], stream: int | None) -> Returned:
        addresses = list(map(self.pointer, given))
        low = 0
        for address in addresses:
            low |= address
        if low & self.mask:
            self.refuse(addresses)
        for first, second, least, most in self.apart:
            if least < addresses[second] - addresses[first] < most:
                self.refuse(addresses)
        try:
            frame = self.frames.pop()
        except IndexError:
            frame = self.new_frame()
        frame.slots[0 : self.count] = addresses
        frame.configuration.stream = self.current(self.device) if stream is None else stream
        failed = frame.launch()
        if failed:
            self.backend.driver.launch_failed(frame, self.backend.function, failed)
        self.frames.append(frame)
        return self.returned(given) if self.only is None else given[self.only]

    def prepared(self, given: Sequence[Given]) -> Callable[..., Returned]:
        """The launch as a closure over all that does not change; the addresses of these arrays are checked once."""
        pointer, current, device, count = self.pointer, self.current, self.device, self.count
        pop, push, failure = self.frames.pop, self.frames.append, self.backend.driver.launch_failed
        kept, addresses_kept, one = tuple(given), [pointer(array) for array in given], self.only
        self.require(addresses_kept)

        def launch(*arrays: Given) -> Returned:
            try:
                frame = pop()
            except IndexError:
                frame = self.new_frame()
            frame.slots[0:count] = [pointer(array) for array in arrays] if arrays else addresses_kept
            frame.configuration.stream = current(device)
            failed = frame.launch()
            if failed:
                failure(frame, self.backend.function, failed)
            push(frame)
            if one is None:
                return self.returned(arrays or kept)
            return arrays[one] if arrays else kept[one]

        return launch


class AllocatingPlan(InPlacePlan):
    """The usual launch with results left out: they are allocated by the library of the arrays, and returned."""

    def __call__(self, given: Sequence[Given], stream: int | None) -> Returned:
        return InPlacePlan.__call__(self, self.arrays(given), stream)

    def prepared(self, given: Sequence[Given]) -> Callable[..., Returned]:
        """The launch without the checks of addresses; each has new results."""
        return lambda *arrays: self.launch(arrays or given, None, checked=False)


class PlanChain:
    """The usual launches with results left out, one after the other, as one call: it returns the wanted results.

    What is made for later launches alone is in one block of memory. `wires` has, for each plan, the names of the arrays
    that it takes and of those that it makes; `given` are the names of a call's arrays, which no launch writes.
    """

    def __init__(
        self, plans: Sequence[AllocatingPlan], wires: Sequence[Wire], given: Sequence[str], wanted: Sequence[str]
    ) -> None:
        first = plans[0]
        self.pointer, self.current, self.device = first.pointer, first.current, first.device
        self.mask = max(plan.mask for plan in plans)
        makers, extents = dict[str, MakeArray](), dict[str, int]()
        for plan, (_, makes) in zip(plans, wires, strict=True):
            for name, (position, result) in zip(makes, sorted(plan.results.items()), strict=True):
                makers[name], extents[name] = plan.makers[position], result.bytes
        self.make = [makers[name] for name in wanted]
        passed = [name for name in makers if name not in wanted]
        ends = list(accumulate((-(-extents[name] // BLOCK_ALIGNMENT) * BLOCK_ALIGNMENT for name in passed), initial=0))
        self.places, library = ends[:-1], first.library
        assert library is not None and library.results is not None  # which made the results of these plans
        self.make_block = library.results("uint8", (max(ends[-1], 1),), (1,), first.bound.device)
        known = {name: number for number, name in enumerate((*given, *wanted, *passed))}
        parts = []
        for plan, (takes, makes) in zip(plans, wires, strict=True):
            made = iter(makes)
            names = [next(made) if source is None else takes[source] for source in plan.sources]
            parts.append((plan.backend, plan.bound, [known[name] for name in names]))
        self.launch = LaunchChain(parts, len(known))

    def __call__(self, given: Sequence[Given]) -> list[Given] | None:
        """The wanted results; None, with nothing launched, for arrays that are not aligned as a launch needs them."""
        addresses, low = list(map(self.pointer, given)), 0
        for address in addresses:
            low |= address
        if low & self.mask:
            return None
        results, block = [make() for make in self.make], self.make_block()
        begin = self.pointer(block)
        addresses += map(self.pointer, results)
        addresses += [begin + place for place in self.places]
        self.launch(addresses, self.current(self.device))
        return results


def chain_of(
    plans: Sequence[Plan], wires: Sequence[Wire], given: Sequence[str], wanted: Sequence[str]
) -> PlanChain | None:
    """The plans as one call; None where one is not the usual launch, or writes an array of the call."""
    allocating = [plan for plan in plans if type(plan) is AllocatingPlan]
    if len(allocating) < len(plans):
        return None
    for plan, (takes, _) in zip(allocating, wires, strict=True):
        sources = [plan.sources[position] for position in plan.written]
        if any(source is not None and takes[source] in given for source in sources):
            return None
    return PlanChain(allocating, wires, given, wanted)


def write_number(entry: KernelEntry, argument: Argument, given: Given, frame: Frame, slot: int) -> None:
    """Write a number into its slot. Raises UsageError for a value that is not of that type."""
    form = _FORMATS.get(argument.dtype)
    if form is not None and type(given) in (int, float):
        try:
            struct.pack_into(form, frame.slots, SLOT_BYTES * slot, given)
            return
        except (struct.error, OverflowError):
            pass  # 3.0 for an integer, or a number beyond the type: as for every other value
    words = stored_number(entry, argument, given).tobytes()
    struct.pack_into(f"<{len(words)}s", frame.slots, SLOT_BYTES * slot, words)
