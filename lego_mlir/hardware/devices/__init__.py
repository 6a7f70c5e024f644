"""Devices as data: a file for each, with its numbers, and what was fitted to it, by which runs, and when.

    NVIDIA-H200.json    {"device": .., "alias": "h200", "numbers": .., "products": {"fitted": .., "constants": ..}, ..}

The tools that fit write the files (`bench/product_fit.py fit`); code knows the names of quantities only. A device is
looked up by its name, as the driver has it. One without a file has the model with its own numbers, and a line of the
log says so once; `lego-mlir doctor` names the files.

>>> sorted(constants_of("NVIDIA H200", "products")["paths"])
['mma.sync', 'warpgroups']
>>> numbers_of("NVIDIA H200").multiprocessors, [file["alias"] for file in having("caches")]
(132, ['h200', 'rtx2080super'])
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Final

from lego_mlir.aliases import Json
from lego_mlir.errors import UsageError
from lego_mlir.hardware.device_numbers import DeviceNumbers

FOLDER: Final = Path(__file__).parent
REFERENCE: Final = "NVIDIA H200"
"""The device whose constants are taken for those of a device without a file, and of kernels for any device."""


def path_of(device: str) -> Path:
    """The file of a device by its name, as the driver has it."""
    return FOLDER / f"{device.replace(' ', '-')}.json"


@cache
def file_of(device: str) -> Json:
    """What is known of a device; nothing without a file."""
    path = path_of(device)
    found: Json = json.loads(path.read_text()) if path.is_file() else {}
    return found


def having(what: str) -> list[Json]:
    """The files of the devices to which something was fitted, by their short names."""
    found = (json.loads(path.read_text()) for path in FOLDER.glob("*.json"))
    return sorted((one for one in found if what in one), key=lambda one: str(one["alias"]))


def constants_of(device: str, what: str) -> Json:
    """The constants of a device that were fitted for something. Raises UsageError for a device without them."""
    found = file_of(device)
    if what not in found:
        known = ", ".join(one["device"] for one in having(what))
        raise UsageError(f"no constants of {what} were fitted to {device}; there are those of {known}")
    return found[what]["constants"]


def reference(what: str) -> Json:
    """The constants of the reference."""
    return constants_of(REFERENCE, what)


def numbers_of(device: str) -> DeviceNumbers:
    """The numbers of a device that has a file."""
    return DeviceNumbers(device, **file_of(device)["numbers"])


REFERENCE_SMS: Final = numbers_of(REFERENCE).multiprocessors
"""The multiprocessors of the reference, which are assumed where no device is given."""
