"""Launches that own their memory on a CUDA device, and times between events: the driver alone, no array library.

A benchmark must decide itself where its buffers are, what the L2 cache holds before a launch, and when the clock runs.
Each launch that is timed is preceded by a write of FLUSHED_BYTES, far more than any L2 cache holds; writing them takes
longer than the host takes to enqueue the launch, so the device never waits for the host between two events.

CUDA driver API, "Event Management", "Memory Management".
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy

from lego_mlir.aliases import Array
from lego_mlir.runtime import argument_checks
from lego_mlir.runtime.cuda import launch_extents
from lego_mlir.runtime.driver import L2_BYTES, MULTIPROCESSORS, SLOT_BYTES, Driver, Frame, LoadedFunction
from lego_mlir.runtime.manifest import Argument, Extent, KernelEntry, ProgramEntry, evaluate

FLUSHED_BYTES: Final = 2**30
FLUSHED_PART: Final = 32  # of the memory of a small device, at most


@dataclass(frozen=True, slots=True)
class DeviceIdentity:
    """What a timing depends on of a device: its name, the number of multiprocessors, and the driver."""

    name: str
    multiprocessors: int
    driver: str


def identity(driver: Driver, device: int = 0) -> DeviceIdentity:
    """The identity of a device of this machine; the driver by the CUDA version that it supports."""
    version, library = ctypes.c_int(), driver.library
    driver.check(library.cuDriverGetVersion(ctypes.byref(version)), "cuDriverGetVersion")
    cuda = f"CUDA {version.value // 1000}.{version.value % 1000 // 10}"
    return DeviceIdentity(driver.name(device), driver.attribute(device, MULTIPROCESSORS), cuda)


class DeviceBuffers:
    """Memory of a device that is freed with its context, or by `close`: copies of arrays, and back."""

    def __init__(self, driver: Driver, device: int) -> None:
        self.driver, self.device = driver, device
        self._addresses: list[int] = []

    def empty(self, size: int) -> int:
        """The address of `size` bytes."""
        self._addresses.append(self.driver.allocate(max(size, 1), self.device, 0))
        return self._addresses[-1]

    def close(self) -> None:
        """Free all of it."""
        while self._addresses:
            self.driver.free(self._addresses.pop(), self.device, 0)

    def put(self, array: Array, address: int | None = None) -> int:
        """Copy an array to the device, to an address or into new memory; the address."""
        flat = numpy.ascontiguousarray(array)
        address = self.empty(flat.nbytes) if address is None else address
        arguments = ctypes.c_uint64(address), ctypes.c_void_p(flat.ctypes.data), ctypes.c_size_t(flat.nbytes)
        _call(self.driver, self.device, "cuMemcpyHtoD_v2", *arguments)
        return address

    def get(self, address: int, like: Array) -> Array:
        """An array of the same type and shape from the device."""
        found = numpy.empty_like(numpy.ascontiguousarray(like))
        arguments = ctypes.c_void_p(found.ctypes.data), ctypes.c_uint64(address), ctypes.c_size_t(found.nbytes)
        _call(self.driver, self.device, "cuMemcpyDtoH_v2", *arguments)
        return found


def _call(driver: Driver, device: int, function: str, *arguments: object) -> None:
    """Call a function of the driver's library on a device, checked."""
    call = getattr(driver.library, function)
    driver.within(device, lambda: driver.check(call(*arguments), function))


def frame(
    driver: Driver,
    function: LoadedFunction,
    entry: KernelEntry,
    values: Sequence[bytes],
    sizes: Mapping[str, int],
    grid: Sequence[Extent] | None = None,
) -> Frame:
    """A launch of one kernel with these arguments, as bytes, and sizes; a grid in place of the kernel's."""
    grid = launch_extents("grid", entry.grid if grid is None else tuple(grid), None, sizes, entry.entry)
    block = launch_extents("block", entry.block, None, sizes, entry.entry)
    extents = [*(*grid, 1, 1)[:3], *(*block, 1, 1)[:3]]
    words = [*values, *(sizes[size.name].to_bytes(SLOT_BYTES, "little", signed=True) for size in entry.sizes)]
    made = Frame(driver, function, extents, entry.dynamic_shared_bytes, len(words))
    for slot, word in enumerate(words):
        made.slots[slot] = int.from_bytes(word, "little")
    return made


def frames(
    driver: Driver,
    function_of: Callable[[KernelEntry], LoadedFunction],
    entry: KernelEntry | ProgramEntry,
    kernels: Mapping[str, KernelEntry],
    values: Mapping[str, bytes],
    sizes: Mapping[str, int],
) -> list[tuple[Frame, LoadedFunction]]:
    """The launches of a kernel, or of a program's steps in order; `values` are those of its parameters by name."""
    if isinstance(entry, KernelEntry):
        function = function_of(entry)
        return [(frame(driver, function, entry, [values[a.name] for a in entry.arguments], sizes), function)]
    made = []
    for step in entry.steps:
        kernel = kernels[step.entry]
        passed = [
            values[given["name"]] if "name" in given else _number(argument.dtype, given["value"], sizes)
            for given, argument in zip(step.arguments, kernel.arguments, strict=True)
        ]
        own = {name: evaluate(extent, sizes) for name, extent in step.sizes.items()}
        function = function_of(kernel)
        made.append((frame(driver, function, kernel, passed, own, step.grid), function))
    return made


def _number(dtype: str, value: float | int | str, sizes: Mapping[str, int]) -> bytes:
    number = value if isinstance(value, float) else evaluate(value, sizes)
    return bytes(argument_checks.scalar(Argument("value", "scalar", dtype), number).tobytes())


class Stopwatch:
    """Times launches on the default stream of a device, the L2 cache flushed before each."""

    def __init__(self, driver: Driver, device: int) -> None:
        self.driver, self.device = driver, device
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        _call(self.driver, self.device, "cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        self.flushed = min(FLUSHED_BYTES, max(total.value // FLUSHED_PART, 2 * driver.attribute(device, L2_BYTES)))
        self.buffer = driver.allocate(self.flushed, device, 0)

    def close(self) -> None:
        """Free what the flushes write."""
        self.driver.free(self.buffer, self.device, 0)

    def seconds(self, launch: Callable[[], None], count: int) -> list[float]:
        """The time of each of `count` launches, after a quarter as many that are not timed."""
        found: list[float] = self.driver.within(self.device, lambda: self._seconds(launch, count))
        return found

    def _seconds(self, launch: Callable[[], None], count: int) -> list[float]:
        for _ in range(count // 4):
            launch()
        pairs = [(self._event(), self._event()) for _ in range(count)]
        for start, end in pairs:
            self._flush()
            _call(self.driver, self.device, "cuEventRecord", start, None)
            launch()
            _call(self.driver, self.device, "cuEventRecord", end, None)
        self.driver.synchronise(self.device, 0)
        return [self._elapsed(start, end) for start, end in pairs]

    def _flush(self) -> None:
        arguments = (
            ctypes.c_uint64(self.buffer),
            ctypes.c_ubyte(0),
            ctypes.c_size_t(self.flushed),
            ctypes.c_void_p(None),
        )
        _call(self.driver, self.device, "cuMemsetD8Async", *arguments)

    def _event(self) -> ctypes.c_void_p:
        event = ctypes.c_void_p()
        _call(self.driver, self.device, "cuEventCreate", ctypes.byref(event), ctypes.c_uint(0))
        return event

    def _elapsed(self, start: ctypes.c_void_p, end: ctypes.c_void_p) -> float:
        milliseconds = ctypes.c_float()
        _call(self.driver, self.device, "cuEventElapsedTime", ctypes.byref(milliseconds), start, end)
        for event in (start, end):
            _call(self.driver, self.device, "cuEventDestroy_v2", event)
        return milliseconds.value / 1000
