"""The time that a tuning may take: seconds, or text with a unit. Loads nothing: packed candidates need no front end."""

from __future__ import annotations

from typing import Final

from lego_mlir.errors import UsageError

UNITS: Final = {"s": 1, "m": 60, "h": 3600}


def seconds_of(budget: float | str) -> float:
    """Seconds from a number, or from text with a unit. Raises UsageError for anything else.

    >>> seconds_of("10m"), seconds_of("90"), seconds_of("1.5h")
    (600.0, 90.0, 5400.0)
    """
    text = str(budget).strip()
    number, unit = (text[:-1], text[-1]) if text[-1:] in UNITS else (text, "s")
    try:
        seconds = float(number) * UNITS[unit]
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise UsageError(f"a budget is a time such as 90s, 10m or 1h, got {budget!r}")
    return seconds
