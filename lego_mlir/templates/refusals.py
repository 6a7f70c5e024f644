"""What the builders of kernels refuse at the door, with the values and the remedy.

A layout of other sizes than a kernel's own still renders, and reads the wrong elements; a block that no GPU can launch
is found only on the GPU. So the builders ask first:

>>> require_dims("relayout", "destination", (8, 8), (4, 4))
Traceback (most recent call last):
lego_mlir.errors.TemplateError: relayout: destination must be 4 x 4, got 8 x 8
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Final

from lego_mlir.errors import TemplateError

MAX_THREADS: Final = 1024  # of a block, every architecture; CUDA C++ Programming Guide, compute capabilities


def require_positive(kernel: str, **numbers: Any) -> None:
    """Every number is at least 1; a `lego.size` is by definition."""
    for name, number in numbers.items():
        if isinstance(number, int) and number < 1:
            raise TemplateError(f"{kernel}: {name} must be at least 1, got {number}")


def require_parts(kernel: str, name: str, given: Sequence[Any], parts: Sequence[str]) -> None:
    """A tuple such as a tile has these parts, each at least 1."""
    if len(given) != len(parts):
        raise TemplateError(f"{kernel}: {name} is ({', '.join(parts)}), got {tuple(given)}")
    require_positive(kernel, **{f"{name}'s {part}": number for part, number in zip(parts, given, strict=True)})


def require_one_of(kernel: str, name: str, given: str, choices: Sequence[str]) -> None:
    """A name is one of those that the kernel knows."""
    if given not in choices:
        raise TemplateError(f"{kernel}: {name} is one of {', '.join(choices)}, got {given!r}")


def require_dims(kernel: str, name: str, given: Sequence[Any], needed: Sequence[Any]) -> None:
    """A layout has the sizes that the kernel needs, as far as both are numbers."""
    both = list(zip(given, needed, strict=False))
    if len(given) != len(needed) or any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in both):
        shown = (" x ".join(map(str, dims)) for dims in (needed, given))
        raise TemplateError("{}: {} must be {}, got {}".format(kernel, name, *shown))


def require_threads(kernel: str, block: Sequence[int]) -> None:
    """A block has no more threads than a GPU can launch."""
    if prod(block) > MAX_THREADS:
        raise TemplateError(
            f"{kernel}: a block of {' x '.join(map(str, block))} has {prod(block)} threads, and at most {MAX_THREADS} "
            "can be launched; take a smaller one"
        )
