"""Fixtures of the runtime's tests."""

from product_device import device

__all__ = ["device"]
