"""Launches of kernels that take tensor maps: what is encoded, and when."""

import ctypes
from dataclasses import replace

import pytest
from cuda_stand_in import Encoded

from lego_mlir.errors import LaunchError
from lego_mlir.hardware.tensor_maps import TensorMap
from lego_mlir.runtime import driver
from lego_mlir.runtime.tensor_map_frames import MAPS_KEPT, TensorMapFrame, encode

MAP = TensorMap("bf16", (72, 40), (144,), (64, 8), 128)


def test_a_frame_encodes_once_and_replaces_addresses(machine):
    used = driver.driver()
    function = used.load(b".entry", "kernel", 0, 0, "test")
    frame = TensorMapFrame(used, function, (1, 1, 1, 32, 1, 1), 0, 3, {0: MAP, 1: MAP})
    seen = []
    machine.kernels["kernel"] = lambda parameters, grid: seen.append(
        [Encoded.from_address(parameters[i]).address for i in range(2)]
    )
    counts = []
    for addresses in ((4096, 8192), (4096, 8192), (4096, 12288)):
        frame.slots[0:2] = addresses
        assert used.within(0, frame.launch) == 0
        counts.append(
            tuple(ctypes.c_int.in_dll(machine.library, f"stand_in_{n}").value for n in ("encoded", "replaced"))
        )
    assert seen == [[4096, 8192], [4096, 8192], [4096, 12288]]
    assert counts == [(2, 0), (2, 0), (2, 1)]
    found = Encoded.from_address(frame.parameter(1))
    assert (found.rank, found.type, found.swizzle) == (2, 9, 3)
    assert (list(found.sizes[:2]), list(found.box[:2]), found.strides[0]) == ([72, 40], [64, 8], 144)
    assert frame.parameter(0) % 64 == frame.parameter(1) % 64 == 0
    assert frame.parameter(2) == ctypes.addressof(frame.slots) + 16  # an argument that is passed as it is


def test_the_map_of_an_edge_follows_its_map(machine):
    used = driver.driver()
    edged = replace(MAP, sizes=(72, 42), edge=1)
    frame = TensorMapFrame(
        used, used.load(b".entry", "kernel", 0, 0, "test"), (1, 1, 1, 32, 1, 1), 0, 3, {0: edged, 1: MAP}
    )
    seen = []
    machine.kernels["kernel"] = lambda parameters, grid: seen.append(
        [(Encoded.from_address(parameters[i] + n).address, Encoded.from_address(parameters[i] + n).box[1])
         for i, n in ((0, 0), (0, 128), (1, 0))]
    )  # fmt: skip
    for addresses in ((4096, 8192), (12288, 8192), (4096, 8192)):
        frame.slots[0:2] = addresses
        assert used.within(0, frame.launch) == 0
    assert seen == [[(at, 8), (at, 2), (8192, 8)] for at in (4096, 12288, 4096)]


def test_a_thread_without_a_context_encodes_in_that_of_the_device(machine):
    used = driver.driver()
    frame = TensorMapFrame(used, used.load(b".entry", "kernel", 0, 0, "test"), (1, 1, 1, 32, 1, 1), 0, 2, {1: MAP})
    machine.set(needs_context=2)
    frame.slots[1] = 4096
    assert used.current_context() == 0
    assert frame.launch() == 201  # the launch itself, which is repeated in the context
    assert Encoded.from_address(frame.parameter(1)).address == 4096


def test_addresses_that_return_need_no_driver(machine):
    used = driver.driver()
    frame = TensorMapFrame(used, used.load(b".entry", "kernel", 0, 0, "test"), (1, 1, 1, 32, 1, 1), 0, 2, {1: MAP})
    seen = []
    machine.kernels["kernel"] = lambda parameters, grid: seen.append(Encoded.from_address(parameters[1]).address)
    replaced = ctypes.c_int.in_dll(machine.library, "stand_in_replaced")
    before = replaced.value
    for address in (4096, 8192, 4096, 8192, 4096):
        frame.slots[1] = address
        assert used.within(0, frame.launch) == 0
    assert seen == [4096, 8192, 4096, 8192, 4096] and replaced.value == before + 1
    found = Encoded.from_address(frame.parameter(1))
    assert (list(found.sizes[:2]), list(found.box[:2]), found.strides[0]) == ([72, 40], [64, 8], 144)
    moved = [4096 * n for n in range(1, 2 * MAPS_KEPT)]
    for address in (*moved, *moved):
        frame.slots[1] = address
        assert used.within(0, frame.launch) == 0
    assert seen[5:] == [*moved, *moved] and len(frame._kept[1][1]) <= MAPS_KEPT


def test_an_array_that_is_not_aligned_is_the_driver_s_to_refuse(machine):
    memory = (ctypes.c_char * 256)()
    place = -(-ctypes.addressof(memory) // 64) * 64
    with pytest.raises(LaunchError, match=r"encoding TensorMap\(dtype='bf16'.* at 0x1008 failed"):
        encode(driver.driver(), MAP, 0x1008, place)
