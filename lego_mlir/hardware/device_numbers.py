"""A device in numbers, as its driver tells them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DeviceNumbers:
    """A device by its driver or data sheet: clocks and bytes of DRAM a microsecond, and the bytes of its L2 cache."""

    name: str
    multiprocessors: int
    mhz: float
    bandwidth: float
    l2_bytes: int
