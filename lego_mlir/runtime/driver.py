"""CUDA's driver, called directly: devices, loaded code, launches. Needs the driver's library and nothing else.

    Driver          one per process: devices, their contexts, loading
    LoadedFunction  a kernel on one device
    Frame           the memory of one launch: configuration and parameters, filled in and reused

A launch is one call, `cuLaunchKernelEx`, whose four arguments are pointers that are made once. Only the addresses,
numbers and the stream of a frame change between launches. The contexts are the primary ones of the devices, which
PyTorch, CuPy and JAX use as well.

CUDA driver API, "Execution Control", "Primary Context Management", "Module Management".
"""

from __future__ import annotations

import ctypes
import hashlib
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Final

from lego_mlir.aliases import Foreign, Given
from lego_mlir.errors import DependencyError, LaunchError, UsageError
from lego_mlir.hardware.device_numbers import DeviceNumbers
from lego_mlir.hardware.limits import STATIC_SHARED_BYTES

LIBRARIES: Final = ("nvcuda.dll",) if sys.platform == "win32" else ("libcuda.so.1", "libcuda.so")
OLDEST: Final = 11080  # CUDA 11.8, the first with cuLaunchKernelEx
SLOT_BYTES: Final = 8  # of a parameter: an address, a size, or a number

# CUdevice_attribute
CAPABILITY_MAJOR, CAPABILITY_MINOR, MULTIPROCESSORS, MOST_SHARED = 75, 76, 16, 97
CLOCK_RATE, MEMORY_CLOCK_RATE, MEMORY_BUS_WIDTH, L2_BYTES = 13, 36, 37, 38
NAME_BYTES: Final = 256
# CUfunction_attribute
MAX_DYNAMIC_SHARED: Final = 8
# CUlaunchAttributeID
CLUSTER_DIMENSION, EARLY_LAUNCH = 4, 6
# CUresult
NO_CONTEXT: Final = (201, 709, 400)  # INVALID_CONTEXT, CONTEXT_IS_DESTROYED, and INVALID_HANDLE of another context
REFUSED_CODE: Final = (209, 218, 222)  # NO_BINARY_FOR_GPU, INVALID_PTX, UNSUPPORTED_PTX_VERSION
CLUSTERED: Final = 90  # compute capability
CLUSTERS: Final = (2, 4, 8)
"""Blocks of the clusters of which the driver is asked how many run at the same time."""
_PROBE: Final = """.version 7.8
.target sm_90
.address_size 64
.visible .entry nothing() { ret; }
"""
STICKY: Final = (700, 715, 716, 717, 718, 719)  # an earlier kernel ended the context


class _Configuration(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = (
        ("grid_x", ctypes.c_uint), ("grid_y", ctypes.c_uint), ("grid_z", ctypes.c_uint),
        ("block_x", ctypes.c_uint), ("block_y", ctypes.c_uint), ("block_z", ctypes.c_uint),
        ("shared_bytes", ctypes.c_uint), ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p), ("attribute_count", ctypes.c_uint),
    )  # fmt: skip


class _Value(ctypes.Union):
    """CUlaunchAttributeValue."""

    _fields_ = (("pad", ctypes.c_char * 64), ("extents", ctypes.c_uint * 3), ("number", ctypes.c_int))


class _Attribute(ctypes.Structure):
    """CUlaunchAttribute."""

    _fields_ = (("id", ctypes.c_int), ("pad", ctypes.c_char * 4), ("value", _Value))


@dataclass(frozen=True, slots=True)
class LoadedFunction:
    """A kernel in loaded code. `module` keeps the code loaded."""

    name: str
    handle: int
    device: int
    module: int


class Frame:
    """One launch's configuration and parameters. Slot i holds parameter i, in its first bytes.

    Frames of launches that follow each other may share `slots`, in which `places` has the parameters of each: then an
    address that several launches take is written once. `launch()` launches with what the slots hold, and returns the
    driver's error, 0 for none.
    """

    __slots__ = ("_keep", "configuration", "launch", "places", "slots")

    def __init__(
        self, driver: Driver, function: LoadedFunction, extents: Sequence[int], shared: int,
        places: int | Sequence[int], slots: Foreign = None,
    ) -> None:  # fmt: skip
        self.places = range(max(places, 1)) if isinstance(places, int) else places
        count = len(self.places)
        self.configuration = _Configuration(*extents, shared, None, None, 0)
        self.slots: Any = new_slots(count) if slots is None else slots
        pointers = (ctypes.c_void_p * max(count, 1))(*map(self.parameter, range(count)))
        arguments = (
            ctypes.c_void_p(ctypes.addressof(self.configuration)), ctypes.c_void_p(function.handle),
            ctypes.c_void_p(ctypes.addressof(pointers)), ctypes.c_void_p(None),
        )  # fmt: skip
        self._keep: list[Any] = [pointers]
        direct = partial(driver.library.cuLaunchKernelEx, *arguments)
        self.launch: Callable[[], int] = direct if driver.devices == 1 else driver.guarded(direct, function.device)

    def begin_early(self) -> None:
        """Let the kernel begin before the previous one on its stream has ended; the kernel waits for that itself."""
        attribute = _Attribute(EARLY_LAUNCH)
        attribute.value.number = 1
        self._keep.append(attribute)
        self.configuration.attributes, self.configuration.attribute_count = ctypes.addressof(attribute), 1

    def parameter(self, number: int) -> int:
        """The host address of a parameter: its slot."""
        return ctypes.addressof(self.slots) + SLOT_BYTES * self.places[number]


def new_slots(count: int) -> Foreign:
    """Memory for parameters: addresses, sizes or numbers, each in the first bytes of its slot."""
    return (ctypes.c_uint64 * count)()


class Driver:
    """The driver's library. Handles are ints."""

    def __init__(self, library: Foreign) -> None:
        self.library = library
        version, count = ctypes.c_int(), ctypes.c_int()
        self._require("cuInit", ctypes.c_uint(0))
        self._require("cuDriverGetVersion", ctypes.byref(version))
        if version.value < OLDEST:
            raise DependencyError(
                f"NVIDIA's driver supports CUDA {_version(version.value)}, and launches need {_version(OLDEST)}; "
                "install a newer driver"
            )
        self._require("cuDeviceGetCount", ctypes.byref(count))
        if count.value == 0:
            raise DependencyError("no CUDA device is visible; a GPU and NVIDIA's driver are needed")
        self.devices = count.value
        self._contexts: dict[int, int] = {}
        self._numbers: dict[int, DeviceNumbers | None] = {}
        self._scratch: dict[tuple[int, int], StreamScratch] = {}
        self._clusters: dict[int, tuple[int, ...]] = {}
        self._functions: dict[tuple[bytes, str, int, int], LoadedFunction] = {}
        self._loading = threading.Lock()

    def attribute(self, device: int, which: int) -> int:
        """An attribute of a device."""
        value = ctypes.c_int()
        self._require("cuDeviceGetAttribute", ctypes.byref(value), ctypes.c_int(which), ctypes.c_int(device))
        return value.value

    def name(self, device: int) -> str:
        """The name of a device, such as "NVIDIA H200"."""
        found = ctypes.create_string_buffer(NAME_BYTES)
        self._require("cuDeviceGetName", found, ctypes.c_int(NAME_BYTES), ctypes.c_int(device))
        return found.value.decode(errors="replace")

    def numbers(self, device: int) -> DeviceNumbers | None:
        """The clocks and memory of a device; None where the driver does not tell all of them."""
        if device not in self._numbers:
            wanted = (CLOCK_RATE, MEMORY_CLOCK_RATE, MEMORY_BUS_WIDTH, L2_BYTES)
            try:
                khz, memory_khz, bits, l2_bytes = (self.attribute(device, which) for which in wanted)
            except LaunchError:  # of a driver that has not all of these
                khz = memory_khz = bits = l2_bytes = 0
            bandwidth = 2 * memory_khz * 1e3 * bits / 8 / 1e6  # two transfers a clock
            found = DeviceNumbers(
                self.name(device), self.attribute(device, MULTIPROCESSORS), khz / 1e3, bandwidth, l2_bytes
            )
            self._numbers[device] = found if khz and bandwidth and l2_bytes else None
        return self._numbers[device]

    def capability(self, device: int) -> str:
        """The compute capability, such as "90"."""
        return f"{self.attribute(device, CAPABILITY_MAJOR)}{self.attribute(device, CAPABILITY_MINOR)}"

    def context(self, device: int) -> int:
        """The primary context of a device, kept for the life of the process."""
        if device not in self._contexts:
            handle = ctypes.c_void_p()
            self._require("cuDevicePrimaryCtxRetain", ctypes.byref(handle), ctypes.c_int(device))
            self._contexts[device] = handle.value or 0
        return self._contexts[device]

    def load(self, code: bytes, name: str, device: int, dynamic_shared: int, origin: str) -> LoadedFunction:
        """Load PTX or a cubin onto a device; its kernel of that name. `origin` names the code in messages.

        Equal code is loaded once.
        """
        key = hashlib.sha256(code).digest(), name, device, dynamic_shared
        with self._loading:
            found = self._functions.get(key)
            if found is None:
                found = self.within(device, lambda: self._load(code, name, device, dynamic_shared, origin))
                self._functions[key] = found
        return found

    def _load(self, code: bytes, name: str, device: int, dynamic_shared: int, origin: str) -> LoadedFunction:
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        failed = self.library.cuModuleLoadData(ctypes.byref(module), ctypes.c_char_p(code))
        if failed in REFUSED_CODE:
            raise UsageError(
                f"{origin}: the driver refuses this code on CUDA device {device}, of compute capability "
                f"{self.capability(device)} ({self.describe(failed)}); a newer driver, or code for this device, is "
                "needed"
            )
        self.check(failed, f"{origin}: loading")
        self._require("cuModuleGetFunction", ctypes.byref(function), module, ctypes.c_char_p(name.encode()))
        if dynamic_shared > STATIC_SHARED_BYTES:  # the limit without an opt-in for the kernel
            self._require(
                "cuFuncSetAttribute", function, ctypes.c_int(MAX_DYNAMIC_SHARED), ctypes.c_int(dynamic_shared)
            )
        return LoadedFunction(name, function.value or 0, device, module.value or 0)

    def clusters_at_once(self, device: int) -> tuple[int, ...]:
        """How many of `CLUSTERS` run at the same time, with one block on a multiprocessor; none without clusters.

        The driver tells it of loaded code only: here of a kernel that does nothing, and takes all shared memory.
        """
        found = self._clusters.get(device)
        if found is None:
            found = ()
            if int(self.capability(device)) >= CLUSTERED:
                shared = self.attribute(device, MOST_SHARED)
                function = self.load(_PROBE.encode(), "nothing", device, shared, "a kernel that does nothing")
                found = tuple(self.active_clusters(function, (32, 1, 1), shared, blocks) for blocks in CLUSTERS)
            self._clusters[device] = found
        return found

    def active_clusters(self, function: LoadedFunction, block: Sequence[int], shared: int, cluster: int) -> int:
        """How many clusters of that many blocks, along x, can run at the same time on the function's device."""
        attribute, count = _Attribute(CLUSTER_DIMENSION), ctypes.c_int()
        attribute.value.extents = (cluster, 1, 1)
        configuration = _Configuration(cluster, 1, 1, *block, shared, None, ctypes.addressof(attribute), 1)
        arguments = (ctypes.byref(count), ctypes.c_void_p(function.handle), ctypes.byref(configuration))
        self.within(function.device, lambda: self._require("cuOccupancyMaxActiveClusters", *arguments))
        return count.value

    def current_context(self) -> int:
        """The context of this thread, 0 for none."""
        handle = ctypes.c_void_p()
        self._require("cuCtxGetCurrent", ctypes.byref(handle))
        return handle.value or 0

    def within(self, device: int, action: Callable[[], Any]) -> Any:
        """Do something in the context of a device, and restore the thread's."""
        wanted = self.context(device)
        if self.current_context() == wanted:
            return action()
        self._require("cuCtxPushCurrent_v2", ctypes.c_void_p(wanted))
        try:
            return action()
        finally:
            self._require("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))

    def guarded(self, launch: Callable[[], int], device: int) -> Callable[[], int]:
        """A launch in the context of its device, whichever the thread has: needed where there are several devices."""
        wanted, current = self.context(device), self.library.cuCtxGetCurrent

        def guarded() -> int:
            found = ctypes.c_void_p()
            if current(ctypes.byref(found)) == 0 and found.value == wanted:
                return launch()
            return int(self.within(device, launch))

        return guarded

    def launch_failed(self, frame: Frame, function: LoadedFunction, code: int) -> None:
        """Launch again in the context of the device if the thread had another or none; raise LaunchError otherwise."""
        if code in NO_CONTEXT and self.current_context() != self.context(function.device):
            code = self.within(function.device, frame.launch)
        self.check(code, f"kernel {function.name}: the launch on CUDA device {function.device}")

    def allocate(self, size: int, device: int, stream: int) -> int:
        """Memory of a device, in bytes, that operations on the stream may use from now on."""
        pointer = ctypes.c_uint64()
        arguments = (ctypes.byref(pointer), ctypes.c_size_t(size), ctypes.c_void_p(stream))
        self.within(device, lambda: self._require("cuMemAllocAsync", *arguments))
        return pointer.value

    def free(self, pointer: int, device: int, stream: int) -> None:
        """Free such memory once the operations on the stream so far have finished."""
        arguments = (ctypes.c_uint64(pointer), ctypes.c_void_p(stream))
        self.within(device, lambda: self._require("cuMemFreeAsync", *arguments))

    def scratch_of(self, device: int, stream: int) -> StreamScratch:
        """The scratch memory of a stream."""
        found = self._scratch.get((device, stream))
        return found or self._scratch.setdefault((device, stream), StreamScratch(self, device, stream))

    def clear(self, pointer: int, size: int, device: int, stream: int) -> None:
        """Set bytes of a device's memory to 0, in the order of the stream."""
        arguments = (ctypes.c_uint64(pointer), ctypes.c_ubyte(0), ctypes.c_size_t(size), ctypes.c_void_p(stream))
        self.within(device, lambda: self._require("cuMemsetD8Async", *arguments))

    def word_writer(self, pointer: int, device: int, stream: int) -> Callable[[int], None]:
        """Writes 32 bits to memory, of another device too, after all that the stream did before; no kernel does it."""
        return self._words("cuStreamWriteValue32_v2", pointer, device, stream)

    def word_waiter(self, pointer: int, device: int, stream: int) -> Callable[[int], None]:
        """Lets the stream wait until 32 bits of memory, minus a value, are not negative as a signed number."""
        return self._words("cuStreamWaitValue32_v2", pointer, device, stream)

    def asker(self, stream: int, device: int) -> Callable[[], bool]:
        """Tells whether launches on the stream are recorded in a graph; stream 0 is of the device."""
        status = ctypes.c_int()
        query = partial(self.library.cuStreamIsCapturing, ctypes.c_void_p(stream), ctypes.byref(status))
        in_context = self._prepared("cuStreamIsCapturing", device, ctypes.c_void_p(stream), ctypes.byref(status))

        def is_capturing() -> bool:
            if query():
                in_context()
            return status.value != 0

        return is_capturing

    def _words(self, function: str, pointer: int, device: int, stream: int) -> Callable[[int], None]:
        value, flags = ctypes.c_uint32(), ctypes.c_uint(0)  # write with a barrier of memory; wait for greater or equal
        run = self._prepared(function, device, ctypes.c_void_p(stream), ctypes.c_uint64(pointer), value, flags)

        def of(number: int) -> None:
            value.value = number
            run()

        return of

    def copier(self, target: int, source: int, size: int, device: int, stream: int) -> Callable[[], None]:
        """Copies bytes between addresses, of memory of peers too, in the order of the stream."""
        addresses = ctypes.c_uint64(target), ctypes.c_uint64(source)
        return self._prepared("cuMemcpyAsync", device, *addresses, ctypes.c_size_t(size), ctypes.c_void_p(stream))

    def _prepared(self, function: str, device: int, *arguments: object) -> Callable[[], None]:
        """A call whose arguments are made once."""
        call = getattr(self.library, function)

        def run() -> None:
            code = call(*arguments)
            if code in NO_CONTEXT:
                code = self.within(device, lambda: call(*arguments))
            if code:
                self.check(code, function)

        return run

    def synchronise(self, device: int, stream: int) -> None:
        """Wait for a stream."""
        self.within(device, lambda: self._require("cuStreamSynchronize", ctypes.c_void_p(stream)))

    def check(self, code: int, action: str) -> None:
        """Raise LaunchError where the driver returned an error."""
        if code == 0:
            return
        remedy = ""
        if code in STICKY:
            remedy = (
                "; an earlier kernel of this process accessed memory that is not its own, and no launch succeeds any "
                "more: run it with check=True on NumPy arrays, which finds the access"
            )
        raise LaunchError(f"{action} failed: {self.describe(code)}{remedy}")

    def describe(self, code: int) -> str:
        """The name of an error."""
        name = ctypes.c_char_p()
        self.library.cuGetErrorName(ctypes.c_int(code), ctypes.byref(name))
        return name.value.decode() if name.value else f"CUDA error {code}"

    def _require(self, function: str, *arguments: object) -> None:
        code = getattr(self.library, function)(*arguments)
        if code:
            reason = self.describe(code)
            if function in ("cuInit", "cuDeviceGetCount"):
                raise DependencyError(f"no CUDA device answers ({reason}); a GPU and NVIDIA's driver are needed")
            self.check(code, function)


class StreamScratch:
    """Memory for what is launched next on a stream, which later launches there overwrite. It is kept, and grows.

    Who holds the `lock` launches there alone.
    """

    __slots__ = ("_bytes", "_driver", "_place", "begin", "is_capturing", "lock")

    def __init__(self, driver: Driver, device: int, stream: int) -> None:
        self._driver, self._place, self._bytes, self.begin = driver, (device, stream), 0, 0
        self.lock: Final[AbstractContextManager[object]] = threading.RLock()
        self.is_capturing = driver.asker(stream, device)

    def of(self, size: int) -> int:
        """Where this many bytes begin."""
        if self._bytes < size:
            if self._bytes:
                self._driver.free(self.begin, *self._place)
            self.begin = self._driver.allocate(size, *self._place)
            self._bytes = size
        return self.begin


def _version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"


def open_library() -> Foreign:
    """The driver's library. Raises DependencyError where there is none."""
    for name in LIBRARIES:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise DependencyError(f"NVIDIA's driver is not installed ({LIBRARIES[0]} is missing); a GPU and it are needed")


@cache
def driver() -> Driver:
    """The driver of this process, opened at first use."""
    return Driver(open_library())


def stream_handle(stream: Given) -> int:
    """The handle of a stream: an int, or a stream of PyTorch, CuPy or cuda.core. Raises UsageError for others."""
    if isinstance(stream, int) and not isinstance(stream, bool):
        return stream
    for name in ("cuda_stream", "ptr"):  # PyTorch's, CuPy's
        handle = getattr(stream, name, None)
        if isinstance(handle, int):
            return handle
    if hasattr(stream, "__cuda_stream__"):  # (version, handle); cuda.core
        protocol = stream.__cuda_stream__
        return int((protocol() if callable(protocol) else protocol)[1])
    raise UsageError(
        f"a stream is an int, or a stream of PyTorch, CuPy or cuda.core, got {stream!r}; the default one is 0"
    )


def check_target(target: str, capability: str, origin: str) -> None:
    """Refuse code for another architecture: `sm_90a` runs on 90 alone, `sm_80` on 80 and everything later."""
    wanted, device = int(target.removeprefix("sm_").rstrip("a")), int(capability)
    if device < wanted or (target.endswith("a") and device != wanted):
        raise UsageError(
            f"{origin}: the code is for {target} and this device is sm_{device}; compile with --target sm_{device}"
        )
