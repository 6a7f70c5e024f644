"""The rest of a space as the list of `triton.autotune`, so that a rendered kernel is tuned by Triton itself.

>>> from lego_mlir.tuning.candidates import Configuration
>>> kept = [Configuration.of({"BLOCK": 128, "num_warps": 4, "num_stages": 3}), Configuration.of({"BLOCK": 64})]
>>> print(autotune_text(kept, ["M", "N"]))
@triton.autotune(
    configs=[
        triton.Config({'BLOCK': 128}, num_warps=4, num_stages=3),
        triton.Config({'BLOCK': 64}),
    ],
    key=['M', 'N'],
)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lego_mlir.errors import UsageError
from lego_mlir.tuning.building import LAUNCH_OPTIONS
from lego_mlir.tuning.candidates import PLAIN, Configuration, Timing

WITHIN: Final = 1.02
"""A configuration survives if it takes at most this multiple of the best time at some size."""


def survivors(timings: Sequence[Sequence[Timing]], within: float = WITHIN) -> list[Configuration]:
    """The measured configurations that are the fastest at some size, or about as fast; those of the first sizes first.

    `timings` are those of each size.
    """
    found: dict[str, Configuration] = {}
    for measured in timings:
        good = sorted((t for t in measured if not t.failure), key=lambda timing: timing.median)
        for timing in good:
            if timing.median <= within * good[0].median:
                found.setdefault(timing.configuration.key, timing.configuration)
    return list(found.values())


def autotune_text(kept: Sequence[Configuration], key: Sequence[str]) -> str:
    """The decorator of a Triton kernel whose constexprs are the names of the space.

    Raises UsageError for values that are not numbers, strings or booleans: a layout is part of the rendered text.
    """
    lines = []
    for configuration in kept:
        for name, value in configuration.items():
            if not isinstance(value, PLAIN):
                raise UsageError(
                    f"triton.autotune chooses among numbers, and {name}={value!r} is part of the rendered text; tune "
                    "it with lego-mlir tune, or leave it out of the space"
                )
        constants = {name: value for name, value in configuration.items() if name not in LAUNCH_OPTIONS}
        options = "".join(f", {name}={configuration[name]}" for name in LAUNCH_OPTIONS if name in configuration)
        lines.append(f"        triton.Config({constants!r}{options}),\n")
    return f"@triton.autotune(\n    configs=[\n{''.join(lines)}    ],\n    key={list(key)!r},\n)"
