"""The names of shared tiles in a module, which reports show before and after transform scripts.

A tile that the function declares has its name as the attribute `lego.name`, beside its alignment. A tile that a script
has turned into `memref.alloc` or a view of one dynamic block has it in the location, which LLVM's passes keep where
they replace an operation and drop unknown attributes:

    %As = memref.alloc() : memref<2x64x32xf16, #gpu.address_space<workgroup>> loc("As"("spec.py":12:1))
"""

from __future__ import annotations

import re
from typing import Final

from lego_mlir import bindings
from lego_mlir.aliases import Location, Op

NAME: Final = "lego.name"
SCRATCH: Final = "lego.scratch"  # of a tile that conversions, scans and reductions exchange through
ATTRIBUTES: Final = "workgroup_attrib_attrs"


def declared(function: Op, count: int) -> tuple[str | None, ...]:
    """The name of each shared tile that a function declares, None for one without a name."""
    names: list[str | None] = [None] * count
    if ATTRIBUTES in function.attributes:
        for number, entry in enumerate(function.attributes[ATTRIBUTES]):
            if NAME in entry:
                names[number] = str(entry[NAME].value)
    return tuple(names)


def of_location(location: Location) -> str | None:
    """The name in a location, None where it has only a line."""
    found = re.match(r'loc\("([^"\\]*)"\(', str(location))
    return None if found is None else found[1]


def located(location: Location, name: str | None) -> Location:
    """The location with a name around it."""
    return location if name is None else bindings.load().ir.Location.name(name, location)
