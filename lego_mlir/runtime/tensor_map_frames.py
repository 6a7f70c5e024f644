"""Launches of kernels whose arguments are tensor maps: encoded by the driver, written again when an array moves.

A tensor map is 128 bytes that the driver encodes from an array's address, extents and box; the kernel takes them by
value; one with an edge is followed by that of its edge. A frame keeps its maps between launches, so that a launch on
the same arrays encodes nothing, and one on other arrays replaces addresses. Allocators give a loop's results few
addresses in turn, so the maps of the last ones are kept as well: copying 128 bytes takes a fifth of the time of the
driver's function.

CUDA driver API, "Tensor Map Object Management".
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Final

from lego_mlir.aliases import Array, Foreign
from lego_mlir.hardware.tensor_maps import DATA_TYPES, MAP_BYTES, SWIZZLE_NUMBERS, TensorMap
from lego_mlir.runtime.driver import Driver, Frame, LoadedFunction

MAP_ALIGNMENT: Final = 64
L2_PROMOTION: Final = 2  # CUtensorMapL2promotion: 128 bytes are fetched together; less is no faster, 256 bytes slower
MAPS_KEPT: Final = 32
"""Addresses of an argument whose maps a frame keeps."""
_NO_INTERLEAVE = _ZEROS_OUTSIDE = 0  # CUtensorMapInterleave, CUtensorMapFloatOOBfill


def encode(driver: Driver, tensor_map: TensorMap, address: int, destination: int) -> None:
    """Write the driver's encoding of a map at a host address aligned to 64 bytes. Raises LaunchError."""
    rank = len(tensor_map.sizes)
    failed = driver.library.cuTensorMapEncodeTiled(
        ctypes.c_void_p(destination), ctypes.c_int(DATA_TYPES[tensor_map.dtype]), ctypes.c_uint(rank),
        ctypes.c_void_p(address), (ctypes.c_uint64 * rank)(*tensor_map.sizes),
        (ctypes.c_uint64 * rank)(*tensor_map.strides), (ctypes.c_uint32 * rank)(*tensor_map.box),
        (ctypes.c_uint32 * rank)(*[1] * rank), ctypes.c_int(_NO_INTERLEAVE),
        ctypes.c_int(SWIZZLE_NUMBERS[tensor_map.swizzle]), ctypes.c_int(L2_PROMOTION),
        ctypes.c_int(_ZEROS_OUTSIDE),
    )  # fmt: skip
    driver.check(failed, f"encoding {tensor_map} at {address:#x}")


def encoded(driver: Driver, tensor_map: TensorMap, address: int) -> Array:
    """A map of the array at an address, as a NumPy array of one structure. Raises LaunchError."""
    import numpy

    parts = tensor_map.parts
    memory = (ctypes.c_char * (MAP_BYTES * len(parts) + MAP_ALIGNMENT))()
    begin = -ctypes.addressof(memory) % MAP_ALIGNMENT
    for number, part in enumerate(parts):
        encode(driver, part, address, ctypes.addressof(memory) + begin + MAP_BYTES * number)
    words = numpy.dtype([("words", "u8", MAP_BYTES * len(parts) // 8)])
    return numpy.frombuffer(memoryview(memory).cast("B"), words, 1, begin)


class TensorMapFrame(Frame):
    """A frame some of whose parameters are tensor maps, by number, of the arrays whose addresses its slots hold."""

    __slots__ = ("_begins", "_bytes", "_device", "_driver", "_encoded", "_kept", "_maps", "_memory")

    def __init__(
        self, driver: Driver, function: LoadedFunction, extents: Sequence[int], shared: int,
        places: int | Sequence[int], maps: Mapping[int, TensorMap], slots: Foreign = None,
    ) -> None:  # fmt: skip
        parts = {number: described.parts for number, described in maps.items()}
        count = sum(map(len, parts.values()))
        self._memory = (ctypes.c_char * (MAP_BYTES * count + MAP_ALIGNMENT))()
        first = -(-ctypes.addressof(self._memory) // MAP_ALIGNMENT) * MAP_ALIGNMENT
        ends = [MAP_BYTES * n for n in accumulate(map(len, parts.values()), initial=0)]
        self._begins = {number: first + begin for number, begin in zip(parts, ends, strict=False)}
        self._device = function.device
        self._driver, self._maps, self._encoded = driver, parts, dict.fromkeys(maps, 0)
        begin = first - ctypes.addressof(self._memory)
        self._bytes = memoryview(self._memory).cast("B")[begin : begin + MAP_BYTES * count]
        self._kept: dict[int, tuple[slice, dict[int, bytes]]] = {
            number: (slice(*span), {}) for number, span in zip(parts, pairwise(ends), strict=True)
        }
        super().__init__(driver, function, extents, shared, places, slots)
        launch, addresses, known = self.launch, self.slots, self._encoded
        arrays = [(number, self.places[number]) for number in maps]

        def encoded_launch() -> int:
            for number, place in arrays:
                if addresses[place] != known[number]:  # elsewhere than at the previous launch
                    self._encode(number, addresses[place])
            return launch()

        self.launch: Callable[[], int] = encoded_launch

    def parameter(self, number: int) -> int:
        """The host address of a parameter: its map, or its slot."""
        return self._begins.get(number) or super().parameter(number)

    def _encode(self, number: int, address: int) -> None:
        """Write the map of an array, and of its edge."""
        span, kept = self._kept[number]
        found = kept.get(address)
        if found is not None:
            self._bytes[span] = found
        else:
            self._in_context(number, address, moved=bool(self._encoded[number]))
            if len(kept) >= MAPS_KEPT:
                kept.clear()
            kept[address] = bytes(self._bytes[span])
        self._encoded[number] = address

    def _in_context(self, number: int, address: int, moved: bool) -> None:
        """Write a map in the context of the device: a thread may have none yet, as PyTorch's for gradients."""
        driver, device = self._driver, self._device
        if driver.current_context() == driver.context(device):
            self._write(number, address, moved)
        else:
            driver.within(device, lambda: self._write(number, address, moved))

    def _write(self, number: int, address: int, moved: bool) -> None:
        """Have the driver encode a map and its edge's, or replace their address. Raises LaunchError."""
        for turn, part in enumerate(self._maps[number]):
            place = self.parameter(number) + MAP_BYTES * turn
            if moved:
                replace = self._driver.library.cuTensorMapReplaceAddress
                failed = replace(ctypes.c_void_p(place), ctypes.c_void_p(address))
                self._driver.check(failed, f"replacing the address of a tensor map by {address:#x}")
            else:
                encode(self._driver, part, address, place)
