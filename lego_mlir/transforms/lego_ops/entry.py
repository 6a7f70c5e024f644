"""The way in: a module without lego operations loads nothing of their lowering, which needs SymPy and the provers."""

from __future__ import annotations


def plain(text: str, name: str = "-") -> str:
    """The module `text` in upstream MLIR: `without_lego` where it uses the dialect, otherwise the text itself."""
    if "lego." not in text:
        return text  # most modules: not even the patterns are compiled
    from lego_mlir.transforms.lego_ops.op_forms import mentions_lego

    if not mentions_lego(text):
        return text
    from lego_mlir.transforms.lego_ops.without_lego import without_lego

    return without_lego(text, name)
