"""Fixtures of the runtime's tests."""

from product_device import cache_folder, device

__all__ = ["cache_folder", "device"]
