"""Devices as data: files that read back, devices without a file, and what a driver tells of them."""

import json
import logging
from dataclasses import asdict, replace

import pytest

from lego_mlir.caches import time_model
from lego_mlir.choices import product_device, warpgroup_tiles
from lego_mlir.choices.product_counts import ProductSize
from lego_mlir.choices.product_device import REFERENCE, REFERENCE_DEVICE, device_for, device_from, device_with
from lego_mlir.choices.product_time import product_time
from lego_mlir.choices.warpgroup_tiles import Wanted
from lego_mlir.errors import UsageError
from lego_mlir.hardware import devices
from lego_mlir.hardware.device_numbers import DeviceNumbers
from lego_mlir.hardware.devices import numbers_of
from lego_mlir.runtime.products.problem import Problem
from lego_mlir.runtime.products.problem import numbers_of as numbers_at_hand
from lego_mlir.tuning.model import DEVICES

UNKNOWN = DeviceNumbers("a device without a file", 132, 1980.0, 2.4e6, 50_000_000)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of files that a test writes."""
    monkeypatch.setattr(devices, "FOLDER", tmp_path)
    kept = (devices.file_of, device_for)
    for function in kept:
        function.cache_clear()
    yield tmp_path
    for function in kept:
        function.cache_clear()


def test_a_device_reads_back_as_it_is_written():
    written = json.loads(json.dumps(asdict(REFERENCE_DEVICE)))
    assert asdict(device_from(written)) == asdict(REFERENCE_DEVICE)


def test_every_file_says_what_was_fitted_by_what_and_when():
    for what in ("products", "caches", "tuning", "transposes", "conversions", "moves", "attention"):
        files = devices.having(what)
        assert files
        for file in files:
            assert {"by", "date"} <= file[what]["fitted"].keys()
            assert devices.path_of(file["device"]).is_file()
    assert list(time_model.CHIPS) == list(DEVICES) == ["h200", "rtx2080super"]


def test_the_reference_is_itself_whatever_its_driver_tells():
    numbers = replace(numbers_of(REFERENCE), mhz=1.0, bandwidth=2.0)
    assert device_for(numbers) is REFERENCE_DEVICE is device_with(132)
    assert device_for(replace(numbers, multiprocessors=66)).sms == 66


def test_a_device_without_a_file_has_the_model_with_its_own_numbers(caplog):
    with caplog.at_level(logging.INFO, product_device.__name__):
        device_for.cache_clear()
        found = device_for(UNKNOWN)
        assert device_for(UNKNOWN) is found
    assert [record.getMessage() for record in caplog.records] == [
        "a device without a file: no constants were fitted to it; tiles are chosen by the model with its own numbers"
    ]
    assert (
        found.dram == REFERENCE_DEVICE.dram / 2
        and found.frequency == REFERENCE_DEVICE.frequency
        and found.paths == REFERENCE_DEVICE.paths
    )
    tile = warpgroup_tiles.choose(64, 16384, 16384, found)
    size = ProductSize(64, 16384, 16384, "NT")
    slow, fast = (product_time(size, tile, device, "rotated").microseconds for device in (found, REFERENCE_DEVICE))
    assert slow > 1.5 * fast  # B comes from memory


def test_a_made_up_device_is_one_file(folder):
    """Constants that make clusters expensive: another tile, with no change of code."""
    constants = {**asdict(REFERENCE_DEVICE), "sms": 100, "cluster": 50.0}
    file = {"device": "Made Up 9000", "alias": "made_up", "products": {"fitted": {}, "constants": constants}}
    devices.path_of("Made Up 9000").write_text(json.dumps(file))
    found = device_for(DeviceNumbers("Made Up 9000", 100, 1.0, 1.0, 1))
    assert (found.sms, found.cluster, found.dram) == (100, 50.0, REFERENCE_DEVICE.dram)
    here, there = (warpgroup_tiles.choose(5000, 5000, 5000, device) for device in (found, REFERENCE_DEVICE))
    assert here.sharing == 1 < there.sharing
    assert Wanted(5000, 5000, 5000, found).microseconds(there) > Wanted(5000, 5000, 5000).microseconds(there) + 40


def test_a_driver_tells_the_numbers_of_its_device(machine):
    machine.set(khz=1_980_000, memory_khz=2_619_000, bits=5120, l2=50 << 20)
    found = numbers_at_hand(("cuda", 0))
    assert found == DeviceNumbers("stand-in", 132, 1980.0, pytest.approx(3_352_320.0), 50 << 20)
    problem = Problem(4096, 4096, 4096, "f16", "f16", "NT", "sm_90a", 132, numbers=found)
    assert problem.place.dram == pytest.approx(REFERENCE_DEVICE.dram * 3.35232 / 4.8)
    assert replace(problem, numbers=None).place is REFERENCE_DEVICE


def test_a_driver_that_tells_less(machine):
    machine.set(khz=1_980_000)
    assert numbers_at_hand(("cuda", 0)) is None
    assert numbers_at_hand(("cpu", 0)) is None


def test_a_device_that_nothing_was_fitted_to_is_refused_by_name():
    with pytest.raises(
        UsageError, match="no constants of tuning were fitted to NVIDIA B200; there are those of NVIDIA H2"
    ):
        devices.constants_of("NVIDIA B200", "tuning")
