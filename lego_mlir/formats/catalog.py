"""The catalogue of storage formats: a name, a function of sizes, what the sizes must be multiples of, and the source.

>>> entry = FORMATS["vllm.marlin"]
>>> entry.symbolic().check()
Proved(by='each stride exceeds the reach of the smaller ones, by arithmetic; arithmetic')
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import signature
from typing import Final

from lego_mlir.errors import LayoutError, did_you_mean
from lego_mlir.expr.sizes import size
from lego_mlir.formats.codings import Coding
from lego_mlir.formats.storage_format import StorageFormat
from lego_mlir.formats.stored_fields import BITS, stored
from lego_mlir.layout.canonical import Size, SizeLike, product

Maker = Callable[..., StorageFormat]


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """One format: `make(**sizes, **options)`. `multiples` has the sizes, each with the number that divides it."""

    name: str
    make: Maker
    multiples: Mapping[str, int]
    title: str
    source: str

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of its sizes and options."""
        own = [name for name, p in signature(self.make).parameters.items() if p.kind is not p.VAR_KEYWORD]
        return (*(name for name in self.multiples if name not in own), *own)

    def __call__(self, **sizes: SizeLike) -> StorageFormat:
        """The format of these sizes. Raises LayoutError for a size that is missing, unknown or not divisible."""
        if unknown := sizes.keys() - set(self.parameters):
            raise LayoutError(f"{self.name} takes {sorted(self.parameters)}, not {sorted(unknown)}")
        for name, multiple in self.multiples.items():
            if name not in sizes:
                raise LayoutError(f"{self.name} needs the size {name}, a multiple of {multiple}")
            given = sizes[name]
            if isinstance(given, int) and (given < 1 or given % multiple):
                raise LayoutError(f"{self.name}: {name} = {given} must be a multiple of {multiple}")
        return self.make(**sizes)

    def symbolic(self) -> StorageFormat:
        """The format of all sizes at once."""
        return self(**{name: size(name, min=n, multiple_of=n) for name, n in self.multiples.items()})

    def example(self, scale: int = 2) -> StorageFormat:
        """A small format: each size `scale` times the number that divides it, and one more for the first."""
        sizes = {name: n * (scale + (k == 0)) for k, (name, n) in enumerate(self.multiples.items())}
        return self(**sizes)


FORMATS: Final[dict[str, CatalogEntry]] = {}
"""Every format by its name."""


def storage(name: str, title: str, source: str, **multiples: int) -> Callable[[Maker], Maker]:
    """Register a function of sizes as a format."""

    def register(make: Maker) -> Maker:
        FORMATS[name] = CatalogEntry(name, make, multiples, title, source)
        return make

    return register


def woven(
    name: str, title: str, source: str, sizes: str, axes: str, order: str, parts: str = "weight", buffers: str = "data",
    coding: Callable[[str], Coding] | None = None,
) -> None:  # fmt: skip
    """Register a format by the order of its digits in memory, in which `*` is the part, of several stored alike.

    `sizes` names the size of each digit, `axes` the digits of each axis of a part, `order` all of them as they are in
    memory, outermost first; digits in parentheses are one dimension of the buffer. Gate and up projection, row by row:

    >>> woven("example", "rows in turn", "", "r=rows c=columns", "r | c", "(r *) c", "gate up")
    >>> found = FORMATS.pop("example")(rows=3, columns=4)
    >>> found.buffers["data"], found["gate"].bit(1, 0) // 16, found["up"].bit(0, 0) // 16
    (('f16', (6, 4)), 8, 4)

    With a buffer for each part, there is no `*`.
    """
    named = dict(word.split("=") for word in sizes.split())
    names, homes = parts.split(), buffers.split()
    outer, _, inner = order.replace("(", "").replace(")", "").partition("*")

    def make(dtype: str = "f16", **given: Size) -> StorageFormat:
        own = {digit: given[size] for digit, size in named.items()}
        digits = own | {"*": len(names)}
        bits = BITS[dtype] * product([digits[digit] for digit in inner.split()])
        around = {digit: len(names) * bits for digit in outer.split()[-1:] if inner}
        shape = tuple(
            product([digits[digit] for digit in group.strip("()").split()])
            for group in re.findall(r"\([^)]*\)|\S+", order)
        )
        fields = [
            stored(part, dtype, own, axes, outer + inner, k * bits if inner else 0, around, home)
            for k, (part, home) in enumerate(zip(names, homes * (len(names) // len(homes)), strict=True))
        ]
        return StorageFormat(name, fields, dict.fromkeys(homes, (dtype, shape)), coding=coding and coding(dtype))

    FORMATS[name] = CatalogEntry(name, make, dict.fromkeys(named.values(), 1), title, source)


def format_named(name: str) -> CatalogEntry:
    """The entry of a format. Raises LayoutError with the closest name."""
    if name not in FORMATS:
        raise LayoutError(
            f"no format is named {name!r}{did_you_mean(name, FORMATS) or f'; there are {sorted(FORMATS)}'}"
        )
    return FORMATS[name]
