"""What was fitted to devices: a file for each, with the run and the date of its constants and their sources.

    NVIDIA-H200.json    {"products": {"fitted": .., "sources": .., "constants": ..}}

The tool that fits writes the file; code knows the names of quantities only.

>>> sorted(constants_of("NVIDIA H200", "products")["paths"])
['mma.sync', 'warpgroups']
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lego_mlir.errors import UsageError

if TYPE_CHECKING:
    from lego_mlir.aliases import Json

FOLDER: Final = Path(__file__).parent


def path_of(device: str) -> Path:
    """The file of a device by its name, as the driver has it."""
    return FOLDER / f"{device.replace(' ', '-')}.json"


def known() -> list[str]:
    """The devices that have a file."""
    return sorted(json.loads(path.read_text())["device"] for path in FOLDER.glob("*.json"))


def constants_of(device: str, what: str) -> Json:
    """The constants of a device that were fitted for something. Raises UsageError for a device without them."""
    path = path_of(device)
    found = json.loads(path.read_text()) if path.is_file() else {}
    if what not in found:
        raise UsageError(f"no constants of {what} were fitted to {device}; there are those of {', '.join(known())}")
    return found[what]["constants"]
