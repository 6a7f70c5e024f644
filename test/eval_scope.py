"""The names that a layout's repr uses."""

from lego_mlir import layout


def names():
    return {name: getattr(layout, name) for name in layout.__all__}
